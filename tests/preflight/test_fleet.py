"""Several ranks, as real processes: what rank 0 says, that nobody hangs, that all end with one code."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchvet.preflight.fleet import wanted
from torchvet.preflight.fleet_merge import merge

pytest.importorskip("torch")

HERE = Path(__file__).parent
BASE = HERE / "machines" / "bare-workstation"
COMMAND = [sys.executable, "-m", "torchvet", "preflight", "--lang", "en", "--color", "never"]
LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def machine(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A recorded machine with another name and other words in its host.toml."""
    shutil.copytree(BASE, folder / name)
    path = folder / name / "host.toml"
    text = path.read_text("utf-8").replace('"hostname" = "bare-workstation"', f'"hostname" = "{name}"')
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    return folder / name


def start(
    rank: int, world: int, local: int, port: int, *words: str, env: dict[str, str] | None = None
) -> subprocess.Popen:
    own = {k: v for k, v in os.environ.items() if k not in LAUNCH and not k.startswith(("SLURM_", "OMPI_", "PMI"))}
    own |= {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local), "LOCAL_WORLD_SIZE": str(local),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **(env or {}),
    }  # fmt: skip
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)


def ends(processes: list[subprocess.Popen], seconds: float) -> list[tuple[int, str, str]]:
    out = []
    end = time.monotonic() + seconds
    try:
        for p in processes:
            said, complained = p.communicate(timeout=max(0.1, end - time.monotonic()))
            out.append((p.returncode, said, complained))
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
    return out


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


def test_a_web_server_on_the_port_of_the_store(tmp_path):
    """Rank 0 finds its port held and says by what; the other rank says what answers there. Nobody waits for the other."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    server = ThreadingHTTPServer(("0.0.0.0", 0), BaseHTTPRequestHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    folder = machine(tmp_path, "gpu-00")
    try:
        port = server.server_address[1]
        words = ("--host", str(folder), "--timeout", "8", "--only", "nofile")
        done = ends([start(r, 2, 1, port, *words) for r in range(2)], 60)
    finally:
        server.shutdown()
    assert [code for code, _, _ in done] == [1, 1]
    assert "it is held by a web server (HTTP)" in done[0][1]
    assert "a web server (HTTP)" in done[1][1]


def test_a_name_without_an_address(tmp_path):
    folder = machine(tmp_path, "gpu-01")
    words = ("--host", str(folder), "--timeout", "4", "--only", "nofile")
    ((code, said, _),) = ends([start(1, 2, 1, 1234, *words, env={"MASTER_ADDR": "no-such-host.invalid"})], 40)
    assert code == 1 and "no-such-host.invalid has no address on this node" in said


def run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


@pytest.fixture
def star():
    """Three network namespaces: both outer ones reach the middle one, and not each other."""
    name = f"tv{os.getpid()}-"
    names = [name + str(n) for n in range(3)]
    try:
        try:
            for n in names:
                run_ip("netns", "add", n)
                run_ip("-n", n, "link", "set", "lo", "up")
            for n in (1, 2):
                run_ip(
                    "link", "add", "v0", "netns", names[n], "type", "veth", "peer", "name", f"v{n}", "netns", names[0]
                )
                run_ip("-n", names[0], "addr", "add", f"10.99.{n}.1/24", "dev", f"v{n}")
                run_ip("-n", names[n], "addr", "add", f"10.99.{n}.2/24", "dev", "v0")
                run_ip("-n", names[0], "link", "set", f"v{n}", "up")
                run_ip("-n", names[n], "link", "set", "v0", "up")
            run_ip("-n", names[2], "route", "add", "10.99.1.1/32", "via", "10.99.2.1")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces need root: {error}")
        yield names
    finally:
        for n in names:
            subprocess.run(["ip", "netns", "del", n], capture_output=True, timeout=10)


def test_real_machines_in_namespaces(star):
    """Own network, hostname and /dev/shm each: nodes 1 and 2 have no way to each other, node 1 has 16 MiB of /dev/shm."""
    processes = []
    for rank in (2, 1, 0):
        size = "16m" if rank == 1 else "6g"
        shell = (
            f'mount -t tmpfs -o size={size} tmpfs /dev/shm && echo gpu-{rank} > /proc/sys/kernel/hostname && exec "$@"'
        )
        own = {k: v for k, v in os.environ.items() if k not in LAUNCH}
        own |= {
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "10.99.1.1",
            "MASTER_PORT": "29500",
        }
        words = ["ip", "netns", "exec", star[rank], "unshare", "-m", "-u", "sh", "-c", shell, "sh", *COMMAND]
        words += ["--timeout", "40", "--workers", "2", "--batch-bytes", "20MB", "--only", "shm-size,master-addr"]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own))
    done = ends(processes, 100)
    assert [code for code, _, _ in done] == [1, 1, 1], done
    said = " ".join(done[2][1].split())
    assert "3 nodes, 3 of 3 ranks" in said
    assert "gpu-1: /dev/shm has 16 MiB; this job asks for up to 114 MiB" in said
    assert "gpu-1 cannot connect to gpu-2" in said and "gpu-2 cannot connect to gpu-1" in said
    assert "cannot connect to gpu-0" not in said
    assert "3 failed" in said


def test_files_on_a_shared_folder(tmp_path):
    """The way without a network, and that it says the same."""
    a, b = machine(tmp_path, "a"), machine(tmp_path, "b", ('"torch" = "2.9.1+cpu"', '"torch" = "2.8.0+cpu"'))
    out = tmp_path / "reports"
    done = ends([start(i, 3, 1, 1, "--host", str(f), "--out", str(out)) for i, f in enumerate((a, b))], 60)
    assert [code for code, _, _ in done] == [0, 0]
    files = sorted(str(p) for p in out.iterdir())
    assert [Path(f).name for f in files] == ["rank-00000.json", "rank-00001.json"]
    merged = subprocess.run([*COMMAND, "merge", *files], capture_output=True, text=True, timeout=30)
    assert merged.returncode == 1
    assert "rank 2 never reported" in merged.stdout and "b: 2.8.0+cpu" in merged.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"messages": 3}',
        '{"messages": [{}]}',
        '{"messages": [{"kind": "rank", "rank": "x"}]}',
        "[" * 5000,
    ],
)
def test_files_of_something_else(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    done = subprocess.run([*COMMAND, "merge", str(path)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "was not written by" in done.stderr and "Traceback" not in done.stderr


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


def test_one_process_is_no_fleet():
    assert not wanted({})
    assert not wanted({"RANK": "0", "WORLD_SIZE": "1"})
    assert not wanted({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"})  # the batch script itself
    assert wanted({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"})
    assert wanted({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"})
    assert wanted({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "4"})
