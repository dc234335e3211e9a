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

for step in range(8):
    run_trace.tick(step)
    if rank == 1 and step == 5:
        dist.broadcast(t, src=0)
    else:
        dist.all_reduce(t)
    print(f"step {step} ok", flush=True)
dist.destroy_process_group()
