"""What all facts together say of each rank: numbers, processes, nodes, ends."""

from __future__ import annotations

from torchvet.findings import Text

from .attempts import last_attempts
from .devices import HARDWARE
from .evidence.patterns import numbers
from .evidence.places import place_of
from .model import WEAK, Rank
from .ranks_order import by_pod, by_task_file, closed_in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .model import Case, Fact

SIGNALS = {
    "SIGKILL": 9, "SIGTERM": 15, "SIGABRT": 6, "SIGSEGV": 11, "SIGBUS": 7, "SIGINT": 2, "SIGHUP": 1, "SIGFPE": 8,
    "SIGILL": 4, "Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11, "Bus error": 7,
    "Floating point exception": 8, "Illegal instruction": 4, "Out Of Memory": 9,
}  # fmt: skip
SIGNAL_NAMES = {
    9: "SIGKILL",
    15: "SIGTERM",
    6: "SIGABRT",
    11: "SIGSEGV",
    7: "SIGBUS",
    2: "SIGINT",
    1: "SIGHUP",
    8: "SIGFPE",
    4: "SIGILL",
}
_LAUNCHER_KINDS = {
    "exit",
    "closing",
    "terminated",
    "attempt",
    "launched",
    "spawned",
    "scheduler",
    "oom-kill",
    "launcher-exit",
    "died",
}
_ERRORS = ("exception", "cuda-oom", "host-alloc", "shm", "fd", "worker", "device-error", "config", "crash", "interface")
_BIGGEST_WORLD = 200_000


def settle(case: Case) -> None:
    """Fill `case.ranks`, the size of the job and what is missing; give facts that know only a process or a local rank
    the global rank they are about."""
    for fact in case.facts:
        if not isinstance(fact.rank, int):
            fact.rank = None  # a line that was damaged: no number of any job
    last_attempts(case)
    bases = _bases(case)
    places = _places(case, bases)
    for fact in case.facts:
        if fact.rank is not None and fact.rank < 0:
            fact.rank = None  # a line of the kernel or an agent inside a rank's log
        elif fact.rank is None and fact.kind not in _LAUNCHER_KINDS:
            fact.rank = places.get(fact.source)
    _tasks(case)
    by_pod(case, _LAUNCHER_KINDS)
    _by_group(case)
    pids = _pids(case, bases)
    closed_in_order(case, pids, min(_world(case) or 0, _BIGGEST_WORLD))
    _by_process(case, pids, bases)
    _devices(case)
    _alone(case)
    case.inventory.world = _world(case)
    for fact in case.of("exit"):
        _task_exit(case, fact)
    _describe(case, pids)
    _lonely(case)
    _missing(case)


def _same_node(a: str, b: str) -> bool:
    return a == b or (bool(a) and bool(b) and (a.startswith(b + ".") or b.startswith(a + ".")))


def _bases(case: Case) -> dict[str, int]:
    """First global rank of each node: by files that name both, by the launcher's block, by the order of nodes."""
    locals_of: dict[str, set[int]] = {}
    votes: dict[str, dict[int, int]] = {}

    def vote(node: str, base: int, weight: int = 1) -> None:
        if base >= 0:
            row = votes.setdefault(node, {})
            row[base] = row.get(base, 0) + weight

    for fact in case.of("output"):
        place = place_of(fact.source)
        if not place.tree or place.local is None:
            continue
        locals_of.setdefault(place.node, set()).add(place.local)
        named = fact.values.get("named") or {}
        if len(named) == 1:
            rank, count = next(iter(named.items()))
            vote(place.node, int(rank) - place.local, 1 + min(int(count), 5))
    for fact in case.of("exit"):
        if fact.values.get("by") == "block" and fact.rank is not None and isinstance(fact.values.get("local"), int):
            host = str(fact.values.get("node", ""))
            node = next((n for n in locals_of if _same_node(n, host)), place_of(fact.source).node or host)
            vote(node, fact.rank - fact.values["local"], 2)
            if len(locals_of) == 1:
                vote(next(iter(locals_of)), fact.rank - fact.values["local"])
    bases = {node: max(row.items(), key=lambda kv: (kv[1], -kv[0]))[0] for node, row in votes.items()}
    nodes = sorted(locals_of, key=_natural)
    width = max((max(v) + 1 for v in locals_of.values()), default=0)
    taken = set(bases.values())
    for index, node in enumerate(nodes):
        if node in bases:
            continue
        base = index * width
        if base in taken:
            base = next(b * width for b in range(len(nodes) + len(bases) + 1) if b * width not in taken)
        bases[node] = base
        taken.add(base)
    case.inventory.nodes = [n for n in nodes if n] or case.inventory.nodes
    return bases


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts node-2 before node-10."""
    import re

    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d{1,15})", text)]


def _places(case: Case, bases: dict[str, int]) -> dict[str, int]:
    """Source -> global rank, for files of one process."""
    out: dict[str, int] = {}
    for source in {f.source for f in case.facts}:
        place = place_of(source)
        if place.rank is not None:
            out[source] = place.rank
        elif place.local is not None and (place.tree or place.node in bases or not bases):
            out[source] = bases.get(place.node, 0) + place.local
    for fact in case.facts:
        if (
            fact.rank is None
            and isinstance(fact.values.get("local"), int)
            and fact.kind not in _LAUNCHER_KINDS
            and fact.source not in out
        ):
            fact.rank = bases.get(place_of(fact.source).node, 0) + fact.values["local"]
    # a log of one process that names one rank throughout is that rank's
    for fact in case.of("output"):
        named = fact.values.get("named") or {}
        if fact.source not in out and len(named) == 1 and not fact.values.get("label"):
            rank, count = next(iter(named.items()))
            if count * 10 >= int(fact.values.get("lines") or 0) * 9 and count > 2:
                out[fact.source] = int(rank)
    by_task_file(case, out)
    return out


def _tasks(case: Case) -> None:
    """Marks of `srun -l`: a task is a rank unless its lines name other ranks."""
    tasks = {f.values["task"] for f in case.facts if isinstance(f.values.get("task"), int)}
    if not tasks:
        return
    for fact in case.facts:
        task = fact.values.get("task")
        if isinstance(task, int) and fact.rank is not None and fact.rank != task:
            return
    for fact in case.facts:
        task = fact.values.get("task")
        if isinstance(task, int) and fact.rank is None and fact.kind not in _LAUNCHER_KINDS:
            fact.rank = task


def _by_group(case: Case) -> None:
    """Watchdog lines without [rankN]: (torch up to 2.2), all ranks in one file: numbers of the default group."""
    for fact in case.of("watchdog", "progress", "async-error", "heartbeat"):
        number = fact.values.get("group_rank")
        if fact.rank is None and isinstance(number, int) and str(fact.values.get("group", "")) in ("", "0"):
            fact.rank = number


def _lonely(case: Case) -> None:
    """Errors of an unknown rank in a file of all ranks: theirs whose process alone failed by itself."""
    failed_alone = [r.number for r in case.ranks.values() if r.code not in (None, 0) and not r.closed]
    if len(failed_alone) != 1:
        return
    for fact in case.of(*_ERRORS):
        if fact.rank is None and not fact.values.get("victim"):
            fact.rank = failed_alone[0]
            fact.values["guessed"] = True
            case.ranks[failed_alone[0]].has.add("error")


def _pids(case: Case, bases: dict[str, int]) -> dict[tuple[str, int], int]:
    """(node or "", process) -> rank."""
    out: dict[tuple[str, int], int] = {}

    def put(node: str, pid: object, rank: object) -> None:
        if isinstance(pid, int) and pid > 0 and isinstance(rank, int) and rank >= 0:
            out.setdefault((node, pid), rank)

    for fact in case.of("launched"):
        put(str(fact.values.get("node") or place_of(fact.source).node), fact.values.get("pid"), fact.rank)
    for fact in case.of("exit"):
        if fact.values.get("by") == "block":
            put(str(fact.values.get("node", "")), fact.values.get("pid"), fact.rank)
    for fact in case.of("process"):
        put(place_of(fact.source).node, fact.values.get("pid"), fact.rank)
    largest = max((f.values.get("nranks") or 0 for f in case.of("nccl-init")), default=0)
    for fact in case.of("nccl-init"):
        rank = fact.rank
        if rank is None and fact.values.get("nranks") == largest:
            rank = fact.rank = fact.values.get("comm_rank")
        put(str(fact.values.get("host", "")), fact.values.get("pid"), rank)
    for fact in case.facts:
        if (
            fact.rank is not None
            and fact.kind in ("output", "watchdog", "progress", "exception")
            and fact.values.get("pid")
        ):
            put(str(fact.values.get("node", "")), fact.values["pid"], fact.rank)
    for fact in case.of("exit", "spawned"):
        if fact.values.get("by") in ("launcher", "spawn", "deepspeed") and isinstance(fact.values.get("local"), int):
            node = place_of(fact.source).node
            known = [b for n, b in bases.items() if _same_node(n, node)] or (
                list(bases.values()) if len(bases) == 1 else [] if bases else [0]
            )
            if len(known) == 1:
                put(node, fact.values.get("pid"), known[0] + fact.values["local"])
    return out


class Processes:
    """Ranks by process number: nodes reuse numbers, so the node decides where it is known."""

    def __init__(self, pids: dict[tuple[str, int], int]) -> None:
        self.by: dict[int, list[tuple[str, int]]] = {}
        self.nodes = {node for node, _ in pids if node and node != "localhost"}
        for (node, pid), rank in pids.items():
            self.by.setdefault(pid, []).append((node, rank))

    def rank(self, pid: object, node: str = "") -> int | None:
        """The rank of a process; None when unknown or when nodes disagree."""
        if not isinstance(pid, int):
            return None
        if node and len(self.nodes) == 1 and not _same_node(node, next(iter(self.nodes))):
            node = ""  # a container has a name of its own, the kernel's log that of the machine
        found = {
            r for n, r in self.by.get(pid, ()) if not node or not n or n == "localhost" or _same_node(n, node)
        }  # fmt: skip
        return found.pop() if len(found) == 1 else None


def _by_process(case: Case, pids: dict[tuple[str, int], int], bases: dict[str, int]) -> None:
    """Facts that name a process, a task or a local rank."""
    processes = Processes(pids)
    one_node = len({f.values["node"] for f in case.of("spawned") if f.values.get("node")}) < 2
    for fact in case.of(
        "exit", "closing", "oom-kill", "xid", "segfault", "hung-task", "nccl-warn", "process", "lockup", "died"
    ):
        if fact.rank is not None:
            continue
        node = str(fact.values.get("node") or fact.values.get("host") or place_of(fact.source).node)
        fact.rank = processes.rank(fact.values.get("pid"), node)
        if (
            fact.rank is None
            and fact.kind == "exit"
            and fact.values.get("by") in ("launcher", "spawn")
            and isinstance(fact.values.get("local"), int)
        ):
            known = [b for n, b in bases.items() if _same_node(n, node)] or ([0] if not bases and one_node else [])
            if len(known) == 1:
                fact.rank = known[0] + fact.values["local"]
    for fact in case.facts:
        if (
            fact.rank is None
            and fact.kind not in _LAUNCHER_KINDS
            and isinstance(fact.values.get("pid"), int)
            and (fact.kind in ("output", "lost", "series", "nan") or (fact.kind in _ERRORS and fact.kind != "worker"))
        ):
            fact.rank = processes.rank(fact.values["pid"], str(fact.values.get("node", "")))


def bus_key(text: object) -> tuple[int, int, int] | None:
    """(domain, bus, device) of "0000:91:00.0", "00000000:91:00.0", "91:00" or NCCL's "91000"; None when it is none."""
    parts = str(text).strip().lower().split(".")[0].split(":")
    try:
        if len(parts) == 1:
            number = int(parts[0], 16)
            return (number >> 20, (number >> 12) & 0xFF, (number >> 4) & 0xFF)
        if len(parts) == 2:
            return (0, int(parts[0], 16), int(parts[1], 16))
        return (int(parts[-3], 16), int(parts[-2], 16), int(parts[-1], 16))
    except ValueError:
        return None


def _devices(case: Case) -> None:
    """Kernel lines that name a device: NCCL's start lines say whose it is, or a table of devices by local rank."""
    owners: dict[tuple[str, tuple[int, int, int]], int] = {}
    for fact in case.of("nccl-init"):
        key = bus_key(fact.values.get("bus"))
        if key and fact.rank is not None:
            owners[str(fact.values.get("host", "")), key] = fact.rank
    for fact in case.of("device"):
        key = bus_key(fact.values.get("bus"))
        if key and fact.rank is None and isinstance(fact.values.get("gpu"), int) and len(case.inventory.nodes) < 2:
            owners.setdefault(("", key), fact.values["gpu"])
    for fact in case.of("xid"):  # a line that names the process, of a fault that others without one belong to
        key = bus_key(fact.values.get("device"))
        if key and fact.rank is not None:
            owners.setdefault((str(fact.values.get("node") or place_of(fact.source).node), key), fact.rank)
    for fact in case.of("xid", "ecc"):
        key = bus_key(fact.values.get("device"))
        if fact.rank is not None or key is None:
            continue
        node = str(fact.values.get("node") or place_of(fact.source).node)
        found = {r for (n, k), r in owners.items() if k == key and (not node or not n or _same_node(n, node))}
        if len(found) == 1:
            fact.rank = found.pop()
    _only_device(case)


def _only_device(case: Case) -> None:
    """One GPU of a job on one node has a fault of its hardware, and one rank alone says that CUDA failed: they belong
    together, though no line joins a process to the bus."""
    faults = [f for f in case.of("xid") if f.values.get("number") in HARDWARE]
    hit = {f.rank for f in case.of("device-error") if f.rank is not None}
    if any(f.rank is not None for f in faults) or len(hit) != 1 or len(case.inventory.nodes) > 1:
        return
    if len({bus_key(f.values.get("device")) for f in faults}) == 1:
        for fact in faults:
            fact.rank = next(iter(hit))
            fact.values["guessed"] = True


def _alone(case: Case) -> None:
    """One log, no mark of a rank, no sign of a launcher or a peer: a job of one process, which is rank 0."""
    outputs = [f for f in case.of("output") if f.values.get("steps") or f.values.get("lines")]
    if len({f.source for f in outputs}) != 1 or any(f.rank is not None for f in case.facts) or _several(case):
        return
    if not any(f.values.get("steps") for f in outputs) and not case.of("exception", "cuda-oom", "crash", "config"):
        return  # words of a scheduler alone are not those of a process
    behind = max(int(f.values.get("step_line") or 0) for f in outputs)
    for fact in case.of("exception"):  # it told steps behind it
        if fact.source == outputs[0].source and fact.line < behind:
            fact.values["caught"] = True
    for fact in case.facts:
        if fact.source == outputs[0].source and fact.kind not in ("scheduler", "oom-kill"):
            fact.rank = 0
    case.inventory.world = 1


def _several(case: Case) -> bool:
    if any(f.values.get("by") == "hydra" for f in case.of("exit")):
        return True
    if len({f.values["label"] for f in case.of("output") if f.values.get("label")}) > 1:
        return True
    if any(f.values.get("by") == "slurm" and "step tasks" in f.text for f in case.of("oom-kill")):
        return True
    if any(f.values.get("gpu") not in (None, 0) for f in case.of("cuda-oom")):
        return True  # the only process of a job has the first device
    if case.of(
        "watchdog",
        "lost",
        "closing",
        "launched",
        "spawned",
        "rendezvous",
        "absent",
        "mismatch",
        "nccl-init",
        "progress",
        "ddp",
    ):
        return True
    if any(f.values.get("by") in ("block", "launcher", "spawn") or f.values.get("tasks") for f in case.of("exit")):
        return True
    if any(f.values.get("what") == "env-missing" for f in case.of("config")):
        return False  # no launcher set its variables: a program started by itself
    return any(
        "torch/distributed" in str(frame[0]) for f in case.of("exception") for frame in f.values.get("frames") or []
    )


def _world(case: Case) -> int | None:
    """The size of the job, by what says it most directly."""
    said: list[int] = []
    for fact in case.of("rendezvous"):
        said.append(int(fact.values.get("expected") or 0))
    for fact in case.of("env"):
        value = fact.values.get("WORLD_SIZE")
        if value is not None and str(value).isdigit():
            said.append(int(str(value)))
    for fact in case.of("launched"):
        said.append(int(fact.values.get("world") or 0))
    for fact in case.of("nccl-init"):
        said.append(int(fact.values.get("nranks") or 0))
    for fact in case.of("progress"):
        said.append(int(fact.values.get("world") or 0))
    for fact in case.of("output"):
        said += [int(w) for w in fact.values.get("worlds") or {}]
    said = [w for w in said if 0 < w <= _BIGGEST_WORLD]
    seen = [f.rank for f in case.facts if f.rank is not None and 0 <= f.rank < _BIGGEST_WORLD]
    least = max(seen) + 1 if seen else 0
    best = max(said, default=0)
    return max(best, least) or case.inventory.world


def _describe(case: Case, pids: dict[tuple[str, int], int]) -> None:
    """One `Rank` for each rank that anything speaks of."""
    known = {f.rank for f in case.facts if f.rank is not None and 0 <= f.rank < _BIGGEST_WORLD}
    world = case.inventory.world or 0
    if world <= 65536:
        known |= set(range(world))
    case.ranks = {r: Rank(r) for r in sorted(known)}
    for (node, pid), number in pids.items():
        if number in case.ranks and case.ranks[number].pid is None:
            case.ranks[number].pid = pid
            case.ranks[number].node = "" if node == "localhost" else node
    own_kinds = {"exception": "error", "stack": "stack", "call": "recorder", "watchdog": "log", "env": "env"}
    for fact in case.facts:
        rank = case.ranks.get(fact.rank) if fact.rank is not None else None
        if rank is None:
            continue
        if fact.kind in own_kinds:
            rank.has.add(own_kinds[fact.kind])
        if fact.kind == "progress":
            rank.has.add("log" if fact.values.get("by") == "log" else "recorder")
        if isinstance(fact.values.get("local"), int) and rank.local is None:
            rank.local = fact.values["local"]
    _words(case)
    _ends(case)


def _words(case: Case) -> None:
    """Last step and last own words: standard output before standard error."""
    rows: dict[int, list[Fact]] = {}
    for fact in case.of("output"):
        if fact.rank in case.ranks and fact.rank is not None:
            rows.setdefault(fact.rank, []).append(fact)
    for number, facts in rows.items():
        rank = case.ranks[number]
        facts.sort(key=lambda f: (f.values.get("stream") == "stderr", -f.line))
        for fact in facts:
            place = place_of(fact.source)
            if fact.values.get("by") != "run" and (place.tree or place.rank is not None or fact.values.get("lines")):
                rank.has.add("log")
            rank.node = rank.node or str(fact.values.get("node") or place.node)
            if rank.local is None:
                rank.local = place.local
            if rank.step is None and fact.values.get("step") is not None:
                rank.step = int(fact.values.get("step") or 0)
            if not rank.last and fact.values.get("last"):
                rank.last = str(fact.values["last"])


def _ends(case: Case) -> None:
    """Exit codes and who was ended by the launcher."""
    order = {"block": 3, "recorded": 2, "launcher": 2, "slurm": 1, "kubernetes": 1}
    best: dict[int, int] = {}
    closing: set[int] = set()
    for fact in case.of("closing"):
        if fact.rank is not None:
            closing.add(fact.rank)
    for fact in case.of("exit"):
        code = code_of(fact)
        if fact.rank is None or fact.rank not in case.ranks or code is None:
            continue
        weight = order.get(str(fact.values.get("by")), 0)
        if weight >= best.get(fact.rank, 0):
            best[fact.rank] = weight
            case.ranks[fact.rank].code = code
        case.ranks[fact.rank].has.add("exit")
    _cleaned_up(case)
    _fault_in_a_fault(case)
    # the process whose end the agent saw before it closed the others
    first = {f.rank for f in case.of("exit") if f.values.get("by") == "launcher"} - closing if closing else set()
    for rank in case.ranks.values():
        if rank.number in first:
            continue
        # an agent that restarts or stops also closes ranks that have failed by themselves: their own code says so
        if rank.code in (-15, 143, -2, 130) or (rank.number in closing and rank.code in (None, -9, 137, 0)):
            rank.closed = True


def _fault_in_a_fault(case: Case) -> None:
    """faulthandler says which signal came before it walks the stacks; where other threads run meanwhile, the walk may
    itself end by SIGSEGV: the first word tells of the rank."""
    for rank in case.ranks.values():
        said = [f for f in case.of("crash", rank=rank.number) if f.text.startswith("Fatal Python error")]
        if rank.code in (-11, 139) and len(said) > 1 and (number := SIGNALS.get(str(said[0].values.get("what")))):
            rank.code = -number
            for fact in said[1:]:
                fact.quality = WEAK


def _cleaned_up(case: Case) -> None:
    """mpiexec (Hydra) kills what is left when one rank ends, and lists all of them: SIGKILL is a rank's own end only
    when it is the only one and no other rank ended in another way."""
    ended = {f.rank: code_of(f) for f in case.of("exit") if f.values.get("by") == "hydra" and f.rank in case.ranks}
    killed = [r for r, code in ended.items() if code == -9]
    if len(killed) > 1 or any(code not in (-9, -15, None) for code in ended.values()):
        for rank in killed:
            if rank is not None:
                case.ranks[rank].closed = True


def _task_exit(case: Case, fact: Fact) -> None:
    """`srun: error: node: task 3: ...`: a task is a rank when srun started one process for each rank."""
    tasks = fact.values.get("tasks")
    if tasks is None or fact.rank is not None:
        return
    said = [tasks] if isinstance(tasks, int) else numbers(str(tasks))
    every = [n for f in case.of("exit") if (t := f.values.get("tasks")) is not None for n in numbers(str(t))]
    started = max(every, default=0) + 1
    world = case.inventory.world or 0
    labelled = any("task" in f.values for f in case.of("output"))
    if len(said) == 1 and started > 1 and (world in (0, started) or (labelled and said[0] < world)):
        fact.rank = said[0]


def code_of(fact: Fact) -> int | None:
    """The exit code of an `exit` fact, negative for signals."""
    code = fact.values.get("code")
    if isinstance(code, int):
        shifted = fact.values.get("by") in ("slurm", "kubernetes", "shell", "hydra") and 128 < code < 160
        return 128 - code if shifted else code
    what = fact.values.get("what") or fact.values.get("signal")
    number = SIGNALS.get(str(what))
    return -number if number else None


def listed(ranks: Iterable[int], most: int = 12) -> str:
    """ "0-2, 5" for people: runs of ranks, at most `most` parts."""
    rows = sorted(set(ranks))
    parts: list[str] = []
    start = 0
    for i, r in enumerate(rows):
        if i + 1 == len(rows) or rows[i + 1] != r + 1:
            first = rows[start]
            parts.append(str(first) if first == r else f"{first}, {r}" if r == first + 1 else f"{first}-{r}")
            start = i + 1
    if len(parts) > most:
        parts = [*parts[:most], "…"]
    return ", ".join(parts)


def _missing(case: Case) -> None:
    """What a job of this size should have left."""
    inventory = case.inventory
    world = inventory.world or 0
    if not 1 < world <= 65536:
        return
    for key, text in (
        ("log", Text("log of rank {ranks}", "rank {ranks} 的日志", ranks="{}")),
        ("recorder", Text("flight recorder dump of rank {ranks}", "rank {ranks} 的 flight recorder 转储", ranks="{}")),
        ("stack", Text("stack of rank {ranks}", "rank {ranks} 的调用栈", ranks="{}")),
    ):
        without = [r for r in range(world) if r not in case.ranks or key not in case.ranks[r].has]
        if 0 < len(without) < world:
            text.fields["ranks"] = listed(without)
            inventory.missing.append(text)


def failed(case: Case) -> bool | None:
    """Whether the job is known to have failed (True), to have ended well (False), or neither."""
    codes = [f.values.get("code") for f in case.of("launcher-exit")] + [
        r.code for r in case.ranks.values() if r.code is not None
    ]
    codes += [code_of(f) for f in case.of("exit") if f.rank is None and f.values.get("by") in ("hydra", "shell")]
    if any(codes):
        return True
    if codes:
        return False
    done = [f for f in case.of("output") if f.values.get("done")]
    finished = bool(done) and len({f.rank for f in done}) >= max(1, case.world or 1)
    finished = finished and not case.of("terminated")  # it says that it leaves: a signal told it to
    for fact in case.of("exception"):
        if fact.values.get("victim") or fact.values.get("ignored") or fact.values.get("caught"):
            continue
        if not finished or not any(f.source == fact.source and f.line > fact.line for f in done):
            return True  # else the program caught it and printed its end behind it
    return False if finished else None
