"""Jobs that never ran: programs of ranks, executed by the rules of NCCL (or gloo), and what they would leave behind.

A program is a list of steps. The host issues calls one after the other and waits at `sync`; the device of a rank works
them off in order, and a call ends when every rank that takes part has come to the same one. So dumps, stacks and lines
of the watchdog follow from the programs; nobody writes by hand who waits for whom.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

SITE = "/opt/conda/lib/python3.10/site-packages/torch/distributed"
T0 = 1_790_000_000
KNOWN = {
    "all_reduce": "ALLREDUCE",
    "broadcast": "BROADCAST",
    "barrier": "BARRIER",
    "all_gather": "ALLGATHER",
    "_all_gather_base": "_ALLGATHER_BASE",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "all_to_all": "ALLTOALL",
    "reduce": "REDUCE",
    "coalesced": "COALESCED",
    "send": "SEND",
    "recv": "RECV",
    "gather": "GATHER",
}


def call(group, op, n=4096, line=57, fn="train_step", file="/workspace/train.py"):
    return {
        "do": "call",
        "group": group,
        "op": op,
        "n": n,
        "at": [(fn, line, file), ("main", 120, "/workspace/train.py")],
    }


def p2p(group, which, peer, n=4096, line=88, fn="pipeline_step"):
    return {"do": "p2p", "group": group, "op": which, "peer": peer, "n": n,
            "at": [(fn, line, "/workspace/pipe.py"), ("main", 120, "/workspace/train.py")]}  # fmt: skip


def batch(group, parts, n=4096, line=95, fn="exchange"):
    return {"do": "batch", "group": group, "op": "coalesced", "parts": parts, "n": n,
            "at": [(fn, line, "/workspace/pipe.py"), ("main", 120, "/workspace/train.py")]}  # fmt: skip


def sync(line=61, fn="train_step"):
    return {"do": "sync", "at": [(fn, line, "/workspace/train.py"), ("main", 120, "/workspace/train.py")]}


def stay(*frames):
    """The host never leaves this place. Frames (function, line, file), innermost first."""
    return {"do": "stay", "at": [*frames, ("main", 120, "/workspace/train.py")]}


def say(text):
    return {"do": "say", "text": text}


def late(seconds):
    return {"do": "late", "seconds": seconds}


def end(code=0):
    return {"do": "end", "code": code}


class Sim:
    """`groups`: {key: (name, description, ranks)}; `stuck`: {(rank, group, seq)} whose device never ends."""

    def __init__(self, world, groups, programs, backend="nccl", stuck=(), skew=0.0):
        self.world, self.backend, self.stuck = world, backend, set(stuck)
        self.groups = {"world": ("0", "default_pg", list(range(world))), **groups}
        self.programs = programs
        self.at = [0] * world
        self.clock = [float(T0) + skew * r for r in range(world)]
        self.entries: list[list[dict]] = [[] for _ in range(world)]
        self.queue: list[list[dict]] = [[] for _ in range(world)]
        self.said: list[list[str]] = [[] for _ in range(world)]
        self.seq: list[dict] = [{} for _ in range(world)]
        self.code: list[int | None] = [None] * world
        self.snapshots: dict = {}
        self.issued: set = set()
        self._run()

    # the job

    def _issue(self, rank, step):
        group = step["group"]
        counts = self.seq[rank].setdefault(group, {"coll": 0, "p2p": 0, "op": 0})
        counts["op"] += 1
        self.clock[rank] += 0.01
        if step["do"] == "p2p":
            counts["p2p"] += 1
        else:
            counts["coll"] += 1
        rows = []
        for part in step.get("parts", ()):
            rows.append(self._row(rank, step, counts, part[0], part[1], inner=True))
            counts["op"] += 1
        main = self._row(rank, step, counts, step["op"], step.get("peer"))
        self.entries[rank] += [*rows, main]
        work = {"step": step, "row": main, "group": group, "left": [list(p) for p in step.get("parts", ())],
                "seq": counts["p2p"] if step["do"] == "p2p" else counts["coll"]}  # fmt: skip
        self.queue[rank].append(work)
        return work

    def _row(self, rank, step, counts, op, peer, inner=False):
        members = self.groups[step["group"]][2]
        here = members.index(rank)
        name = f"{self.backend}:{op}"
        if op in ("send", "recv"):
            name += f" {here}{'->' if op == 'send' else '<-'}{members.index(peer)}"
        width = len(members)
        out = step["n"] * width if op in ("all_gather", "_all_gather_base") else step["n"]
        into = step["n"] * width if op == "_reduce_scatter_base" else step["n"]
        nothing = op in ("coalesced",)
        return {
            "rank": rank, "group": step["group"], "op": op, "name": name, "coll": counts["coll"], "p2p": counts["p2p"], "opid": counts["op"],
            "created": self.clock[rank], "done": None, "in": [] if nothing else [[into]], "out": [] if nothing else [[out]],
            "isp2p": op in ("send", "recv"), "inner": inner, "at": step["at"],
        }  # fmt: skip

    def _host(self, rank):
        moved = False
        while self.code[rank] is None and self.at[rank] < len(self.programs[rank]):
            step = self.programs[rank][self.at[rank]]
            if step["do"] in ("call", "p2p", "batch"):
                if (rank, self.at[rank]) not in self.issued:
                    self._issue(rank, step)
                    self.issued.add((rank, self.at[rank]))
                    moved = True
                if self.backend == "gloo" and self.queue[rank]:
                    return moved
            elif step["do"] == "sync":
                if self.queue[rank]:
                    return moved
            elif step["do"] == "stay":
                return moved
            elif step["do"] == "say":
                self.said[rank].append(step["text"])
            elif step["do"] == "late":
                self.clock[rank] += step["seconds"]
            elif step["do"] == "end":
                if self.queue[rank] and step["code"] == 0:
                    return moved
                self.code[rank] = step["code"]
            elif step["do"] == "snap":
                self.snapshots[rank] = self._freeze(rank)
            self.at[rank] += 1
            moved = True
        if self.code[rank] is None and self.at[rank] >= len(self.programs[rank]) and not self.queue[rank]:
            self.code[rank] = 0
        return moved

    def _head(self, rank):
        return self.queue[rank][0] if self.queue[rank] else None

    def _meet(self, rank):
        """Does the call at the head of this rank's queue end now?"""
        work = self._head(rank)
        step, group = work["step"], work["group"]
        if (rank, group, work["seq"]) in self.stuck:
            return False
        members = self.groups[group][2]
        if step["do"] == "call":
            if work.get("free"):
                return True
            others = [self._head(r) for r in members]
            same = all(
                o and o["group"] == group and o["seq"] == work["seq"] and o["step"]["do"] == "call"
                and o["step"]["op"] == step["op"] and o["step"]["n"] == step["n"] for o in others
            )  # fmt: skip
            if same:
                for o in others:
                    o["free"] = True
            return same
        wants = work["left"] if step["do"] == "batch" else [[step["op"], step["peer"]]]
        if work.get("free"):
            return True
        for want in list(wants):
            other = self._head(want[1])
            if not other or other.get("free") or other["group"] != group or other["step"]["do"] not in ("p2p", "batch"):
                continue
            mirror = ["recv" if want[0] == "send" else "send", rank]
            theirs = other["left"] if other["step"]["do"] == "batch" else [[other["step"]["op"], other["step"]["peer"]]]
            if mirror in theirs:
                wants.remove(want)
                if other["step"]["do"] == "batch":
                    other["left"].remove(mirror)
                    other["free"] = not other["left"]
                else:
                    other["free"] = True
        return not wants

    def _run(self):
        moved = True
        while moved:
            moved = False
            for rank in range(self.world):
                moved |= self._host(rank)
            for rank in range(self.world):
                while self._head(rank) and self._meet(rank):
                    work = self.queue[rank].pop(0)
                    work["row"]["done"] = self.clock[rank] = self.clock[rank] + 0.02
                    moved = True

    # what it leaves

    def _freeze(self, rank):
        return json.dumps([self.entries[rank], self.seq[rank], self.clock[rank]])

    def standing(self, rank):
        """Frames at which the host stands, innermost first; None when it has ended."""
        if self.code[rank] is not None:
            return None
        if self.at[rank] < len(self.programs[rank]):
            step = self.programs[rank][self.at[rank]]
            inside = (
                [] if step["do"] in ("stay", "sync", "end") else [(step["op"], 2501, f"{SITE}/distributed_c10d.py")]
            )
            if step["do"] != "end":
                return [*inside, *step["at"]]
        return [("synchronize", 892, "/opt/conda/lib/python3.10/site-packages/torch/cuda/__init__.py"), ("main", 131, "/workspace/train.py")]  # fmt: skip

    def status(self, rank, group):
        """(last enqueued, last completed) of a group, as the recorder's status has them."""
        mine = [w for w in self.entries[rank] if w["group"] == group and not w["inner"]]
        number = [(w["p2p"] if w["isp2p"] else w["coll"]) for w in mine]
        done = [n for n, w in zip(number, mine) if w["done"] is not None]
        return (number[-1] if number else -1, done[-1] if done else -1)

    def dump(self, rank, version="2.9", ring=2000, frames=True, active=False, frozen=False):
        rows, seqs = self.entries[rank], self.seq[rank]
        if frozen:
            rows, seqs, _ = json.loads(self.snapshots[rank])
        minor = int(version.partition(".")[2] or 0) if version else -1
        first = max(0, len(rows) - ring)
        entries = []
        mine = [g for g, (_, _, ranks) in self.groups.items() if rank in ranks]
        order = {g: i for i, g in enumerate(mine)}  # the number of a group within its process: as they were made
        for number, row in enumerate(rows):
            if number < first or (active and row["done"] is not None):
                continue
            name, desc, _ = self.groups[row["group"]]
            done = row["done"] is not None and not row["inner"]
            entry = {"record_id": number, "pg_id": order[row["group"]], "process_group": (name, desc), "profiling_name": row["name"],
                     "time_created_ns": int(row["created"] * 1e9), "input_sizes": row["in"], "output_sizes": row["out"],
                     "state": "completed" if done else "scheduled", "time_discovered_started_ns": None,
                     "time_discovered_completed_ns": int(row["done"] * 1e9) if done else None, "retired": done}  # fmt: skip
            if minor >= 0:
                entry |= {"collective_seq_id": row["coll"], "p2p_seq_id": row["p2p"], "op_id": row["opid"]}
            else:
                entry["seq_id"] = row["coll"] + row["p2p"]
                del entry["process_group"]
            if minor >= 2:
                entry["is_p2p"] = row["isp2p"]
            if minor >= 3:
                entry |= {
                    "input_dtypes": ["BFloat16"] * len(row["in"]),
                    "output_dtypes": ["BFloat16"] * len(row["out"]),
                    "timeout_ms": 600000,
                }
            if minor >= 8:
                entry |= {"thread_id": "23456244340032", "thread_name": "pt_main_thread"}
            if frames:
                entry["frames"] = [{"name": row["op"], "filename": f"{SITE}/distributed_c10d.py", "line": 2501},
                                   *({"name": n, "filename": f, "line": at} for n, at, f in row["at"])]  # fmt: skip
            entries.append(entry)
        if minor < 0:
            return entries
        out = {"version": version, "entries": entries}
        if minor >= 1:
            out["pg_config"] = {
                n: {"name": n, "desc": d, "ranks": str(m)} for n, d, m in self.groups.values() if rank in m
            }
        if minor >= 3:
            out["pg_status"] = {}
            for group, i in order.items():
                if group not in seqs:
                    continue
                mine = [w for w in rows if w["group"] == group and not w["inner"]]
                number = [(w["p2p"] if w["isp2p"] else w["coll"]) for w in mine]
                done = [n for n, w in zip(number, mine) if w["done"] is not None]
                out["pg_status"][str(i)] = {"last_enqueued_collective": number[-1] if number else -1, "last_started_collective": -1,
                                            "last_completed_collective": done[-1] if done else -1}  # fmt: skip
        if minor >= 10:
            out["comm_lib_version"] = "2.27.3"
        elif minor >= 6:
            out["nccl_version"] = "2.21.5"
        return out

    def dumps(self, folder, ranks=None, kind="pickle", name="nccl_trace_rank_{}", waited=600.0, **how):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.world) if ranks is None else ranks:
            data = self.dump(rank, frames=kind == "pickle", **how)
            path = folder / name.format(rank)
            if kind == "pickle":
                path.write_bytes(pickle.dumps(data, protocol=2))
                self.dated(path, waited)
                continue
            for row in data["entries"]:
                for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                    row[key] = row[key] or 0
            data["pg_status"] = {k: {a: str(b) for a, b in v.items()} for k, v in data.get("pg_status", {}).items()}
            data["nccl_comm_state"] = {}
            path.write_text(json.dumps(data))
            self.dated(path, waited)

    def dated(self, path, waited):
        """The file was written `waited` seconds after the last call of the job."""
        at = max(self.clock) + waited
        os.utime(path, (at, at))

    def stacks(self, folder, ranks=None, kind="py-spy"):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.world) if ranks is None else ranks:
            frames = self.standing(rank)
            if frames is None:
                continue
            if kind == "py-spy":
                text = f"Process {4100 + rank}: /opt/conda/bin/python -u train.py\nPython v3.10.12 (/opt/conda/bin/python3.10)\n\n"
                text += f'Thread {4100 + rank} (idle): "MainThread"\n'
                text += "".join(
                    f"    {n} ({f.lstrip('/').removeprefix('opt/conda/lib/python3.10/site-packages/')}:{at})\n"
                    for n, at, f in [*frames, ("<module>", 131, "/workspace/train.py")]
                )
                text += f'Thread {4300 + rank} (idle): "Thread-3 (_pin_memory_loop)"\n    select (selectors.py:416)\n    wait (multiprocessing/connection.py:931)\n'
            else:
                text = f"Thread 0x00007f6f705f0b{rank:x}0 (most recent call first):\n"
                text += "".join(
                    f'  File "{f}", line {at} in {n}\n'
                    for n, at, f in [*frames, ("<module>", 131, "/workspace/train.py")]
                )
            (folder / f"rank_{rank}.txt").write_text(text)

    def oldest(self, rank):
        """[(group, work)]: per group the oldest call that has not ended, where the device stands."""
        found: dict = {}
        for work in self.queue[rank]:
            found.setdefault(work["group"], work)
        return list(found.items())

    def watchdog(self, rank, torch="2.6", groups=None, second=0):
        """Lines of the watchdog of this rank; none where nothing is outstanding."""
        lines = []
        for group, work in self.oldest(rank):
            if groups is not None and group not in groups:
                continue
            name, desc, members = self.groups[group]
            here = members.index(rank)
            op = KNOWN[work["step"]["op"]]
            n = work["step"]["n"]
            enqueued, completed = self.status(rank, group)
            seq = work["seq"]
            into, out = (sum(x[0]) if (x := work["row"][key]) else n for key in ("in", "out"))
            shape = "" if torch == "2.0" else f"NumelIn={into}, NumelOut={out}, "
            c10 = {"2.0": "[E ProcessGroupNCCL.cpp", "2.3": f"[rank{rank}]:[E ProcessGroupNCCL.cpp"}.get(
                torch, f"[rank{rank}]:[E1121 11:20:{second + 4:02d}.0{rank}3140127 ProcessGroupNCCL.cpp"
            )
            caught = (f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, {shape}Timeout(ms)=600000) "
                      f"ran for 60007{rank % 10} milliseconds before timing out.")  # fmt: skip
            lines.append(f"{c10}:632] [Rank {here}] {caught}")
            if torch == "2.3":
                lines.append(
                    f"{c10}:1537] [PG {name} Rank {here}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
                )
            elif torch != "2.0":
                mark = f"[PG ID {list(self.groups).index(group)} PG GUID {name}({desc}) Rank {here}]"
                lines.append(
                    f"{c10}:2271] {mark}  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}"
                )
                lines.append(
                    f"{c10}:670] Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
                )
                lines.append(f"{c10}:2106] {mark} First PG on this rank to signal dumping.")
                lines.append(
                    f"{c10}:684] [Rank {here}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
                )
                lines.append(
                    f"{c10}:1895] {mark} Process group watchdog thread terminated with exception: [Rank {here}] {caught}"
                )
        return lines

    def logs(self, folder, errors=None, ranks=None, torch="2.6"):
        """Standard output and error of every rank, as `torchrun --log-dir` keeps them."""
        for rank in range(self.world) if ranks is None else ranks:
            place = Path(folder) / f"logs/job_x1/attempt_0/{rank}"
            place.mkdir(parents=True, exist_ok=True)
            (place / "stdout.log").write_text("".join(f"{line}\n" for line in self.said[rank]))
            told = (errors or {}).get(rank)
            if told is None:
                told = "".join(f"{line}\n" for line in self.watchdog(rank, torch))
            (place / "stderr.log").write_text(told)

    def merged(self, path, prefix, torch="2.6"):
        """All ranks in one file, each line behind `prefix(rank)`."""
        lines = [
            prefix(r) + said[n]
            for n in range(max(map(len, self.said)))
            for r, said in enumerate(self.said)
            if n < len(said)
        ]
        lines += [prefix(r) + line for r in range(self.world) for line in self.watchdog(r, torch)]
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("\n".join(lines) + "\n")
