"""From hypotheses to verdicts: order, what explains what, confidence, and what was only true beside it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Hypothesis


def judged(found: list[Hypothesis], case: Case) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """(causes of the failure, strongest first; true facts that did not cause it)."""
    return [h for h in found if not h.side], [h for h in found if h.side]
