"""Checks of small native sources."""

from __future__ import annotations

import contextlib
import io
import json
import os

from torchvet.cli import main


def findings(folder, files: dict[str, str], *options: str) -> list[tuple[str, int, str, str]]:
    """[(path, line, severity, rule)] of a check of these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    before = os.getcwd()
    out = io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main(["check", "--no-cache", "--isolated", "--lang", "en", "--output-format", "json", *options, "."])
    finally:
        os.chdir(before)
    return [(f["path"], f["line"], f["severity"], f["name"]) for f in json.loads(out.getvalue())["findings"]]


def loud(folder, files: dict[str, str]) -> list[tuple[str, int, str]]:
    """[(path, line, rule)] of its errors and warnings."""
    return [(p, line, name) for p, line, severity, name in findings(folder, files) if severity != "note"]


def marked(text: str, name: str = "a.cu") -> list[tuple[str, int, str]]:
    """The findings that a text's `// rule-name` marks ask for."""
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        if "//!" in line:
            out += [(name, number, rule) for rule in line.split("//!")[1].split()]
    return out
