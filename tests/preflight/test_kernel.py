"""On the real kernel: small file systems in a mount namespace of their own, lowered limits, other namespaces."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


def allowed(*words: str) -> bool:
    try:
        return subprocess.run(["unshare", *words, "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


mounting = pytest.mark.skipif(not allowed("-m"), reason="no mount namespace may be made here (needs root)")


def preflight(*options: str, before: str = "", wrap: tuple[str, ...] = (), limits=None, env=None) -> tuple[int, dict]:
    """Exit code and verdicts; `before` is run by a shell in front of it, `wrap` starts that shell."""
    words = f'{before}; exec "{sys.executable}" -m torchvet preflight --output-format json "$@"'
    r = subprocess.run(
        [*wrap, "sh", "-c", words if before else words[2:], "sh", *options],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
        preexec_fn=limits,
    )  # fmt: skip
    assert r.returncode in (0, 1), r.stderr
    return r.returncode, {x["probe"]: x for x in json.loads(r.stdout)["results"]}


JOB = ("--workers", "2", "--batch-bytes", "8MiB", "--ranks-per-node", "1")  # 6 batches, 48 MiB


@mounting
@pytest.mark.parametrize(("mount", "verdict"), [("8m", "fail"), ("50m", "warn"), ("200m", "pass")])
def test_shm_of_a_size(mount, verdict):
    code, results = preflight(*JOB, before=f"mount -t tmpfs -o size={mount} tmpfs /dev/shm", wrap=("unshare", "-m"))
    assert results["shm-size"]["verdict"] == verdict, results["shm-size"]
    assert code == (verdict == "fail")


@mounting
def test_shm_without_a_limit_passes():
    _, results = preflight(*JOB, before="mount -t tmpfs -o size=0,nr_inodes=0 tmpfs /dev/shm", wrap=("unshare", "-m"))
    assert results["shm-size"]["verdict"] == results["shm-inodes"]["verdict"] == "pass"


@mounting
def test_shm_without_inodes_fails():
    before = "mount -t tmpfs -o size=100m,nr_inodes=3 tmpfs /dev/shm; touch /dev/shm/a /dev/shm/b"
    assert preflight(*JOB, before=before, wrap=("unshare", "-m"))[1]["shm-inodes"]["verdict"] == "fail"


@mounting
def test_the_last_mount_on_shm_counts_and_may_be_read_only():
    before = "mount -t tmpfs -o size=200m tmpfs /dev/shm; mount -t tmpfs -o ro,size=100m tmpfs /dev/shm"
    _, results = preflight(*JOB, before=before, wrap=("unshare", "-m"))
    assert results["shm-read-only"]["verdict"] == "fail" and results["shm-size"]["value"] == 100 << 20


@mounting
def test_shm_on_a_disk(tmp_path):
    before = f"mount --bind {tmp_path} /dev/shm"
    _, results = preflight(*JOB, before=before, wrap=("unshare", "-m"))
    on_disk = results["shm-type"]["value"] not in ("tmpfs", "ramfs")
    assert results["shm-type"]["verdict"] == ("warn" if on_disk else "pass")


@mounting
def test_files_of_dead_processes_and_full_shm():
    before = (
        "mount -t tmpfs -o size=64m tmpfs /dev/shm; head -c 40000000 /dev/zero > /dev/shm/torch_999999999_1_2;"
        "touch /dev/shm/torch_$$_1_2"
    )
    _, results = preflight(*JOB, before=before, wrap=("unshare", "-m"))
    assert results["shm-free"]["verdict"] == "fail"
    assert "1 file in /dev/shm is left of ended processes" in results["shm-free"]["also"][0]["message"]


@mounting
def test_a_full_checkpoint_folder(tmp_path):
    before = f"mount -t tmpfs -o size=6m tmpfs {tmp_path}; head -c 4000000 /dev/zero > {tmp_path}/old"
    code, results = preflight("--checkpoint-dir", str(tmp_path), before=before, wrap=("unshare", "-m"))
    assert results["checkpoint-disk"]["verdict"] == "fail" and code == 1


def test_limits_of_a_child():
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, 4 << 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (3000, 3000))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))

    _, results = preflight("--checkpoint-bytes", "2GiB", limits=lower)
    assert results["nofile"]["verdict"] == "fail" and results["nofile"]["value"] == 200
    assert results["stack"]["verdict"] == "warn" and results["cpu-time"]["verdict"] == "warn"
    assert results["file-size"]["verdict"] == "fail" and results["memlock"]["value"] == 65536


def test_one_cpu():
    cpu = min(os.sched_getaffinity(0))
    _, results = preflight("--workers", "4", limits=lambda: os.sched_setaffinity(0, {cpu}))
    assert results["cpu-quota"]["value"] == 1 and results["cpu-quota"]["verdict"] == "warn"


@pytest.mark.skipif(not allowed("-i"), reason="no IPC namespace may be made here (needs root)")
def test_an_ipc_namespace_of_its_own():
    assert preflight(wrap=("unshare", "-i"))[1]["ipc-namespace"]["value"] == "private"


def test_a_folder_that_cannot_be_written():
    _, results = preflight("--checkpoint-dir", "/proc/self")
    assert results["checkpoint-disk"]["verdict"] == "fail"


def test_nothing_on_the_machine_is_changed(tmp_path):
    before = sorted(os.listdir("/dev/shm")), sorted(os.listdir(tmp_path))
    preflight("--checkpoint-dir", str(tmp_path), "--data-dir", str(tmp_path), env={"TMPDIR": str(tmp_path)})
    assert (sorted(os.listdir("/dev/shm")), sorted(os.listdir(tmp_path))) == before


@mounting
@pytest.mark.parametrize("timeout", ["3", "10"])
def test_a_hanging_nvidia_smi_hides_no_other_result(tmp_path, timeout):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nsleep 300\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    began = time.monotonic()
    code, results = preflight(
        "--timeout", timeout, before="mount -t tmpfs -o size=64m tmpfs /dev/shm", wrap=("unshare", "-m"),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert time.monotonic() - began < float(timeout) + 1.5
    assert code == 1 and results["shm-size"]["verdict"] == "fail", results["shm-size"]
    assert results["gpu-driver"]["verdict"] == "fail"


@pytest.mark.parametrize("mebibytes", [60, 100, 150, 200, 300])
def test_few_addresses_are_reported_not_stumbled_over(mebibytes):
    size = mebibytes << 20
    _, results = preflight(limits=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    assert results["virtual-memory"]["verdict"] == "warn" and results["virtual-memory"]["value"] == size
    assert not [r for r in results.values() if "the probe failed" in r["message"]]


def test_few_open_files():
    _, results = preflight(limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    assert results["nofile"]["verdict"] == "fail" and results["nofile"]["value"] == 16
