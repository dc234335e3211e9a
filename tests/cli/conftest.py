"""A small stand-in for the analysis, so that the command line is tested on its own: it finds what a line says.

total += loss      accumulated-graph (error, likely, safe fix: .detach())
risky()            stored-graph (warning, likely, unsafe fix: careful())
maybe()            stored-graph (warning, possible)
hint()             empty-cache-every-step (note, certain)
guarded()          rank-guarded-collective (error); its related place is line 1 of helper.py
crash()            internal-error
"""

from __future__ import annotations

import os
import re

import pytest

from torchvet.check import rules as rules_package
from torchvet.check.engine import Result, common_root
from torchvet.check.gate import suppress
from torchvet.check.source.walk import EXCLUDED, walk
from torchvet.findings import Edit, Finding, Fix, Note, Span, Text, fingerprints


class FakeRule:
    def __init__(self, code, name, family, severity, confidence="likely", fixable=""):
        self.code, self.name, self.family, self.severity = code, name, family, severity
        self.confidence, self.fixable, self.since = confidence, fixable, "0.1"
        self.summary = Text(f"what {name} is", f"{name} 是什么")
        self.words = frozenset()
        self.run = None

    def page(self):
        return f"# {self.name} ({self.code})\n\nOne line.\n\n## Why\n\nBecause.\n\n## 中文\n\n一句话。\n"


RULES = {
    r.name: r
    for r in (
        FakeRule("TV001", "unused-suppression", "tool", "note", "certain"),
        FakeRule("TV002", "bad-suppression", "tool", "error", "certain"),
        FakeRule("TV003", "syntax-error", "tool", "error", "certain"),
        FakeRule("TV005", "stale-baseline", "tool", "note", "certain"),
        FakeRule("TV009", "internal-error", "tool", "error", "certain"),
        FakeRule("TV101", "accumulated-graph", "graph", "error", fixable="safe"),
        FakeRule("TV102", "stored-graph", "graph", "warning", fixable="unsafe"),
        FakeRule("TV122", "empty-cache-every-step", "graph", "note", "certain"),
        FakeRule("TV401", "rank-guarded-collective", "collective", "error"),
    )
}

MESSAGE = Text("{what} keeps the graph", "{what} 保留了计算图", what="total")


def look(path: str, text: str) -> list[Finding]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        rows = [
            (r"total \+= (loss)$", "TV101", "likely"),
            (r"risky(\(\))", "TV102", "likely"),
            (r"maybe(\(\))", "TV102", "possible"),
            (r"hint(\(\))", "TV122", "certain"),
            (r"guarded(\(\))", "TV401", "likely"),
            (r"crash(\(\))", "TV009", "certain"),
        ]
        for pattern, code, confidence in rows:
            m = re.search(pattern, line.partition("  #")[0])
            if not m:
                continue
            rule = next(r for r in RULES.values() if r.code == code)
            fix = None
            if code == "TV101":
                end = m.end(1) + 1
                fix = Fix(Text("detach", "分离"), [Edit(number, end, number, end, ".detach()")])
            elif code == "TV102":
                name = Edit(number, m.start() + 1, number, m.start(1) + 1, "careful")
                fix = Fix(Text("be careful", "小心"), [name], safe=False)
            notes = (
                [Note(Span("helper.py", 1), Text("the others wait here", "其他 rank 在此等待"))]
                if code == "TV401"
                else []
            )
            span = Span(path, number, m.start() + 1, number, m.end() + 1)
            found.append(
                Finding(code, rule.name, rule.severity, confidence, span, MESSAGE, Text("detach it", "请分离"), notes, fix,
                        source=line)
            )  # fmt: skip
    return found


def fake_check(paths, options, *, stdin=None, stdin_name=None, progress=None, overlay=None):
    root = common_root(list(paths))
    result = Result(root)
    texts = {}
    if stdin is not None:
        texts[stdin_name or "<stdin>"] = stdin.decode()
    else:
        found = walk(
            paths, exclude=options.exclude or EXCLUDED, extend_exclude=options.extend_exclude,
            respect_gitignore=options.respect_gitignore, force_exclude=options.force_exclude, root=root,
        )  # fmt: skip
        for entry in found.files:
            with open(entry[1], encoding="utf-8-sig", newline="") as f:
                texts[entry[0]] = f.read()
    if progress:
        progress("walk")
    findings = [f for path, text in texts.items() for f in look(path, text)]
    fingerprints(findings)
    result.read_text = lambda path: texts.get(path, "")
    result.findings, result.suppressed = suppress.apply(findings, result.read_text, options, files=texts, rules=RULES)
    result.files = result.parsed = len(texts)
    result.looked_at = {"graph": 3}
    result.internal_errors = any(f.name == "internal-error" for f in findings)
    result.timing = [("walk", 0.001), ("accumulated-graph", 0.002)]
    return result


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The stand-in in place of the analysis, in an empty current folder with no settings and no CI around it."""
    monkeypatch.setattr("torchvet.check.engine.check", fake_check)
    monkeypatch.setattr(rules_package, "rule_names", lambda: {name: r.family for name, r in RULES.items()})
    monkeypatch.setattr(rules_package, "all_rules", lambda: dict(RULES))
    monkeypatch.setattr(rules_package, "rule", RULES.__getitem__)
    monkeypatch.setattr("torchvet.check.gate.select._code", lambda name, family: RULES[name].code)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.startswith(("TORCHVET_", "GITHUB_", "LC_")) or name in ("CI", "PRE_COMMIT", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    return folder


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def torchvet(capsys):
    """Run the command line in this process: `torchvet("check", ".")`."""
    from torchvet.cli import main

    def run(*words: str) -> Outcome:
        capsys.readouterr()
        code = main([str(w) for w in words])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run
