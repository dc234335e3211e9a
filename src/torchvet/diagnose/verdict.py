"""From hypotheses to verdicts: order, what explains what, confidence, and what was only true beside it."""

from __future__ import annotations

from torchvet.findings import Text

from .evidence.places import place_of
from .model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, WEAK, Link
from .ranks import failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Hypothesis

WEIGHTS = {STRONG: 3.0, MEDIUM: 1.5, WEAK: 0.4}
_MOST = 12.0
NEAR = 0.5
"""A second cause of the same ranks is shown when it has at least this part of the first one's score."""

# what happened to a rank in itself, from the surest down; the kinds after "|" are what its peers then show
_ROOTS = {
    "gpu-oom",
    "host-oom",
    "shm-exhausted",
    "fd-exhausted",
    "native-crash",
    "numeric-failure",
    "device-stuck",
    "configuration",
    "store-rendezvous",
    "scheduler-action",
    "fabric",
}
_WAITING = {
    "rank-absent",
    "host-stall",
    "uneven-inputs",
    "p2p-partner-missing",
    "collective-mismatch",
    "shape-mismatch",
    "group-order-cycle",
    "unknown",
}
# (cause, what it explains on its own ranks)
_ON_SAME_RANKS = {
    "gpu-oom": _WAITING | {"native-crash", "device-stuck", "fabric", "store-rendezvous"},
    "host-oom": _WAITING
    | {"native-crash", "shm-exhausted", "fabric", "store-rendezvous", "device-stuck", "fd-exhausted"},
    "shm-exhausted": _WAITING | {"native-crash", "fabric", "store-rendezvous"},
    "fd-exhausted": _WAITING | {"native-crash", "shm-exhausted", "fabric", "store-rendezvous"},
    "native-crash": {
        "rank-absent",
        "unknown",
        "host-stall",
        "fabric",
        "store-rendezvous",
        "device-stuck",
        "p2p-partner-missing",
    },
    "numeric-failure": _WAITING | {"fabric", "store-rendezvous"},
    "device-stuck": {"native-crash", "rank-absent", "host-stall", "unknown", "fabric", "p2p-partner-missing"},
    "configuration": _WAITING | {"store-rendezvous", "native-crash", "fabric", "device-stuck"},
    "store-rendezvous": {"rank-absent", "host-stall", "unknown", "p2p-partner-missing", "uneven-inputs"},
    "fabric": {"rank-absent", "host-stall", "unknown", "device-stuck", "native-crash", "p2p-partner-missing"},
    "rank-absent": {"unknown", "p2p-partner-missing", "fabric", "store-rendezvous"},
    "shape-mismatch": {"rank-absent", "host-stall", "uneven-inputs", "unknown", "p2p-partner-missing"},
    "collective-mismatch": {"rank-absent", "host-stall", "unknown", "p2p-partner-missing"},
    "group-order-cycle": {
        "rank-absent",
        "host-stall",
        "collective-mismatch",
        "unknown",
        "p2p-partner-missing",
        "uneven-inputs",
    },
    "uneven-inputs": {"rank-absent", "host-stall", "unknown", "p2p-partner-missing"},
    "p2p-partner-missing": {"host-stall", "unknown"},
    "host-stall": {"unknown"},
}
# faults of the whole job explain whatever single ranks then show
_EVERYWHERE = {
    "scheduler-action": {"unknown", "rank-absent", "store-rendezvous", "fabric", "native-crash"},
    "store-rendezvous": {"rank-absent", "host-stall", "unknown"},
    "configuration": {"store-rendezvous"},
    "fabric": {"rank-absent", "host-stall", "unknown", "store-rendezvous"},
}
# a process that died takes its peers' connections with it
_ENDS = {
    "gpu-oom",
    "host-oom",
    "shm-exhausted",
    "fd-exhausted",
    "native-crash",
    "numeric-failure",
    "rank-absent",
    "device-stuck",
}
_AFTER_AN_END = {"fabric", "store-rendezvous"}


def judged(found: list[Hypothesis], case: Case) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """(causes of the failure, strongest first; true facts that did not cause it)."""
    well = failed(case)
    for h in found:
        h.score = score(h)
        _confidence(h)
    side = [h for h in found if h.side]
    causes = [h for h in found if not h.side]
    if well is False:
        for h in causes:
            h.side = True
        # a job that ended well has no cause of failure; what is only a guess is not worth a line either
        return [], side + [h for h in causes if h.confidence == CONFIRMED and h.cause in _ROOTS]
    if well is None:
        stood = case.waits.stood
        causes = [
            h for h in causes
            if any(link.weight == STRONG or (stood and link.weight == MEDIUM and h.ranks) for link in h.supports)
        ]  # fmt: skip
    causes.sort(key=lambda h: -h.score)
    kept = _unexplained(causes)
    verdicts = _standing(kept, case)
    return verdicts, [h for h in side if not _told(h, verdicts)]


def score(h: Hypothesis) -> float:
    """Weights of what speaks for it less what speaks against it; roots weigh more than what they lead to."""
    total = min(_MOST, sum(WEIGHTS.get(link.weight, 0.0) for link in h.supports))
    total -= sum(WEIGHTS.get(link.weight, 0.0) for link in h.contradicts)
    total += 2.0 if h.cause in _ROOTS else 0.0
    return total + {CONFIRMED: 3.0, PROBABLE: 1.5, POSSIBLE: 0.0}[h.confidence]


def _sources(h: Hypothesis) -> set[str]:
    """Independent sources: the two streams of one process are one; another rank, tool or file is another."""
    out = set()
    for link in h.supports:
        if link.fact is None or link.weight == WEAK:
            continue
        place = place_of(link.fact.source)
        own = f"{place.node}/{place.run}/{place.local}" if place.tree else link.fact.source
        out.add(own)
    return out


def _confidence(h: Hypothesis) -> None:
    """Confirmed needs two independent sources; a strong contradiction leaves a guess."""
    if h.confidence == CONFIRMED and len(_sources(h)) < 2 and not _arithmetic(h):
        h.confidence = PROBABLE
    if any(link.weight == STRONG for link in h.contradicts) and h.confidence == CONFIRMED:
        h.confidence = PROBABLE
    if not any(link.weight == STRONG for link in h.supports) and h.confidence == CONFIRMED:
        h.confidence = PROBABLE


def _arithmetic(h: Hypothesis) -> bool:
    """A request above the capacity or a port that is taken needs no second witness: the system itself says it."""
    return h.sub in ("too-big", "port in use")


def _explains(a: Hypothesis, b: Hypothesis) -> bool:
    """Whether b is a consequence of a."""
    if a is b or (_general(a) and b.cause in _ROOTS):
        return False
    if _general(b) and a.cause in _ROOTS and set(a.ranks) & set(b.ranks):
        return True
    for kind, rank in a.explains:
        if kind == b.cause and (
            rank is None or b.ranks == [rank] or (rank in b.ranks and set(b.ranks) <= set(a.ranks))
        ):
            return True
    if a.cause == "fabric" and b.cause == "rank-absent" and b.sub.startswith("crashed") and b.confidence != POSSIBLE:
        return False  # an exception of its own is no consequence of a link
    if b.cause in _EVERYWHERE.get(a.cause, ()) and not (a.cause == "configuration" and not a.supports):
        return True
    if b.cause in _AFTER_AN_END and a.cause in _ENDS and a.confidence != POSSIBLE and b.confidence != CONFIRMED:
        return True
    if b.cause not in _ON_SAME_RANKS.get(a.cause, ()):
        return False
    return (
        not b.ranks
        or not a.ranks
        or (bool(set(b.ranks) & set(a.ranks)) and (set(b.ranks) <= set(a.ranks) or a.score >= b.score))
    )


def _general(h: Hypothesis) -> bool:
    """ "The same exception everywhere" is what is left when no cause knows the exception."""
    return h.sub == "same exception on all ranks"


def _unexplained(causes: list[Hypothesis]) -> list[Hypothesis]:
    """The causes that no other one explains; of two that explain each other the stronger stays."""
    gone: set[int] = set()
    for a in causes:
        for b in causes:
            if id(a) in gone or id(b) in gone or not _explains(a, b):
                continue
            if _explains(b, a) and b.score > a.score:
                continue
            if a.confidence == POSSIBLE and b.confidence == CONFIRMED and b.score > 1.5 * a.score:
                continue  # a guess does not explain a fact away
            gone.add(id(b))
            _note(a, b)
    return [h for h in causes if id(h) not in gone]


def _note(a: Hypothesis, b: Hypothesis) -> None:
    """What b told about the same ranks stands behind a: the waiting ranks are evidence too."""
    known = {id(link.fact) for link in a.supports}
    for link in b.supports:
        if link.fact is not None and id(link.fact) not in known and link.weight != WEAK and len(a.supports) < 10:
            a.supports.append(Link(link.fact, link.reason, WEAK))
    if a.site is None and b.site is not None and set(b.ranks) <= set(a.ranks):
        a.site = b.site
    if not a.rule and b.rule and set(b.ranks) == set(a.ranks):
        a.rule = b.rule


def _standing(causes: list[Hypothesis], case: Case) -> list[Hypothesis]:
    """The strongest, and beside it what is independent of it: other ranks, with proof of their own, or a tie."""
    if not causes:
        return []
    first = causes[0]
    out = [first]
    for h in causes[1:]:
        apart = (not set(h.ranks) & {r for k in out for r in k.ranks} and h.cause != first.cause) or (
            h.sub != first.sub and h.cause == first.cause
        )
        strong = sum(link.weight == STRONG for link in h.supports)
        proof = h.confidence == CONFIRMED or strong >= 2 or (strong and h.cause in _ROOTS and _ended(case, h))
        if (apart and proof and h.score >= NEAR * first.score) or h.score >= 0.9 * first.score:
            if h.score >= 0.9 * first.score and not apart:
                h.missing.append(Text("what tells it from {other}", "与“{other}”相区分的证据", other=first.summary))
            out.append(h)
    return out


def _ended(case: Case, h: Hypothesis) -> bool:
    """All ranks of a hypothesis ended by themselves, with a code of their own."""
    return bool(h.ranks) and all(
        r in case.ranks and case.ranks[r].code not in (None, 0) and not case.ranks[r].closed for r in h.ranks
    )


def _told(h: Hypothesis, verdicts: list[Hypothesis]) -> bool:
    """A side finding that is a part of a verdict need not be said twice."""
    return any(
        v.cause == h.cause and set(h.ranks) <= set(v.ranks) and v.sub in ("leak", "cgroup", "host", "process limit")
        for v in verdicts
    )
