"""Training steps: which loops and functions run one, and what they run in every turn.

A *unit* is a piece of code that runs once per training step: the body of a loop that holds a backward, or the whole
body of a function that holds one outside its own loops (`train_step`). What stands under `if step % n == 0`, in an
exception handler or after the loop is not run every step.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, collect_expr, expressions_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Block, Expr, Function, Stmt
    from ..program.names import Scope
    from ..program.program import Program
    from .steps_generators import Generators
    from .steps_waits import Waits

CALLERS = 8
"""Callers looked at per function."""
NOTHING_LEFT = ("continue", "break", "return", "raise")


class Site:
    """An expression or statement of a function, with the way to it: `path` holds, outermost first, ("loop", S),
    ("if", test E, taken), ("handler", type E or None), ("with", S) and ("else", S) for the else of a loop."""

    __slots__ = ("call", "path", "statement")

    def __init__(self, call: Expr, statement: Stmt, path: tuple[Any, ...]) -> None:
        self.call = call
        self.statement = statement
        self.path = path

    @property
    def loop(self) -> Stmt | None:
        """The innermost loop around it."""
        for step in reversed(self.path):
            if step[0] == "loop":
                inner: Stmt = step[1]
                return inner
        return None

    @property
    def loops(self) -> list[Stmt]:
        """The loops around it, outermost first."""
        return [step[1] for step in self.path if step[0] == "loop"]

    def within(self, loop: Stmt | None) -> tuple[Any, ...]:
        """The part of the path inside `loop` (all of it for None)."""
        if loop is None:
            return self.path
        for i, step in enumerate(self.path):
            if step[0] == "loop" and step[1] is loop:
                return self.path[i + 1 :]
        return self.path

    def holds(self, loop: Stmt) -> bool:
        return any(step[0] == "loop" and step[1] is loop for step in self.path)


class Unit:
    """Code of one training step: the body of `loop` in `function`, or the function's whole body when `loop` is None.
    `backward`: the site that makes it one; `repeated`: known to run in a loop or by a framework, once per batch."""

    __slots__ = ("backward", "function", "loop", "repeated")

    def __init__(self, function: Function, loop: Stmt | None, backward: Site, repeated: bool) -> None:
        self.function = function
        self.loop = loop
        self.backward = backward
        self.repeated = repeated


class Steps:
    """Training steps of a program, and the faults that show in them."""

    def __init__(self, program: Program, options: Any = None) -> None:
        self.program = program
        self._sites: dict[int, tuple[Site, ...]] = {}
        self._units: dict[int, list[Unit]] = {}
        self._repeated: dict[int, bool] = {}
        self._parts: dict[str, object] = {}

    # ------------------------------------------------------------------------------------------------ parts
    @property
    def waits(self) -> Waits:
        if "waits" not in self._parts:
            from .steps_waits import Waits

            self._parts["waits"] = Waits(self)
        return self._parts["waits"]  # type: ignore[return-value]

    @property
    def generators(self) -> Generators:
        if "generators" not in self._parts:
            from .steps_generators import Generators

            self._parts["generators"] = Generators(self)
        return self._parts["generators"]  # type: ignore[return-value]

    # ------------------------------------------------------------------------------------------------ where to look
    def functions(self) -> Iterator[Function]:
        """Functions, nested ones too, that by their text run a backward and a step; module code included. How fast a
        test is, is nobody's concern."""
        seen: set[int] = set()
        for f in self.program.functions_with(("backward",)):
            if f.module.is_collected or not self.may_train(f):
                continue
            for g in self.program.with_nested(f):
                if id(g) not in seen:
                    seen.add(id(g))
                    yield g

    def text(self, f: Function) -> str:
        """The lines of a function; of module code, those of the whole module."""
        return self.program.text_of(f) if f.name != "<module>" else self.program.text(f.module.path) or ""

    def may_train(self, f: Function) -> bool:
        """Whether what `find_units` asks for can stand in the lines of a function."""
        text = self.text(f)
        steps = (*knowledge.graph("step_methods"), *knowledge.graph("zero_grad_methods"))
        return "backward(" in text and any(f".{name}(" in text for name in steps)

    def sites(self, f: Function) -> tuple[Site, ...]:
        """Every call of a function with the way to it, in order."""
        key = id(f)
        if key not in self._sites:
            out: list[Site] = []
            collect(self.program.body(f), (), out)
            self._sites[key] = tuple(out)
        return self._sites[key]

    # ------------------------------------------------------------------------------------------------ steps
    def units(self, f: Function) -> list[Unit]:
        """The training steps in a function's own code. A loop's else and definitions inside it do not count."""
        key = id(f)
        if key not in self._units:
            self._units[key] = []
            self._units[key] = list(self.find_units(f))
        return self._units[key]

    def find_units(self, f: Function) -> Iterator[Unit]:
        if "backward" not in f.words and f.name != "<module>" and f.parent is None and not self.is_hook(f):
            return
        sites = self.sites(f)
        seen: set[int] = set()
        for site in sites:
            if not self.is_backward(site.call) or any(p[0] == "handler" for p in site.path):
                continue
            loop = site.loop
            if loop is not None and (is_short(loop) or self.makes_optimizer(loop, sites, f)):
                continue
            if id(loop) in seen or not self.trains(site, sites):
                continue
            seen.add(id(loop))
            yield Unit(f, loop, site, loop is not None or self.is_repeated(f))

    def is_backward(self, call: Expr) -> bool:
        """Does this call run a backward pass (over a loss, not over the inputs of an autograd function)?"""
        func = call[2]
        if func[0] != "attr" or func[3] not in knowledge.graph("backward_methods"):
            return False
        of_super = func[2][0] == "call" and func[2][2][0] == "name" and func[2][2][2] == "super"
        return not of_super and func[3] != "update_params"

    def trains(self, backward: Site, sites: tuple[Site, ...]) -> bool:
        """Is there a step or a zero_grad for the backward: in its loop, in one around it or inside it?"""
        loops = backward.loops
        for s in sites:
            if is_step(s.call):
                other = s.loops
                n = min(len(loops), len(other))
                if all(a is b for a, b in zip(loops[:n], other[:n])):
                    return True
        return False

    def makes_optimizer(self, loop: Stmt, sites: tuple[Site, ...], f: Function) -> bool:
        """A loop that makes its own optimizer in each turn goes over experiments, not over batches."""
        scope = self.program.scope(f)
        for s in sites:
            if s.holds(loop) and s.call[2][0] in ("name", "attr") and s.call[2][-1][:1].isupper():
                name = imported(s.call[2], scope)
                if name and name.startswith("torch.optim.") and "scheduler" not in name:
                    return True
        return False

    def is_repeated(self, f: Function, depth: int = 0) -> bool:
        """Is a function with one step in it called from a loop, here or one caller further up, or by a framework?"""
        key = id(f)
        if key not in self._repeated:
            self._repeated[key] = False
            self._repeated[key] = self.is_hook(f) or self.called_in_loop(f, depth)
        return self._repeated[key]

    def called_in_loop(self, f: Function, depth: int) -> bool:
        if f.name == "<module>" or f.parent is not None:
            return False
        for caller, call in self.program.callers(f)[:CALLERS]:
            for site in self.sites(caller):
                if site.call is call:
                    if site.loop is not None and not is_short(site.loop):
                        return not self.makes_optimizer(site.loop, self.sites(caller), caller)
                    if site.loop is None and depth < 2 and caller is not f and self.is_repeated(caller, depth + 1):
                        return True
        return False

    def is_hook(self, f: Function) -> bool:
        """A method that a framework runs once per batch of training."""
        hooks = knowledge.graph("training_hooks")
        if f.owner is None or not any(hook.endswith("." + f.name) for hook in hooks):
            return False
        outside = self.program.bases(f.owner)[1]
        return any(f"{base}.{f.name}" in hooks for base in outside)

    def counts(self, test: Expr, f: Function) -> bool:
        """Does a test count steps: with `%`, by a name that is bound so, or by a function of the project that does?"""
        if is_counter(test):
            return True
        out: list[Expr] = []
        collect_expr(test, out)
        scope = self.program.scope(f)
        for e in out:
            if e[0] == "name":
                bound = scope.bindings().get(e[2], ())
                if bound and all(b[0] == "value" and (is_counter(b[1]) or b[1][0] == "const") for b in bound):
                    return any(is_counter(b[1]) for b in bound)
            elif e[0] == "call" and e[2][0] in ("name", "attr"):
                for g in self.program.targets(e, scope)[:2]:
                    if any(s[0] == "return" and s[2] and is_counter(s[2]) for s in self.program.statements(g)):
                        return True
        return False

    def every_step(self, site: Site, loop: Stmt | None) -> bool:
        """Is a site run in each turn of the loop (in each call of the function), directly in it?"""
        return all(self.is_free(p) for p in site.within(loop))

    def is_free(self, p: tuple[Any, ...]) -> bool:
        """A part of a path that does not make what it holds rarer."""
        if p[0] == "with":
            return True
        return bool(p[0] == "if" and asks_for_device(p[1]))


def collect(block: Block, path: tuple[Any, ...], out: list[Site]) -> None:
    """The calls of a block. After `if test: continue`, the rest of the block stands under `not test`."""
    for s in block:
        kind = s[0]
        expressions: list[Expr] = []
        for e in expressions_of(s):
            collect_expr(e, expressions)
        inside = (*path, ("loop", s)) if kind == "while" else path
        out.extend(Site(e, s, inside) for e in expressions if e[0] == "call")
        if kind == "if":
            collect(s[3], (*path, ("if", s[2], True)), out)
            collect(s[4], (*path, ("if", s[2], False)), out)
            if s[3] and s[3][-1][0] in NOTHING_LEFT and not s[4] and is_counter(s[2]):
                path = (*path, ("if", s[2], False))
        elif kind in ("for", "while"):
            body, other = blocks_of(s)
            collect(body, (*path, ("loop", s)), out)
            collect(other, (*path, ("else", s)), out)
        elif kind == "try":
            collect(s[2], path, out)
            for h in s[3]:
                collect(h[2], (*path, ("handler", h[0])), out)
            collect(s[4], path, out)
            collect(s[5], path, out)
        elif kind == "with":
            collect(s[3], (*path, ("with", s)), out)
        elif kind == "match":
            for _, _, inner in s[3]:
                collect(inner, (*path, ("if", s[2], True)), out)


def imported(e: Expr, scope: Scope) -> str | None:
    """The qualified name of `a.b.c` when `a` is bound by an import (cheaper than asking for all that it may denote)."""
    root = e
    while root[0] == "attr":
        root = root[2]
    if root[0] != "name":
        return None
    at: Scope | None = scope
    while at is not None:
        if at.is_module:
            bound = at.module.names.get(root[2])
            return at.program.qualified(e, scope) if bound and bound[0] in ("import", "from") else None
        local = at.bindings().get(root[2])
        if local:
            return at.program.qualified(e, scope) if local[0][0] in ("import", "from") else None
        at = at.parent
    return None


def is_step(call: Expr) -> bool:
    """`optimizer.step()`, `scaler.step(optimizer)` or `zero_grad()`."""
    func = call[2]
    if func[0] != "attr":
        return False
    if func[3] in knowledge.graph("zero_grad_methods"):
        return True
    return func[3] in knowledge.graph("step_methods") and len(call[3]) <= 1


def is_counter(test: Expr) -> bool:
    """Does a test count steps (`step % n`)?"""
    out: list[Expr] = []
    collect_expr(test, out)
    return any(e[0] == "bin" and e[2] == "%" for e in out)


def asks_for_device(test: Expr) -> bool:
    """Does a test only ask whether there is an accelerator: `torch.cuda.is_available()`, `device.type == "cuda"`?"""
    if test[0] == "bool":
        return all(asks_for_device(e) for e in test[3])
    if test[0] == "call":
        return bool(test[2][0] == "attr" and test[2][3] == "is_available")
    if test[0] == "cmp" and test[2][0] in ("==", "!=", "in"):
        return any(e[0] == "const" and e[2] in ("cuda", "cpu") for e in test[3])
    return False


def is_short(loop: Stmt) -> bool:
    """A loop over a literal, or over a small fixed range: cases of an experiment, not steps of a training."""
    if loop[0] != "for":
        return False
    over = loop[3]
    if over[0] in ("tuple", "list", "set", "dict", "big"):
        return True
    if over[0] == "call" and over[2][0] == "name" and over[2][2] == "range" and len(over[3]) == 1:
        n = over[3][0]
        return n[0] == "const" and isinstance(n[2], int) and n[2] < 5
    return False
