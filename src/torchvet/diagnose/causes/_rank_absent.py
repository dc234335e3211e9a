"""Which ranks ended by themselves, and which were only waiting."""

from __future__ import annotations

from ..absence import own_exception, unlisted
from ..waits_stacks import COLLECTIVE, HANDLE, PAIRS, RECEIVE, SEND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case
    from ..waits import Waits


def waited(waits: Waits, rank: int) -> bool:
    """Whether a dump or a stack shows the rank inside a call of its own."""
    at = waits.places.get(rank)
    return waits.busy(rank) or (at is not None and at.what in (COLLECTIVE, SEND, RECEIVE, PAIRS, HANDLE))


def ended_by_itself(case: Case, rank: int) -> bool:
    known = case.ranks[rank]
    return own_exception(case, rank) is not None or (known.code is not None and not known.closed) or (
        known.code is None and any(f.values.get("done") for f in case.of("output", rank=rank))
    ) or (known.code is None and not known.closed and unlisted(case, rank))  # fmt: skip
