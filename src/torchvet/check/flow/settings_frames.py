"""Where a value is looked up, and what is found at the end of the way (see `settings_origins`)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function, Module

DEFAULT, OPTION, FIELD, CONFIG = "default", "option", "field", "config"
"""A parameter default, a command-line option's default, a field of a configuration class, an entry of a configuration
file: replaceable values."""
REPLACEABLE = (DEFAULT, OPTION, FIELD, CONFIG)

UNKNOWN_NAME = "unknown"


class Frame:
    """Where an expression is evaluated: a function, and the call that entered it (None: from anywhere)."""

    __slots__ = ("call", "function", "outer")

    def __init__(self, function: Function, call: Expr | None = None, outer: Frame | None = None) -> None:
        self.function = function
        self.call = call
        self.outer = outer

    @property
    def module(self) -> Module:
        return self.function.module

    def key(self) -> tuple[int, ...]:
        out: list[int] = []
        at: Frame | None = self
        while at is not None:
            out += (id(at.function), id(at.call))
            at = at.outer
        return tuple(out)

    def depth(self) -> int:
        return 1 + (self.outer.depth() if self.outer else 0)


class Origin:
    """One end: an expression, where it stands, and what kind of replaceable value it is ("" for a plain one)."""

    __slots__ = ("e", "frame", "via")

    def __init__(self, e: Expr, frame: Frame, via: str = "") -> None:
        self.e = e
        self.frame = frame
        self.via = via

    @property
    def known(self) -> bool:
        return bool(self.e[0] != UNKNOWN_NAME)

    def key(self) -> tuple[str, int, str]:
        return (self.frame.module.path, self.e[1], self.e[0])

    def __repr__(self) -> str:
        return f"<{self.e[0]} at {self.frame.module.path}:{self.e[1] >> 44} {self.via}>"


def unknown(e: Expr | None, frame: Frame) -> Origin:
    return Origin((UNKNOWN_NAME, e[1] if e else frame.function.pos), frame)


def relabel(o: Origin, via: str, place: Expr | None = None) -> Origin:
    """The same end reached through something that can be replaced; an inner label stays."""
    return o if o.via or not o.known else Origin(o.e, o.frame, via)
