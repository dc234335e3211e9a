"""Jobs that do what a recorder might disturb: they must go on as without it, and the evidence must be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from jobs import settings

from torchvet.run.graph_probe import GraphProbe

TRAIN = """
import os, sys, time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps=5, pace=0.0):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(pace)
"""
GLOO = """
import os, socket, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
def join(rank, port):
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"tcp://127.0.0.1:{port}")
    dist.all_reduce(torch.ones(1))
"""
RUN = [sys.executable, "-m", "torchvet", "run", "--out", "kept", "--interval", "0.2", "--"]


@pytest.fixture
def under(tmp_path):
    """`under(source)` runs a program under `torchvet run` in a folder of its own."""

    def start(*parts: str, **more) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / "p.py").write_text("".join(map(textwrap.dedent, parts)))
        return subprocess.run(
            [*RUN, sys.executable, "p.py"], env=settings(), cwd=tmp_path, capture_output=True, timeout=120, **more
        )

    return start


def found(tmp_path, rank: int, name: str) -> dict:
    path = tmp_path / "kept" / "attempt_0" / f"rank_{rank}" / name
    return json.loads(path.read_text()) if path.exists() else {}


# ------------------------------------------------------------------------------------------------- the process's own
def test_excepthook_of_the_job_in_a_script_that_first_asks_whether_torch_is_there(under, tmp_path):
    pytest.importorskip("torch")
    done = under(
        "import importlib.util\nassert importlib.util.find_spec('torch')\n", TRAIN,
        """
        train()
        sys.excepthook = lambda kind, value, trace: print("MINE", kind.__name__, file=sys.stderr)
        raise ValueError("here")
        """,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.endswith(b"MINE ValueError\n")
    assert found(tmp_path, 0, "exception.json")["message"] == "here"
    assert (found(tmp_path, 0, "end.json")["how"], found(tmp_path, 0, "end.json")["step"]) == ("exception", 5)


def test_watchdog_of_the_job_bites(under):
    """faulthandler has one timer for each process: it is the job's."""
    pytest.importorskip("torch")
    done = under(
        "from faulthandler import dump_traceback_later\n", TRAIN,
        "train()\ndump_traceback_later(2.0, exit=True)\ntime.sleep(60)\n",
    )  # fmt: skip
    assert done.returncode == 1 and b"Timeout" in done.stderr


def test_exit_that_somebody_catches_is_no_exit(under, tmp_path):
    pytest.importorskip("torch")
    done = under(TRAIN, "train()\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    train()\n")
    assert done.returncode == 0 and "code" not in found(tmp_path, 0, "end.json")


def test_descriptors_that_the_job_closes_and_uses_again(under):
    pytest.importorskip("torch")
    done = under(
        TRAIN,
        """
        train(3)
        os.closerange(3, 256)
        files = [open(f"mine{i}", "w") for i in range(6)]
        open(os.path.join("kept", "attempt_0", "dump-request"), "w").close()
        train(3, 0.3)
        print([os.path.getsize(f.name) for f in files])
        """,
    )
    assert done.stdout == b"[0, 0, 0, 0, 0, 0]\n", done.stderr


# ------------------------------------------------------------------------------------------------- ranks
def test_ranks_that_a_script_forks(under, tmp_path):
    pytest.importorskip("torch")
    done = under(
        GLOO,
        """
        torch.set_num_threads(1)
        def work(rank, port):
            join(rank, port)
            if rank == 1:
                raise KeyError("token")
        mp.start_processes(work, args=(port(),), nprocs=2, start_method="fork")
        """,
    )
    assert done.returncode == 1
    assert [found(tmp_path, r, "about.json").get("rank") for r in (0, 1)] == [0, 1]
    assert found(tmp_path, 1, "exception.json")["type"] == "KeyError"


def test_exception_in_a_process_of_the_script(under, tmp_path):
    """multiprocessing prints the exception and leaves: no excepthook is called."""
    pytest.importorskip("torch")
    done = under(
        GLOO,
        """
        def work(rank, port):
            join(rank, port)
            if rank == 1:
                raise KeyError("token")
        if __name__ == "__main__":
            at = port()
            processes = [mp.get_context("spawn").Process(target=work, args=(r, at)) for r in (0, 1)]
            for p in processes:
                p.start()
            for p in processes:
                p.join()
            print([p.exitcode for p in processes])
        """,
    )
    assert done.stdout == b"[0, 1]\n"
    assert found(tmp_path, 1, "exception.json")["message"] == "'token'"
    assert found(tmp_path, 1, "end.json")["how"] == "exception" and found(tmp_path, 0, "end.json")["code"] == 0


# ------------------------------------------------------------------------------------------------- compiled code
def test_hooks_leave_nothing_in_compiled_code(tmp_path):
    """Neither a broken graph (an error where the whole is wanted) nor a reason to compile again."""
    pytest.importorskip("torch")
    program = TRAIN + textwrap.dedent(
        """
        import torch._dynamo
        from torch._dynamo.utils import counters
        from torchvet.run.rank import Watch, settings_of
        watch = Watch(torch, "kept", settings_of({"interval": 100.0}))
        watch.install()
        watch.begin()
        watch.graphs.open_window()
        assert watch.graphs.hooks
        torch._dynamo.optimize(backend="eager", nopython=True)(lambda x: model(x))(torch.ones(2, 4))
        whole = torch.compile(model, backend="eager", fullgraph=True)
        assert not watch.graphs.hooks, "no window where torch.compile is asked for"
        watch.graphs.open_window()
        assert not watch.graphs.hooks
        whole(torch.ones(2, 4)).sum().backward()
        step = torch.compile(optimizer.step, backend="eager")

        @torch.compile(backend="eager")
        def all_of_it():
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

        for _ in range(12):
            step()
            all_of_it()
        assert watch.graphs.backwards == 13 and watch.graphs.failed == 0, (watch.graphs.backwards, watch.graphs.failed)
        train(1)
        ours = [k for kind in counters.values() for k in kind if "torchvet" in str(k) or "getpid" in str(k)]
        print(ours)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=settings(), cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"[]\n" and b"torchvet" not in done.stderr


# ------------------------------------------------------------------------------------------------- live graphs
@pytest.mark.parametrize("steps_in_between", [False, True])
def test_episodes_that_let_go_at_their_end(steps_in_between):
    """Forwards of an episode wait for one backward: within it, and from one to the next, their number rises."""
    torch = pytest.importorskip("torch")
    probe = GraphProbe(torch)
    x = torch.ones(1, requires_grad=True)
    for steps, length in enumerate((40, 80, 160, 320, 640, 1280)):
        kept = []
        for n in range(length):
            kept.append(x * 2)
            probe.mark(kept[-1].grad_fn, sys._getframe())
            if n % 30 == 29:
                probe.look(steps)
        if steps_in_between:
            probe.look(steps)
        kept.clear()
        probe.backwards += 1
        assert not probe.growing()


def test_graphs_that_nobody_lets_go_rise_over_steps():
    torch = pytest.importorskip("torch")
    probe = GraphProbe(torch)
    x = torch.ones(1, requires_grad=True)
    kept, said = [], []
    for step in range(60):
        kept.append(x * 2)
        probe.mark(kept[-1].grad_fn, sys._getframe())
        if step % 10 == 9:
            probe.look(step)
            said += probe.growing()
    assert len(said) == 1


# ------------------------------------------------------------------------------------------------- streams
@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
def test_inherited_descriptors_reach_the_job(tmp_path):
    """`train.py --config <(generate)` gives /dev/fd/63."""
    script = 'exec 7<p.txt; exec "$@"'
    (tmp_path / "p.txt").write_text("from the shell")
    words = [*RUN, sys.executable, "-c", "import os; print(os.read(7, 99).decode())"]
    done = subprocess.run(["sh", "-c", script, "sh", *words], env=settings(), cwd=tmp_path, capture_output=True)
    assert done.stdout == b"from the shell\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_daemon_of_the_job_can_go_on_writing(tmp_path):
    program = """
    import os, time
    print("first", flush=True)
    if os.fork() == 0:
        os.setsid()
        time.sleep(3)
        os.write(1, b"late\\n")
        open("written", "w").close()
    """
    words = [*RUN, sys.executable, "-c", textwrap.dedent(program)]
    began = time.monotonic()
    process = subprocess.Popen(words, env=settings(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.wait(60) == 0
    held = time.monotonic() - began
    assert process.stdout is not None and process.stdout.read() == b"first\nlate\n"
    assert (tmp_path / "written").exists() and time.monotonic() - began > held + 0.2, "the run did not wait for it"


def test_a_slow_reader_gets_everything(tmp_path):
    words = " ".join(map(str, [*RUN, sys.executable, "-c", "'print(\"x\" * 300000)'"]))
    done = subprocess.run(
        f"{words} | (sleep 4; wc -c)", shell=True, env=settings(), cwd=tmp_path, capture_output=True, timeout=60
    )
    assert int(done.stdout) == 300001


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_one_interrupt_of_the_terminal_is_one(tmp_path):
    """Standard input leads elsewhere, but Ctrl-C reaches the job by its terminal: not twice."""
    import pty

    program = (
        "import signal, time; seen = []; signal.signal(2, lambda *a: seen.append(1)); print('ready', flush=True)\n"
        "end = time.time() + 2\nwhile time.time() < end: time.sleep(0.1)\nprint('seen', len(seen), flush=True)"
    )
    words = [*RUN, sys.executable, "-c", program]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ.update(settings())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(words[0], words)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    while b"seen" not in seen.replace(b"seen = []", b""):
        seen += os.read(terminal, 4096)
    seen += os.read(terminal, 100) if not seen.endswith(b"\n") else b""
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"seen 1" in seen
