"""Selectors, patterns, and what is shown."""

from __future__ import annotations

import pytest

from torchvet.check.config import Options
from torchvet.check.gate.select import Catalogue, path_matches, selected, shown
from torchvet.check.gate.verdict import exit_code
from torchvet.findings import Finding, Span, Text, UserError


class Rule:
    def __init__(self, code, family):
        self.code, self.family = code, family


RULES = {
    "unused-suppression": Rule("TV001", "tool"),
    "accumulated-graph": Rule("TV101", "graph"),
    "stored-graph": Rule("TV102", "graph"),
    "synchronise-every-step": Rule("TV121", "graph"),
    "too-many-workers": Rule("TV202", "loader"),
}


def chosen(**options) -> str:
    """Codes without TV, of the rules that are not about the check itself."""
    names = selected(Options(**options), RULES)
    return " ".join(RULES[n].code[2:] for n in names if RULES[n].family != "tool")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "101 102 121 202"),
        ({"select": ["all"]}, "101 102 121 202"),
        ({"select": ["TV"]}, "101 102 121 202"),
        ({"select": ["TV1"]}, "101 102 121"),
        ({"select": ["tv10"]}, "101 102"),
        ({"select": ["graph"]}, "101 102 121"),
        ({"select": ["stored-graph", "TV202"]}, "102 202"),
        ({"ignore": ["graph"]}, "202"),
        ({"select": ["graph"], "ignore": ["graph"]}, ""),
        ({"select": ["TV101"], "ignore": ["graph"]}, "101"),
        ({"select": ["all"], "ignore": ["TV1"]}, "202"),
        ({"select": ["TV1"], "ignore": ["TV10"]}, "121"),
        ({"select": ["TV10"], "ignore": ["TV1"]}, "101 102"),
        ({"select": ["loader"], "extend_select": ["TV101"]}, "101 202"),
        ({"ignore": ["all"], "extend_select": ["TV101"]}, "101"),
    ],
)
def test_the_most_specific_selector_decides(options, expected):
    assert chosen(**options) == expected


def test_findings_about_the_check_itself_stay_unless_ignored():
    assert "unused-suppression" in selected(Options(select=["TV101"]), RULES)
    assert "unused-suppression" not in selected(Options(ignore=["TV001"]), RULES)


def test_codes_are_those_of_the_rules():
    from torchvet.check.rules import all_rules

    assert Catalogue().codes == {name: rule.code for name, rule in all_rules().items()}


@pytest.mark.parametrize("word", ["TV9", "TV1011", "graphs2", "", "F401", "TV101x"])
@pytest.mark.parametrize("setting", ["select", "ignore", "extend_select"])
def test_unknown_selectors(word, setting):
    with pytest.raises(UserError, match="unknown rule"):
        selected(Options(**{setting: [word]}), RULES)


def test_unknown_selectors_in_per_file_ignores_are_found_before_any_finding():
    with pytest.raises(UserError, match="unknown rule TV9"):
        selected(Options(per_file_ignores={"x": ("TV9",)}), RULES)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("tests", "tests/a.py", True),
        ("tests/", "a/tests/b/c.py", True),
        ("tests/*", "tests/a/b.py", True),
        ("tests/*", "src/tests/a.py", False),
        ("tests/**", "tests/a.py", True),
        ("**/tests/*", "src/tests/a.py", True),
        ("**/tests/*", "tests/a.py", True),
        ("src/**/test.py", "src/test.py", True),
        ("src/**/test.py", "src/a/b/test.py", True),
        ("*.ipynb", "a/b.ipynb", True),
        ("train.py", "a/train.py", True),
        ("./a/train.py", "a/train.py", True),
        ("a/train.py", "b/a/train.py", False),
        ("a/*.py", "a/b.pyx", False),
        ("!src/*", "tests/a.py", True),
        ("!src/*", "src/a.py", False),
        ("a/b", "a/b/c.py", True),
        ("a/b", "a/bc.py", False),
    ],
)
def test_patterns(pattern, path, matches):
    assert path_matches(path, pattern) == matches


def finding(name="accumulated-graph", severity="error", confidence="likely", path="a.py"):
    return Finding("TV101", name, severity, confidence, Span(path, 1), Text("m"))


def test_per_file_ignores_of_a_file_count_from_its_folder(tmp_path):
    options = Options(per_file_ignores={"pkg/tests/*": ("graph",)})
    options.config_dir = str(tmp_path)
    base = str(tmp_path / "pkg")
    assert shown([finding(path="tests/a.py"), finding(path="b.py")], options, base, RULES)[0].span.path == "b.py"
    options.given = frozenset(["per-file-ignores"])  # those of the command line count as the paths are shown
    assert len(shown([finding(path="tests/a.py")], options, base, RULES)) == 1


def test_a_failure_of_torchvet_is_always_shown():
    options = Options(select=["TV202"], ignore=["all"], confidence="certain", per_file_ignores={"*": ("all",)})
    assert shown([finding("internal-error", confidence="possible")], options, ".", RULES)
    assert not shown([finding()], options, ".", RULES)


@pytest.mark.parametrize(
    ("severities", "options", "code"),
    [
        ([], {}, 0),
        (["note"], {}, 0),
        (["note"], {"strict": True}, 1),
        (["warning"], {}, 1),
        (["error", "note"], {}, 1),
        (["error"], {"exit_zero": True}, 0),
        ([], {"internal_errors": True}, 2),
        (["error"], {"internal_errors": True, "exit_zero": True}, 2),
    ],
)
def test_verdict(severities, options, code):
    assert exit_code([finding(severity=s) for s in severities], **options) == code


def test_an_internal_error_is_exit_2():
    assert exit_code([finding("internal-error")], exit_zero=True) == 2
