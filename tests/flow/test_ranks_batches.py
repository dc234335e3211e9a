"""Decisions on the data of a batch are one rank's own; those on its shape are not."""

from __future__ import annotations

import pytest
from rank_programs import found

HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(train_loader, criterion, optimizer):
    net = DDP(nn.Linear(4, 4))
"""
LOOP = """\
    for step, (x, y) in enumerate(train_loader):
        {test}
            {way}
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
"""
OWN = {
    "a sum read": "if y.sum().item() == 0:",
    "a sum compared": "if y.sum() == 0:",
    "a method chain": "if int(y[0].cuda().ne(0).sum()) < 2:",
    "a mask": "if not (y != -100).any():",
    "a function of torch": "if not torch.any(y != -100):",
    "a last offset": "if y[-1].item() == 0:",
}
ALIKE = {
    "a shape": "if x.shape[0] != 32:",
    "a size": "if x.size(0) < 2:",
    "a number of elements": "if x.numel() == 0:",
    "a length": "if len(x) < 32:",
    "the step": "if step % 2 == 0:",
    "no batch": "if y is None:",
    "a key": "if 'labels' not in x:",
}


@pytest.mark.parametrize("name", OWN)
def test_values_decide_for_one_rank(tmp_path, name):
    source = HEAD + LOOP.format(test=OWN[name], way="continue")
    assert found(tmp_path, train=source) == [("local-skip", "train.py", 13, "warning")]


@pytest.mark.parametrize("name", ALIKE)
def test_shapes_are_the_same_everywhere(tmp_path, name):
    assert found(tmp_path, train=HEAD + LOOP.format(test=ALIKE[name], way="continue")) == []


def test_what_was_reduced_is_agreed_on(tmp_path):
    source = HEAD + LOOP.replace("        {test}", "        n = y.sum()\n        dist.all_reduce(n)\n        {test}")
    assert found(tmp_path, train=source.format(test="if n.item() == 0:", way="continue")) == []


def test_next_of_an_iterator(tmp_path):
    source = HEAD + (
        "    it = iter(train_loader)\n"
        "    while True:\n"
        "        try:\n"
        "            batch = next(it)\n"
        "        except StopIteration:\n"
        "            it = iter(train_loader)\n"
        "            batch = next(it)\n"
        "        if int(batch['mask'].sum().item()) == 0:\n"
        "            continue\n"
        "        loss = net(batch['x']).sum()\n"
        "        loss.backward()\n"
    )
    assert found(tmp_path, train=source) == [("local-skip", "train.py", 19, "warning")]


def test_a_loop_over_anything_else_gives_no_batches(tmp_path):
    source = HEAD + LOOP.replace("enumerate(train_loader)", "enumerate(range(len(train_loader)))")
    source = source.replace("(x, y)", "x").format(test="if criterion.sum().item() == 0:", way="continue")
    assert found(tmp_path, train=source) == []


def test_the_loop_is_handed_over_as_a_function(tmp_path):
    loops = (
        "def fast(net, loader):\n"
        "    for x in loader:\n"
        "        if x.max().item() == 0:\n"
        "            continue\n"
        "        net(x).sum().backward()\n"
        "\n"
        "\n"
        "def slow(net, loader):\n"
        "    pass\n"
    )
    main = (
        "from apex.parallel import DistributedDataParallel as DDP\n"
        "from loops import fast, slow\n"
        "\n"
        "\n"
        "def main(args, train_func, loader):\n"
        "    net = make()\n"
        "    if args.distributed:\n"
        "        net = DDP(net)\n"
        "    train_func(net, loader)\n"
        "    if args.local_rank == 0:\n"
        "        print('done')\n"
        "\n"
        "\n"
        "if __name__ == '__main__':\n"
        "    func = fast if args.fast else slow\n"
        "    main(args, func, loader)\n"
    )
    assert found(tmp_path, main=main, loops=loops) == [("local-skip", "loops.py", 5, "warning")]


def test_a_forward_of_apex_waits_for_nobody(tmp_path):
    source = (
        "import torch.distributed as dist\n"
        "from apex.parallel import DistributedDataParallel as DDP\n"
        "\n"
        "\n"
        "def main(net, x):\n"
        "    net = DDP(net)\n"
        "    if dist.get_rank() == 0:\n"
        "        {}\n"
    )
    assert found(tmp_path, main=source.format("net(x)")) == []
    assert found(tmp_path, main=source.format("net(x).sum().backward()")) == [
        ("rank-guarded-forward", "main.py", 8, "error")
    ]


GUARDED = """\
import torch.distributed as dist


def save(model, rank):
    dist.init_process_group()
    if dist.get_rank() {test} 0:
{lines}        dist.barrier()
"""


@pytest.mark.parametrize(
    ("test", "lines", "line"),
    [("==", 0, 7), ("==", 11, 18), ("==", 12, 6), ("!=", 0, 6), ("!=", 1, 8)],
)
def test_where_a_guarded_collective_is_reported(tmp_path, test, lines, line):
    """Far below its guard, and the barrier for all but rank 0: at the guard; else where it stands."""
    source = GUARDED.format(test=test, lines="        print(model)\n" * lines)
    assert [at for _, _, at, _ in found(tmp_path, train=source)] == [line]


LOSS = """\
    for x, y in train_loader:
        loss = criterion(net(x), y)
{more}        if {test}:
            {way}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "way", "rule"),
    [
        ("loss > 100", "continue", "local-skip"),
        ("loss.item() > 100", "continue", "local-skip"),
        ("loss.detach() < 0.01", "break", "local-skip"),
    ],
)
def test_the_loss_of_a_batch_is_this_ranks_own(tmp_path, test, way, rule):
    source = HEAD + LOSS.format(test=test, way=way, more="")
    assert [(r, at) for r, _, at, _ in found(tmp_path, train=source)] == [(rule, 13 if way == "continue" else 12)]


def test_a_reduced_loss_is_agreed_on(tmp_path):
    more = "        dist.all_reduce(loss)\n"
    assert found(tmp_path, train=HEAD + LOSS.format(test="loss.item() > 100", way="continue", more=more)) == []


def test_evaluation_may_see_the_same_data_everywhere(tmp_path):
    source = HEAD + (
        "    for x, y in train_loader:\n"
        "        loss = criterion(net(x), y)\n"
        "        if loss.item() > 100:\n"
        "            break\n"
        "        dist.barrier()\n"
    )
    assert found(tmp_path, train=source) == []
