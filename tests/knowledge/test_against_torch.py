"""The tables are held to the torch that is installed: signatures, and whether a result still carries a graph."""

from __future__ import annotations

import inspect

import pytest

from torchvet import knowledge

torch = pytest.importorskip("torch")
# every function is called with arguments that may not suit it
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def carrying(*shape):
    """A tensor that is the result of a differentiable operation."""
    return (torch.rand(shape) * 0.5 + 0.25).requires_grad_() * 1.0


def keeps(value):
    """Does a tensor, or every tensor of a sequence, require grad?"""
    if isinstance(value, (tuple, list)):
        return bool(value) and all(keeps(v) for v in value)
    return isinstance(value, torch.Tensor) and value.requires_grad


def results(function, *more):
    """What a function returns for the argument lists that fit it."""
    made = []
    for arguments in ([], [carrying(3, 3)], [0], [2], [0, 1], [(3, 3)], [carrying(3, 3), carrying(3, 3)], *more):
        try:
            made.append(function(*arguments))
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError, AttributeError):
            continue
    return made


# conversions that may go to an integer type, and methods that only work on devices or layouts we do not have here
DEPENDS = {
    "to",
    "type",
    "type_as",
    "view",
    "cuda",
    "hpu",
    "ipu",
    "npu",
    "xpu",
    "pin_memory",
    "to_mkldnn",
    "share_memory_",
}


@pytest.mark.parametrize("name", sorted(knowledge.graph("keeper_methods") - DEPENDS))
def test_keeper_methods_keep(name):
    if not hasattr(torch.Tensor, name):
        pytest.skip("not in this torch")
    made = results(lambda *a: getattr(carrying(3, 3), name)(*a))
    if not made:
        pytest.skip("needs other arguments")
    assert all(keeps(v) for v in made)


@pytest.mark.parametrize("name", sorted(knowledge.graph("remover_methods")))
def test_remover_methods_remove(name):
    if not hasattr(torch.Tensor, name):
        pytest.skip("not in this torch")
    made = results(lambda *a: getattr(carrying(3, 3), name)(*a)) + results(lambda *a: getattr(carrying(1), name)(*a))
    if not made:
        pytest.skip("needs other arguments")
    assert not any(keeps(v) for v in made)


@pytest.mark.parametrize("name", sorted(knowledge.graph("second_result_methods")))
def test_values_keep_and_indices_do_not(name):
    made = [r for r in results(lambda *a: getattr(carrying(3, 3), name)(*a)) if isinstance(r, tuple)]
    assert made
    for values, indices in made:
        assert keeps(values) and not keeps(indices)


@pytest.mark.parametrize(
    "name", sorted(knowledge.graph("remover_functions") | knowledge.graph("source_less_functions"))
)
def test_functions_without_a_graph(name):
    parts = name.split(".")[1:]
    home = torch
    for part in parts[:-1]:
        home = getattr(home, part, None)
    function = getattr(home, parts[-1], None)
    if function is None or parts[-1] in ("load", "from_file"):
        pytest.skip("not in this torch, or reads a file")
    made = results(lambda *a: function(carrying(3, 3), *a)) + results(lambda *a: function(*a), [[2, 2]], [2, 5])
    assert not any(keeps(v) for v in made)


@pytest.mark.parametrize("table", ["loss_classes", "parametric_modules", "parameterless_modules", "recurrent_modules"])
def test_modules_exist_and_have_parameters_or_not(table):
    for name in knowledge.graph(table):
        cls = getattr(torch.nn, name.rpartition(".")[2], None)
        if cls is None:  # newer or older torch
            continue
        assert issubclass(cls, torch.nn.Module)
        for arguments in ((), (3,), (2, 3), (2, 2, 1), (2, 2, 3), (3, [2])):
            try:
                module = cls(*arguments)
            except (TypeError, ValueError, AssertionError, NotImplementedError, RuntimeError):
                continue
            if table == "parameterless_modules":
                assert not list(module.parameters()), name
            break


def test_grad_modes():
    for name in knowledge.graph("no_grad_contexts"):
        if not name.startswith("torch."):
            continue
        context = getattr(torch, name.partition(".")[2])
        x = torch.ones(2, requires_grad=True)
        with context():
            assert not keeps(x * 2)
    with torch.no_grad(), torch.enable_grad():
        assert keeps(torch.ones(2, requires_grad=True) * 2)


def test_data_loader_signature():
    from torch.utils.data import DataLoader

    signature = list(inspect.signature(DataLoader.__init__).parameters.values())[1:]
    ours = knowledge.loader("parameters")
    theirs = [p.name for p in signature]
    assert list(ours[: len(theirs)]) == theirs[: len(ours)]
    positional = [p for p in signature if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert len(positional) == knowledge.loader("positional_parameters")
    for p in signature:
        default = knowledge.loader("defaults").get(p.name)
        if default is not None and p.default not in (None, inspect.Parameter.empty):
            assert p.default == default, p.name


def test_group_positions_of_collectives():
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("torch without distributed")
    checked = 0
    for name in sorted(knowledge.names("collective") | knowledge.names("p2p")):
        row = knowledge.api(name)
        head, _, last = name.rpartition(".")
        if head != "torch.distributed" or not isinstance(row.group_pos, int) or not hasattr(dist, last):
            continue
        parameters = list(inspect.signature(getattr(dist, last)).parameters)
        if row.group_arg in parameters:
            assert parameters.index(row.group_arg) == row.group_pos, name
            checked += 1
    assert checked > 15
