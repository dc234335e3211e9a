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

from torch.nn.parallel import DistributedDataParallel as DDP

net = DDP(torch.nn.Linear(8, 1))
data = [torch.randn(4, 8) for _ in range(9 if rank == 1 else 10)]
for epoch in range(3):
    for step, x in enumerate(data):
        run_trace.tick(step)
        net(x).sum().backward()
        print(f"epoch {epoch} step {step}", flush=True)
    t = torch.ones(1)
    dist.all_reduce(t)
    print(f"epoch {epoch} end", flush=True)
dist.destroy_process_group()
