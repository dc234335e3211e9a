"""The form of every rule: two files, one name, one code, a complete page, messages in both languages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import torchvet.check.rules as rules
from torchvet.findings import CONFIDENCES, SEVERITIES

RULES = Path(rules.__file__).parent
NAMES = rules.rule_names()
SECTIONS = ("What it finds", "Why", "Bad", "Good", "When it stays silent", "Fix", "References", "中文")
# findings about the run itself (a file that cannot be read) have no bad and good code
OF_TOOL = ("What it finds", "Why", "Fix", "中文")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def source(name: str) -> Path:
    return RULES / NAMES[name] / (name.replace("-", "_") + ".py")


@pytest.fixture(params=sorted(NAMES), ids=sorted(NAMES))
def rule(request):
    return rules.rule(request.param)


def test_there_are_rules():
    assert len(NAMES) >= 10


def test_codes_are_unique():
    codes = [rules.rule(n).code for n in NAMES]
    assert sorted(codes) == sorted(set(codes))


def test_name_code_and_words(rule):
    family = NAMES[rule.name]  # KeyError: RULE.name is not the name of its file
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){1,5}", rule.name)
    assert re.fullmatch(rf"TV{rules.FAMILIES[family]}\d\d", rule.code), f"{rule.code} is not of the family {family}"
    assert rule.severity in SEVERITIES and rule.confidence in CONFIDENCES
    assert rule.fixable in ("", "safe", "unsafe")
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", rule.since)
    if family != "tool":
        assert rule.run is not None, "no function is registered with @RULE.check"


def test_summary_in_both_languages(rule):
    assert rule.summary.en and not CHINESE.search(rule.summary.en)
    assert CHINESE.search(rule.summary.zh), "the summary has no Chinese"


def test_page_has_its_sections(rule):
    from page_form import sections

    page = rule.page()
    assert page.startswith(f"# {rule.name} ({rule.code})\n"), "the first line is not `# name (CODE)`"
    found = {"Why" if h.startswith("Why ") else h: text for h, text in sections(page).items()}  # "Why it hangs"
    wanted = OF_TOOL if rule.family == "tool" else SECTIONS
    missing = [s for s in wanted if not found.get(s, "").strip()]
    assert not missing, f"sections missing or empty: {', '.join(missing)}"
    order = [s for s in found if s in wanted]
    assert order == list(wanted), f"sections in another order than {wanted}"
    assert "TODO" not in page
    assert CHINESE.search(found["中文"])
    if rule.family != "tool":
        assert re.search(rf"(error|warning|note): \[{rule.name}\]", found["Bad"]), "no expected finding under Bad"
        assert "```" in found["Good"], "no code under Good"
        assert not re.search(rf"(?<!-)\b(error|warning|note): \[{rule.name}\]", found["Good"]), "a finding under Good"
    for number, line in enumerate(page.split("\n"), 1):
        assert len(line.encode()) <= 400, f"line {number} is very long"


def test_rule_is_small(rule):
    lines = source(rule.name).read_text("utf-8").count("\n")
    assert lines <= 120, f"{lines} lines: what a rule asks belongs into a flow"


def texts_of(path: Path):
    """(line, English template, Chinese template or None) of every Text(...) or RULE.text(...) with literal English."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("Text", "text") and node.args and isinstance(node.args[0], ast.Constant):
                words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                if words:
                    yield node.lineno, words[0], words[1] if len(words) > 1 else None


def test_messages_in_both_languages(rule):
    for line, en, zh in texts_of(source(rule.name)):
        at = f"{source(rule.name).name}:{line}"
        fields = set(re.findall(r"{(\w+)", en))
        if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(r"{\w+}", "", en)):  # more than names and code
            assert zh, f"{at}: {en!r} has no Chinese"
            assert CHINESE.search(zh), f"{at}: {zh!r} is not Chinese"
        if zh:
            assert set(re.findall(r"{(\w+)", zh)) == fields, f"{at}: other fields in the Chinese text"
        assert not en.endswith("."), f"{at}: a message ends without a full stop"


def test_rules_import_their_interface_only(rule):
    tree = ast.parse(source(rule.name).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            raise AssertionError(f"line {node.lineno}: a rule imports .._api only")
        if isinstance(node, ast.ImportFrom):
            names = (node.level, node.module)
            typing_only = (2, "project"), (0, "collections.abc"), (0, "typing")
            allowed = names in ((2, "_api"), (0, "__future__"), *typing_only) or (
                # types of what a flow hands out
                node.level == 3 and (node.module or "").startswith(("flow", "program.model", "findings"))
            )
            assert allowed, f"line {node.lineno}: a rule imports .._api only, not {node.module}"
            if names in typing_only or node.level == 3:
                assert node.col_offset > 0, f"line {node.lineno}: belongs under `if TYPE_CHECKING`"


def test_every_page_has_a_rule():
    pages = {p.stem.replace("_", "-") for p in RULES.glob("*/*.md")}
    assert pages == set(NAMES)
