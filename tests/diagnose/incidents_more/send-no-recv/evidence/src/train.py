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
for step in range(6):
    tick(step)
    dist.all_reduce(torch.ones(8))
    say(f"step {step}")
    if step == 4:
        if rank == 0:
            dist.recv(torch.empty(4_000_000), src=2)
        if rank == 2:
            pass
