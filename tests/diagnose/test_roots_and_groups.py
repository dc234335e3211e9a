"""Collectives with a root, and new_group: what the source, the store's message and the stacks tell."""

from __future__ import annotations

import pickle

import pytest
from written import Job

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.evidence.pair_calls import pair_calls
from torchvet.diagnose.files import Item
from torchvet.diagnose.waits_peers import rank_named

C10D = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
TRAIN = "/workspace/proj/train.py"


def roots(source: str) -> list[tuple[str, str]]:
    data = source.encode()
    return [
        (f.values["op"], f.values["peer"])
        for f in pair_calls(Item("train.py", "train.py", len(data), data[:4096], 0.0, data=data))
        if f.kind == "root-call"
    ]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("dist.broadcast(x, src=rank)\n", [("broadcast", "rank")]),
        ("dist.broadcast(x, 0)\ndist.gather(x, out, dst=1)\n", [("broadcast", "0"), ("gather", "1")]),
        ("dist.reduce(x, dst=0, op=dist.ReduceOp.MAX)\n", [("reduce", "0")]),
        # of a smaller group, of a loop over ranks, an argument that somebody called `rank`
        ("dist.broadcast(x, src=rank, group=tp)\n", []),
        ("dist.broadcast(x, rank, tp)\n", []),
        ("dist.broadcast(x, group_src=rank)\n", []),
        ("for rank in range(world_size):\n    dist.broadcast(x[rank], src=rank)\n", []),
        ("[dist.broadcast(x, src=r) for r in ranks]\n", []),
        ("def send_to(x, rank):\n    dist.reduce(x, dst=rank)\n", []),
        # what torch.multiprocessing.spawn gives
        ("def main(rank, world_size):\n    dist.reduce(x, dst=rank)\n", [("reduce", "rank")]),
        ("values.gather(1, index)\nx.scatter(0, i, src)\n", []),
    ],
)
def test_roots_of_a_program(source, expected):
    assert roots(source) == expected


@pytest.mark.parametrize(
    "text, values",
    [
        ("0 if rank != 2 else 2", [0, 0, 2, 0]),
        ("3 if rank in (1, 3) else 0", [0, 3, 0, 3]),
        ("int(os.environ['RANK'])", [0, 1, 2, 3]),
        ("int(os.getenv('WORLD_SIZE')) - 1", [3, 3, 3, 3]),
        ("int(os.environ['LOCAL_RANK'])", [None] * 4),
        ("leader", [None] * 4),
    ],
)
def test_what_an_expression_gives_on_every_rank(text, values):
    assert [rank_named(text, {}, r, 4) for r in range(4)] == values


def stuck_in_new_group(job: Job, rank: int, name: int, member: int) -> None:
    job.raised(
        rank, f"torch.distributed.DistStoreError: wait timeout after 5000ms, keys: /default_pg/0//{name}//cpu//0/{member}",
        (TRAIN, 20, "main"), (C10D, 5863, "new_group"), (C10D, 6056, "_new_group_with_tag"), (C10D, 2169, "_helper"),
    )  # fmt: skip


@pytest.mark.parametrize("names", [(2, 2, 2, 1), (2, 2, 1, 1)])
def test_ranks_wait_under_different_names(names, tmp_path):
    """Who is no member of a group goes on to the next: the names tell that the ranks differ, not who is wrong."""
    job = Job(tmp_path, 4)
    for rank, name in enumerate(names):
        stuck_in_new_group(job, rank, name, 3 if name == 2 else 0)
    job.closed(0)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.sub, first.ranks) == ("collective-mismatch", "new_group", [0, 1, 2, 3])
    assert "in their call number 2" in first.summary.render("en")
    assert "cannot be told" in first.summary.render("en")


def test_ranks_of_which_nothing_is_known_may_be_late(tmp_path):
    job = Job(tmp_path, 4).out(2, "building groups\n").out(3, "building groups\n")
    for rank in (0, 1):
        stuck_in_new_group(job, rank, 2, 2)
    job.ended({0: 1, 1: 1, 2: -15, 3: -15}, 0)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.sub, first.ranks, first.confidence) == (
        "collective-mismatch",
        "new_group",
        [],
        "possible",
    )
    assert "ranks 2, 3 came late" in first.summary.render("en")


def test_a_late_member_is_no_mismatch(tmp_path):
    """All that wait make the same group, and rank 2 is at its data."""
    job = Job(tmp_path, 3).out(2, "tokenizing shard 11 of 80\n")
    for rank in (0, 1):
        stuck_in_new_group(job, rank, 1, 2)
    job.ended({0: 1, 1: 1, 2: -15}, 0)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.ranks) == ("host-stall", [2])


def test_a_crash_before_new_group_is_the_cause(tmp_path):
    job = Job(tmp_path, 3)
    for rank in (0, 1):
        stuck_in_new_group(job, rank, 1, 2)
    job.raised(2, "KeyError: 'dog'", (TRAIN, 12, "main"))
    job.ended({0: 1, 1: 1, 2: 1}, 0)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.ranks) == ("rank-absent", [2])


def test_one_line_of_a_traceback_is_a_guess(tmp_path):
    """`src=rank` in a traceback names the root; that `rank` is the rank itself is not told by one line."""
    job = Job(tmp_path, 3).steps(0, 9)
    for rank in range(3):
        job.err(rank, "".join(f"[rank{rank}]: {line}\n" for line in (
            "Traceback (most recent call last):", f'  File "{TRAIN}", line 31, in <module>', "    dist.broadcast(x, src=rank)",
            f'  File "{C10D}", line 3151, in broadcast', "    work.wait()",
            "RuntimeError: [unbound_buffer.cc:129] Timed out waiting 6000ms for send operation to complete")))  # fmt: skip
    job.closed(0)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.sub, first.ranks, first.confidence) == (
        "collective-mismatch",
        "root",
        [0, 1, 2],
        "possible",
    )


def test_one_root_for_all_is_no_fault(tmp_path):
    """Ranks 1 and 2 wait in vain for rank 0, which evaluates."""
    job = Job(tmp_path, 3).steps(0, 9).out(0, "evaluating batch 80\n")
    job.write("src/train.py", "\n" * 30 + "dist.broadcast(x, src=0)\n")
    for rank in (1, 2):
        job.raised(rank, "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete",
                   (TRAIN, 31, "<module>"), (C10D, 3151, "broadcast"))  # fmt: skip
    job.ended({0: -15, 1: 1, 2: 1}, 1)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert first.cause != "collective-mismatch"
    assert first.ranks in ([0], [])


def dump_of(rank: int, groups: dict[str, list[int]], called: str) -> bytes:
    """A recorder dump of an NCCL job: one finished all_reduce of all ranks, and one that waits in group `called`."""
    frames = [{"name": "main", "filename": TRAIN, "line": 44}]
    made = (("0", "default_pg", 1, "completed"), (called, "undefined", 1, "scheduled"))
    entries = [
        {
            "record_id": n, "pg_id": n, "process_group": (name, desc), "collective_seq_id": seq, "p2p_seq_id": 0,
            "op_id": seq, "profiling_name": "nccl:all_reduce", "is_p2p": False, "time_created_ns": 1_780_000_000 * 10**9,
            "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "state": state,
            "retired": state == "completed", "timeout_ms": 600_000, "input_sizes": [[8]], "output_sizes": [[8]],
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "frames": frames,
        }
        for n, (name, desc, seq, state) in enumerate(made)
    ]  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    config |= {n: {"name": n, "desc": "undefined", "ranks": str(m)} for n, m in groups.items() if rank in m}
    status = {str(n): {"last_enqueued_collective": 1, "last_started_collective": -1,
                       "last_completed_collective": 1 - n} for n in range(2)}  # fmt: skip
    row = {"version": "2.9", "nccl_version": "2.27.3", "entries": entries, "pg_config": config, "pg_status": status}
    return pickle.dumps(row, 2)


@pytest.mark.parametrize(
    "orders, odd",
    [
        # rank 2 takes its two groups the other way round
        ([[[0, 1, 2], [1, 2, 3]]] * 2 + [[[1, 2, 3], [0, 1, 2]]] + [[[0, 1, 2], [1, 2, 3]]], [2]),
        ([[[0, 1], [2, 3]], [[2, 3], [0, 1]]] * 2, [0, 1]),
        ([[[0, 1], [2, 3]]] * 4, None),
        # each rank splits off its own group: one name for several groups, by right
        ([[[0, 1]], [[0, 1]], [[2, 3]], [[2, 3]]], None),
    ],
)
def test_one_group_under_two_names(orders, odd, tmp_path):
    for rank, order in enumerate(orders):
        groups = {str(n): members for n, members in enumerate(order, 1)}
        called = next(n for n, members in groups.items() if rank in members)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump_of(rank, groups, called))
    found = [h for h in diagnose([str(tmp_path)]).verdicts if h.sub == "new_group"]
    assert [h.ranks for h in found] == ([odd] if odd else [])
    if odd and len(odd) > 1:
        assert "cannot be told" in found[0].summary.render("en")
