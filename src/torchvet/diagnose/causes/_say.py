"""What several causes say and ask in the same words."""

from __future__ import annotations

from torchvet.findings import Text

from ..evidence.frames import site_of
from ..model import MEDIUM, Link
from ..ranks import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model import Case, Fact


def who(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0, 1"; "the job" when no rank is known."""
    rows = sorted(set(ranks))
    if not rows:
        return "the job"
    return f"rank{'s' if len(rows) > 1 else ''} {listed(rows)}"


def who_zh(ranks: Iterable[int]) -> str:
    rows = sorted(set(ranks))
    return f"rank {listed(rows)}" if rows else "作业"


def named(ranks: Iterable[int]) -> Text:
    return Text(who(ranks), who_zh(ranks))


def only_rank(case: Case) -> list[int]:
    """[0] for a job of one process, else nothing: a line of an unknown rank blames nobody."""
    return [next(iter(case.ranks))] if len(case.ranks) == 1 else [0] if case.world == 1 else []


def ranks_of(case: Case, facts: Iterable[Fact]) -> list[int]:
    found = sorted({f.rank for f in facts if f.rank is not None and f.rank >= 0})
    return found or only_rank(case)


def site_in(facts: Iterable[Fact]) -> tuple[str, int] | None:
    """The innermost line of the program that one of the facts names."""
    for fact in facts:
        frames = fact.values.get("frames")
        if isinstance(frames, list) and (site := site_of(frames)):
            return site
    return None


def exception_beside(case: Case, fact: Fact) -> Fact | None:
    """The exception whose traceback holds a line: same file, the line within it."""
    best = None
    for other in case.of("exception"):
        if (
            other.source == fact.source
            and other.line <= fact.line <= other.line + 400
            and not (other.values.get("ignored") or other.values.get("caught"))
        ):
            best = other if best is None or other.line > best.line else best
    return best


def beside(case: Case, facts: Iterable[Fact]) -> list[Fact]:
    """The exceptions around some lines, or of the same ranks when the lines stand alone."""
    out: list[Fact] = []
    for fact in facts:
        other = exception_beside(case, fact)
        if other is not None and other not in out:
            out.append(other)
    return out


def lost_peers(case: Case, ranks: Iterable[int]) -> list[Link]:
    """The other ranks waited in vain or lost a peer: follow-ups that fit."""
    mine = set(ranks)
    others = sorted({f.rank for f in case.of("lost", "watchdog") if f.rank is not None and f.rank not in mine})
    if not others or not mine:
        return []
    first = next(f for f in case.of("lost", "watchdog") if f.rank == others[0])
    return [
        Link(
            first,
            Text(
                "{who} waited or lost the connection: a follow-up",
                "{who} 等待超时或断开连接：属于后果",
                who=named(others),
            ),
            MEDIUM,
        )
    ]


def launcher_claim(case: Case, ranks: Iterable[int]) -> list[Link]:
    """torchelastic names another rank as root cause: what it saw first."""
    mine = set(ranks)
    for fact in case.of("exit"):
        if fact.values.get("first") and fact.rank is not None and mine and fact.rank not in mine:
            return [
                Link(
                    fact,
                    Text(
                        "torchrun names rank {rank} as the first failure: it only saw that end first",
                        "torchrun 把 rank {rank} 列为首个失败：它只是最先看到该 rank 结束",
                        rank=fact.rank,
                    ),
                    "weak",
                )
            ]
    return []
