"""A small training job with one fault, named by the first argument: what the tests of `torchvet run` start."""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FAULT = sys.argv[1]
STEPS = int(os.environ.get("STEPS", "40"))
TIMEOUT = float(os.environ.get("TIMEOUT", "6"))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return torch.ones(int(os.environ.get("ROW", "16")))


def stacked(items):
    return torch.stack(items)


def batches():
    workers = 1 if FAULT == "feeder" else 0
    collate = stacked if FAULT == "feeder" else None
    yield from torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=workers, collate_fn=collate)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIMEOUT))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Linear(int(os.environ.get("ROW", "16")), 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept, total, ballast = [], 0, []
    for step, x in zip(range(STEPS), batches()):
        if FAULT == "outputs":
            kept.append(model(x))
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        if step == 12 and rank == 1:
            happen()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        if step == 12 and FAULT == "skip" and rank == 0:
            dist.all_reduce(torch.ones(1))
        optimizer.step()
        if FAULT == "leak":
            total += loss
        if FAULT == "window":
            kept = [*kept[-4:], loss]
        if FAULT == "growth":
            ballast.append(bytearray(os.urandom(1 << 16) * 32))
        time.sleep(float(os.environ.get("PACE", "0.02")))
    os.write(1, f"finished {rank}\n".encode())
    dist.destroy_process_group()


def happen():
    if FAULT == "sleep":
        time.sleep(60)
    elif FAULT == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "exception":
        raise KeyError("token")
    elif FAULT == "exit":
        os._exit(0)
    elif FAULT == "code":
        sys.exit(7)
    elif FAULT == "abort":
        os.abort()


main()
