"""`torchvet.run.start` in a script of its own, the callbacks, the folder and the live view."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading

import pytest
from jobs import settings

from torchvet.run import folder
from torchvet.run.status import ranks_of, table


def run(code: str, tmp_path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch")
    words = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(words, env=settings(), cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=90)


def test_three_lines_in_a_script(tmp_path):
    done = run(
        """
        import torchvet.run
        watch = torchvet.run.start("kept", interval=0.1)
        assert torchvet.run.start() is watch
        for _ in range(7):
            watch.step()
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    end = json.loads((tmp_path / "kept" / "attempt_0" / "rank_0" / "end.json").read_text())
    assert (end["step"], end["how"]) == (7, "end")


def test_callbacks_mark_steps(tmp_path):
    """The classes of the frameworks are stood in for: what counts is which hooks are called with what."""
    done = run(
        """
        import sys, types
        for name, base in (("pytorch_lightning", "Callback"), ("transformers", "TrainerCallback")):
            module = types.ModuleType(name)
            setattr(module, base, type(base, (), {}))
            sys.modules[name] = module
        sys.modules["lightning"] = None
        from torchvet.run.callbacks import lightning, transformers
        a = lightning("kept", interval=0.1)
        a.on_fit_start(None, None)
        for i in range(3):
            a.on_train_batch_end(None, None, None, None, i)
        b = transformers("kept")
        b.on_train_begin(None, None, None, model=None)
        b.on_step_end(None, None, None, model=None)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "kept" / "attempt_0" / "rank_0" / "end.json").read_text())["step"] == 4


def test_helper_processes_leave_nothing(tmp_path):
    """A process that a rank starts inherits its environment; it is no second rank."""
    program = (
        "import os, subprocess, sys, torch\nif len(sys.argv) == 1: "
        "sys.exit(subprocess.run([sys.executable, __file__, 'again']).returncode)\n"
    )
    (tmp_path / "p.py").write_text(program)
    pytest.importorskip("torch")
    words = [sys.executable, "-m", "torchvet", "run", "--out", "kept", "--", sys.executable, "p.py"]
    done = subprocess.run(words, env=settings(RANK="3", WORLD_SIZE="4"), cwd=tmp_path, capture_output=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (tmp_path / "kept" / "attempt_0").glob("rank_*")] == ["rank_3"]


def test_own_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 5\n")
    words = [sys.executable, "-m", "torchvet", "run", "--out", str(tmp_path / "kept"), "--"]
    program = "import sys, sitecustomize; print(mine, sitecustomize.__file__)"
    environment = settings()
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{tmp_path}"
    done = subprocess.run([*words, sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["5", str(tmp_path / "sitecustomize.py")]


def test_memory_of_gpus_is_kept(tmp_path):
    """A stand-in for nvidia-smi answers as the real one does."""
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, 1024, 81559, 37'\necho '1, 2, 81559, 0'\n")
    smi.chmod(0o755)
    environment = settings()
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    words = [sys.executable, "-m", "torchvet", "run", "--out", str(tmp_path / "r"), "--", "sleep", "1.5"]
    assert subprocess.run(words, env=environment, capture_output=True).returncode == 0
    text = next((tmp_path / "r" / "attempt_0").glob("wrapper_*.jsonl")).read_text()
    rows = [json.loads(x) for x in text.splitlines()]
    assert [r["gpus"] for r in rows if "gpus" in r] == [[[0, 1024, 81559, 37], [1, 2, 81559, 0]]]


# ---------------------------------------------------------------------------------------------------- folder
def test_lines_are_bounded_and_whole(tmp_path):
    lines = folder.Lines(str(tmp_path / "x.jsonl"), most=1000)
    for i in range(100):
        lines.add({"i": i, "text": "é" * 10})
    kept = [json.loads(x) for name in ("x.jsonl.1", "x.jsonl") for x in (tmp_path / name).read_text().splitlines()]
    assert [r["i"] for r in kept] == list(range(100 - len(kept), 100))
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 2000


def test_attempts_of_one_launch_share_a_folder(tmp_path):
    out = str(tmp_path / "run")
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(folder.begin(out, ["x"], slurm, "h"))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [0] * 8
    assert folder.begin(out, ["x"], {"SLURM_JOB_ID": "8"}, "h") == 1
    assert folder.begin(out, ["x"], {}, "h") == 2


def test_live_view(tmp_path):
    for rank, (step, still) in enumerate([(100, 0.0), (88, 40.0)]):
        at = tmp_path / "attempt_0" / f"rank_{rank}"
        at.mkdir(parents=True)
        folder.write_json(str(at / "about.json"), {"rank": rank, "node": "n"})
        beats = folder.Lines(str(at / "beats.jsonl"))
        beats.add({"t": 1000.0, "step": 0, "rss": 1 << 30})
        beats.add({"t": 1060.0, "step": step, "rss": 3 << 29, **({"still": still} if still else {})})
    rows = [t.render("en") for t in table(ranks_of(str(tmp_path)), now=1061.0)]
    assert rows[0].split() == ["rank", "0", "step", "100", "1.5", "GiB", "(+512", "MiB)", "runs"]
    assert rows[1].endswith("no progress for 40 s")
    assert table(ranks_of(str(tmp_path)), now=1200.0)[0].render("zh").endswith("已 140 秒没有消息")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the command to run stands behind --"),
        (["--stall", "x", "--", "true"], "--stall wants seconds, not x"),
        (["--profile", "x", "--", "true"], "--profile wants STEP:COUNT, not x"),
        (["--status", "nowhere"], "--status wants the folder of a run"),
        (["--out", "/dev/null/x", "--", "true"], "cannot be written"),
        (["--", "no-such-command-here"], "no-such-command-here cannot be started"),
    ],
)
def test_mistakes_are_one_line(words, says, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torchvet", "run", *words], env=settings(), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_ranks_that_a_script_spawns(tmp_path):
    """No launcher sets RANK: the process group tells."""
    pytest.importorskip("torch")
    (tmp_path / "p.py").write_text(
        textwrap.dedent(
            """
            import socket, torch, torch.distributed as dist, torch.multiprocessing as mp
            def work(rank, port):
                dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"tcp://127.0.0.1:{port}")
                dist.all_reduce(torch.ones(1))
            if __name__ == "__main__":
                with socket.socket() as s:
                    s.bind(("127.0.0.1", 0))
                    port = s.getsockname()[1]
                mp.spawn(work, args=(port,), nprocs=2)
            """
        )
    )
    words = [
        sys.executable,
        "-m",
        "torchvet",
        "run",
        "--out",
        "kept",
        "--interval",
        "0.2",
        "--",
        sys.executable,
        "p.py",
    ]
    done = subprocess.run(words, env=settings(), cwd=tmp_path, capture_output=True, timeout=90)
    assert done.returncode == 0, done.stderr
    told = [json.loads(p.read_text()) for p in sorted((tmp_path / "kept" / "attempt_0").glob("rank_*/about.json"))]
    assert [(t["rank"], t["world"]) for t in told] == [(0, 2), (1, 2)]
