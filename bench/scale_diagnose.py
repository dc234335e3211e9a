#!/usr/bin/env python3
"""How the cost of a diagnosis grows with the job: dumps of 1,000 to 10,000 ranks, and 1 GB of logs.

    python bench/scale_diagnose.py                        1,000 to 10,000 ranks; writes its section of RESULTS.md
    python bench/scale_diagnose.py --ranks 1000 --logs 0  one size, no logs
    python bench/scale_diagnose.py --folder /data         where the files may lie meanwhile (5 GB for 10,000 ranks)

Every rank has a dump as NCCL's watchdog writes it: 2,000 calls with stacks in three groups (tensor, data, world). One
rank stops before a call of its tensor group, its seven peers wait there, all others wait for one of those in their data
group. Right is: that rank alone, and host-stall. CPU seconds are user and system time of all processes, peak memory is
the largest resident size of one process. The logs are eight ranks that print steps, seven of which time out.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
from pathlib import Path

from results import torchvet, version_of, write
from speed import measure

SIZES = (1000, 2000, 4000, 10_000)
ENTRIES = 2000
TENSOR = 8  # ranks of a tensor group; data groups are the ranks with the same place in theirs
CYCLE = ("tensor",) * 6 + ("data", "world")
FIRST = 1_000_000  # record of the oldest call that is kept
NAME = {"tensor": "tensor-@@@@@@@", "data": "data-#######", "world": "0"}


def template(steps: int, behind: str | None, world: int) -> bytes:
    """The dump of one rank, with places for the names and members of its own groups. `behind`: the group in whose last
    call it waits, None = it has made one call less than its peers and waits nowhere."""
    frames = [
        {"name": f"forward_{n}", "filename": f"/job/src/package/module_{n}.py", "line": 100 + n} for n in range(40)
    ]
    chains = {kind: frames[n : n + 24] for n, kind in enumerate(NAME)}
    entries = []
    counts = dict.fromkeys(NAME, 5000)
    kinds = [CYCLE[n % len(CYCLE)] for n in range(steps)]
    if behind:
        kinds.append(behind)
    for record, kind in enumerate(kinds):
        counts[kind] += 1
        waits = bool(behind) and record == len(kinds) - 1
        entries.append({
            "record_id": FIRST + record, "pg_id": list(NAME).index(kind),
            "process_group": (NAME[kind], f"{kind}_parallel"), "thread_name": "python",
            "thread_id": "139679775128448", "collective_seq_id": counts[kind], "p2p_seq_id": 0, "op_id": counts[kind],
            "profiling_name": "nccl:all_reduce" if kind != "data" else "nccl:_reduce_scatter_base",
            "time_created_ns": 1_795_956_952_000_000_000 + record * 1_000_003, "input_sizes": [[4096, 1, 5120]],
            "input_dtypes": ["BFloat16"], "output_sizes": [[4096, 1, 5120]], "output_dtypes": ["BFloat16"],
            "state": "scheduled" if waits else "completed", "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None if waits else 1_795_956_952_500_000_000 + record * 1_000_003,
            "retired": not waits, "timeout_ms": 600_000, "is_p2p": False, "frames": list(chains[kind]),
        })  # fmt: skip
    members = {"tensor": "[" + "@" * (7 * TENSOR) + "]", "data": "[" + "#" * (7 * (world // TENSOR)) + "]"}
    members["world"] = str(list(range(world)))
    dump = {
        "version": "2.10",
        "pg_config": {
            NAME[k]: {"name": NAME[k], "desc": "default_pg" if k == "world" else f"{k}_parallel", "ranks": members[k]}
            for k in NAME
        },
        "comm_lib_version": "2.27.3",
        "pg_status": {
            str(n): {
                "last_enqueued_collective": counts[k], "last_started_collective": -1,
                "last_completed_collective": counts[k] - (k == behind),
            }
            for n, k in enumerate(NAME)
        },
        "entries": entries[-ENTRIES:],
    }  # fmt: skip
    return pickle.dumps(dump, 2)


def own(data: bytes, rank: int, world: int) -> bytes:
    """The template with this rank's groups. Numbers have a fixed width: lengths in the pickle stay as they are."""
    first, place = rank - rank % TENSOR, rank % TENSOR
    data = data.replace(b"[" + b"@" * (7 * TENSOR) + b"]", b"[" + _list(range(first, first + TENSOR)) + b"]")
    data = data.replace(b"[" + b"#" * (7 * (world // TENSOR)) + b"]", b"[" + _list(range(place, world, TENSOR)) + b"]")
    return data.replace(b"@@@@@@@", b"%07d" % (first // TENSOR + 1)).replace(b"#######", b"%07d" % (2_000_000 + place))


def _list(ranks: range) -> bytes:
    return b",".join(b"%6d" % r for r in ranks) + b" "


def dumps(folder: Path, world: int, culprit: int) -> int:
    """Write the dumps of a job; bytes in all."""
    steps = ENTRIES + 44 - (ENTRIES + 44) % len(CYCLE)  # whole cycles; the ring has dropped the first calls
    stalled = template(steps, None, world)
    peer = template(steps, "tensor", world)
    other = template(steps + 6, "data", world)
    size = 0
    for rank in range(world):
        kind = stalled if rank == culprit else peer if rank // TENSOR == culprit // TENSOR else other
        data = own(kind, rank, world)
        (folder / f"comm_lib_trace_rank_{rank}").write_bytes(data)
        size += len(data)
    return size


def answer(path: Path) -> list[tuple[str, list[int]]]:
    """Cause and ranks of every verdict in a report, which is removed."""
    found = [(v["cause"], v["ranks"]) for v in json.loads(path.read_text("utf-8"))["verdicts"]]
    path.unlink()
    return found


def logs(folder: Path, size: int) -> int:
    """Eight ranks that print a step a line until the size is reached; seven time out, rank 5 is silent."""
    block = "".join(
        f"[2026-11-29 12:{n // 60 % 60:02}:{n % 60:02}] step {n} loss {2 + 1 / (n + 1):.4f} lr 3.0e-04 "
        f"tokens/s {18_000 + n % 97} mem 61.2 GiB grad-norm {1 + (n % 31) / 40:.3f}\n"
        for n in range(10_000)
    ).encode()
    for rank in range(8):
        home = folder / "logs" / "run_0" / "attempt_0" / str(rank)
        home.mkdir(parents=True)
        with (home / "stdout.log").open("wb") as f:
            for _ in range(max(1, size // 8 // len(block))):
                f.write(block)
        if rank != 5:
            text = (
                f"[rank{rank}]:[E1129 12:55:31.804592473 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=4212, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, "
                "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
            )
            (home / "stderr.log").write_text(text)
    return sum(p.stat().st_size for p in folder.rglob("*.log"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--logs", type=float, default=1.0, help="GB of logs, 0 = none")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--no-write", action="store_true", help="print only")
    a = parser.parse_args()
    text = f"## Growth of diagnose\n\n`python bench/scale_diagnose.py`, {version_of(torchvet()[0])}; "
    text += f"dumps of {ENTRIES:,} calls, "
    text += "one stalled rank; in brackets: CPU per rank, times the size before\n\n"
    text += f"| ranks | bytes | CPU | wall | peak memory | verdict |\n|{'---|' * 6}\n"
    wrong, before = 0, 0.0
    for world in a.ranks:
        with tempfile.TemporaryDirectory(prefix="torchvet-scale-", dir=a.folder) as name:
            folder, culprit = Path(name), world // 3
            size = dumps(folder, world, culprit)
            out = folder.parent / f"{folder.name}.json"
            _, cpu, wall, peak = measure([*torchvet(), "diagnose", name, "-o", f"json={out}"], folder)
            found = answer(out)
        right = found == [("host-stall", [culprit])]
        wrong += not right
        grown = f" ({1000 * cpu / world:.1f} ms{f', {cpu / world / before:.2f}' if before else ''})"
        before = cpu / world
        said = "right" if right else f"wrong: {found}"
        text += f"| {world:,} | {size / 1e9:.2f} GB | {cpu:.0f} s{grown} | {wall:.0f} s | {peak:.0f} MiB | {said} |\n"
        print(text.rsplit("\n", 2)[-2], flush=True)
    if a.logs:
        with tempfile.TemporaryDirectory(prefix="torchvet-scale-", dir=a.folder) as name:
            size = logs(Path(name), int(a.logs * 1e9))
            out = Path(name) / "answer.json"
            _, cpu, wall, peak = measure(
                [*torchvet(), "diagnose", str(Path(name) / "logs"), "-o", f"json={out}"], Path(name)
            )
            found = answer(out)
        right = [r for _, r in found] == [[5]]
        wrong += not right
        text += f"\n{size / 1e9:.2f} GB of logs: {cpu:.0f} s CPU, {wall:.0f} s wall, {peak:.0f} MiB; "
        text += f"{'right' if right else f'wrong: {found}'}\n"
    print(text)
    if not a.no_write:
        write("scale diagnose", text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
