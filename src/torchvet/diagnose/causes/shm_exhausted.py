"""Shared memory is used up: workers cannot hand over batches, or NCCL cannot map its buffers."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import GIB, size
from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="shm-exhausted",
    name="shm-exhausted",
    summary=Text("shared memory (/dev/shm) is used up", "共享内存（/dev/shm）耗尽"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    facts = [
        f
        for f in case.of("shm")
        if "Too many open files" not in f.text and "No such file" not in f.text and f.values.get("what") != "missing"
    ]
    facts += [f for f in case.of("worker") if "Bus" in str(f.values.get("signal", ""))]
    facts += [
        f
        for f in case.of("space")
        if f.values.get("errno") == 28
        and (str(f.values.get("path", "")).startswith("/dev/shm") or "SemLock" in _functions(f))
    ]
    mounts = [f for f in case.of("space") if f.values.get("path") == "/dev/shm" and f.values.get("by") == "df"]
    full = [f for f in mounts if (f.values.get("percent") or 0) >= 95]
    if not facts and full:
        facts = [f for f in case.of("exit") if f.values.get("code") in (-7, 135)]
    if not facts:
        return
    ranks = ranks_of(case, facts)
    said = [f for f in facts if f.values.get("what") in ("space", "nccl", "map") or f.kind == "space"]
    feeder = [f for f in facts if f.values.get("feeder")]
    sub = "queue feeder" if feeder else "nccl" if any(f.values.get("what") == "nccl" for f in facts) else "worker"
    out = Hypothesis(
        "shm-exhausted", sub, _summary(ranks, sub, full or mounts, said), ranks, PROBABLE if said or full else POSSIBLE
    )
    out.supports = [
        Link(f, _reason(f), STRONG if f in said or f.values.get("what") == "bus" else MEDIUM)
        for f in _first_per_rank(facts)[:4]
    ]
    for mount in full:
        reason = Text(
            "/dev/shm has {size} and is {percent} % full",
            "/dev/shm 大小 {size}，已用 {percent} %",
            size=size(mount.values.get("size") or 0),
            percent=mount.values.get("percent"),
        )
        out.supports.append(Link(mount, reason, STRONG))
        out.confidence = CONFIRMED
    small = [f for f in mounts if f not in full and (f.values.get("size") or GIB) < GIB]
    for mount in small[:1]:
        reason = Text("/dev/shm has only {size}", "/dev/shm 只有 {size}", size=size(mount.values.get("size") or 0))
        out.supports.append(Link(mount, reason, MEDIUM))
        if said:
            out.confidence = CONFIRMED
    roomy = [f for f in mounts if (f.values.get("percent") or 0) < 50 and (f.values.get("size") or 0) >= 8 * GIB]
    if roomy and not said:
        reason = Text(
            "/dev/shm had room: a mapped file that was cut short gives the same signal",
            "/dev/shm 尚有空间：被截断的映射文件也会产生同样的信号",
        )
        out.contradicts.append(Link(roomy[0], reason, STRONG))
    _site(case, out, facts, ranks)
    for rank in ranks if feeder else []:
        stack = next(iter(case.of("stack", rank=rank)), None)
        if stack and any("queues.py" in str(f[0]) or "dataloader" in str(f[0]) for f in stack.values.get("main") or []):
            reason = Text(
                "rank {r} waits in the DataLoader for a batch that was lost",
                "rank {r} 在 DataLoader 中等待已丢失的 batch",
                r=rank,
            )
            out.supports.append(Link(stack, reason, STRONG))
            out.confidence = CONFIRMED
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.next.append(
        Text(
            "df -h /dev/shm in the container of the job; torchvet preflight",
            "在作业容器中执行 df -h /dev/shm；torchvet preflight",
        )
    )
    out.side = failed(case) is False
    yield out


def _functions(fact: Fact) -> str:
    return " ".join(str(f[2]) + str(f[0]) for f in fact.values.get("frames") or []) + fact.text


def _first_per_rank(facts: list[Fact]) -> list[Fact]:
    seen: set[tuple[int | None, str]] = set()
    return [f for f in facts if not ((f.rank, f.kind) in seen or seen.add((f.rank, f.kind)))]  # type: ignore[func-returns-value]


def _reason(fact: Fact) -> Text:
    if fact.kind == "worker":
        return Text("a DataLoader worker was ended by SIGBUS", "一个 DataLoader worker 被 SIGBUS 终止")
    if fact.values.get("what") == "bus":
        return Text("a worker touched a shared page that could not be backed", "worker 访问了无法分配的共享内存页")
    if fact.values.get("feeder"):
        return Text(
            "the feeder of a worker's queue found no room; that batch is lost",
            "worker 队列的 feeder 没有空间，该 batch 丢失",
        )
    return Text("no room for a shared memory file", "没有空间创建共享内存文件")


def _summary(ranks: list[int], sub: str, mounts: list[Fact], said: list[Fact]) -> Text:
    known = size(mounts[0].values.get("size") or 0) if mounts else ""
    at = Text(" ({size})", "（{size}）", size=known) if known else Text("")
    if sub == "queue feeder":
        return Text(
            "a DataLoader worker of {who} found no space left in "
            "/dev/shm{at}: a batch is lost and the loader waits for it",
            "{who} 的 DataLoader worker 在 /dev/shm{at} 中没有剩余空间：batch 丢失，加载器一直等待",
            who=named(ranks),
            at=at,
        )
    if sub == "nccl":
        return Text(
            "NCCL on {who} found no room in /dev/shm{at}",
            "{who} 上的 NCCL 在 /dev/shm{at} 中没有空间",
            who=named(ranks),
            at=at,
        )
    return Text(
        "a DataLoader worker of {who} found no room in /dev/shm{at}",
        "{who} 的 DataLoader worker 在 /dev/shm{at} 中没有空间",
        who=named(ranks),
        at=at,
    )


def _site(case: Case, out: Hypothesis, facts: list[Fact], ranks: list[int]) -> None:
    out.site = site_in([*beside(case, facts), *facts])
    if out.site is None:
        out.site = next((s for r in ranks for f in case.of("stack", rank=r) if (s := _stack_site(f))), None)
    for fact in case.of("container"):
        if fact.values.get("by") == "docker run" and not fact.values.get("shm_size") and not fact.values.get("ipc"):
            reason = Text(
                "docker run without --shm-size or --ipc=host: 64 MiB",
                "docker run 未给出 --shm-size 或 --ipc=host：只有 64 MiB",
            )
            out.supports.append(Link(fact, reason, STRONG))
            out.next.insert(0, Text("docker run --shm-size=8g …", "docker run --shm-size=8g …"))
            out.site = (fact.source, fact.line)
            out.confidence = CONFIRMED


def _stack_site(fact: Fact) -> tuple[str, int] | None:
    from ..evidence.frames import site_of

    return site_of(fact.values.get("main") or [])
