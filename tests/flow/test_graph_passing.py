"""What reaches a place by way of callers, decorators, functions, records: first layers, queues, states."""

from __future__ import annotations

import pytest
from graph_programs import function, graphs_of, kept_lines

FIRST = """
import torch
from torch import nn


class Standardise(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Net(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.relu = nn.ReLU()
        self.body = nn.Linear(4, 4)
        self.standardise = Standardise(4)

    def half(self, x):
        return self.relu(x) / 2

    def forward(self, x):
        return {forward}


def fit(loader, step):
    for batch in loader:
        step(batch["x"].float())


def train(loader):
    net = {net}
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in loader:
        net(x.cuda()).mean().backward()
        opt.step()
"""
LINE = 12


@pytest.mark.parametrize(
    ("forward", "net", "found"),
    [
        ("self.body(self.standardise(x))", "Net(0)", False),
        ("self.body(self.standardise(self.half(x + 1)))", "Net(0)", False),
        ("self.body(self.standardise(x))", "nn.parallel.DistributedDataParallel(Net(0))", False),
        ("self.body(self.standardise(x))", "nn.Sequential(Net(0), nn.Linear(4, 1))", False),
        ("self.body(self.standardise(x))", "nn.Sequential(nn.Linear(4, 4), Net(0))", True),
        ("self.standardise(self.body(x))", "Net(0)", True),
        ("self.standardise(self.half(self.body(x)))", "Net(0)", True),
        ("self.standardise(x * self.scale)", "Net(0)", True),
    ],
)
def test_what_a_running_statistic_is_made_of_is_asked_of_the_callers(forward, net, found):
    graphs = graphs_of(FIRST.format(forward=forward, net=net))
    assert [c.pos >> 44 for c in graphs.statistics()] == ([LINE] if found else [])


def test_a_layer_of_which_no_call_is_known_may_stand_anywhere():
    alone = FIRST[: FIRST.index("class Net")]
    assert [c.pos >> 44 for c in graphs_of(alone).statistics()] == [LINE]


def test_a_model_is_followed_through_functions_to_its_calls():
    graphs = graphs_of(
        FIRST[: FIRST.index("class Net")]
        + """
def run(model, batches):
    for batch in batches:
        model(batch["x"]).sum().backward()


def make():
    return Standardise(4).to("cuda")


def main(accelerator, batches):
    model = torch.compile(make())
    model, batches = accelerator.prepare(model, batches)
    run(model, batches)
"""
    )
    forward = function(graphs, "Standardise.forward")
    assert [n.graph.function.name for n in graphs.runs_of(forward)] == ["run"]
    assert graphs.statistics() == []


DECORATED = """
import functools
from torch import nn
from elsewhere import odd


def result(decorate):
{decorator}


{above}
def score(net, x, y):
    return nn.functional.l1_loss(net(x), y)


def train(loader, opt):
    net = nn.Linear(4, 1)
    scores = []
    for x, y in loader:
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
        scores.append(score(net, x, y))
    return scores
"""
PLAIN = "    return decorate"
WRAPPER = """    @functools.wraps(decorate)
    def inner(*args):
        {body}
    return inner"""


@pytest.mark.parametrize(
    ("above", "decorator", "found"),
    [
        ("@result", PLAIN, True),
        ("@result", WRAPPER.format(body="return decorate(*args)"), True),
        ("@result", WRAPPER.format(body="out = decorate(*args)\n        return out"), True),
        ("@result", WRAPPER.format(body="return 2 * decorate(*args)"), True),
        ("@result", WRAPPER.format(body="return {'l1': decorate(*args)}"), True),
        ("@result", WRAPPER.format(body="return float(decorate(*args))"), False),
        ("@result", WRAPPER.format(body="out = decorate(*args)\n        return out.item()"), False),
        ("@result", WRAPPER.format(body="decorate(*args)\n        return args"), False),
        ("@functools.cache", PLAIN, True),
        ("@odd", PLAIN, False),
        ("@odd.named(3)", PLAIN, False),
    ],
)
def test_what_a_decorator_makes_of_a_result(above, decorator, found):
    graphs = graphs_of(DECORATED.format(above=above, decorator=decorator))
    assert bool(kept_lines(graphs)) is found


def test_a_decorator_with_arguments():
    graphs = graphs_of(
        """
        def rounded(digits):
            def around(f):
                def inner(*args):
                    return round(float(f(*args)), digits)
                return inner
            return around


        def named(name):
            def around(f):
                TABLE[name] = f
                return f
            return around


        @rounded(3)
        def a(x):
            return x


        @named("b")
        def b(x):
            return x
        """
    )
    assert not graphs.gives_own(function(graphs, "a"))
    assert graphs.gives_own(function(graphs, "b"))


QUEUE = """
import torch


def push(queue, keys):
    {body}


def train(net, loader, opt, size):
    queue = torch.zeros(0, 4)
    for x, y in loader:
        out = net(x)
        loss = (out - y).square().mean()
        loss.backward()
        opt.step()
        {statement}
    return queue
"""
JOIN = "return torch.cat([queue, keys])[-9:]"


@pytest.mark.parametrize(
    ("body", "statement", "found"),
    [
        (JOIN, "queue = push(queue, out)", True),
        ("return 0.9 * queue + 0.1 * keys", "queue = push(queue, out)", True),
        ("queue = torch.cat([queue, keys])\n    if size:\n        queue = queue[-9:]\n    return queue",
         "queue = push(queue, out)", True),
        (JOIN, "queue = push(queue, out.detach())", False),
        ("return torch.cat([queue, keys.detach()])", "queue = push(queue, out)", False),
        ("return torch.cat([queue, keys]).detach()", "queue = push(queue, out)", False),
        ("return keys", "queue = push(queue, out)", False),
        ("return queue + len(keys)", "queue = push(queue, out)", False),
        (JOIN, "with torch.no_grad():\n            queue = push(queue, out)", False),
        (JOIN, "queue = push(queue, out)\n        queue.sum().backward()", False),
    ],
)  # fmt: skip
def test_a_queue_that_a_function_puts_together(body, statement, found):
    graphs = graphs_of(QUEUE.format(body=body, statement=statement))
    assert bool(kept_lines(graphs)) is found


@pytest.mark.parametrize(
    ("index", "found"), [("step % 4", False), ("slot", False), ("step", True), ("step // 4", True), ("other", True)]
)
def test_an_index_that_goes_round(index, found):
    graphs = graphs_of(
        f"""
        def train(net, loader, opt, kept):
            for step, (x, y) in enumerate(loader):
                loss = net(x, y)
                loss.backward()
                opt.step()
                slot = step % 4
                other = step % 4
                other = step
                kept[{index}] = loss
        """
    )
    assert bool(kept_lines(graphs)) is found


STATE = """
import torch
from dataclasses import dataclass


@dataclass
class Record:
    h: object


def cut(state):
    state["h"] = state["h"].detach()


def advance(net, x, h):
    {inside}


def train(net, head, loader, opt):
    {before}
    for x, y in loader:
        {turn}
        loss.backward()
        opt.step()
        {after}
"""
SAME = "return net(x, h)"


@pytest.mark.parametrize(
    ("inside", "before", "turn", "after", "found"),
    [
        (SAME, 's = {"h": x0}', 's["h"] = net(x, s["h"]); loss = head(s["h"])', "pass", True),
        (SAME, 's = {"h": x0}', 's["h"] = net(x, s["h"]); loss = head(s["h"])', "cut(s)", False),
        (SAME, 's = {"h": x0}', 's["h"] = net(x, s["h"]); loss = head(s["h"])', 's["h"] = s["h"].detach()', False),
        (SAME, 's = {"h": x0}', 's["h"] = net(x, s["c"]); loss = head(s["h"])', "pass", False),
        (SAME, "s = Record(x0)", "s.h = net(x, s.h); loss = head(s.h)", "pass", True),
        (SAME, "s = Record(x0)", "h = net(x, s.h); loss = head(h)", "s = Record(h)", True),
        (SAME, "s = Record(x0)", "h = net(x, s.h); loss = head(h)", "s = Record(h.detach())", False),
        (SAME, "s = Record(x0)", "s = Record(x0); s.h = net(x, s.h); loss = head(s.h)", "pass", False),
        (SAME, "h = x0", "h = advance(net, x, h); loss = head(h)", "pass", True),
        ("return net(x, h.detach())", "h = x0", "h = advance(net, x, h); loss = head(h)", "pass", False),
        ("out, h = net(x, h); return head(out), h", "h = x0", "loss, h = advance(net, x, h)", "pass", True),
        ("out, h = net(x, h); return head(out), h.detach()", "h = x0", "loss, h = advance(net, x, h)", "pass", False),
    ],
)
def test_a_state_in_a_record_or_through_a_function(inside, before, turn, after, found):
    graphs = graphs_of(STATE.format(inside=inside, before=before, turn=turn, after=after))
    assert [c.function.name for c in graphs.carried()] == (["train"] if found else [])


ELEMENT = """
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.states = {{}}

    def forward(self, x, who):
        h = self.states.get(who)
        h = {made}
        self.states[who] = h
        return h

    {method}


def train(agent, loader):
    for x in loader:
        agent(x, "a").sum().backward()
        {after}
"""


@pytest.mark.parametrize(
    ("made", "method", "after", "found"),
    [
        ("self.cell(x, h)", "", "", True),
        ("self.cell(x, h.detach())", "", "", False),
        ("self.cell(x, h).detach()", "", "", False),
        ("self.cell(x, x)", "", "", False),
        ("self.cell(x, h)", "def start(self, who):\n        self.states[who] = None", "", False),
        ("self.cell(x, h)", "def start(self):\n        self.states.clear()", "", False),
        ("self.cell(x, h)", "", "agent.states.clear()", False),
    ],
)
def test_a_state_in_an_element_of_an_attribute(made, method, after, found):
    graphs = graphs_of(ELEMENT.format(made=made, method=method, after=after))
    assert [c.name for c in graphs.carried()] == (["self.states[who]"] if found else [])


def test_another_class_of_the_same_name_says_nothing():
    layer = FIRST[: FIRST.index("class Net")]
    other = "class Standardise:\n    pass\n\n\nclass Chain:\n    def __init__(self):\n        self.a = Standardise()\n"
    own = layer + "\n\ndef main(run):\n    run(Standardise(4))\n"
    graphs = graphs_of({"train.py": own, "other.py": other})
    cls = graphs.program.modules["train.py"].classes["Standardise"]
    assert [path for path, _ in graphs.makers_of(cls)] == ["train.py"]
    assert graphs.statistics() == []
