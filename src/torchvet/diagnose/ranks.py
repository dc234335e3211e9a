"""What all facts together say of each rank: numbers, processes, nodes, ends."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case


def settle(case: Case) -> None:
    """Fill `case.ranks`, the size of the job and what is missing; give facts that know only a process or a local rank
    the global rank they are about."""
