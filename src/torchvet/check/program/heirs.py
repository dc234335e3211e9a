"""Which classes may be built on which, told by names alone: cheap, where resolving the bases of every class is not."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .model import Class, Module


class Heirs:
    """Which classes, by the names of their bases, can be built on which. An alias (`Base = A if x else B`) or a base
    that is computed can be anything."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)
        self.classes = [c for module in self.modules for c in module.classes.values()]
        self._aliases: set[str] | None = None
        self._bases: dict[str, set[str]] = {}
        self._above: dict[str, frozenset[str]] = {}
        self._defining: dict[str, list[Class]] = {}

    def defining(self, method: str) -> list[Class]:
        if not self._defining:
            for c in self.classes:
                for name in c.methods:
                    self._defining.setdefault(name, []).append(c)
        return self._defining.get(method, [])

    def may_be(self, cls: Class, ancestor: Class) -> bool:
        """Can `ancestor` be above `cls`?"""
        if self._aliases is None:
            self._read()
        above = self._above.get(cls.name)
        if above is None:
            found, stack = set(self._bases[cls.name]), [*self._bases[cls.name]]
            while stack:
                more = self._bases.get(stack.pop(), set()) - found
                found |= more
                stack += more
            above = self._above[cls.name] = frozenset(found)
        return ancestor.name in above or "" in above

    def _read(self) -> None:
        self._aliases = aliases = set()
        for m in self.modules:
            for n, bound in m.names.items():
                if bound[0] == "value":
                    aliases.add(n)
                elif bound[0] == "from" and bound[2] != n:
                    self._bases.setdefault(n, set()).add(bound[2])
        for c in self.classes:
            of = self._bases.setdefault(c.name, set())
            for b in c.bases:
                b = b[2] if b[0] == "sub" else b
                name = b[-1] if b[0] in ("name", "attr") else ""
                of.add("" if name in aliases else name)
