"""Collectives with a root, where the ranks do not agree which rank that is. No recorder and no message names the root.

What tells: the line of the program, or its text in a traceback, worked out for every rank; a list that only a root
gives or takes (dumps of gather and scatter); which way gloo waited (a root of a scatter only sends, one of a gather
only receives); and a reduce that every member has called, which some have finished and several have not: only the root
waits for all others there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .calls import canonical
from .evidence.pair_calls import ROOTS, root_of
from .waits_peers import rank_named
from .waits_stacks import COLLECTIVE, Place, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact
    from .waits import Waits

ROOTED = frozenset(ROOTS)
CLAIMED, ACTED, UNFINISHED = "claimed", "acted", "unfinished"
_OF_OBJECTS = {"broadcast_object_list": "broadcast", "gather_object": "gather", "scatter_object_list": "scatter"}
# what a wait for a peer in this direction says of the rank: it acts as the root (gloo, any size of the group)
_WAY_OF_ROOT = {"scatter": "send", "gather": "recv"}


@dataclass(slots=True)
class Roots:
    """Ranks that stand in one call and do not agree on its root.

    how       CLAIMED: `claims` are the roots that the program names; ACTED: `acting` behave as roots (none: nobody
              does); UNFINISHED: `acting` have not finished a call that all members made
    odd       who is in the minority; empty: it cannot be told
    """

    op: str
    how: str
    standing: list[int]
    claims: dict[int, int] = field(default_factory=dict)
    acting: list[int] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)
    seq: int | None = None
    site: tuple[str, int] | None = None
    facts: dict[int, Fact] = field(default_factory=dict)
    source: Fact | None = None


def disagreement(waits: Waits) -> Roots | None:
    """None: no rank stands in such a call, or nothing says that they disagree."""
    case = waits.case
    found = _standing(waits)
    dumped = _unfinished(waits)
    ops = {_base(at.function) for at in found.values()} | {op for op, _ in dumped.values()}
    if len(ops) != 1 or _late(waits, {*found, *dumped}):
        return None
    op = next(iter(ops))
    standing = sorted({*found, *dumped})
    seqs = {seq for _, seq in dumped.values()}
    facts = {r: at.fact for r, at in found.items()} | {r: _head(waits, r) for r in dumped}
    site = next((at.site for _, at in sorted(found.items()) if at.site), None) or _site(facts)
    out = Roots(op, CLAIMED, standing, seq=min(seqs, default=None), site=site, facts=facts)
    return _by_program(case, out, found, waits) or _by_role(case, out) or _by_end(waits, out)


def _base(function: str) -> str:
    return _OF_OBJECTS.get(function, canonical(function))


def _standing(waits: Waits) -> dict[int, Place]:
    """Ranks that a stack, or the traceback of a rank that waited in vain, shows inside a call with a root."""
    found = dict(waits.places)
    for fact in waits.case.of("exception"):
        if fact.rank is not None and fact.values.get("victim") and fact.rank not in found:
            found[fact.rank] = place(fact.rank, fact.values.get("frames") or [], fact)
    return {r: at for r, at in found.items() if at.what == COLLECTIVE and at.function in ROOTED}


def _unfinished(waits: Waits) -> dict[int, tuple[str, int]]:
    """rank -> (operation, number) of its oldest unfinished call of the group of all, when that has a root."""
    group = next((g for g in waits.groups if g.label == "world"), None)
    out = {}
    for rank, progress in group.ranks.items() if group is not None and not waits.running else ():
        row = progress.row(progress.open) if progress.open is not None else None
        if row is not None and progress.open is not None and row[0] in ROOTED and progress.by == "recorder":
            out[rank] = (row[0], progress.open)
    return out


def _head(waits: Waits, rank: int) -> Fact:
    return waits.heads.get(rank) or waits.dumps[rank]


def _site(facts: dict[int, Fact]) -> tuple[str, int] | None:
    for fact in (f for f in facts.values() if f.kind == "call"):
        for path, line, *_ in fact.values.get("frames") or ():
            return str(path), int(line)
    return None


def _late(waits: Waits, standing: set[int]) -> bool:
    """Whether somebody has not come to the call, which is then the reason: nobody else is asked for more."""
    return any(r not in standing and not waits.busy(r) for r in waits.roots)


def _by_program(case: Case, out: Roots, found: dict[int, Place], waits: Waits) -> Roots | None:
    """The roots that the line of the call names, on every rank."""
    world = case.world or 0
    if not 1 < world <= 65536:
        return None
    lines = {at.site for at in found.values() if at.site} | ({out.site} if out.site else set())
    named = {site: _named(case, site, out.op) for site in lines}
    for rank in range(world):
        site = found[rank].site if rank in found else out.site if len(lines) == 1 else None
        told = named.get(site) if site else None
        if told is None:
            continue
        text, names, fact = told
        value = rank_named(text, names, rank, world)
        if value is None:
            return None
        out.claims[rank] = value
        out.source = out.source or fact
    if len(set(out.claims.values())) < 2:
        return None
    votes = list(out.claims.values())
    most = max(set(votes), key=votes.count)
    if 2 * votes.count(most) > len(votes):
        out.odd = sorted(r for r, v in out.claims.items() if v != most)
    return out


def _named(case: Case, site: tuple[str, int], op: str) -> tuple[str, dict[str, str], Fact] | None:
    """(expression of the root, what its names stand for, where that is read) of a line of the program."""
    path, line = site
    end = "/".join(path.replace("\\", "/").split("/")[-2:])
    found = [
        f for f in case.of("root-call")
        if _base(f.values["op"]) == op and f.line <= line <= f.values["end"]
        and (f.source.endswith(end) or f.source.rpartition("/")[2] == end.rpartition("/")[2])
    ]  # fmt: skip
    if len(found) == 1:
        return str(found[0].values["peer"]), found[0].values["names"], found[0]
    for fact in case.of("exception"):
        for where, number, text in fact.values.get("rooted") or ():
            if (where, number) == site and (call := _parsed(str(text), op)) is not None:
                return ast.unparse(call), {}, fact
    return None


def _parsed(text: str, op: str) -> ast.expr | None:
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _base(node.func.attr) == op:
            return root_of(node)
    return None


def _by_role(case: Case, out: Roots) -> Roots | None:
    """More than one rank behaves as the root, or none of all does."""
    roles: dict[int, bool] = {}
    for rank, fact in out.facts.items():
        if fact.kind == "call" and isinstance(fact.values.get("root"), bool):
            roles[rank] = fact.values["root"]
    two = case.world == 2
    for fact in case.of("lost"):
        way = fact.values.get("direction")
        if fact.rank not in out.standing or fact.rank in roles or fact.values.get("how") != "timeout" or not way:
            continue
        if out.op in _WAY_OF_ROOT:
            roles[fact.rank] = way == _WAY_OF_ROOT[out.op]
        elif out.op == "broadcast" and (two or way == "recv"):  # among more, others pass on what they have got
            roles[fact.rank] = way == "send"
    acting = sorted(r for r, root in roles.items() if root)
    everyone = bool(case.world) and len(roles) == case.world
    if len(acting) > 1 or (everyone and not acting):
        out.how, out.acting, out.claims = ACTED, acting, {}
        return out
    return None


def _by_end(waits: Waits, out: Roots) -> Roots | None:
    """A reduce that all members called, some finished and several did not (gloo: there is no device to be stuck)."""
    group = next((g for g in waits.groups if g.label == "world"), None)
    if group is None or out.op != "reduce" or out.seq is None or group.backend != "gloo":
        return None
    seq = out.seq
    ends = {r: p for r, p in group.ranks.items() if p.enqueued is not None and p.enqueued >= seq}
    left = sorted(r for r in out.standing if r in ends and ends[r].open == seq)
    done = [r for r, p in ends.items() if (p.completed or 0) >= seq]
    if len(ends) < len(group.members) or len(left) < 2 or not done:
        return None
    out.how, out.acting, out.claims = UNFINISHED, left, {}
    return out
