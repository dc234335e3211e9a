"""`scripts/new_rule.py` writes two files that load, take the next code, and are not yet a finished rule."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignore)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "new_rule.py", tmp_path / "scripts")
    return tmp_path


def run(tree, *words):
    return subprocess.run(
        [sys.executable, str(tree / "scripts" / "new_rule.py"), *words], capture_output=True, text=True, cwd=tree
    )


def test_two_files_that_load(tree):
    r = run(tree, "loader/made-up-thing")
    assert r.returncode == 0, r.stderr
    written = [tree / line for line in r.stdout.split()]
    assert [p.name for p in written] == ["made_up_thing.py", "made_up_thing.md"]
    code = (
        f"import sys; sys.path.insert(0, {str(tree / 'src')!r})\n"
        "from torchvet.check.rules import all_rules\n"
        "rules = all_rules(); r = rules['made-up-thing']\n"
        "assert [x.code for x in rules.values()].count(r.code) == 1\n"
        "assert r.page().startswith(f'# {r.name} ({r.code})')\n"
        "print(r.code)\n"
    )
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.startswith("TV2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere/made-up-thing"], "no family nowhere"),
        (["loader/Avoid"], "two to five words"),
        (["loader/too-many-workers"], "already"),
        ([], "python scripts/new_rule.py"),
    ],
)
def test_mistakes_are_explained(tree, words, said):
    r = run(tree, *words)
    assert r.returncode == 2 and said in r.stderr
    assert not (tree / "src" / "torchvet" / "check" / "rules" / "nowhere").exists()
