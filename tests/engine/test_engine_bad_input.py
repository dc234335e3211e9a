"""Whatever lies in a repository: it is reported, the run goes on, nothing is executed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from torchvet.check.config import Options
from torchvet.check.engine import check
from torchvet.findings import UserError

LEAK = "def train(model, loader, opt, criterion):\n    total = 0\n    for x, y in loader:\n        loss = criterion(model(x), y)\n        loss.backward()\n        opt.step()\n        total += loss\n    return total / len(loader)\n"
"""One finding of accumulated-graph, on line 7."""


def run(folder, *names: str, **options):
    os.chdir(folder)
    return check(list(names) or ["."], Options(**{"no_cache": True, **options}))


def found(result):
    return {(f.span.path, f.name) for f in result.findings}


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHVET_DEBUG", "1")


def test_a_leak_is_found_beside_anything(tmp_path):
    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "empty.py").write_bytes(b"")
    (tmp_path / "binary.py").write_bytes(bytes(range(256)) * 50 + b"\nimport torch\nloss.backward()\n")
    (tmp_path / "null.py").write_bytes(b"import torch\nloss.backward()\0\n")
    (tmp_path / "broken.py").write_text("import torch\ndef f(:\n    loss.backward()\n")
    (tmp_path / "deep.py").write_text("import torch\nloss.backward()\nx = " + "[" * 3000 + "]" * 3000 + "\n")
    (tmp_path / "deepcall.py").write_text("import torch\nloss.backward()\nx = " + "f(" * 3000 + ")" * 3000 + "\n")
    (tmp_path / "long_sum.py").write_text("import torch\nloss.backward()\nx = " + " + ".join(["a"] * 5000) + "\n")
    (tmp_path / "nested_blocks.py").write_text(
        "import torch\nloss.backward()\n" + "".join("  " * i + "if x:\n" for i in range(150)) + "  " * 150 + "pass\n"
    )
    result = run(tmp_path)
    assert ("train.py", "accumulated-graph") in found(result)
    broken = {path for path, name in found(result) if name == "syntax-error"}
    assert {"null.py", "broken.py", "binary.py", "nested_blocks.py"} <= broken
    assert not result.internal_errors


def test_a_big_generated_file_is_read_in_time(tmp_path):
    (tmp_path / "big.py").write_text(
        "import torch\nloss.backward()\nDATA = [\n" + "    1.5, 2.5, 3.5,\n" * 1_200_000 + "]\n"
    )
    (tmp_path / "train.py").write_text(LEAK)
    assert os.path.getsize(tmp_path / "big.py") > 20_000_000
    assert ("train.py", "accumulated-graph") in found(run(tmp_path))


def test_a_template_of_a_program_is_no_program(tmp_path):
    folder = tmp_path / "{{cookiecutter.name}}"
    folder.mkdir()
    (folder / "train.py").write_text("import torch\nfrom x import (\n    {{cookiecutter.model}},\n)\nloss.backward()\n")
    (tmp_path / "train.py").write_text(LEAK)
    assert found(run(tmp_path)) == {("train.py", "accumulated-graph")}


def test_encodings_as_python_accepts_them(tmp_path):
    comment = "# Größe: é\n"
    (tmp_path / "declared.py").write_bytes(("# -*- coding: latin-1 -*-\n" + comment + LEAK).encode("latin-1"))
    (tmp_path / "undeclared.py").write_bytes((comment + LEAK).encode("latin-1"))
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + (comment + LEAK).encode())
    (tmp_path / "crlf.py").write_bytes(LEAK.replace("\n", "\r\n").encode())
    (tmp_path / "cr.py").write_bytes(LEAK.replace("\n", "\r").encode())
    (tmp_path / "strange.py").write_bytes(b"# coding: no-such-codec\n" + LEAK.encode())
    result = run(tmp_path)
    leaks = {f.span.path: f.span.line for f in result.findings if f.name == "accumulated-graph"}
    assert leaks == {"declared.py": 9, "bom.py": 8, "crlf.py": 7, "cr.py": 7}
    assert {("undeclared.py", "syntax-error"), ("strange.py", "syntax-error")} <= found(result)


def test_links_fifos_and_sockets(tmp_path):
    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "dead.py").symlink_to("nowhere.py")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "loop").symlink_to(".", target_is_directory=True)
    os.mkfifo(tmp_path / "pipe.py")
    result = run(tmp_path)
    assert found(result) == {("train.py", "accumulated-graph")}
    assert {p for p, _ in result.skipped} == {"dead.py", "self.py", "pipe.py"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_and_folder(tmp_path):
    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "secret.py").write_text(LEAK)
    (tmp_path / "vault").mkdir()
    os.chmod(tmp_path / "secret.py", 0)
    os.chmod(tmp_path / "vault", 0)
    try:
        result = run(tmp_path)
    finally:
        os.chmod(tmp_path / "vault", 0o755)
    assert {("secret.py", "unreadable-file"), ("vault", "unreadable-file"), ("train.py", "accumulated-graph")} == found(
        result
    )


def test_unreadable_says_the_system(tmp_path, monkeypatch):
    # the same as above for machines on which tests run as root: the system refuses through a faked read
    import torchvet.check.engine as engine

    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "secret.py").write_text(LEAK)
    real = engine.read

    def refuse(path, *rest):
        if path.endswith("secret.py"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)

    monkeypatch.setattr(engine, "read", refuse)
    result = run(tmp_path)
    assert {("secret.py", "unreadable-file"), ("train.py", "accumulated-graph")} == found(result)


def test_a_missing_path_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        run(tmp_path, "nowhere.py")


def test_notebooks_count_cells(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Train\n"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n"], "outputs": []},
        {"cell_type": "code", "source": LEAK.splitlines(keepends=True), "outputs": []},
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (tmp_path / "train.ipynb").write_text(text)
    (tmp_path / "broken.ipynb").write_text('{"cells": [".backward( torch')
    result = run(tmp_path)
    f = next(f for f in result.findings if f.name == "accumulated-graph")
    assert (f.cell, f.span.line) == (3, 7)
    assert "total += loss" in text.splitlines()[f.raw_line - 1]
    assert ("broken.ipynb", "syntax-error") in found(result)


def test_two_halves_find_what_one_finds(tmp_path, monkeypatch):
    import torchvet.check.engine as engine

    for i in range(12):
        (tmp_path / f"t{i}.py").write_text(LEAK)
    one = run(tmp_path, jobs=1)
    monkeypatch.setattr(engine, "FORK_BYTES", 0)
    two = run(tmp_path, jobs=2)
    assert [f.plain() for f in one.findings] == [f.plain() for f in two.findings] and len(one.findings) == 12


def test_a_child_that_dies_costs_nothing_but_time(tmp_path, monkeypatch):
    import torchvet.check.engine as engine

    for i in range(4):
        (tmp_path / f"t{i}.py").write_text(LEAK)
    parent = os.getpid()
    real = engine._Check.lower_all

    def dying(self, todo, caching):
        if os.getpid() != parent:
            os._exit(9)
        return real(self, todo, caching)

    monkeypatch.setattr(engine._Check, "lower_all", dying)
    assert len(run(tmp_path, jobs=2).findings) == 4


def test_second_run_comes_from_the_cache_and_sees_changes(tmp_path):
    project, cache = tmp_path / "p", tmp_path / "cache"
    project.mkdir()
    (project / "train.py").write_text("from helper import step\n" + LEAK)
    (project / "helper.py").write_text("def step(): pass\n")
    for name in ("train.py", "helper.py"):
        os.utime(project / name, (1_600_000_000, 1_600_000_000))
    options = {"no_cache": False, "cache_dir": str(cache)}
    first, second = run(project, **options), run(project, **options)
    assert not first.cached and second.cached
    assert [f.plain() for f in first.findings] == [f.plain() for f in second.findings]
    (project / "train.py").write_text(LEAK.replace("total += loss", "total += loss.item()"))
    third = run(project, **options)
    assert not third.cached and not third.findings


def test_a_read_only_cache_folder_is_no_cache(tmp_path):
    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "file").write_text("")
    result = run(tmp_path, "train.py", no_cache=False, cache_dir=str(tmp_path / "file" / "below"))
    assert found(result) == {("train.py", "accumulated-graph")}


def test_two_runs_at_once(tmp_path):
    project = tmp_path / "p"
    project.mkdir()
    for i in range(30):
        (project / f"t{i}.py").write_text(LEAK)
    command = [
        sys.executable,
        "-m",
        "torchvet",
        "check",
        ".",
        "--cache-dir",
        str(tmp_path / "c"),
        "--output-format",
        "json",
    ]
    runs = [subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [json.loads(r.communicate()[0])["findings"] for r in runs]
    assert all(r.returncode == 1 for r in runs)
    assert outputs[0] == outputs[1] == outputs[2] and len(outputs[0]) == 30


def test_a_failing_rule_is_a_finding_and_the_others_run(tmp_path, monkeypatch):
    from torchvet.check.rules import all_rules

    monkeypatch.delenv("TORCHVET_DEBUG")
    (tmp_path / "train.py").write_text(
        LEAK + "\nfrom torch.utils.data import DataLoader\nDataLoader(x, num_workers=99)\n"
    )

    def fail(project):
        raise ZeroDivisionError("lost")
        yield

    monkeypatch.setattr(all_rules()["accumulated-graph"], "run", fail)
    result = run(tmp_path)
    assert result.internal_errors
    assert {("train.py", "internal-error"), ("train.py", "too-many-workers")} <= found(result)


def test_nothing_of_the_project_runs(tmp_path):
    (tmp_path / "train.py").write_text(LEAK + "\nopen('ran', 'w')\n")
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')")
    (tmp_path / "sitecustomize.py").write_text("open('ran', 'w')")
    assert ("train.py", "accumulated-graph") in found(run(tmp_path))
    assert not (tmp_path / "ran").exists()


RANKS = "import torch.distributed as dist\n\ndef save(model):\n    if dist.get_rank() == 0:\n        dist.barrier()\n"


def test_rank_rules_in_a_second_process_find_the_same(tmp_path, monkeypatch):
    import torchvet.check.engine as engine

    (tmp_path / "a.py").write_text(LEAK)
    (tmp_path / "b.py").write_text(RANKS)
    one = run(tmp_path, jobs=1)
    monkeypatch.setattr(engine, "FORK_RULES", 0)
    two = run(tmp_path)
    assert {("a.py", "accumulated-graph"), ("b.py", "rank-guarded-collective")} <= found(two)
    assert [f.plain() for f in one.findings] == [f.plain() for f in two.findings]


def test_rank_rules_are_run_here_when_their_process_dies(tmp_path, monkeypatch):
    import torchvet.check.engine as engine

    (tmp_path / "a.py").write_text(LEAK)
    (tmp_path / "b.py").write_text(RANKS)
    monkeypatch.setattr(engine, "FORK_RULES", 0)
    monkeypatch.setattr(engine._Check, "apply_apart", lambda *_: os._exit(9))
    assert {("a.py", "accumulated-graph"), ("b.py", "rank-guarded-collective")} <= found(run(tmp_path))
