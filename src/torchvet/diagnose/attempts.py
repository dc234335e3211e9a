"""Which attempt of a restarted job counts: the last one that got going."""

from __future__ import annotations

from torchvet.findings import Text

from .evidence.places import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case

Key = tuple[str, str]  # node, run
_ENDS = ("exit", "closing", "terminated")


def last_attempts(case: Case) -> None:
    """Only the last attempt of a restarted job counts; the others are named."""
    last: dict[Key, int] = {}
    of: dict[str, tuple[Key, int]] = {}
    for source in {f.source for f in case.facts}:
        place = place_of(source)
        if place.tree and place.attempt is not None:
            key = (place.node, place.run)
            of[source] = (key, place.attempt)
            last[key] = max(last.get(key, 0), place.attempt)
    if count := stillborn(case, of, last):
        before_the_restart(case, of, last, count)
        return
    old = {s for s, (key, attempt) in of.items() if attempt < last[key]}
    restarts: dict[str, int] = {}
    for fact in case.of("attempt"):
        restarts[fact.source] = max(restarts.get(fact.source, 0), fact.line)
    for source, lines in _failures(case).items():  # one line for each attempt that failed
        if old and len(lines) == max(last.values()) + 1:
            restarts[source] = max(restarts.get(source, 0), lines[-2] + 1)
    if not old and not restarts:
        return
    for key, attempt in sorted(last.items()):
        if attempt and any(k == key for s in old for k in [of[s][0]]):
            folder = "/".join(p for p in (*key, f"attempt_0..{attempt - 1}") if p)
            case.inventory.problems.append(
                (folder, Text("earlier attempts: not part of this verdict", "较早的尝试：不计入本次结论"))
            )
    case.facts = [
        f for f in case.facts
        if f.source not in old
        and not (f.kind in ("exit", "closing", "terminated") and f.line < restarts.get(f.source, 0))
    ]  # fmt: skip
    _index(case)


def _index(case: Case) -> None:
    case.by_kind.clear()
    for fact in case.facts:
        case.by_kind.setdefault(fact.kind, []).append(fact)


def stillborn(case: Case, of: dict[str, tuple[Key, int]], last: dict[Key, int]) -> int:
    """How many attempts at the end ended at their start because ranks did not find each other, behind one that had made
    steps: torchrun without a rendezvous service of its own restarts ranks on the keys that the dead ones left."""
    count = 0
    while last and min(last.values()) > count and _met_nobody(case, _of_attempt(of, last, count), count > 0):
        count += 1
    return count if count and _stepped(case, _of_attempt(of, last, count)) else 0


def _of_attempt(of: dict[str, tuple[Key, int]], last: dict[Key, int], back: int) -> set[str]:
    """Sources of the attempt so many before the last."""
    return {s for s, (key, attempt) in of.items() if attempt == last[key] - back}


def _stepped(case: Case, sources: set[str]) -> bool:
    return any(f.values.get("steps") for f in case.of("output") if f.source in sources)


def _met_nobody(case: Case, sources: set[str], before: bool) -> bool:
    """`before`: the next attempt is known to have met nobody; one without a word was like it."""
    if _stepped(case, sources):
        return False
    raised = [f for f in case.of("exception") if f.source in sources and not f.values.get("victim")]
    met = [f for f in case.of("rendezvous") if f.source in sources]
    return (bool(met) or before) and all(any(m.source == f.source and m.line >= f.line for m in met) for f in raised)


def _failures(case: Case) -> dict[str, list[int]]:
    """Lines of the launcher that name the first process that failed, in order."""
    seen: dict[str, set[int]] = {}
    for fact in case.of("exit"):
        if fact.values.get("by") == "launcher":
            seen.setdefault(fact.source, set()).add(fact.line)
    return {source: sorted(lines) for source, lines in seen.items()}


def before_the_restart(case: Case, of: dict[str, tuple[Key, int]], last: dict[Key, int], count: int) -> None:
    """Leave out the last attempts, and what the launcher says behind the failure of the one before them."""
    for (node, run), attempt in sorted(last.items()):
        name = f"attempt_{attempt}" if count == 1 else f"attempt_{attempt - count + 1}..{attempt}"
        folder = "/".join(p for p in (node, run, name) if p)
        text = Text("the restart did not come to a first step: the attempt before it is judged",
                    "重启后没有完成第一步：以此前的尝试为准")  # fmt: skip
        case.inventory.problems.append((folder, text))
    ends = {source: lines[-1 - count] for source, lines in _failures(case).items() if len(lines) > count}
    kept = []
    for fact in case.facts:
        key = of.get(fact.source)
        if key is not None and key[1] != last[key[0]] - count:
            continue
        if fact.kind in _ENDS and fact.line > ends.get(fact.source, fact.line):
            continue
        kept.append(fact)
    case.facts = kept
    _index(case)
