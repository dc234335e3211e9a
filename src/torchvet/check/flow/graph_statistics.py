"""Running statistics of modules that take the graph of their input with them.

They are the states of graph_state.py with arithmetic in place of the call.
"""

from __future__ import annotations

from ... import knowledge
from .graph_fate import STEPS
from .graph_state import Carried, States
from .graph_values import OFF, ON, Graph, Node, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Function


RUNNING = ("inplace", "add", "cat")
"""How a running value takes up a new one."""


class Statistics(States):
    """Adds the question `statistics`."""

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
        inputs = {n for n in graph.params.values() if n is not me}
        seen: set[int] = set()
        for store in graph.stores:
            key = store.path[1] if len(store.path) == 2 and store.path[0] == graph.self_name else ""
            if not key or store.how not in RUNNING or store.pos >> 44 in seen:
                continue
            queued = self.is_queue(store)
            if (store.how == "cat" and not queued) or self.mode_at(store.acc) == OFF:
                continue
            if not (queued or self.is_average(store, owner, key)) or not self.is_held(owner, key, f):
                continue
            used = inputs & self.leaves(store.value, ())
            if (
                used
                and self.may_take_graph(graph, used)
                and (not queued or self.is_buffer(owner, key) or self.is_trained_through(f))
            ):
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
                used = inputs & found
                if before not in found or not used or not self.is_held(owner, key, f):
                    continue
                if not any(self.passed(n) for n in used) or self.may_take_graph(graph, used):
                    seen.add(root.pos >> 44)
                    yield Carried(f, root.pos, f"{graph.self_name}{key}", None)

    def is_queue(self, store: Store) -> bool:
        """Is what an attribute held put together with something new: `self.q = torch.cat([new, self.q])[:n]`?"""
        line, joining = store.pos >> 44, knowledge.graph("joining_functions")
        made = [n for n in store.graph.nodes if n.kind == "op" and n.data in joining and n.pos >> 44 == line]
        return any(store.place in self.structure(i) for n in made for i in n.inputs)

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
        if store.how != "add":
            return store.how == "inplace"
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
