"""State that carries a graph from one step into the next.

A state is carried when it goes into a call whose result becomes the next state, with nothing in between that cuts the
graph: backward then runs through all earlier steps (or raises).
"""

from __future__ import annotations

from .graph_fate import Fates
from .graph_values import NOTHING, OFF, Loop, Node, is_fresh, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Function, Module

STRUCTURE = ("elem", "iter", "tuple", "join", "phi", "snap", "box", "acc")
STEPS = 240


class Carried:
    """State `name` goes from one step into the next with its graph; `back_at` is where backward runs, if known."""

    __slots__ = ("back_at", "function", "module", "name", "pos")

    def __init__(self, function: Function, pos: int, name: str, back_at: tuple[Module, int] | None) -> None:
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.name = name
        self.back_at = back_at


class States(Fates):
    """Adds the question `carried`."""

    def carried_in(self, f: Function) -> Iterator[Carried]:
        """States of loops: `out, h = rnn(x, h)` with backward in each turn."""
        graph = self.graph(f)
        if not graph.loops:
            return
        events = self.events(graph, False)
        training = {loop for e in events for loop in nest_of(e.loop)}
        for phi in [n for n in graph.nodes if n.kind == "phi" and n.data in training]:
            loop: Loop = phi.data
            name = next((k for k, v in graph.bindings.items() if any(b in v for b in phi.inputs[1:])), "")
            if not name or any(p[0] == name for p in loop.resets):
                continue
            for back in phi.inputs[1:]:
                call = self.made_from(back, phi, loop)
                if call is None or call.mode == OFF:
                    continue
                if any(self.cuts(node, phi) for _, node in graph.removed):
                    continue
                for event in events:
                    if loop in nest_of(event.loop) and call in event.reached:
                        yield Carried(f, call.pos, name, (f.module, event.pos))
                        break
                else:
                    continue
                break

    def made_from(self, result: Node, state: Node, loop: Loop) -> Node | None:
        """The call of a called object that makes a state's next value out of the state."""
        for node in self.structure(result):
            if node.kind == "call" and loop in nest_of(node.loop) and self.made_by_object(node):
                arguments = (*node.data.arguments, *node.data.keywords.values())
                if any(state in self.structure(a) for a in arguments):
                    return node
        return None

    def structure(self, node: Node) -> set[Node]:
        """A node and what it is an element, merge or container of."""
        out: set[Node] = set()
        stack = [node]
        while stack and len(out) < STEPS:
            at = stack.pop()
            if at in out or at is NOTHING:
                continue
            out.add(at)
            if at.kind in STRUCTURE or (at.kind == "op" and at.data in ("copy", "enter", "slice")):
                stack += self.sources(at)
        return out

    def cuts(self, removed: Node, state: Node) -> bool:
        return state in self.structure(removed)

    def carried_by_objects(self, f: Function) -> Iterator[Carried]:
        """States kept in attributes: `y, self.h = self.lstm(x, self.h)`."""
        graph = self.graph(f)
        owner = f.owner
        me = graph.params.get(graph.self_name)
        if owner is None or me is None or f.name == "__init__" or self.own_mode(f) == OFF:
            return
        for key, left in list(graph.attributes.items()):
            before = graph.elements.get((id(me), key))
            if before is None:
                continue
            for node in left:
                call = self.next_state(node, before)
                if call is not None and self.is_held(owner, key, f) and self.calls_module(call):
                    yield Carried(f, call.pos, f"{graph.self_name}{key}", None)
                    break
        for store in graph.stores:
            if store.how != "item" or len(store.path) != 2 or store.path[0] != graph.self_name:
                continue
            if (
                store.key is None
                or store.key[0] == "const"
                or store.value.kind not in ("elem", "tuple", "join", "call")
            ):
                continue
            for call in self.structure(store.value):
                if call.kind != "call" or not self.made_by_object(call):
                    continue
                arguments = (*call.data.arguments, *call.data.keywords.values())
                if not any(store.place in self.structure(a) for a in arguments):
                    continue
                # somebody cuts the graph of another part of the same result: there is one
                if any(call in self.structure(n) for _, n in graph.removed):
                    yield Carried(f, store.pos, "".join(store.path), None)
                    break

    def next_state(self, result: Node, before: Node) -> Node | None:
        for node in self.structure(result):
            if node.kind == "call" and node.mode != OFF:
                arguments = (*node.data.arguments, *node.data.keywords.values())
                if any(before in self.structure(a) for a in arguments):
                    return node
        return None

    def is_held(self, cls: Class, key: str, f: Function) -> bool:
        """Is an attribute reset or cut nowhere but in the constructor?"""
        for method in self.holders(cls, key):
            graph = self.graph(method)
            if method.name == "__init__":
                continue
            if graph.attributes.get(key + "="):
                return False
            if any(is_fresh(n) or (n.kind == "join" and NOTHING in n.inputs) for n in graph.attributes.get(key, ())):
                return False
            if method is not f and key in graph.attributes:
                return False
            me = graph.params.get(graph.self_name)
            element = graph.elements.get((id(me), key))
            if element is not None and any(element in self.structure(n) for n in graph.renewed):
                return False
        return True
