"""Ways between ranks: namespaces with networks of their own, wrong ports and names, files on a shared folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fleet_processes import COMMAND, LAUNCH, ends, machine, start

pytest.importorskip("torch")


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


def test_a_web_server_on_the_port_of_the_store(tmp_path):
    """Rank 0 finds its port held and says by what; the other rank says what answers there. Nobody waits for the other."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    server = ThreadingHTTPServer(("0.0.0.0", 0), BaseHTTPRequestHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    folder = machine(tmp_path, "gpu-00")
    try:
        port = server.server_address[1]
        words = ("--host", str(folder), "--timeout", "5", "--only", "nofile")
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
