"""A small gloo job with one fault: python faulty.py FAULT, under torchrun. Prints a step a line."""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

fault = sys.argv[1]
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
rank = dist.get_rank()
for step in range(8):
    value = torch.ones(8)
    if step == 5:
        if fault == "leaves" and rank == 1:
            print("no samples left in this shard, done", flush=True)
            os._exit(0)
        if fault == "raises" and rank == 2:
            raise KeyError("dog")
        if fault == "killed" and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "stalls" and rank == 0:
            print(f"saving checkpoint at step {step}", flush=True)
            time.sleep(60)
        if fault == "exits" and rank == 1:
            sys.exit(3)
        if fault == "roots":
            dist.broadcast(torch.ones(4_000_000), src=rank)
        if fault == "not finite" and rank == 2:
            print(f"step {step} loss nan", flush=True)
            raise ValueError("loss is nan")
    dist.all_reduce(value)
    print(f"step {step} sum {value.sum().item():.1f}", flush=True)
print("training finished", flush=True)
dist.destroy_process_group()
