"""Faults, through the forms in which code hides them: the rule, the line, the severity."""

from __future__ import annotations

import pytest
from rank_programs import found, ranks_of

HEAD = "import torch, torch.distributed as dist\n"

SURE = {
    "a property": """
        class Trainer:
            @property
            def is_main(self):
                return dist.get_rank() == 0
            def save(self):
                if self.is_main:
                    dist.barrier()  # here
    """,
    "a field": """
        class Trainer:
            def __init__(self):
                self.rank = dist.get_rank()
                self.leader = self.rank == 0
            def save(self):
                if not self.leader:
                    return
                dist.barrier()  # here
    """,
    "a field given by the constructor": """
        class Loop:
            def __init__(self, rank):
                self.rank = rank
            def save(self):
                if self.rank == 0:
                    dist.barrier()  # here
        Loop(dist.get_rank()).save()
    """,
    "a helper with a flag": """
        def save(state, main):
            if main:
                dist.barrier()  # here
        def run():
            save({}, dist.get_rank() == 0)
        run()
    """,
    "a dictionary": """
        def is_master(args):
            return args["rank"] == 0
        def save(args):
            if is_master(args):
                dist.barrier()  # here
        save({"rank": dist.get_rank()})
    """,
    "a decorator": """
        import functools
        def master_only(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs):
                if dist.get_rank() == 0:
                    return fn(*args, **kwargs)
            return inner
        class Log:
            @master_only
            def write(self, text):
                dist.barrier()  # here
        def main():
            Log().write("x")
        main()
    """,
    "a callback": """
        def on_main(fn, *args):
            if dist.get_rank() == 0:
                fn(*args)
        def report(value):
            dist.all_reduce(value)  # here
        def main():
            on_main(report, torch.ones(1))
        main()
    """,
    "a lambda": """
        def on_main(fn):
            if dist.get_rank() == 0:
                return fn()
        def main(value):
            on_main(lambda: dist.all_reduce(value))  # here
        main(1)
    """,
    "a subclass's method": """
        class Plugin:
            def gather(self):
                return 1
            def save(self):
                if dist.get_rank() == 0:
                    self.gather()
        class Sharded(Plugin):
            def gather(self):
                dist.barrier()  # here
        Sharded().save()
    """,
    "a conditional expression": """
        def full(t):
            return dist.all_reduce(t) if dist.get_rank() == 0 else t  # here
    """,
    "a short circuit": """
        def full(t):
            dist.get_rank() == 0 and dist.barrier()  # here
    """,
    "an environment variable": """
        import os
        if int(os.environ["RANK"]) == 0:
            dist.barrier()  # here
    """,
    "a spawned function": """
        import torch.multiprocessing as mp
        def worker(gpu, world):
            if gpu == 0:
                dist.barrier()  # here
        mp.spawn(worker, args=(2,), nprocs=2)
    """,
    "a loop": """
        def epochs(loader):
            for x in loader:
                if dist.get_rank() == 0:
                    for y in x:
                        dist.all_reduce(y)  # here
    """,
    "in a first-rank context": """
        from accelerate import Accelerator
        def main():
            accelerator = Accelerator()
            if accelerator.is_main_process:
                accelerator.wait_for_everyone()  # here
    """,
}


@pytest.mark.parametrize("name", SURE, ids=list(SURE))
def test_certain_faults(tmp_path, name):
    import textwrap

    source = HEAD + textwrap.dedent(SURE[name])
    line = next(n for n, text in enumerate(source.split("\n"), 1) if "# here" in text)
    seen = found(tmp_path, train=source)
    assert [(file, at) for _, file, at, _ in seen] == [("train.py", line)]
    assert [severity for *_, severity in seen] == ["error"]


def test_a_name_alone_is_a_warning(tmp_path):
    assert found(tmp_path, train=HEAD + "def f(rank):\n    if rank == 0:\n        dist.barrier()\n") == [
        ("rank-guarded-collective", "train.py", 4, "warning")
    ]


def test_through_four_modules(tmp_path):
    seen = ranks_of(
        tmp_path,
        pkg____init__="",
        pkg__comm="import torch.distributed as dist\ndef is_zero():\n    return dist.get_rank() == 0\n"
        "def mean(t):\n    dist.all_reduce(t)\n    return t\n",
        pkg__metrics="from .comm import mean\ndef report(t):\n    print(mean(t))\n",
        pkg__loop="from . import metrics\nclass Loop:\n    def finish(self, t):\n        metrics.report(t)\n",
        main="from pkg.comm import is_zero\nfrom pkg.loop import Loop\nif is_zero():\n    Loop().finish(1)\n",
    ).divergences()
    assert [(d.module.path, d.pos >> 44, d.severity) for d in seen] == [("pkg/comm.py", 5, "error")]
    d = seen[0]
    assert [(m.path, p >> 44, label) for m, p, label in d.chain] == [
        ("main.py", 4, "finish"), ("pkg/loop.py", 4, "report"), ("pkg/metrics.py", 3, "mean")
    ]  # fmt: skip
    assert (d.guard[0].path, d.guard[1] >> 44) == ("main.py", 3)
    assert [(str(a), str(b)) for a, b in d.rows] == [("rank 0", "all_reduce"), ("other ranks", "nothing")]


def test_one_finding_for_a_guard(tmp_path):
    source = HEAD + "if dist.get_rank() == 0:\n    dist.barrier()\n    dist.barrier()\n    dist.all_reduce(1)\n"
    assert len(found(tmp_path, train=source)) == 1


def test_a_condition_in_a_callee_makes_it_a_warning(tmp_path):
    source = HEAD + (
        "def now(share):\n    if not share:\n        return 1\n    dist.barrier()\n"
        "def main(args):\n    if dist.get_rank() == 0:\n        now(args.share)\nmain(1)\n"
    )
    assert [s for *_, s in found(tmp_path, train=source)] == ["warning"]


def test_recursion_and_cycles_end(tmp_path):
    source = HEAD + (
        "def a(n):\n    if dist.get_rank() == 0:\n        b(n)\ndef b(n):\n    a(n - 1)\n    dist.barrier()\na(3)\n"
    )
    assert {file for _, file, _, _ in found(tmp_path, train=source)} == {"train.py"}


def test_many_early_returns_are_fast(tmp_path):
    import time

    lines = [HEAD, "def f(x):"]
    for n in range(30):
        lines += [f"    if x == {n}:", "        return", f"    if x.a{n}:", "        dist.all_reduce(x)"]
    lines += ["    if dist.get_rank() == 0:", "        dist.barrier()"]
    started = time.process_time()
    seen = found(tmp_path, train="\n".join(lines) + "\n")
    assert time.process_time() - started < 3
    assert [r for r, *_ in seen] == ["rank-guarded-collective"]
