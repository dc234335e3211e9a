"""Each fault of a real job leaves evidence that names the rank, and leaks the line; the job's exit code stays."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs import JOB, command, settings

from torchvet.diagnose.engine import diagnose
from torchvet.run import host_series

LINES = JOB.read_text().splitlines()


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(LINES, 1) if text in line)


def test_healthy_job_is_left_alone(job):
    left = job("none")
    assert left.code == 0
    assert sorted(left.stdout.split("\n")) == ["", "finished 0", "finished 1"]
    for rank in (0, 1):
        assert left.end(rank)["how"] == "end" and left.end(rank)["step"] == 40
        assert not (left.rank(rank) / "trouble.txt").exists()
    assert not left.events("stall") and not left.events("vanished")
    assert left.events("end")[0]["code"] == 0


def test_rank_that_sleeps(job):
    left = job("sleep")
    assert left.code == 1
    assert left.end(0)["how"] == "exception"
    assert f'job.py", line {line_of("time.sleep(60)")} in happen' in (left.rank(1) / "stacks.txt").read_text()
    recorded = {n: recorder(left.rank(n) / f"recorder_rank_{n}") for n in (0, 1)}
    assert recorded[0] == recorded[1] + 1, "rank 0 waits in a call that rank 1 has not made"
    assert left.events("stall")[0]["told_by"] == 0
    assert "rank 0 has not moved" in left.stderr and "torchvet diagnose" in left.stderr


def recorder(path: Path) -> int:
    """The last call that a dump tells of. (Written by this test's own job: plain pickle.)"""
    dump = pickle.loads(path.read_bytes())
    return max(e["collective_seq_id"] for e in dump["entries"])


def test_rank_that_makes_one_call_more(job):
    left = job("skip", STEPS="16")
    assert left.code == 1
    assert left.end(1)["how"] == "exception" or left.end(0)["how"] == "exception"
    frames = {n: (left.rank(n) / "exception.json") for n in (0, 1)}
    assert any(p.exists() and json.loads(p.read_text())["frames"] for p in frames.values())


def test_stopped_process(job):
    left = job("stop")
    assert left.code == 1
    assert [(e["rank"], e["state"]) for e in left.events("state") if e["state"] == "T"] == [(1, "T")]


def test_killed_process(job):
    left = job("kill", torchrun=True)
    assert left.code == 1
    assert left.end(1) is None
    assert left.events("vanished")[0]["rank"] == 1
    told = json.loads(next(left.attempt.glob("launcher_*.json")).read_text())["failures"]
    assert [f["code"] for f in told if f["rank"] == 1] == [-9]


@pytest.mark.parametrize(
    ("fault", "cause", "sub"),
    [("stop", "host-stall", "stopped"), ("code", "rank-absent", "exited (code 7)"), ("abort", "native-crash", "abort")],
)
def test_verdict_on_what_only_the_recorder_saw(job, fault, cause, sub):
    """No line of the job's output tells of these ends."""
    left = job(fault, torchrun=fault != "stop", TIMEOUT="5")
    (first,) = diagnose([str(left.out)]).verdicts
    assert (first.cause, first.sub, first.ranks) == (cause, sub, [1])


def test_exception_in_one_rank(job):
    left = job("exception")
    assert left.code == 1
    row = json.loads((left.rank(1) / "exception.json").read_text())
    assert (row["type"], row["message"]) == ("KeyError", "'token'")
    assert row["frames"][-1][1] == line_of('raise KeyError("token")')
    assert left.end(1)["how"] == "exception"


def test_rank_that_leaves_with_zero(job):
    left = job("exit")
    assert left.code in (0, 1)
    assert left.end(1)["how"] == "_exit" and left.end(1)["code"] == 0 and left.end(1)["step"] == 12


@pytest.mark.parametrize(("fault", "line"), [("leak", "loss.backward()"), ("outputs", "kept.append(model(x))")])
def test_graphs_that_pile_up_are_named_by_line(job, fault, line):
    left = job(fault, STEPS="160")
    assert left.code == 0
    growing = [r["growing"] for r in left.lines(0, "graphs.jsonl") if "growing" in r]
    named = {(Path(g["path"]).name, g["line"]) for g in growing}
    made = ("job.py", line_of("loss = model(x)"))  # the forward whose graph backward() went over
    assert ("job.py", line_of(line)) in named and named <= {("job.py", line_of(line)), made}


def test_window_of_kept_losses_is_no_alarm(job):
    left = job("window", STEPS="160")
    assert left.code == 0
    assert not [r for r in left.lines(0, "graphs.jsonl") if "growing" in r]


def test_growth_of_host_memory(job):
    left = job("growth", STEPS="100")
    assert left.code == 0
    rss = [b["rss"] for b in left.lines(0, "beats.jsonl")]
    assert rss[-1] - rss[0] > 100 << 20


def test_signal_of_a_scheduler(tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "run"
    words = [sys.executable, "-m", "torchvet", "run", "--out", str(out), "--interval", "0.5", "--"]
    words += command("none", torchrun=True)
    process = subprocess.Popen(words, env=settings(STEPS="100000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        beats = out / "attempt_0" / "rank_1" / "beats.jsonl"
        limit = time.monotonic() + 60
        while not (beats.exists() and b'"step":0' not in beats.read_bytes().splitlines()[-1]):
            assert time.monotonic() < limit, "the job does not start"
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    text = next((out / "attempt_0").glob("wrapper_*.jsonl")).read_text()
    events = [json.loads(x) for x in text.splitlines()]
    assert [e["signal"] for e in events if e["event"] == "signal"] == [15]
    assert process.returncode not in (0, 2)
    assert "in main" in (out / "attempt_0" / "rank_1" / "stacks.txt").read_text(), "the stack at the signal"


def test_own_exit_code_and_streams(tmp_path):
    words = [sys.executable, "-m", "torchvet", "run", "--out", str(tmp_path / "run"), "--"]
    program = "import sys; print(sys.stdin.read().upper()); sys.exit(7)"
    done = subprocess.run([*words, sys.executable, "-c", program], input=b"abc", env=settings(), capture_output=True)
    assert (done.returncode, done.stdout.strip()) == (7, b"ABC")
    program = "import os; os.kill(os.getpid(), 9)"
    done = subprocess.run([*words, sys.executable, "-c", program], env=settings(), capture_output=True)
    assert done.returncode == -9
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["attempt_0", "attempt_1", "run.json"]


def test_recorder_that_cannot_write(job, tmp_path):
    """Files of the recorder stand where folders are: it fails at each look, the job does not notice."""
    folder = tmp_path / "run" / "attempt_0" / "rank_0"
    (folder / "beats.jsonl").mkdir(parents=True)
    (folder / "stacks.txt").mkdir()
    left = job("none")
    assert left.code == 0 and "finished 0" in left.stdout


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_under_the_run(tmp_path):
    pytest.importorskip("torch")
    small = tmp_path / "small"
    small.mkdir()
    words = [
        sys.executable,
        "-m",
        "torchvet",
        "run",
        "--out",
        str(small / "run"),
        "--interval",
        "0.5",
        "--",
        *command("none"),
    ]
    script = f'mount -t tmpfs -o size=64k tmpfs {small} || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", *words],
        env=settings(STEPS="400"),
        capture_output=True,
        encoding="utf-8",
        timeout=90,
    )
    if done.returncode == 77:
        pytest.skip("mounting is not permitted here")
    assert done.returncode == 0 and done.stdout.count("finished") == 2


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="a small /dev/shm needs root")
def test_loader_that_hangs_on_full_shared_memory(tmp_path):
    """A custom collate moves batches to shared memory in the feeder thread: full, the batch is lost and nobody says so."""
    pytest.importorskip("torch")
    out = tmp_path / "run"
    words = [sys.executable, "-m", "torchvet", "run", "--out", str(out), "--interval", "0.5", "--stall", "4", "--"]
    script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77; exec "$@"'
    one = ["timeout", "-s", "KILL", "20", sys.executable, str(JOB), "feeder"]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", *words, *one],
        env=settings(ROW="65536", STEPS="50", **alone), capture_output=True, encoding="utf-8", timeout=90,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("mounting is not permitted here")
    events = [json.loads(x) for p in out.glob("attempt_0/wrapper_*.jsonl") for x in p.read_text().splitlines()]
    shm = [(e["shm_used"], e["shm_size"]) for e in events if e["event"] == "node"]
    assert any(size == 1 << 20 for _, size in shm)
    stacks = (out / "attempt_0" / "rank_0" / "stacks.txt").read_text()
    assert "dataloader.py" in stacks, "the main thread waits for its worker"


DYING = """
import os, sys, tempfile, threading, time
from torchvet.run.stacks import Stacks

def deep(n):
    return n and deep(n - 1)

def work():
    while True:
        deep(900)

for _ in range(int(sys.argv[1])):  # this process waits, its threads run: their frames come and go
    if os.fork() == 0:
        Stacks(tempfile.mkdtemp(dir=sys.argv[2])).install()
        for _ in range(16):
            threading.Thread(target=work, daemon=True).start()
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(60)
        os._exit(0)
for _ in range(int(sys.argv[1])):
    print("ended", -os.wait()[1], flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_signal_ends_a_rank_as_without_a_recorder_while_other_threads_run(tmp_path):
    """Frames of running threads, walked from a signal handler, ended one such process in four by SIGSEGV."""
    many, at_once = 24, 4
    ends = []
    for _ in range(many // at_once):
        words = [sys.executable, "-c", DYING, str(at_once), str(tmp_path)]
        process = subprocess.Popen(words, env=settings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for pid in [int(process.stdout.readline()) for _ in range(at_once)]:
            time.sleep(0.05)
            os.kill(pid, signal.SIGTERM)
        ends += [line.split()[1] for line in process.stdout]
        process.wait(60)
    assert ends == ["-15"] * many
    stacks = [p.read_text() for p in tmp_path.glob("*/stacks.txt")]
    assert len(stacks) == many and all("in <module>" in text and "Thread 0x" not in text for text in stacks)


ASKED = """
import os, sys, threading, time
from torchvet.run.stacks import Stacks

def elsewhere():
    time.sleep(60)

stacks = Stacks(sys.argv[1])
stacks.install()
threading.Thread(target=elsewhere, daemon=True).start()
while "in <module>" not in open(sys.argv[1] + "/stacks.txt").read():
    print(stacks.asked, flush=True)
    time.sleep(0.05)
stacks.look()
"""


def test_other_threads_are_added_after_a_signal(tmp_path):
    pytest.importorskip("fcntl")
    words = [sys.executable, "-c", ASKED, str(tmp_path)]
    process = subprocess.Popen(words, env=settings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    number = int(process.stdout.readline())
    assert host_series.catches(process.pid, number) and not host_series.catches(process.pid, signal.SIGTSTP)
    process.send_signal(number)  # as the wrapper asks a rank whose GIL is held
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    head, _, rest = (tmp_path / "stacks.txt").read_text().partition("--- torchvet signal")
    assert "in <module>" in head and "in elsewhere" not in head and "in elsewhere" in rest
    assert "in <module>" in (tmp_path / "stacks_held.txt").read_text()
