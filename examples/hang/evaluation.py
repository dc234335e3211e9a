"""Evaluation with a mean over all ranks. Every rank has to call it."""

import torch
import torch.distributed as dist
from torch import nn


@torch.no_grad()
def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    error = (model(x) - y).square().mean()
    model.train()
    dist.all_reduce(error)
    dist.barrier()
    return error.item() / dist.get_world_size()
