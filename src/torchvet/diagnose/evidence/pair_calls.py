"""Sends and receives in the program's own source: whom each line names. gloo's recorder tells nothing of them.

Facts (kind: values):

    pair-call       op ("send", "recv"), peer (the expression, as Python writes it), end (last line of the call),
                    names (name -> the one expression that the file gives it)
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
_FUNCTIONS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}


def pair_calls(item: Item) -> Iterator[Fact]:
    """The calls of one Python file; nothing for a file that does not parse."""
    if item.size > LARGEST:
        return
    text = item.whole(LARGEST)
    if not any(word in text for word in (b"send(", b"recv(")):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    given: dict[str, list[ast.expr]] = {}
    calls: list[tuple[ast.Call, str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FUNCTIONS:
            word = _FUNCTIONS[node.func.attr]
            peer = next((k.value for k in node.keywords if k.arg == word), None)
            if peer is None and len(node.args) > 1:
                peer = node.args[1]
            if peer is not None:
                calls.append((node, node.func.attr.lstrip("i"), peer))
    for node, op, peer in calls[:MOST]:
        names = {n.id for n in ast.walk(peer) if isinstance(n, ast.Name)}
        known = {name: ast.unparse(given[name][0])[:200] for name in sorted(names) if len(given.get(name, ())) == 1}
        values = {"op": op, "peer": ast.unparse(peer)[:200], "end": node.end_lineno or node.lineno, "names": known}
        yield Fact("pair-call", item.name, node.lineno, None, "", None, node.lineno, values)
