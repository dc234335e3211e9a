"""Abstract values of one process among many: what is the same on every rank, and what follows from the rank.

A value is a hashable tuple:

    ("const", c)                     a known Python constant
    ("sym", key)                     the same on every rank, not known; equal keys are equal values; `UNKNOWN` has no
    identity
    ("rank", axis, sure, origin)     the number of this rank on an axis ("world", "local", "node", "axis:tp",
    ("group", ...));
                                     `sure` is False when only a name says so; `origin` is (module path, pos, text)
    ("size", axis)                   the number of ranks on an axis
    ("local", key, why, origin)      data of this rank alone: a batch, a clock, a file, a caught exception
    ("leader", v)                    what `v` is on rank 0, known to all after a broadcast
    ("op", name, v...)               an expression over values: not and or == != < <= > >= in is + - * // % sel(test,
    then, else)
    ("tuple"|"list", (v...))  ("dict", ((key, v)...))
    ("func", Function, receiver|None) ("closure", number) ("class", Class) ("inst", Class, ((field, v)...))
    ("ext", dotted) ("extinst", dotted, extra) ("module", Module) ("bound", v, name) ("group", key) ("wrapped", kind,
    ...)

`at(value, place)` gives the value as one abstract rank sees it; what is the same everywhere stays symbolic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from typing import Any

    Value = tuple[Any, ...]

UNKNOWN: Value = ("sym", None)
NONE: Value = ("const", None)
TRUE: Value = ("const", True)
FALSE: Value = ("const", False)
REDUCED: Value = ("sym", "reduced")
"""The result of a collective that leaves the same value on every rank."""

MADE = "made"
CHOOSING = frozenset(("sel", "not", "and", "or"))
LARGEST = 48
"""A value of more nodes than this is given up: it becomes unknown, and unknown is silent."""

WORLD_SIZE, PER_NODE = 8, 4
COMPARISONS = {"==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in",
           "is": "is not", "is not": "is"}  # fmt: skip
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<=", "is": "is", "is not": "is not"}


class Place:
    """One abstract rank: its number on each axis it is placed on, and how its own local data turned out."""

    __slots__ = ("axes", "chosen", "name")

    def __init__(self, name: str, axes: dict[Hashable, int], chosen: dict[Hashable, bool] | None = None) -> None:
        self.name = name
        self.axes = axes
        self.chosen = chosen or {}

    def decided(self, key: Hashable, value: bool) -> Place:
        """The same rank with one of its local decisions known."""
        return Place(self.name, self.axes, {key: value})


LEADER = Place("leader", {"world": 0, "local": 0, "node": 0})
OTHER = Place("other", {"world": 1, "local": 1, "node": 0})
NODE_LEADER = Place("node leader", {"world": PER_NODE, "local": 0, "node": 1})
LAST = Place("last", {"world": WORLD_SIZE - 1, "local": PER_NODE - 1, "node": 1})


# ------------------------------------------------------------------------------------------------ building
def const(c: Any) -> Value:
    try:
        hash(c)
    except TypeError:
        return UNKNOWN
    return ("const", c)


def leader_test(axis: Hashable, sure: bool, origin: Any) -> Value:
    return ("op", "==", ("rank", axis, sure, origin), ("const", 0))


def op(name: str, *args: Value) -> Value:
    """An expression value, simplified where that is free; too large ones are given up."""
    if name == "not":
        x = args[0]
        if x[0] == "const":
            return ("const", not x[1])
        if x[0] == "op":
            if x[1] == "not":
                return x[2]  # type: ignore[no-any-return]
            if x[1] in NEGATED:
                return ("op", NEGATED[x[1]], x[2], x[3])
    elif name in ("and", "or"):
        stop = name == "or"
        kept: list[Value] = []
        for a in args:
            known = truth(a)
            if known is stop:
                kept.append(a)
                break
            if known is None:
                kept.append(a)
        if not kept:
            return args[-1]
        if len(kept) == 1:
            return kept[0]
        return limited(("op", name, *kept))
    elif name == "sel":
        test, then, other = args
        known = truth(test)
        if known is not None:
            return then if known else other
        if then == other:
            return then
        if test[:2] == ("op", "not"):
            return limited(("op", "sel", test[2], other, then))
    return limited(("op", name, *args))


def one_of(test: Value, then: Value, other: Value) -> Value:
    """`then if test else other`, where a model that the same test chose before is the one that it chose: tests of how
    the model is wrapped have one answer in a run."""
    return op("sel", test, way(then, test, 3), way(other, test, 4))


def way(v: Value, test: Value, n: int) -> Value:
    chosen = v[:2] == ("op", "sel") and v[2] == test and "wrapped" in (v[3][0], v[4][0])
    return v[n] if chosen else v


COMPOSED = frozenset(("tuple", "list", "dict", "inst", "bound", "leader", "wrapped"))
INNER = COMPOSED | {"op"}


def limited(v: Value) -> Value:
    if len(v) < LARGEST:
        for x in v[2:]:
            if x[0] in INNER:
                return v if size(v, LARGEST) <= LARGEST else UNKNOWN
        return v
    return v if size(v, LARGEST) <= LARGEST else UNKNOWN


def size(v: Value, limit: int) -> int:
    n = 0
    stack = [v]
    while stack:
        x = stack.pop()
        n += 1
        if n > limit:
            return n
        if x[0] == "op":
            stack += x[2:]
        elif x[0] in COMPOSED:
            stack += parts(x)
    return n


def parts(v: Value) -> tuple[Value, ...]:
    """The values that a value is made of."""
    kind = v[0]
    if kind == "op":
        return v[2:]
    if kind in ("tuple", "list"):
        return v[1]  # type: ignore[no-any-return]
    if kind == "dict":
        return tuple([x for _, x in v[1]])
    if kind == "inst":
        return tuple([x for _, x in v[2]])
    if kind in ("bound", "leader"):
        return (v[1],)
    if kind == "wrapped":
        return (v[2],)
    return ()


def leaves(v: Value) -> Iterator[Value]:
    """The rank and local leaves that decide a value (those inside containers and objects do not)."""
    stack = [v]
    while stack:
        x = stack.pop()
        if x[0] in ("rank", "local"):
            yield x
        elif x[0] == "op":
            stack.extend(reversed(x[2:]))
        elif x[0] in ("list", "tuple"):
            stack.extend(reversed(x[1]))


DECIDING = frozenset(("rank", "local", "op", "list", "tuple"))


def varies(v: Value) -> bool:
    """Whether the value can differ between ranks, as far as is known."""
    if v[0] not in DECIDING:
        return False
    stack = [v]
    while stack:
        x = stack.pop()
        kind = x[0]
        if kind == "op":
            stack += x[2:]
        elif kind == "rank" or kind == "local":
            return True
        elif kind == "list" or kind == "tuple":
            stack += x[1]
    return False


def carries(v: Value | None) -> bool:
    """An argument that communicates when it is used: a callable, a wrapped model, an object that holds one."""
    if v is None:
        return False
    kind = v[0]
    if kind in ("closure", "wrapped", "raw", "func", "partial"):
        return True
    if kind == "packed":
        return any(carries(x) for x in v[1]) or any(carries(x) for _, x in v[2])
    return kind == "inst" and any(carries(x) for _, x in v[2])


def depends_on_rank(v: Value) -> bool:
    return v[0] in DECIDING and has_leaf(v, "rank")


def is_local(v: Value) -> bool:
    return v[0] in DECIDING and has_leaf(v, "local")


def has_leaf(v: Value, wanted: str) -> bool:
    stack = [v]
    while stack:
        x = stack.pop()
        kind = x[0]
        if kind == "op":
            stack += x[2:]
        elif kind == wanted:
            return True
        elif kind == "list" or kind == "tuple":
            stack += x[1]
    return False


def identified(v: Value, key: Hashable) -> Value:
    """A value that several tests ask: what it chooses by is one choice for all of them, known or not."""
    if v[0] != "op" or v[1] not in CHOOSING or not varies(v):
        return v
    args = v[2:]
    if v[1] == "sel" and not varies(args[0]) and holds_unknown(args[0]):
        args = (("sym", ("chosen", key)), *args[1:])
    return ("op", v[1], *[identified(x, (key, n)) for n, x in enumerate(args)])


def holds_unknown(v: Value) -> bool:
    """Whether a part of the value has no identity: two such values are not known to be equal."""
    stack = [v]
    while stack:
        x = stack.pop()
        if x == UNKNOWN:
            return True
        stack.extend(parts(x))
    return False


def derived_local(v: Value, origin: Any, why: str) -> Value:
    """A further local value that follows from local data: `loss.item() > best`."""
    first = next((x for x in leaves(v) if x[0] == "local"), None)
    return ("local", v, first[2] if first else why, first[3] if first else origin)


# ------------------------------------------------------------------------------------------------ reading
CONTAINERS = frozenset(("list", "tuple", "dict", "set"))


def truth(v: Value) -> bool | None:
    """Whether a value is true, when that is known without a rank."""
    kind = v[0]
    if kind in ("const", "rc"):
        return bool(v[1])
    if kind in ("func", "closure", "class", "inst", "extinst", "module", "wrapped"):
        return True
    if kind == "ext":
        # `from settings import USE_DDP`: a name in capitals is a constant of another module, and may be anything
        return None if v[1].rpartition(".")[2].isupper() else True
    if kind == "bound":
        return True if v[1][0] in CONTAINERS else None  # `args.resume`: nothing is known of what a field holds
    if kind in ("tuple", "list", "dict"):
        return bool(v[1]) or None  # an empty display may have been filled by a call that is not seen
    return None


def at(v: Value, place: Place) -> Value:
    """The value on one abstract rank. Numbers that come from a rank are ("rc", n); the rest stays as it is."""
    kind = v[0]
    if kind == "op":
        name = v[1]
        if name in ("and", "or"):
            stop = name == "or"
            kept: list[Value] = []
            for a in v[2:]:
                x = at(a, place)
                known = truth(x)
                if known is stop:
                    return x
                if known is None:
                    kept.append(x)
            if not kept:
                return ("const", not stop)
            return kept[0] if len(kept) == 1 else ("op", name, *kept)
        if name == "sel":
            test = at(v[2], place)
            known = truth(test)
            if known is not None:
                return at(v[3] if known else v[4], place)
            then, other = at(v[3], place), at(v[4], place)
            return then if then == other else ("op", "sel", test, then, other)
        return compute(name, [at(a, place) for a in v[2:]])
    if kind == "rank":
        n = place.axes.get(v[1])
        return ("sym", ("rank", v[1])) if n is None else ("rc", n)
    if kind == "local":
        b = place.chosen.get(v[1])
        return ("sym", ("local", v[1])) if b is None else ("const", b)
    if kind == "size":
        return ("const", WORLD_SIZE) if v[1] == "world" else ("const", PER_NODE) if v[1] == "local" else ("sym", v)
    if kind == "leader":
        return at(v[1], LEADER)
    return v


def compute(name: str, args: list[Value]) -> Value:
    a = args[0]
    if name == "not":
        known = truth(a)
        return ("op", "not", a) if known is None else ("const", not known)
    for i, x in enumerate(args):
        if x[0] == "op" and x[1] == "sel":
            rest = list(args)
            rest[i] = x[3]
            then = compute(name, rest)
            rest[i] = x[4]
            other = compute(name, rest)
            if then == other:
                return then
            known = truth(x[2])
            return ("op", "sel", x[2], then, other) if known is None else then if known else other
    b = args[1] if len(args) > 1 else NONE
    if name in COMPARISONS:
        return compare(name, a, b)
    if a[0] in ("const", "rc") and b[0] in ("const", "rc"):
        try:
            c = ARITHMETIC[name](a[1], b[1])
        except Exception:
            return UNKNOWN
        return ("rc" if "rc" in (a[0], b[0]) else "const", c)
    if a[0] == "rc" and name in ("%", "//"):
        # `rank % gpus_per_node`, `rank // gpus_per_node` with a number that is not known
        return ("rc", a[1] % PER_NODE if name == "%" else a[1] // PER_NODE)
    return UNKNOWN


def compare(name: str, a: Value, b: Value) -> Value:
    if b[0] == "rc" and a[0] != "rc" and name in MIRRORED:
        a, b, name = b, a, MIRRORED[name]
    if a[0] in ("const", "rc"):
        if b[0] in ("const", "rc"):
            return ("const", concrete(name, a[1], b[1]))
        if name in ("in", "not in") and b[0] in ("list", "tuple") and all(x[0] in ("const", "rc") for x in b[1]):
            inside = any(concrete("==", a[1], x[1]) for x in b[1])
            return ("const", inside is (name == "in"))
        if a[0] == "rc":
            # one rank among several: `rank == src`, `rank in members`, `rank < active`, the first one stands for
            # those inside
            inside = a[1] == 0
            if name in ("==", "in", "<", "<=", "is"):
                return ("const", inside)
            if name in ("!=", "not in", ">=", ">", "is not"):
                return ("const", not inside)
    if a == b and a != UNKNOWN and a[0] != "op":
        return ("const", name in ("==", "<=", ">=", "is"))
    if name in ("==", "!=", "is", "is not") and a[0] == b[0] == "sym" and of_its_own(a) and of_its_own(b):
        return ("const", name in ("!=", "is not"))  # equal ones were met above
    if name in ("==", "!=") and b[0] == "const" and a[0] in ("func", "closure", "class", "module"):
        return ("const", name == "!=")
    if name in ("is", "is not") and b == NONE and (truth(a) is True or is_made(a)):
        return ("const", name == "is not")
    return ("op", name, a, b)


def is_made(v: Value) -> bool:
    """Whether a value is something that a function made, or that came from another rank, where a rank has it instead
    of what another one has: `buffer = torch.empty(n) if given is None else given`."""
    return v == REDUCED or (v[0] == "sym" and isinstance(v[1], tuple) and v[1][0] == "v" and v[1][-1] == MADE)


def of_its_own(v: Value) -> bool:
    """Whether a value equals no other one that is written otherwise: a constant, a member in capitals of a class."""
    return v[0] == "const" or (v[0] == "sym" and isinstance(v[1], tuple) and v[1][0] == "field" and v[1][2].isupper())


def concrete(name: str, x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        x, y = number(x), number(y)
        if isinstance(y, (tuple, frozenset)):
            y = tuple([number(i) for i in y])
    try:
        return bool(RELATIONS[name](x, y))
    except Exception:
        return name in ("!=", "not in", "is not")


def number(x: Any) -> Any:
    """`os.environ["RANK"] == "0"` compares texts of numbers."""
    return int(x) if isinstance(x, str) and x.lstrip("-").isdigit() else x


ARITHMETIC: dict[str, Any] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y if abs(x) < 1e6 and abs(y) < 1e6 else 0,
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "/": lambda x, y: x / y, "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
}  # fmt: skip
RELATIONS: dict[str, Any] = {
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y, ">=": lambda x, y: x >= y, "in": lambda x, y: x in y, "not in": lambda x, y: x not in y,
    "is": lambda x, y: x is y or x == y, "is not": lambda x, y: not (x is y or x == y),
}  # fmt: skip
