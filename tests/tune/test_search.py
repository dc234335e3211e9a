"""The search on machines that are formulas: what it picks, what it never tries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.tune.outputs import as_json, plot_page, summary, table
from torchvet.tune.plan import Batch, Room, Setting, cpus, memory_free, refusal
from torchvet.tune.search import Search, Trial


def machine(item: float, step: float, cores: float, start: float = 0.1):
    """A loader whose batches take `item` seconds of a core, for a step of `step` seconds."""

    def measure(s: Setting) -> Trial:
        speed = min(s.workers, cores) / item if s.workers else 1 / (item + step)
        time = max(step, 1 / speed) if s.workers else item + step
        return Trial(s, waiting=(time - step) / time, rate=1 / time, started=start, shm=s.workers, resident=1 << 20)

    return measure


def search(measure, *, free=None, batch=None, **more) -> Search:
    return Search(measure, lambda: free or Room(16.0), batch or Batch(bytes=1 << 20), **more)


@pytest.mark.parametrize(
    ("item", "step", "cores", "workers"),
    [
        (0.01, 0.1, 8, 1),  # one worker hides it
        (0.1, 0.0301, 8, 4),  # as many as hide it
        (0.1, 0.01, 2, 2),  # no more than there are cores
        (0.3, 0.0, 6, 6),  # between two doublings
        (0.2, 0.0, 16, 16),
    ],
)
def test_smallest_setting_that_is_as_good_as_the_best(item, step, cores, workers):
    found = search(machine(item, step, cores)).run()
    assert found is not None and found.setting.workers == workers


def test_no_workers_where_they_cost_more_than_they_save():
    def measure(s: Setting) -> Trial:
        return Trial(s, waiting=0.5, rate=1000 if not s.workers else 300)

    found = search(measure).run()
    assert found is not None and found.setting.workers == 0


@given(
    item=st.floats(0.001, 1), step=st.floats(0, 0.2), cores=st.floats(1, 32),
    shm=st.integers(0, 1 << 28), memory=st.integers(1 << 20, 1 << 34), files=st.integers(64, 4096), size=st.integers(1, 1 << 24),
)  # fmt: skip
def test_never_tries_what_the_machine_cannot_hold(item, step, cores, shm, memory, files, size):
    free, batch = Room(cores, 1, shm, memory, files), Batch(bytes=size, resident=1 << 20)
    tried = []

    def measure(s: Setting) -> Trial:
        tried.append(s)
        return machine(item, step, cores)(s)

    found = search(measure, free=free, batch=batch).run()
    assert found is not None
    for s in tried:
        assert not s.workers or (s.workers * s.prefetch + 2) * size <= shm
        assert s.workers * (1 << 20) <= memory
    best = max(machine(item, step, cores)(s).rate for s in tried)
    assert found.rate >= 0.95 * best


def test_failing_trials_end_the_climb_and_are_not_chosen():
    def measure(s: Setting) -> Trial:
        if s.workers > 2:
            from torchvet.findings import Text

            return Trial(s, failed=Text("worker died"))
        return machine(0.1, 0.0, 64)(s)

    run = search(measure)
    found = run.run()
    assert found is not None and found.setting.workers == 2
    assert max(t.setting.workers for t in run.trials.values()) == 4


def test_budget_ends_the_search():
    spent = iter([False, False, True, *[True] * 100])
    run = search(machine(0.5, 0.0, 64), spent=lambda: next(spent))
    assert run.run() is not None and len(run.trials) <= 3


def test_workers_persist_where_their_start_takes_a_share_of_the_epoch():
    kept = search(machine(0.1, 0.0, 2, start=5.0), batches=100).run()
    fresh = search(machine(0.1, 0.0, 2, start=0.1), batches=100_000).run()
    assert kept is not None and kept.setting.persistent
    assert fresh is not None and not fresh.setting.persistent


def test_all_ranks_load_at_the_same_time():
    setting, batch = Setting(4), Batch(bytes=1 << 20)
    assert refusal(setting, batch, Room(16, ranks=1, shm=16 << 20)) is None
    assert refusal(setting, batch, Room(16, ranks=8, shm=16 << 20)) is not None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "4:cpu,cpuacct:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "120000\n",
          "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n"}, 1.2),
        ({"proc/self/cgroup": "nonsense\n0::/a\n", "sys/fs/cgroup/a/cpu.max": "x y z\n"}, None),
    ],
)  # fmt: skip
def test_cpus_of_a_container(tmp_path, monkeypatch, files, expected):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)), raising=False)
    assert cpus(str(tmp_path)) == (expected or 4.0)


def test_memory_of_a_container(tmp_path):
    for name, text in {"proc/meminfo": "MemAvailable: 8000000 kB\n", "proc/self/cgroup": "0::/\n",
                       "sys/fs/cgroup/memory.max": "4000000000\n", "sys/fs/cgroup/memory.current": "1000000000\n"}.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_free(str(tmp_path)) == 3_000_000_000


def test_outputs_say_the_same(tmp_path):
    run = search(machine(0.1, 0.02, 2), free=Room(2.0, 1, 1 << 30, 1 << 33))
    chosen = run.run()
    trials = list(run.trials.values())
    shown = table(trials, chosen, "en").splitlines()
    assert sum("→" in line for line in shown) == 1 and len({len(x) for x in shown[1:3]}) == 1
    assert "num_workers=2" in summary(chosen, run.batch, run.free(), "en", True)
    found = json.loads(as_json(trials, chosen, run.batch, run.free()))
    assert found["chosen"]["num_workers"] == 2 and len(found["trials"]) == len(trials)
    for html in (True, False):
        page = plot_page(trials, chosen, "zh", html=html)
        assert page.count("<circle") == 2 * sum(t.failed is None for t in trials) and "http://www.w3" in page
    assert "等待" in table(trials, chosen, "zh")
    assert Path  # the page needs nothing from outside
