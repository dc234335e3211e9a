"""Where a training step waits for the accelerator only to bring a number to the host.

One `.item()` a step costs little in most programs, so that alone is no finding. It is one when the number is read only
every n steps, when it is printed every step, and when a step waits on both sides of a backward (the queue of kernels
runs dry twice).
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, expressions_of, line_of, walk_expr
from .steps_values import ALL, Origins, names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Expr, Function, Module
    from .steps import Site, Steps, Unit


class Wait:
    """A place where a step waits. `use`: "logged" (the number is read every n steps only, first at `other`), "printed",
    or "between" (the step also waits on the other side of the backward at `other`); `others`: further places of it."""

    __slots__ = ("call", "function", "module", "other", "others", "pos", "use")

    def __init__(self, function: Function, call: Expr, use: str, other: int = 0) -> None:
        self.function = function
        self.module: Module = function.module
        self.call = call
        self.pos: int = call[1]
        self.use = use
        self.other = other
        self.others: list[int] = []


class Waits:
    """Asks for steps that wait."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.program = steps.program
        self._devices: dict[str, bool] = {}

    def found(self) -> Iterator[Wait]:
        """At most one per step: the first place of the strongest kind."""
        methods = [f".{name}()" for name in knowledge.graph("host_methods")]
        functions = [name.rpartition(".")[2] + "(" for name in knowledge.graph("host_functions")]
        for f in self.steps.functions():
            text = self.steps.text(f)
            if not any(word in text for word in (*methods, *functions)):
                continue
            if not any(waited_for(site.call) for site in self.steps.sites(f)):
                continue
            for unit in self.steps.units(f):
                found = sorted(self.in_unit(unit), key=lambda w: w.pos)
                first = self.strongest(found, unit)
                if first is not None:
                    seen = {line_of(first.pos)}
                    for w in found:
                        if line_of(w.pos) not in seen and len(first.others) < 4:
                            seen.add(line_of(w.pos))
                            first.others.append(w.pos)
                    yield first

    def strongest(self, found: list[Wait], unit: Unit) -> Wait | None:
        for w in found:
            if w.use == "logged" and (self.uses_device(unit.function) or not self.is_complete(unit.function)):
                return w
        if not unit.repeated or is_epoch(unit) or not self.uses_device(unit.function):
            return None
        for w in found:
            if w.use == "printed":
                return w
        backwards = [
            s.call[1]
            for s in self.steps.sites(unit.function)
            if s.loop is unit.loop and self.steps.is_backward(s.call) and self.steps.every_step(s, unit.loop)
        ]
        for b in backwards[1:]:
            before = [w for w in found if w.pos < b]
            if before and found[-1].pos > b and any(a < found[-1].pos for a in backwards):
                before[0].use, before[0].other = "between", b
                return before[0]
        return None

    def in_unit(self, unit: Unit) -> Iterator[Wait]:
        """The places of a step that wait for a value of its own forward pass."""
        f = unit.function
        places = []
        for site in self.steps.sites(f):
            value = waited_for(site.call)
            if value is not None and site.loop is unit.loop and self.steps.every_step(site, unit.loop):
                places.append((site, value, *self.use_of(site, unit)))
        backwards = sum(s.loop is unit.loop and self.steps.is_backward(s.call) for s in self.steps.sites(f))
        if all(use == "kept" for _, _, use, _ in places) and (backwards < 2 or len(places) < 2):
            return
        origins = Origins(self.program, f)
        back = unit.backward
        loss = origins.forwards(("tuple", back.call[1], (back.call[2][2], *back.call[3])), back.statement[1], cut=True)
        given = {p[0] for p in f.params} - origins.names.keys()  # `def step(self, loss)`: made by the caller
        given &= {n[2] for n in names_of(back.call[2][2], origins.removers, origins.attributes)}
        for site, value, use, other in places:
            made = loss and origins.forwards(value, site.statement[1], cut=False)
            if (made and loss.keys() & made.keys()) or any(n[2] in given for n in names_of(value, ALL, ALL)):
                yield Wait(f, site.call, use, other)

    def use_of(self, site: Site, unit: Unit) -> tuple[str, int]:
        """What becomes of the number: "printed", "logged", or "kept"."""
        s = site.statement
        if s[0] == "expr" and s[2][0] == "call" and s[2][2][0] == "name" and s[2][2][2] == "print":
            return "printed", 0
        target: Any = s[2][0] if s[0] == "assign" and len(s[2]) == 1 else s[3] if s[0] == "aug" else None
        if target is not None and target[0] == "name":
            read = self.read_every_n(unit.function, target[2], s)
            if read:
                return "logged", read
        return "kept", 0

    def read_every_n(self, f: Function, name: str, bound: Any) -> int:
        """Where a name is first read, when each read of it stands under a counter of steps; else 0."""
        first = 0
        stack: list[tuple[Any, bool]] = [(self.program.body(f), False)]
        while stack:
            block, counted = stack.pop()
            for s in block:
                for e in expressions_of(s):
                    for x in walk_expr(e):
                        if x[0] != "name" or x[2] != name or s is bound:
                            continue
                        if s[0] == "assign" and any(x is t for t in s[2]):
                            continue
                        if not counted:
                            return 0
                        first = min(first, x[1]) if first else x[1]
                for i, inner in enumerate(blocks_of(s)):
                    stack.append((inner, counted or (s[0] == "if" and i == 0 and self.steps.counts(s[2], f))))
        return first

    # ------------------------------------------------------------------------------------------------------- devices
    def uses_device(self, f: Function) -> bool:
        """Does the program of a function name an accelerator, in its module or in one that calls it?"""
        key = f.module.path
        if key not in self._devices:
            self._devices[key] = self.names_device(f.module)
        return self._devices[key] or any(
            self.names_device(g.module) for g, _ in self.program.callers(f)[:4] if f.name != "<module>"
        )

    def names_device(self, module: Module) -> bool:
        words = knowledge.graph("device_words")
        text = self.program.text(module.path) or ""
        if not any(word in text for word in words):
            return False
        code = (line for line in self.program.lines(module.path) if not line.lstrip().startswith("#"))
        return any(word in line for line in code for word in words)

    def is_complete(self, f: Function) -> bool:
        """Is the program that trains here in sight: module code, or a function that something calls?"""
        return f.name == "<module>" or bool(self.program.callers(f))


def is_epoch(unit: Unit) -> bool:
    """A loop that counts, with no loop around it: each turn may be a whole pass over the data (full-batch training)."""
    loop = unit.loop
    if loop is None or any(p[0] == "loop" and p[1] is not loop for p in unit.backward.path):
        return False
    if loop[0] == "while":
        return True
    return not any(x[0] in ("name", "attr") and "oader" in x[-1] for x in walk_expr(loop[3])) and any(
        x[0] == "name" and x[2] in ("range", "trange") for x in walk_expr(loop[3])
    )


def waited_for(call: Expr) -> Expr | None:
    """The value that a call brings to the host."""
    func = call[2]
    if func[0] == "attr" and func[3] in knowledge.graph("host_methods") and not call[3]:
        value: Expr = func[2]
        return value
    if (
        func[0] == "name"
        and "builtins." + func[2] in knowledge.graph("host_functions")
        and len(call[3]) == 1
        and call[3][0][0] in ("name", "attr")
    ):
        value = call[3][0]
        return value
    return None
