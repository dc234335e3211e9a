"""What is told about values and functions before their calls and callers are followed."""

from __future__ import annotations

import pytest
from graph_programs import function, graphs_of, kept_lines

from torchvet.check.flow.graph_events import runs_backward
from torchvet.check.flow.graph_values import nest_of
from torchvet.check.flow.graphs import may_comprehend

STEP = """
def train_step(model, x, optimizer):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    return loss
"""
LOOPS = """
def fit(model, loader, optimizer, log):
    names = []
    for name, value in model.named_parameters():
        names.append(describe(value))
    losses = []
    for x in loader:
        losses.append(train_step(model, x, optimizer))
    return names, losses


def describe(value):
    return value.mean()
"""


def kept_store(graphs, name):
    graph = graphs.graph(function(graphs, "fit"))
    return graph, next(s for s in graph.stores if s.path == (name,))


def test_a_loop_that_trains_by_the_name_of_what_it_calls():
    graphs = graphs_of(STEP + LOOPS)
    graph, losses = kept_store(graphs, "losses")
    assert graphs.may_matter([losses.value], nest_of(losses.loop), graph)
    graph, names = kept_store(graphs, "names")
    assert not graphs.may_matter([names.value], nest_of(names.loop), graph)
    assert kept_lines(graphs) == {14: "freed"}


def test_a_value_of_evaluation_matters_in_any_loop():
    graphs = graphs_of(
        """
        def fit(model, loader):
            outputs = []
            model.eval()
            for x in loader:
                outputs.append(model(x))
            return outputs
        """
    )
    graph, outputs = kept_store(graphs, "outputs")
    assert graphs.may_matter([outputs.value], nest_of(outputs.loop), graph)


def test_what_backward_goes_over_is_known_without_asking_what_is_a_module():
    graphs = graphs_of(STEP)
    graph = graphs.graph(function(graphs, "train_step"))
    (event,) = graphs.events(graph, False)
    loss = graph.bindings["loss"][-1]
    assert event._proof is None and graph.params["x"] in event.reached
    assert event.proves(loss) and not event.proves(graph.params["x"])
    assert event._proof is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss.backward()", True),
        ("self.manual_backward(loss)", True),
        ("def backward(ctx, grad):\n    return grad", False),
        ("def backward(self, loss):\n    loss.backward()", True),
        ("save_for = backward", False),
    ],
)
def test_backward_is_called_and_not_only_defined(text, found):
    assert runs_backward(text) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("for x in loader:\n    step(x)", False),
        ("a = [f(x) for x in loader]", True),
        ("a = [\n    f(x)\n    for x in loader\n]", True),
        ("format_in = 3", False),
    ],
)
def test_where_a_comprehension_can_stand(text, found):
    assert may_comprehend(text) is found


def test_only_a_loop_that_runs_a_trainer_is_one_that_trains():
    graphs = graphs_of(
        {
            "steps.py": STEP,
            "train.py": """
            from steps import train_step


            def outside(model, loader, optimizer):
                for x in loader:
                    print(x)
                return train_step(model, x, optimizer)


            def inside(model, loader, optimizer):
                return [
                    train_step(model, x, optimizer)
                    for x in loader
                ]
            """,
        }
    )
    assert graphs.trains_in_loop(function(graphs, "inside"))
    assert not graphs.trains_in_loop(function(graphs, "outside"))


def test_the_text_around_a_call_is_that_of_the_innermost_function():
    graphs = graphs_of(
        """
        class A:
            async def one(self):
                x = 1
                return f(x)

            def two(self):
                def inner(y):
                    return g(y)
                return h(inner)


        top = k()
        """
    )
    assert graphs.text_around("train.py", 5).strip() == "x = 1\n        return f(x)"
    assert graphs.text_around("train.py", 9).lstrip().startswith("return g(y)")
    assert graphs.text_around("train.py", 10).lstrip().startswith("def inner(y):")
