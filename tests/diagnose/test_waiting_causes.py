"""Causes that follow from who waits for whom, on facts as readers give them."""

from __future__ import annotations

import pytest

from torchvet.diagnose.calls import canonical, doing_of
from torchvet.diagnose.evidence.recorder_facts import facts_of
from torchvet.diagnose.model import Case, Fact, Inventory, all_causes
from torchvet.diagnose.ranks import settle
from torchvet.diagnose.sites import is_user

TORCH = "/venv/lib/python3.11/site-packages/torch/"


def case(*facts: Fact, world: int | None = None) -> Case:
    rows = [*facts]
    if world:
        rows.append(Fact("env", "env.json", values={"WORLD_SIZE": str(world)}))
    made = Case(rows, Inventory())
    settle(made)
    return made


def found(made: Case, *names: str):
    """The hypotheses of some causes; every sentence of them must be there in both languages."""
    out = [h for name in names or all_causes() for h in all_causes()[name].judge(made)]
    for h in out:
        texts = [h.summary, *h.missing, *h.next, *(l.reason for l in h.supports), *(l.reason for l in h.contradicts)]
        for text in texts:
            assert text.render("en") and "{" not in text.render("en") + text.render("zh")
            assert any(ord(c) > 0x2E80 for c in text.render("zh")) or text.en == text.zh
    return out


def stack(rank: int, *frames: tuple[str, int, str]) -> Fact:
    return Fact("stack", f"stacks/rank_{rank}.txt", rank=rank, values={"main": [list(f) for f in frames]})


def log(rank: int, last: str) -> Fact:
    return Fact(
        "output", f"logs/{rank}.log", rank=rank, values={"last": last, "lines": 9, "steps": 0, "step": None, "named": {str(rank): 9}}
    )  # fmt: skip


ALL_REDUCE = (
    (TORCH + "distributed/distributed_c10d.py", 3252, "all_reduce"),
    (TORCH + "distributed/c10d_logger.py", 83, "wrapper"),
)
BARRIER = ((TORCH + "distributed/distributed_c10d.py", 5300, "barrier"),)
RECV = ((TORCH + "distributed/distributed_c10d.py", 2700, "recv"),)
STEP = ("/job/train.py", 57, "step")


def watchdog(rank: int, seq: int = 1580, op: str = "ALLREDUCE") -> Fact:
    return Fact("watchdog", f"logs/{rank}.log", rank=rank, values={"group": "0", "description": "default_pg", "seq": seq, "op": op, "ran_ms": 600_001, "timeout_ms": 600_000})  # fmt: skip


def test_a_silent_rank_among_watchdogs():
    made = case(*[watchdog(r) for r in (0, 1, 3)], *[log(r, "step 7") for r in range(3)], log(2, "writing checkpoint shard 2"), log(3, "x"), world=4)  # fmt: skip
    (h,) = found(made, "host-stall", "rank-absent")
    assert h.ranks == [2] and "1,580" in str(h.summary)


def test_a_rank_without_a_log_is_no_silent_rank():
    made = case(*[watchdog(r) for r in (0, 1, 3)], *[log(r, "step 7") for r in (0, 1, 3)], world=4)
    assert not [h for h in found(made, "host-stall", "rank-absent") if h.confidence == "confirmed"]


def test_watchdogs_with_other_calls_are_a_mismatch():
    made = case(*[watchdog(r) for r in (0, 1, 3)], watchdog(2, op="BROADCAST"), world=4)
    (h,) = found(made, "collective-mismatch")
    assert h.ranks == [2] and "broadcast" in str(h.summary)


def test_watchdog_numbers_of_a_rank_that_is_behind():
    made = case(*[watchdog(r) for r in (0, 1, 3)], watchdog(2, seq=1577), world=4)
    waits = made.waits
    assert waits.roots == [2]


def test_desync_text():
    facts = [
        Fact("behind", "logs/0.log", rank=0, values={"ranks": [0, 1, 3], "seq": 12, "what": "unfinished"}),
        Fact(
            "behind", "logs/0.log", line=2, rank=0, values={"ranks": [2], "seq": 11, "next": 12, "what": "not joined"}
        ),
    ]
    assert case(*facts, world=4).waits.roots == [2]


def test_monitored_barrier_names_who_is_missing_and_not_rank_0():
    facts = [
        Fact("absent", "logs/0.log", rank=0, values={"by": "monitored-barrier", "ranks": [1], "ms": 4000}),
        Fact("lost", "logs/2.log", rank=2, values={"how": "victim-barrier"}),
        log(1, "re-reading the index"), log(0, "x"), log(2, "y"),
    ]  # fmt: skip
    (h,) = found(case(*facts, world=3), "rank-absent", "host-stall")
    assert h.ranks == [1]


def test_stacks_alone():
    made = case(
        stack(0, *ALL_REDUCE, STEP), stack(1, *ALL_REDUCE, STEP), stack(2, ("/job/data.py", 9, "load_index")), world=3
    )
    (h,) = found(made, "host-stall")
    assert (h.ranks, h.site) == ([2], ("/job/data.py", 9))


def test_two_stacks_in_a_collective_are_needed():
    made = case(stack(0, *ALL_REDUCE, STEP), stack(2, ("/job/data.py", 9, "load_index")), world=3)
    assert not found(made, "host-stall", "rank-absent")


def test_stacks_in_different_collectives():
    made = case(
        *[stack(r, *ALL_REDUCE, STEP) for r in (0, 1)], stack(2, *BARRIER, ("/job/train.py", 61, "save")), world=3
    )
    (h,) = found(made, "collective-mismatch")
    assert (h.ranks, h.site) == ([2], ("/job/train.py", 61))


def test_a_lone_receive():
    made = case(*[stack(r, *ALL_REDUCE, STEP) for r in (1, 2)], stack(0, *RECV, ("/job/pipe.py", 5, "take")), world=3)
    (h,) = found(made, "p2p-partner-missing", "host-stall", "rank-absent")
    assert (h.cause, h.ranks, h.site) == ("p2p-partner-missing", [0], ("/job/pipe.py", 5))


def test_growth_and_timeouts_without_a_wait_relation_say_nothing():
    made = case(
        Fact("series", "logs/0.log", rank=0, values={"name": "rss", "slope": 1e8, "rising": 1.0}),
        Fact("lost", "logs/0.log", rank=0, values={"how": "timeout", "backend": "gloo"}),
        Fact("lost", "logs/1.log", rank=1, values={"how": "timeout", "backend": "gloo"}),
        world=2,
    )
    assert not found(made, "host-stall", "rank-absent", "collective-mismatch", "group-order-cycle", "device-stuck")


def test_a_victims_exception_does_not_accuse_it():
    made = case(
        Fact("exception", "logs/0.log", rank=0, values={"type": "RuntimeError", "message": "Connection closed by peer", "victim": True}),
        Fact("exit", "launcher.log", rank=0, values={"by": "block", "code": 1, "first": True}),
        world=2,
    )  # fmt: skip
    assert not found(made, "rank-absent")


def test_sigkill_without_an_oom_record_stays_unknown():
    made = case(Fact("exit", "launcher.log", rank=1, values={"by": "block", "code": -9, "pid": 7}), world=2)
    (h,) = found(made, "rank-absent")
    assert h.ranks == [1] and h.confidence == "possible" and h.missing and "out of memory" not in str(h.summary)


def dump(rank: int, *calls: tuple[str, int, str | None]) -> list[Fact]:
    """(operation, number, peer as "1->2") of the last calls of a rank, all unfinished."""
    entries = [
        {
            "record_id": 100 + n, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 9 if peer else seq,
            "p2p_seq_id": seq if peer else 0, "profiling_name": f"nccl:{op}" + (f" {peer}" if peer else ""), "input_sizes": [[4]],
            "output_sizes": [[4]], "state": "scheduled", "retired": False, "is_p2p": bool(peer),
        }
        for n, (op, seq, peer) in enumerate(calls)
    ]  # fmt: skip
    value = {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
        "entries": entries,
    }
    return list(facts_of(value, f"fr/rank_{rank}", cut=False, written=0.0))


def test_a_send_whose_peer_never_receives():
    made = case(*dump(0, ("send", 5, "0->1")), *dump(1), *dump(2))
    (h,) = found(made, "p2p-partner-missing")
    assert h.ranks == [1] and "rank 0" in str(h.summary)
    paired = case(*dump(0, ("send", 5, "0->1")), *dump(1, ("recv", 5, "1<-0")), *dump(2))
    assert not found(paired, "p2p-partner-missing")


def test_who_left_no_trace_is_only_possible():
    made = case(*dump(0, ("all_reduce", 9, None)), *dump(1, ("all_reduce", 9, None)), world=3)
    (h,) = found(made, "rank-absent")
    assert (h.ranks, h.confidence) == ([2], "possible")


def test_broadcast_that_its_root_has_finished_is_no_stuck_device():
    def with_status(rank, op, done):
        facts = dump(rank, *([] if done else [(op, 9, None)]))
        for fact in facts:
            if fact.kind == "progress":
                fact.values.update(enqueued=9, completed=9 if done else 8, backend="nccl")
        return facts

    made = case(
        *with_status(0, "broadcast", True), *with_status(1, "broadcast", False), *with_status(2, "broadcast", True)
    )
    assert not made.waits.stuck
    made = case(
        *with_status(0, "all_reduce", True), *with_status(1, "all_reduce", False), *with_status(2, "all_reduce", True)
    )
    assert made.waits.stuck_ranks() == [1]


@pytest.mark.parametrize(
    "said, name",
    [
        ("nccl:_all_gather_base", "all_gather_into_tensor"), ("ALLREDUCE", "all_reduce"), ("_ALLGATHER_BASE", "all_gather_into_tensor"),
        ("gloo:barrier", "barrier"), ("nccl:send 1->2", "send"), ("nccl:ALLTOALL_BASE", "all_to_all"), ("", ""),
    ],
)  # fmt: skip
def test_names_of_calls(said, name):
    assert canonical(said) == name


def test_what_a_rank_was_doing():
    assert doing_of("writing checkpoint shard 1 of 4") == "checkpoint"
    assert doing_of("Token indices sequence length is longer (181204 > 4096), tokenizing anyway") == "data loading"
    assert doing_of("step 2346 loss 2.4448") == ""


def test_frames_of_the_program():
    assert is_user("/job/torchtitan/train.py") and is_user("src/model.py")
    for path in (
        TORCH + "nn/modules/module.py",
        "/usr/lib/python3.11/threading.py",
        "<frozen importlib._bootstrap>",
        "??",
        "libc.so.6",
    ):
        assert not is_user(path)
