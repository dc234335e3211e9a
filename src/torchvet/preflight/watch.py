"""What changed between two looks at a machine."""

from __future__ import annotations

from .probe import VERDICTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .node import NodeReport
    from .probe import Result


def changes(before: NodeReport | None, now: NodeReport) -> list[tuple[str, Result | None, Result | None]]:
    """(probe, worst result before, worst result now) where the verdict is another one; the first look shows what does
    not pass. None: the probe gave no result."""
    old, new = _worst(before) if before else {}, _worst(now)
    out: list[tuple[str, Result | None, Result | None]] = []
    for probe in sorted({*old, *new}):
        a, b = old.get(probe), new.get(probe)
        if before is None:
            if b is not None and b.verdict != VERDICTS[0]:
                out.append((probe, a, b))
        elif (a and a.verdict) != (b and b.verdict):
            out.append((probe, a, b))
    return out


def _worst(report: NodeReport) -> dict[str, Result]:
    out: dict[str, Result] = {}
    for r in reversed(report.worst_first()):
        out[r.probe] = r
    return out
