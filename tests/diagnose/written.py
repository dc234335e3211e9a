"""Jobs written by hand: what torchrun, Slurm and Kubernetes leave, in the wordings of several versions."""

from __future__ import annotations

from pathlib import Path

from torchvet.diagnose.engine import diagnose

AGENT = "torch/distributed/elastic/multiprocessing/api.py"
NAMES = {-15: "SIGTERM", -9: "SIGKILL", -6: "SIGABRT", -11: "SIGSEGV", -7: "SIGBUS"}


class Job:
    """A folder of evidence. Ranks are local ranks of one node unless `nodes` is given."""

    def __init__(self, folder: Path, world: int, nodes: int = 1, attempt: int = 0) -> None:
        self.folder = folder
        self.world = world
        self.nodes = nodes
        self.attempt = attempt
        self.width = world // nodes
        for rank in range(world):
            self.out(rank, "", "stdout")
            self.out(rank, "", "stderr")

    def of(self, rank: int) -> Path:
        node = f"node-{'abcdefgh'[rank // self.width]}/" if self.nodes > 1 else ""
        folder = self.folder / f"logs/{node}job_x1y2z3/attempt_{self.attempt}/{rank % self.width}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def out(self, rank: int, text: str, stream: str = "stdout") -> Job:
        with (self.of(rank) / f"{stream}.log").open("a") as f:
            f.write(text)
        return self

    def err(self, rank: int, text: str) -> Job:
        return self.out(rank, text, "stderr")

    def steps(self, first: int, last: int, ranks: list[int] | None = None, more: str = "") -> Job:
        for rank in range(self.world) if ranks is None else ranks:
            self.out(rank, "".join(f"step {s} loss {2.5 - s * 1e-4:.4f}{more}\n" for s in range(first, last + 1)))
        return self

    def raised(self, rank: int, error: str, *frames: tuple[str, int, str], prefix: bool = True) -> Job:
        mark = f"[rank{rank}]: " if prefix else ""
        lines = ["Traceback (most recent call last):"]
        for path, line, name in frames:
            lines += [f'  File "{path}", line {line}, in {name}', "    work()"]
        lines += error.split("\n")
        return self.err(rank, "".join(f"{mark}{line}\n" for line in lines))

    def write(self, name: str, text: str) -> Job:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self

    def ended(self, codes: dict[int, int], first: int, old: bool = False, name: str = "launcher.log") -> Job:
        """The agent's last words: `codes` by rank (ranks that ended with 0 are not listed), `first` = its "root cause"."""
        pid = 4100
        lines = []
        mark = (
            "WARNING:torch.distributed.elastic.multiprocessing.api:"
            if old
            else f"W0304 11:20:05.235000 4021 {AGENT}:897] "
        )
        lines += [f"{mark}Sending process {pid + r} closing signal SIGTERM" for r, c in codes.items() if c == -15]
        mark = (
            "ERROR:torch.distributed.elastic.multiprocessing.api:"
            if old
            else f"E0304 11:20:05.245000 4021 {AGENT}:869] "
        )
        lines.append(
            f"{mark}failed (exitcode: {codes[first]}) local_rank: {first % self.width} (pid: {pid + first}) of binary: /opt/conda/bin/python"
        )
        lines += [
            "Traceback (most recent call last):",
            '  File "/opt/conda/bin/torchrun", line 8, in <module>',
            "    sys.exit(main())",
        ]
        lines += [
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "=" * 60,
            "train.py FAILED",
            "-" * 60,
            "Failures:",
        ]
        others = [r for r in codes if r != first and codes[r]]
        for number, rank in enumerate(others, 1):
            lines += self._row(number, rank, codes[rank], pid + rank)
        lines += [] if others else ["  <NO_OTHER_FAILURES>"]
        lines += [
            "-" * 60,
            "Root Cause (first observed failure):",
            *self._row(0, first, codes[first], pid + first),
            "=" * 60,
            "",
        ]
        return self.write(name, "\n".join(lines))

    def _row(self, number: int, rank: int, code: int, pid: int) -> list[str]:
        node = f"node-{'abcdefgh'[rank // self.width]}"
        said = (
            f"Signal {-code} ({NAMES[code]}) received by PID {pid}"
            if code < 0
            else "To enable traceback see: https://pytorch.org/docs"
        )
        return [f"[{number}]:", "  time      : 2025-03-04_11:20:05", f"  host      : {node}", f"  rank      : {rank} (local_rank: {rank % self.width})",
                f"  exitcode  : {code} (pid: {pid}){f' ({NAMES[code]})' if code < 0 else ''}", "  error_file: <N/A>", f"  traceback : {said}"]  # fmt: skip

    def closed(self, first: int, code: int = 1, others: int = -15, old: bool = False) -> Job:
        """One rank failed, the agent closed the others."""
        return self.ended({r: code if r == first else others for r in range(self.world)}, first, old)

    def watchdog(self, rank: int, seq: int, op: str = "ALLREDUCE", style: str = "2.5") -> Job:
        if style == "1.13":
            return self.err(rank, f"[E ProcessGroupNCCL.cpp:821] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
                            f"OpType={op}, Timeout(ms)=1800000) ran for 18022{rank % 10}6 milliseconds before timing out.\n")  # fmt: skip
        if style == "1.10":
            return self.err(rank, f"[E ProcessGroupNCCL.cpp:566] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(OpType={op}, "
                            f"TensorShape=[{seq}], Timeout(ms)=1800000) ran for 18022{rank % 10}6 milliseconds before timing out.\n")  # fmt: skip
        c10 = f"[rank{rank}]:[E304 11:20:04.0{rank}3140127 ProcessGroupNCCL.cpp"
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        return self.err(rank, f"{c10}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=1024, "
                        f"NumelOut=1024, Timeout(ms)=600000) ran for 60005{rank % 10} milliseconds before timing out.\n"
                        f"{c10}:2271] {group}  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq + 1}, last completed work: {seq - 1}\n"
                        f"{c10}:1990] {group} Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout: "
                        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 60005{rank % 10} milliseconds before timing out.\n")  # fmt: skip

    def lost(self, rank: int, port: int = 31007) -> Job:
        return self.raised(rank, f"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:{port}. "
                           "This is typically caused by a remote worker crashing.", ("/workspace/proj/train.py", 61, "main"))  # fmt: skip


class Cases(dict):
    """Jobs by name, each with what must be said of it: one of the causes, exactly these ranks. No cause: nothing may be
    said."""

    def __call__(self, *causes: str, ranks: tuple[int, ...] = (), sub: str = ""):
        def keep(make):
            self[make.__name__] = (make, causes, ranks, sub)
            return make

        return keep

    def judge(self, name: str, folder: Path) -> None:
        make, causes, ranks, sub = self[name]
        make(Job(folder, getattr(make, "world", 4), getattr(make, "nodes", 1)))
        found = diagnose([str(folder)])
        said = [(h.cause, h.sub, h.ranks) for h in found.verdicts]
        assert not found.inventory.problems or "restart" in name, found.inventory.problems
        if not causes:
            assert not said
            return
        assert said, "nothing found"
        assert said[0][0] in causes, said
        assert {r for row in said if row[0] in causes for r in row[2]} == set(ranks), said
        if sub:
            assert said[0][1].startswith(sub), said
