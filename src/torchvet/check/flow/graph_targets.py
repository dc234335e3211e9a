"""What statements assign to, looked at before they are run through."""

from __future__ import annotations

from ..program.model import expressions_of, target_names, walk_block, walk_expr
from .graph_values import NOTHING, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Block, Expr


def parts_beside(value: Node, before: Node, depth: int = 0) -> list[Node] | None:
    """The inputs of a computation other than `before`; None when it does not contain `before`."""
    if value is before:
        return []
    if depth > 6:
        return None
    if value.kind == "box":
        inputs = tuple(value.data.entries.values())
    elif value.kind in ("op", "tuple") or value.kind == "join":
        inputs = value.inputs
    else:
        return None
    found = [parts_beside(n, before, depth + 1) for n in inputs]
    if all(f is None for f in found):
        return None
    out: list[Node] = []
    for n, f in zip(inputs, found):
        out += [n] if f is None and n is not NOTHING else f or []
    return out


def assigned(body: Block) -> tuple[set[str], set[str]]:
    """(names bound, roots of the places written to) in a block."""
    names: set[str] = set()
    roots: set[str] = set()
    for s in walk_block(body):
        kind = s[0]
        targets: tuple[Expr, ...] = ()
        if kind == "assign":
            targets = s[2]
        elif kind == "ann":
            targets = (s[2],)
        elif kind == "aug":
            targets = (s[3],)
        elif kind == "for":
            targets = (s[2],)
        elif kind == "with":
            targets = tuple(t for _, t in s[2] if t)
        elif kind == "del":
            targets = s[2]
        elif kind == "def":
            names.add(s[2][0])
        for t in targets:
            names.update(target_names(t))
            roots.update(roots_of(t))
        for e in expressions_of(s):
            for x in walk_expr(e):
                if x[0] == "walrus":
                    names.update(target_names(x[2]))
                elif x[0] == "call" and x[2][0] == "attr" and x[2][3][-1:] == "_" and x[2][3][-2:] != "__":
                    base = x[2][2]
                    while base[0] == "call" and base[2][0] == "attr":
                        base = base[2][2]
                    if base[0] == "name":
                        names.add(base[2])
                    else:
                        roots.update(roots_of(base))
    return names, roots


def roots_of(target: Expr) -> set[str]:
    if target[0] in ("tuple", "list"):
        return {r for x in target[2] for r in roots_of(x)}
    at = target
    while at[0] in ("attr", "sub", "star"):
        at = at[2]
    return {at[2]} if at[0] == "name" and at is not target else set()
