"""Small training programs: each line marked `#!` keeps, carries or wastes a graph, no other line does."""

from __future__ import annotations

import pytest
from graph_programs import graphs_of, kept_lines

FAULTS = {
    "tensor_slots": """
import torch


def fit(model, loader, opt, crit):
    buf = torch.zeros(1000)
    i = 0
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        buf[i] = loss  # !
        i += 1
""",
    "weight_norms": """
def fit(model, loader, opt, crit):
    total, penalties, norms = 0.0, 0.0, 0.0
    for x, y in loader:
        penalty = sum(p.pow(2).sum() for p in model.parameters())
        loss = crit(model(x), y) + 1e-4 * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        penalties += penalty  # !
        norms += sum(p.grad.norm() for _, p in model.named_parameters())
        norms += sum(p.detach().norm() for p in model.parameters())
    return total, penalties, norms
""",
    "records": """
from collections import namedtuple
from dataclasses import dataclass

Step = namedtuple("Step", "loss, step")


@dataclass
class Result:
    loss: object
    size: int = 0


def fit(model, loader, opt, crit):
    steps, results = [], []
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        steps.append(Step(loss, i))  # !
        steps.append(Step(loss.item(), step=i))
        results.append(Result(loss=loss, size=len(x)))  # !
        results.append(Result(loss.detach(), len(x)))
    return steps, results
""",
    "defaultdict_list": """
from collections import defaultdict


def fit(model, loader, opt, crit):
    hist = defaultdict(list)
    for x, y in loader:
        out = model(x)
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hist["loss"].append(loss)  # !
    return hist
""",
    "defaultdict_float": """
from collections import defaultdict


def fit(model, loader, opt, crit):
    s = defaultdict(float)
    for x, y in loader:
        losses = {"a": crit(model(x), y), "b": crit(model(x), y)}
        total = sum(losses.values())
        opt.zero_grad()
        total.backward()
        opt.step()
        for k, v in losses.items():
            s[k] += v  # !
    return s
""",
    "global_list": """
HISTORY = []


def step(model, x, y, opt, crit):
    loss = crit(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    HISTORY.append(loss)  # !
    return loss.item()


def fit(model, loader, opt, crit):
    for x, y in loader:
        step(model, x, y, opt, crit)
""",
    "closure": """
def make(model, opt, crit):
    seen = []

    def step(x, y):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen.append(loss)  # !
        return loss.item()

    return step, seen
""",
    "nonlocal": """
def fit(model, loader, opt, crit):
    total = 0.0

    def step(x, y):
        nonlocal total
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss  # !

    for x, y in loader:
        step(x, y)
    return total
""",
    "attr_total": """
class T:
    def __init__(self, m, o, c):
        self.m, self.o, self.c = m, o, c
        self.loss_sum = 0

    def train_epoch(self, loader):
        for x, y in loader:
            loss = self.c(self.m(x), y)
            self.o.zero_grad()
            loss.backward()
            self.o.step()
            self.loss_sum += loss  # !
""",
    "lightning": """
import pytorch_lightning as pl
import torch.nn.functional as F


class L(pl.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.losses = []

    def training_step(self, batch, i):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.losses.append(loss)  # !
        return loss
""",
    "lightning_attr": """
import lightning as L


class M(L.LightningModule):
    def training_step(self, batch, i):
        out = self.model(batch[0])
        loss = self.criterion(out, batch[1])
        self.running += loss  # !
        return {"loss": loss}
""",
    "hf_outputs": """
def fit(model, loader, opt):
    total = 0
    logits = []
    for batch in loader:
        outputs = model(**batch)
        loss = outputs[0]
        loss.backward()
        opt.step()
        opt.zero_grad()
        total += loss  # !
        logits.append(outputs[1])  # !
""",
    "hf_logits": """
def fit(model, loader, opt, acc):
    preds = []
    for batch in loader:
        out = model(**batch)
        acc.backward(out.loss)
        opt.step()
        opt.zero_grad()
        preds.append(out.logits)  # !
""",
    "deepspeed": """
import deepspeed


def fit(args, net, loader):
    engine, _, _, _ = deepspeed.initialize(args=args, model=net)
    total = 0
    for x, y in loader:
        loss = engine(x, y)
        engine.backward(loss)
        engine.step()
        total += loss  # !
""",
    "amp": """
import torch


def fit(model, loader, opt, crit):
    scaler = torch.cuda.amp.GradScaler()
    epoch_loss = 0
    for x, y in loader:
        with torch.cuda.amp.autocast():
            loss = crit(model(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        epoch_loss += loss * x.size(0)  # !
""",
    "dict_update": """
def fit(model, loader, opt, crit):
    logs = []
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log = {"n": len(x)}
        log.update({"loss": loss})
        logs.append(log)  # !
""",
    "tuple_append": """
def fit(model, loader, opt, crit):
    best = ()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        best = best + (loss,)  # !
    return best
""",
    "plus_list": """
def fit(model, loader, opt, crit):
    res = []
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        res += [loss]  # !
    return res
""",
    "insert": """
def fit(model, loader, opt, crit):
    res = []
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.insert(0, loss)  # !
    return res
""",
    "item_key": """
def fit(model, loader, opt, crit):
    res = {}
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        res[i] = loss  # !
    return res
""",
    "queue": """
import queue


def fit(model, loader, opt, crit):
    q = queue.Queue()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        q.put(loss)  # !
    return q
""",
    "deque_unbounded": """
from collections import deque


def fit(model, loader, opt, crit):
    q = deque()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        q.append(loss)  # !
    return q
""",
    "dataclass_meter": """
from dataclasses import dataclass, field


@dataclass
class Stats:
    losses: list = field(default_factory=list)
    total: float = 0.0

    def record(self, v):
        self.losses.append(v)


def fit(model, loader, opt, crit):
    st = Stats()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        st.record(loss)  # !
    return st
""",
    "attr_of_local": """
class Stats:
    pass


def fit(model, loader, opt, crit):
    st = Stats()
    st.losses = []
    st.total = 0
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        st.losses.append(loss)  # !
        st.total += loss  # !
    return st
""",
    "replay": """
class Buffer:
    def __init__(self):
        self.mem = []

    def push(self, *args):
        self.mem.append(args)


def play(policy, env, steps):
    buf = Buffer()
    s = env.reset()
    policy.eval()
    for _ in range(steps):
        a = policy(s)  # !
        s2, r = env.step(a.argmax().item())
        buf.push(s, a, r, s2)  # !
        s = s2
    return buf
""",
    "val_accum": """
import torch.nn.functional as F


def train(model, loader, val, opt, epochs):
    for e in range(epochs):
        model.train()
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        vl = 0
        for x, y in val:
            vl += F.mse_loss(model(x), y)  # !
        print(vl)
""",
    "metric_beside": """
import torch.nn.functional as F


def train(model, loader, opt):
    maes = []
    for x, y in loader:
        out = model(x)
        loss = F.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        mae = F.l1_loss(out, y)
        maes.append(mae)  # !
""",
    "zip_names": """
def fit(models, loader, opts, crit):
    totals = [0.0 for _ in models]
    for x, y in loader:
        for i, (m, o) in enumerate(zip(models, opts)):
            loss = crit(m(x), y)
            o.zero_grad()
            loss.backward()
            o.step()
            totals[i] += loss  # !
""",
    "callback": """
class Logger:
    def __init__(self):
        self.rows = []

    def on_step(self, loss):
        self.rows.append({"loss": loss})


class Trainer:
    def __init__(self, model, opt, crit):
        self.model, self.opt, self.crit = model, opt, crit
        self.cbs = [Logger()]

    def fit(self, loader):
        for x, y in loader:
            loss = self.crit(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            for cb in self.cbs:
                cb.on_step(loss)  # !
""",
    "super_call": """
class Base:
    def __init__(self):
        self.log = []

    def record(self, v):
        self.log.append(v)


class Trainer(Base):
    def fit(self, model, loader, opt, crit):
        for x, y in loader:
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            self.record(loss)  # !
""",
    "property_ret": """
class S:
    def __init__(self, m, o, c):
        self.m, self.o, self.c = m, o, c

    def step(self, x, y):
        self.loss = self.c(self.m(x), y)
        self.o.zero_grad()
        self.loss.backward()
        self.o.step()


def fit(s: S, loader):
    hist = []
    for x, y in loader:
        s.step(x, y)
        hist.append(s.loss)  # !
""",
    "generator": """
def steps(model, loader, opt, crit):
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield loss


def fit(model, loader, opt, crit):
    total = 0
    for loss in steps(model, loader, opt, crit):
        total += loss  # !
""",
    "autograd_grad": """
import torch


def fit(model, loader, opt, crit):
    total = 0
    for x, y in loader:
        loss = crit(model(x), y)
        grads = torch.autograd.grad(loss, model.parameters())
        for p, g in zip(model.parameters(), grads):
            p.grad = g
        opt.step()
        total += loss  # !
""",
    "compile": """
import torch


def fit(net, loader, opt, crit):
    model = torch.compile(net)
    total = 0
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total = loss + total  # !
""",
    "ema_attr": """
class T:
    def __init__(self):
        self.ema = None

    def update(self, v):
        self.ema = v if self.ema is None else 0.9 * self.ema + 0.1 * v


def fit(model, loader, opt, crit):
    t = T()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        t.update(loss)  # !
""",
    "while_loop": """
def fit(model, it, opt, crit, n):
    i = 0
    s = 0
    while i < n:
        x, y = next(it)
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        s += loss  # !
        i += 1
""",
    "module_level": """
import torch
from torch import nn

model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for epoch in range(100):
    out = model(torch.randn(4, 2))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss)  # !
""",
    "named_tuple": """
from collections import namedtuple

Out = namedtuple("Out", "loss n")


def step(model, x, y, opt, crit):
    loss = crit(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return Out(loss, len(x))


def fit(model, loader, opt, crit):
    s = 0
    for x, y in loader:
        o = step(model, x, y, opt, crit)
        s += o.loss  # !
""",
    "hook_list": """
def collect(model, layer, loader, opt, crit):
    feats = []

    def hook(m, i, o):
        feats.append(o)  # !

    layer.register_forward_hook(hook)
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return feats
""",
    "hook_self_dict": """
class X:
    def __init__(self, model):
        self.acts = {}
        self.model = model
        for n, m in model.named_modules():
            m.register_forward_hook(self.make(n))

    def make(self, n):
        def hook(module, inp, out):
            self.acts[n] = out  # !

        return hook

    def run(self, x, y):
        self.model(x)[y].backward()
""",
    "tbptt_attr": """
import torch.nn as nn


class R(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 2)
        self.h = None

    def forward(self, x):
        out, self.h = self.gru(x, self.h)  # !
        return out
""",
    "lstm_tuple": """
import torch, torch.nn as nn


def fit(loader, opt, crit):
    lstm = nn.LSTM(2, 2)
    h = torch.zeros(1, 2, 2)
    c = torch.zeros(1, 2, 2)
    for x, y in loader:
        out, (h, c) = lstm(x, (h, c))  # !
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
""",
    "cell_hidden": """
import torch.nn as nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 2)

    def forward(self, x, h):
        return self.cell(x, h)


def fit(loader, opt, crit):
    m = M()
    h = None
    for x, y in loader:
        h = m(x, h)  # !
        loss = crit(h, y)
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
""",
    "codebook": """
import torch
from torch import nn


class VQ(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("usage", torch.zeros(n))
        self.register_buffer("embed", torch.randn(n, d))
        self.decay = 0.9

    def forward(self, x):
        w = (x @ self.embed.t()).softmax(-1)
        if self.training:
            self.usage = self.decay * self.usage + (1 - self.decay) * w.mean(0)  # !
        return w @ self.embed
""",
    "lerp": """
import torch
from torch import nn


class N(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))

    def forward(self, x):
        m = x.mean(0)
        self.mean.lerp_(m, 0.1)  # !
        return x - m
""",
    "ema_weights": """
import torch


class EMA:
    def __init__(self, model):
        self.shadow = {n: p.clone() for n, p in model.named_parameters()}

    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n] = 0.9 * self.shadow[n] + 0.1 * p  # !
""",
    "cache_dict": """
import torch.nn.functional as F

CACHE = {}


def feats(model, key, x):
    if key not in CACHE:
        CACHE[key] = model(x)
    return CACHE[key]


def fit(model, loader, opt, crit):
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        CACHE[i] = loss  # !
""",
    "lru": """
from functools import lru_cache
import torch
from torch import nn

net = nn.Linear(2, 2)


@lru_cache(maxsize=None)  # !
def embed(i):
    return net(torch.tensor([float(i), 1.0]))
""",
    "empty": """
import torch


def fit(model, loader, opt, crit):
    for x, y in loader:
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        torch.cuda.empty_cache()  # !
""",
    "hf_trainer": """
from transformers import Trainer


class T(Trainer):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.hist = []

    def compute_loss(self, model, inputs, return_outputs=False):
        out = model(**inputs)
        loss = out.loss
        self.hist.append(loss)  # !
        return (loss, out) if return_outputs else loss
""",
    "ignite": """
from ignite.engine import Engine

losses = []


def make(model, opt, crit):
    def update(engine, batch):
        x, y = batch
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss)  # !
        return loss.item()

    return Engine(update)
""",
    "eval_class": """
import torch


class Trainer:
    def __init__(self, model, crit):
        self.model, self.crit = model, crit

    def train_one(self, loader, opt):
        self.model.train()
        for x, y in loader:
            loss = self.crit(self.model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()

    def evaluate(self, loader):
        self.model.eval()
        tot, outs = 0.0, []
        for x, y in loader:
            out = self.model(x)  # !
            tot += self.crit(out, y)  # !
            outs.append(out)  # !
        return tot, torch.cat(outs)

    def fit(self, a, b, opt):
        for e in range(10):
            self.train_one(a, opt)
            self.evaluate(b)
""",
    "eval_list_comp": """
def predict(model, loader):
    model.eval()
    return [model(x) for x in loader]  # !
""",
    "eval_main": """
import torch
from torch import nn


def main():
    model = nn.Sequential(nn.Linear(2, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    crit = nn.MSELoss()
    for epoch in range(5):
        model.train()
        for x, y in train_loader:
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        val = 0
        for x, y in val_loader:
            val += crit(model(x), y)  # !
        print(val / len(val_loader))


main()
""",
    "gan_lists": """
import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Linear(2, 1)
og = torch.optim.Adam(G.parameters())
od = torch.optim.Adam(D.parameters())
bce = nn.BCEWithLogitsLoss()
G_losses, D_losses = [], []
for epoch in range(5):
    for real in loader:
        D.zero_grad()
        e1 = bce(D(real), ones)
        e1.backward()
        fake = G(noise)
        e2 = bce(D(fake.detach()), zeros)
        e2.backward()
        errD = e1 + e2
        od.step()
        G.zero_grad()
        errG = bce(D(fake), ones)
        errG.backward()
        og.step()
        G_losses.append(errG)  # !
        D_losses.append(errD)  # !
""",
    "dict_losses_meter": """
class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def train(loader, model, crit, opt, epoch):
    losses = AverageMeter()
    top1 = AverageMeter()
    model.train()
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = crit(out, y)
        losses.update(loss, x.size(0))  # !
        top1.update((out.argmax(1) == y).float().mean(), x.size(0))
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "meters_dict": """
from collections import defaultdict


class Meter:
    def __init__(self):
        self.s = 0.0
        self.n = 0

    def add(self, v):
        self.s = self.s + v
        self.n += 1


class Log:
    def __init__(self):
        self.meters = defaultdict(Meter)

    def update(self, **kw):
        for k, v in kw.items():
            self.meters[k].add(v)


def train(model, loader, opt, crit):
    log = Log()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.update(loss=loss, lr=0.1)  # !
""",
    "rl_values": """
import torch.nn.functional as F


class Agent:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.td = []

    def learn(self, s, a, r, s2):
        q = self.net(s).gather(1, a)
        target = r + 0.99 * self.net(s2).max(1)[0].detach()
        loss = F.smooth_l1_loss(q, target.unsqueeze(1))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.td.append((q - target).abs())  # !
""",
    "return_append_caller": """
def run_batch(model, batch, crit, opt=None):
    out = model(batch[0])
    loss = crit(out, batch[1])
    if opt is not None:
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss, out


def run_epoch(model, loader, crit, opt):
    ls = []
    for b in loader:
        loss, _ = run_batch(model, b, crit, opt)
        ls.append(loss)  # !
    return sum(ls) / len(ls)
""",
    "best_tensor": """
def fit(model, loader, opt, crit, n):
    history = {"train": [], "val": []}
    for e in range(n):
        running = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = crit(model(x), y)
            loss.backward()
            opt.step()
            running += loss  # !
        history["train"].append(running / len(loader))  # !
    return history
""",
}

HARMLESS = {
    "detached_dict": """
def fit(model, loader, opt, crit):
    logs = []
    for x, y in loader:
        losses = {"a": crit(model(x), y)}
        total = sum(losses.values())
        opt.zero_grad()
        total.backward()
        opt.step()
        logs.append({k: v.item() for k, v in losses.items()})
        logs.append({k: v.detach() for k, v in losses.items()})
""",
    "accuracy": """
import torch


def fit(model, loader, opt, crit):
    correct = total = 0
    accs = []
    for x, y in loader:
        out = model(x)
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        _, pred = torch.max(out, 1)
        correct += (pred == y).sum()
        total += y.size(0)
        accs.append((pred == y).float().mean())
        accs.append(out.argmax(dim=1))
""",
    "grad_accum": """
def fit(model, loader, opt, crit, k):
    acc = 0
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y) / k
        acc = acc + loss
        if (i + 1) % k == 0:
            acc.backward()
            opt.step()
            opt.zero_grad()
            acc = 0
""",
    "reinforce": """
class P:
    def __init__(self):
        self.lp = []
        self.r = []


def act(p, net, s):
    d = net(s)
    p.lp.append(d.log_prob(d.sample()))


def finish(p, opt):
    loss = sum(-l * r for l, r in zip(p.lp, p.r))
    opt.zero_grad()
    loss.backward()
    opt.step()
    p.lp.clear()
    p.r.clear()


def main(net, env, opt, p):
    for ep in range(10):
        s = env.reset()
        for t in range(100):
            act(p, net, s)
        finish(p, opt)
""",
    "ppo_evaluate": """
class Agent:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt

    def evaluate(self, s, a):
        d = self.net(s)
        return d.log_prob(a), d.entropy()

    def update(self, batches):
        hist = []
        for s, a, adv, old in batches:
            lp, ent = self.evaluate(s, a)
            ratio = (lp - old.detach()).exp()
            loss = -(ratio * adv).mean() - 0.01 * ent.mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            hist.append(loss.item())
""",
    "multi_loss_list": """
def fit(model, loader, opt, crits):
    for x, y in loader:
        losses = []
        for c in crits:
            losses.append(c(model(x), y))
        loss = sum(losses)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "bptt_outer": """
def fit(cell, loader, opt, crit):
    for seq, y in loader:
        h = None
        outs = []
        for x in seq:
            h = cell(x, h)
            outs.append(h)
        loss = sum(crit(o, y) for o in outs)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "writer": """
def fit(model, loader, opt, crit, writer):
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss", loss, i)
        print(loss)
""",
    "wandb": """
import wandb


def fit(model, loader, opt, crit):
    log = {}
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log["loss"] = loss
        wandb.log(log)
""",
    "last_only": """
class T:
    def step(self, x, y):
        loss = self.c(self.m(x), y)
        self.o.zero_grad()
        loss.backward()
        self.o.step()
        self.last_loss = loss
        return loss.item()
""",
    "gan": """
def fit(G, D, loader, og, od, crit):
    dl, gl = [], []
    for x in loader:
        fake = G(x)
        ld = crit(D(x), 1) + crit(D(fake.detach()), 0)
        od.zero_grad()
        ld.backward()
        od.step()
        lg = crit(D(fake), 1)
        og.zero_grad()
        lg.backward()
        og.step()
        dl.append(ld.item())
        gl.append(lg.detach().cpu())
""",
    "no_grad_decorator_method": """
import torch


class T:
    def __init__(self, m):
        self.m = m

    @torch.no_grad()
    def validate(self, loader):
        self.m.eval()
        outs = []
        for x in loader:
            outs.append(self.m(x))
        return outs
""",
    "maml_val": """
def val(maml, tasks, crit):
    total = 0
    for xs, ys, xq, yq in tasks:
        l = maml.clone()
        l.eval()
        l.adapt(crit(l(xs), ys))
        total += crit(l(xq), yq).item()
    return total
""",
    "style": """
def transfer(vgg, target, feats, opt, mse, steps):
    vgg.eval()
    for s in range(steps):
        loss = 0
        for f, g in zip(vgg(target), feats):
            loss += mse(f, g)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "numpy_loss": """
def fit(model, loader, opt, crit):
    losses = []
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.data.cpu().numpy())
        losses.append(float(loss))
        losses.append(loss.cpu().detach().numpy())
""",
    "fp_reduce": """
import torch.distributed as dist


def reduce_mean(t, n):
    rt = t.clone().detach()
    dist.all_reduce(rt)
    return rt / n


def fit(model, loader, opt, crit):
    s = 0
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        s += reduce_mean(loss, 2)
""",
    "deque": """
from collections import deque


class M:
    def __init__(self):
        self.d = deque(maxlen=20)

    def update(self, v):
        self.d.append(v)


def fit(model, loader, opt, crit):
    m = M()
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        m.update(loss)
""",
    "window_reset": """
def fit(model, loader, opt, crit):
    run = 0.0
    for i, (x, y) in enumerate(loader):
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run += loss
        if i % 100 == 0:
            print(run)
            run = 0.0
""",
    "kv_cache": """
import torch
from torch import nn


class Attn(nn.Module):
    def forward(self, x):
        k = self.k(x)
        if self.cache is not None:
            k = torch.cat([self.cache, k], 1)
        self.cache = k
        return k
""",
    "features_list": """
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        outs = []
        for l in self.layers:
            x = l(x)
            outs.append(x)
        return outs
""",
    "pipeline_fifo": """
def schedule(model, loader, opt, crit):
    q = []
    for x, y in loader:
        q.append(model(x))
        if len(q) > 4:
            out = q.pop(0)
            crit(out, y).backward()
            opt.step()
""",
    "repackage": """
import torch


def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)


def fit(model, loader, opt, crit):
    h = model.init_hidden(2)
    for x, y in loader:
        h = repackage(h)
        out, h = model(x, h)
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "detach_inplace": """
def fit(model, loader, opt, crit):
    h = None
    for x, y in loader:
        out, h = model(x, h)
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        h.detach_()
""",
    "state_comp": """
def fit(model, loader, opt, crit):
    states = None
    for x, y in loader:
        if states is not None:
            states = [s.detach() for s in states]
        out, states = model(x, states)
        loss = crit(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "ema_nograd": """
import torch


class EMA:
    def __init__(self, model):
        self.shadow = {n: p.clone().detach() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n] = 0.9 * self.shadow[n] + 0.1 * p
            self.shadow[n].mul_(0.9).add_(p, alpha=0.1)
""",
    "ema_data": """
class EMA:
    def __init__(self, model):
        self.shadow = {}

    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n] = 0.9 * self.shadow[n] + 0.1 * p.data
""",
    "reset_hidden": """
import torch.nn as nn


class R(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 2)
        self.h = None

    def reset(self):
        self.h = None

    def forward(self, x):
        out, self.h = self.gru(x, self.h)
        return out
""",
    "retain_gp": """
import torch


def d_step(D, real, fake, opt):
    out = D(real)
    loss = out.mean()
    loss.backward(retain_graph=True)
    gp = torch.autograd.grad(out.sum(), real, create_graph=True)[0].norm()
    gp.backward()
    opt.step()
""",
    "retain_loop": """
def fit(ws, loss_parts, opt):
    for i, l in enumerate(loss_parts):
        l.backward(retain_graph=True)
    opt.step()
""",
    "retain_var": """
def step(loss, opt, keep):
    opt.zero_grad()
    loss.backward(retain_graph=keep)
    opt.step()
""",
    "hook_detach": """
def watch(model, layer, loader, opt, crit):
    feats = {}

    def hook(m, i, o):
        feats["x"] = o.detach()

    h = layer.register_forward_hook(hook)
    for x, y in loader:
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "grad_hook": """
class G:
    def __init__(self, layer):
        layer.register_full_backward_hook(self.hook)
        self.n = 0

    def hook(self, m, gi, go):
        self.n += 1
        self.norm = go[0].norm().item()

    def run(self, m, x):
        m(x).sum().backward()
""",
    "counter": """
import torch
from torch import nn


class N(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(d))

    def forward(self, x):
        self.n += x.size(0)
        self.mean = self.mean * 0.9 + 0.1 * x.detach().mean(0)
        self.mean.copy_(x.mean(0).detach())
        return x * 2
""",
    "aux_loss": """
from torch import nn


class MoE(nn.Module):
    def forward(self, x):
        g = self.gate(x)
        self.aux = g.mean()
        return self.experts(x) * g
""",
    "eval_with_fabric": """
import torch


def validate(fabric, model, loader, crit):
    model.eval()
    with torch.inference_mode():
        losses = [crit(model(x), y) for x, y in loader]
    return torch.stack(losses).mean()
""",
    "phase": """
import torch


def train_model(model, loaders, crit, opt, n):
    for e in range(n):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            run, cor = 0.0, 0
            for x, y in loaders[phase]:
                opt.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    out = model(x)
                    _, p = torch.max(out, 1)
                    loss = crit(out, y)
                    if phase == "train":
                        loss.backward()
                        opt.step()
                run += loss.item() * x.size(0)
                cor += torch.sum(p == y.data)
""",
    "ppo": """
import torch


class PPO:
    def act(self, s):
        with torch.no_grad():
            a, lp = self.old(s)
        self.buf.append(lp)
        return a

    def update(self):
        for _ in range(4):
            lp, v, ent = self.policy.evaluate(self.s, self.a)
            loss = -lp.mean() + v.pow(2).mean() - ent.mean()
            self.opt.zero_grad()
            loss.mean().backward()
            self.opt.step()
""",
    "a2c": """
import torch


def train(model, env, opt):
    for ep in range(100):
        log_probs, values, rewards = [], [], []
        s = env.reset()
        for t in range(20):
            v, dist = model(s)
            a = dist.sample()
            log_probs.append(dist.log_prob(a))
            values.append(v)
            s, r = env.step(a.item())
            rewards.append(r)
        adv = torch.tensor(rewards) - torch.cat(values)
        loss = (-torch.stack(log_probs) * adv.detach()).mean() + adv.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "contrastive_cache": """
import torch


def gradcache(model, chunks, opt, crit):
    with torch.no_grad():
        reps = [model(c) for c in chunks]
    reps = [r.detach().requires_grad_() for r in reps]
    loss = crit(torch.cat(reps))
    loss.backward()
    for c, r in zip(chunks, reps):
        out = model(c)
        (out * r.grad).sum().backward()
    opt.step()
""",
    "lightning_ok": """
import pytorch_lightning as pl


class L(pl.LightningModule):
    def training_step(self, b, i):
        loss = self.loss(self.net(b[0]), b[1])
        self.log("loss", loss)
        self.losses.append(loss.detach())
        return {"loss": loss, "n": 1}

    def validation_step(self, b, i):
        out = self.net(b[0])
        self.val.append(out)
        return out
""",
    "accumulate_outer": """
def fit(model, loader, opt, crit, accum):
    for step, chunk in enumerate(loader):
        total = 0
        for x, y in chunk:
            loss = crit(model(x), y) / accum
            loss.backward()
            total += loss
        opt.step()
        opt.zero_grad()
        print(total.item())
""",
    "attack_pgd": """
import torch


def pgd(model, x, y, crit, eps, steps):
    model.eval()
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        loss = crit(model(x + delta), y)
        loss.backward()
        delta.data = (delta + eps * delta.grad.sign()).clamp(-eps, eps)
        delta.grad.zero_()
    return delta.detach()
""",
    "swag_eval_mode": """
import torch


def bn_update(loader, model):
    model.train()
    for x, _ in loader:
        model(x)
""",
    "onnx": """
import torch


def export(model, path):
    model.eval()
    x = torch.randn(1, 3, 224, 224)
    y = model(x)
    torch.onnx.export(model, x, path)
""",
    "sched_loss": """
def fit(model, loader, opt, crit, sched):
    for e in range(3):
        losses = []
        for x, y in loader:
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step(sum(losses) / len(losses))
""",
    "teacher_ema": """
import torch, copy


class M:
    def __init__(self, model):
        self.ema = copy.deepcopy(model)
        self.ema.eval()

    def update(self, model):
        with torch.no_grad():
            for e, m in zip(self.ema.state_dict().values(), model.state_dict().values()):
                e.copy_(0.9 * e + 0.1 * m)
""",
}


def reported(source: str) -> set[int]:
    graphs = graphs_of(source)
    questions = ("kept", "evaluations", "carried", "statistics", "retained", "hooks", "cached", "emptied")
    return {found.pos >> 44 for question in questions for found in getattr(graphs, question)()}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    source = FAULTS[name]
    marked = {number for number, line in enumerate(source.split("\n"), 1) if "# !" in line}
    assert marked and reported(source) == marked


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless(name):
    assert reported(HARMLESS[name]) == set()


@pytest.mark.parametrize(
    ("decorator", "inner", "found"),
    [("", "", True), ("@torch.no_grad()\n", "", False), ("@torch.no_grad()\n", "with torch.enable_grad():", True)],
)
def test_a_call_made_without_gradients_gives_no_graph_in_its_parts(decorator, inner, found):
    source = (
        "import torch\nfrom torch import nn\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = self.b = nn.Linear(2, 2)\n\n"
        f"    def forward(self, x):\n        {inner or 'if True:'}\n            return [self.a(y) for y in x], self.b(x)\n\n\n"
        f"{decorator}def evaluate(model: Net, loader):\n    model.eval()\n    kept = []\n    for x in loader:\n"
        "        outs, _ = model(x)\n        for out in outs:\n            kept.append(out)\n    return kept\n\n\n"
        "def train(model: Net, loader, opt):\n    for x in loader:\n        _, loss = model(x)\n"
        "        loss.backward()\n        opt.step()\n\n\n"
        "def main(loader, opt):\n    model = Net()\n    for _ in range(3):\n"
        "        train(model, loader, opt)\n        evaluate(model, loader)\n"
    )
    assert any("kept" in k.name for k in graphs_of(source).kept()) is found


@pytest.mark.parametrize(("made_of", "found"), [("step", False), ("model", True)])
def test_a_compiled_function_is_no_module(made_of, found):
    source = (
        "import torch\n\n\ndef warm(f):\n    compiled = f\n\n    def run(*a):\n        nonlocal compiled\n"
        "        compiled = torch.compile(f)\n        return compiled(*a)\n\n    return run\n\n\n"
        "def fit(model, loader, opt):\n    def step(x):\n        loss = model(x).mean()\n        loss.backward()\n"
        "        opt.step()\n        return loss.detach()\n\n    kept = []\n"
        f"    run = warm({made_of})\n    for x in loader:\n        step(x)\n        out = run(x)\n"
        "        kept.append(out)\n    return kept\n"
    )
    assert bool(kept_lines(graphs_of(source))) is found
