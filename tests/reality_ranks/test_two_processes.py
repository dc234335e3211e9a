"""The static verdict against two real processes over gloo: what is reported hangs or fails, its repaired form ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "flow"))

from rank_programs import found

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="no gloo"
)

LIMIT = 25.0
"""Seconds for both processes to end; importing torch twice on a busy machine takes most of them."""
PATIENCE = 4
"""Seconds that a collective waits for its partner."""

START = f"""
import datetime, sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={PATIENCE}))
"""
END = """
print("ended", flush=True)
sys.stdin.read()
"""
"""A rank that is through stays alive, as its peers' connections would break otherwise and hide the hang."""

CASES = {
    "barrier on rank 0": (
        """
        if dist.get_rank() == 0:
            dist.barrier()
        t = torch.ones(3)
        dist.all_reduce(t)
        """,
        """
        if dist.get_rank() == 0:
            print("ready")
        dist.barrier()
        t = torch.ones(3)
        dist.all_reduce(t)
        """,
    ),
    "return before all_reduce": (
        """
        def evaluate(t):
            if dist.get_rank() != 0:
                return t
            dist.all_reduce(t)
            return t
        evaluate(torch.ones(2))
        """,
        """
        def evaluate(t):
            dist.all_reduce(t)
            if dist.get_rank() != 0:
                return t
            return t / 2
        evaluate(torch.ones(2))
        """,
    ),
    "forward of a model with buffers": (
        """
        model = DDP(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        model(torch.randn(4, 4)).mean().backward()
        if dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 4))
        dist.barrier()
        """,
        """
        model = DDP(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        model(torch.randn(4, 4)).mean().backward()
        if dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                model.module(torch.randn(4, 4))
        dist.barrier()
        """,
    ),
    "early stopping on rank 0": (
        """
        for epoch in range(4):
            t = torch.ones(1)
            dist.all_reduce(t)
            if dist.get_rank() == 0:
                if epoch == 1:
                    break
        """,
        """
        for epoch in range(4):
            t = torch.ones(1)
            dist.all_reduce(t)
            stop = [False]
            if dist.get_rank() == 0:
                stop[0] = epoch == 1
            dist.broadcast_object_list(stop, src=0)
            if stop[0]:
                break
        """,
    ),
    "the halves of a pair": (
        """
        if dist.get_rank() != 0:
            dist.barrier()
        print("loading")
        """,
        """
        if dist.get_rank() != 0:
            dist.barrier()
        print("loading")
        if dist.get_rank() == 0:
            dist.barrier()
        """,
    ),
    "skipped backward": (
        """
        model = DDP(nn.Linear(2, 1))
        for step in range(3):
            x = torch.ones(2, 2)
            if step == 1 and dist.get_rank() == 0:
                x = x * float("nan")
            loss = model(x).mean()
            if torch.isnan(loss):
                continue
            loss.backward()
        """,
        """
        model = DDP(nn.Linear(2, 1))
        for step in range(3):
            x = torch.ones(2, 2)
            if step == 1 and dist.get_rank() == 0:
                x = x * float("nan")
            loss = model(x).mean()
            bad = torch.isnan(loss).float().detach()
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
            if bad.item() > 0:
                continue
            loss.backward()
        """,
    ),
}


def program(body: str) -> str:
    return START + textwrap.dedent(body) + END


def run(source: str, tmp_path) -> bool:
    """Whether both processes come to the end."""
    script = tmp_path / "program.py"
    script.write_text(source, encoding="utf-8")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    base = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    ended = [False, False]
    try:
        import threading

        def watch(n: int) -> None:
            for line in processes[n].stdout or ():
                if line.strip() == "ended":
                    ended[n] = True
                    return

        threads = [threading.Thread(target=watch, args=(n,), daemon=True) for n in range(2)]
        for t in threads:
            t.start()
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit and any(t.is_alive() for t in threads):
            time.sleep(0.05)
        return all(ended)
    finally:
        for p in processes:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            for pipe in (p.stdin, p.stdout):
                if pipe:
                    pipe.close()


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_faulty_form(tmp_path, name):
    source = program(CASES[name][0])
    assert found(tmp_path, program=source), "not reported"
    assert not run(source, tmp_path), "reported, but both processes ended"


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_repaired_form(tmp_path, name):
    source = program(CASES[name][1])
    assert found(tmp_path, program=source) == []
    assert run(source, tmp_path), "not reported, but it does not end"
