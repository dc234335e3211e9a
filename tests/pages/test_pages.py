"""Every code block of every rule's page, checked as `torchvet check` would check it."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import pytest
from page_blocks import known, programs

import torchvet.check.rules as rules
from torchvet.cli import main

RULES = Path(rules.__file__).parent
ALWAYS_WRONG = {"syntax-error", "internal-error"}


def collect():
    for page in sorted(RULES.glob("*/*.md")):
        rule = page.stem.replace("_", "-")
        seen: dict[str, int] = {}
        for program in programs(page.read_text("utf-8")):
            seen[program.heading] = n = seen.get(program.heading, 0) + 1
            title = program.heading if n == 1 else f"{program.heading} ({n})"
            yield pytest.param(page, rule, program, id=f"{rule}: {title}")


def check(folder: Path) -> list[dict]:
    before = os.getcwd()
    out, err = io.StringIO(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["check", "--no-cache", "--lang", "en", "--output-format", "json", "."])
    finally:
        os.chdir(before)
    assert code in (0, 1, 2) and out.getvalue(), f"exit {code}: {err.getvalue()}"
    return json.loads(out.getvalue())["findings"]


@pytest.mark.parametrize(("page", "rule", "program"), list(collect()))
def test_page(page, rule, program, tmp_path):
    for name, text in program.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    findings = check(tmp_path)
    found = {(f["path"], f["line"], f["severity"], f["name"]): f for f in findings}
    places = {(path, line, name) for path, line, _, name in found}

    def at(file, line):
        return f"{page.relative_to(RULES)}:{program.page_line(file, line)}"

    excused = {(file, line, name) for file, line, _, name in program.todo}
    for file, line, word, name in sorted(program.todo):
        if ((file, line, name) in places) == (word == "todo-ok"):
            known["known false alarms" if word == "todo-ok" else "known misses"].append(at(file, line))
        else:
            known["marked todo but repaired"].append(at(file, line))

    wrong = []
    for file, line, severity, name in sorted(program.expected):
        if (file, line, severity, name) not in found:
            others = [f"{f['severity']}[{f['name']}]" for k, f in found.items() if k[:2] == (file, line)]
            wrong.append(f"{at(file, line)}: expected {severity}[{name}], found {', '.join(others) or 'nothing'}")
    for (file, line, severity, name), f in sorted(found.items()):
        if (file, line, severity, name) in program.expected or (file, line, name) in excused:
            continue
        if name == rule or (name in ALWAYS_WRONG and rule not in ALWAYS_WRONG):
            wrong.append(f"{at(file, line)}: unexpected {severity}[{name}] {f['message']}")
    assert not wrong, "\n" + "\n".join(wrong)
