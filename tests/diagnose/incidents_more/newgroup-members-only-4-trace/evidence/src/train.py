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
say(f"rank {rank} building groups")
members = [0, 1]
if rank in members:
    pair = dist.new_group(members)
    dist.all_reduce(torch.ones(4), group=pair)
every = dist.new_group(list(range(world)))
dist.all_reduce(torch.ones(4), group=every)
for step in range(6):
    tick(step)
    x = torch.ones(64)
    dist.all_reduce(x)
    say(f"step {step} loss {2.0 - step * 0.01:.4f}")
dist.destroy_process_group()
