"""Calls in the program's own source that name a rank: sends, receives, and collectives with a root.

gloo's recorder tells nothing of sends; no recorder tells the root of a broadcast.

Facts (kind: values):

    pair-call       op ("send", "recv"), peer (the expression, as Python writes it), end (last line of the call),
                    names (name -> the one expression that the file gives it)
    root-call       the same of a collective of the group of all ranks: op ("broadcast", ...), peer is its root
"""

from __future__ import annotations

import ast

from ..model import Fact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..files import Item

LARGEST = 1 << 20
MOST = 200
_PAIRS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
# function -> (argument that names the root, its place among the arguments)
ROOTS = {
    "broadcast": ("src", 1), "broadcast_object_list": ("src", 1), "reduce": ("dst", 1), "gather": ("dst", 2),
    "gather_object": ("dst", 2), "scatter": ("src", 2), "scatter_object_list": ("src", 2),
}  # fmt: skip
_GROUP = {"broadcast": 2, "broadcast_object_list": 2, "reduce": 3, "gather": 3, "gather_object": 3, "scatter": 3,
          "scatter_object_list": 3}  # fmt: skip
"""Place of the argument `group`: roots of smaller groups differ by right."""


def pair_calls(item: Item) -> Iterator[Fact]:
    """The calls of one Python file; nothing for a file that does not parse."""
    if item.size > LARGEST:
        return
    text = item.whole(LARGEST)
    if not any(word in text for word in (b"send(", b"recv(", b"broadcast", b"reduce(", b"gather", b"scatter")):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    aliases = _aliases(tree)
    given: dict[str, list[ast.expr]] = {}
    calls: list[tuple[ast.Call, str, str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in _PAIRS and (peer := _argument(node, _PAIRS[name], 1)) is not None:
                calls.append((node, "pair-call", name.lstrip("i"), peer))
            elif (peer := root_of(node)) is not None and ast.unparse(node.func.value) in aliases:
                calls.append((node, "root-call", name, peer))
    turns, handed = (_turns(tree), _handed(tree)) if any(c[1] == "root-call" for c in calls) else (set(), {})
    for node, kind, op, peer in calls[:MOST]:
        names = {n.id for n in ast.walk(peer) if isinstance(n, ast.Name)}
        known = {name: ast.unparse(given[name][0])[:200] for name in sorted(names) if len(given.get(name, ())) == 1}
        if kind == "root-call" and (names & turns or names & handed.get(id(node), set())):
            continue  # the name of a loop or of an argument: not the rank itself, whatever it is called
        values = {"op": op, "peer": ast.unparse(peer)[:200], "end": node.end_lineno or node.lineno, "names": known}
        yield Fact(kind, item.name, node.lineno, None, "", None, node.lineno, values)


def _aliases(tree: ast.AST) -> set[str]:
    """What a file calls torch.distributed: tensors have gather() and scatter() too."""
    out = {"dist", "torch.distributed", "distributed"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {a.asname for a in node.names if a.asname and a.name == "torch.distributed"}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            out |= {a.asname for a in node.names if a.asname and a.name == "distributed"}
    return out


def _turns(tree: ast.AST) -> set[str]:
    """Names that loops give, over ranks for instance: they have many values on one rank."""
    loops = (n for n in ast.walk(tree) if isinstance(n, ast.For | ast.AsyncFor | ast.comprehension))
    return {n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)}


def _handed(tree: ast.AST) -> dict[int, set[str]]:
    """id of a call -> arguments of the functions around it that need not be what their name says. Beside the size of
    the world `rank` is what torch.multiprocessing.spawn gives."""
    out: dict[int, set[str]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        a = function.args
        names = {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg is not None}
        if names & {"world_size", "world", "nprocs"}:
            names.discard("rank")
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                out.setdefault(id(node), set()).update(names)
    return out


def root_of(node: ast.Call) -> ast.expr | None:
    """The root that a collective of the group of all ranks names; None: another call, or one of another group."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name not in ROOTS or len(node.args) > _GROUP[name]:
        return None
    if any(k.arg is None or k.arg.startswith("group") for k in node.keywords):
        return None
    return _argument(node, *ROOTS[name])


def _argument(node: ast.Call, word: str, at: int) -> ast.expr | None:
    found = next((k.value for k in node.keywords if k.arg == word), None)
    if found is None and len(node.args) > at and not any(isinstance(a, ast.Starred) for a in node.args):
        found = node.args[at]
    return found
