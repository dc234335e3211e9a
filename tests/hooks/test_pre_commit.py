"""`pre-commit run` for real: a hook repository made of this project, a project that uses it, commits that are blocked and
let through. pre-commit builds its own environment and installs torchvet into it with pip, as it does for users; the build
backend comes from the environment of the tests, because tests may not use the network."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pre_commit")
ROOT = Path(__file__).resolve().parents[2]
BACKEND = ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers", "tomli", "PyYAML")

BAD = """import torch
from torch import nn


def train(model, loader, optimizer):
    total_loss = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss
    return total_loss / len(loader)
"""
GOOD = BAD.replace("total_loss += loss", "total_loss += loss.detach()")


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", *words]
    r = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    """A folder with the build backend only, for PYTHONPATH; the rest of the environment stays out of sight."""
    folder = tmp_path_factory.mktemp("backend")
    for name in BACKEND:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in ("hatchling", "pathspec"):
                pytest.skip(f"{name} is not installed")
            continue
        roots = {f.parts[0] for f in distribution.files or () if f.parts[0] not in ("..", "__pycache__")}
        for part in roots:
            source = Path(distribution.locate_file(part))
            if source.is_dir() or source.suffix == ".py":
                target = folder / part
                if not target.exists():
                    target.symlink_to(source)
    return folder


@pytest.fixture(scope="module")
def hooks(tmp_path_factory):
    """This project as a git repository with one commit."""
    folder = repository(tmp_path_factory.mktemp("hooks") / "torchvet")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder / name)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "hooks")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory, backend):
    home = tmp_path_factory.mktemp("home")
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "SYSTEMROOT", "TMPDIR", "LANG", "LD_LIBRARY_PATH")}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "HOME": str(home),
        "PRE_COMMIT_HOME": str(home / "pre-commit"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(backend),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # for pip, 0 means: do not isolate
        "PIP_CONFIG_FILE": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
        "TORCHVET_LANG": "en",
    }  # fmt: skip


def project(folder: Path, hooks: Path, hook: str = "torchvet") -> Path:
    repository(folder)
    revision = git(hooks, "rev-parse", "HEAD").strip()
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {revision}\n    hooks:\n      - id: {hook}\n"
    )
    (folder / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "0"\n')
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def pre_commit(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *words]
    # the process itself must not see the folder of the backend alone: it runs from this environment
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_commit_is_blocked_and_let_through(tmp_path, hooks, environment):
    folder = project(tmp_path / "project", hooks)
    installed = pre_commit(folder, environment, "install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr

    (folder / "train.py").write_text(BAD)
    git(folder, "add", "train.py")
    blocked = subprocess.run(
        ["git", "commit", "-m", "bad"], cwd=folder, env=environment, capture_output=True, text=True
    )
    said = blocked.stdout + blocked.stderr
    assert blocked.returncode != 0, said
    assert "accumulated-graph" in said and "train.py:12" in said, said
    assert git(folder, "log", "--oneline").count("\n") == 1

    (folder / "train.py").write_text(GOOD)
    git(folder, "add", "train.py")
    passed = subprocess.run(
        ["git", "commit", "-m", "good"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert git(folder, "log", "--oneline").count("\n") == 2


def test_changed_files_filter_the_report_but_not_the_analysis(tmp_path, hooks, environment):
    """The barrier stands in a file that did not change; the guard that was just written is what is reported. A leak in
    another old file is not."""
    folder = project(tmp_path / "project", hooks)
    (folder / "old.py").write_text(BAD)
    (folder / "evaluation.py").write_text(
        "import torch.distributed as dist\n\n\ndef evaluate(model):\n    model.eval()\n    dist.barrier()\n"
    )
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-verify", "-m", "old code")
    (folder / "train.py").write_text(
        "import torch.distributed as dist\nfrom evaluation import evaluate\n\n\ndef main(model):\n"
        "    if dist.get_rank() == 0:\n        evaluate(model)\n"
    )
    git(folder, "add", "train.py")
    r = pre_commit(folder, environment, "run")
    assert r.returncode == 1, r.stdout + r.stderr
    assert "rank-guarded-collective" in r.stdout and "train.py" in r.stdout
    assert "old.py" not in r.stdout


def test_whole_project_hook(tmp_path, hooks, environment):
    folder = project(tmp_path / "project", hooks, "torchvet-project")
    (folder / "train.py").write_text(BAD)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--no-verify", "-m", "bad")
    r = pre_commit(folder, environment, "run", "--hook-stage", "manual", "--all-files")
    assert r.returncode == 1 and "accumulated-graph" in r.stdout, r.stdout + r.stderr


def test_manifest_is_valid():
    r = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert r.returncode == 0, r.stdout + r.stderr
