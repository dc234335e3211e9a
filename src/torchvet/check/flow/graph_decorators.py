"""What a call of a decorated function gives: what the function returns, or what its decorator makes of that.

A decorator of the project is looked into: does what it returns, or what the functions that it returns give, come of
what it was handed? One from outside is known by its package; where nothing is known, what the call gives is unknown.
"""

from __future__ import annotations

from ... import knowledge
from ..source.patterns import Later
from .graph_library import Library
from .graph_values import NOTHING, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from ..program.program import Program

HEAD = Later(r"def \w+\(([^()]*)")
PASSED = Later(r"\breturn (?:await )?(\w+)(?:\(|\n)")
CALLED_FIRST = Later(r"\b(\w+) = (?:await )?(\w+)\(")
PLAIN = Later(r"(?<![*\w])\w+")
"""A parameter that takes one argument."""
DEEPEST_WRAPPER = 4
"""Functions in functions that a decorator returns."""


class Decorators(Library):
    """Adds to the graphs what decorators do with results."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._gives_own: dict[int, bool] = {}
        self._hands_on: dict[int, bool] = {}

    def returned(self, f: Function) -> list[Node]:
        return super().returned(f) if not f.decorators or self.gives_own(f) else []

    def gives_own(self, f: Function) -> bool:
        """Does a call of a decorated function give what the function returns?"""
        known = self._gives_own.get(id(f))
        if known is None:
            self._gives_own[id(f)] = True  # a decorator that decorates itself
            known = self._gives_own[id(f)] = self.find_gives_own(f)
        return known

    def find_gives_own(self, f: Function) -> bool:
        keeping = tuple(knowledge.graph("transparent_decorator_prefixes"))
        scope = self.program.scope(f)
        for d in f.decorators:
            found = self.program.entities(d[2] if d[0] == "call" else d, scope.parent or scope)
            for x in found:
                if (x[0] == "ext" and x[1].startswith(keeping)) or x[0] in ("class", "inst"):
                    continue
                if x[0] not in ("func", "method") or not self.hands_on_result(x[1]):
                    return False
            if not found:
                return False
        return True

    def hands_on_result(self, decorator: Function) -> bool:
        """Does what a decorator returns come of the function that it is handed, called or not?"""
        known = self._hands_on.get(id(decorator))
        if known is None:
            self._hands_on[id(decorator)] = True
            known = self.passes_by_text(decorator) or self.comes_of(decorator, frozenset(), DEEPEST_WRAPPER)
            self._hands_on[id(decorator)] = known
        return known

    def passes_by_text(self, decorator: Function) -> bool:
        """Does a decorator say that it returns what its function gives, or the function: `return fn(*args)`?"""
        text = self.text(decorator)
        given = {name for head in HEAD.findall(text) for name in PLAIN.findall(head)}
        if any(name in given for name in PASSED.findall(text)):
            return True
        return any(fn in given and f"return {kept}\n" in text for kept, fn in CALLED_FIRST.findall(text))

    def comes_of(self, f: Function, names: frozenset[str], levels: int) -> bool:
        """Does what a function returns come of one of its parameters, or of one of these names around it?"""
        graph = self.graph(f)
        names |= {p[0] for p in f.params if p[1] in ("pos", "kw") and p[0] != graph.self_name}
        around = names.difference(graph.params) if levels < DEEPEST_WRAPPER else names
        if any(r.kind == "param" and r.data in names for r in graph.returns):
            return True  # the function itself
        stack, seen = [*graph.returns, *(y for y, _ in graph.yields)], set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or node is NOTHING:
                continue
            seen.add(node)
            if node.kind in ("param", "free") and node.data in around:
                return True
            if node.kind == "func" and levels and self.comes_of(node.data, names, levels - 1):
                return True
            if node.kind == "call":
                stack += (node.data.callee, node.data.receiver, *node.data.arguments)
            stack += self.sources(node)
        return False
