"""Threads that some ranks start: their collectives are that rank's half, not another order of calls."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import found, ranks_of

HEAD = """\
import threading, torch.distributed as dist
def answer(box, model):
    while True:
        dist.broadcast_object_list(box)
        model(box)
def gathered(box, model):
    while True:
        try:
            box.append(model.get(timeout=1))
        except TimeoutError:
            dist.broadcast_object_list(box)
def look(box, model):
    print(box)
"""
APART = """
def main(app, box, model):
    if dist.get_rank() == 0:
        {start}
        app.run()
    else:
        while True:
            {call}
"""
STARTS = {
    "a thread": ("threading.Thread(target=answer, args=(box, model)).start()", False),
    "a named thread": ("thread = threading.Thread(None, answer)\n        thread.start()", False),
    "a timer": ("threading.Timer(1.0, answer, (box, model)).start()", False),
    "in a handler": ("threading.Thread(target=gathered, args=(box, model)).start()", False),
    "a lambda": ("threading.Thread(target=lambda: answer(box, model)).start()", False),
    "a thread without collectives": ("threading.Thread(target=look, args=(box, model)).start()", True),
    "no thread": ("look(box, model)", True),
}


@pytest.mark.parametrize("name", STARTS, ids=list(STARTS))
def test_what_a_thread_of_one_rank_runs(tmp_path, name):
    start, wrong = STARTS[name]
    text = HEAD + APART.format(start=start, call="dist.broadcast_object_list(box)")
    ranks = ranks_of(tmp_path, train=text)
    assert bool([d for d in ranks.divergences() if d.confidence != "possible"]) == wrong
    assert ranks.concurrent() == []


def test_a_thread_that_runs_another_collective_is_no_partner(tmp_path):
    text = HEAD + APART.format(start=STARTS["a thread"][0], call="dist.all_reduce(box)")
    assert [(rule, line) for rule, _, line, _ in found(tmp_path, train=text)] == [("rank-guarded-collective", 21)]


BESIDE = {
    "the other way of a rank test": ("if dist.get_rank() == 0:\n    {}\nelse:\n    dist.barrier()", []),
    "in a loop, of a rank test": (
        "while True:\n    if dist.get_rank() == 0:\n        {}\n    else:\n        dist.barrier()",
        [],
    ),
    "the same way": ("if wanted:\n    {}\n    dist.barrier()", ["barrier"]),
    "behind": ("if dist.get_rank() == 0:\n    {}\ndist.barrier()", ["barrier"]),
    "a later turn": ("while True:\n    if wanted:\n        {}\n    else:\n        dist.barrier()", ["barrier"]),
}


@pytest.mark.parametrize("name", BESIDE, ids=list(BESIDE))
def test_what_can_run_beside_a_thread(tmp_path, name):
    body, calls = BESIDE[name]
    body = body.format("threading.Thread(target=answer, args=(box, model)).start()")
    ranks = ranks_of(tmp_path, train=HEAD + "def main(box, model, wanted):\n" + textwrap.indent(body, "    ") + "\n")
    assert [c.name for c in ranks.concurrent()] == calls
