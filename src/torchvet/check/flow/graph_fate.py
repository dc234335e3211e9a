"""What becomes of a value later: does backward ever run over it, or does it go where nobody can see?"""

from __future__ import annotations

from ... import knowledge
from .graph_carry import Carrying
from .graph_summaries import DEEPEST
from .graph_values import NOTHING, Graph, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from .graph_summaries import Sites

REACH = 600
"""Nodes visited for one question."""


class Fate:
    __slots__ = ("trained", "unknown")

    def __init__(self) -> None:
        self.trained = False
        self.unknown = False


class Fates(Carrying):
    """Adds to `Carrying` the question `fate`."""

    def fate(self, start: Node, beyond: Graph | None = None) -> Fate:
        """Follows a value forward, through calls, returns and attributes; backward calls in `beyond` do not count."""
        fate = Fate()
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[Node, Sites]] = [(start, ())]
        while stack and not fate.trained:
            node, sites = stack.pop()
            mark = (id(node), id(sites[-1]) if sites else 0)
            if mark in seen or node is NOTHING or node.graph is None:
                continue
            seen.add(mark)
            if len(seen) > REACH:
                fate.unknown = True
                break
            graph = node.graph
            if graph is not beyond and any(node in e.nodes or node in e.accs for e in self.events(graph, not sites)):
                fate.trained = True
                break
            if node.kind == "acc" and node.data.how in ("append", "comp", "item"):
                at: Node | None = node.data.place
                while at is not None:
                    stack.append((at, sites))
                    if at.kind == "elem" and at.data[0] == "." and at.inputs[0].kind == "param":
                        self.follow_holder(at.inputs[0], sites, stack, fate)
                        break
                    at = at.inputs[0] if at.kind in ("elem", "phi", "join", "acc") and at.inputs else None
            if node.kind == "free":  # a container of the function around
                stack += [
                    (n, ()) for n in self.bound(node) if n.kind in ("box", "object", "phi", "join", "elem", "param")
                ]
            for user in self.users(graph).get(node, ()):
                self.follow(node, user, sites, stack, fate)
            if node in graph.returns or any(node is y for y, _ in graph.yields):
                self.leave(graph.function, sites, stack, fate)
            for key, left in graph.attributes.items():
                if node in left:
                    self.readers(graph, key, stack)
            if node.kind == "elem" and node.data[:1] == "." and node.inputs[0].kind == "param":
                self.readers(graph, node.data, stack)
        return fate

    def follow_holder(self, holder: Node, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        """Follows an object of which one attribute holds the value: where it goes as a whole, not its other parts."""
        for user in self.users(holder.graph).get(holder, ()):
            if user.kind != "elem" or user.data[0] != ".":
                self.follow(holder, user, sites, stack, fate)

    def follow(self, node: Node, user: Node, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        if user.kind == "acc" and user.data.place is node and user.data.how in ("append", "comp", "item"):
            return  # something else is put into the same container
        if user.kind not in ("call", "object"):
            stack.append((user, sites))
            return
        stack.append((user, sites))
        found = self.targets(user)
        if found:
            for f, _ in found[:3]:
                if len(sites) >= DEEPEST:
                    fate.unknown = True
                    continue
                graph = self.graph(f)
                for name, param in graph.params.items():
                    if self.argument(user, f, name) is node:
                        stack.append((param, (*sites, user)))
            return
        if user.kind == "object" or (user.data.receiver is node and node.kind in ("param", "free", "elem")):
            return
        call = user.data
        if call.external in knowledge.graph("sanitising_calls"):
            return
        if self.is_loss(self.callee(user)):
            return
        fate.unknown = True

    def leave(self, f: Function, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        if sites:
            stack.append((sites[-1], sites[:-1]))
            return
        calls = self.calls_of(f)
        stack += [(call, ()) for call in calls]
        if not calls and f.owner is not None and self.is_module_class(f.owner):
            fate.unknown = True  # whoever runs the module trains what it returns

    def readers(self, graph: Graph, key: str, stack: list[tuple[Node, Sites]]) -> None:
        """Where an attribute is read: in the methods of its class, and by that name in the same module."""
        f = graph.function
        others = list(self.holders(f.owner, key)) if f.owner is not None else []
        for g in (self.program.main(f.module), *self.functions_in(f.module)):
            if g not in others and key in self.text(g):
                others.append(g)
        for g in others[:24]:
            for (_, k), element in list(self.graph(g).elements.items()):
                if k == key and element.inputs[0].kind in ("param", "free", "object", "call", "phi", "join"):
                    stack.append((element, ()))
