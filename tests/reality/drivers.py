"""How each case is driven: what its functions need beyond the stand-ins, and what shows its fault.

A case without a driver is run by its only entry, the one function that the module itself does not call.
A driver returns what the caller of the case keeps.
"""

from __future__ import annotations

import ast
import inspect
import types

import drivers_more  # noqa: F401
import torch
from driver_table import DRIVERS, drives
from graph_meter import live_nodes, live_tensors, saved_bytes
from stand_ins import Bench, NoStandIn, Output
from torch import nn

GROWS = "nodes"  # graph nodes alive afterwards; a leak adds some with every step
UNUSED = "unused"  # bytes saved by forwards for a backward that never comes
HELD = "held"  # bytes still saved when the optimizer steps, where backward should have freed them
LEFT = "left"  # graph nodes alive although everything returned is dropped: held once, not once for each step

# what shows the fault, where it is not the number of nodes
MEASURE = {
    "A037": HELD,
    "RG502": HELD,
    "A024": UNUSED,
    "A025": UNUSED,
    "A026": UNUSED,
    "A016": LEFT,
    "A038": LEFT,
    "A040": LEFT,
}


def drive(name: str, module: types.ModuleType, bench: Bench):
    if name in DRIVERS:
        return DRIVERS[name](module, bench)
    return bench.call(only_entry(module))


def only_entry(module: types.ModuleType):
    tree = ast.parse(inspect.getsource(module))
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    entries = [d.name for d in tree.body if isinstance(d, (ast.FunctionDef, ast.ClassDef)) and d.name not in used]
    if len(entries) != 1 or not inspect.isfunction(getattr(module, entries[0])):
        raise NoStandIn(f"no single entry: {', '.join(entries)}")
    return getattr(module, entries[0])


def keyword(bench: Bench) -> list[dict]:
    return [{"x": x, "y": y} for x, y in bench.batches]


@drives("A003")
def keyword_batches(module, bench):
    return bench.call(module.run_epoch, model=Output(bench.net), loader=keyword(bench))


@drives("A005")
def actor(module, bench):
    runner = module.Runner(module.Actor(bench.net, bench.criterion), bench.sgd())
    runner.cycle(bench.batches)
    return runner


@drives("A008")
def several_losses(module, bench):
    class Agent:
        def losses(self, batch):
            x, y = batch
            out = bench.net(x)
            return bench.criterion(out, y), out.pow(2).mean(), out.abs().mean()

    return bench.call(module.fit, agent=Agent(), alpha=0.1, stop_at=-1.0)


@drives("A009")
def objective(module, bench):
    return bench.call(module.train, objective=module.Objective(bench.net, bench.criterion))


@drives("A011")
def step_results(module, bench):
    class Module:
        def training_step(self, batch, i):
            x, y = batch
            return {"loss": bench.criterion(bench.net(x), y)}

        def training_epoch_end(self, collected):
            return collected

    return module.Fit().train_epoch(Module(), bench.batches, bench.sgd())


@drives("A013", "A015")
def normalisation(module, bench):
    layer = bench.track((getattr(module, "FlowNorm", None) or module.Norm)(8))
    model = nn.Sequential(bench.net[0], layer, bench.net[2])
    opt = bench.sgd(model)
    for x, y in bench.batches:
        opt.zero_grad()
        bench.criterion(model(x), y).backward()
        opt.step()
    return model


@drives("A016")
def kept_activity(module, bench):
    layer = module.Merge(bench.net)
    for x, _ in bench.batches:
        layer(x).mean().backward()
    bench.layer = layer


@drives("A017")
def rollout(module, bench):
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(4, 8)
            self.act = nn.Linear(8, 2)

        def forward(self, obs, state):
            state = self.cell(obs, state)
            return self.act(state[0]), state

    class Env:
        def reset(self):
            return torch.zeros(1, 4)

        def step(self, act):
            return torch.randn(1, 4), 0.0, False

    policy = bench.track(Policy())
    return module.Rollout(policy).collect(Env(), bench.steps)


@drives("A019")
def closure(module, bench):
    x, y = bench.batches[0]
    return module.descend(bench.net, x, y, bench.steps)


@drives("A020")
def problem(module, bench):
    def losses(batch):
        x, y = batch
        return {"train_loss": bench.criterion(bench.net(x), y)}

    return module.Trainer(losses, bench.sgd()).train(bench.batches, 1)


@drives("A023")
def classes(module, bench):
    net = bench.track(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
    batches = [(x, (y[:, 0] > 0).long()) for x, y in bench.batches]
    return module.main(net, batches, bench.sgd(net))


@drives("A024")
def evaluation(module, bench):
    return bench.call(module.run_nn, to_do="test")


@drives("A026")
def epochs(module, bench):
    # it evaluates after the first epoch and after every tenth
    bench.call(module.train, loader=bench.batches[:1], test_loader=bench.batches[:2], epochs=10 * bench.steps)


@drives("A027")
def infer(module, bench):
    def loss(model, x, y):
        return bench.criterion(model(x), y)

    return module.monitor(module.Infer(bench.net, loss, bench.sgd()), bench.batches)


@drives("A028")
def inputs_only(module, bench):
    return bench.call(module.apply_all, loader=[x for x, _ in bench.batches])


@drives("A029")
def validation(module, bench):
    net = module.Net2(bench.net, bench.criterion, bench.sgd())
    for x, y in bench.batches:
        net.train_step(x, y)
    return net.run_valid(bench.batches)


@drives("A032")
def scores(module, bench):
    return bench.call(module.train)


@drives("A033")
def images(module, bench):
    gen = bench.track(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    disc = bench.track(nn.Linear(4, 1))
    pool = module.ImagePool(cap=1000)
    opt_g, opt_d = bench.sgd(gen), bench.sgd(disc)
    for x, _ in bench.batches:
        module.step(gen, disc, x, opt_g, opt_d, pool)
    return pool


@drives("A035")
def recurrent(module, bench):
    # only the head is trained: a step on the recurrent weights would make backward through the older chunks fail
    rnn, head = bench.track(nn.RNN(4, 8, batch_first=True)), bench.track(nn.Linear(8, 1))
    chunks = [(torch.randn(3, 5, 4), torch.randn(3, 1)) for _ in range(bench.steps)]
    return bench.call(module.scan, rnn=rnn, head=head, chunks=chunks, opt=bench.sgd(head))


@drives("A036")
def recurrent_module(module, bench):
    net = bench.track(module.Seq(4, 8))
    loader = [(torch.randn(3, 5, 4), torch.randn(3, 1)) for _ in range(bench.steps)]
    return bench.call(module.train, net=net, loader=loader, opt=bench.sgd(net.out))


class Watched(torch.optim.SGD):
    """Looks at each step for what backward has not freed."""

    def __init__(self, bench, parameters):
        super().__init__(parameters, 0.05)
        self.bench = bench

    def step(self):
        tensors = live_tensors()
        self.bench.held = max(self.bench.held, saved_bytes(live_nodes(tensors), tensors))
        super().step()


@drives("A037")
def two_backwards(module, bench):
    enc, gen, disc = bench.track(nn.Linear(4, 4)), bench.track(nn.Linear(4, 4)), bench.net
    given = {"opt_e": Watched(bench, enc.parameters()), "opt_g": Watched(bench, gen.parameters())}
    for x, y in bench.batches:
        module.update(gen, disc, enc, x, y, loss_fn=bench.criterion, **given)


@drives("A038")
def curvature(module, bench):
    for x, y in bench.batches:
        module.top_curvature(bench.net, bench.criterion, x, y)


@drives("A040")
def hooks(module, bench):
    bench.cam = module.Cam(bench.net, bench.net[0])
    for x, _ in bench.batches:
        bench.cam(x, 0)


# Clean programs: nothing may grow.


@drives("AN001")
def layers(module, bench):
    def vgg(x):
        return [x, x * 2.0]

    def gram(f):
        return f * f

    loader = [x for x, _ in bench.batches]
    ref = [torch.zeros(6, 1)] * 2
    return bench.call(module.train, vgg=vgg, loader=loader, gram_ref=ref, mse=bench.criterion, gram=gram)


class Learner:
    """learn2learn's clone and adapt, first order and without the update."""

    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        return self.net(x)

    def clone(self):
        return Learner(self.net)

    def adapt(self, loss):
        torch.autograd.grad(loss, list(self.net.parameters()))


def tasks(bench):
    return [(x, y, x + 1.0, y) for x, y in bench.batches]


@drives("AN002")
def meta(module, bench):
    bench.call(module.meta_train, maml=Learner(bench.net), tasks=tasks(bench)[:2], iters=bench.steps, adapt_steps=1)


@drives("AN037")
def meta_steps(module, bench):
    given = {"maml": Learner(bench.net), "tasks": tasks(bench), "steps": 2, "weights": [0.5, 0.5]}
    return bench.call(module.outer, **given)


@drives("AN003")
def episodes(module, bench):
    policy = bench.track(nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1)))
    policy.saved, policy.rewards = [], []
    opt = bench.sgd(policy)
    for _ in range(bench.steps):
        for _ in range(4):
            module.act(policy, torch.randn(1, 4))
            policy.rewards.append(1.0)
        module.finish(policy, opt)
    return policy


@drives("AN004")
def actor_critic(module, bench):
    opt = bench.sgd()
    bench.net.saved_actions = []
    for x, _ in bench.batches:
        bench.net.saved_actions += [(v, v.sum()) for v in bench.net(x)]
        module.finish_episode(bench.net, opt, [1.0] * 6)
    return bench.net


@drives("AN007")
def running_average(module, bench):
    brain = module.Brain(bench.net, bench.sgd(), bench.criterion)
    brain.fit(bench.batches)
    return brain


@drives("AN008")
def tracked(module, bench):
    return bench.call(module.train, model=Output(bench.net), loader=keyword(bench), with_tracking=True)


@drives("AN009")
def gathered(module, bench):
    return bench.call(module.update, model=Output(bench.net), micro=keyword(bench))


@drives("AN010")
def gathered_evaluation(module, bench):
    return bench.call(module.evaluate, model=Output(bench.net), loader=keyword(bench), bs=2)


@drives("AN013")
def accumulated_gradients(module, bench):
    def model(x, y):
        out = bench.net(x)
        return out, bench.criterion(out, y)

    scaler = torch.amp.GradScaler("cpu", enabled=False)
    given = {"model": model, "get_batch": lambda split: bench.batches[0], "scaler": scaler, "accum": 2}
    return bench.call(module.run, iters=bench.steps, log_every=1, master=True, **given)


@drives("AN016")
def gan(module, bench):
    disc, gen = bench.net, bench.track(nn.Linear(4, 4))
    opt_d, opt_g = bench.sgd(disc), bench.sgd(gen)
    ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)
    return [
        module.gan_step(disc, gen, x, torch.randn(6, 4), ones, zeros, bench.criterion, opt_d, opt_g)
        for x, _ in bench.batches
    ]


@drives("AN017")
def truncated(module, bench):
    cell, head = bench.track(nn.RNNCell(4, 8)), bench.track(nn.Linear(8, 1))
    n = 2 * bench.steps
    given = {"xs": torch.randn(n, 6, 4), "ys": torch.randn(n, 6, 1), "opt": bench.sgd(cell), "k": 2}
    return bench.call(module.tbptt, cell=cell, head=head, **given)


@drives("AN020")
def sum_states(module, bench):
    batches = [(x, y[:, 0]) for x, y in bench.batches]
    return bench.call(module.train, loader=batches, loss_fn=lambda out, y: bench.criterion(out[:, 0], y))


@drives("AN024")
def floats(module, bench):
    x, y = bench.batches[0]
    return module.fit(x.numpy(), y[:, 0].numpy(), bench.steps)


@drives("AN025")
def momentum_encoder(module, bench):
    moco = bench.track(module.Moco(nn.Linear(4, 4), nn.Linear(4, 4)))
    opt = bench.sgd(moco.q)
    for x, _ in bench.batches:
        opt.zero_grad()
        moco(x, x).mean().backward()
        opt.step()
    return moco


@drives("AN039")
def two_heads(module, bench):
    enc, a, b = (bench.track(nn.Linear(4, 1)) for _ in range(3))
    enc = bench.track(nn.Linear(4, 4))
    return [module.step(enc, a, b, x, y, y, bench.criterion, bench.sgd(enc)) for x, y in bench.batches]


@drives("AN040")
def best_value(module, bench):
    loop = module.Loop(bench.net, bench.criterion)
    return loop, loop.validate(bench.batches)


@drives("RG502")
def one_backward(module, bench):
    return bench.call(module.main, optimizer=Watched(bench, bench.net.parameters()))


@drives("RG001")
def policy(module, bench):
    batches = [(torch.randn(6, 8), torch.randn(6, 4)) for _ in range(bench.steps)]
    return module.Worker().start(module.Strategy(), batches, {"lr": 0.1})


@drives("RG004")
def instances(module, bench):
    class Model(nn.Module):
        def forward(self, x, y):
            out = bench.net(x)
            return {"loss": bench.criterion(out, y), "out": out}

    class Instance:
        def as_tensors(self):
            return {"x": torch.zeros(1, 4), "y": torch.zeros(1, 1)}

    case = module.ModelCase(Model(), [Instance() for _ in range(bench.steps)])
    case.ensure_it_trains()
    case.ensure_batches_agree()


@drives("RG006")
def shared_features(module, bench):
    heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
    batches = [(x, [y, -y]) for x, y in bench.batches]
    return bench.call(module.main, loader=batches, encoder=bench.net[:2], heads=heads)


@drives("RG007")
def tiles(module, bench):
    for x, _ in bench.batches:
        module.tiled(bench.net, x, 2, torch.ones(3, 1))


@drives("RG008")
def embeddings(module, bench):
    class Net(nn.Module):
        def forward(self, x):
            return {"neck": [bench.net(x)]}

    class Image:
        def cuda(self):
            return torch.zeros(1, 4)

    return module.Manager(module.Recognizer(Net())).encode([Image() for _ in range(bench.steps)])
