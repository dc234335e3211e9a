"""When live graphs count as growing: from the numbers of a few looks."""

from __future__ import annotations

import pytest

from torchvet.run.graph_probe import GraphProbe

SITE = ("train.py", 7, "step")


@pytest.mark.parametrize(
    ("looks", "named"),
    [
        ([(100, 100), (450, 450), (900, 900)], True),  # a fast loop that keeps each loss
        ([(100, 100), (300, 900), (300, 1800), (300, 2700)], False),  # the last 300 losses are kept
        ([(100, 100), (180, 900), (260, 1800)], False),  # few of many steps, and few looks yet
        ([(2, 10), (4, 20), (6, 30), (8, 40), (10, 50)], True),  # slow, but at every look
        ([(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)], False),  # an accumulation of five
        ([(300, 300), (600, 600), (2, 700), (300, 1000)], False),  # an epoch let go
    ],
)
def test_looks(looks, named):
    probe = GraphProbe(pytest.importorskip("torch"))
    said = []
    for live, steps in looks:
        probe.live[SITE] = live
        probe.look(steps)
        said += probe.growing()
    assert [site for site, _ in said] == ([SITE] if named else [])
