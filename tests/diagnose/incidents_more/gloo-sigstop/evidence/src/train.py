import datetime
import os

import torch
import torch.distributed as dist

import run_trace

timeout_s = float(os.environ.get("PG_TIMEOUT_S", "8"))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
rank, world = dist.get_rank(), dist.get_world_size()
run_trace.start(timeout_s)
torch.manual_seed(rank)

weights = torch.zeros(256)
for step in range(14):
    run_trace.tick(step)
    g = torch.randn(256)
    dist.all_reduce(g)
    weights -= 0.01 * g / world
    print(f"step {step} |w| {weights.norm():.4f}", flush=True)
    import time; time.sleep(0.2)

dist.destroy_process_group()
