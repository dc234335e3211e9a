import datetime, os, signal, sys, time, logging
import torch
import torch.distributed as dist
import run_trace

T = 6
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=T))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def say(text):
    print(text, flush=True)


def tick(step):
    run_trace.tick(step)


run_trace.start(T)
for step in range(12):
    x = torch.ones(64) * rank
    tick(step)
    if step == 8:
        dist.reduce(x, dst=0 if rank != 2 else 2)
    dist.all_reduce(x)
    say(f"step {step} loss {2.0 - step * 0.01:.4f}")
dist.destroy_process_group()
