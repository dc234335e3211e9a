"""Shared memory is used up: workers cannot hand over batches, or NCCL cannot map its buffers."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import GIB, size
from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import launcher_claim, lost_peers, ranks_of
from ._shm_exhausted import first_per_rank, functions_of, put_site, reason_of, summarised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case

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
        and (str(f.values.get("path", "")).startswith("/dev/shm") or "SemLock" in functions_of(f))
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
        "shm-exhausted",
        sub,
        summarised(ranks, sub, full or mounts, said, facts),
        ranks,
        PROBABLE if said or full else POSSIBLE,
    )
    out.supports = [
        Link(f, reason_of(f), STRONG if f in said or f.values.get("what") == "bus" else MEDIUM)
        for f in first_per_rank(facts)[:4]
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
    put_site(case, out, facts, ranks)
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
