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


for step in range(12):
    x = torch.ones(64) * rank
    tick(step)
    if step == 8:
        box = [{'lr': 0.1, 'rank': rank}]
        dist.broadcast_object_list(box, src=rank)
    dist.all_reduce(x)
    say(f"step {step} loss {2.0 - step * 0.01:.4f}")
dist.destroy_process_group()
