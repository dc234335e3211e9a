"""Ranks that call one collective with different roots."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Hypothesis, Link
from ..ranks import listed
from ..said import call, claim_of_launcher, place, sure, who
from ..waits_roots import ACTED, CLAIMED, Roots, disagreement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case


def roots(case: Case) -> Iterator[Hypothesis]:
    found = disagreement(case.waits)
    if found is None:
        return
    ranks = found.odd or found.acting or sorted(found.claims) or found.standing
    here = call(found.op, found.seq, "world" if found.seq is not None else "")
    said, links = _said(found, here)
    if not found.odd:
        said = Text("{head}; which side is wrong cannot be told", "{head}；无法判断哪一方有误", head=said)
    for rank in found.standing[:3]:
        text = Text("rank {r} does not finish {call}{where}", "rank {r} 未能完成 {call}{where}", r=rank, call=here,
                    where=f" ({place(*found.site)})" if found.site else "")  # fmt: skip
        links.append(Link(found.facts[rank], text, STRONG))
    most = PROBABLE if found.how == ACTED else POSSIBLE
    if found.how == CLAIMED and found.source is not None:
        # one line of a traceback does not tell whether `rank` is the rank itself
        most = CONFIRMED if found.source.kind == "root-call" else POSSIBLE
    out = Hypothesis("collective-mismatch", "root", said, ranks, sure(links, most), found.site, links)
    out.contradicts = claim_of_launcher(case.waits, ranks)
    out.rule = "collective-order"
    if found.how != CLAIMED:
        word = "dst" if found.op in ("reduce", "gather") else "src"
        out.missing.append(Text("the value of `{word}` on every rank, or the source beside the logs",
                                "每个 rank 上 `{word}` 的值，或日志旁的源代码", word=word))  # fmt: skip
    out.next.append(Text("pass the same global rank as root on every rank: the root is one for all, not `rank`",
                         "在所有 rank 上以同一全局 rank 作为 root：root 是共同的，而不是各自的 `rank`"))  # fmt: skip
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall", "native-crash") for r in case.ranks]
    yield out


def _said(found: Roots, here: Text) -> tuple[Text, list[Link]]:
    """(what ranks do differently, what says so)."""
    if found.how == CLAIMED:
        sides: dict[int, list[int]] = {}
        for rank, root in found.claims.items():
            sides.setdefault(root, []).append(rank)
        if len(sides) == len(found.claims) > 4:
            said = Text("{call}: every rank names another root", "{call}：每个 rank 指定的 root 都不同", call=here)
        else:
            parts: Text | None = None
            for root, ranks in sorted(sides.items(), key=lambda kv: len(kv[1]))[:4]:
                part = Text("{who} with root {root}", "{who} 的 root 为 {root}", who=who(ranks), root=root)
                parts = part if parts is None else Text("{a}, {b}", "{a}，{b}", a=parts, b=part)
            said = Text("{call}: {parts}", "{call}：{parts}", call=here, parts=parts or Text(""))
        fact = found.source
        expression = str(fact.values["peer"]) if fact is not None and "peer" in fact.values else ""
        if fact is not None and not expression:
            expression = next(
                (str(t).strip() for p, n, t in fact.values.get("rooted") or () if (p, n) == found.site), ""
            )
        text = Text("the line of the call gives another root on different ranks: {text}",
                    "该调用所在行在不同 rank 上给出不同的 root：{text}", text=expression[:160])  # fmt: skip
        return said, [Link(fact, text, STRONG)]
    if found.how == ACTED and found.acting:
        said = Text("{call}: {who} act as its root", "{call}：{who} 都作为 root", call=here, who=who(found.acting))
        if len(found.acting) < 2:
            said = Text("{call}: ranks disagree on its root", "{call}：各 rank 的 root 不一致", call=here)
        text = Text("only the root waits, or gives and takes lists, in this way: ranks {ranks} do",
                    "只有 root 才会这样等待或收发列表：rank {ranks} 都如此", ranks=listed(found.acting))  # fmt: skip
        return said, [Link(found.facts[r], text, MEDIUM) for r in found.acting[:1]]
    if found.how == ACTED:
        said = Text("{call}: no rank acts as its root, each waits for another", "{call}：没有 rank 作为 root，互相等待",
                    call=here)  # fmt: skip
        return said, []
    said = Text("{call}: all ranks called it, and {who} do not finish it: each waits for the others as its root does",
                "{call}：所有 rank 都已调用，而 {who} 未能完成：都像 root 一样等待其他 rank",
                call=here, who=who(found.acting))  # fmt: skip
    return said, []
