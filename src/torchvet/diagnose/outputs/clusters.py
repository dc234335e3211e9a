"""Stacks of all ranks, gathered: which ranks stand in the same place, and which do not."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..sites import is_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Diagnosis

DEEPEST = 12


@dataclass(slots=True)
class Cluster:
    """Ranks whose main threads stand at the same frames: (path, line, function), innermost first, foreign ones between
    the innermost and the user's own left out."""

    frames: list[tuple[str, int, str]]
    ranks: list[int] = field(default_factory=list)


def clusters(diagnosis: Diagnosis) -> list[Cluster]:
    """The largest first."""
    latest: dict[int, list[tuple[str, int, str]]] = {}
    for fact in diagnosis.case.of("stack"):
        frames = told(fact.values.get("main"))
        if fact.rank is not None and frames:
            latest[fact.rank] = frames
    out: dict[tuple[tuple[str, int, str], ...], Cluster] = {}
    for rank, frames in sorted(latest.items()):
        out.setdefault(tuple(frames), Cluster(frames)).ranks.append(rank)
    return sorted(out.values(), key=lambda c: (-len(c.ranks), c.ranks[0]))


def told(frames: object) -> list[tuple[str, int, str]]:
    """The frames worth showing."""
    rows = []
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, (list, tuple)) and len(frame) >= 2 and isinstance(frame[0], str):
            line = frame[1] if isinstance(frame[1], int) else 0
            rows.append((frame[0], line, str(frame[2]) if len(frame) > 2 and frame[2] else ""))
    own = [r for r in rows if is_user(r[0])]
    if not rows:
        return []
    first = [] if is_user(rows[0][0]) else [rows[0]]
    return [*first, *(own or rows[1:])][:DEEPEST]


def line_of(cluster: Cluster) -> str:
    """ "barrier ← train.py:32 ← main.py:8"."""
    parts = []
    for path, line, function in cluster.frames[:4]:
        short = path.replace("\\", "/").rpartition("/")[2]
        parts.append(function if function and not is_user(path) else f"{short}:{line}" if line else short)
    return " ← ".join(parts)
