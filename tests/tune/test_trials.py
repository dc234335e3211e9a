"""Trials of real loaders: figures, failures, hangs; the command from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchvet.findings import UserError
from torchvet.tune.plan import Setting
from torchvet.tune.runner import Runner
from torchvet.tune.trial import measured

HERE = Path(__file__).parent / "programs"
pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(HERE)


def test_figures_of_a_slow_disk():
    with Runner("loaders:disk", seconds=0.6) as runner:
        batch = runner.cost()
        assert batch.bytes == 4096 and batch.seconds >= 0.032
        alone, two = runner.measure(Setting(0)), runner.measure(Setting(2))
    assert alone.failed is None and two.failed is None
    assert alone.rate <= 1 / 0.032 and alone.waiting > 0.99
    assert two.rate > 1.3 * alone.rate, "workers sleep side by side"
    assert two.worker > 1 << 20 and two.started > 0


class Short:
    """A data set that is read through many times in a second."""

    def __init__(self):
        self.limit = time.monotonic() + 5

    def __iter__(self):
        assert time.monotonic() < self.limit, "each epoch began the measuring anew"
        return iter(range(50))


def test_epochs_shorter_than_a_trial():
    begin = time.monotonic()
    row = measured(Short(), {"num_workers": 0}, 0.2, 0.0)
    assert row["batches"] > 50 and time.monotonic() - begin < 2


def test_shared_memory_of_batches():
    with Runner("loaders:memory", seconds=0.5) as runner:
        batch = runner.cost()
        trial = runner.measure(Setting(1))
    assert batch.bytes == 16 * 3 * 256 * 256 * 4
    assert batch.bytes <= trial.shm <= 4 * batch.bytes, "at most (workers x prefetch + 2) batches"


def test_loader_that_fails_says_why():
    with Runner("loaders:broken", seconds=0.3) as runner, pytest.raises(UserError) as e:
        runner.cost()
    assert "ValueError" in e.value.message.render("en")


def test_nothing_is_left_behind_by_a_loader_that_hangs(monkeypatch):
    monkeypatch.setattr("torchvet.tune.runner.START", 6.0)
    began = time.monotonic()
    with Runner("loaders:hanging", seconds=0.3) as runner, pytest.raises(UserError):
        runner.cost()
    assert time.monotonic() - began < 40
    left = subprocess.run(["pgrep", "-f", "torchvet.tune.trial"], capture_output=True, text=True).stdout.split()
    mine = [p for p in left if Path(f"/proc/{p}/cwd").exists() and os.readlink(f"/proc/{p}/cwd") == str(HERE)]
    assert not mine


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[2] / "src")
    return subprocess.run(
        [sys.executable, "-m", "torchvet", "tune", *words], env={**os.environ, "PYTHONPATH": source, "TORCHVET_LANG": "en", **environment},
        capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip


def test_command_with_a_script(tmp_path):
    done = command(
        "--script",
        "loaders.py",
        "--seconds",
        "0.3",
        "--most-workers",
        "1",
        "--json",
        "--plot",
        str(tmp_path / "p.html"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["chosen"] is not None
    assert {t["num_workers"] for t in found["trials"]} == {0, 1}
    assert all(t.get("waiting", 0) < 1 for t in found["trials"] if "failed" not in t), "the script's own step counts"
    assert "<svg" in (tmp_path / "p.html").read_text()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="a small /dev/shm needs root")
def test_small_shared_memory_neither_hangs_nor_kills():
    """8 MiB: a batch of 4 x 768 KiB fits, six do not. A custom collate would hang for ever there."""
    source = str(Path(__file__).parents[2] / "src")
    script = 'mount -t tmpfs -o size=8m tmpfs /dev/shm || exit 77; exec "$@"'
    words = [sys.executable, "-m", "torchvet", "tune", "loaders:custom", "--seconds", "0.3", "--json"]
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", *words], env={**os.environ, "PYTHONPATH": source},
        capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("mounting is not permitted here")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["chosen"]["num_workers"] == 0
    assert any("/dev/shm" in t.get("failed", "") for t in found["trials"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "tune wants one target"),
        (["loaders:nothing"], "loaders has no nothing"),
        (["--script", "nowhere.py"], "nowhere.py does not exist"),
        (["loaders:tiny", "--step-time", "-1"], "--step-time wants seconds"),
        (["loaders:tiny", "--plot", "x.png"], "ends in .svg or .html"),
    ],
)
def test_mistakes_are_one_line(words, says):
    done = command(*words)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
