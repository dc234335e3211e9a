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
for step in range(10):
    tick(step)
    hs = [dist.all_reduce(torch.ones(64), async_op=True) for _ in range(3 if rank != 1 or step != 6 else 2)]
    for h in hs:
        h.wait()
    say(f"step {step}")
tick(99)
dist.barrier()
say("training finished")
