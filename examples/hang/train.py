"""Train with several ranks. After the first epoch rank 0 makes a call that the others never make."""

from datetime import timedelta

import torch
import torch.distributed as dist
from evaluation import evaluate
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        for _ in range(10):
            x = torch.randn(8, 16)
            loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            x = torch.randn(64, 16)
            error = evaluate(model, x, x.sum(dim=1, keepdim=True))
            print(f"epoch {epoch}: {error:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
