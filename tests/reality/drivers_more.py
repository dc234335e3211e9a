"""More drivers, in the manner of drivers.py: the cases on generators of losses, buffers written in place, and loggers."""

from __future__ import annotations

import os

import torch
from driver_table import drives
from graph_meter import live_tensors
from stand_ins import Output
from torch import nn

SLOTS = 64  # rows of a buffer: more than all batches of a run together need


class Caught(torch.optim.SGD):
    """Holds all that was alive at its last step: what piles up in a function is gone once the function returns."""

    def __init__(self, parameters):
        super().__init__(parameters, 0.05)
        self.alive = None

    def step(self, closure=None):
        self.alive = None  # or what the last step held would be alive too
        self.alive = live_tensors()
        return super().step(closure)


def ignore(*args, **named):
    pass


def losses():
    return [nn.MSELoss(), nn.L1Loss()]


@drives("RG601", "NG601")
def several_criteria(module, bench):
    return bench.call(module.train, criteria=losses(), log=ignore)


@drives("RG602", "RG603", "RJ633")
def several_heads(module, bench):
    opt = Caught(bench.net.parameters())
    bench.call(module.train, heads=losses(), optimizer=opt, log=ignore, plot=ignore)
    return opt


@drives("RL609")
def named_losses(module, bench):
    opt = Caught(bench.net.parameters())
    bench.call(module.train, losses=dict(zip("ab", losses())), optimizer=opt, log=ignore)
    return opt


@drives("RJ617", "RS607")
def logged(module, bench):
    opt = Caught(bench.net.parameters())
    bench.call(module.train, optimizer=opt, accumulate=1, log=ignore)
    return opt


@drives("RL612")
def table(module, bench):
    opt = Caught(bench.net.parameters())
    bench.call(module.train, optimizer=opt, path=os.devnull)
    return opt


@drives("RG604")
def losses_of_an_evaluation(module, bench):
    calls, seen = [], []

    def criterion(out, y):
        loss = nn.functional.mse_loss(out, y)
        calls.append(len(out))
        if len(calls) <= 1 + bench.steps:  # the one step of training and the evaluation of the first epoch
            seen.clear()  # or what the last call held would be alive too
            seen.extend(live_tensors())
        return loss

    bench.call(module.train, loader=bench.batches[:1], val=bench.batches, criterion=criterion)
    return seen


@drives("RG612")
def outputs_of_an_evaluation(module, bench):
    seen = []

    class Seen(nn.Module):
        """Holds all that was alive at its last call: the list is gone once the evaluation returns."""

        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            if not self.training:
                seen.clear()  # or what the last call held would be alive too
                seen.extend(live_tensors())
            return self.net(x)

    bench.call(module.train, model=Seen(bench.net), loader=bench.batches[:1], val_loader=bench.batches)
    return seen


@drives("RG610")
def trainer(module, bench):
    made = module.Trainer(bench.net, bench.criterion, bench.sgd(), 0.5)
    made.fit(bench.batches, 1)
    return made


@drives("RG611")
def watch(module, bench):
    made = module.Watch(bench.net, ["0"])
    for x, _ in bench.batches:
        made(x)
    return made


@drives("RJ634")
def epochs_of_two_loaders(module, bench):
    # one batch each and no module for the loss: the probe marks the first outputs of a window, and all are to be among them
    loaders = {"train": bench.batches[:1], "val": bench.batches[:1]}
    return bench.call(module.run, loaders=loaders, criterion=nn.functional.mse_loss, epochs=bench.steps)


@drives("RJ611")
def prepared(module, bench):
    loader = [{"x": x, "y": y} for x, y in bench.batches]
    opt = Caught(bench.net.parameters())
    bench.call(module.train, model=Output(bench.net), optimizer=opt, loader=loader, report=ignore)
    return opt


@drives("RJ612")
def reduced(module, bench):
    module.hvd.init()
    opt = Caught(bench.net.parameters())
    bench.call(module.train, optimizer=opt)
    return opt


@drives("RJ614")
def two_players(module, bench):
    def bce(out, target):
        return nn.functional.binary_cross_entropy_with_logits(out, torch.full_like(out, target))

    gen = bench.track(nn.Linear(4, 4))
    given = {"gen": gen, "dis": bench.net, "opt_g": bench.sgd(gen), "opt_d": bench.sgd()}
    loader = [x for x, _ in bench.batches]
    return bench.call(module.train, loader=loader, bce=bce, noise=lambda n: torch.randn(n, 4), **given)


@drives("RJ618")
def language_model(module, bench):
    # the optimizer is the caller's and cannot have the weights of a model that is made in the function
    opt = Caught(bench.net.parameters())
    batches = [torch.randint(9, (2, 3, 20)) for _ in range(bench.steps)]
    module.train(9, 4, batches, opt)
    return opt


def fit(module, bench, model, loader):
    """Trains with the case's own loop; the caller keeps the model, and with it the buffers."""
    bench.call(module.train, model=bench.track(model), loader=loader, optimizer=bench.sgd(model))
    return model


def rows(bench):
    """Where the outputs of each batch go in a buffer of 8 rows."""
    return [torch.randperm(8)[:6] for _ in range(bench.steps)]


@drives("RG605", "RG608", "NG603")
def memory(module, bench):
    loader = [(x, torch.randn(6, SLOTS), torch.randperm(SLOTS)[:6]) for x, _ in bench.batches]
    return fit(module, bench, module.Memory(nn.Linear(4, 4), SLOTS, 4), loader)


@drives("RG606")
def contrast(module, bench):
    model = module.Contrast(nn.Linear(4, 4), nn.Linear(4, 4), 4, SLOTS)
    return fit(module, bench, model, [(x, x + 0.1) for x, _ in bench.batches])


@drives("NG605")
def frozen_keys(module, bench):
    model = module.Contrast(nn.Linear(4, 4), nn.Linear(4, 4), 4, SLOTS)
    return fit(module, bench, model, [(x, x + 0.1, torch.randint(SLOTS, (6,))) for x, _ in bench.batches])


@drives("RG607")
def prototypes(module, bench):
    loader = [(x, torch.arange(6) % 2) for x, _ in bench.batches]
    model = bench.track(module.Prototypes(nn.Linear(4, 4), 2, 4))
    bench.call(module.train, model=model, loader=loader, loss_fn=nn.CrossEntropyLoss(), optimizer=bench.sgd(model))
    return model


@drives("RJ631")
def bank(module, bench):
    loader = [(x, idx, torch.randn(6, 8)) for (x, _), idx in zip(bench.batches, rows(bench))]
    return fit(module, bench, module.Bank(nn.Linear(4, 4), 8, 4), loader)


@drives("RJ632")
def queue(module, bench):
    return fit(module, bench, module.Queue(nn.Linear(4, 4), 8, 4), [(x, torch.randn(6, 8)) for x, _ in bench.batches])


@drives("NJ628")
def codebook(module, bench):
    loader = [(x, idx, torch.randn(6, 4)) for (x, _), idx in zip(bench.batches, rows(bench))]
    return fit(module, bench, module.Codebook(nn.Linear(4, 4), 8, 4), loader)


@drives("NP608")
def encoder(module, bench):
    loader = [(x, torch.randperm(4)[:2], torch.randn(6, 4)) for x, _ in bench.batches]
    return fit(module, bench, module.Encoder(nn.Linear(4, 4), 8, 4), loader)


@drives("NG604")
def attention(module, bench):
    model = module.Attention(4, SLOTS)
    fit(module, bench, model, [(x, torch.arange(6) < 3, torch.randn(6, 4)) for x, _ in bench.batches])
    return model, [model.generate(x[0], i) for i, (x, _) in enumerate(bench.batches)]


@drives("RJ613", "RJ630", "RS608")
def lightning_module(module, bench):
    """The steps of a Trainer: the module is alive for the whole of the training."""
    if hasattr(module, "Depth"):
        model = module.Depth(nn.Linear(4, 1))
        batches = [{"image": x, "depth": y} for x, y in bench.batches]
    elif hasattr(module, "Net"):
        model = module.Net(nn.Linear(4, 4), SLOTS, 4)
        batches = [(x, torch.randn(6, 4)) for x, _ in bench.batches]
    else:
        model = module.Proto(nn.Linear(4, 4), 2, 4)
        batches = [(x, torch.arange(6) % 2) for x, _ in bench.batches]
    opt = bench.sgd(bench.track(model))
    for i, batch in enumerate(batches):
        opt.zero_grad()
        model.training_step(batch, i).backward()
        opt.step()
    return model


@drives("NG602")
def sum_of_losses(module, bench):
    opt = bench.sgd()
    steps = [module.step(bench.net, [batch], bench.criterion, opt) for batch in bench.batches]
    return steps, module.penalty(bench.net)


@drives("NL601")
def loggers(module, bench):
    class Bar(list):
        def set_postfix(self, **named):
            self.text = str(named)

    class Log:
        def add_scalar(self, name, value, step):
            self.last = float(value)

        def log(self, values):
            self.last = {k: float(v) for k, v in values.items()}

    log = Log()
    return log, bench.call(module.train, writer=log, wandb=log, tqdm=Bar)


@drives("NP609")
def data(module, bench):
    batches = module.prepare(bench.batches, [torch.abs, torch.neg])
    return batches, bench.call(module.train, batches=bench.batches, hooks=[abs, round])
