"""A rank that gives up a turn of a loop: harmless where it comes to the same collective in its next one."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import found

HEAD = "import queue, threading, torch, torch.distributed as dist\n"
SKIP = "if dist.get_rank() == 0:\n        text = input()\n        if not text:\n            continue\n"
LATER = "    dist.broadcast_object_list(box)\n"

TURNS = {
    "endless": ("while True:\n    " + SKIP + LATER, False),
    "a flag": ("while running:\n    " + SKIP + LATER + "    running = model(box)\n", False),
    "a flag set to a constant": ("while not done:\n    " + SKIP + LATER + "    if model(box):\n        done = True\n", False),
    "counted behind": ("n = 0\nwhile n < 9:\n    " + SKIP + LATER + "    n += 1\n", False),
    "left behind": ("while True:\n    " + SKIP + LATER + "    if box[0] == 'stop':\n        break\n", False),
    "made anew in every turn": (
        "while True:\n    line = read()\n    line = line.strip()\n    " + SKIP + LATER + "    if line:\n        break\n",
        False,
    ),
    "each rank calls its own": (
        "while True:\n    if dist.get_rank() == 0:\n        text = input()\n        if not text:\n            continue\n"
        "        dist.broadcast_object_list([text])\n    else:\n        dist.broadcast_object_list(box)\n",
        False,
    ),
    "over data": ("for x in loader:\n    " + SKIP + LATER, True),
    "a range": ("for n in range(9):\n    " + SKIP + LATER, True),
    "counted before": ("n = 0\nwhile True:\n    n += 1\n    " + SKIP + LATER + "    if n == 9:\n        break\n", True),
    "counted at the head": ("n = 0\nwhile n < 9:\n    n += 1\n    " + SKIP + LATER, True),
    "what follows from a count": (
        "n = 0\nwhile True:\n    n += 1\n    last = n == 9\n    " + SKIP + LATER + "    if last:\n        break\n",
        True,
    ),
    "every so many turns": ("n = 0\nwhile True:\n    n += 1\n    " + SKIP + "    if n % 9 == 0:\n    " + LATER, True),
    "an iterator": ("while True:\n    x = next(items)\n    " + SKIP + LATER, True),
    "what runs out": ("while True:\n    if not files:\n        break\n    files.pop()\n    " + SKIP + LATER, True),
    "what runs out at the head": ("while files:\n    files.pop()\n    " + SKIP + LATER, True),
    "the end of an iterator": (
        "while True:\n    try:\n        x = items.get()\n    except StopIteration:\n        break\n    " + SKIP + LATER,
        True,
    ),
    "behind a collective": ("while True:\n    dist.barrier()\n    " + SKIP + LATER, True),
    "behind a collective on one way": (
        "while True:\n    if wanted:\n        dist.barrier()\n    " + SKIP + LATER,
        True,
    ),
    "always": ("while True:\n    if wanted:\n        dist.barrier()\n    if dist.get_rank() == 0:\n        continue\n" + LATER, True),
    "left, not given up": ("while True:\n    " + SKIP.replace("continue", "break") + LATER, True),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS, ids=list(TURNS))
def test_a_turn_that_one_rank_gives_up(tmp_path, name):
    body, wrong = TURNS[name]
    arguments = "box, model, loader, items, files, read, running, done, wanted"
    text = HEAD + f"def serve({arguments}):\n" + textwrap.indent(body, "    ")
    assert bool(found(tmp_path, train=text)) == wrong


def test_an_exception_may_come_up_behind_a_collective(tmp_path):
    text = """
        def serve(x):
            while True:
                try:
                    dist.broadcast(x, 0)
                    dist.all_reduce(x)
                except RuntimeError:
                    continue
    """
    assert [rule for rule, *_ in found(tmp_path, train=HEAD + textwrap.dedent(text))] == ["local-skip"]


NESTED = """
def first(model, whole):
    def walk(part, full):
        for mine, theirs in zip(part.children(), full.children()):
            dist.gather(mine.data, theirs.pieces, dst=0)
            walk(mine, theirs)
    walk(model, whole)
def others(model):
    def walk(part):
        for mine in part.children():
            {call}
            walk(mine)
    walk(model)
def merge(model, whole):
    if dist.get_rank() == 0:
        first(model, whole)
    else:
        others(model)
"""


@pytest.mark.parametrize(
    ("call", "wrong"),
    [("dist.gather(mine.data, dst=0)", False), ("dist.reduce(mine.data, dst=0)", True), ("pass", True)],
)
def test_nested_functions_run_their_collectives_on_either_side(tmp_path, call, wrong):
    assert bool(found(tmp_path, train=HEAD + NESTED.format(call=call))) == wrong
