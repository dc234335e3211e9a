"""Data of one batch. What is read out of it (`batch["mask"].sum().item() == 0`) is a decision of one rank alone; its
shape is not: samplers and `drop_last` give every rank batches of one size.

A batch is ("batch", origin, number): what a loop over a loader gives, or `next()` of its iterator, and what is made of
it by indexing, methods and arithmetic; `number` once it has been reduced to one number (`.sum()`), so that comparing
it decides something.
"""

from __future__ import annotations

from ..program.model import dotted
from ..source.patterns import Later, of_names
from .ranks_values import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value

LOADER = Later(r"(?i)loader$|^loader")
COUNTS = frozenset(("range", "len"))
"""Calls that make numbers of a loader; all others (`enumerate`, `tqdm`, a generator) hand on its batches."""
READS = frozenset(("item", "any", "all", "equal"))
"""Methods that read a value; the shape (`size`, `numel`, `dim`, `len`) is not among them."""
NUMBERS = frozenset(("sum", "max", "min", "mean", "prod", "count_nonzero", "amax", "amin"))
SHAPES = frozenset(("size", "numel", "dim", "shape", "ndim", "device", "dtype", "is_cuda", "keys", "items",
                    "get_device", "type", "requires_grad"))  # fmt: skip
SAME = frozenset(("type", "get"))
"""Methods with arguments that give tensors all the same, though their names are those of shapes."""


def element(f: Frame, iterated: Expr, value: Value, pos: int) -> Value | None:
    """What a loop over `iterated` gives when that is a loader; None when it is not."""
    origin = (f.module.path, pos, "batch")
    batch: Value = ("batch", origin, False)
    if not gives_batches(f, iterated, value):
        return None
    if iterated[0] == "call" and iterated[2][0] == "name" and iterated[2][2] == "enumerate":
        return ("tuple", (("sym", ("v", f.module.path, pos, "number")), batch))
    return batch


def gives_batches(f: Frame, e: Expr, value: Value | None = None) -> bool:
    if value is not None and value[0] == "loader":
        return True
    if e[0] == "call":
        last = e[2][-1] if e[2][0] in ("name", "attr") else ""
        return last not in COUNTS and any(gives_batches(f, a) for a in e[3])
    return e[0] in ("name", "attr") and bool(LOADER.search(e[-1]))


def following(f: Frame, e: Expr) -> Value | None:
    """`next(it)` where `it = iter(loader)`."""
    name = dotted(e[3][0]) if e[3] else None
    if name is None:
        return None
    text: str = f.machine.suspects.text_of(f.function)
    if of_names(rf"(?i)\b{name.replace('.', r'[.]')}\s*=\s*iter\([^\n]*loader").search(text):
        return ("batch", (f.module.path, e[1], "batch"), False)
    return None


def attribute(base: Value, name: str) -> Value | None:
    """`batch.name`; None when it is no part of the data."""
    return None if name in SHAPES and name not in SAME else base


def called(f: Frame, base: Value, e: Expr) -> Value | None:
    """A method of a batch."""
    name = e[2][-1] if e[2][0] == "attr" else ""
    whole = not e[3] and not any(k == "dim" for k, _ in e[4])
    if name in READS and whole:
        return decision(f, base, e)
    if name in NUMBERS and whole:
        return ("batch", base[1], True)
    if name in SAME:
        return base if e[3] else None
    return None if name in SHAPES else ("batch", base[1], False)


def compared(f: Frame, a: Value, b: Value, e: Expr) -> Value | None:
    """A comparison or an operation with a batch in it."""
    one = a if a[0] == "batch" else b
    if e[0] == "cmp" and one[2]:
        return decision(f, one, e)
    return one if e[0] != "cmp" or e[2][0] not in ("is", "is not", "in", "not in") else None


def of_output(f: Frame, e: Expr) -> Value:
    """A number read from what a wrapped model gave for this rank's batch, in training: in evaluation every rank may
    well have been given the same data."""
    if "backward(" in f.machine.suspects.text_of(f.function):
        return ("batch", (f.module.path, e[1], "loss"), True)
    return UNKNOWN


def decision(f: Frame, base: Value, e: Expr) -> Value:
    return ("local", ("batch", f.module.path, e[1]), "batch", base[1])


def number(f: Frame, v: Value, e: Any) -> Value | None:
    """`int(batch.sum())`, `bool(mask.any())`."""
    return decision(f, v, e) if v[2] else None
