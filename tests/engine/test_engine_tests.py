"""Code of tests: what pytest collects below a folder of tests keeps what it likes, scripts beside it do not."""

from __future__ import annotations

import pytest

from torchvet.check.config import Options
from torchvet.check.engine import check

LEAK = """
def train(model, loader, criterion, optimizer):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("train.py", "warning"),
        ("tools/test_net.py", "note"),
        ("tests/train.py", "note"),
        ("tests/unit_tests/benchmark.py", "note"),
        ("tests/test_train.py", None),
        ("tests/unit/conftest.py", None),
    ],
)
def test_what_a_test_keeps_is_nobodys_concern(tmp_path, monkeypatch, path, severity):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(LEAK)
    monkeypatch.chdir(tmp_path)
    found = check(["."], Options(no_cache=True)).findings
    assert [f.severity for f in found if f.name == "accumulated-graph"] == ([severity] if severity else [])
