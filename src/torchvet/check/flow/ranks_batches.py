"""Data of one batch. What is read out of it (`batch["mask"].sum().item() == 0`) is a decision of one rank alone; its
shape is not: samplers and `drop_last` give every rank batches of one size.

A batch is ("batch", origin, number): what a loop over a loader gives, or `next()` of its iterator, and what is made of
it by indexing, methods and arithmetic; `number` once it has been reduced to one number (`.sum()`), so that comparing
it decides something. The last part of the origin is "batch", or "shard" where the loader is known to give each rank
other data: then what a model makes of it in evaluation is this rank's own as well. `collate_fn` may give None for a
batch: then the test for it decides, too.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import dotted
from ..source.patterns import Later, of_names
from . import ranks_seeds
from .ranks_values import FALSE, NONE, UNKNOWN, is_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr, Function
    from .ranks_frames import Frame
    from .ranks_machine import Machine
    from .ranks_names import Names
    from .ranks_values import Value

OWN = ("shard", "loss", ranks_seeds.SEED)
PREPARED = "prepared"
"""The class of a model (or loader) wrapped by a framework that chooses the wrapper when it runs."""
SAID = ("shard", ranks_seeds.SEED)
"""Origins that say for themselves why the data are this rank's own."""
MISSING = "missing"
"""In place of `number`: there may be no batch at all."""
NUMBER_OF = Later(r"(?i)loss|crit|acc|score|err|^average$|^mean$")
MODELS = Later(r"(?i)model|net|forward|softmax|sigmoid|pred|decode")
LOADER = Later(r"(?i)loader$|^loader")
COUNTS = frozenset(("range", "len"))
"""Calls that make numbers of a loader; all others (`enumerate`, `tqdm`, a generator) hand on its batches."""
READS = frozenset(("item", "any", "all", "equal"))
"""Methods that read a value; the shape (`size`, `numel`, `dim`, `len`) is not among them."""
NUMBERS = frozenset(("sum", "max", "min", "mean", "prod", "count_nonzero", "amax", "amin", "norm", "std"))
SHAPES = frozenset(("size", "numel", "dim", "shape", "ndim", "device", "dtype", "is_cuda", "get_device", "type",
                    "requires_grad"))  # fmt: skip
TABLE = frozenset(("items", "values", "keys", "get", "pop"))
"""Methods of a batch that is a dictionary."""
SAME = frozenset(("type", "get"))
"""Methods with arguments that give tensors all the same, though their names are those of shapes."""


def loader(args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """("loader", dataset, sampler, batch sampler, collate function, shuffle); None where it is not given."""
    absent = UNKNOWN if any(k is None for k, _ in e[4]) else NONE
    rows = (("dataset", 0), ("sampler", 3), ("batch_sampler", 4), ("collate_fn", 6), ("shuffle", 2))
    return ("loader", *[keywords.get(k, args[i] if i < len(args) else absent) for k, i in rows])


def divided(args: list[Value]) -> Value:
    """A loader that a framework has given a sampler by which each rank reads its own share."""
    given = args[0] if args and args[0][0] == "loader" else ("loader", UNKNOWN, NONE, NONE, NONE, NONE)
    sampler = ("extinst", min(knowledge.names("sampler")), None)
    return (*given[:2], sampler, *given[3:])


def element(f: Frame, iterated: Expr, value: Value, pos: int) -> Value | None:
    """What a loop over `iterated` gives when that is a loader or a batch; None when it is neither."""
    if value[0] == "batch":
        return parted(iterated, value, pos, f)
    if not gives_batches(f, iterated, value):
        return None
    of = loader_of(f, iterated, value)
    if of[0] == "loader" and of[2:4] == (NONE, NONE) and of[5] in (NONE, FALSE):
        return None  # every rank reads the same batches in the same order
    origin = (f.module.path, pos, "shard" if is_shared(of) else "batch")
    without = lacking(f, of)
    batch: Value = ("batch", origin, MISSING if None in without else False)
    if without - {None}:
        batch = (*batch, without - {None})
    if iterated[0] == "call" and iterated[2][0] == "name" and iterated[2][2] == "enumerate":
        return ("tuple", (("sym", ("v", f.module.path, pos, "number")), batch))
    return batch


def of_hook(names: Names, function: Function, p: Any) -> Value | None:
    """The batch that a framework hands to a step of training: it gives each rank its share of the data."""
    if function.name != HOOK or not function.is_method or p is not function.params[min(1, len(function.params) - 1)]:
        return None
    bases = names.program.bases(function.owner)[1] if function.owner is not None else ()
    if not any(b.endswith(HOOKED) for b in bases):
        return None
    return ("batch", (function.module.path, function.pos, "shard"), False)


HOOK, HOOKED = "training_step", ".LightningModule"


def loader_of(f: Frame, e: Expr, value: Value) -> Value:
    """The loader in `enumerate(tqdm(loader))`."""
    while value[0] != "loader" and e[0] == "call" and e[3]:
        e = e[3][0]
        value = f.eval(e) if e[0] in ("name", "attr") else UNKNOWN
    return value


def is_shared(v: Value) -> bool:
    """Whether a loader is known to give each rank other data."""
    kind = v[0]
    if kind == "loader":
        return any(is_shared(x) for x in v[2:4])
    if kind == "extinst":
        return str(v[1]) in knowledge.names("sampler")
    if kind == "op" and v[1] == "sel":
        return is_shared(v[3]) or is_shared(v[4])
    return bool(kind == "wrapped" and v[1] == PREPARED)


def parted(iterated: Expr, value: Value, pos: int, f: Frame) -> Value:
    """The parts of a batch one by one: `for t in batch`, `for k, v in batch.items()`."""
    part = present(value)
    if iterated[0] == "call" and iterated[2][-1] == "items":
        return ("tuple", (("sym", ("v", f.module.path, pos, "key")), part))
    return ("sym", ("v", f.module.path, pos, "key")) if iterated[0] == "call" and iterated[2][-1] == "keys" else part


def lacking(f: Frame, of: Value) -> frozenset[Any]:
    """What a loader's collate function leaves out for some batches and gives for others: the keys of parts, or None for
    the whole batch."""
    collate = of[4] if of[0] == "loader" else UNKNOWN
    function = collate[1] if collate[0] == "func" else None
    if collate[0] == "inst":
        function = f.machine.program.method(collate[1], "__call__")
    if collate[0] == "closure":
        function = f.machine.made_as(collate)
    if function is None:
        return frozenset()
    key = id(function)
    if key not in f.machine.lacking:
        f.machine.lacking[key] = left_out(f.machine, function)
    return f.machine.lacking[key]


def left_out(machine: Machine, function: Any) -> frozenset[Any]:
    """What a collate function gives for some batches only: keys, and None for the whole."""
    out: set[Any] = set()
    given: list[Any] = [function[3]] if isinstance(function, tuple) else []
    statements = [] if given else machine.program.statements(function)
    given = given or [s[2] for s in statements if s[0] == "return"]
    given += [x for e in given if e and e[0] == "ifexp" for x in e[3:5]]
    if 0 < sum(nothing(e) for e in given) < len(given):
        out.add(None)
    names = {e[2] for e in given if e and e[0] == "name"}
    shown = [e for e in given if e] + [
        s[3] for s in statements if s[0] == "assign" and any(t[0] == "name" and t[2] in names for t in s[2])
    ]
    for e in shown:
        for k, v in zip(e[2], e[3]) if e[0] == "dict" else ():
            if k is not None and k[0] == "const" and sometimes(v):
                out.add(k[2])  # `{"image": torch.stack(images) if images else None}`
    for s in statements:
        for t in s[2] if s[0] == "assign" and sometimes(s[3]) else ():
            if t[0] == "sub" and t[2][0] == "name" and t[2][2] in names and t[3][0] == "const":
                out.add(t[3][2])
    return frozenset(out)


def nothing(e: Any) -> bool:
    return not e or (e[0] == "const" and e[2] is None)


def sometimes(e: Any) -> bool:
    """`x if some else None`"""
    return bool(e[0] == "ifexp" and nothing(e[3]) is not nothing(e[4]))


def present(v: Value) -> Value:
    """A part of a batch: it is there when the batch is."""
    return (*v[:2], False) if v[0] == "batch" and (v[2] is MISSING or len(v) > 3) else v


def indexed(v: Value, index: Value) -> Value:
    """`batch["image"]`"""
    if len(v) > 3 and index[0] == "const" and index[1] in v[3]:
        return (*v[:2], MISSING)
    return present(v)


def asked(f: Frame, v: Value, e: Expr) -> Value:
    """`if batch:`, `if done:`"""
    return (
        decision(f, v, e) if v[0] == "batch" and (v[2] is MISSING or (v[2] is True and ranks_seeds.is_seeded(v))) else v
    )


def own(v: Value) -> bool:
    """What is known to be this rank's own: read from its share of the data, or from its loss in training."""
    return v[0] == "batch" and v[1][2] in OWN


def of_this_rank(v: Value) -> bool:
    """This rank's own data, or a decision on it."""
    return own(v) or is_local(v)


def table(v: Value) -> bool:
    """A dictionary with data of this rank alone in it."""
    return v[0] == "dict" and any(of_this_rank(x) for _, x in v[1])


def agreed(f: Frame, e: Expr) -> None:
    """A function that communicates is handed tables of this rank's numbers: it may reduce what is in them."""
    for a in (*e[3], *[x for _, x in e[4]]) if e[0] == "call" else ():
        if a[0] == "name" and table(f.env.get(a[2], UNKNOWN)):
            f.env[a[2]] = f.sym(e[1], a[2])


def put_into(f: Frame, v: Value, e: Expr) -> None:
    """`losses.append(loss.item())`: the list holds numbers of this rank alone; `logps.append(logp)`: what a backward
    runs through."""
    held = v if v[0] == "graph" else collected(v)
    name = dotted(e[2][2]) if held is not None else None
    if name is not None and held is not None:
        f.put(name, held)


def collected(v: Value) -> Value | None:
    """Several of this rank's own values together; None when they are not known to be its own."""
    if v[0] == "local" and v[3] is not None and v[3][2] in OWN:
        return ("batch", v[3], False)
    return (*v[:2], False) if own(v) else None


def passed(name: str, external: str, v: Value, alone: bool) -> Value:
    """What a function that is not followed makes of this rank's own data; `alone`: of nothing else."""
    if NUMBER_OF.search(name) or (name in NUMBERS and alone):
        return ("batch", v[1], True)
    if name in ("float", "int"):
        return ("batch", v[1], True)
    if external.startswith(("torch.", "numpy.")) or MODELS.search(name):
        return ("batch", v[1], False)
    return UNKNOWN


def gives_batches(f: Frame, e: Expr, value: Value | None = None) -> bool:
    if value is not None and (value[0] == "loader" or (value[0] == "wrapped" and value[1] == PREPARED)):
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
    if name in TABLE:
        return base if len(base) > 3 else present(base)
    return None if name in SHAPES and name not in SAME else present(base)


def called(f: Frame, base: Value, e: Expr) -> Value | None:
    """A method of a batch."""
    name = e[2][-1] if e[2][0] == "attr" else ""
    if ranks_seeds.is_generator(base):
        return ranks_seeds.called(base, name)
    whole = not e[3] and not any(k == "dim" for k, _ in e[4])
    if name in READS and whole:
        return decision(f, base, e)
    if name in NUMBERS and whole:
        return ("batch", base[1], True)
    if name in SAME:
        return indexed(base, ("const", e[3][0][2]) if e[3][0][0] == "const" else UNKNOWN) if e[3] else None
    if name in TABLE and not e[3]:
        return base
    if name == "pop" and e[3] and e[3][0][0] == "const":
        return indexed(base, ("const", e[3][0][2]))
    return None if name in SHAPES else ("batch", base[1], False)


def compared(f: Frame, a: Value, b: Value, e: Expr) -> Value | None:
    """A comparison or an operation with a batch in it."""
    one = a if a[0] == "batch" else b
    if e[0] == "cmp" and e[2][0] in ("in", "not in") and len(one) > 3 and a[0] == "const" and a[1] in one[3]:
        return decision(f, one, e)
    if ranks_seeds.is_generator(one):
        return None
    if e[0] == "cmp" and one[2]:
        return decision(f, one, e)
    return one if e[0] != "cmp" or e[2][0] not in ("is", "is not", "in", "not in") else None


def of_output(f: Frame, e: Expr, graph: Value) -> Value:
    """A number read from what a wrapped model gave for this rank's batch, in training: in evaluation every rank may
    well have been given the same data, unless the loader is known to share it."""
    if len(graph) > 2:
        return ("batch", graph[2], True)
    if "backward(" in f.machine.suspects.text_of(f.function):
        return ("batch", (f.module.path, e[1], "loss"), True)
    return UNKNOWN


def decision(f: Frame, base: Value, e: Expr) -> Value:
    return ("local", ("batch", f.module.path, e[1]), base[1][2] if base[1][2] in SAID else "batch", base[1])


def number(f: Frame, v: Value, e: Any) -> Value | None:
    """`int(batch.sum())`, `bool(mask.any())`."""
    return decision(f, v, e) if v[2] and not ranks_seeds.is_generator(v) else None
