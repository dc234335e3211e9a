"""Names and attributes that take up a value by way of a function: `queue = enqueue(queue, keys)`.

The function puts what it is handed together and returns it, so that the call does the same as
`queue = torch.cat([queue, keys])`.
"""

from __future__ import annotations

from ... import knowledge
from .graph_keeping import Keeping, Kept
from .graph_values import MAYBE, NOTHING, OFF, Graph, Node, Store, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function
    from .graph_values import Path

ARITHMETIC = ("op", "acc", "box", "join", "phi")


class Helpers(Keeping):
    """Adds `kept_by_helpers`."""

    def kept_by_helpers(self, graph: Graph) -> Iterator[Kept]:
        """Places that a call gives their next value, made of what they held and of a value with a graph."""
        for before, path, call in self.taking_up(graph):
            if any(call in e.reached for e in self.events(graph)):
                continue
            for value, expr in self.taken_up(call, before):
                store = Store(graph, "cat", call.pos, before, path, value, expr, call.loop, call.guards)
                kept = self.judge(store)
                if kept is None:
                    continue
                if kept.alive:
                    fate = self.fate(call)
                    if fate.trained or fate.unknown:
                        continue
                yield kept
                break

    def taking_up(self, graph: Graph) -> Iterator[tuple[Node, Path, Node]]:
        """(what a name or attribute held, its path, the call that is handed this and gives the next value)."""
        for phi, name in list(graph.carried.items()):
            for back in phi.inputs[1:]:
                if is_handed(phi, back) and phi.data in nest_of(back.loop):
                    yield phi, (name,), back
        me = graph.params.get(graph.self_name)
        for key, left in list(graph.attributes.items()) if me is not None else ():
            held: Node | None = graph.elements.get((id(me), key))
            for back in left:
                if held is not None and is_handed(held, back):
                    yield held, (graph.self_name, key), back

    def taken_up(self, call: Node, before: Node) -> Iterator[tuple[Node, Expr]]:
        """The arguments that the called function puts together with another one."""
        given = [
            (n, e) for n, e in zip(call.data.arguments, call.data.expr[3]) if n is not before and self.may_carry(n)
        ]
        for f, _ in self.targets(call)[:2] if given else ():
            if self.own_mode(f) == OFF or not self.may_join(f):
                continue
            graph = self.graph(f)
            joined = [put_together(r) for r in self.returned(f)]
            for value, expr in given:
                names = [n for n in graph.params if self.argument(call, f, n) is value]
                held = [n for n in graph.params if self.argument(call, f, n) is before]
                if any(a in found and b in found for found in joined for a in names for b in held):
                    yield value, expr

    def may_join(self, f: Function) -> bool:
        """May a function put two of its parameters together, by its text?"""
        text = self.text(f)
        names = {name.rpartition(".")[2] for name in knowledge.graph("joining_functions")}
        return " + " in text or any(f"{name}(" in text for name in names)


def is_handed(before: Node, call: Node) -> bool:
    if call.kind != "call" or call.mode in (OFF, MAYBE) or call.data.external is not None or call.data.method:
        return False
    return before in call.data.arguments


def put_together(value: Node) -> set[str]:
    """The parameters that a value is made of by arithmetic alone."""
    out: set[str] = set()
    stack, seen = [value], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node is NOTHING:
            continue
        seen.add(node)
        if node.kind == "param":
            out.add(node.data)
        elif node.kind == "box":
            stack += node.data.entries.values()
        elif node.kind in ARITHMETIC:
            stack += node.inputs
    return out
