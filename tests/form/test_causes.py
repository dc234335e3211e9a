"""The form of every cause of `diagnose`: two files, one name, a known kind, a complete page, both languages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from page_form import sections

import torchvet.diagnose.causes as causes
from torchvet.diagnose.model import KINDS, all_causes

FOLDER = Path(causes.__file__).parent
CAUSES = all_causes()
SECTIONS = ("How it is recognised", "What to do", "中文")
PROGRAMS = {
    "docker", "systemctl", "dmesg", "scontrol", "compute-sanitizer", "py-spy", "nvidia-smi", "torchvet", "gdb", "ulimit",
    "sacct", "kubectl", "ibstat", "df", "ss",
}  # fmt: skip
"""First words of commands, which are the same in every language."""
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(params=sorted(CAUSES), ids=sorted(CAUSES))
def cause(request):
    return CAUSES[request.param]


def source(name: str) -> Path:
    return FOLDER / (name.replace("-", "_") + ".py")


def test_every_kind_has_a_cause():
    assert {c.kind for c in CAUSES.values()} == set(KINDS)


def test_every_page_has_a_cause():
    assert {p.stem.replace("_", "-") for p in FOLDER.glob("*.md")} == set(CAUSES)


def test_name_and_kind(cause):
    assert source(cause.name).is_file() and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cause.name)
    assert cause.kind in KINDS and cause.judge is not None
    assert cause.summary.en and not CHINESE.search(cause.summary.en) and CHINESE.search(cause.summary.zh)


def test_page(cause):
    page = cause.page()
    assert page.startswith(f"# {cause.name}\n")
    found = sections(page)
    assert [s for s in found if s in SECTIONS] == list(SECTIONS)
    assert all(found[s].strip() for s in SECTIONS) and CHINESE.search(found["中文"])
    assert page.split("\n\n")[1].strip(), "no sentence below the name"


def test_it_is_small(cause):
    assert source(cause.name).read_text("utf-8").count("\n") <= 120


@pytest.mark.parametrize("path", sorted((FOLDER.parent).rglob("*.py")), ids=lambda p: p.stem)
def test_messages_in_both_languages(path):
    """Whatever `diagnose` says, it says in English and Chinese, with fields of the English
    text (some stand for a plural, which Chinese has not)."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Text" and node.args
        ):
            continue
        words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if not words:
            continue
        at, en, zh = f"{path.name}:{node.lineno}", words[0], words[1] if len(words) > 1 else None
        if en.split(" ")[0] in PROGRAMS and not CHINESE.search(zh or ""):
            continue
        if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(r"{\w+}", "", en)):
            assert zh and CHINESE.search(zh), f"{at}: {en!r} has no Chinese"
        if zh:
            assert set(re.findall(r"{(\w+)", zh)) <= set(re.findall(r"{(\w+)", en)), f"{at}: a field only in Chinese"
