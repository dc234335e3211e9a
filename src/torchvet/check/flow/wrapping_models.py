"""What an abstract run follows: models, the objects that hold them, and what happens to them (see `wrapping`)."""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, walk_expr
from .settings_reach import contains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Class, Expr, Function
    from .wrapping_calls import KnownCalls

    Path = tuple[tuple[str, bool, Expr | None], ...]
    Values = tuple[Any, ...]

PLACED, WRAPPED, OPTIMIZER, CONVERTED, LOADED = "placed", "wrapped", "optimizer", "converted", "loaded"
CLIPPED, FORWARD, BYPASSED, ESCAPED = "clipped", "forward", "bypassed", "escaped"
REQUIRED, REPLACED = "requires_grad set", "part replaced"

ALTERNATIVES = 6


class Model:
    """One module as far as the program can tell them apart. `known`: made where we can see it, on the CPU.
    `inner` is the wrapped module, `parent` the module it is an attribute of."""

    __slots__ = (
        "cls",
        "inner",
        "known",
        "members",
        "parent",
        "path",
        "placed_when_made",
        "raw_of",
        "sharded",
        "unseen",
    )

    def __init__(self, known: bool = False, placed: bool = False, cls: Class | None = None, path: Path = ()) -> None:
        self.known = known
        self.placed_when_made = placed
        self.cls = cls
        self.inner: Model | None = None
        self.parent: Model | None = None
        self.raw_of: Model | None = None
        self.path = path
        self.unseen = False
        self.sharded = False
        self.members: dict[str, Model] = {}


class Instance:
    """An object of a project class that is no module: a trainer with its attributes."""

    __slots__ = ("attributes", "cls", "seen")

    def __init__(self, cls: Class, seen: bool) -> None:
        self.cls = cls
        self.seen = seen
        self.attributes: dict[str, Values] = {}


class Parameters:
    """`model.parameters()` and what is selected from it."""

    __slots__ = ("models",)

    def __init__(self, models: tuple[Model, ...]) -> None:
        self.models = models


class Several:
    """A tuple or list of values."""

    __slots__ = ("items",)

    def __init__(self, items: list[Values]) -> None:
        self.items = items


class Event:
    __slots__ = ("_device", "call", "calls", "family", "function", "kind", "model", "order", "path", "result", "trace")

    def __init__(self, kind: str, model: Model, call: Expr, function: Function, path: Path, order: int) -> None:
        self.kind = kind
        self.model = model
        self.call = call
        self.function = function
        self.path = path
        self.order = order
        self.calls: tuple[tuple[Function, Expr], ...] = ()
        self._device: str | None = None
        self.trace: KnownCalls | None = None
        self.family = ""
        self.result: Model | None = None

    @property
    def pos(self) -> int:
        return self.call[1]  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        """Of a move: "gpu", "cpu", "device" (somewhere), "maybe", or "" when the call changes only the type."""
        if self._device is None:
            self._device = self.trace.placement(self.call, self.call[2][3], self.function) if self.trace else ""
        return self._device

    @property
    def key(self) -> tuple[str, int]:
        return (self.function.module.path, self.pos)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.device or self.family} at {self.function.module.path}:{self.pos >> 44}>"


def elements(values: Values) -> Values:
    """What a loop over these values binds: the items of tuples and lists."""
    return distinct([x for v in values if isinstance(v, Several) for item in v.items for x in item])


def followed(m: Model) -> bool:
    """A value that is known to be a model."""
    return m.known or m.placed_when_made or m.cls is not None or m.inner is not None or m.raw_of is not None


def models_in(values: Any) -> list[Model]:
    out: list[Model] = []
    for v in values or ():
        if isinstance(v, Model):
            out.append(v)
        elif isinstance(v, Several):
            out += [m for x in v.items for m in models_in(x)]
    return out


def parameters_in(values: Any) -> list[Model]:
    out: list[Model] = []
    for v in values or ():
        if isinstance(v, Parameters):
            out += v.models
        elif isinstance(v, Several):
            out += [m for x in v.items for m in parameters_in(x)]
    return out


def has_placement(e: Expr) -> bool:
    return any(
        x[0] == "call" and x[2][0] == "attr" and x[2][3] in knowledge.loader("placement_methods") for x in walk_expr(e)
    )


def distinct(values: list[Any] | Values) -> Values:
    if len(values) < 2:
        return tuple(values)
    return tuple({id(v): v for v in values}.values())[:ALTERNATIVES]


def condition(test: Expr) -> tuple[str, bool]:
    """A text for the test and the truth of it under which the branch runs: `not x` is `x` with the other truth."""
    truth = True
    while test[0] == "unary" and test[2] == "not":
        test, truth = test[3], not truth
    if test[0] == "cmp" and len(test[2]) == 1 and test[2][0] in ("!=", "is not", "not in"):
        flipped = {"!=": "==", "is not": "is", "not in": "in"}[test[2][0]]
        test, truth = ("cmp", test[1], (flipped,), test[3]), not truth
    return shape(test), truth


def refine(test: Expr, env: dict[str, Values]) -> tuple[dict[str, Values], dict[str, Values]]:
    """The names where `isinstance(model, DDP)` or `hasattr(model, "module")` is true, and where it is not."""
    then, other = dict(env), dict(env)
    positive = True
    while test[0] == "unary" and test[2] == "not":
        test, positive = test[3], not positive
    if test[0] == "call" and test[2][0] == "name" and test[2][2] in ("isinstance", "hasattr") and len(test[3]) == 2:
        subject, what = test[3]
        by_class = test[2][2] == "isinstance"
        if subject[0] == "name" and (by_class or what[-1] == "module"):
            values = env.get(subject[2], ())
            wrapped = tuple(v for v in values if isinstance(v, Model) and v.inner is not None)
            if wrapped:
                (then if positive else other)[subject[2]] = wrapped
                (other if positive else then)[subject[2]] = tuple(v for v in values if v not in wrapped)
    return then, other


def shape(e: Any) -> str:
    """The expression as text without positions."""
    if not isinstance(e, tuple):
        return repr(e)
    if len(e) > 1 and isinstance(e[0], str) and isinstance(e[1], int) and e[1] > 1 << 40:
        return "(" + " ".join([e[0], *(shape(x) for x in e[2:])]) + ")"
    return "(" + " ".join(shape(x) for x in e) + ")"


def conditions_at(block: Block, pos: int) -> Path:
    """The tests of the `if` statements around a position and their truth there."""
    for s in block:
        if not contains(s[1], pos) or s[0] in ("def", "class"):
            continue
        own: Path = ()
        if s[0] == "if":
            text, truth = condition(s[2])
            inside = any(contains(x[1], pos) for x in s[3])
            own = ((text, truth if inside else not truth, s[2]),)
        for inner in blocks_of(s):
            if any(contains(x[1], pos) for x in inner):
                return own + conditions_at(inner, pos)
        return ()
    return ()


def apart(a: Path, b: Path) -> bool:
    """Do two paths exclude each other: the same test once true, once false?"""
    truths = {text: truth for text, truth, _ in a}
    return any(text in truths and truths[text] != truth for text, truth, _ in b)
