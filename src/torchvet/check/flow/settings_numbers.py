"""What number a setting can be: constants, numbers that grow with the CPUs of the machine, bounds, unknown."""

from __future__ import annotations

from ... import knowledge
from .settings_origins import CONFIG, DEFAULT, Frame, Origin, Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr

CONST, CPUS, AT_MOST, UNKNOWN = "const", "cpus", "at most", "unknown"
MOST = 16
ENVIRONMENT = ("os.environ.get", "os.getenv")
"""What stands second is used where the variable is not set."""
SHARED_OUT = 4
"""`cpu_count() // 8` shares the CPUs out among the ranks of a node; `cpu_count() // 2` does not."""


class Value:
    """One value that a setting can have, and the end of the way it came: `origin.frame.module` and `pos` place it."""

    __slots__ = ("kind", "origin", "pos", "value")

    def __init__(self, kind: str, value: Any, origin: Origin, pos: int) -> None:
        self.kind = kind
        self.value = value
        self.origin = origin
        self.pos = pos

    @property
    def via(self) -> str:
        return self.origin.via

    @property
    def is_number(self) -> bool:
        return self.kind == CONST and isinstance(self.value, (int, float)) and not isinstance(self.value, bool)

    @property
    def in_file(self) -> str:
        """`file:line` of the configuration file that sets it; "" for a value in the code."""
        return f"{self.origin.frame.module.path}:{self.pos >> 44}" if self.via == CONFIG else ""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.value!r} {self.origin!r}>"


class Numbers:
    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self._busy: set[Any] = set()

    def of(self, e: Expr, frame: Frame) -> list[Value]:
        """All values of an expression, with one UNKNOWN where some of them are not known."""
        key = (id(e), frame.key())
        if key in self._busy or len(self._busy) > 40:
            return []
        self._busy.add(key)
        try:
            out = [v for o in self.origins.of(e, frame) for v in self.end(o)]
        finally:
            self._busy.discard(key)
        if len(out) > MOST:
            return [Value(UNKNOWN, None, Origin(e, frame), e[1])]
        return out

    def end(self, o: Origin) -> list[Value]:
        e = o.e
        kind = e[0]
        if kind == "const":
            return [Value(CONST, e[2], o, e[1])]
        if kind == "unary" and e[2] in "-+":
            return [
                Value(CONST, -v.value if e[2] == "-" else v.value, o, e[1])
                if v.is_number
                else Value(UNKNOWN, None, o, e[1])
                for v in self.of(e[3], o.frame)
            ]
        if kind == "unary" and e[2] == "not":
            return [
                Value(CONST, not v.value, o, e[1]) if v.kind == CONST else Value(UNKNOWN, None, o, e[1])
                for v in self.of(e[3], o.frame)
            ]
        if kind == "bin":
            return [self.binary(e[2], a, b, o) for a in self.of(e[3], o.frame) for b in self.of(e[4], o.frame)][
                : MOST + 1
            ]
        if kind == "call":
            return self.call(e, o)
        return [Value(UNKNOWN, None, o, e[1])]

    def call(self, e: Expr, o: Origin) -> list[Value]:
        name = self.origins.program.qualified(e[2], self.origins.scope(o.frame)) or ""
        if name in knowledge.loader("cpu_counts"):
            return [Value(CPUS, None, o, e[1])]
        if name in ENVIRONMENT and len(e[3]) > 1:
            default = [v for v in self.of(e[3][1], o.frame) if v.kind == CONST]
            return [Value(CONST, v.value, Origin(v.origin.e, v.origin.frame, DEFAULT), v.pos) for v in default] or [
                Value(UNKNOWN, None, o, e[1])
            ]
        short = name.rpartition(".")[2]
        if name in knowledge.loader("rounding") and e[3]:
            return [self.rounded(v, o) for v in self.of(e[3][0], o.frame)]
        if short in ("min", "max") and name.startswith("builtins.") and not e[4]:
            arguments = e[3][0][2] if len(e[3]) == 1 and e[3][0][0] in ("list", "tuple") else e[3]
            return [self.extreme(short, [self.of(a, o.frame) for a in arguments], o)]
        return [Value(UNKNOWN, None, o, e[1])]

    def rounded(self, v: Value, o: Origin) -> Value:
        if v.is_number:
            return Value(CONST, int(v.value), v.origin, v.pos)
        if v.kind == CONST and isinstance(v.value, str) and v.value.strip().isdigit():
            return Value(CONST, int(v.value), v.origin, v.pos)
        return v

    def extreme(self, which: str, arguments: list[list[Value]], o: Origin) -> Value:
        bounds = [upper(values) for values in arguments]
        known = [b for b in bounds if b is not None]
        if which == "min":
            if known:
                if all(len(v) == 1 and v[0].kind == CONST for v in arguments):
                    return next(v[0] for v in arguments if v[0].value == min(known))
                return Value(AT_MOST, min(known), o, o.e[1])
            if arguments and all(v and all(x.kind == CPUS for x in v) for v in arguments):
                return arguments[0][0]
        else:
            for values in arguments:
                for v in values:
                    if v.kind == CPUS:
                        return v
            if known and len(known) == len(bounds):
                if all(len(v) == 1 and v[0].kind == CONST for v in arguments):
                    return next(v[0] for v in arguments if v[0].value == max(known))
                return Value(AT_MOST, max(known), o, o.e[1])
        return Value(UNKNOWN, None, o, o.e[1])

    def binary(self, op: str, a: Value, b: Value, o: Origin) -> Value:
        if a.is_number and b.is_number:
            number = arithmetic(op, a.value, b.value)
            if number is not None:
                return Value(
                    CONST, number, o if a.via == b.via == "" else a.origin, o.e[1] if a.via == b.via == "" else a.pos
                )
        elif a.kind == CPUS and b.is_number:
            if op in ("//", "/") and b.value >= SHARED_OUT:
                return Value(UNKNOWN, None, o, o.e[1])
            if op in ("//", "/", "*", "-", "+"):
                return a
        elif b.kind == CPUS and a.is_number and op in ("*", "+"):
            return b
        elif a.kind == AT_MOST and b.is_number:
            number = arithmetic(op, a.value, b.value)
            if number is not None and b.value > 0:
                return Value(AT_MOST, number, o, o.e[1])
        return Value(UNKNOWN, None, o, o.e[1])


def upper(values: list[Value]) -> float | None:
    """The largest that a list of possible values can be, or None."""
    out = []
    for v in values:
        if v.kind == AT_MOST or v.is_number:
            out.append(v.value)
        else:
            return None
    return max(out) if out else None


def arithmetic(op: str, a: Any, b: Any) -> Any:
    try:
        if op == "+":
            return a + b
        if op == "-":
            return a - b
        if op == "*":
            return a * b
        if op == "//":
            return a // b
        if op == "/":
            return a / b
        if op == "%":
            return a % b
        if op == "**" and abs(b) <= 16 and abs(a) <= 1024:
            return a**b
    except (ArithmeticError, TypeError, ValueError):
        pass
    return None
