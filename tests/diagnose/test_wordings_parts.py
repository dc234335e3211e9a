"""Evidence that is cut, old, of lost nodes, or of other tools: what may still be said, and what may not."""

from __future__ import annotations

import json
import pickle

import pytest
from written import Cases, Job

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.evidence import snapshot, stacks
from torchvet.diagnose.files import Item, items

MAIN = ("/workspace/proj/train.py", 61, "main")
REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2094, remote process "
    "exited or there was a network error, NCCL version 2.20.5\nncclRemoteError: A call failed possibly due to a network error or a "
    "remote process exiting prematurely."
)
case = Cases()


@case("rank-absent", ranks=(2,))
def link_was_down_the_day_before(job: Job):
    job.steps(0, 20).raised(2, "KeyError: 'speaker_12'", MAIN)
    for r in (0, 1, 3):
        job.raised(r, REMOTE, MAIN)
    job.write(
        "kernel.log",
        "[Mon Mar  3 03:00:41 2025] mlx5_core 0000:3b:00.0 mlx5_0: Port: 1 Link DOWN\n"
        "[Mon Mar  3 03:00:58 2025] mlx5_core 0000:3b:00.0 mlx5_0: Port: 1 Link ACTIVE\n"
        "[Tue Mar  4 02:00:58 2025] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 22013, Non-fatal, Link 31 minion link DLREQ interrupt\n",
    )
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("fabric", sub="IB link down")
def link_was_down_then(job: Job):
    for r in range(4):
        job.raised(r, REMOTE, MAIN)
    job.write("kernel.log", "[Tue Mar  4 11:19:41 2025] mlx5_core 0000:3b:00.0 mlx5_0: Port: 1 Link DOWN\n")
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("rank-absent", "host-stall", ranks=(4, 5, 6, 7))
def one_node_falls_silent(job: Job):
    job.steps(0, 40)
    for r in range(4):
        job.watchdog(r, 81)
    job.ended(dict.fromkeys(range(4), -6), 1, name="launcher_node-a.log")


one_node_falls_silent.world, one_node_falls_silent.nodes = 8, 2


@case("rank-absent", ranks=(2,), sub="no trace")
def an_aborted_rank_without_its_log(job: Job):
    job.steps(0, 40, [0, 1, 3])
    for r in (0, 1, 3):
        job.watchdog(r, 81)
    for stream in ("stdout", "stderr"):
        (job.of(2) / f"{stream}.log").unlink()
    job.ended(dict.fromkeys(range(4), -6), 1)


@case("rank-absent", ranks=(0,), sub="crashed: ValueError")
def an_exception_that_was_outlived(job: Job):
    for stream in ("stdout", "stderr"):
        for r in range(4):
            (job.of(r) / f"{stream}.log").unlink()
    lines = [
        "Traceback (most recent call last):",
        '  File "/workspace/proj/data.py", line 9, in load',
        "    decode(x)",
        "OSError: broken image",
    ]
    for r in range(4):
        text = "".join(f"[rank{r}]: step {s} loss 2.1\n" for s in range(4))
        text += "".join(f"[rank{r}]: {line}\n" for line in lines) * (r == 1)
        job.write(f"rank_{r}.log", text + "".join(f"[rank{r}]: step {s} loss 2.1\n" for s in range(4, 9)))
    raised = [
        "Traceback (most recent call last):",
        '  File "/workspace/proj/train.py", line 61, in main',
        "    f()",
        "ValueError: bad span",
    ]
    with (job.folder / "rank_0.log").open("a") as f:
        f.write("".join(f"[rank0]: {line}\n" for line in raised))


@case("unknown")
def the_shell_killed_the_launcher(job: Job):
    text = "".join(f"[rank{r}]: step {s} loss 2.1\n" for s in range(9) for r in range(2))
    job.write("job.log", f"{text}run.sh: line 14: 21877 Killed                  torchrun --nproc-per-node=2 train.py\n")


the_shell_killed_the_launcher.world = 0


@case("native-crash", ranks=(1,), sub="abort")
def abort_without_a_word(job: Job):
    job.steps(0, 9)
    for r in (0, 2, 3):
        job.lost(r)
    job.ended({0: 1, 1: -6, 2: 1, 3: 1}, 0)


@case("rank-absent", "unknown", ranks=(2,), sub="killed")
def one_rank_got_sigterm_before_the_agent_closed_the_others(job: Job):
    job.steps(0, 9).closed(2, -15)
    agent = job.folder / "launcher.log"
    lines = agent.read_text().splitlines(keepends=True)
    agent.write_text("".join(line for line in lines if "process 4102 closing" not in line))


@case("unknown", "scheduler-action")
def all_ranks_were_closed(job: Job):
    job.steps(0, 9)
    for r in range(4):
        job.err(r, "")
    job.closed(2, -15)


ENVIRONMENT = (
    '{{"rank": {n}, "RANK": "{rank}", "WORLD_SIZE": "{world}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "58601"}}\n'
)


def started_by_hand(job: Job, rows: list[tuple[int, int]], late: dict[int, str]):
    """`rows`: (RANK, WORLD_SIZE) of each process; `late`: the key that a rank waited for in vain."""
    job.write("env.json", "".join(ENVIRONMENT.format(n=n, rank=r, world=w) for n, (r, w) in enumerate(rows)))
    job.write("launcher.log", "".join(f"started rank {n} of {len(rows)}, pid {3100 + n}\n" for n in range(len(rows))))
    for r, key in late.items():
        job.raised(r, f"torch.distributed.DistStoreError: wait timeout after 10000ms, keys: {key}", MAIN, prefix=False)
    job.write("exit.json", "{" + ", ".join(f'"{n}": {1 if n in late else -15}' for n in range(len(rows))) + "}")


@case("configuration", ranks=(2,), sub="RANK")
def two_processes_with_one_rank(job: Job):
    started_by_hand(job, [(0, 3), (1, 3), (1, 3)], dict.fromkeys(range(3), "/default_pg/0//cpu//0/2"))


@case("configuration", ranks=(2,), sub="WORLD_SIZE")
def one_process_with_another_world(job: Job):
    started_by_hand(job, [(0, 3), (1, 3), (2, 4)], {2: "/default_pg/0//cpu//0/3"})


two_processes_with_one_rank.world = one_process_with_another_world.world = 3


def dump(job: Job, rank: int, op: str, sizes: list[list[int]], world: int = 4, last: int = 7):
    """Call 7, unfinished; or with `last` 6 the one before it, which is finished."""
    call = {"record_id": 6, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": last, "p2p_seq_id": 0, "op_id": last,
            "profiling_name": f"gloo:{op}", "time_created_ns": 1_790_000_000_000_000_000, "input_sizes": [[8]], "output_sizes": sizes,
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "scheduled", "time_discovered_started_ns": 0,
            "time_discovered_completed_ns": 0, "retired": last == 6, "timeout_ms": 8000, "is_p2p": False}  # fmt: skip
    status = {
        "0": {"last_enqueued_collective": str(last), "last_started_collective": "-1", "last_completed_collective": "6"}
    }
    group = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    job.write(
        f"fr_exit/rank_{rank}.json",
        json.dumps({"version": "2.10", "pg_config": group, "pg_status": status, "entries": [call]}),
    )


def pieces(job: Job, got: int, want: int):
    """Rank 3 aborts at a message of another size; rank 1 left no dump."""
    job.err(3, f"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:456] "
            f"op.preamble.length <= op.nbytes. {got} vs {want}. Received data size doesn't match expected size.\n")  # fmt: skip
    for r in (0, 2):
        dump(job, r, "all_gather", [[4, 8]])
    job.closed(3, -6)


@case("shape-mismatch", ranks=(3,))
def the_message_is_a_part_of_what_the_others_called(job: Job):
    pieces(job, 16, 10)


@case("shape-mismatch")
def the_message_fits_neither(job: Job):
    pieces(job, 24, 16)


TORCH = "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def stack(job: Job, rank: int, *frames: tuple[str, int, str]):
    lines = [f'  File "{path}", line {line} in {name}' for path, line, name in frames]
    job.write(f"stacks/rank_{rank}.txt", "\n".join(["Thread 0x00007f6dff03ab80 (most recent call first):", *lines, ""]))


@case("rank-absent", ranks=(3,), sub="exited")
def a_rank_in_its_exit_handlers_has_left(job: Job):
    job.steps(0, 9).out(3, "no samples left, leaving\n")
    for r in range(3):
        stack(job, r, (TORCH, 3252, "all_reduce"), ("/workspace/run/train.py", 28, "<module>"))
        job.lost(r)
    stack(
        job,
        3,
        ("/usr/lib/python3.11/importlib/__init__.py", 126, "import_module"),
        ("/workspace/run/run_trace.py", 41, "_recorder"),
    )


@case("host-stall", "rank-absent", ranks=(2,))
def a_rank_whose_dump_waits_did_not_leave(job: Job):
    job.steps(0, 9).out(2, "matching the pattern\n")
    for r in (0, 1):
        dump(job, r, "all_reduce", [[64]], world=3)
    job.err(
        0, '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/workspace/proj/train.py", line 61, in main'
    )
    job.ended({0: 1, 1: -15, 2: -15}, 0)


a_rank_whose_dump_waits_did_not_leave.world = 3


@case("rank-absent", ranks=(2,), sub="exited")
def a_rank_that_a_whole_report_does_not_list(job: Job):
    job.steps(0, 5).out(2, "nothing to do\n").lost(0)
    job.err(1, "[rank1]:[E1130 18:51:27.598634219 ProcessGroupGloo.cpp:67] Rank 1 successfully reached monitoredBarrier, but received errors "
            "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n")  # fmt: skip
    job.ended({0: 1, 1: -15}, 0)


@case("collective-mismatch", ranks=(0,), sub="extra call")
def one_call_more_than_all_others(job: Job):
    job.steps(0, 10, [0]).out(0, "validation\n").steps(0, 11, [1, 2, 3]).lost(0)
    for r in range(4):
        dump(job, r, "broadcast" if r == 0 else "all_reduce", [[8]], last=7 if r == 0 else 6)
    job.ended({0: 1}, 0)


@case("collective-mismatch", ranks=(0,), sub="extra call")
def one_call_more_and_no_steps_told(job: Job):
    job.lost(0)
    for r in range(4):
        dump(job, r, "broadcast" if r == 0 else "all_reduce", [[8]], last=7 if r == 0 else 6)
    job.ended({0: 1}, 0)


@case("p2p-partner-missing", ranks=(2,), sub="isend")
def the_handle_of_a_send_that_nobody_receives(job: Job):
    late = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 8000ms for send operation to complete"
    here, there = ("/workspace/run/src/train.py", 21, "<module>"), ("/workspace/run/src/train.py", 22, "<module>")
    for r in (0, 1, 3):
        stack(job, r, (TORCH, 3252, "all_reduce"), there)
        job.raised(r, late, there, (TORCH, 3252, "all_reduce"))
    stack(job, 2, here)
    job.raised(2, late, here)
    for r in range(4):
        dump(job, r, "all_reduce", [[8]], last=6 if r == 2 else 7)
    job.ended({0: 1, 1: -15, 2: -15, 3: 1}, 0)


@case("unknown")
def ranks_whose_stacks_wait_did_not_leave(job: Job):
    """Their errors are cut off; a pipeline in which all stand in a send or receive."""
    for r, line, function in ((0, 13, "send"), (1, 13, "send"), (2, 9, "recv"), (3, 9, "recv")):
        stack(job, r, (TORCH, 2753, function), ("/workspace/run/src/train.py", line, "<module>"))
        job.err(
            r,
            f'[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/workspace/run/src/train.py", line {line}, in <module>',
        )
    job.ended({0: -15, 1: 1, 2: 1, 3: -15}, 2)


@case("rank-absent", "uneven-inputs", ranks=(1, 2, 3))
def most_ranks_had_fewer_steps(job: Job):
    job.steps(0, 10, [0]).steps(0, 6, [1, 2, 3]).lost(0)
    for r in range(4):
        dump(job, r, "all_reduce", [[8]], last=7 if r == 0 else 6)
    job.ended({0: 1}, 0)


PIPE = """import torch
import torch.distributed as dist

rank, world = dist.get_rank(), dist.get_world_size()
buf = torch.zeros(16)
for step in range(10):
    peer = 1 - rank
    if rank > 0:
        dist.recv(buf, src=rank - 1)
    dst = rank + 1 if not (rank == 1 and step == 6) else 3
    if rank < world - 1:
        dist.send(
            buf, dst=dst)
    dist.recv(buf, peer)
"""


def at(job: Job, rank: int, line: int, function: str):
    stack(job, rank, (TORCH, 2753, function), ("/workspace/run/src/train.py", line, "<module>"))
    job.raised(rank, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv "
               "operation to complete", ("/workspace/run/src/train.py", line, "<module>"), (TORCH, 2753, function))  # fmt: skip


@case("p2p-partner-missing", ranks=(0, 1), sub="ring")
def both_receive_first(job: Job):
    job.steps(0, 4).write("src/train.py", PIPE)
    at(job, 0, 14, "recv")
    at(job, 1, 14, "recv")
    at(job, 2, 15, "all_reduce")
    job.ended({0: 1, 1: 1, 2: -15}, 1)


@case("p2p-partner-missing", ranks=(1,), sub="partner")
def one_stage_sends_to_another_one(job: Job):
    job.steps(0, 4).write("src/train.py", PIPE)
    for r, line, function in ((0, 13, "send"), (1, 13, "send"), (2, 9, "recv"), (3, 9, "recv")):
        at(job, r, line, function)
    job.ended({0: -15, 1: 1, 2: 1, 3: -15}, 2)


both_receive_first.world = a_rank_that_a_whole_report_does_not_list.world = 3


FINGERPRINT = "RuntimeError: Detected mismatch between collectives on ranks. Rank {a} is running collective: CollectiveFingerPrint({mine}), but Rank {b} is running collective: CollectiveFingerPrint({other}).Collectives differ in the following aspects: \t Sequence number: 13vs 0"
REDUCE_13 = "SequenceNumber=13, OpType=ALLREDUCE, TensorShape=[64], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)"


@case("collective-mismatch", ranks=(0,))
def what_others_read_of_a_barrier(job: Job):
    job.steps(0, 12)
    for r in range(1, 4):
        job.raised(r, FINGERPRINT.format(a=r, b=0, mine=REDUCE_13, other="SequenceNumber=0OpType=REDUCE"), MAIN)
    job.raised(
        0,
        FINGERPRINT.format(a=0, b=1, mine="SequenceNumber=13OpType=BARRIER", other="SequenceNumber=0OpType=GATHER"),
        MAIN,
    )
    job.ended({0: -15, 1: 1, 2: -15, 3: -15}, 1)


@pytest.mark.parametrize("name", case)
def test_part(name, tmp_path):
    case.judge(name, tmp_path)


def test_a_name_that_was_cut_off_is_no_exception_of_its_own(tmp_path):
    job = Job(tmp_path, 2).steps(0, 20)
    job.raised(0, "OSError: [Errno 122] Disk quota exceeded: '/data/step100.pt'", MAIN)
    job.err(
        1,
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/workspace/proj/train.py", line 61, in main\n[rank1]:     dist.barrier()\n[rank1]: torch.distributed.DistBackendE',
    )
    job.ended({0: 1, 1: 1}, 1)
    assert [(h.cause, h.ranks) for h in diagnose([str(tmp_path)]).verdicts][:1] == [("rank-absent", [0])]


def test_cut_messages_are_not_compared(tmp_path):
    job = Job(tmp_path, 3).steps(0, 20)
    for r in range(3):
        job.err(
            r,
            f'[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/workspace/proj/train.py", line 61, in main\n[rank{r}]:     f()\n[rank{r}]: RuntimeError: Detected mism',
        )
    job.ended(dict.fromkeys(range(3), 1), 1)
    assert all(h.sub != "same exception on all ranks" for h in diagnose([str(tmp_path)]).verdicts)


def test_a_lost_rank_votes_where_it_stood(tmp_path):
    """Ranks 0 and 1 were in barrier(), rank 2 in all_reduce(): rank 0 lost its peer before its own time was up."""
    torch = "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    job = Job(tmp_path, 3).steps(0, 12)
    gloo = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/"
    closed, late = (
        f"{gloo}pair.cc:553] Connection closed by peer [127.0.0.1]:20886",
        f"{gloo}unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete",
    )
    barrier = (("/workspace/proj/train.py", 45, "main"), (torch, 5356, "barrier"))
    job.raised(0, closed, *barrier).raised(1, late, *barrier)
    job.raised(2, late, ("/workspace/proj/train.py", 33, "main"), (torch, 3252, "all_reduce")).ended(
        dict.fromkeys(range(3), 1), 0
    )
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.ranks) == ("collective-mismatch", [2])


def test_pystack(tmp_path):
    path = tmp_path / "rank_2.txt"
    path.write_text(
        'Traceback for thread 4102 (python) [Has the GIL] (most recent call last):\n    (Python) File "/app/train.py", line 90, in <module>\n'
        '        main()\n    (Python) File "/app/train.py", line 52, in main\n        encode()\n    (C) File "tok.c", line 3, in run (tok.so)\n'
        '    (Python) File "/app/tok.py", line 17, in encode\n        enc(t)\n'
    )
    item = next(e for e in items([str(path)]) if isinstance(e, Item))
    assert stacks.sniff(item) > 0.5
    (fact,) = stacks.READER.read(item)
    assert fact.values["main"] == [
        ["/app/tok.py", 17, "encode"],
        ["/app/train.py", 52, "main"],
        ["/app/train.py", 90, "<module>"],
    ]
    assert (fact.rank, fact.values["state"]) == (2, "active+gil")


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("snapshot_rank3.pickle", 3), ("memory_snapshot_2.pickle", 2), ("rank_1/iteration_100.pickle", 1), ("0/snapshot.pickle", 0),
        ("node-a_Jun_11_08_15_00.pickle", None), ("snapshot_1718000123.pickle", None), ("step40.pickle", None),
    ],
)  # fmt: skip
def test_dates_and_steps_in_the_name_of_a_snapshot_are_no_ranks(name, rank, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps({"segments": [{"device": 0, "total_size": 2, "blocks": []}], "device_traces": [[]]}))
    item = next(e for e in items([str(tmp_path)]) if isinstance(e, Item))
    assert next(iter(snapshot.READER.read(item))).rank == rank


def test_the_bytes_of_a_barrier_are_named_no_operation(tmp_path):
    job = Job(tmp_path, 4).steps(0, 12)
    for r in range(1, 4):
        job.raised(r, FINGERPRINT.format(a=r, b=0, mine=REDUCE_13, other="SequenceNumber=0OpType=REDUCE"), MAIN)
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.ranks) == ("collective-mismatch", [0])
    assert "another call" in str(first.summary) and " reduce" not in str(first.summary)


def restarted(folder, first: dict[int, int], root: int, second: dict[int, int], then: int) -> Job:
    """Two attempts of three ranks: `first` and `second` are the exit codes by rank."""
    Job(folder, 3).steps(0, 4).ended(first, root)
    agent = (folder / "launcher.log").read_text().split("Traceback")[0]
    job = Job(folder, 3, attempt=1).ended(second, then)
    (folder / "launcher.log").write_text(agent + (folder / "launcher.log").read_text())
    return job


MESH = "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] Connect timeout [none]"


def test_a_restart_that_never_came_up_is_not_the_failure(tmp_path):
    job = restarted(tmp_path, {0: -15, 1: -15, 2: 1}, 2, {0: 1, 1: -15, 2: -15}, 0)
    for r in range(3):
        job.raised(r, MESH, MAIN, prefix=False)
    Job(tmp_path, 3).raised(2, "KeyError: 'lang'", MAIN)
    found = diagnose([str(tmp_path)])
    assert [(h.cause, h.ranks) for h in found.verdicts] == [("rank-absent", [2])]
    assert any("attempt_1" in name for name, _ in found.inventory.problems)


def test_a_restart_that_made_steps_is_what_counts(tmp_path):
    job = restarted(tmp_path, {0: -15, 1: -9, 2: -15}, 1, {0: 1, 2: -15}, 0).steps(4, 9)
    job.raised(0, "ValueError: bad crop", MAIN)
    found = diagnose([str(tmp_path)])
    assert [(h.cause, h.sub, h.ranks) for h in found.verdicts] == [("rank-absent", "crashed: ValueError", [0])]
    assert found.case.ranks[1].code != -9
