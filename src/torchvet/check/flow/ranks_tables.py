"""What the tables know about a call or an attribute: a collective, a rank, a group, data of this rank alone."""

from __future__ import annotations

from ... import knowledge
from ..program.model import dotted, walk_expr
from . import ranks_agreement, ranks_expressions, ranks_loops
from .ranks_values import (
    NONE,
    REDUCED,
    TRUE,
    UNKNOWN,
    const,
    is_local,
    leaves,
    op,
    truth,
    varies,
)
from .traces import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value

COLLECTIVE_KINDS = frozenset(("collective", "method_collective", "group_create", "init"))
VALUE_KINDS = frozenset(
    (
        "rank_source",
        "local_rank_source",
        "rank_predicate",
        "uniform_source",
        "group_source",
        "rank_local_data_source",
        "share_source",
        "split_source",
    )
)
SHARDING = ("deepspeed", "fsdp", "fully_sharded", "ddp_sharded", "colossalai")
NUMBER_TESTS = frozenset(("isnan", "isinf", "isfinite"))


def number_test(f: Frame, v: Value, e: Expr) -> Value:
    """`torch.isnan(loss)`: a decision on this rank's own numbers, unless they were reduced before."""
    if v == REDUCED or v[0] == "const":
        return v if v == REDUCED else UNKNOWN
    if is_local(v):
        return v
    written = e[3][0] if e[3] else e[2][2] if e[2][0] == "attr" else None
    if written is not None and any("grad" in str(x[-1]) for x in walk_expr(written) if x[0] in ("name", "attr")):
        return UNKNOWN  # gradients are reduced by the time they can be tested
    return ("local", ("test", f.module.path, e[1]), "number", f.machine.origin(f, e, "number"))


def environment(f: Frame, name: Any, e: Expr) -> Value:
    row = knowledge.environment(name) if isinstance(name, str) else None
    if row is None:
        return ("sym", ("env", name))
    if row.kind in ("rank_source", "local_rank_source"):
        axis = "local" if "LOCAL" in name else "node" if "NODE" in name or name.startswith("GROUP") else "world"
        return ("rank", axis, True, f.machine.origin(f, e, name))
    if row.kind == "uniform_source" and name.endswith("WORLD_SIZE"):
        return ("size", "local" if name.startswith("LOCAL") else "world")
    return ("sym", ("env", name))


# ------------------------------------------------------------------------------------------------ table rows
def value_of_row(f: Frame, row: Row, e: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
    """What a call or an attribute of the tables gives."""
    kind = row.kind
    last = row.last
    if kind in ("rank_source", "local_rank_source"):
        axis = ranks_expressions.axis_of(last)
        if row.group_arg and row.group_arg != "(world)":
            group = group_of(f, row, args, keywords, e)
            if group != "world":
                axis = ("group", group)
        if last == "get_local_rank" and row.family == "device_mesh":
            axis = ("group", ("mesh", dotted(e[2]) if e[0] == "call" else None))
        leaf: Value = ("rank", axis, True, f.machine.origin(f, e, last))
        if row.result and row.result.startswith("tuple("):
            parts = row.result[6:-1].split(",")
            varying = parts.count("varying")
            out: list[Value] = []
            for p in parts:
                if p != "varying":
                    out.append(("size", "world"))
                elif varying == 2 and not out:
                    out.append(("rank", "local", True, f.machine.origin(f, e, last)))
                else:
                    out.append(("rank", "world", True, f.machine.origin(f, e, last)))
            return ("tuple", tuple(out))
        return leaf
    if kind == "rank_predicate":
        if "_in_" in last:
            return UNKNOWN  # membership of a group
        if "stage" in last or "pipeline" in last:
            return op("==", ("rank", "pp", True, f.machine.origin(f, e, last)), const(0))
        return ranks_expressions.predicate(f, last, e, not row.inferred)
    if kind == "uniform_source":
        if last.startswith("is_"):
            return TRUE  # what is checked is a distributed run
        if last in ("size", "num_processes", "process_count") or (
            last.endswith("world_size") and "parallel" not in last
        ):
            if "local" in last:
                return ("size", "local")
            group = group_of(f, row, args, keywords, e) if row.group_arg or args else "world"
            return ("size", "world") if group == "world" else ("sym", ("size", group))
        return ("sym", ("of", row.name))
    if kind == "group_source":
        if row.family == "device_mesh":
            return ("group", ("mesh", dotted(e[2]) if e[0] == "call" else None))
        return ("group", ranks_expressions.axis_of(last.removesuffix("_gloo").removesuffix("_group")))
    if kind == "split_source":
        return ("sym", ("split", f.module.path, e[1]))
    if kind == "share_source":
        return ranks_loops.given_share(f, [*args, *keywords.values()], e)
    if last in NUMBER_TESTS and args:
        return number_test(f, args[0], e)
    if row.name.startswith("time."):
        return ("local", ("clock", f.module.path, e[1]), "clock", f.machine.origin(f, e, "clock"))
    return UNKNOWN


def group_of(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> Any:
    """The key of the process group that a call runs on: "world", an axis, ("ranks", ...), ("mesh", ...); what is not
    known is
    told apart by the expression that names it."""
    if row.family == "dtensor":
        return "mesh"
    if row.group_arg is None and row.family == "c10d":
        v = keywords.get("group", args[0] if args and row.kind == "uniform_source" else NONE)
    elif row.group_arg is None or row.group_arg == "(world)":
        return "world"
    else:
        v = keywords.get(row.group_arg, NONE)
        if v == NONE and isinstance(row.group_pos, int) and row.group_pos < len(args):
            v = args[row.group_pos]
    if v == NONE and row.family == "megatron":
        return "tp" if "tensor" in row.last else ("unknown", f.module.path, e[1])  # its own groups, not the world
    known = group_key(v)
    if known is not None or e[0] != "call":
        return known if known is not None else ("unknown", v)
    name = row.group_arg or "group"
    written = next((x for k, x in e[4] if k == name), None)
    if written is None and isinstance(row.group_pos, int) and row.group_pos < len(e[3]):
        written = e[3][row.group_pos]
    whole = dotted(written) if written is not None else None
    if v[0] == "sym" and v[1] is not None and (whole is not None or v[1][0] == "global"):
        return ("named", v[1])
    if whole is None:
        return ("unknown", f.module.path, e[1])
    owner = (
        f.function.owner.qualname if f.function.owner is not None and whole.startswith("self.") else f.function.qualname
    )
    return ("named", f.module.path, owner, whole)


def group_key(v: Value) -> Any:
    if v == NONE:
        return "world"
    if v[0] == "group":
        return v[1]
    if v[0] == "ext" and v[1].endswith((".WORLD", ".group.WORLD")):
        return "world"
    if v[0] == "op" and v[1] == "sel":
        a, b = group_key(v[3]), group_key(v[4])
        return a if a == b else None
    return None


FILLED = ("tensor", "object_list", "tensor_list", "output_tensor", "output")
"""Parameters that a collective fills."""
IN_PLACE = frozenset(("c10d", "deepspeed", "functional", "composer", "mmengine", "horovod"))
"""Families whose collectives leave the result in their first argument."""


def collective(
    f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr, sure: bool, base: Value | None
) -> Value:
    """A collective call: an item, and what it makes uniform."""
    if "grad_norm" in row.last and row.blocking == "maybe":
        return REDUCED
    if row.last.endswith("Store") or row.blocking == "maybe":
        return UNKNOWN
    if row.since and f.machine.releases.before(row.family, row.since, f.module.path) and not names_sharding(f):
        return UNKNOWN  # it became a collective later
    switched = switched_off(row, args, keywords, base)
    if switched is None or (not switched and row.inferred):
        return UNKNOWN
    group = "world" if row.kind in ("group_create", "init") else group_of(f, row, args, keywords, e)
    if row.kind == "init" and "world_size" in keywords:
        group = ("init", f.module.path, e[1])  # who takes part is said by its arguments
    name = row.last
    check_source(f, name, group, args, keywords, e)
    made_of = args[0] if args else keywords.get("ranks", NONE)
    alone = made_of[0] == "list" and len(made_of[1]) == 1  # a group of this rank has nobody to meet
    if row.kind == "group_create" and name == "new_group" and varies(made_of) and not alone:
        return group_of_own(f, row, made_of, e, sure and switched)
    root = root_of(row, args, keywords)
    f.items.append(("op", Op(name, name, group, f.module, e[1], row, sure and switched, row.family, root=root)))
    if row.kind == "group_create":
        if f.breaks:
            f.machine.in_turn.add((f.module.path, e[1]))
        return made_group(f, row, args, keywords, e)
    if row.result == "dst_only" and row.last == "reduce" and row.family in IN_PLACE and e[3]:
        target = dotted(e[3][0])
        if target is not None:
            origin = f.machine.origin(f, e, "reduced")
            f.assign(e[3][0], ("local", ("reduced", f.module.path, e[1]), "reduced", origin), e[1])
    if row.result != "uniform":
        return UNKNOWN
    written = e[3][0] if e[3] else next((x for k, x in e[4] if k in FILLED), None)
    written = ranks_agreement.tensor_of(written) if written is not None else None
    whole = dotted(written) if written is not None and written[0] != "star" else None
    if name.startswith("broadcast"):
        first = args[0] if args else next((keywords[k] for k in FILLED if k in keywords), UNKNOWN)
        shared = ranks_agreement.received(first) if ranks_agreement.receives(f) else from_leader(first)
        if written is not None and whole and row.group_arg != "(world)":
            f.assign(written, shared, e[1])
        return shared
    if row.kind == "collective" and written is not None and whole is not None and row.family in IN_PLACE:
        f.assign(written, REDUCED, e[1])
    return REDUCED


def names_sharding(f: Frame) -> bool:
    """Whether the file speaks of a strategy that shards parameters: what saves them has always needed every rank."""
    text = (f.machine.program.text(f.module.path) or "").lower()
    return any(word in text for word in SHARDING)


def group_of_own(f: Frame, row: Row, ranks: Value, e: Expr, sure: bool) -> Value:
    """`new_group` with another list on each rank: as many groups as there are lists, each waiting for all ranks."""
    leaf = next(iter(leaves(ranks)))
    test = op("==", leaf, const(0)) if leaf[0] == "rank" else leaf
    mine, theirs = (
        Op(row.last, f"{row.last}:{n}", "world", f.module, e[1], row, sure, row.family) for n in ("mine", "theirs")
    )
    f.items.append(("if", test, (("op", mine),), (("op", theirs),), e[1], e[1]))
    return ("group", ("made", f.module.path, e[1]))


def root_of(row: Row, args: list[Value], keywords: dict[str, Value]) -> Value:
    """The rank that gives or gets: a number, or an expression over the own rank; `UNKNOWN` for all else, also for what
    only a name says (`def share(x, rank): broadcast(x, src=rank)`: the one that is given may be the source)."""
    if row.root is None:
        return UNKNOWN
    name, _, at = row.root.partition(" ")
    given = keywords.get(name, keywords.get("group_" + name))
    if given is None:
        given = args[int(at)] if int(at) < len(args) else UNKNOWN
    ranks = [x for x in leaves(given) if x[0] == "rank"]
    return given if given[0] == "const" or (ranks and all(x[2] for x in ranks)) else UNKNOWN


SOURCES = {"broadcast": 1, "broadcast_object_list": 1, "reduce": 1}
"""Position of the source or destination rank."""


def check_source(f: Frame, name: str, group: Any, args: list[Value], keywords: dict[str, Value], e: Expr) -> None:
    """`src` and `dst` are ranks of the world, also with `group=`: notes a rank that was counted inside the group."""
    at = SOURCES.get(name)
    if at is None or group == "world" or "group_src" in keywords or "group_dst" in keywords:
        return
    written = next((x for k, x in e[4] if k in ("src", "dst")), e[3][at] if at < len(e[3]) else None)
    if written is None:
        return
    v = next((keywords[k] for k in ("src", "dst") if k in keywords), args[at] if at < len(args) else UNKNOWN)
    own = ("sym", ("size", group))
    wrong = v == ("rank", ("group", group), True, v[-1]) or v == ("sym", ("index", own))
    named = dotted(written)
    wrong = wrong or (named is not None and (id(f.function), named, group) in f.machine.compared)
    if v[0] == "const" and isinstance(v[1], int) and isinstance(group, tuple) and group[0] == "named":
        wrong = wrong or f.machine.one_of_several(group[1])
    if isinstance(group, tuple) and group[0] == "ranks" and v[0] == "const" and isinstance(v[1], int):
        wrong = wrong or v[1] not in group[1]
    if wrong:
        text = named or str(v[1])
        f.machine.wrong_sources[f.module.path, e[1]] = (f.module, e[1], f.function, name, text)


def from_leader(v: Value) -> Value:
    """What a broadcast leaves in a value: what the source rank had."""
    if v[0] in ("list", "tuple"):
        return (v[0], tuple([from_leader(x) for x in v[1]]))
    if varies(v):
        return ("leader", v)
    if v[0] in ("const", "leader"):
        return REDUCED if v == NONE else v
    return REDUCED


def switched_off(row: Row, args: list[Value], keywords: dict[str, Value], base: Value | None) -> bool | None:
    """None: the call does not communicate here. False: it does under a condition that is not known."""
    if row.when is None:
        return True
    words = row.when.split()
    if words[0] == "wrapped":  # local for a plain module; what is not known to be wrapped is taken for plain
        return True if args and args[0][0] == "wrapped" else None
    if len(words) == 2 and words[0] == "not":
        value = keywords.get(words[1])
        if value is None:
            return True
        return None if truth(value) is True else truth(value) is False
    if row.when.startswith("sync_on_compute"):
        return None if base is not None and base[0] == "extinst" and base[2] else True
    if "(default" in row.when or row.when.endswith("is not None"):
        return True
    word = words[0].partition("=")[0]
    if "=" in words[0]:
        value = keywords.get(word)
        return None if value is None or truth(value) is False else truth(value) is True
    return False


def made_group(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    ranks = keywords.get("ranks", args[0] if args else NONE)
    if row.result == "mesh":
        return ("extinst", "torch.distributed.device_mesh.DeviceMesh", None)
    if ranks == NONE and row.last == "new_group":
        return ("group", ("copy", f.module.path, e[1]))
    if ranks[0] in ("list", "tuple") and all(x[0] == "const" for x in ranks[1]):
        return ("group", ("ranks", tuple([x[1] for x in ranks[1]])))
    key: Value = ("group", ("made", f.module.path, e[1]))
    return ("tuple", (key, UNKNOWN)) if row.result == "group_pair" else key
