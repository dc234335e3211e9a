"""Real jobs, run now: three processes under torchrun, one fault, logs only. What torchrun calls the root cause is often
the rank that waited; the verdict must not follow it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet.diagnose.engine import diagnose

pytest.importorskip("torch")
PROGRAM = Path(__file__).parent / "programs" / "faulty.py"
LIMIT = 100

if sys.platform != "linux":
    pytest.skip("torchrun with gloo on Linux", allow_module_level=True)


def run(fault: str, folder: Path) -> None:
    """Leave what a user would have: launcher.log, logs/, exit.json."""
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "3",
        "--standalone",
        "--log-dir",
        str(folder / "logs"),
        "-r",
        "3",
        str(PROGRAM),
        fault,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        environment.pop(name, None)
    with (folder / "launcher.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            pytest.skip(f"the job did not end in {LIMIT} s on this machine")
    (folder / "exit.json").write_text(json.dumps({"launcher": code}))


@pytest.mark.parametrize(
    ("fault", "causes", "ranks"),
    [
        ("leaves", {"rank-absent", "uneven-inputs"}, [1]),
        ("stalls", {"host-stall", "rank-absent"}, [0]),
        ("raises", {"rank-absent"}, [2]),
        ("roots", {"collective-mismatch"}, [0, 1, 2]),
        ("none", set(), []),
    ],
)
def test_fresh_run(fault, causes, ranks, tmp_path):
    run(fault, tmp_path)
    found = diagnose([str(tmp_path)])
    if not causes:
        assert not found.verdicts and not found.side_findings
        return
    first = found.verdicts[0]
    assert first.cause in causes and first.ranks == ranks, [(h.cause, h.ranks) for h in found.verdicts]
    claimed = [f.rank for f in found.case.of("exit") if f.values.get("first")]
    if claimed and claimed[0] not in ranks:
        assert any(link.fact and link.fact.values.get("first") for link in first.contradicts), (
            "the launcher's claim is not spoken of"
        )
