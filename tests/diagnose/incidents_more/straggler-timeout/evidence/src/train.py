import datetime, os, signal, sys, time, logging
import torch
import torch.distributed as dist

T = 6
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=T))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def say(text):
    print(text, flush=True)


def tick(step):
    pass


for step in range(30):
    tick(step)
    t = time.time()
    time.sleep(0.05 if rank != 2 else 0.05 + max(0, step - 5) * 1.6)
    if rank == 2:
        say(f"step {step} data {time.time() - t:.3f}s (slow disk?)")
    dist.all_reduce(torch.ones(64))
    say(f"step {step} time {time.time() - t:.3f}s")
