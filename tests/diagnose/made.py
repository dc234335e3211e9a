"""Diagnoses made by hand: what outputs show does not depend on what readers and causes find today."""

from __future__ import annotations

from torchvet.diagnose.code import Place, Rule
from torchvet.diagnose.evidence.recorder_facts import facts_of
from torchvet.diagnose.model import STRONG, WEAK, Case, Diagnosis, Fact, Hypothesis, Inventory, Link, Rank
from torchvet.findings import Text

OPS = ("all_reduce", "all_reduce", "all_gather_into_tensor", "all_reduce")
NOW = 1_780_000_000


def dump(rank: int, world: int, enqueued: int, completed: int) -> dict:
    """A recorder dump of an NCCL job as torch 2.9 writes it: one group, the last calls in the ring."""
    frames = [
        {
            "name": "all_reduce",
            "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d.py",
            "line": 9,
        },
        {"name": "train_step", "filename": "/workspace/proj/train.py", "line": 57},
    ]
    entries = [
        {
            "record_id": seq, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": seq,
            "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"nccl:{OPS[seq % 4]}", "is_p2p": False,
            "time_created_ns": (NOW + seq) * 10**9, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "state": "completed" if seq <= completed else "scheduled",
            "retired": seq <= completed, "timeout_ms": 600_000, "input_sizes": [[1024]], "output_sizes": [[1024]],
            "input_dtypes": ["Float"], "output_dtypes": ["Float"], "frames": frames,
        }
        for seq in range(max(1, enqueued - 30), enqueued + 1)
    ]  # fmt: skip
    return {
        "version": "2.9", "nccl_version": "2.27.3", "entries": entries,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
        "pg_status": {"0": {"last_enqueued_collective": enqueued, "last_started_collective": -1,
                            "last_completed_collective": completed}},
    }  # fmt: skip


def hang(world: int = 8, absent: int = 5, text: str = "loss is nan, skipping batch") -> Diagnosis:
    """Rank `absent` left the loop, the others wait in call 4,212."""
    facts: list[Fact] = []
    inventory = Inventory(world=world)
    dumps = {last: list(facts_of(dump(0, world, last, 4211), "", cut=False, written=NOW)) for last in (4211, 4212)}
    for rank in range(world):
        source = f"fr/rank_{rank}"
        rows = [
            Fact(f.kind, source, f.line, rank, f.text, f.time, f.order, f.values, f.quality)
            for f in dumps[4211 if rank == absent else 4212]
        ]
        facts += rows
        inventory.files.append((source, "recorder", 12_345, len(rows)))
        where = [["/workspace/proj/train.py", 49 if rank == absent else 57, "train_step"],
                 ["/workspace/proj/main.py", 12, "main"]]  # fmt: skip
        if rank != absent:
            where.insert(0, ["/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", 9, "all_reduce"])
        facts.append(Fact("stack", f"stacks/rank_{rank}.txt", 1, rank, values={"main": where}))
        inventory.files.append((f"stacks/rank_{rank}.txt", "stack", 800, 1))
    said = Fact("nan", f"logs/{absent}/stdout.log", 412, absent, text, time=NOW + 10.5, values={"step": 4212})
    late = Fact(
        "watchdog", "logs/0/stderr.log", 3, 0, "watchdog", time=NOW + 610.0, values={"op": "ALLREDUCE", "seq": 4212}
    )
    undated = Fact("closing", "launcher.log", 1, 3, "Sending process 464 closing signal SIGTERM", order=1)
    facts += [said, late, undated]
    inventory.problems.append((f"fr/rank_{absent}.json", Text("is empty", "为空")))
    case = Case(facts, inventory)
    case.ranks = {
        n: Rank(n, n, has={"log", "recorder", "stack"} if n != absent else {"log", "stack"}, step=4212)
        for n in range(world)
    }
    case.ranks[2].code = 1
    verdict = Hypothesis(
        "rank-absent", "left loop", Text("rank {r} left the loop early", "rank {r} 提前离开了循环", r=absent), [absent],
        "confirmed", ("/workspace/proj/train.py", 51),
        supports=[
            Link(said, Text('rank {r} says: "{x}"', "rank {r} 输出：“{x}”", r=absent, x=text), STRONG),
            Link(facts[0], Text("group world: last call 4,211 on rank {r}, 4,212 on the others",
                                "组 world：rank {r} 最后一次调用为 4,211，其他为 4,212", r=absent), STRONG),
            Link(None, Text("a weak hint", "弱线索"), WEAK),
        ],
        contradicts=[Link(late, Text("rank {r} is named first by the launcher: it only timed out waiting",
                                     "启动器首先指出 rank {r}：它只是等待超时", r=2))],
        missing=[Text("dump of rank {r}", "rank {r} 的转储", r=absent)],
        next=[Text("reduce the flag over all ranks before the batch is skipped", "跳过批次前先在所有 rank 间归约标志")],
        rule="local-skip",
    )  # fmt: skip
    other = Hypothesis(
        "host-stall", "data", Text("rank {r} waits for data", "rank {r} 在等数据", r=absent), [absent], "possible"
    )
    side = Hypothesis("host-oom", "growth", Text("host memory grew by {n} a step", "主机内存每步增长 {n}", n="118 kB"), [],
                      "likely", ("/workspace/proj/train.py", 63), side=True)  # fmt: skip
    return Diagnosis(inventory, [verdict, other], [side], case)


def healthy() -> Diagnosis:
    inventory = Inventory(files=[("launcher.log", "launcher", 10, 1)], world=2)
    case = Case([Fact("output", "launcher.log", 1, 0)], inventory)
    return Diagnosis(inventory, [], [], case)


def places() -> dict:
    lines = [
        (49, "    loss = model(batch)"),
        (50, ""),
        (51, "    if torch.isnan(loss): continue"),
        (52, "    loss.backward()"),
    ]
    rule = Rule("local-skip", "TV406", "error", Text("the batch is skipped on one rank", "只有一个 rank 跳过该批次"),
                Text("reduce the flag first, skip on all ranks", "先归约标志，再在所有 rank 上跳过"), 51, "train.py", "if torch.isnan(loss): continue",
                [("train.py", 50, "if skip:", Text("ranks part here", "各 rank 在此分开"))])  # fmt: skip
    return {("/workspace/proj/train.py", 51): Place("train.py", 51, "proj/train.py", lines, rules=[rule])}
