"""What a check of a small project imports: its start is most of what it costs, and every module counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# expensive, and needed by no check that prints for people
NEVER = {
    "argparse", "ast", "dataclasses", "difflib", "hashlib", "inspect", "json", "logging", "pathlib", "random", "shutil",
    "subprocess", "tempfile", "tokenize", "tomllib", "traceback", "typing",
}  # fmt: skip

PLAIN = "def area(width, height):\n    return width * height\n"
LEAK = """\
import torch

def train(model, batches, optimizer):
    total = 0
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""


def imported(folder: Path) -> tuple[int, set[str]]:
    """The exit code of a check of a folder, and all modules that it imported beyond those of the interpreter."""
    code = (
        "import sys; before = set(sys.modules)\n"
        f"sys.path.insert(0, {str(SOURCE)!r})\n"
        "from torchvet.cli import main\n"
        "code = main(['check', '--no-cache', '--isolated', '--output-format', 'concise', '-q', '.'])\n"
        "print('\\n', code, *sorted(set(sys.modules) - before))\n"
    )
    r = subprocess.run([sys.executable, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    words = r.stdout.split("\n")[-2].split()
    return int(words[0]), set(words[1:])


def rules_of(modules: set[str]) -> set[str]:
    """Rules among modules, as family.module."""
    return {m.partition("torchvet.check.rules.")[2] for m in modules if m.startswith("torchvet.check.rules.")} - {
        "_api", "_index", "project", "graph", "loader", "wrap", "collective", "native", "deploy", "tool",
    }  # fmt: skip


def examples(folder: Path, times: int) -> Path:
    """The example scripts, several times over."""
    for number in range(times):
        for path in sorted(ROOT.glob("examples/*/*.py")):
            target = folder / str(number) / path.parent.name
            target.mkdir(parents=True, exist_ok=True)
            (target / path.name).write_text(path.read_text("utf-8"), "utf-8")
    return folder


def test_files_that_cannot_matter(tmp_path):
    (tmp_path / "shapes.py").write_text(PLAIN)
    code, modules = imported(tmp_path)
    assert code == 0
    assert not modules & NEVER
    assert not {m for m in modules if m.startswith(("torchvet.check.flow", "torchvet.knowledge."))}
    assert not rules_of(modules)
    assert len(modules) <= 38, sorted(modules)


def test_a_leak_on_one_gpu(tmp_path):
    (tmp_path / "train.py").write_text(LEAK)
    code, modules = imported(tmp_path)
    assert code == 1
    assert not modules & NEVER
    assert rules_of(modules) == {"graph.accumulated_graph"}, "a rule without findings was imported"
    others = ("ranks", "traces", "settings", "wrapping")  # there is no loader, and no second rank
    assert not {m for m in modules if m.startswith(tuple(f"torchvet.check.flow.{x}" for x in others))}
    assert len(modules) <= 95, sorted(modules)


def test_loaders_on_one_gpu(tmp_path):
    for path in ROOT.glob("examples/leak/*.py"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    code, modules = imported(tmp_path)
    assert code == 1
    assert "torchvet.check.flow.settings_workers" in modules
    others = ("ranks", "traces", "wrapping", "settings_samplers", "settings_handles")
    assert not {m for m in modules if m.startswith(tuple(f"torchvet.check.flow.{x}" for x in others))}
    assert len(modules) <= 115, sorted(modules)


def test_a_small_project(tmp_path):
    code, modules = imported(examples(tmp_path, 3))
    assert code == 1
    assert not modules & NEVER
    assert len(modules) <= 150, sorted(modules)


def test_words_that_rule_questions_out():
    """A question is not asked where none of its words stands: the words cover the tables that it looks names up in."""
    from torchvet import knowledge
    from torchvet.check.rules.project import EAGER, LOADING, NEEDS, OF_FILES, SEVERAL_RANKS

    for table in ("loader_classes", "samplers", "settings_classes", "loader_factories"):
        for name in knowledge.loader(table):
            assert any(word in name.rpartition(".")[2] for word in LOADING), name
    assert {name.rpartition(".")[2] for name in knowledge.loader("eager_optimizers")} <= set(EAGER)
    for name in (n for n, needs_epoch in knowledge.loader("samplers").items() if needs_epoch):
        assert any(word in name for word in NEEDS["settings.samplers.stale"]), name
    for name in (n for n, kind in knowledge.loader("datasets").items() if kind == "iterable"):
        assert any(word in name for word in NEEDS["settings.conflicts.exclusive"]), name
    written = {*knowledge.files("writes"), *knowledge.files("makes"), *knowledge.files("deletes")}
    methods = {n for n, how in knowledge.files("path_methods").items() if how in ("writes", "makes", "deletes")}
    for name in {*written, *methods, *knowledge.files("methods")} - {"torch.save", "replace", "save", "copy", "move"}:
        last = name.rpartition(".")[2]
        assert last in ("replace", "save", "copy", "move") or any(w in last for w in OF_FILES if isinstance(w, str)), (
            name
        )
    alone = {
        "iter(torch.utils.data.DataLoader[IterDataPipe])"
    }  # its length only differs where a sampler knows of ranks
    alone |= {"torch.nn.utils.clip_grad_norm_"}  # of a sharded model
    for kind in ("collective", "method_collective", "forward_collective", "backward_collective", "wraps_model", "init"):
        for name in knowledge.names(kind) - alone:
            package = name.partition(".")[0]
            known = (f"import {package}", f"from {package}")
            assert any(word in name or word in known for word in SEVERAL_RANKS), name


@pytest.mark.parametrize("name", ["sarif", "json"])
def test_formats_for_programs_import_what_they_need(tmp_path, name):
    """The bounds above hold for what people read; this one only shows that the measurement sees imports."""
    (tmp_path / "train.py").write_text(LEAK)
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from torchvet.cli import main\n"
        f"main(['check', '--no-cache', '--isolated', '--output-format', {name!r}, '.'])\n"
        "print('\\n', 'json' in sys.modules, 'torchvet.check.rules.loader.batches_held' in sys.modules)\n"
    )
    r = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert r.stdout.split("\n")[-2].split() == ["True", str(name == "sarif")]
