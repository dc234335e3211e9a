"""A rank is in a send or receive whose other half no rank makes."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import ALIVE, absence
from ..model import POSSIBLE, Cause, Hypothesis
from ..ranks import failed
from ..said import and_waiters, claim_of_launcher, plural, stack_links, sure, waiting, who
from ..waits_pairs import blamed
from ..waits_peers import at_fault
from ..waits_stacks import HANDLE, PAIRS, RECEIVE, SEND
from ._halves import by_dumps, by_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case

CAUSE = Cause(
    kind="p2p-partner-missing",
    name="p2p-partner-missing",
    summary=Text("a send or receive has no other half", "某次 send 或 recv 没有对应的另一半"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    waits = case.waits
    if waits.stuck or waits.splits:
        return  # a send that waits there is a consequence
    if found := at_fault(case):
        yield by_source(case, *found)
        return
    by_place = {w: [r for r, p in waits.places.items() if p.what == w] for w in (SEND, RECEIVE, PAIRS)}
    if by_place[SEND] and by_place[RECEIVE]:
        return  # both halves are there, as far as stacks tell
    # gloo's recorder holds all collectives and no sends: who waits for a handle and has none open waits for a message
    by_place[HANDLE] = [
        r for r, p in waits.places.items()
        if p.what == HANDLE and r in waits.roots and not waits.busy(r)
        and (dump := waits.dumps.get(r)) is not None and dump.values.get("backend") == "gloo"
    ]  # fmt: skip
    untold = [r for r in case.ranks if r not in waits.places and r not in waits.dumps]
    if untold or len(by_place[HANDLE]) < sum(p.what == HANDLE for p in waits.places.values()):
        by_place[HANDLE] = []  # of the others nothing tells whether they have come to the collective
    for op in (RECEIVE, SEND, PAIRS, HANDLE):
        ranks = sorted(by_place[op])
        many = len(ranks) > len(waits.places) // 2 and len(ranks) < len(waits.places)  # of some the peers went on
        if not ranks or many or any(absence(waits, r).how != ALIVE for r in ranks):
            continue
        if waits.roots and not set(ranks) & set(waits.roots):
            continue
        yield _by_stacks(case, op, ranks)
        return
    standing = {p.rank for p in waits.pairs}
    if blamed(waits.pairs) and not waits.cycles and not waits.orders and set(waits.roots) <= standing:
        yield by_dumps(case)


def _by_stacks(case: Case, op: str, ranks: list[int]) -> Hypothesis:
    waits = case.waits
    others = [r for r in waits.places if r not in ranks]
    lacking = waits.waiting_for(ranks[0])
    links = stack_links(waits, [*ranks[:2], *others[:2]]) + [waiting(w) for w in lacking[:1]]
    function = waits.places[ranks[0]].function
    if op == HANDLE:
        ways = {f.values.get("direction") for f in case.of("lost", rank=ranks[0])}
        op, function = (RECEIVE, "irecv") if "recv" in ways else (SEND, "isend") if "send" in ways else (PAIRS, "wait")
    half = {RECEIVE: "send", SEND: "recv"}.get(op, "other half")
    said = Text(
        "{who} {stand} in {function}(), and no other rank is in a {half}",
        "{who} 停在 {function}()，没有其他 rank 处于 {half}",
        who=who(ranks), stand=plural(ranks, "stands", "stand"), function=function, half=half,
    )  # fmt: skip
    if lacking:
        w = lacking[0]
        said = and_waiters(said, w)
    out = Hypothesis("p2p-partner-missing", function, said, ranks, sure(links), waits.places[ranks[0]].site, links)
    untold = [r for r in case.ranks if r not in waits.places and r not in waits.dumps]
    if untold:  # one of them may be at the other half
        out.confidence = POSSIBLE
        out.missing.append(Text("stack of {who}", "{who} 的调用栈", who=who(untold)))
    out.contradicts = claim_of_launcher(waits, ranks)
    out.rule = "unmatched-send"
    out.explains = [(kind, r) for kind in ("rank-absent", "host-stall") for r in ranks]
    return out
