"""Reading a suspect's statements beforehand drops no fault, and drops what parts nobody. In a small program nothing is
read beforehand; here everything is."""

from __future__ import annotations

import pytest
from rank_programs import found, ranks_of
from test_ranks_decisions import FAULTS
from test_ranks_divergences import HEAD, SURE

from torchvet.check.flow import ranks
from torchvet.check.flow.ranks_parting import Parting


@pytest.fixture(autouse=True)
def read_all(monkeypatch):
    monkeypatch.setattr(ranks, "FEW", 0)


@pytest.mark.parametrize("name", SURE, ids=list(SURE))
def test_certain_faults_are_found(tmp_path, name):
    import textwrap

    source = HEAD + textwrap.dedent(SURE[name])
    line = next(n for n, text in enumerate(source.split("\n"), 1) if "# here" in text)
    assert [(file, at) for _, file, at, _ in found(tmp_path, train=source)] == [("train.py", line)]


@pytest.mark.parametrize(("name", "rule"), FAULTS, ids=[name for name, _ in FAULTS])
def test_decisions_are_found(tmp_path, name, rule):
    from test_ranks_decisions import test_faults

    test_faults(tmp_path, name, rule)


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("    if dist.get_rank() == 0:\n        print(x)\n    dist.barrier()\n", False),
        ("    if dist.get_rank() == 0:\n        return\n    dist.barrier()\n", True),
        ("    if dist.get_rank() == 0:\n        raise ValueError\n    dist.barrier()\n", False),
        ("    if dist.get_rank() == 0:\n        x = open(x)\n    first(x)\n", True),
        ("    if dist.get_rank() == 0:\n        x = open(x)\n    dist.all_reduce(x)\n", False),
        ("    if dist.get_rank() == 0:\n        x = open(x)\n    dist.new_group(x)\n", True),
        ("    if dist.get_rank() == 0:\n        os.path.join(x)\n        torch.load(x)\n    dist.barrier()\n", False),
        ("    if dist.get_rank() == 0:\n        hvd.join(x)\n", True),
        ("    try:\n        dist.barrier()\n    except StopIteration:\n        pass\n", False),
        ("    try:\n        dist.barrier()\n    except StopIteration:\n        return\n", True),
        ("    first = dist.get_rank() == 0\n    if first:\n        dist.barrier()\n", True),
        ("    first = dist.get_rank() == 0\n    if x:\n        dist.barrier()\n", False),
        ("    if isinstance(x, str):\n        return\n    print(dist.get_rank() == 0)\n    dist.barrier()\n", False),
        ("    with first(dist.get_rank() == 0):\n        dist.barrier()\n", True),
    ],
)
def test_what_stands_under_a_test(tmp_path, body, parts):
    asked = ranks_of(tmp_path, train=f"{HEAD}def first(a):\n    dist.barrier()\ndef run(x):\n{body}")
    asked.suspects.find()
    run = next(f for p in asked.pages() for f in p.functions if f.name == "run")
    assert Parting(asked.suspects).may(run) is parts
