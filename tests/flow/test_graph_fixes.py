"""Where `.detach()` goes, and where no fix is offered."""

from __future__ import annotations

import pytest
from graph_programs import graphs_of

PROGRAM = """
def fit(model, loader, criterion, optimizer, weight):
    total, kept, parts = 0.0, [], {{}}
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {}
    return total, kept, parts
"""


def repaired(statement: str) -> str | None:
    source = PROGRAM.format(statement)
    graphs = graphs_of(source)
    (kept,) = graphs.kept()
    edits = graphs.detaching(kept)
    if not edits:
        return None
    lines = source.split("\n")
    for e in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        line = lines[e.line - 1]
        lines[e.line - 1] = line[: e.column - 1] + e.text + line[e.end_column - 1 :]
    start = kept.pos >> 44
    return "\n".join(lines[start - 1 : start - 1 + statement.count("\n") + 1]).strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("total += loss", "total += loss.detach()"),
        ("total += loss * len(x)  # 损失", "total += (loss * len(x)).detach()  # 损失"),
        ("total = total + loss", "total = (total + loss).detach()"),
        ("total += -loss", "total += (-loss).detach()"),
        ("total += loss if weight else 2 * loss", "total += (loss if weight else 2 * loss).detach()"),
        ("kept.append(loss)", "kept.append(loss.detach())"),
        ("kept.append(loss.mean())", "kept.append(loss.mean().detach())"),
        ("kept.insert(0, loss)", "kept.insert(0, loss.detach())"),
        ("kept += [loss]", "kept += [loss.detach()]"),
        (
            "total += (\n            0.5 * loss  # half\n        )",
            "total += (\n            (0.5 * loss).detach()  # half\n        )",
        ),
    ],
)
def test_detach_is_put_in_the_right_place(before, after):
    assert repaired(before) == after


@pytest.mark.parametrize(
    "statement",
    [
        'kept.append({"loss": loss})',
        "kept.append((loss, len(x)))",
        "total += loss if weight else 0.0",
        "kept.append([loss])",
    ],
)
def test_no_fix_where_it_is_no_tensor_on_every_way(statement):
    assert repaired(statement) is None


def test_decorator_for_a_function_that_only_evaluates():
    source = """
    import torch


    class Trainer:
        def validate(self, model, loader):
            model.eval()
            for x in loader:
                model(x)
    """
    graphs = graphs_of(source)
    (found,) = graphs.evaluations()
    fix = graphs.switching_off(found)
    assert not fix.safe and [(e.line, e.text) for e in fix.edits] == [(6, "    @torch.no_grad()\n")]


@pytest.mark.parametrize(
    "body",
    ["import torch as t\n", "import torch\n", "from torch import nn\n"],
)
def test_no_decorator_where_it_would_be_wrong(body):
    trains = "    model(loader[0]).sum().backward()\n" if body == "import torch\n" else ""
    source = (
        f"{body}\n\ndef validate(model, loader):\n{trains}    model.eval()\n    for x in loader:\n        model(x)\n"
    )
    graphs = graphs_of(source)
    for found in graphs.evaluations():
        assert graphs.switching_off(found) is None


def test_code_that_nests_too_deep_is_left_out():
    chain = "def fit(model, x):\n    s = " + " + ".join(["x"] * 700) + "\n    s.backward()\n"
    straight = "def fit(model, x, y):\n    a = model(x)\n" + "    a = a * 2\n" * 3000 + "    a.sum().backward()\n"
    for source in (chain, straight):
        try:
            graphs = graphs_of(source)
        except RecursionError:  # the parser's own limit comes first
            continue
        assert graphs.kept() == [] and graphs.evaluations() == []
