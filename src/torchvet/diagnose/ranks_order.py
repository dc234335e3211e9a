"""Ranks of processes and pods that nothing names but their order."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case

SLURM_TASK = re.compile(r"(?:^|/)(?:slurm-)?(\d+)(?:\.batch|\.\d+)?[._-](?:task[_-]?)?(\d{1,6})\.(?:out|err|log)$")


def closed_in_order(case: Case, pids: dict[tuple[str, int], int], world: int) -> None:
    """Processes that the agent closed and does not list (torch up to 2.4): it starts them in the order of ranks."""
    rows = [f for f in case.of("exit") if f.values.get("by") == "block" and f.rank is not None]
    launchers = {f.source for f in rows}
    known = {(f.source, f.values.get("pid")) for f in rows}
    named = {pid for _, pid in pids}
    listed_ranks = {f.rank for f in rows}
    for source in launchers:
        mine = {f.rank: f.values["pid"] for f in rows if f.source == source and isinstance(f.values.get("pid"), int)}
        closed = [f.values.get("pid") for f in case.of("closing") if f.source == source]
        unknown = sorted({p for p in closed if isinstance(p, int) and (source, p) not in known} - named)
        if not unknown or not mine:
            continue
        node = next((str(f.values.get("node") or "") for f in rows if f.source == source), "")
        offsets = {pid - rank for rank, pid in mine.items()}
        free = [r for r in range(world) if r not in listed_ranks]
        if len(offsets) == 1 and all(pid - min(offsets) in free for pid in unknown):
            pairs = [(pid, pid - min(offsets)) for pid in unknown]
        elif len(launchers) == 1 and len(free) == len(unknown):
            pairs = list(zip(unknown, free, strict=True))
        else:
            continue
        for pid, rank in pairs:
            pids.setdefault((node, pid), rank)


_NUMBERED = re.compile(r"(?:^|/)(worker|proc|process|gpu|replica)[._-]?(\d{1,6})\.(?:out|err|log|txt)$")


def by_task_file(case: Case, places: dict[str, int]) -> None:
    """Files that srun writes for each task (881_3.err): ranks, when nothing else is and a rank waited for others.

    The files of a job array have such names too; its members know nothing of each other.
    """
    if places or not case.of("lost", "watchdog", "nccl-error", "nccl-init"):
        return
    if _numbered(case, places):
        return
    tasks: dict[str, tuple[str, int]] = {}
    for source in {f.source for f in case.of("output")}:
        found = SLURM_TASK.search(source)
        if found is None:
            return
        tasks[source] = (found.group(1), int(found.group(2)))
    if len({job for job, _ in tasks.values()}) == 1 and len({n for _, n in tasks.values()}) > 1:
        places.update((source, number) for source, (_, number) in tasks.items())


def _numbered(case: Case, places: dict[str, int]) -> bool:
    """worker_0.log, worker_1.log, ...: one process for each file, none left out, and no launcher that has several."""
    if case.of("launched", "closing") or any(f.values.get("by") in ("block", "launcher") for f in case.of("exit")):
        return False
    found = {f.source: m for f in case.of("output") if (m := _NUMBERED.search(f.source))}
    numbers_of = sorted(int(m[2]) for m in found.values())
    if len({m[1] for m in found.values()}) != 1 or len(found) < 2 or numbers_of != list(range(len(found))):
        return False
    if any(f.rank is not None or f.source not in found for f in case.of("output")):
        return False
    places.update((source, int(m[2])) for source, m in found.items())
    return True


def by_pod(case: Case, others: set[str]) -> None:
    """Lines of pods (kubetail, stern) of which none names a rank: one process for each pod, numbered by its name.

    `others`: kinds of facts that are about the whole job.
    An operator that has a master gives it rank 0 and the workers the next ones.
    """
    if case.of("launched", "closing") or any(f.values.get("by") in ("block", "launcher") for f in case.of("exit")):
        return  # a launcher within the pods: one pod holds several ranks
    master = any("-master-" in f"{f.values.get('node') or ''}-" for f in case.of("output"))
    pods: dict[str, int | None] = {}
    for fact in case.of("output"):
        node = str(fact.values.get("node") or "")
        if fact.values.get("label") and node:
            if fact.rank is not None or any(k in fact.values for k in ("local", "pid", "task")):
                return
            name, _, number = node.rpartition("-")
            known = number.isdigit() and len(number) < 7
            pods[node] = int(number) + (master and name.endswith("worker")) if known else None
    numbers_of = sorted(n for n in pods.values() if n is not None)
    if len(pods) < 2 or numbers_of != list(range(len(pods))):
        return
    for fact in case.facts:
        if fact.rank is None and fact.kind not in others:
            fact.rank = pods.get(str(fact.values.get("node") or ""))
