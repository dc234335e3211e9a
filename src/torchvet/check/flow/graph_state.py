"""State that carries a graph from one step into the next.

A state is carried when it goes into a call whose result becomes the next state, with nothing in between that cuts the
graph: backward then runs through all earlier steps (or raises).
"""

from __future__ import annotations

from ..source.patterns import Later
from .graph_fate import STEPS, Inputs
from .graph_library import WRITTEN
from .graph_values import NOTHING, OFF, Graph, Loop, Node, Store, is_fresh, key_of, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Function, Module
    from ..program.program import Program
    from .graph_values import Path

STRUCTURE = ("elem", "iter", "tuple", "join", "phi", "snap", "box", "acc")


SET = Later(r"[ \t]*(?:,[^=\n()]*)?=(?!=)|\[[^\n=]*\] = |\.(?:detach_|clear|pop)\(")
"""What stands behind an attribute that is set, emptied, or cut in place."""


class Carried:
    """State `name` goes from one step into the next with its graph; `back_at` is where backward runs, if known."""

    __slots__ = ("back_at", "function", "module", "name", "pos")

    def __init__(self, function: Function, pos: int, name: str, back_at: tuple[Module, int] | None) -> None:
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.name = name
        self.back_at = back_at


class States(Inputs):
    """Adds the question `carried`."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._set_outside: dict[str, bool] = {}

    def carried_in(self, f: Function) -> Iterator[Carried]:
        """States of loops: `out, h = rnn(x, h)` with backward in each turn."""
        graph = self.graph(f)
        if not graph.loops:
            return
        events = self.events(graph, False)
        training = {loop for e in events for loop in nest_of(e.loop)}
        for before, path, loop, left in self.states_of(graph, training):
            for back in left:
                call = self.made_from(back, before, loop)
                if call is None or call.mode == OFF:
                    continue
                if any(self.cuts(node, before) for _, node in graph.removed):
                    continue
                for event in events:
                    if loop in nest_of(event.loop) and call in event.reached and self.is_kept_by(loop, path):
                        yield Carried(f, call.pos, "".join(path), (f.module, event.pos))
                        break
                else:
                    continue
                break

    def states_of(self, graph: Graph, loops: set[Loop]) -> Iterator[tuple[Node, Path, Loop, list[Node]]]:
        """(what it holds when a turn begins, its path, the loop, what turns leave in it) of each name, element and
        attribute that the turns of loops hand on and that nothing in them resets."""
        for phi in [n for n in graph.nodes if n.kind == "phi" and n.data in loops]:
            loop: Loop = phi.data
            name = next((k for k, v in graph.bindings.items() if any(b in v for b in phi.inputs[1:])), "")
            if name and not any(p[0] == name for p in loop.resets):
                yield phi, (name,), loop, list(phi.inputs[1:])
        for loop in graph.loops.values():
            for path, left in loop.left.items() if loop in loops else ():
                if any(path[: len(p)] == p for p in loop.resets):
                    continue
                before: Node | None = loop.roots[path[0]]
                for key in path[1:]:
                    before = graph.elements.get((id(before), key))
                if before is not None:
                    yield before, path, loop, left

    def is_kept_by(self, loop: Loop, path: Path) -> bool:
        """Does nothing else than the statements of a loop change what an element or attribute holds?"""
        if len(path) == 1:
            return True
        graph, root = loop.graph, loop.roots[path[0]]
        owner = graph.function.owner
        if root is graph.params.get(graph.self_name):
            return owner is not None and self.is_held(owner, path[1], graph.function)
        handed = {n for call in graph.calls.values() if loop in nest_of(call.loop) for n in call.inputs}
        return root not in handed and not any(n.kind == "snap" and n.inputs[0] is root for n in handed)

    def made_from(self, result: Node, state: Node, loop: Loop) -> Node | None:
        """The call of a called object that makes a state's next value out of the state, here or in a function that is
        handed the state."""
        found = self.parts(result)
        for node in found:
            if node.kind != "call" or loop not in nest_of(node.loop):
                continue
            arguments = (*node.data.arguments, *node.data.keywords.values())
            if not any(state in self.structure(a) for a in arguments):
                continue
            keys = {n.data for n in found if n.kind == "elem" and n.inputs[0] is node}
            if self.made_by_object(node) or self.makes_inside(node, state, keys):
                return node
        return None

    def makes_inside(self, call: Node, state: Node, keys: set[str]) -> bool:
        """Does a called function hand a state to a called object and return the next one, among what stands under
        these keys of its result?"""
        if call.data.external is not None or call.data.method:
            return False
        for f, _ in self.targets(call)[:2]:
            if self.own_mode(f) == OFF:
                continue
            graph = self.graph(f)
            given = [p for n, p in graph.params.items() if state in self.structure(self.argument(call, f, n))]
            if any(self.cuts(node, p) for p in given for _, node in graph.removed):
                continue
            for node in {n for r in self.returned(f) for x in under(r, keys) for n in self.parts(x)}:
                if node.kind != "call" or node.mode == OFF or not self.made_by_object(node):
                    continue
                arguments = (*node.data.arguments, *node.data.keywords.values())
                if any(p in self.structure(a) for p in given for a in arguments):
                    return True
        return False

    def parts(self, value: Node) -> set[Node]:
        """`structure`, also of the fields of a record that is made here."""
        found = self.structure(value)
        for node in [n for n in found if n.kind == "object"]:
            for field in self.record(node):
                found |= self.structure(field)
        return found

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
            if store.how != "item" or len(store.path) != 2 or store.path[0] != graph.self_name or store.key is None:
                continue
            if store.value.kind not in ("elem", "tuple", "join", "call"):
                continue
            key = key_of(store.key)
            before = graph.elements.get((id(store.place), key))
            if before is not None and self.is_trained_state(store, before, owner):
                yield Carried(f, store.pos, f"{''.join(store.path)}{key}", None)
                continue
            if store.key[0] == "const":
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

    def is_trained_state(self, store: Store, before: Node, owner: Class) -> bool:
        """Is an element of an attribute made out of what it held by the call of a module, or in a method that is
        trained, and set nowhere else?"""
        graph, key = store.graph, store.path[1]
        call = self.next_state(store.value, before)
        if call is None or not self.made_by_object(call) or self.mode_at(call) == OFF:
            return False
        setters = [m for m in self.holders(owner, key, WRITTEN) if m.name != "__init__"]
        if setters != [graph.function] or not self.is_held(owner, key, graph.function):
            return False
        if any(self.cuts(node, before) for _, node in graph.removed):
            return False
        return self.calls_module(call) or self.is_trained_through(graph.function)

    def next_state(self, result: Node, before: Node) -> Node | None:
        for node in self.structure(result):
            if node.kind == "call" and node.mode != OFF:
                arguments = (*node.data.arguments, *node.data.keywords.values())
                if any(before in self.structure(a) for a in arguments):
                    return node
        return None

    def is_held(self, cls: Class, key: str, f: Function) -> bool:
        """Is an attribute reset or cut nowhere but in the constructor?"""
        if self.is_set_outside(key[1:]):
            return False
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

    def is_set_outside(self, name: str) -> bool:
        """Does anybody set or empty an attribute of this name on another object than self, by the texts:
        `model.hidden = None`, `setattr(layer, "hidden", None)`?"""
        known = self._set_outside.get(name)
        if known is None:
            modules = [m for m in self.program.modules.values() if not m.is_collected]
            known = any(sets_outside(self.program.text(m.path) or "", name) for m in modules)
            self._set_outside[name] = known
        return known


def sets_outside(text: str, name: str) -> bool:
    """Does a text set an attribute of this name, other than on self?"""
    word = "." + name
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        before = text[max(0, at - 5) : at]
        own = before.endswith("self") and not (before[:1].isalnum() or before[:1] in "_.")
        if not own and SET.match(text, end) is not None:
            return True
        at = text.find(word, end)
    for quoted in (f'"{name}"', f"'{name}'"):
        at = text.find(quoted)
        while at >= 0:
            if "setattr(" in text[text.rfind("\n", 0, at) + 1 : at]:
                return True
            at = text.find(quoted, at + 1)
    return False


def under(result: Node, keys: set[str]) -> tuple[Node, ...]:
    """What stands in a result under some keys; the result where it is no tuple, or no key is known."""
    if result.kind != "tuple" or not keys:
        return (result,)
    return tuple(n for i, n in enumerate(result.inputs) if f"[{i}]" in keys)
