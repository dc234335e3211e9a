"""Who waits for whom: the progress of every rank in every process group, from whatever tells it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case


class Waits:
    def __init__(self, case: Case) -> None:
        self.case = case
