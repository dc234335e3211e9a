"""Ranks that do not make the same groups in the same order."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, POSSIBLE, PROBABLE, STRONG, Hypothesis, Link
from ..said import claim_of_launcher, place, plural, sure, who
from ..waits_creation import Creation, others, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case


_ADVICE = Text(
    "call new_group on all ranks, members or not, for every group and in one order (or pass "
    "use_local_synchronization=True)",
    "在所有 rank 上（无论是否成员）按同一顺序为每个组调用 new_group（或传入 use_local_synchronization=True）",
)


def groups_made_apart(case: Case) -> Iterator[Hypothesis]:
    found = case.waits.creation
    if found is None or case.waits.roots or len(found.facts) < 2:
        return
    missing = others(case, found)
    told = len(set(found.names.values())) > 1
    links = [Link(found.facts[r], _where(found, r), STRONG) for r in _chosen(found)]
    most = CONFIRMED if told else PROBABLE if _met_before(case) else POSSIBLE  # else it may be the network
    if missing:
        most = POSSIBLE
    ranks = [] if missing else found.ranks
    out = Hypothesis(
        "collective-mismatch", "new_group", _said(found, told, missing), ranks, sure(links, most), None, links
    )
    sites = {s for r in found.ranks if (s := found.sites.get(r))}
    out.site = next(iter(sites)) if len(sites) == 1 else None
    out.contradicts = claim_of_launcher(case.waits, ranks) if ranks else []
    out.rule = "collective-order"
    if missing:
        text = Text("stack of {who}: late, or in new_group as well", "{who} 的调用栈：迟到，或也在 new_group 中",
                    who=who(missing))  # fmt: skip
        out.missing.append(text)
    if not told:
        out.missing.append(Text("the calls of new_group of every rank: with timeout=… the store's message names them",
                                "每个 rank 对 new_group 的调用；设置 timeout=… 后 store 的消息会给出组名"))  # fmt: skip
    out.next.append(_ADVICE)
    kinds = ("rank-absent", "host-stall", "store-rendezvous", "native-crash")
    out.explains = [(kind, r) for kind in kinds for r in (*case.ranks, None)]
    yield out


def groups_renamed(case: Case) -> Iterator[Hypothesis]:
    """Dumps that tell the members of groups: the same members under different names."""
    found = renamed(case.waits.groups) if not case.waits.running else None
    if found is None:
        return
    ranks = found.odd or sorted(found.names)
    parts: Text | None = None
    for name in sorted({n for rows in found.names.values() for n in rows})[:4]:
        holders = [r for r, rows in found.names.items() if name in rows]
        part = Text("number {name} on {who}", "在 {who} 上为第 {name} 组", name=name, who=who(holders))
        parts = part if parts is None else Text("{a}, {b}", "{a}，{b}", a=parts, b=part)
    said = Text("new_group was called in another order, or not by all ranks: the group of {members} is {parts}",
                "new_group 的调用顺序不同，或并非所有 rank 都调用：由 {members} 组成的组{parts}",
                members=who(found.members), parts=parts or Text(""))  # fmt: skip
    if not found.odd:
        said = Text("{head}; who differs cannot be told", "{head}；无法判断谁不同", head=said)
    links = []
    for rank in [*found.odd, *[r for r in sorted(found.names) if r not in found.odd]][:4]:
        text = Text("recorder: rank {r} has the group of {members} under {names}",
                    "记录器：rank {r} 上由 {members} 组成的组名为 {names}",
                    r=rank, members=who(found.members), names=", ".join(found.names[rank]))  # fmt: skip
        links.append(Link(found.facts[rank], text, STRONG))
    out = Hypothesis("collective-mismatch", "new_group", said, ranks, sure(links), None, links)
    out.contradicts = claim_of_launcher(case.waits, ranks)
    out.rule = "collective-order"
    out.next.append(_ADVICE)
    everyone = {*found.members, *case.ranks}
    kinds = ("rank-absent", "host-stall", "store-rendezvous", "group-order-cycle", "uneven-inputs")
    out.explains = [(kind, r) for kind in kinds for r in everyone] + [("store-rendezvous", None)]
    yield out


def _said(found: Creation, told: bool, missing: list[int]) -> Text:
    if not told:
        said = Text(
            "{who} stand in new_group and none gets on: ranks have not called it equally often, or not in one order",
            "{who} 都停在 new_group 中：各 rank 调用次数或顺序不一致", who=who(found.ranks),
        )  # fmt: skip
    else:
        sides: dict[int, list[int]] = {}
        for rank, name in found.names.items():
            sides.setdefault(name, []).append(rank)
        parts: Text | None = None
        for name, ranks in sorted(sides.items(), key=lambda kv: (len(kv[1]), kv[0]))[:4]:
            their = plural(ranks, "its", "their")
            part = Text("{who} {wait} in {their} call number {n}", "{who} 停在第 {n} 次调用", who=who(ranks),
                        wait=plural(ranks, "waits", "wait"), their=their, n=name)  # fmt: skip
            parts = part if parts is None else Text("{a}, {b}", "{a}，{b}", a=parts, b=part)
        said = Text("new_group was called in another order, or not by all ranks: {parts}",
                    "new_group 的调用顺序不同，或并非所有 rank 都调用：{parts}", parts=parts or Text(""))  # fmt: skip
    if missing:
        return Text("{head}; or {who} came late, of which nothing tells", "{head}；也可能是 {who} 迟到，材料中没有说明",
                    head=said, who=who(missing))  # fmt: skip
    return Text("{head}; who differs cannot be told", "{head}；无法判断谁不同", head=said)


def _where(found: Creation, rank: int) -> Text:
    site = found.sites.get(rank)
    where = f" ({place(*site)})" if site else ""
    if rank not in found.names:
        return Text("rank {r} stands in new_group{where}", "rank {r} 停在 new_group{where}", r=rank, where=where)
    return Text("rank {r} waits in new_group for member {m} of group {n}{where}",
                "rank {r} 在 new_group 中等待组 {n} 的成员 {m}{where}",
                r=rank, m=found.awaited[rank], n=found.names[rank], where=where)  # fmt: skip


def _chosen(found: Creation) -> list[int]:
    """One or two ranks of every name."""
    out: list[int] = []
    for rank in found.ranks:
        if sum(found.names.get(r) == found.names.get(rank) for r in out) < 2:
            out.append(rank)
    return out[:5]


def _met_before(case: Case) -> bool:
    """Whether a collective of the group of all was finished before."""
    return any((p.completed or 0) > 0 for g in case.waits.groups if g.label == "world" for p in g.ranks.values())
