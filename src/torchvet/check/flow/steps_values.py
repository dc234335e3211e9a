"""Which definitions a value of one function was computed from, by name.

Enough to say that two values of a training step share a forward pass; what flows through calls, attributes and
containers is the business of `graphs`.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, children
from ..program.names import BUILTINS
from .steps import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Function, Stmt
    from ..program.program import Program

    Path = tuple[int, ...]

MOST = 60
"""Definitions followed for one value."""
ALL: frozenset[str] = frozenset()
"""Cuts nothing."""


class Definition:
    """One assignment of a name: the value, and the blocks around it (numbers, outermost first)."""

    __slots__ = ("path", "pos", "quiet", "value")

    def __init__(self, pos: int, value: Expr, path: Path, quiet: bool) -> None:
        self.pos = pos
        self.value = value
        self.path = path
        self.quiet = quiet


class Origins:
    """The definitions behind the values of one function, and its statements with the blocks around them."""

    def __init__(self, program: Program, function: Function) -> None:
        self.scope = program.scope(function)
        self.names: dict[str, list[Definition]] = {}
        self.paths: dict[int, Path] = {}
        self.removers = knowledge.graph("remover_methods")
        self.attributes = knowledge.graph("remover_attributes")
        self.plain = knowledge.graph("moving_methods") | knowledge.graph("keeper_methods")
        self._forward: dict[int, bool] = {}
        self._blocks = 0
        self.index(program.body(function), (), False)

    def index(self, block: Block, path: Path, quiet: bool) -> None:
        for s in block:
            self.paths[s[1]] = path
            self.define(s, path, quiet)
            off = quiet or (s[0] == "with" and any(self.switches_off(context) for context, _ in s[2]))
            for inner in blocks_of(s):
                self._blocks += 1
                self.index(inner, path if s[0] in ("with", "try") else (*path, self._blocks), off)

    def switches_off(self, context: Expr) -> bool:
        if context[0] != "call" or context[2][0] not in ("name", "attr"):
            return False
        return imported(context[2], self.scope) in knowledge.graph("no_grad_contexts")

    def define(self, s: Stmt, path: Path, quiet: bool) -> None:
        if s[0] == "assign":
            for t in s[2]:
                self.bind(t, s[3], s[1], path, quiet)
        elif s[0] == "ann" and s[4]:
            self.bind(s[2], s[4], s[1], path, quiet)
        elif s[0] == "aug":
            self.bind(s[3], ("tuple", s[1], (s[3], s[4])), s[1], path, quiet)

    def bind(self, t: Expr, value: Expr, pos: int, path: Path, quiet: bool) -> None:
        if t[0] == "name":
            self.names.setdefault(t[2], []).append(Definition(pos, value, path, quiet))
        elif t[0] in ("tuple", "list"):
            same = value[0] in ("tuple", "list") and len(value[2]) == len(t[2])
            for i, x in enumerate(t[2]):
                self.bind(x, value[2][i] if same else value, pos, path, quiet)
        elif t[0] == "star":
            self.bind(t[2], value, pos, path, quiet)

    def reaching(self, name: str, before: int, path: Path) -> list[Definition]:
        """The assignments of a name that can hold before a statement: back to the last one that is always run."""
        out = []
        for d in reversed(self.names.get(name, ())):
            if d.pos >> 32 < before >> 32:
                out.append(d)
                if d.path == path[: len(d.path)]:
                    break
        return out

    def behind(self, e: Expr, at: int, *, cut: bool) -> list[Definition]:
        """The definitions that `e`, read in the statement at `at`, comes from. `cut`: those it has a graph with."""
        removers = self.removers if cut else ALL
        attributes = self.attributes if cut else ALL
        out: dict[int, Definition] = {}
        todo = [(e, at, self.paths.get(at, ()))]
        while todo and len(out) < MOST:
            value, before, path = todo.pop()
            for name in names_of(value, removers, attributes):
                for d in self.reaching(name[2], before, path):
                    if id(d) not in out and not (cut and d.quiet):
                        out[id(d)] = d
                        todo.append((d.value, d.pos, d.path))
        return list(out.values())

    def forwards(self, e: Expr, at: int, *, cut: bool) -> dict[int, Expr]:
        """{position: call} of the passes through models and losses that `e`, read at `at`, was computed from."""
        out = {}
        for value in (e, *(d.value for d in self.behind(e, at, cut=cut))):
            for call in calls_of(value, self.removers if cut else ALL):
                if self.is_forward(call):
                    out[call[1]] = call
        return out

    def is_forward(self, call: Expr) -> bool:
        """May this call be a pass through a module or a loss: not a method of tensors, not a known function?"""
        known = self._forward.get(call[1])
        if known is None:
            known = self._forward[call[1]] = self.find_forward(call)
        return known

    def find_forward(self, call: Expr) -> bool:
        func = call[2]
        if not call[3] and not call[4]:
            return False
        if func[0] == "attr" and (func[3] in self.removers or func[3] in self.plain):
            return False
        name = imported(func, self.scope)
        if name is None:
            if func[0] == "name" and func[2] in BUILTINS:
                return False
            return func[0] in ("name", "attr", "sub", "call")
        first, _, rest = name.partition(".")
        if first == "torch":
            return rest.startswith("nn.")
        return first not in knowledge.graph("forwardless_packages")


def names_of(e: Expr, removers: frozenset[str], attributes: frozenset[str]) -> list[Expr]:
    """The names whose values go into an expression; not what is called, and not what loses its graph on the way."""
    out: list[Expr] = []
    todo: list[Any] = [e]
    while todo:
        e = todo.pop()
        kind = e[0]
        if kind == "name":
            out.append(e)
        elif kind == "call":
            if e[2][0] == "attr":
                if e[2][3] in removers:
                    continue
                todo.append(e[2][2])
            todo.extend(e[3])
            todo.extend(v for _, v in e[4])
        elif kind == "attr":
            if e[3] not in attributes:
                todo.append(e[2])
        elif kind == "sub":
            todo.append(e[2])
        elif kind not in ("const", "lambda", "big") and not (kind == "cmp" and removers):
            todo.extend(children(e))
    return out


def calls_of(e: Expr, removers: frozenset[str]) -> list[Expr]:
    """The calls whose results go into an expression."""
    out: list[Expr] = []
    todo: list[Any] = [e]
    while todo:
        e = todo.pop()
        if e[0] == "call":
            if e[2][0] == "attr" and e[2][3] in removers:
                continue
            out.append(e)
        if e[0] != "lambda":
            todo.extend(children(e))
    return out
