"""Which files are ignored: git is asked about the same trees, and must give the same answer."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from torchvet.check.source.walk import walk

if not shutil.which("git"):
    pytest.skip("git is not installed", allow_module_level=True)

FOLDERS = ["", "src", "src/lib", "data", "data/raw", "out", "out/run1", "docs/deep/er"]
NAMES = ["train.py", "model.py", "test_a.py", "a b.py", "x1.py", "x2.py", "notes.ipynb"]
PATTERNS = [
    "*.py", "/train.py", "train.py", "src/", "/src", "lib", "lib/", "data/**", "**/raw", "out/*", "!out/run1", "!model.py",
    "x?.py", "x[12].py", "x[!1].py", "*.ipynb", "src/*.py", "**/test_*.py", "docs/**/er", "/data/raw/", "!train.py",
    "# a comment", "", "a b.py", "a\\ b.py", "trailing   ", "\\!model.py", "src/lib/*", "!src/lib/model.py", "/*", "!/src/",
    "run1/", "deep", "!deep/er", "*1*", "te*_a.py", "out/run1/**", "/docs/*/er",
]  # fmt: skip


def make(folder, seed):
    r = random.Random(seed)
    for sub in FOLDERS:
        (folder / sub).mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            if r.random() < 0.7:
                (folder / sub / name).write_text("import torch\n")
    for sub in ["", *r.sample(FOLDERS[1:], 2)]:
        lines = r.sample(PATTERNS, r.randint(1, 5))
        (folder / sub / ".gitignore").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("seed", range(60))
def test_same_files_as_git(seed, tmp_path):
    make(tmp_path, seed)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=tmp_path, capture_output=True, check=True, text=True,
    )  # fmt: skip
    theirs = {n for n in listed.stdout.split("\0") if n.endswith((".py", ".ipynb"))}
    ours = {path for path, *_ in walk([str(tmp_path)], exclude=(), root=str(tmp_path)).files}
    rules = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob(".gitignore")}
    assert ours == theirs, rules
