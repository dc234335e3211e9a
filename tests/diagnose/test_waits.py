"""Who waits for whom, on real dumps that are changed: fewer of them, cut, other clocks, versions, numbers of ranks."""

from __future__ import annotations

import json
import pickle
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchvet.diagnose.evidence import safe_pickle
from torchvet.diagnose.evidence.recorder_facts import facts_of
from torchvet.diagnose.model import Case, Fact, Inventory, all_causes
from torchvet.diagnose.ranks import settle
from torchvet.diagnose.verdict import judged

HERE = Path(__file__).parent / "incidents"
PUBLIC = Path(__file__).resolve().parents[2].parent / "shared" / "incidents"
TRUTH = {
    "gloo-barrier-rank0": ("collective-mismatch", {0}),
    "gloo-growth-and-hang": ("collective-mismatch", {2}),
    "gloo-op-mismatch": ("collective-mismatch", {3}),
    "gloo-nan-skip": ("collective-mismatch", {1}),
    "gloo-skip-allreduce": ("collective-mismatch", {2}),
    "gloo-size-mismatch": ("shape-mismatch", {1}),
    "gloo-subgroup-cycle": ("group-order-cycle", {0, 1, 2, 3}),
    "gloo-host-stall-save": ("rank-absent", {0}),
    "gloo-exit0": ("rank-absent", {1}),
    "gloo-disk-full": ("rank-absent", {0}),
    "gloo-shm-feeder-hang": ("rank-absent", {1}),
    "nvrx-gpu_error_1st": ("device-stuck", {12, 14}),
    "nvrx-gpu_error_2nd": ("device-stuck", {9, 14}),
    "nvrx-lock_gil_1st": ("host-stall", {9, 14}),
    "nvrx-lock_gil_2nd": ("host-stall", {10, 15}),
}
"""What the dumps alone say (no log, no stack): kind, ranks."""
QUICK = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def names() -> list[str]:
    return [n for n in TRUTH if (PUBLIC / n if n.startswith("nvrx") else HERE / n).is_dir()]


def dumps(name: str) -> dict[int, dict]:
    """rank -> decoded dump: of the folder written while the job stood, where there is one."""
    evidence = (PUBLIC if name.startswith("nvrx") else HERE) / name / "evidence"
    folder = next(evidence / f for f in ("fr_live", "fr", "fr_exit") if (evidence / f).is_dir())
    out = {}
    for path in folder.iterdir():
        if not path.suffix:
            out[int(re.findall(r"\d+", path.name)[-1])] = safe_pickle.load(path.read_bytes())
    return out


def diagnosed(given: dict[int, object], cut: int | None = None):
    """[(kind, ranks, summary)] of the verdicts on dumps alone; the dump of rank `cut` ends too early."""
    facts = []
    for rank, dump in given.items():
        if isinstance(dump, dict):
            facts += facts_of(dump, f"fr/rank_{rank}", cut=rank == cut, written=0.0)
    case = Case(facts, Inventory())
    settle(case)
    found = [h for cause in all_causes().values() for h in cause.judge(case)]
    verdicts, _ = judged(found, case)
    return [(h.cause, set(h.ranks), str(h.summary)) for h in verdicts]


def never_wrong(name: str, verdicts) -> None:
    """A verdict may lack ranks, or say that it cannot tell; it blames nobody else."""
    _, ranks = TRUTH[name]
    for kind, blamed, said in verdicts:
        assert blamed <= ranks or "cannot be told" in said, (kind, blamed, said)


@pytest.mark.parametrize("name", names())
def test_dumps_alone(name):
    kind, ranks = TRUTH[name]
    (verdict, *more) = diagnosed(dumps(name))
    assert (verdict[0], verdict[1]) == (kind, ranks) and not more


@pytest.mark.parametrize("name", names())
def test_json_says_what_the_pickle_says(name):
    whole = dumps(name)
    text = {r: json.loads(json.dumps({**d, "entries": [{k: v for k, v in e.items() if k != "frames"} for e in d["entries"]]})) for r, d in whole.items()}  # fmt: skip
    for dump in text.values():
        dump["pg_status"] = {k: {a: str(b) for a, b in v.items()} for k, v in dump["pg_status"].items()}
    assert [(k, r) for k, r, _ in diagnosed(whole)] == [(k, r) for k, r, _ in diagnosed(text)]


@pytest.mark.parametrize("name", names())
def test_a_missing_dump_weakens_and_never_misleads(name):
    whole = dumps(name)
    for rank in whole:
        never_wrong(name, diagnosed({r: d for r, d in whole.items() if r != rank}))


@pytest.mark.parametrize("name", names())
@QUICK
@given(data=st.data())
def test_any_part_of_the_dumps(name, data):
    whole = dumps(name)
    kept = data.draw(st.sets(st.sampled_from(sorted(whole)), min_size=1))
    if len(kept) >= max(2, len(whole) - 2):
        never_wrong(name, diagnosed({r: whole[r] for r in kept}))


@pytest.mark.parametrize("name", names())
@QUICK
@given(seed=st.integers(0, 2**16))
def test_clocks_do_not_matter(name, seed):
    rng = random.Random(seed)
    whole = dumps(name)
    for dump in whole.values():
        offset = rng.randrange(-(10**15), 10**15)
        for entry in dump["entries"]:
            entry["time_created_ns"] += offset
    kind, ranks = TRUTH[name]
    assert [(k, r) for k, r, _ in diagnosed(whole)] == [(kind, ranks)]


@pytest.mark.parametrize("name", names())
@QUICK
@given(seed=st.integers(0, 2**16))
def test_versions_may_differ_between_ranks(name, seed):
    rng = random.Random(seed)
    whole = dumps(name)
    for dump in whole.values():
        version = rng.choice(["2.3", "2.4", "2.8", "2.10", "3.1"])
        dump["version"] = version
        dump["vendor_comm_state"] = {"x": {"y": "z"}}
        for entry in dump["entries"]:
            if version in ("2.3", "2.4"):
                for key in ("thread_id", "thread_name"):
                    entry.pop(key, None)
            entry[f"later_{version}"] = [version]
    kind, ranks = TRUTH[name]
    assert [(k, r) for k, r, _ in diagnosed(whole)] == [(kind, ranks)]


@pytest.mark.parametrize("name", names())
@QUICK
@given(seed=st.integers(0, 2**16))
def test_other_numbers_of_ranks_give_the_same_verdict_under_other_numbers(name, seed):
    whole = dumps(name)
    members = [int(n) for d in whole.values() for v in d["pg_config"].values() for n in re.findall(r"\d+", v["ranks"])]
    world = range(max([*whole, *members]) + 1)
    shuffled = random.Random(seed).sample(world, len(world))

    def renamed(dump):
        """Members keep their order: sends name ranks by their place in the group."""
        config = {
            k: {**v, "ranks": str([shuffled[int(n)] for n in re.findall(r"\d+", v["ranks"])])}
            for k, v in dump["pg_config"].items()
        }
        if any(k == "" for k in config):  # gloo: the members of the default group, as the backend has them
            config = dump["pg_config"]
        return {**dump, "pg_config": config}

    kind, ranks = TRUTH[name]
    got = diagnosed({shuffled[r]: renamed(d) for r, d in whole.items()})
    assert [(k, r) for k, r, _ in got] == [(kind, {shuffled[r] for r in ranks})]


@pytest.mark.parametrize("name", names())
@QUICK
@given(data=st.data())
def test_a_cut_dump_never_misleads(name, data):
    whole: dict[int, object] = dict(dumps(name))
    rank = data.draw(st.sampled_from(sorted(whole)))
    raw = pickle.dumps(whole[rank], 2)
    at = data.draw(st.integers(1, len(raw) - 1))
    try:
        left = safe_pickle.rescue(raw[:at])
    except safe_pickle.Refused:
        left = None
    if not isinstance(left, dict) or not isinstance(left.get("entries", []), list):
        left = None
    never_wrong(name, diagnosed({**whole, rank: left}, cut=rank))


def test_older_than_the_ring_is_unknown_not_missing():
    """A rank whose ring has dropped the calls of a group, without a status, is not said to have left them out."""

    def dump(first, last, group="7"):
        return {
            "version": "2.1",
            "pg_config": {"7": {"name": "7", "desc": "tp", "ranks": "[0, 1, 2]"}},
            "entries": [
                {"record_id": n, "pg_id": 1, "process_group": (group, "tp"), "collective_seq_id": n, "profiling_name": "nccl:all_reduce",
                 "input_sizes": [[4]], "output_sizes": [[4]], "state": "completed" if n < last else "scheduled", "retired": n < last}
                for n in range(first, last + 1)
            ],
        }  # fmt: skip

    other = dump(500, 520, group="9")
    other["pg_config"]["9"] = {"name": "9", "desc": "dp", "ranks": "[2]"}
    assert not [v for v in diagnosed({0: dump(100, 120), 1: dump(100, 120), 2: other}) if 2 in v[1]]


def test_two_against_two_cannot_be_told():
    whole = dumps("gloo-op-mismatch")
    whole[2] = whole[3]
    (verdict,) = diagnosed(whole)
    assert verdict[0] == "collective-mismatch" and "cannot be told" in verdict[2]


def test_a_healthy_job_is_not_blamed():
    for name in ("gloo-healthy", "gloo-growth-only"):
        assert not diagnosed(dumps(name))


def test_dumps_of_a_running_job_are_no_hang():
    """Taken within a second of the last call, one rank a call behind: that is a job at work, unless something failed."""
    whole = dumps("gloo-host-stall-save")
    last = max(e["time_created_ns"] for d in whole.values() for e in d["entries"]) / 1e9
    facts = [f for r, d in whole.items() for f in facts_of(d, f"fr/rank_{r}", cut=False, written=last + 0.4)]
    for extra, expected in (([], []), ([Fact("exit", "launcher.log", rank=1, values={"code": 1, "by": "block"})], [0])):
        case = Case([*facts, *extra], Inventory())
        settle(case)
        assert case.waits.roots == expected
    late = [f for r, d in whole.items() for f in facts_of(d, f"fr/rank_{r}", cut=False, written=last + 30)]
    case = Case(late, Inventory())
    settle(case)
    assert case.waits.roots == [0]
