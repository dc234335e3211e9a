"""When live graphs count as growing: from the numbers of a few looks."""

from __future__ import annotations

import pytest

from torchvet.run import graph_probe
from torchvet.run.graph_probe import KEY, MARKS, GraphProbe

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


def test_of_a_fast_loop_a_sample_is_marked(monkeypatch):
    """Few marks a second, and still the number of live graphs is about right."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(torch, "compile", torch.compile)
    now = [100.0]
    monkeypatch.setattr(graph_probe, "monotonic", lambda: now[0])
    probe = GraphProbe(torch)
    probe.install()
    x = torch.ones(1, requires_grad=True)
    kept, said = [], []
    for look in range(1, 11):
        for _ in range(300):
            kept.append((x * 2).sum())
            kept[-1].backward()
        now[0] += 0.5
        probe.look(300 * look)
        said += probe.growing()
    assert len(said) == 1
    live = next(n for (_, _, name), n in probe.live.items() if name == test_of_a_fast_loop_a_sample_is_marked.__name__)
    assert 0.7 < live / len(kept) < 1.4
    later = [loss for loss in kept[600:] if KEY in loss.grad_fn.metadata]
    assert 0 < len(later) < 3 * MARKS * 0.5 * 8
