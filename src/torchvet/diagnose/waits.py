"""Who waits for whom: the progress of every rank in every process group, from whatever tells it."""

from __future__ import annotations

from .waits_graph import Stuck, Wait, roots_and_cycles, stuck_of, waits_of
from .waits_groups import group_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case


class Waits:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.groups = group_states(case)
        self.waits: list[Wait] = [w for g in self.groups for w in waits_of(g)]
        self.stuck: list[Stuck] = [s for g in self.groups for s in stuck_of(g)]
        self.roots, self.cycles = roots_and_cycles(self.waits)
