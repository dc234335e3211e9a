"""Decisions that a rank takes by itself: flags, signals, clocks, numbers, exceptions, shares, sets, sources of a group."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import found, ranks_of

HEAD = """\
import signal, time, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""

FAULTS = {
    ("a field written on rank 0", "local-stop-decision"): """
        class Trainer:
            def __init__(self):
                self.stop = False
                self.is_main = dist.get_rank() == 0
        def after(trainer, step):
            if trainer.is_main:
                trainer.stop = True
        def main():
            trainer = Trainer()
            for step in range(5):
                dist.barrier()
                after(trainer, step)
                if trainer.stop:
                    break  # here
        main()
    """,
    ("a signal and a name of the module", "local-stop-decision"): """
        STOP = False
        def on_term(number, frame):
            global STOP
            STOP = True
        def main(loader, model):
            signal.signal(signal.SIGTERM, on_term)
            model = DDP(model)
            for x in loader:
                model(x).sum().backward()
                if STOP:
                    break  # here
    """,
    ("a signal", "local-stop-decision"): """
        class Loop:
            def __init__(self):
                self.term = False
                signal.signal(signal.SIGTERM, self.on_term)
            def on_term(self, number, frame):
                self.term = True
            def run(self):
                for step in range(5):
                    dist.barrier()
                    if self.term:
                        break  # here
    """,
    ("a clock", "local-stop-decision"): """
        def run(limit):
            start = time.time()
            if dist.get_rank() == 0:
                print("x")
            while True:
                dist.barrier()
                if time.time() - start > limit:
                    break  # here
    """,
    ("not a number", "local-skip"): """
        def train(loader):
            model = DDP(nn.Linear(2, 1))
            for x in loader:
                loss = model(x).mean()
                if torch.isnan(loss).any() or torch.isinf(loss).any():
                    continue
                loss.backward()  # here
    """,
    ("an exception that is swallowed", "local-skip"): """
        def job(x):
            dist.all_reduce(x)
            risky(x)
            dist.all_reduce(x)
        def main(loader):
            for x in loader:
                try:
                    job(x)
                except RuntimeError:
                    continue  # here
    """,
    ("a collective in a handler", "local-skip"): """
        def save(write):
            for attempt in range(3):
                try:
                    write()
                    dist.barrier()
                    return
                except OSError:
                    dist.barrier()  # here
                    continue
    """,
    ("a share", "uneven-loop"): """
        def run(files):
            rank, world = dist.get_rank(), dist.get_world_size()
            for f in files[rank::world]:  # here
                dist.all_reduce(f)
    """,
    ("a sampler", "uneven-loop"): """
        from torch.utils.data import DataLoader, Sampler
        class Mine(Sampler):
            def __init__(self, data):
                self.n, self.r, self.w = len(data), dist.get_rank(), dist.get_world_size()
            def __iter__(self):
                return iter(range(self.r, self.n, self.w))
        def run(data):
            model = DDP(nn.Linear(2, 1))
            for x in DataLoader(data, sampler=Mine(data)):  # here
                model(x).mean().backward()
    """,
    ("a set of names", "collective-order"): """
        class Stats:
            def __init__(self):
                self.names = set()
            def reduce(self, table):
                for name in self.names:  # here
                    dist.all_reduce(table[name])
    """,
    ("a group of each rank's own", "group-made-by-some"): """
        def pair(order):
            rank, start = dist.get_rank(), 0
            while rank not in order[start:start + 2]:
                start += 2
            return dist.new_group(order[start:start + 2])  # here
    """,
}


@pytest.mark.parametrize("name,rule", FAULTS, ids=[n for n, _ in FAULTS])
def test_faults(tmp_path, name, rule):
    source = HEAD + textwrap.dedent(FAULTS[name, rule])
    line = next(n for n, text in enumerate(source.split("\n"), 1) if "# here" in text)
    assert [(r, at) for r, _, at, _ in found(tmp_path, train=source)] == [(rule, line)]


LEGAL = {
    "a signal and a name of the module that is agreed on": """
        STOP = False
        def on_term(number, frame):
            global STOP
            STOP = True
        def main(loader, model):
            signal.signal(signal.SIGTERM, on_term)
            model = DDP(model)
            for x in loader:
                model(x).sum().backward()
                flag = torch.tensor(float(STOP))
                dist.all_reduce(flag)
                if flag.item():
                    break
    """,
    "a flag that is agreed on": """
        class Trainer:
            def __init__(self):
                self.stop = False
                self.is_main = dist.get_rank() == 0
            def any_rank(self, flag):
                t = torch.tensor([int(flag)])
                dist.all_reduce(t)
                return bool(t.item())
        def after(trainer, step):
            if trainer.is_main:
                trainer.stop = True
            trainer.stop = trainer.any_rank(trainer.stop)
        def main():
            trainer = Trainer()
            for step in range(5):
                dist.barrier()
                after(trainer, step)
                if trainer.stop:
                    break
        main()
    """,
    "an exception that is raised again": """
        def main(loader):
            for x in loader:
                try:
                    dist.all_reduce(x)
                    dist.barrier()
                except Exception:
                    print("failed")
                    raise
    """,
    "the end of an iterator that every rank has": """
        def main(loader):
            it = iter(loader)
            while True:
                try:
                    x = next(it)
                except StopIteration:
                    break
                dist.all_reduce(x)
    """,
    "a share that was padded": """
        def run(files):
            rank, world = dist.get_rank(), dist.get_world_size()
            n = (len(files) // world + 1) * world
            files = files + files[: n - len(files)]
            for f in files[rank::world]:
                dist.all_reduce(f)
    """,
    "a sorted set": """
        class Stats:
            def __init__(self):
                self.names = set()
            def reduce(self, table):
                for name in sorted(self.names):
                    dist.all_reduce(table[name])
    """,
    "Join": """
        from torch.distributed.algorithms.join import Join
        def run(files):
            model = DDP(nn.Linear(2, 1))
            with Join([model]):
                for f in files[dist.get_rank() :: dist.get_world_size()]:
                    model(f).mean().backward()
    """,
    "every group on every rank": """
        def build(n):
            mine = None
            for i in range(n):
                group = dist.new_group([i])
                if dist.get_rank() == i:
                    mine = group
            return mine
    """,
    "a clock that decides about logging": """
        def run(loader):
            last = time.time()
            for x in loader:
                dist.all_reduce(x)
                if dist.get_rank() == 0 and time.time() - last > 10:
                    print(x)
    """,
}


@pytest.mark.parametrize("name", LEGAL, ids=list(LEGAL))
def test_silent(tmp_path, name):
    assert found(tmp_path, train=HEAD + textwrap.dedent(LEGAL[name])) == []


def test_sources_of_a_group(tmp_path):
    ranks = ranks_of(
        tmp_path,
        share=HEAD
        + "def wrong(x, g):\n    me = dist.get_rank(g)\n    for r in range(dist.get_world_size(g)):\n"
        + "        if r == me:\n            x = x + 1\n        dist.broadcast(x, src=r, group=g)\n"
        + "def right(x, g):\n    me = dist.get_rank(g)\n    for r in range(dist.get_world_size(g)):\n"
        + "        dist.broadcast(x, src=dist.get_global_rank(g, r), group=g)\n"
        + "def world(x):\n    for r in range(dist.get_world_size()):\n        dist.broadcast(x, src=r)\n",
    )
    assert [(pos >> 44, name, rank) for _, pos, _, name, rank in ranks.wrong_sources()] == [(9, "broadcast", "r")]
