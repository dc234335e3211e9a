"""Which definitions a value of one function was computed from, by name.

Enough to say that two values of a training step share a forward pass; what flows through calls, attributes and containers is
the business of `graphs`.
"""

from __future__ import annotations

from ... import knowledge
from .settings_reach import reaching, start_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr, Function
    from ..program.program import Program

MOST = 400
"""Definitions followed for one value; more is no knowledge."""


class Origins:
    """The definitions behind the values of one function."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.body = program.body(function)
        self.scope = program.scope(function)
        self._reaching: dict[tuple[str, int], list[Any]] = {}
        self._of: dict[int, frozenset[int]] = {}
        self.values: dict[int, Expr] = {}
        self.removers = knowledge.graph("remover_methods")
        self.attributes = knowledge.graph("remover_attributes")

    def definitions(self, name: str, pos: int) -> list[Any]:
        key = (name, pos)
        if key not in self._reaching:
            self._reaching[key] = reaching(self.body, name, pos)
        return self._reaching[key]

    def of(self, e: Expr, *, cut: bool = True) -> frozenset[int]:
        """Positions of the assigned expressions that `e` was computed from, those without a call in them included.
        `cut`: stop where a value loses its graph (`.detach()`, a comparison)."""
        found: set[int] = set()
        todo = [e]
        while todo and len(found) < MOST:
            for name in names_of(todo.pop(), self.removers if cut else frozenset(), self.attributes if cut else frozenset()):
                for d in self.definitions(name[2], name[1]):
                    if len(d) > 1 and d[1][1] not in found and start_of(d[1][1]) < start_of(name[1]):
                        found.add(d[1][1])
                        self.values[d[1][1]] = d[1]
                        todo.append(d[1])
        return frozenset(found)

    def forwards(self, e: Expr, *, cut: bool = True) -> frozenset[int]:
        """The calls of something that is no class and no function of a known package among the definitions of `e`
        and in `e` itself: passes through a model, losses."""
        out: set[int] = set()
        for value in (e, *(self.values[p] for p in self.of(e, cut=cut))):
            for call in calls_of(value, self.removers if cut else frozenset()):
                if self.is_forward(call):
                    out.add(call[1])
        return frozenset(out)

    def is_forward(self, call: Expr) -> bool:
        func = call[2]
        if not call[3] and not call[4]:
            return False
        if func[0] == "attr" and func[3] in knowledge.graph("keeper_methods") | self.removers | DATA:
            return False
        name = self.program.qualified(func, self.scope)
        if name is None:
            return func[0] in ("name", "attr", "sub", "call") and not (func[0] == "attr" and func[3] == "get")
        if name.startswith("torch."):
            return name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.one_hot")
        return not name.startswith(("builtins.", "numpy.", "random.", "time.", "tqdm", "itertools."))


DATA = frozenset(("to", "cuda", "items", "keys", "values", "append", "next", "format", "join", "split"))


def names_of(e: Expr, removers: frozenset[str], attributes: frozenset[str]) -> list[Expr]:
    """The names whose values go into an expression; not what is called, and not what loses its graph on the way."""
    out: list[Expr] = []
    todo = [e]
    while todo:
        e = todo.pop()
        kind = e[0]
        if kind == "name":
            out.append(e)
        elif kind == "call":
            func = e[2]
            if func[0] == "attr":
                if func[3] in removers:
                    continue
                todo.append(func[2])
            todo.extend(e[3])
            todo.extend(v for _, v in e[4])
        elif kind == "attr":
            if e[3] not in attributes:
                todo.append(e[2])
        elif kind == "cmp" and removers:
            continue
        elif kind == "sub":
            todo.append(e[2])
        elif kind not in ("const", "lambda", "big"):
            from ..program.model import children

            todo.extend(children(e))
    return out


def calls_of(e: Expr, removers: frozenset[str]) -> list[Expr]:
    """The calls whose results go into an expression."""
    from ..program.model import children

    out: list[Expr] = []
    todo = [e]
    while todo:
        e = todo.pop()
        if e[0] == "call":
            if e[2][0] == "attr" and e[2][3] in removers:
                continue
            out.append(e)
        if e[0] != "lambda":
            todo.extend(children(e))
    return out
