import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

import run_trace

timeout_s = float(os.environ.get("PG_TIMEOUT_S", "8"))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
rank, world = dist.get_rank(), dist.get_world_size()
run_trace.start(timeout_s)
torch.manual_seed(rank)
t = torch.zeros(16)


def report(step):
    if rank != 0:
        dist.barrier()


for step in range(8):
    run_trace.tick(step)
    dist.all_reduce(t)
    print(f"step {step} ok", flush=True)
    if step == 5:
        report(step)
dist.destroy_process_group()
