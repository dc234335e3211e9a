"""Legal code that looks like a fault: nothing may be said about it."""

from __future__ import annotations

import pytest
from rank_programs import found

LEGAL = {
    "paired barrier": """
        import torch.distributed as dist
        def load(path, local_rank):
            if local_rank not in (-1, 0):
                dist.barrier()
            data = open(path)
            if local_rank == 0:
                dist.barrier()
            return data
    """,
    "paired barrier in a context manager": """
        from contextlib import contextmanager
        import torch.distributed as dist
        @contextmanager
        def zero_first(rank):
            if rank > 0:
                dist.barrier()
            yield
            if rank == 0:
                if not dist.is_available():
                    return
                if not dist.is_initialized():
                    return
                dist.barrier()
        def main(rank):
            with zero_first(rank):
                data = open("x")
            dist.barrier()
    """,
    "halves in two functions": """
        import torch.distributed as dist
        def wait_before():
            if dist.get_rank() != 0:
                dist.barrier()
        def wait_after():
            if dist.get_rank() == 0:
                dist.barrier()
        def main():
            wait_before()
            open("x")
            wait_after()
        main()
    """,
    "both branches": """
        import torch, torch.distributed as dist
        def share(x, source):
            if dist.get_rank() == source:
                dist.broadcast(torch.tensor(x.shape), source)
                dist.broadcast(x, source)
                return x
            shape = torch.zeros(2)
            dist.broadcast(shape, source)
            buffer = torch.zeros(*shape)
            dist.broadcast(buffer, source)
            return buffer
    """,
    "compute on one, broadcast by all": """
        import torch.distributed as dist
        def decide(compute):
            box = [None]
            if dist.get_rank() == 0:
                box[0] = compute()
            dist.broadcast_object_list(box, src=0)
            if box[0] is None:
                return
            dist.barrier()
    """,
    "decision through a helper": """
        import torch, torch.distributed as dist
        def any_rank(flag):
            t = torch.tensor([int(flag)])
            dist.all_reduce(t, op=dist.ReduceOp.MAX)
            return bool(t.item())
        def loop(score):
            for epoch in range(6):
                stop = False
                if dist.get_rank() == 0:
                    stop = score(epoch) > 1
                stop = any_rank(stop)
                if stop:
                    break
                dist.barrier()
    """,
    "stop flag of a loop, broadcast": """
        import os
        import torch.distributed as dist
        RANK = int(os.getenv("RANK", -1))
        stop = False
        for epoch in range(5):
            if RANK in {-1, 0}:
                stop = epoch >= 2
            if RANK != -1:
                box = [stop if RANK == 0 else None]
                dist.broadcast_object_list(box, 0)
                if RANK != 0:
                    stop = box[0]
            if stop:
                break
            dist.barrier()
    """,
    "not distributed": """
        import torch.distributed as dist
        def synchronize(args):
            if not dist.is_initialized():
                return
            if dist.get_world_size() == 1:
                return
            if args.local_rank != -1:
                dist.barrier()
            if dist.get_rank() >= 0:
                dist.barrier()
            if args.distributed:
                dist.barrier()
    """,
    "members of a group": """
        import torch.distributed as dist
        def step(x, members):
            group = dist.new_group(members)
            if dist.get_rank() in members:
                dist.all_reduce(x, group=group)
            pair = dist.new_group([0, 1])
            if dist.get_rank() in (0, 1):
                dist.all_reduce(x, group=pair)
    """,
    "a guard on another axis": """
        import torch.distributed as dist
        class Saver:
            def __init__(self, mesh):
                self.dp_group = mesh.group("dp")
                self.tp_group = mesh.group("tp")
                self.dp_rank = dist.get_rank(self.dp_group)
            def save(self, x):
                if self.dp_rank != 0:
                    return
                dist.all_gather([x], x, group=self.tp_group)
    """,
    "point to point": """
        import torch, torch.distributed as dist
        def chain(x):
            rank, world = dist.get_rank(), dist.get_world_size()
            if rank > 0:
                dist.recv(x, src=rank - 1)
            if rank < world - 1:
                dist.send(x, dst=rank + 1)
            dist.barrier()
    """,
    "serial printing": """
        import torch.distributed as dist
        for r in range(dist.get_world_size()):
            if r == dist.get_rank():
                print("rank", r)
            dist.barrier()
    """,
    "an exception ends the job": """
        import sys
        import torch.distributed as dist
        def check(ok):
            if dist.get_rank() == 0 and not ok:
                raise RuntimeError("bad")
            if dist.get_rank() == 1 and not ok:
                sys.exit(1)
            dist.barrier()
    """,
    "a barrier and a return": """
        import torch.distributed as dist
        def save(write):
            if dist.get_rank() != 0:
                dist.barrier()
                return
            write()
            dist.barrier()
    """,
    "the same number of times, not decided": """
        import torch.distributed as dist
        def build(splits, make, on_this_rank):
            if dist.get_rank() != 0:
                for s in splits:
                    if s is not None:
                        dist.barrier()
                return
            for s in splits:
                if s:
                    make(s)
                    dist.barrier()
    """,
    "a constant guard": """
        import torch.distributed as dist
        def helper(rank=-1):
            if rank == 0:
                dist.barrier()
        def main():
            if dist.get_rank() == 0:
                helper(rank=-1)
        main()
    """,
    "rank zero only, local body": """
        import functools
        import torch.distributed as dist
        def master_only(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs):
                if dist.get_rank() == 0:
                    return fn(*args, **kwargs)
            return inner
        class Log:
            @master_only
            def write(self, text):
                print(text)
        def main(log: Log):
            log.write("x")
            dist.barrier()
    """,
    "the inner module": """
        import torch, torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
        if dist.get_rank() == 0:
            model.module(torch.ones(2, 2))
            print(model.state_dict())
        dist.barrier()
    """,
    "no buffers": """
        import torch, torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))
        if dist.get_rank() == 0:
            with torch.no_grad():
                model(torch.ones(2, 2))
        dist.barrier()
    """,
    "saved by all": """
        from accelerate import Accelerator
        def main(model):
            accelerator = Accelerator()
            model = accelerator.prepare(model)
            state = accelerator.get_state_dict(model)
            if accelerator.is_main_process:
                print(state)
            if accelerator.is_main_process or accelerator.distributed_type == "DEEPSPEED":
                accelerator.save_state("x")
    """,
    "gradients and reduced numbers": """
        import torch, torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        def train(loader, multi):
            model = DDP(nn.Linear(2, 1))
            for x in loader:
                loss = model(x).mean()
                seen = loss.detach().clone()
                if multi:
                    dist.all_reduce(seen)
                if torch.isnan(seen):
                    continue
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if torch.isfinite(norm):
                    dist.barrier()
    """,
    "paired barriers under a test that holds something unknown": """
        import os
        import torch.distributed as dist
        from elsewhere import states
        def is_main(kind):
            if states[kind] is None:
                return os.environ.get("LOCAL_RANK", "0") == "0"
            return dist.get_rank() == 0
        def prepare(data, kind):
            main = is_main(kind)
            if not main:
                dist.barrier()
            data = data.map(len)
            if main:
                dist.barrier()
            return data
        def main_first(main):
            if not main:
                dist.barrier()
            yield
            if main:
                dist.barrier()
        def other(data, kind):
            for _ in main_first(is_main(kind)):
                data = data.map(len)
            return data
    """,
    "main process first": """
        from accelerate import Accelerator
        def main():
            accelerator = Accelerator()
            with accelerator.main_process_first():
                open("x")
            accelerator.wait_for_everyone()
    """,
}


@pytest.mark.parametrize("name", LEGAL, ids=list(LEGAL))
def test_silent(tmp_path, name):
    assert found(tmp_path, train=LEGAL[name]) == []
