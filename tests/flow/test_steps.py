"""Training steps, and what runs in each of them."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "unit"))

from project import program_of

from torchvet.check.flow.steps import Steps
from torchvet.check.program.model import line_of


def steps_of(tmp_path, source, **others):
    files = {"train.py": source, **{name + ".py": text for name, text in others.items()}}
    program = program_of(tmp_path, files)
    for module in program.modules.values():  # words come with the engine
        module.words = frozenset(("backward", "item"))
        for f in (program.main(module), *module.all_functions()):
            f.words = frozenset(("backward", "item"))
    return Steps(program)


def units(steps):
    found = []
    for f in steps.functions():
        found += [(f.name, line_of(u.loop[1]) if u.loop else 0, u.repeated) for u in steps.units(f)]
    return sorted(set(found))


def waits(steps):
    return [(line_of(w.pos), w.use) for w in steps.waits.found()]


def test_the_loop_of_the_backward_is_the_step(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        def train(model, loader, opt, epochs):
            for epoch in range(epochs):
                for x in loader:
                    model(x).backward()
                    opt.step()
        """,
    )
    assert units(steps) == [("train", 4, True)]


def test_a_function_with_one_step_is_repeated_when_a_loop_calls_it(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        def step(model, x, opt):
            model(x).backward()
            opt.step()


        def train(model, loader, opt):
            for x in loader:
                step(model, x, opt)
        """,
    )
    assert units(steps) == [("step", 0, True)]


def test_a_function_that_nobody_calls_is_not_known_to_be_repeated(tmp_path):
    steps = steps_of(tmp_path, "def step(model, x, opt):\n    model(x).backward()\n    opt.step()\n")
    assert units(steps) == [("step", 0, False)]


def test_experiments_are_no_steps(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        import torch


        def compare(make, x):
            for lr in (0.1, 0.2):
                make(x).backward()
                torch.optim.SGD([x], lr=lr).step()
            for lr in rates():
                opt = torch.optim.SGD([x], lr=lr)
                make(x).backward()
                opt.step()
            for case in cases():
                make(case).backward()
        """,
    )
    assert units(steps) == []


def test_backward_in_a_handler_or_of_super_is_no_step(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        def train(model, loader, opt):
            for x in loader:
                try:
                    opt.step()
                except RuntimeError:
                    model(x).backward()


        class Engine(Base):
            def backward(self, loss):
                super().backward(loss)
                self.opt.step()
        """,
    )
    assert units(steps) == []


def every_step(steps, name):
    for f in steps.functions():
        for unit in steps.units(f):
            return [
                line_of(s.call[1])
                for s in steps.sites(f)
                if s.call[2][-1] == name and s.loop is unit.loop and steps.every_step(s, unit.loop)
            ]
    return None


def test_what_runs_every_step(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        import torch


        def train(model, loader, opt, verbose):
            for step, x in enumerate(loader):
                log()
                model(x).backward()
                opt.step()
                with torch.no_grad():
                    log()
                if torch.cuda.is_available():
                    log()
                if step % 10 == 0:
                    log()
                if verbose:
                    log()
                try:
                    log()
                except RuntimeError:
                    log()
                for y in x:
                    log()
                if step % 100:
                    continue
                log()
            log()
        """,
    )
    assert every_step(steps, "log") == [7, 11, 13, 19]


def test_hooks_of_a_framework_are_repeated(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        import lightning.pytorch as pl


        class Net(pl.LightningModule):
            def training_step(self, batch, i):
                opt = self.optimizers()
                opt.zero_grad()
                self.manual_backward(self(batch))
                opt.step()

            def other(self, batch):
                self.manual_backward(self(batch))
                self.opt.step()
        """,
    )
    assert units(steps) == [("other", 0, False), ("training_step", 0, True)]


LOGGED = """
def train(model, loader, opt, loss_fn, logger):
    for step, (x, y) in enumerate(loader):
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        value = loss.item()
        if step % 10 == 0:
            logger.log(value)
"""


def test_a_number_that_is_read_every_n_steps(tmp_path):
    assert waits(steps_of(tmp_path, LOGGED)) == [(7, "logged")]


def test_the_counter_may_have_a_name_or_be_a_function(tmp_path):
    named = LOGGED.replace("if step % 10 == 0:", "log_now = step % 10 == 0\n        if log_now:")
    assert waits(steps_of(tmp_path, named)) == [(7, "logged")]
    asked = LOGGED.replace("if step % 10 == 0:", "if due(step):")
    assert waits(steps_of(tmp_path, asked)) == []
    assert waits(steps_of(tmp_path, "def due(step):\n    return step % 10 == 0\n" + asked)) == [(9, "logged")]


def test_the_loss_comes_from_the_caller(tmp_path):
    source = """
        class Engine:
            def step(self, loss, y, n):
                loss.backward()
                self.opt.step()
                value = {value}.item()
                if n % 10 == 0:
                    self.log(value)
        """
    assert waits(steps_of(tmp_path, source.format(value="loss.mean()"))) == [(6, "logged")]
    assert waits(steps_of(tmp_path, source.format(value="y"))) == []


def test_a_number_that_something_else_reads(tmp_path):
    assert waits(steps_of(tmp_path, LOGGED + "        check(value)\n")) == []
    assert waits(steps_of(tmp_path, LOGGED + "    return value\n")) == []


def test_the_program_is_in_sight_and_names_no_accelerator(tmp_path):
    main = "from train import train\n\ntrain(Net(), load(), make(), loss, log)\n"
    assert waits(steps_of(tmp_path, LOGGED, main=main)) == []
    assert waits(steps_of(tmp_path, "# train on cuda\n" + LOGGED, main=main)) == []
    main = "from train import train\n\ntrain(Net().cuda(), load(), make(), loss, log)\n"
    assert waits(steps_of(tmp_path, LOGGED, main=main)) == [(7, "logged")]


def test_a_sum_that_is_read_every_n_steps(tmp_path):
    source = """
        def train(model, loader, opt, loss_fn):
            total = 0.0
            for step, (x, y) in enumerate(loader):
                loss = loss_fn(model(x.cuda()), y)
                loss.backward()
                opt.step()
                total += loss.item()
                if step % 10 == 0:
                    print(total)
                    total = 0.0
        """
    assert waits(steps_of(tmp_path, source)) == [(8, "logged")]
    assert waits(steps_of(tmp_path, source + "    return total\n        ")) == []


def test_printed_every_step(tmp_path):
    loop = """
        def train(model, loader, opt, loss_fn, device="cuda"):
            for {over}:
                out = model(x.to(device))
                loss = loss_fn(out, y)
                loss.backward()
                opt.step()
                {wait}
        """
    batches = "x, y in loader"
    assert waits(steps_of(tmp_path, loop.format(over=batches, wait="print(loss.item())"))) == [(8, "printed")]
    assert waits(
        steps_of(tmp_path, loop.format(over=batches, wait="print((out.argmax(1) == y).float().mean().item())"))
    ) == [(8, "printed")]
    # the labels did not come out of the step; the number of a pass over all data; no accelerator
    assert waits(steps_of(tmp_path, loop.format(over=batches, wait="print(y.sum().item())"))) == []
    assert waits(steps_of(tmp_path, loop.format(over="epoch in range(9)", wait="print(loss.item())"))) == []
    assert waits(steps_of(tmp_path, loop.format(over=batches, wait="print(loss.item())").replace("cuda", "cpu"))) == []


def test_other_places_of_the_step_are_listed(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        def train(model, loader, opt, loss_fn, meter):
            for x, y in loader:
                loss = loss_fn(model(x.cuda()), y)
                loss.backward()
                opt.step()
                meter.update(loss.item())
                print(loss.item(), loss.item())
                meter.update(float(loss))
        """,
    )
    (wait,) = steps.waits.found()
    assert (line_of(wait.pos), [line_of(p) for p in wait.others]) == (8, [7, 9])


GAN = """
import torch


def train(G, D, loader, loss_fn, ones, zeros):
    opt_g = torch.optim.Adam(G.parameters())
    opt_d = torch.optim.Adam(D.parameters())
    for real in loader:
        fake = G(noise(real))
        judged = D({sample})
        loss_d = loss_fn(D(real), ones) + loss_fn(judged, zeros)
        opt_d.zero_grad()
        loss_d.backward()
        {step}
        loss_g = loss_fn(D(fake), ones)
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
"""


def generators(steps):
    return [(line_of(u.pos), u.sample, u.generator, u.discriminator) for u in steps.generators.found()]


def test_undetached_sample(tmp_path):
    found = [(10, "fake", "G", "D")]
    assert generators(steps_of(tmp_path, GAN.format(sample="fake", step="opt_d.step()"))) == found
    assert generators(steps_of(tmp_path, GAN.format(sample="fake", step="scaler.step(opt_d)"))) == found
    assert generators(steps_of(tmp_path, GAN.format(sample="fake.detach()", step="opt_d.step()"))) == []
    assert generators(steps_of(tmp_path, GAN.format(sample="fake.data", step="opt_d.step()"))) == []


def test_both_optimizers_step(tmp_path):
    assert generators(steps_of(tmp_path, GAN.format(sample="fake", step="opt_d.step(); opt_g.step()"))) == []


def test_the_generator_steps_on_the_same_judgement(tmp_path):
    source = GAN.format(sample="fake", step="opt_d.step()").replace("loss_fn(D(fake), ones)", "loss_fn(judged, ones)")
    assert generators(steps_of(tmp_path, source)) == []


def test_sample_made_without_a_graph(tmp_path):
    source = GAN.format(sample="fake", step="opt_d.step()")
    source = source.replace(
        "        fake = G(noise(real))", "        with torch.no_grad():\n            fake = G(noise(real))"
    )
    assert generators(steps_of(tmp_path, source)) == []


def test_optimizers_of_unknown_modules(tmp_path):
    source = GAN.format(sample="fake", step="opt_d.step()").replace("torch.optim.Adam(", "make(")
    assert generators(steps_of(tmp_path, source.replace(".parameters()", ""))) == []


def test_optimizers_in_attributes(tmp_path):
    steps = steps_of(
        tmp_path,
        """
        import torch


        class Trainer:
            def __init__(self, G, D):
                self.G, self.D = G, D
                self.opt_g = torch.optim.Adam(self.G.parameters())
                self.opt_d = torch.optim.Adam(self.D.parameters())

            def step(self, real, z, loss_fn):
                fake = self.G(z)
                loss_d = loss_fn(self.D(real), 1) + loss_fn(self.D(fake), 0)
                self.opt_d.zero_grad()
                loss_d.backward()
                self.opt_d.step()
                loss_g = loss_fn(self.D(self.G(z)), 1)
                self.opt_g.zero_grad()
                loss_g.backward()
                self.opt_g.step()
        """,
    )
    assert generators(steps) == [(13, "fake", "self.G", "self.D")]
