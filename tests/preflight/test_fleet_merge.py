"""What the messages of ranks mean together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from torchvet.preflight.fleet import wanted
from torchvet.preflight.fleet_facts import code
from torchvet.preflight.fleet_merge import merge
from torchvet.preflight.host import Host


def rank(number: int, world: int = 4, **more: object) -> dict:
    row = {
        "kind": "rank", "rank": number, "world": world, "local_rank": 0, "local_world": 1, "launcher": "torchrun",
        "host": f"n{number}", "boot_id": str(number), "env": {}, "limits": {}, "cpus": "0-3", "all_cpus": 4,
        "visible": None, "address": "", "port": 0,
    }  # fmt: skip
    return {**row, **more}


def said(report, probe: str) -> list[str]:
    return [f"{r.verdict}: {r.message}" for r in report.results if r.probe == probe]


def test_variables_that_differ():
    rows = [
        rank(i, env={"NCCL_DEBUG": "INFO" if i == 2 else "WARN", "TORCH_FR_DUMP_TEMP_FILE": f"/logs/{i}"})
        for i in range(4)
    ]
    assert said(merge(rows), "fleet-environment") == [
        "warn: NCCL_DEBUG differs: 'INFO' on rank 2, 'WARN' on the others"
    ]


def test_ranks_that_exist_twice_and_share_a_gpu():
    rows = [
        rank(0),
        rank(1, host="n0", boot_id="0", visible="0"),
        rank(1, visible="0"),
        rank(2, host="n0", boot_id="0", visible="0"),
    ]
    report = merge(rows)
    assert said(report, "fleet-ranks") == ["fail: rank 1 exists 2 times, on n0, n1"]
    assert said(report, "fleet-gpus") == ["fail: n0: ranks 1-2 share GPU 0"]
    assert report.missing == [3]


def test_a_thousand_nodes_are_counted_not_listed():
    rows = [rank(i, 1000) for i in range(1000) if i % 8]
    report = merge(rows)
    text = said(report, "fleet-missing")[0]
    assert "rank 0, 8, 16" in text and len(report.missing) == 125
    assert len(report.results) < 5


def test_every_result_is_explained():
    """Names in the source against the table of the page."""
    import re

    import torchvet.preflight as package
    from torchvet.preflight.fleet_drift import _NODE
    from torchvet.preflight.fleet_pages import topics

    names = {"fleet-" + key.replace("_", "-") for key, _, _ in _NODE}
    for path in Path(package.__file__).parent.glob("fleet*.py"):
        names |= set(re.findall(r'"(fleet-[a-z-]+[a-z])"', path.read_text("utf-8")))
    names -= {"fleet-missing-"}
    assert names and names <= {t.name for t in topics()}, names - {t.name for t in topics()}


def test_the_code_is_identified_and_nothing_is_written(tmp_path, monkeypatch):
    """Not even the refreshed index that `git status` writes: killed at its limit it would leave a lock."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "train.py").write_text("x = 1\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    monkeypatch.chdir(tmp_path)
    clean = code(Host())
    assert len(clean) == 12
    os.utime(tmp_path / "train.py", (1, 1))  # an index that git would like to refresh
    index = (tmp_path / ".git" / "index").read_bytes()
    assert code(Host()) == clean
    (tmp_path / "train.py").write_text("x = 2\n")
    assert code(Host()).startswith(clean + " + changes ")
    assert (tmp_path / ".git" / "index").read_bytes() == index


def test_one_process_is_no_fleet():
    assert not wanted({})
    assert not wanted({"RANK": "0", "WORLD_SIZE": "1"})
    assert not wanted({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"})  # the batch script itself
    assert wanted({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"})
    assert wanted({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"})
    assert wanted({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "4"})
