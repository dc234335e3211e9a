"""Where each training step waits for the accelerator only to bring a number to the host."""

from __future__ import annotations

from ..program.model import line_of, walk_expr
from .steps import is_counter
from .steps_values import Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function, Module
    from .steps import Site, Steps, Unit

WAITING = frozenset(("item", "tolist", "cpu", "numpy"))
"""Methods that bring a value to the host."""
CONVERTING = frozenset(("float", "int"))
DEVICES = ("cuda", "xpu", "npu", "mps", "accelerat", "fabric", "gpu", "GPU", "deepspeed")
"""Words of a program that may run on an accelerator."""


class Wait:
    """A place where a step waits. `use`: "logged" (the value is read every n steps only), "printed", "summed" or "other";
    `others`: further places of the same step."""

    __slots__ = ("function", "module", "name", "others", "pos", "read_at", "use")

    def __init__(self, function: Function, pos: int, name: str, use: str, read_at: int) -> None:
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.name = name
        self.use = use
        self.read_at = read_at
        self.others: list[tuple[Module, int]] = []


class Waits:
    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.program = steps.program
        self._devices: dict[str, bool] = {}

    def found(self) -> Iterator[Wait]:
        """At most one per step: the first place."""
        for f in self.steps.functions("backward"):
            if "item" in f.words or f.name == "<module>" or f.parent is not None:
                for unit in self.steps.units(f):
                    first = self.first_of(unit)
                    if first is not None:
                        yield first

    def first_of(self, unit: Unit) -> Wait | None:
        found = sorted(self.in_unit(unit), key=lambda w: w.pos)
        if not found:
            return None
        first = found[0]
        first.others = [(w.module, w.pos) for w in found[1:] if line_of(w.pos) != line_of(first.pos)][:4]
        return first

    def in_unit(self, unit: Unit) -> Iterator[Wait]:
        f = unit.function
        origins = Origins(self.program, f)
        back = unit.backward.call
        loss = origins.forwards(("tuple", back[1], (back[2][2], *back[3])))
        if not loss:
            return
        for site in self.steps.sites(f):
            if site.loop is not unit.loop or not self.steps.every_step(site, unit.loop):
                continue
            value = waited_for(site.call)
            if value is None or not origins.forwards(value, cut=False) & loss:
                continue
            use, read_at = self.use_of(site, unit)
            yield Wait(f, site.call[1], "", use, read_at)

    def use_of(self, site: Site, unit: Unit) -> tuple[str, int]:
        s = site.statement
        if site.call[2][0] == "name" and site.call[2][2] == "print":
            return "printed", 0
        if s[0] == "expr" and s[2][0] == "call" and s[2][2][0] == "name" and s[2][2][2] == "print":
            return "printed", 0
        if s[0] == "assign" and len(s[2]) == 1 and s[2][0][0] == "name":
            return self.reads(s[2][0][2], site, unit)
        if s[0] == "aug":
            return "summed", 0
        return "other", 0

    def reads(self, name: str, site: Site, unit: Unit) -> tuple[str, int]:
        """How a name that is bound every step is read: "logged" when each read stands under a counter of steps."""
        first = 0
        for e, free in self.uses(unit.function, name):
            if free:
                return "other", 0
            first = first or e[1]
        return ("logged", first) if first else ("other", 0)

    def uses(self, f: Function, name: str) -> Iterator[tuple[Expr, bool]]:
        """Reads of a name, and whether each is free of a counter of steps."""
        from ..program.model import blocks_of, expressions_of

        stack = [(self.program.body(f), False)]
        while stack:
            block, counted = stack.pop()
            for s in block:
                for e in expressions_of(s):
                    for x in walk_expr(e):
                        if x[0] == "name" and x[2] == name and not (s[0] == "assign" and any(x is t for t in s[2])):
                            yield x, not counted
                inner = blocks_of(s)
                if s[0] == "if":
                    stack.append((inner[0], counted or is_counter(s[2])))
                    stack.append((inner[1], counted))
                else:
                    stack.extend((b, counted) for b in inner)


def waited_for(call: Expr) -> Expr | None:
    """The value that a call brings to the host."""
    func = call[2]
    if func[0] == "attr" and func[3] in WAITING and not call[3]:
        value: Expr = func[2]
        return value
    if func[0] == "name" and func[2] in CONVERTING and len(call[3]) == 1:
        value = call[3][0]
        return value if value[0] in ("name", "attr") else None
    return None
