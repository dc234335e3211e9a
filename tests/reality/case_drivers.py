"""How the case programs are run on the CPU: each driver takes the program's names and a number of steps, and gives back
what stays alive. Cases that need a GPU, several processes or other packages have no driver."""

from __future__ import annotations

import torch
from torch import nn


def data(n, width=8):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(4, width, generator=generator), torch.randn(4, 1, generator=generator)) for _ in range(n)]


def net(width=8):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3)


class NoStep:
    """An optimizer that leaves the parameters alone, so that a graph of an earlier step stays valid."""

    def zero_grad(self): ...

    def step(self): ...


class Accelerator:
    def backward(self, loss):
        loss.backward()

    def accumulate(self, model):
        import contextlib

        return contextlib.nullcontext()


class Output(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net()

    def forward(self, x, y):
        out = type("Out", (), {})()
        out.loss = nn.functional.mse_loss(self.inner(x), y)
        return out


class Comm:
    def allreduce(self, value, name):
        return value * 1


def a001(ns, n):
    model = net()
    return ns["fit"](model, data(n), sgd(model), nn.MSELoss())


def a003(ns, n):
    model = Output()
    batches = [{"x": x, "y": y} for x, y in data(n)]
    return ns["run_epoch"](model, batches, sgd(model), Accelerator(), 1)


def a004(ns, n):
    model = net()
    return ns["train"](model, data(n), sgd(model), nn.MSELoss(), Comm())


def a005(ns, n):
    model = net()
    runner = ns["Runner"](ns["Actor"](model, nn.MSELoss()), sgd(model))
    runner.cycle(data(n))
    return runner.stats


def a007(ns, n):
    model = net()
    return ns["loop"](model, data(n), sgd(model), nn.MSELoss())


def a008(ns, n):
    model = net()

    class Agent:
        def losses(self, batch):
            loss = nn.functional.mse_loss(model(batch[0]), batch[1])
            return [loss, loss * 0.5, loss * 0.25]

    return ns["fit"](Agent(), data(n), sgd(model), 0.1, -1.0)


def a009(ns, n):
    model = net()
    return ns["train"](ns["Objective"](model, nn.MSELoss()), data(n), sgd(model)).smooth


def a011(ns, n):
    model = net()

    class Module:
        def training_step(self, batch, i):
            return {"loss": nn.functional.mse_loss(model(batch[0]), batch[1])}

        def training_epoch_end(self, collected):
            return collected

    return ns["Fit"]().train_epoch(Module(), data(n), sgd(model))


def a013(ns, n):
    layer, first = ns["FlowNorm"](8), nn.Linear(8, 8)
    for x, _ in data(n):
        layer(first(x))
    return [layer.mu, layer.var]


def a015(ns, n):
    layer, first = ns["Norm"](8), nn.Linear(8, 8)
    for x, _ in data(n):
        layer(first(x))
    return [layer.m_mean, layer.m_var]


def a019(ns, n):
    x, y = data(1)[0]
    return ns["descend"](net(), x, y, n)


def a020(ns, n):
    model = net()

    def problem(batch):
        return {"train_loss": nn.functional.mse_loss(model(batch[0]), batch[1])}

    return ns["Trainer"](problem, sgd(model)).train(data(n), 2)


def a021(ns, n):
    model = net()
    return ns["train"](model, data(n), sgd(model), nn.MSELoss())


def a023(ns, n):
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    batches = [(x, (y[:, 0] > 0).long()) for x, y in data(n)]
    return ns["main"](model, batches, sgd(model))


def a024(ns, n):
    model = net()
    return ns["run_nn"](model, data(n), nn.MSELoss(), sgd(model), "valid")


def a025(ns, n):
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    batches = [(x, (y[:, 0] > 0).long()) for x, y in data(n)]
    return ns["validate"](batches, model, nn.CrossEntropyLoss())


def a027(ns, n):
    model = net()

    def loss(model, x, y):
        return nn.functional.mse_loss(model(x), y)

    return ns["monitor"](ns["Infer"](model, loss, NoStep()), data(n))


def a028(ns, n):
    return ns["apply_all"](net(), [x for x, _ in data(n)], "cpu")


def a029(ns, n):
    model = net()
    return ns["Net2"](model, nn.MSELoss(), sgd(model)).run_valid(data(n))


def a033(ns, n):
    generator, critic, pool = nn.Linear(8, 8), nn.Linear(8, 1), ns["ImagePool"](cap=1000)
    for x, _ in data(n):
        ns["step"](generator, critic, x, sgd(generator), sgd(critic), pool)
    return pool.items


def a035(ns, n):
    rnn, head = nn.GRU(4, 4, batch_first=True), nn.Linear(4, 1)
    chunks = [(x.view(4, 2, 4), y) for x, y in data(n)]
    return ns["scan"](rnn, head, chunks, nn.MSELoss(), NoStep())


def a036(ns, n):
    model = ns["Seq"](4, 4)
    chunks = [(x[:3].view(3, 2, 4), y[:3]) for x, y in data(n)]
    return ns["train"](model, chunks, nn.MSELoss(), NoStep()).state


GROWING = {
    "A001": a001, "A003": a003, "A004": a004, "A005": a005, "A007": a007, "A008": a008, "A009": a009, "A011": a011,
    "A013": a013, "A015": a015, "A019": a019, "A020": a020, "A021": a021, "A023": a023, "A027": a027, "A028": a028,
    "A029": a029, "A033": a033, "A035": a035, "A036": a036,
}  # fmt: skip
"""What stays alive grows with the number of steps."""

PEAK = {"A024": a024, "A025": a025}
"""Nothing grows, but each forward saves activations that nobody needs."""
