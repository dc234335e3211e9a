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
import queue, threading
jobs, done = queue.Queue(), queue.Queue()
def saver():
    while True:
        path = jobs.get()
        with open(path, "w") as f:
            f.write("x")
        done.put(path)
threading.Thread(target=saver, daemon=True).start()
for step in range(12):
    tick(step)
    dist.all_reduce(torch.ones(8))
    say(f"step {step}")
    if step == 6 and rank == 0:
        jobs.put("/no/such/dir/ckpt.pt")
        done.get()
