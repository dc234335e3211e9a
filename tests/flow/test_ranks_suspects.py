"""Which functions reach a collective, by the words of their texts."""

from __future__ import annotations

import pytest
from rank_programs import ranks_of

from torchvet.check.flow.ranks_suspects import calls_name


def hot(tmp_path, source: str) -> list[str]:
    suspects = ranks_of(tmp_path, m=source).suspects
    suspects.find()
    functions = suspects.pages["m.py"].functions
    return [f.qualname for f in functions if suspects.is_hot(f)]


@pytest.mark.parametrize(
    "line",
    [
        "dist.all_reduce(x)",
        "x.run(dist.all_reduce, 1)",
        "run(all_reduce)",
        "getattr(dist, 'all_reduce')(x)",
        "model.state_dict()",
        "save = model.state_dict",
        "fabric.gather(x)",
        "gather(x)",
        "from somewhere import all_gather as every",
    ],
)
def test_reaches_one(tmp_path, line):
    source = f"import torch.distributed as dist\nfrom torch.distributed import all_reduce\ndef f(x):\n    {line}\n"
    assert hot(tmp_path, source) == ["f"]


@pytest.mark.parametrize(
    "line",
    [
        "state_dict = torch.load(x)",
        "keep(state_dict=x)",
        "return x['state_dict']",
        "torch.gather(x, 0, i)",
        "return ', '.join(x)",
        "call(gather, x)",
    ],
)
def test_reaches_none(tmp_path, line):
    assert hot(tmp_path, f"import torch\ndef f(x, state_dict=None):\n    {line}\n") == []


def test_a_method_with_the_name_of_a_collective_is_what_its_body_is(tmp_path):
    source = """
        class Model:
            def load_state_dict(self, x):
                self.x = x
            def gather(self, x):
                return dist.all_gather_object([], x)
            def use(self, x):
                return self.gather(x)
    """
    assert hot(tmp_path, source) == ["Model.gather", "Model.use"]


@pytest.mark.parametrize("text, called", [("x = model(y)", True), ("load_model(x)", False), ("self.model(x)", False),
                                          ("load_model(x) or model(x)", True)])  # fmt: skip
def test_a_name_that_is_called(text, called):
    assert calls_name(text, "model") is called


@pytest.mark.parametrize(
    ("use", "reaches"),
    [
        ("trainer.save(x)", True),
        ("trainer.run(end, x)", False),
        ("save, end = x", False),
        ("x = 1  # trainer.save(x)", False),
        ('x = "trainer.save(x)"', False),
        ('x = f"{trainer.save(x)}"', True),
        ('"""Calls\n    trainer.save(x)\n    """', False),
        ("meet(x)", True),
        ("run(meet, x)", True),
    ],
)
def test_who_calls_what_reaches_one(tmp_path, use, reaches):
    """A method is called on an object; `end` and `save` without one are variables."""
    source = (
        "import torch.distributed as dist\n"
        "class Trainer:\n    def save(self, x):\n        dist.barrier()\n    def end(self):\n        dist.barrier()\n"
        f"def meet(x):\n    dist.barrier()\ndef f(trainer, x):\n    {use}\n"
    )
    assert ("f" in hot(tmp_path, source)) is reaches


def test_a_rank_in_a_docstring_decides_nothing(tmp_path):
    source = 'def f(x):\n    """Waits\n    if rank == 0 says so."""\n    return x\ndef g(rank):\n    return rank == 0\n'
    suspects = ranks_of(tmp_path, m=source).suspects
    suspects.find()
    assert [suspects.is_ranked(f) for f in suspects.pages["m.py"].functions] == [False, True]
