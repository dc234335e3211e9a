"""State that carries a graph from one step into the next: recurrent states, running statistics.

A state is carried when it goes into a call whose result becomes the next state, with nothing in between that cuts the
graph: backward then runs through all earlier steps (or raises). Statistics are the same with arithmetic in place of the
call.
"""

from __future__ import annotations

from ... import knowledge
from .graph_fate import Fates
from .graph_values import MAYBE, NOTHING, OFF, ON, Graph, Loop, Node, Store, is_fresh, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Function, Module
    from .graph_summaries import Sites

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
    """Adds the questions `carried` and `statistics`."""

    # ----------------------------------------------------------------------------------------------------- recurrence
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

    # ----------------------------------------------------------------------------------------------------- statistics
    def statistics_in(self, f: Function) -> Iterator[Carried]:
        """Running statistics of a module that take the graph of its input with them."""
        owner = f.owner
        if owner is None or f.name == "__init__" or self.own_mode(f) == OFF:
            return
        graph = self.graph(f)
        me = graph.params.get(graph.self_name)
        if me is None:
            return
        yield from self.averaged_weights(f, graph, owner)
        if not self.is_module_class(owner):
            return
        if any(store.how == "item" for store in graph.stores):
            yield from self.written_with_graph(f, graph, owner)
        inputs = {n for name, n in graph.params.items() if n is not me}
        seen: set[int] = set()
        for store in graph.stores:
            key = store.path[1] if len(store.path) == 2 and store.path[0] == graph.self_name else ""
            if (
                not key
                or store.how not in ("inplace", "add")
                or store.pos >> 44 in seen
                or self.mode_at(store.acc) == OFF
            ):
                continue
            if not self.is_average(store, owner, key) or not self.is_held(owner, key, f):
                continue
            if any(n in inputs for n in self.leaves(store.value, ())) and self.gives_input(graph, inputs):
                seen.add(store.pos >> 44)
                yield Carried(f, store.pos, "".join(store.path), None)
        for key, left in list(graph.attributes.items()):
            before = graph.elements.get((id(me), key))
            if before is None or key[-1] == "=":
                continue
            for node in left:
                root = node
                while root.kind == "elem":
                    root = root.inputs[0]
                if root.kind != "call" or not self.targets(root) or root.pos >> 44 in seen:
                    continue
                found = self.leaves(node, ())
                if before in found and any(n in inputs for n in found) and self.is_held(owner, key, f):
                    seen.add(root.pos >> 44)
                    yield Carried(f, root.pos, f"{graph.self_name}{key}", None)

    def written_with_graph(self, f: Function, graph: Graph, owner: Class) -> Iterator[Carried]:
        """Rows of a buffer that are set to what a module makes of the step's data: `self.bank[idx] = feat`."""
        for store in graph.stores:
            if store.how != "item" or len(store.path) != 2 or store.path[0] != graph.self_name:
                continue
            key = store.path[1]
            if store.key is None or store.key[0] == "const" or self.mode_at(store.acc) == OFF:
                continue
            if not self.is_buffer(owner, key) and not any(n.kind == "tensor" for n in self.heap(owner, key)):
                continue
            if self.is_activation(store.value, 1) and self.is_held(owner, key, f):
                yield Carried(f, store.pos, "".join(store.path), None)

    def is_activation(self, value: Node, levels: int) -> bool:
        """Is a value computed from what a module gave with gradients on, here or in a caller that passes it?"""
        stack = [value]
        seen: set[Node] = set()
        while stack and len(seen) < STEPS:
            node = stack.pop()
            if node in seen or (node.kind in ("op", "call") and self.mode_at(node) in (OFF, MAYBE)):
                continue
            seen.add(node)
            if node.kind == "call":
                if self.made_by_object(node):
                    return self.callee(node).kind != "iter" and not self.may_be_frozen(node)
                if node.data.external is not None:
                    stack += node.inputs
            elif node.kind in ("op", "elem", "iter", "join", "phi", "tuple", "acc"):
                stack += node.inputs
            elif node.kind == "param" and levels and node.data != node.graph.self_name:
                g = node.graph.function
                for call in self.calls_of(g):
                    given = NOTHING if self.mode_at(call) in (OFF, MAYBE) else self.argument(call, g, node.data)
                    if given is not NOTHING and self.is_activation(given, levels - 1):
                        return True
        return False

    def may_be_frozen(self, call: Node) -> bool:
        """Is what is called a part of the class whose parameters it tells to need no gradients?"""
        callee, owner = self.callee(call), call.graph.function.owner
        if owner is None or callee.kind != "elem":
            return False
        return any("requires_grad" in self.text(m) for m in self.holders(owner, callee.data))

    def averaged_weights(self, f: Function, graph: Graph, owner: Class) -> Iterator[Carried]:
        """Moving averages of weights that are made of the parameters themselves, not of their data."""
        for store in graph.stores:
            if store.how not in ("add", "inplace") or store.path[:1] != (graph.self_name,) or len(store.path) < 2:
                continue
            if self.comes_from_parameters(store.value) and self.mode_at(store.acc) == ON:
                yield Carried(f, store.pos, "".join(store.path), None)

    def comes_from_parameters(self, value: Node) -> bool:
        """Is a value computed from what `parameters()` or `named_parameters()` gives?"""
        stack = [value]
        seen: set[Node] = set()
        while stack and len(seen) < STEPS:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.kind == "call":
                if node.data.method in knowledge.graph("parameter_iterators"):
                    return True
            elif node.kind in ("op", "elem", "iter", "join", "phi", "tuple"):
                stack += node.inputs
        return False

    def is_average(self, store: Store, cls: Class, key: str) -> bool:
        """Is a running value: a buffer or tensor of the module that is scaled and added to."""
        if store.how == "inplace":
            return True
        if self.is_buffer(cls, key):
            return True
        return any(
            n.kind == "op" and n.data == "*" and store.place in n.inputs
            for n in store.graph.nodes
            if n.pos >> 44 == store.pos >> 44
        )

    def is_buffer(self, cls: Class, key: str) -> bool:
        for method in self.holders(cls, key[1:]):
            for node in self.graph(method).calls.values():
                if node.kind == "call" and node.data.method in self.buffer_registrars() and node.data.expr[3]:
                    first = node.data.expr[3][0]
                    if first[0] == "const" and first[2] == key[1:]:
                        return True
        return False

    def buffer_registrars(self) -> frozenset[str]:
        return knowledge.graph("buffer_registrars")

    def gives_input(self, graph: Graph, inputs: set[Node]) -> bool:
        """Does the result of the function depend on its inputs by arithmetic: are they activations?"""
        return any(n in inputs for r in graph.returns for n in self.leaves(r, ()))

    def leaves(self, node: Node, sites: Sites) -> set[Node]:
        """Parameters and attributes of the function from which a value is computed, through project calls."""
        out: set[Node] = set()
        stack: list[tuple[Node, Sites]] = [(node, sites)]
        seen: set[tuple[int, int]] = set()
        while stack and len(seen) < STEPS:
            at, open_sites = stack.pop()
            mark = (id(at), len(open_sites))
            if mark in seen or at is NOTHING or (at.mode == OFF and at.kind in ("op", "call")):
                continue
            seen.add(mark)
            if at.kind == "param":
                if open_sites and any(g is at.graph.function for g, _ in self.targets(open_sites[-1])):
                    stack.append((self.argument(open_sites[-1], at.graph.function, at.data), open_sites[:-1]))
                else:
                    out.add(at)
            elif at.kind == "elem":
                base = at.inputs[0]
                if base.kind == "param" and not open_sites:
                    out.add(at)
                else:
                    stack += [(n, s) for n, s in self.parts_of(at, open_sites, 6) if n is not at]
            elif at.kind == "call":
                found = self.targets(at) if len(open_sites) < 3 else []
                for g, _ in found[:2]:
                    stack += [(r, (*open_sites, at)) for r in self.returned(g)]
                if not found:
                    stack += [(n, open_sites) for n in at.inputs]
            else:
                stack += [(n, open_sites) for n in self.sources(at)]
        return out
