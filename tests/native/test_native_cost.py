"""A repository without native sources pays nothing for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
TRAIN = "import torch\n\ndef train(model, loader, opt):\n    for b in loader:\n        loss = model(b)\n        loss.backward()\n        opt.step()\n"


def loaded(folder: Path) -> set[str]:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from torchvet.cli import main\n"
        "main(['check', '--no-cache', '--isolated', '--output-format', 'concise', '-q', '.'])\n"
        "print('\\n', *sys.modules)\n"
    )
    r = subprocess.run([sys.executable, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(r.stdout.split("\n")[-2].split())


def native(modules: set[str]) -> set[str]:
    return {
        m for m in modules if ".flow.native" in m or ".source.cpp" in m or ".source.embedded" in m or "_native" in m
    }


def test_python_alone_loads_nothing_native(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    modules = loaded(tmp_path)
    assert "torchvet.check.flow.graphs" in modules or "torchvet.check.engine" in modules
    assert not native(modules)


def test_a_header_without_a_runtime_loads_nothing_native(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "plain.h").write_text("int add(int a, int b);\n")
    assert not native(loaded(tmp_path))


def test_a_native_source_loads_it(tmp_path):
    (tmp_path / "a.cu").write_text("void f() { float *p; cudaMalloc(&p, 4); }\n")
    assert native(loaded(tmp_path))
