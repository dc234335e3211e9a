"""What a rank names, leaves or draws by itself: sources of collectives, handlers, rests of a division, seeds, stop flags."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import found, ranks_of

HEAD = "import random, torch, torch.distributed as dist\nfrom transformers import TrainerCallback\n"

SOURCES = {
    "its own rank": ("dist.broadcast(x, src=dist.get_rank())", True),
    "its own rank in its group": ("dist.broadcast(x, group_src=dist.get_rank())", True),
    "the next rank": ("dist.scatter(x, None, (dist.get_rank() + 1) % dist.get_world_size())", True),
    "two numbers": (
        "if dist.get_rank() == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(x, 1)",
        True,
    ),
    "one number": ("dist.gather(x, dst=3)", False),
    "the source by its own rank": (
        "if dist.get_rank() == 0:\n    dist.broadcast(x, src=dist.get_rank())\nelse:\n    dist.broadcast(x, src=0)",
        False,
    ),
    "under a condition that may hold on one rank": ("if first:\n    dist.broadcast(x, src=dist.get_rank())", False),
    "more ranks than one": ("if dist.get_world_size() > 1:\n    dist.broadcast(x, src=dist.get_rank())", True),
    "a group of its own": ("dist.broadcast(x, src=dist.get_rank(), group=mine)", False),
}


@pytest.mark.parametrize("name", SOURCES, ids=list(SOURCES))
def test_every_rank_names_the_same_source(tmp_path, name):
    body, wrong = SOURCES[name]
    text = HEAD + "def share(x, first, mine):\n" + textwrap.indent(body, "    ") + "\n    dist.barrier()\n"
    ranks = ranks_of(tmp_path, train=text)
    assert [rank for *_, rank in ranks.wrong_sources()] == ([""] if wrong else [])
    assert ranks.divergences() == []


def test_a_parameter_called_rank_may_be_the_source(tmp_path):
    ranks = ranks_of(tmp_path, train=HEAD + "def share(x, rank):\n    dist.broadcast(x, src=rank)\n")
    assert ranks.wrong_sources() == []


def lines(tmp_path, body):
    return [(rule, line) for rule, _, line, _ in found(tmp_path, train=HEAD + textwrap.dedent(body))]


HANDLER = """\
def prepare(read):
    if dist.get_rank() == 0:
        try:
            read()
        except {kind}:
            {leave}
    dist.barrier()
"""


@pytest.mark.parametrize("leave", ["return", "return None", "exit()"])
def test_a_handler_of_one_rank_leaves(tmp_path, leave):
    body = HANDLER.format(kind="OSError", leave=leave)
    assert lines(tmp_path, body) == [("collective-after-rank-exit", 9)]


@pytest.mark.parametrize(
    ("kind", "leave"),
    [("OSError", "raise"), ("OSError", "exit(1)"), ("OSError", "pass"), ("KeyboardInterrupt", "return")],
)
def test_a_handler_that_ends_the_job_or_goes_on(tmp_path, kind, leave):
    assert lines(tmp_path, HANDLER.format(kind=kind, leave=leave)) == []


def test_a_handler_of_all_ranks_is_no_handler_of_one(tmp_path):
    body = "def read_all(read):\n    try:\n        read()\n    except OSError:\n        return\n    dist.barrier()\n"
    assert lines(tmp_path, body) == []


NUMBERS = """\
def run(total, step):
    rank, world = dist.get_rank(), dist.get_world_size()
    n = total // world
    {more}
    for i in range(n):
        dist.all_reduce(step(i))
"""


@pytest.mark.parametrize(
    ("more", "uneven"),
    [
        ("if rank == world - 1: n += total % world", True),
        ("if rank == world - 1: n = total - n * (world - 1)", True),
        ("n = n + total % world if rank == 0 else n", True),
        ("n = n + 1 if rank < total % world else n", True),
        ("if total > 100: n += 1", False),
        ("if rank == 0: n += 0 * total\n    n = 8", False),
        ("if rank == 0: print(n + 1)", False),
    ],
)
def test_the_rest_of_a_division(tmp_path, more, uneven):
    assert lines(tmp_path, NUMBERS.format(more=more)) == ([("uneven-loop", 7)] if uneven else [])


SEEDED = """\
def main(x, seed):
    {seed}
    for _ in range(9):
        if random.random() < 0.5:
            dist.all_reduce(x)
"""


@pytest.mark.parametrize(
    ("seed", "own"),
    [
        ("random.seed(seed + dist.get_rank())", True),
        ("random.seed(seed)", False),
        ("random.seed(seed); random.seed(seed + dist.get_rank())", False),
        ("torch.manual_seed(seed + dist.get_rank())", False),
        ("rng = random.Random(dist.get_rank())", False),
        ("print(dist.get_rank() == 0)", False),
    ],
)
def test_a_generator_that_the_rank_seeds(tmp_path, seed, own):
    assert lines(tmp_path, SEEDED.format(seed=seed)) == ([("local-skip", 7)] if own else [])


STOPS = """\
import time
class Budget(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        {test}:
            control.should_training_stop = True
"""


@pytest.mark.parametrize(
    ("test", "alone"),
    [
        ("if time.time() > self.end", True),
        ("if state.is_world_process_zero and self.asked", True),
        ("if state.global_step > 100", False),
        ("if self.all_reduced(time.time() > self.end)", False),
    ],
)
def test_a_callback_ends_the_loop_of_a_framework(tmp_path, test, alone):
    assert lines(tmp_path, STOPS.format(test=test)) == ([("local-stop-decision", 7)] if alone else [])
