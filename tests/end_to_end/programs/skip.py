"""Trains on rows of which a few are broken: the rank that meets one leaves its step out."""

import datetime

import torch
import torch.distributed as dist


def rows(rank: int):
    for step in range(60):
        x = torch.randn(8, 16)
        if rank == 1 and step == 20:
            x[0, 0] = float("nan")
        yield x


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=12))
    rank = dist.get_rank()
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, x in enumerate(rows(rank)):
        loss = model(x).square().mean()
        if torch.isnan(loss):
            print(f"step {step}: loss is nan, skipping batch", flush=True)
            continue
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
