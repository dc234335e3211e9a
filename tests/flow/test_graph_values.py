"""Value-flow graphs of single functions: what cuts a graph, what keeps it, what loops carry."""

from __future__ import annotations

import pytest
from graph_programs import bound, function, graphs_of

from torchvet.check.flow.graph_values import FREED, NOTHING, OFF, Loop, contradict, is_fresh, key_of, path_of
from torchvet.check.program.collect import lower

TRAINED = """
import torch
import torch.nn.functional as F


def fit(model, x, y, criterion, optimizer):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    value = {}
    return value
"""


def expression(text):
    return lower(text)[0][2]


@pytest.mark.parametrize(
    "cut",
    [
        "loss.detach()",
        "loss.item()",
        "float(loss)",
        "loss.detach().cpu().clone()",
        "loss.data",
        "loss.tolist()",
        "loss.numpy()",
        "out.argmax(1)",
        "(out.argmax(1) == y).sum()",
        "out > 0",
        "out.max(1)[1]",
        "out.max(1).indices",
        "torch.argmax(out, 1)",
        "len(out)",
        "out.shape[0]",
        "out.size(0)",
        "out.grad",
        "torch.tensor(loss)",
        "torch.zeros_like(out)",
        "F.one_hot(out)",
        "y",
        "1.0",
    ],
)
def test_no_graph(cut):
    graphs = graphs_of(TRAINED.format(cut))
    assert graphs.carry(bound(graphs, "value", "fit")) is None


@pytest.mark.parametrize(
    "kept",
    [
        "loss",
        "loss.clone()",
        "loss.cpu()",
        "loss.to('cpu')",
        "loss * 2",
        "2 * loss + 1",
        "-loss",
        "loss.mean()",
        "loss / len(x)",
        "torch.stack([loss, loss])",
        "[loss]",
        "(1, loss)",
        "{'loss': loss}",
        "{'loss': loss}['loss']",
        "out.max(1)[0]",
        "out.max(1).values",
        "out[:, 0]",
        "out[0]",
        "sum([loss, loss])",
        "max(loss, loss)",
        "loss if x else 0",
        "torch.mean(out)",
        "F.mse_loss(out, y)",
        "list(out)",
        "dict(loss=loss)",
        "sum(v for v in (loss, loss))",
    ],
)
def test_graph(kept):
    graphs = graphs_of(TRAINED.format(kept))
    found = graphs.carry(bound(graphs, "value", "fit"))
    assert found is not None


def test_state_after_backward_is_freed_and_retained_is_not():
    graphs = graphs_of(TRAINED.format("loss"))
    assert graphs.carry(bound(graphs, "value", "fit")).state == FREED
    graphs = graphs_of(TRAINED.format("loss").replace("backward()", "backward(retain_graph=True)"))
    assert graphs.carry(bound(graphs, "value", "fit")).state != FREED


def test_evidence_goes_through_a_called_object_not_to_its_data():
    graphs = graphs_of(TRAINED.format("x"))
    f = function(graphs, "fit")
    assert graphs.carry(graphs.graph(f).bindings["out"][0]) is not None
    assert graphs.carry(graphs.graph(f).params["x"]) is None
    assert graphs.carry(graphs.graph(f).params["y"]) is None


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("with torch.no_grad():", "value = model(x)"),
        ("with torch.inference_mode():", "value = model(x)"),
        ("with torch.set_grad_enabled(False):", "value = model(x)"),
        ("with torch.autograd.grad_mode.no_grad():", "value = model(x)"),
    ],
)
def test_modes_of_contexts(head, body):
    source = f"""
    import torch
    from torch import nn


    def run(x):
        model = nn.Linear(2, 2)
        {head}
            {body}
        return value
    """
    graphs = graphs_of(source)
    value = bound(graphs, "value", "run")
    assert graphs.carry(value) is None
    assert value is NOTHING or value.mode == OFF


def test_enable_grad_inside_no_grad():
    graphs = graphs_of(
        """
        import torch
        from torch import nn


        def run(x):
            model = nn.Linear(2, 2)
            with torch.no_grad():
                with torch.enable_grad():
                    value = model(x)
            return value
        """
    )
    assert graphs.carry(bound(graphs, "value", "run")) is not None


def test_statement_switches_until_it_is_switched_back():
    graphs = graphs_of(
        """
        import torch
        from torch import nn


        def run(x):
            model = nn.Linear(2, 2)
            before = torch.is_grad_enabled()
            torch.set_grad_enabled(False)
            first = model(x)
            torch.set_grad_enabled(before)
            second = model(x)
        """
    )
    assert graphs.carry(bound(graphs, "first", "run")) is None
    assert graphs.carry(bound(graphs, "second", "run")) is not None


def test_not_a_tensor_on_the_other_side_of_the_test():
    graphs = graphs_of(
        """
        import torch


        def log(model, x, y, criterion):
            loss = criterion(model(x), y)
            loss.backward()
            a = loss.detach() if torch.is_tensor(loss) else loss
            b = loss.item() if isinstance(loss, torch.Tensor) else loss
            c = loss.detach() if hasattr(loss, "detach") else loss
            if isinstance(loss, torch.Tensor):
                loss = loss.detach()
            d = loss
        """
    )
    for name in "abcd":
        assert graphs.carry(bound(graphs, name, "log")) is None, name


def test_replaced_element_of_an_unknown_dict():
    graphs = graphs_of(
        """
        def run(module, batch):
            result = module.training_step(batch)
            result["loss"].backward()
            kept = [result]
            result["loss"] = result["loss"].detach()
            cut = [result]
        """
    )
    assert graphs.carry(bound(graphs, "kept", "run")) is not None
    assert graphs.carry(bound(graphs, "cut", "run")) is None


def test_carried_value_makes_a_cycle_through_the_loop_and_a_reset_does_not():
    graphs = graphs_of(
        """
        def run(xs, f):
            total = 0
            for x in xs:
                part = 0
                for y in x:
                    part = part + f(y)
                total += part
            return total
        """
    )
    graph = graphs.graph(function(graphs, "run"))
    by_path = {s.path[0]: graphs.growth(s)[0] for s in graph.stores}
    inner, outer = sorted(graph.loops.values(), key=lambda loop: -loop.pos)
    assert by_path == {"part": [inner], "total": [outer]}


def test_paths_and_keys():
    assert path_of(expression("self.stats['loss'][0]")) == ("self", ".stats", "['loss']", "[0]")
    assert path_of(expression("f(x).y")) is None
    assert key_of(expression("x[self.metric]")[3]) == "[self.metric]"
    assert key_of(expression("x[f(i)]")[3]) == "[*]"


def test_guards_contradict_only_on_the_same_test():
    assert contradict((("mode == 'train'", True),), (("mode == 'train'", False),))
    assert not contradict((("a", True),), (("b", False),))
    assert not contradict((), (("a", True),))


def test_loop_nest_and_fresh_values():
    outer = Loop(None, 1, "for", None)
    inner = Loop(None, 2, "for", outer)
    assert inner.nest() == [inner, outer] and is_fresh(NOTHING)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    global g\n    g += x\n",
        "def f(x):\n    for i in x:\n        if i: continue\n        try: y = i\n        except E as e: raise\n        finally: del y\n    else: pass\n",
        "async def f(x):\n    async for i in x:\n        await i\n    return [j async for j in x]\n",
        "def f(*a, **k):\n    return {**k, 'a': [*a]}, (lambda q: q + a[0])(1), (yield), not a\n",
        "def f(x):\n    match x:\n        case [a, *b]: return a\n        case {'k': v}: return v\n        case _: pass\n",
        "def f(x):\n    while (n := next(x)):\n        x.y.z[n] += n; x[n].q = n\n        break\n    x.a, x.b[0] = x\n",
        "class A:\n    def f(self):\n        self.x += 1; self.x[0] = self; del self.x[:]; self.x.add_(self.y)\n",
    ],
)
def test_any_statement_is_read(source):
    graphs = graphs_of(source)
    for f in graphs.program.modules["train.py"].all_functions():
        assert graphs.graph(f).function is f
    assert graphs.kept() == [] and graphs.evaluations() == []
