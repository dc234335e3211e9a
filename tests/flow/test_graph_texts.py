"""What the texts of functions tell before their graphs are made: modules handed out, states, trainers as values."""

from __future__ import annotations

import textwrap

import pytest
from graph_programs import function, graphs_of

from torchvet.check.flow.graph_rewriting import recurrent, rewrites

LOAD = """
def load(path):
    model = make(path)
    model.eval()
    {more}
    return {returned}


def calibrate(model, batches):
    for x in batches:
        model(x)


def describe(model):
    print(model)
"""


@pytest.mark.parametrize(
    ("more", "returned", "prepares"),
    [
        ("describe(model)", "model", True),
        ("describe(model)", "model, path", True),
        ("describe(model)", "model.eval()", True),
        ("describe(model)", "path", False),
        ("describe(model)", "model(path)", False),
        ("out = model(path)", "model", False),
        ("calibrate(model, path)", "model", False),
        ("calibrate(batches=path, model=model)", "model", False),
        ("path = [p for p in path]", "model", False),
    ],
)
def test_a_function_that_hands_out_the_module_it_evaluates(more, returned, prepares):
    graphs = graphs_of(LOAD.format(more=more, returned=returned))
    f = function(graphs, "load")
    assert graphs.prepares(f) is prepares
    assert (f in graphs.candidates()) is not prepares


def test_a_comment_evaluates_nothing():
    graphs = graphs_of(
        '''
        def load(path):
            """Call `.eval()` on what you get."""
            return [make(p) for p in path]


        def around(path):
            def inner(model):
                model.eval()
            return inner
        '''
    )
    assert graphs.prepares(function(graphs, "load"))
    assert not graphs.prepares(function(graphs, "around"))


def test_what_a_preparing_function_hands_to_a_loop_is_found():
    graphs = graphs_of(LOAD.format(more="calibrate(model, batches(path))", returned="model"))
    assert [u.function.name for u in graphs.evaluations()] == ["calibrate"]


METHOD = """
def forward(self, x):
    {body}
    return out
"""


@pytest.mark.parametrize(
    ("body", "changes", "statement"),
    [
        ("out, self.h = self.rnn(x, self.h)", True, "self.h = self.rnn(x, self.h"),
        ("out, h = self.rnn(x, self.h)\n    self.h = h", True, "self.rnn(x, self.h"),
        ("state = self.cell(x, self.h)\n    out = state[0]\n    self.h = state[1]", True, "self.cell(x, self.h"),
        ("out = self.h = self.cell(\n        x,\n        self.h,\n    )", True, "self.h = self.cell(\n        x,\n        self.h"),
        ("out = x\n    self.h = x\n    print(self.h)", False, None),
        ("out = f(self.h)\n    self.h = x", False, None),
        ("self.total += x\n    out = x", True, None),
        ("self.mean.mul_(0.9)\n    out = x", True, None),
        ("self.rows[i] = x\n    out = x", True, None),
        ("self.hidden = self.h = f(x, self.hid)\n    out = x", False, None),
    ],
)  # fmt: skip
def test_a_method_that_makes_the_next_value_of_an_attribute_out_of_it(body, changes, statement):
    text = METHOD.format(body=body)
    assert rewrites(text, 0, len(text)) is changes
    assert [piece for _, piece in recurrent(text)][:1] == ([statement] if statement else [])


def test_a_method_is_looked_at_up_to_its_own_end():
    text = "    def set(self, h):\n        self.h = (\n            h\n        )\n\n    def get(self):\n        return self.h\n"
    end = text.index("    def get")
    assert not rewrites(text, 0, end)


@pytest.mark.parametrize("used", ["run(step, x)", "f = step if x else None; f(model(x))", "run(x, f=step)"])
def test_a_function_that_trains_is_handed_on_as_a_value(used):
    graphs = graphs_of(
        f"""
        def step(loss):
            loss.backward()

        def run(f, x):
            f(x)

        def main(model, x):
            {used}
        """
    )
    assert graphs.hands_trainers()


@pytest.mark.parametrize("used", ["step(x)", "# a step, then", "from steps import step", "self.step()"])
def test_no_function_that_trains_is_handed_on(used):
    program = "def step(loss):\n    loss.backward()\n\n\ndef main(self, x):\n    {}\n    return x\n"
    assert not graphs_of(program.format(used)).hands_trainers()


def test_a_step_that_is_passed_trains_what_it_is_given():
    source = textwrap.dedent(
        """
        def step(loss):
            loss.backward()


        def epoch(model, loader, update):
            losses = []
            for x in loader:
                loss = model(x).mean()
                update(loss)
                losses.append(loss)
            return losses


        def main(model, loader):
            return epoch(model, loader, {})
        """
    )
    for passed, trained in (("step", True), ("print", False)):
        graphs = graphs_of(source.format(passed))
        graph = graphs.graph(function(graphs, "epoch"))
        assert any(graph.bindings["loss"][-1] in e.reached for e in graphs.events(graph)) is trained


def test_a_mapping_of_a_plain_type_is_no_object_of_the_project():
    graphs = graphs_of(
        """
        class Meter:
            def update(self, v):
                self.values.append(v)

        def log(logs: dict[str, float | None], v):
            logs.update(v)

        def note(logs, v):
            logs.update(v)

        def main():
            log(Meter(), 1)
            note(Meter(), 1)
        """
    )
    for name, classes in (("log", []), ("note", ["Meter"])):
        param = graphs.graph(function(graphs, name)).params["logs"]
        assert [c.name for c in graphs.classes(param)] == classes


STATEFUL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)
        self.hidden = None

    def forward(self, x):
        out, self.hidden = self.rnn(x, self.hidden)
        return out


def fit(model: Net, loader, opt):
    for x in loader:
        {reset}
        model(x).mean().backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("reset", "carried"),
    [
        ("opt.zero_grad()", True),
        ("print(model.hidden)", True),
        ("other.hidden_size = 4", True),
        ("assert model.hidden == x", True),
        ("model.hidden = None", False),
        ("model.module.hidden, y = None, x", False),
        ("self.model.hidden = None", False),
        ("setattr(model, 'hidden', None)", False),
        ("model.hidden.detach_()", False),
    ],
)
def test_a_state_that_others_reset_is_not_carried(reset, carried):
    assert bool(graphs_of(STATEFUL.format(reset=reset)).carried()) is carried
