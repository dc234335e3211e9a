"""The form of every cause: two files, one name, a complete page, messages in both languages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import torchvet.diagnose.causes as causes
from torchvet.diagnose.model import KINDS, all_causes

FOLDER = Path(causes.__file__).parent
CAUSES = all_causes()
SECTIONS = ("How it is recognised", "What to do", "中文")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(params=sorted(CAUSES))
def cause(request):
    return CAUSES[request.param]


def source(name: str) -> Path:
    return FOLDER / (name.replace("-", "_") + ".py")


def test_every_page_has_a_cause():
    assert {p.stem.replace("_", "-") for p in FOLDER.glob("*.md")} == set(CAUSES)


def test_name_and_kind(cause):
    assert source(cause.name).exists(), "CAUSE.name is not the name of its file"
    assert cause.kind in KINDS or cause.kind == cause.name
    assert cause.judge is not None, "no function is registered with @CAUSE.check"
    assert cause.summary.en and not CHINESE.search(cause.summary.en) and CHINESE.search(cause.summary.zh)


def test_page_has_its_sections(cause):
    from page_form import sections

    page = cause.page()
    assert page.startswith(f"# {cause.name}\n"), "the first line is not `# name`"
    found = sections(page)
    assert not [s for s in SECTIONS if not found.get(s, "").strip()], "sections missing or empty"
    assert CHINESE.search(found["中文"]) and "TODO" not in page


def test_cause_is_small(cause):
    assert source(cause.name).read_text("utf-8").count("\n") <= 120


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_every_sentence_has_both_languages(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Text" and node.args
        ):
            continue
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if (
            len(texts) != len(node.args)
            or not re.search(r"[a-z]{3} [a-z]{2}", texts[0])
            or (len(texts) > 1 and texts[0] == texts[1])
        ):
            continue  # a command, or words that come from the evidence
        assert len(texts) == 2, f"line {node.lineno}: one language only"
        # verbs that follow the number ("waits", "wait") are fields of the English text only
        assert set(re.findall(r"\{(\w+)", texts[1])) <= set(re.findall(r"\{(\w+)", texts[0])), (
            f"line {node.lineno}: other fields"
        )
        assert not CHINESE.search(texts[0]), f"line {node.lineno}"
        assert CHINESE.search(texts[1]), f"line {node.lineno}: no Chinese"
