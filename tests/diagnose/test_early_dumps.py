"""A dump that was written before there was a process group says nothing: a later one counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from torchvet.diagnose.engine import diagnose

INCIDENT = Path(__file__).parent / "incidents" / "gloo-growth-and-hang" / "evidence"
EMPTY = {"comm_lib_version": "", "nccl_comm_state": {}, "pg_config": {}, "pg_status": {}, "version": "2.10"}


def test_dump_before_the_group(tmp_path):
    job = tmp_path / "job"
    shutil.copytree(INCIDENT, job)
    for path in (job / "fr_live").iterdir():
        path.unlink()
    for rank in range(3):
        (job / "fr_live" / f"rank_{rank}.json").write_text(json.dumps(EMPTY))
    found = diagnose([str(job)]).verdicts[0]
    assert (found.cause, found.ranks) == ("collective-mismatch", [2])
