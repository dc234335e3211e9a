"""Wrapped models: what DDP, FSDP, DeepSpeed and accelerate turn into collectives."""

from __future__ import annotations

from .ranks_values import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...knowledge import Row
    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value


def wrap(f: Frame, row: Row, base: Value | None, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """`DDP(model)`, `accelerator.prepare(a, b)`: the wrapped form of what is given."""
    return UNKNOWN


def forward(f: Frame, model: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    return UNKNOWN


def method(f: Frame, model: Value, name: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    return UNKNOWN


def call_instance(f: Frame, instance: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    return UNKNOWN


def unknown_receiver(
    f: Frame, base: Value, name: str, args: list[Value], keywords: dict[str, Value], e: Expr
) -> Value:
    return UNKNOWN
