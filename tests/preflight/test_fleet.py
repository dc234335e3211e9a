"""Several ranks, as real processes: what rank 0 says, that nobody hangs, that all end with one code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from fleet_processes import COMMAND, LAUNCH, ends, free_port, machine, start

pytest.importorskip("torch")


def test_four_nodes_with_four_faults(tmp_path):
    """Node 0 has a small /dev/shm, node 1 another torch, node 2 never starts, node 3 a clock that is 120 s ahead."""
    small = '[space."/dev/shm"]\n"size" = "128GiB"\n"free" = "128GiB"'
    folders = {
        0: machine(tmp_path, "gpu-00", (small, small.replace("128GiB", "64MiB"))),
        1: machine(tmp_path, "gpu-01", ('"torch" = "2.9.1+cpu"', '"torch" = "2.8.0+cpu"')),
        3: machine(tmp_path, "gpu-03", ('"now" = 1795996800.0', '"now" = 1795996920.0')),
    }
    port = free_port()
    job = ["--workers", "4", "--batch-bytes", "31MB", "--timeout", "20", "--output-format", "json"]
    ranks = [r for n in folders for r in (2 * n, 2 * n + 1)]
    # rank 0 last: its clock for the missing ones starts when it is ready
    processes = {r: start(r, 8, 2, port, "--host", str(folders[r // 2]), *job) for r in reversed(ranks)}
    done = dict(zip(processes, ends(list(processes.values()), 90)))
    assert {code for code, _, _ in done.values()} == {1}, done
    report = json.loads(done[0][1])
    failed = {r["probe"]: r for r in report["results"] if r["verdict"] == "fail"}
    assert report["results"][0]["probe"] == "fleet-missing", done  # first of all
    assert failed["fleet-missing"]["message"] == "rank 4-5 never reported (all of node 2)"
    assert failed["shm-size"]["message"].startswith("gpu-00: /dev/shm has 64 MiB")
    assert "gpu-01: 2.8.0+cpu; the other 2 nodes: 2.9.1+cpu" in failed["fleet-torch"]["message"]
    assert "the clock of gpu-03 is 120.0 s ahead" in failed["fleet-clock"]["message"]
    assert set(failed) == {"fleet-missing", "shm-size", "fleet-torch", "fleet-clock"}
    for rank in ranks[1:]:
        assert done[rank][1] == ""
        assert f"rank {rank} on gpu-0{rank // 2}: 4 failures in the fleet" in done[rank][2]


def test_three_healthy_ranks_under_torchrun(tmp_path):
    folder = machine(tmp_path, "gpu-07")
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", "--no-python"]
    words = [*run, *COMMAND, "--host", str(folder), "--timeout", "25", "--collective", "--verbose"]
    env = {k: v for k, v in os.environ.items() if k not in LAUNCH}
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 node, 3 of 3 ranks" in done.stdout
    assert "all_reduce over gloo, 3 ranks" in done.stdout
    assert done.stderr.count("nothing stops the job") == 2
