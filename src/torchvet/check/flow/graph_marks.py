"""Smaller questions about graphs: retained graphs, hooks and caches that keep tensors, emptied caches."""

from __future__ import annotations

from ... import knowledge
from ..source.patterns import Later
from .graph_preparing import Preparing
from .graph_values import MAYBE, NOTHING, OFF, Node, is_plain_type, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Expr, Function, Module
    from .graph_values import Backward


LOADER = Later(r"load|data|batch|(?:^|_)dl(?:$|_)", 2)
"""Names of what gives batches: they have no graph of their own."""


class Mark:
    """A place in a function: what it is about (`name`), and another place that belongs to it."""

    __slots__ = ("expr", "function", "kind", "module", "name", "other", "pos")

    def __init__(
        self, kind: str, function: Function, pos: int, name: str, other: tuple[Module, int] | None = None
    ) -> None:
        self.kind = kind
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.name = name
        self.other = other
        self.expr: Expr = ()


class Marks(Preparing):
    """Adds the questions `retained_in`, `hooks_in`, `cached_in`, `emptied_in`."""

    # ------------------------------------------------------------------------------------------------------- retained
    def retained_in(self, f: Function) -> Iterator[Mark]:
        """Backward calls of training steps that keep the graph although nothing runs over it again."""
        graph = self.graph(f)
        for back in graph.backwards:
            if not back.keeps or back.via not in knowledge.graph("backward_methods"):
                continue
            if back.creates:
                yield Mark("create_graph", f, back.pos, "create_graph")
            elif graph.steps and not self.is_used_again(f, back):
                yield Mark("retain_graph", f, back.pos, "retain_graph")

    def is_used_again(self, f: Function, back: Backward) -> bool:
        graph = self.graph(f)
        event = next((e for e in self.events(graph) if e.pos == back.pos), None)
        if event is None:
            return True
        made = {n for n in event.reached if n.kind in ("call", "op", "elem", "phi", "join", "acc")}
        if not any(n.kind in ("call", "op", "acc") for n in made):
            return True  # a parameter or an attribute: made elsewhere, used elsewhere
        if any(n.kind == "elem" and self.root(n).kind in ("param", "free") and not from_loader(n) for n in made):
            return True
        if any(n.kind in ("param", "free") and n.data != graph.self_name and event.proves(n) for n in event.reached):
            return True
        if back.loop is not None and any(n.kind == "call" and back.loop not in nest_of(n.loop) for n in made):
            return True  # the next turn runs over the same graph
        for other in self.events(graph):
            if other.pos != back.pos and made & {n for n in other.reached if n.kind in ("call", "op", "acc")}:
                return True
        users = self.users(graph)
        for n in made:
            if n in graph.returns or any(n in left for left in graph.attributes.values()):
                return True
            if any(u.pos > back.pos and u not in made for u in users.get(n, ())):
                return True
            if n.kind == "phi" and back.loop is not None:
                return True
        return False

    def root(self, node: Node) -> Node:
        while node.kind in ("elem", "iter") and node.inputs:
            node = node.inputs[0]
        return node

    # ---------------------------------------------------------------------------------------------------------- hooks
    def hooks_in(self, f: Function) -> Iterator[Mark]:
        """Hooks that store an output or a gradient with its graph, and are never removed. A gradient has none unless
        backward makes one."""
        around = [self.text(m) for m in f.owner.methods.values()] if f.owner is not None else [self.text(f)]
        if any(".remove()" in text for text in around) or not any(".backward(" in text for text in around):
            return
        registrars = knowledge.graph("hook_registrars")
        creating = any("create_graph=True" in text for text in around)
        if not creating and not any("forward" in r and r in self.text(f) for r in registrars):
            return
        graph = self.graph(f)
        for node in list(graph.calls.values()):
            if node.kind != "call" or node.data.method not in registrars or not node.data.arguments:
                continue
            if "forward" not in node.data.method and not creating:
                continue
            for hook in self.hook_functions(node):
                yield from self.stored_by_hook(hook, node)

    def hook_functions(self, node: Node) -> list[Function]:
        found = self.functions(node.data.arguments[0])
        if not found:
            for x in self.program.entities(node.data.expr[3][0], self.program.scope(node.graph.function)):
                if x[0] in ("func", "method"):
                    found.append(x[1])
        return found

    def stored_by_hook(self, hook: Function, registered: Node) -> Iterator[Mark]:
        graph = self.graph(hook)
        if self.own_mode(hook) == OFF:
            return
        given = [n for name, n in graph.params.items() if name != graph.self_name][1:]
        for key, left in graph.attributes.items():
            for node in left:
                if any(g in self.structure(node) for g in given) and not self.fate(node).trained:
                    yield Mark("hook", hook, self.written_at(hook, key) or hook.pos, f"{graph.self_name}{key}",
                               (registered.graph.function.module, registered.pos))  # fmt: skip
                    return
        for store in graph.stores:
            if store.how in ("append", "item") and any(g in self.structure(store.value) for g in given):
                root = self.root(store.place)
                if root.kind in ("free", "param") and not self.fate(store.acc).trained:
                    yield Mark(
                        "hook", hook, store.pos, "".join(store.path), (registered.graph.function.module, registered.pos)
                    )
                    return

    def written_at(self, f: Function, key: str) -> int:
        """Where `self.<key>` is assigned."""
        from ..program.model import walk_block

        for s in walk_block(self.program.body(f)):
            if s[0] == "assign" and any(t[0] == "attr" and "." + t[3] == key for t in s[2]):
                return int(s[1])
        return 0

    # ---------------------------------------------------------------------------------------------------------- caches
    def cached_in(self, f: Function) -> Iterator[Mark]:
        """Caches around functions that return values with a graph, or around methods of modules."""
        caches = knowledge.graph("cache_decorators")
        scope = self.program.scope(f)
        for d in f.decorators:
            e = d[2] if d[0] == "call" else d
            if e[0] not in ("name", "attr") or "cache" not in e[-1] or self.is_defined_here(e, f):
                continue
            for x in self.program.entities(e, scope.parent or scope):
                if x[0] != "ext" or x[1] not in caches or x[1].endswith("cached_property"):
                    continue
                if f.owner is not None and f.is_method and self.may_be_module(f.owner):
                    yield Mark("self", f, d[1], f.name)
                elif f.returns is not None and is_plain_type(f.returns):
                    return
                elif any(self.may_carry(r) and self.carries(r) for r in self.graph(f).returns):
                    yield Mark("result", f, d[1], f.name)
                return

    def is_defined_here(self, decorator: Expr, f: Function) -> bool:
        """Is a decorator a function of the project, by the text of the file that it is imported from?"""
        bound = f.module.names.get(decorator[2]) if decorator[0] == "name" else None
        if bound is None or bound[0] != "from":
            return False
        path = self.program.find(f.module.path, bound[1], bound[3])
        return path is not None and self.program.defined_as(path, bound[2]) == "def"

    def may_be_module(self, cls: Class) -> bool:
        """`is_module_class`, not asked where the file names nothing that modules are written with."""
        text = self.program.text(cls.module.path) or ""
        return any(word in text for word in ("nn.", "Module", "forward(")) and self.is_module_class(cls)

    # --------------------------------------------------------------------------------------------------- emptied caches
    def emptied_in(self, f: Function) -> Iterator[Mark]:
        """`torch.cuda.empty_cache()` in each turn of the loop that trains."""
        calls = knowledge.graph("empty_cache_calls")
        graph = self.graph(f)
        for node in graph.calls.values():
            if node.kind != "call" or node.data.external not in calls or node.loop is None or node.loop.kind == "comp":
                continue
            if len(node.guards) > len(node.loop.guards):
                continue
            for event in self.events(graph, False):
                if (
                    event.loop is node.loop
                    and event.nodes[0] is not NOTHING
                    and not event.guards[len(node.loop.guards) :]
                ):
                    yield Mark("empty", f, node.pos, node.data.external, (f.module, event.pos))
                    break

    # --------------------------------------------------------------------------------------------------- synchronising
    def synchronised_in(self, f: Function) -> Iterator[Mark]:
        """`.item()` and its like in each turn of the training loop."""
        graph = self.graph(f)
        for pos, node in graph.removed:
            loop = node.loop
            if loop is None or node.mode in (OFF, MAYBE):
                continue
            for event in self.events(graph, False):
                if event.loop is loop and node in event.reached and loop in nest_of(event.loop):
                    yield Mark("sync", f, pos, "")
                    break


def from_loader(node: Node) -> bool:
    """Whether a value is a part of a batch: an element of what is iterated over under the name of a loader."""
    iterated = False
    while node.kind in ("elem", "iter") and node.inputs:
        if iterated and LOADER.search(str(node.data)):
            return True
        iterated = iterated or node.kind == "iter"
        node = node.inputs[0]
    return iterated and node.kind in ("param", "free") and LOADER.search(str(node.data)) is not None
