"""What a case is given for its parameters: the smallest thing of that name which behaves like the real one."""

from __future__ import annotations

import contextlib
import inspect
import types

import torch
from torch import nn


class NoStandIn(Exception):
    """A parameter of the case that the table does not know."""


class Accelerator:
    """The calls of accelerate's class that a training step makes, on one process."""

    num_processes = 1

    @contextlib.contextmanager
    def accumulate(self, *models):
        yield

    def backward(self, loss):
        loss.backward()

    def gather(self, tensor):
        return tensor

    gather_for_metrics = gather


class Comm:
    """A reduction over one rank: a new tensor with the graph of the old one."""

    def allreduce(self, value, name=None):
        return value * 1.0


class Output(nn.Module):
    """A model in the manner of transformers: keyword batch in, an object with `loss` out."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        out = self.net(x)
        return types.SimpleNamespace(loss=nn.functional.mse_loss(out, y), logits=out)


class Bench:
    """One run of `steps` steps: model, optimizer, data and the rest, the same in every run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.held = 0
        self.tracked: list[nn.Module] = []
        self.net = self.track(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
        self.criterion = nn.MSELoss()
        self.batches = [(torch.randn(6, 4), torch.randn(6, 1)) for _ in range(steps)]

    def track(self, module: nn.Module) -> nn.Module:
        """`module`, with its parameters and buffers counted to the result of the training."""
        self.tracked.append(module)
        return module

    def sgd(self, module: nn.Module | None = None) -> torch.optim.Optimizer:
        return torch.optim.SGD((module or self.net).parameters(), lr=0.05)

    def state(self) -> list[torch.Tensor]:
        return [t.detach() for m in self.tracked for t in (*m.parameters(), *m.buffers())]

    def stand_in(self, name: str):
        if name in ("model", "net", "policy", "module", "network"):
            return self.net
        if name in (
            "loader",
            "batches",
            "chunks",
            "val_loader",
            "test_loader",
            "train_loader",
            "dataloader",
            "data_loader",
        ):
            return self.batches
        if name in ("opt", "optimizer", "optim"):
            return self.sgd()
        if name in ("criterion", "crit", "loss_fn", "loss", "loss_f", "loss_function"):
            return self.criterion
        if name == "accelerator":
            return Accelerator()
        if name == "comm":
            return Comm()
        if name == "device":
            return "cpu"
        if name in ("epochs", "num_epochs"):
            return 1
        if name in ("steps", "n_steps", "max_steps"):
            return self.steps
        raise NoStandIn(name)

    def call(self, function, **given):
        """`function` with `given`, and stand-ins for its other parameters without default."""
        arguments = {}
        for name, p in inspect.signature(function).parameters.items():
            if name in given:
                arguments[name] = given[name]
            elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                arguments[name] = self.stand_in(name)
        return function(**arguments)
