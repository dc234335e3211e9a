"""Why a rank is not where its peers wait: it raised, was killed, left, or is alive somewhere else."""

from __future__ import annotations

from dataclasses import dataclass, field

from torchvet.findings import Text

from .evidence.places import place_of
from .evidence.tracebacks import may_be_victim
from .model import MEDIUM, POSSIBLE, PROBABLE, STRONG, WEAK, Hypothesis, Link
from .ranks import SIGNAL_NAMES, listed
from .said import and_waiters, call, last_words, sure, who
from .sites import user_frames
from .waits_graph import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Case, Fact
    from .waits import Waits

CRASHED, KILLED, EXITED, ALIVE, UNKNOWN = "crashed", "killed", "exited", "alive", "unknown"
SPECIFIC = ("cuda-oom", "host-alloc", "shm", "fd", "device-error", "config", "ddp", "nan", "worker")
"""Facts that say more of an exception than its type: the causes that they belong to go first."""
HALTED = {
    "T": Text("was stopped by a signal (SIGSTOP)", "被信号暂停（SIGSTOP）"),
    "t": Text("was held by a debugger", "被调试器暂停"),
    "D": Text("hung in the kernel, on a device or a file system", "卡在内核中，等待设备或文件系统"),
}
DISK_FULL = (28, 122)  # ENOSPC, EDQUOT


@dataclass(slots=True)
class Absence:
    rank: int
    how: str
    sub: str = ""
    site: tuple[str, int] | None = None
    links: list[Link] = field(default_factory=list)
    exception: Fact | None = None
    code: int | None = None


def absence(waits: Waits, rank: int) -> Absence:
    """What is known of the end of a rank. Exceptions that tell of another rank's end say nothing of its own."""
    case = waits.case
    own = own_exception(case, rank)
    known = case.ranks.get(rank)
    code = known.code if known is not None else None
    closed = known.closed if known is not None else False
    exits = case.of("exit", rank=rank)
    if own is not None:
        v = own.values
        name = str(v.get("type") or "exception")
        frames = user_frames(v.get("origin") or []) or user_frames(v.get("frames") or [])
        site = (str(frames[0][0]), int(frames[0][1])) if frames else None
        full = [f for f in case.of("space", rank=rank) if f.values.get("errno") in DISK_FULL]
        text = Text(
            "rank {rank} raised {name}: {message}",
            "rank {rank} 抛出 {name}：{message}",
            rank=rank,
            name=name,
            message=str(v.get("message") or "").split("\n")[0][:160],
        )
        links = [Link(own, text, STRONG)]
        if full:
            said = full[0].text[:160]
            words = Text("rank {rank} could not write: {text}", "rank {rank} 无法写入：{text}", rank=rank, text=said)
            links.append(Link(full[0], words, STRONG))
        links += [Link(f, _ended(rank, code), STRONG) for f in exits[:1] if code is not None and not closed]
        return Absence(rank, CRASHED, f"crashed: {'disk full' if full else name}", site, links, own, code)
    if code is not None and not closed and by_signal(code):
        links = [Link(f, _ended(rank, code), STRONG) for f in exits[:1]]
        return Absence(rank, KILLED, "killed by unknown", None, links, None, code)
    done = code is None and rank not in waits.places and any(f.values.get("done") for f in case.of("output", rank=rank))
    if not closed and (code == 0 or (code is None and _left_quietly(case, rank)) or done):
        links = [Link(f, _ended(rank, 0), STRONG) for f in exits[:1]] or _quiet_links(case, rank)
        return Absence(rank, EXITED, "exited (code 0)", None, links, None, 0)
    logged = known is not None and "log" in known.has and said_nothing(case, rank, code)
    # the recorder within the rank would have seen an exception
    logged = logged or any(f.values.get("how") in ("end", "_exit") for f in exits)
    if not closed and code is not None and code > 0 and logged and not _lost(case, rank) and rank not in waits.torn:
        links = [Link(f, _ended(rank, code), STRONG) for f in exits[:1]]
        return Absence(rank, EXITED, f"exited (code {code})", None, links, None, code)
    # a rank of which half a traceback is here raised something: it did not stand still
    return Absence(rank, ALIVE if alive(waits, rank) and rank not in waits.torn else UNKNOWN, code=code)


def said_nothing(case: Case, rank: int, code: int | None) -> bool:
    """It ended with an error of its own, and what it wrote to standard error is here."""
    return bool(code) and any(f.values.get("stream") != "stdout" for f in case.of("output", rank=rank))


def alive(waits: Waits, rank: int) -> bool:
    """Whether anything says that the rank still ran while the others waited."""
    case = waits.case
    known = case.ranks.get(rank)
    if rank in waits.places or (known is not None and known.closed) or case.of("heartbeat", "gil", rank=rank):
        return True
    if case.of("closing", rank=rank):  # torchelastic signals those that still run
        return True
    # with NCCL the watchdog writes a dump while the job stands; with gloo the program itself does, often at its end
    return any(
        p.by == "recorder" and g.backend == "nccl" for g in waits.groups for r, p in g.ranks.items() if r == rank
    )


def own_exception(case: Case, rank: int) -> Fact | None:
    """The exception that ended a rank by itself: the last one of the main thread that is no victim's."""
    if case.of("mismatch", "rendezvous", rank=rank):
        return None  # that other ranks call something else, or do not come to the start, is no end of its own
    found = None
    for fact in case.of("exception", rank=rank):
        v = fact.values
        if v.get("victim") or v.get("ignored") or v.get("thread") or v.get("caught") or v.get("cut") == "name":
            continue
        if v.get("cut") and may_be_victim(str(v.get("type")), str(v.get("message") or "")):
            continue  # an exception of a DataLoader worker is raised again in the main thread: it counts
        found = fact
    return found


def told_elsewhere(case: Case, found: Absence) -> bool:
    """Whether a more specific fact stands where the exception was raised."""
    own = found.exception
    if own is None:
        return False
    # NCCL warns on standard output of what its exception then only calls a system error
    warned = case.of("nccl-warn", "nccl-completion", rank=found.rank) and case.of("nccl-error", rank=found.rank)
    return bool(warned) or any(f.source == own.source for f in case.of(*SPECIFIC, rank=found.rank))


def by_signal(code: int) -> bool:
    """Whether an exit code is that of a signal that somebody sends, not of a crash."""
    return code == 137 or (code < 0 and code not in (-4, -6, -7, -8, -11))


def _ended(rank: int, code: int | None) -> Text:
    if code is not None and code < 0:
        name = SIGNAL_NAMES.get(-code, f"signal {-code}")
        return Text("rank {rank} was ended by {name}", "rank {rank} 被 {name} 终止", rank=rank, name=name)
    return Text("rank {rank} ended with exit code {code}", "rank {rank} 以退出码 {code} 结束", rank=rank, code=code)


def torn(case: Case) -> set[int]:
    """Ranks of which a log breaks off, or begins, within the words of their end: what they raised is not known."""
    out = {f.rank for f in case.of("output", "exception") if f.values.get("cut")}
    raised = {f.rank for f in case.of("exception") if user_frames(f.values.get("frames") or [], 1)}
    for fact in case.of("lost"):
        v = fact.values
        if v.get("backend") == "gloo" and v.get("how") in ("timeout", "closed", "reset") and fact.rank not in raised:
            out.add(fact.rank)
    return {r for r in out if r is not None}


def _lost(case: Case, rank: int) -> bool:
    """Whether the rank says that it lost, or waited in vain for, a peer: its exit is a consequence."""
    kinds = ("lost", "watchdog", "async-error", "absent", "dump-signal", "mismatch", "size", "rendezvous")
    return bool(case.of(*kinds, rank=rank)) or any(f.values.get("victim") for f in case.of("exception", rank=rank))


def _left_quietly(case: Case, rank: int) -> bool:
    """torchelastic lists the ranks that failed and those it closed: a rank in neither list had left with code 0.

    Up to torch 2.4 it only prints the numbers of the processes that it closed: while one of them has no rank, it is not
    known who left.
    """
    block = [f for f in case.of("exit") if f.values.get("by") == "block" and f.rank is not None]
    if not block or any(f.rank == rank for f in case.of("exit", "closing")) or _lost(case, rank):
        return False
    if any(f.rank is None for f in case.of("closing")):
        return False
    listed_nodes = {f.values.get("node") for f in block} | {place_of(f.source).node for f in block}
    node = case.ranks[rank].node if rank in case.ranks else ""
    return len(case.inventory.nodes) < 2 or not node or node in listed_nodes


def unlisted(case: Case, rank: int) -> bool:
    """Whether a whole report of the launcher lists other ranks of the node and not this one, of which a log is here."""
    whole = any(f.values.get("first") for f in case.of("exit") if f.values.get("by") == "block")
    return whole and ("log" in case.ranks[rank].has or _below(case, rank)) and _left_quietly(case, rank)


def _below(case: Case, rank: int) -> bool:
    """Whether a rank of the only node must have been started: the report lists one of a higher local rank."""
    rows = [f for f in case.of("exit") if f.values.get("by") == "block"]
    alone = len({f.values.get("node") for f in rows}) == 1 and len(case.inventory.nodes) < 2
    return alone and any(f.rank == f.values.get("local") and (f.rank or 0) > rank for f in rows)


def _quiet_links(case: Case, rank: int) -> list[Link]:
    block = [f for f in case.of("exit") if f.values.get("by") == "block"]
    text = Text(
        "the launcher lists {others} as failed or closed and not rank {rank}: it had left with code 0 before",
        "启动器列出的失败或被关闭的是 rank {others}，其中没有 rank {rank}：它此前已以退出码 0 离开",
        others=listed(f.rank for f in block if f.rank is not None),
        rank=rank,
    )
    out = [Link(block[0], text, MEDIUM)] if block else []
    for fact in case.of("output", rank=rank):
        if fact.values.get("done"):
            done = Text(
                'rank {rank} says that it has finished: "{words}"',
                "rank {rank} 表示已完成：“{words}”",
                rank=rank,
                words=str(fact.values.get("last") or "")[:120],
            )
            out.append(Link(fact, done, MEDIUM if not out else WEAK))
    return out


def missing_of_a_killer(ranks: list[int]) -> tuple[list[Text], list[Text]]:
    """(what to collect, what to type) when SIGKILL came from nobody knows where."""
    missing = [
        Text("kernel log of the node (dmesg): an OOM kill leaves a line there",
             "节点的内核日志（dmesg）：OOM kill 会在其中留下记录"),
        Text("memory.events of the cgroup (oom_kill), records of the scheduler (sacct, kubectl describe)",
             "cgroup 的 memory.events（oom_kill）、调度器记录（sacct、kubectl describe）"),
    ]  # fmt: skip
    command = Text(
        "dmesg -T | grep -i -E 'killed process|oom' where rank {n} ran",
        "在 rank {n} 的节点执行 dmesg -T | grep -i -E 'killed process|oom'",
        n=listed(ranks),
    )
    return missing, [command]


def unseen(case: Case) -> Iterator[Hypothesis]:
    """Everyone of whom something is known is in one call, and nobody of them lacks: who left no trace is missing."""
    for joined in case.waits.joined():
        ranks = joined.unseen
        halted = [f for r in ranks for f in case.of("process", rank=r) if f.values.get("state") in HALTED]
        seen = bool(ranks) and {f.rank for f in halted} == set(ranks)
        stopped = seen and all(f.values.get("state") != "D" for f in halted)  # for good: one that waits is enough
        if not ranks or (not stopped and (len(joined.ranks) < 2 or len(ranks) >= len(joined.ranks))):
            continue
        wait = Wait(joined.group, joined.seq, joined.op, joined.ranks, ranks, joined.facts)
        said = Text(
            "nothing tells what {who} called, all others of the group wait",
            "{who} 的调用不得而知，组内其他 rank 都在等待",
            who=who(ranks),
        )
        if len(ranks) > 1:
            said = Text("{said} (for which of them cannot be told)", "{said}（无法判断在等待其中哪一个）", said=said)
        here = call(joined.op, joined.seq, joined.group)
        text = Text(
            "recorder: {who} in {here}, unfinished",
            "记录器：{who} 正在 {here}，未完成",
            who=who(joined.ranks),
            here=here,
        )
        link = Link(joined.facts[0], text)
        out = Hypothesis("rank-absent", "no trace", and_waiters(said, wait), ranks, POSSIBLE, None, [link])
        alive_then = all(r in case.ranks and case.ranks[r].closed and "log" in case.ranks[r].has for r in ranks)
        if seen:
            state = HALTED[str(halted[0].values["state"])]
            out.cause, out.sub, out.confidence = "host-stall", "stopped", sure([link, Link(halted[0], state)], PROBABLE)
            out.summary = and_waiters(Text("{who} {state}", "{who} {state}", who=who(ranks), state=state), wait)
            out.supports += [
                Link(f, Text("process: {words}", "进程：{words}", words=f.text[:140]), STRONG) for f in halted[:2]
            ]
        elif alive_then:  # what dumps the others did not get to run there: the GIL was held, or the process stood
            out.cause, out.sub = "host-stall", ""
            out.supports += last_words(case.waits, ranks)
        out.missing = [Text("dump, log or stack of {who}", "{who} 的转储、日志或调用栈", who=who(ranks))]
        yield out
        return
