"""The four public sets of a 16-rank NCCL job with injected faults: foreign data, read where it lies, skipped where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchvet.diagnose.engine import read
from torchvet.diagnose.model import Case

INCIDENTS = Path(__file__).resolve().parents[2].parent / "shared" / "incidents"
SETS = {
    "nvrx-gpu_error_1st": ([12, 14], [12, 14]),
    "nvrx-gpu_error_2nd": ([9, 14], [9, 14]),
    "nvrx-lock_gil_1st": ([9, 14], []),
    "nvrx-lock_gil_2nd": ([10, 15], []),
}
"""name -> (injected ranks, those of them whose device is stuck)."""

pytestmark = pytest.mark.skipif(not (INCIDENTS / "nvrx-lock_gil_1st").is_dir(), reason="the public sets are not here")


@pytest.mark.parametrize("name", SETS)
def test_roots_and_stuck_devices_are_the_injected_ranks(name):
    facts, inventory = read([str(INCIDENTS / name / "evidence")])
    assert not inventory.problems
    waits = Case(facts, inventory).waits
    stuck = sorted({s.rank for s in waits.stuck})
    assert (sorted({*waits.roots, *stuck}), stuck) == SETS[name]
    assert not waits.cycles
