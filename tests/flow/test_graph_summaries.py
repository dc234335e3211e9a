"""What crosses functions: returned, stored and trained values, gradient modes, modules."""

from __future__ import annotations

from graph_programs import function, graphs_of, kept_lines

from torchvet.check.flow.graph_values import MAYBE, OFF, ON

METER = """
class Meter:
    def __init__(self):
        self.sum, self.items = 0, []

    def add(self, v):
        self.sum += {}

    def note(self, v):
        self.pass_on({{"v": v}})

    def pass_on(self, entry):
        self.items.append(entry)
"""

LOOP = """
from meters import Meter


def fit(model, loader, criterion, optimizer):
    meter = Meter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        {}
    return meter
"""


def test_a_method_that_keeps_its_argument():
    graphs = graphs_of({"meters.py": METER.format("v"), "train.py": LOOP.format("meter.add(loss)")})
    assert kept_lines(graphs) == {11: "freed"}
    (kept,) = graphs.kept()
    assert kept.how == "meter" and kept.store_at[0].path == "meters.py" and kept.store_at[1] >> 44 == 7


def test_a_method_that_cuts_its_argument():
    for cut in ("float(v)", "v.item()", "v.detach() * 2"):
        graphs = graphs_of({"meters.py": METER.format(cut), "train.py": LOOP.format("meter.add(loss)")})
        assert kept_lines(graphs) == {}, cut


def test_the_argument_is_cut_at_the_call():
    graphs = graphs_of({"meters.py": METER.format("v"), "train.py": LOOP.format("meter.add(loss.detach())")})
    assert kept_lines(graphs) == {}


def test_two_methods_deep_and_inside_a_dict():
    graphs = graphs_of({"meters.py": METER.format("v"), "train.py": LOOP.format("meter.note(loss)")})
    assert kept_lines(graphs) == {11: "freed"}


def test_an_object_of_one_step_keeps_nothing():
    graphs = graphs_of({"meters.py": METER.format("v"), "train.py": LOOP.format("step = Meter(); step.add(loss)")})
    assert kept_lines(graphs) == {}


STEP = """
class Trainer:
    def __init__(self, model, criterion, optimizer):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer

    def step(self, x, y):
        out = self.model(x)
        loss = self.criterion(out, y)
        self.optimizer.zero_grad()
        self.run(loss)
        self.optimizer.step()
        return {}

    def run(self, loss):
        loss.backward()

    def fit(self, loader):
        total = 0.0
        for x, y in loader:
            result = self.step(x, y)
            total += {}
        return total
"""


def test_elements_of_a_returned_tuple_are_told_apart():
    returned = "loss, (out.argmax(1) == y).sum()"
    assert kept_lines(graphs_of(STEP.format(returned, "result[0]"))) == {21: "freed"}
    assert kept_lines(graphs_of(STEP.format(returned, "result[1]"))) == {}


def test_entries_of_a_returned_dict_are_told_apart():
    returned = '{"loss": loss, "cut": loss.detach(), "n": len(x)}'
    assert kept_lines(graphs_of(STEP.format(returned, 'result["loss"]'))) == {21: "freed"}
    assert kept_lines(graphs_of(STEP.format(returned, 'result["cut"]'))) == {}
    assert kept_lines(graphs_of(STEP.format(returned, 'result["n"]'))) == {}


def test_a_callee_runs_backward_on_its_parameter():
    graphs = graphs_of(STEP.format("loss", "result"))
    assert graphs.trained_parameters(function(graphs, "Trainer.run")) == {"loss": False}
    assert kept_lines(graphs) == {21: "freed"}


def test_a_caller_runs_backward_on_what_comes_back():
    graphs = graphs_of(
        """
        def losses(model, tasks, criterion):
            total = 0
            for x, y in tasks:
                total += criterion(model(x), y)
            return total


        def fit(model, sets, criterion, optimizer):
            for tasks in sets:
                loss = losses(model, tasks, criterion)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """
    )
    assert kept_lines(graphs) == {}


def test_backward_on_one_way_and_detached_there():
    graphs = graphs_of(
        """
        import torch


        def loss_of(model, parts, criterion, with_backward):
            losses = []
            for x, y in parts:
                loss = criterion(model(x), y)
                if with_backward:
                    loss.backward()
                    loss = loss.detach()
                losses.append(loss)
            return sum(losses)
        """
    )
    assert kept_lines(graphs) == {}


def test_what_is_only_named_again_does_not_grow():
    graphs = graphs_of(
        """
        def fit(model, loader, criterion):
            for x, y in loader:
                outs = model(x)
                loss = criterion(outs, y)
                loss.backward()
                parts = []
                for part in outs:
                    parts.append(part)
        """
    )
    assert kept_lines(graphs) == {}


def test_modes_by_decorator_callers_and_framework():
    graphs = graphs_of(
        {
            "train.py": """
            import torch
            import pytorch_lightning as pl


            def no_gradients(f):
                def inner(*a):
                    with torch.no_grad():
                        return f(*a)
                return inner


            @torch.no_grad()
            def decorated(model):
                def nested(x):
                    return model(x)
                return nested(1)


            @no_gradients
            def wrapped(model):
                return model(1)


            def helper(model):
                return deeper(model)


            def deeper(model):
                return model(1)


            def both(model):
                return model(1)


            def free(model):
                return both(model)


            def outer(model):
                with torch.inference_mode():
                    helper(model)
                    both(model)


            class Lit(pl.LightningModule):
                def validation_step(self, batch, i):
                    return self(batch)

                def training_step(self, batch, i):
                    return self(batch)
            """
        }
    )
    mode = {f.qualname: graphs.mode(f) for m in graphs.program.modules.values() for f in m.all_functions()}
    assert mode["decorated"] == mode["wrapped"] == mode["helper"] == mode["deeper"] == OFF
    assert mode["Lit.validation_step"] == OFF and mode["Lit.training_step"] == ON
    assert mode["both"] == ON and mode["free"] == ON
    assert graphs.mode(function(graphs, "nested")) == OFF


def test_mode_switched_by_an_argument_is_unknown():
    graphs = graphs_of(
        """
        import torch


        def forward(model, x, track):
            with torch.set_grad_enabled(track):
                return model(x)


        def test(model, loader):
            model.eval()
            outs = []
            for x in loader:
                outs.append(forward(model, x, False))
            return outs
        """
    )
    (call,) = [n for n in graphs.graph(function(graphs, "forward")).calls.values() if n.kind == "call"]
    assert call.mode == MAYBE and kept_lines(graphs) == {}


def test_context_helper_of_the_project():
    graphs = graphs_of(
        """
        import contextlib

        import torch


        @contextlib.contextmanager
        def quiet(model):
            model.eval()
            with torch.no_grad():
                yield


        def test(model, loader):
            model.eval()
            outs = []
            with quiet(model):
                for x in loader:
                    outs.append(model(x))
            return outs
        """
    )
    assert kept_lines(graphs) == {} and graphs.evaluations() == []


def test_what_is_a_module():
    graphs = graphs_of(
        """
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP


        class Net(nn.Module):
            def forward(self, x):
                return x * 2


        class Holder:
            def __init__(self, model, other):
                self.model, self.other = Net(), other

            def use(self):
                return self.model, self.other


        def make():
            return Net()


        def all_of(given, plain, loader):
            a = Net()
            b = nn.Linear(2, 2)
            c = DDP(a)
            d = make().cuda()
            e = given
            f = plain
            g = Holder(1, 2).model
            h = nn.Sequential(b)[0]
            torch.optim.SGD(given.parameters(), lr=1.0)
        """
    )
    graph = graphs.graph(function(graphs, "all_of"))
    found = {name: graphs.is_module(values[-1]) for name, values in graph.bindings.items()}
    assert found == {"a": True, "b": True, "c": True, "d": True, "e": True, "f": False, "g": True, "h": False}


def test_recursion_ends():
    graphs = graphs_of(
        """
        def a(model, x, n):
            y = b(model, x, n)
            y.backward()
            return a(model, y, n - 1) if n else y


        def b(model, x, n):
            return a(model, x, n) + b(model, model(x), n)


        def fit(model, loader):
            kept = []
            for x in loader:
                kept.append(a(model, x, 3))
            return kept
        """
    )
    assert set(kept_lines(graphs)) <= {15}


def test_a_method_of_a_tuple_is_no_method_of_what_is_in_it():
    graphs = graphs_of(
        """
        from torch import nn


        class Policy(nn.Module):
            def forward(self, x):
                return x


        class Strategy:
            def prepare(self, *pairs):
                made = []
                for pair in pairs:
                    if isinstance(pair, tuple):
                        model, config = pair
                        made.append(self.start(model, config))
                    else:
                        made.append(pair)
                return made[0] if len(made) == 1 else made

            def start(self, model, config):
                return model, None, None


        def rate(config):
            policy, optimizer, schedule = Strategy().prepare((Policy(), config))
            return schedule.get_last_lr()[0]
        """
    )
    graph = graphs.graph(function(graphs, "rate"))
    calls = [n for n in graph.calls.values() if n.kind == "call" and n.data.method == "get_last_lr"]
    assert [graphs.targets(n) for n in calls] == [[]]
