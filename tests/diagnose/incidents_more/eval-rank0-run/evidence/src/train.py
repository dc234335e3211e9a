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


model = torch.nn.Linear(32, 8)
def evaluate():
    for i in range(400):
        model(torch.randn(16, 32))
        if i % 20 == 0:
            say(f"Evaluating: batch {i}/400")
        time.sleep(0.05)
for step in range(12):
    tick(step)
    loss = model(torch.randn(16, 32)).pow(2).mean()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad = None
    say(f"step {step} loss {loss.item():.4f}")
    if step == 7 and rank == 0:
        evaluate()
dist.destroy_process_group()
