"""Whom ranks that stand in a send or receive wait for, where only the line of the program tells it."""

from __future__ import annotations

import ast

from .waits_stacks import RECEIVE, SEND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case
    from .waits_stacks import Place

_RANK = {"rank", "global_rank", "my_rank", "world_rank", "me"}
_WORLD = {"world", "world_size", "size", "n_ranks", "num_ranks"}


def peer_of(case: Case, place: Place) -> int | None:
    """The rank that the call at this place names; None: not known."""
    if place.site is None or not case.world:
        return None
    path, line = place.site
    end = "/".join(path.replace("\\", "/").split("/")[-2:])
    op = "send" if place.what == SEND else "recv"
    found = [
        f for f in case.of("pair-call")
        if f.values["op"] == op and f.line <= line <= f.values["end"]
        and (f.source.endswith(end) or f.source.rpartition("/")[2] == end)
    ]  # fmt: skip
    if len(found) != 1:
        return None
    value = rank_named(str(found[0].values["peer"]), found[0].values["names"], place.rank, case.world)
    return value if value is not None and 0 <= value < case.world and value != place.rank else None


def at_fault(case: Case) -> tuple[list[int], list[tuple[int, int]]] | None:
    """(ranks, (rank, peer) of all that are known) when several ranks stand in sends and receives: those that wait for
    each other in a ring, or the one that all others wait for, directly or through others. None: it cannot be told."""
    standing = {r: p for r, p in case.waits.places.items() if p.what in (SEND, RECEIVE)}
    peers = {r: peer for r, p in standing.items() if (peer := peer_of(case, p)) is not None}
    if len(standing) < 2 or not peers:
        return None
    for rank, peer in peers.items():
        if peers.get(peer) == rank and standing[peer].what != standing[rank].what:
            return None  # both halves are there: they were under way
    ends: set[frozenset[int]] = set()
    for rank in standing:
        way = [rank]
        while (peer := peers.get(way[-1])) is not None and peer not in way:
            way.append(peer)
        ends.add(frozenset(way[way.index(peer) :]) if peer is not None else frozenset(way[-1:]))
    if len(ends) != 1:
        return None
    ranks = sorted(next(iter(ends)))
    if any(r not in case.waits.places for r in ranks):
        return None
    return ranks, sorted(peers.items())


def rank_named(text: str, names: dict[str, str], rank: int, world: int) -> int | None:
    """The rank that an expression gives on `rank`; None: it depends on more than rank and world size."""
    return _value(text, names, rank, world)


def _value(text: str, names: dict[str, str], rank: int, world: int, depth: int = 0) -> int | None:
    try:
        found = _of(ast.parse(text, mode="eval").body, names, rank, world, depth)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _of(node: ast.expr, names: dict[str, str], rank: int, world: int, depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in _RANK | _WORLD:
            return rank if name in _RANK else world
        given = names.get(name) if isinstance(node, ast.Name) and depth < 4 else None
        return _value(given, names, rank, world, depth + 1) if given else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        return {"get_rank": rank, "get_world_size": world}.get(node.func.attr)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1:
        return _of_environment(node.args[0], rank, world)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _of(node.operand, names, rank, world, depth)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        left, right = (_of(side, names, rank, world, depth) for side in (node.left, node.right))
        if left is None or right is None:
            return None
        operation = _OPERATIONS.get(type(node.op))
        return operation(left, right) if operation else None
    if isinstance(node, ast.IfExp):
        test = _truth(node.test, names, rank, world, depth)
        return None if test is None else _of(node.body if test else node.orelse, names, rank, world, depth)
    return None


def _of_environment(node: ast.expr, rank: int, world: int) -> int | None:
    """`os.environ["RANK"]`, `os.environ.get("WORLD_SIZE", ...)`, `os.getenv("RANK")`."""
    key: ast.expr | None = None
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
        key = node.slice
    elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(("environ.get", "getenv")):
        key = node.args[0]
    name = key.value if isinstance(key, ast.Constant) else None
    return rank if name == "RANK" else world if name == "WORLD_SIZE" else None


def _truth(node: ast.expr, names: dict[str, str], rank: int, world: int, depth: int) -> bool | None:
    """Of a condition on the rank; None: it depends on something else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _truth(node.operand, names, rank, world, depth)
        return None if value is None else not value
    if isinstance(node, ast.BoolOp):
        values = [_truth(v, names, rank, world, depth) for v in node.values]
        decides = isinstance(node.op, ast.Or)
        return decides if decides in values else None if None in values else not decides
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
        left, row = _of(node.left, names, rank, world, depth), node.comparators[0]
        if left is None or not isinstance(row, ast.Tuple | ast.List | ast.Set):
            return None
        items = [_of(e, names, rank, world, depth) for e in row.elts]
        return None if None in items else (left in items) == isinstance(node.ops[0], ast.In)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = (_of(side, names, rank, world, depth) for side in (node.left, node.comparators[0]))
        compare = _COMPARISONS.get(type(node.ops[0]))
        return compare(left, right) if compare and left is not None and right is not None else None
    return None


_COMPARISONS = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
}  # fmt: skip


_OPERATIONS = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mod: lambda a, b: a % b,
    ast.FloorDiv: lambda a, b: a // b, ast.BitXor: lambda a, b: a ^ b,
}  # fmt: skip
