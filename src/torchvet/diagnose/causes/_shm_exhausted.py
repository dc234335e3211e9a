"""Words about shared memory, and the line to look at."""

from __future__ import annotations

from torchvet.findings import Text

from ..memory import size
from ..model import CONFIRMED, STRONG, Hypothesis, Link
from ._say import beside, named, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


def functions_of(fact: Fact) -> str:
    return " ".join(str(f[2]) + str(f[0]) for f in fact.values.get("frames") or []) + fact.text


def first_per_rank(facts: list[Fact]) -> list[Fact]:
    seen: set[tuple[int | None, str]] = set()
    return [f for f in facts if not ((f.rank, f.kind) in seen or seen.add((f.rank, f.kind)))]  # type: ignore[func-returns-value]


def reason_of(fact: Fact) -> Text:
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


def summarised(ranks: list[int], sub: str, mounts: list[Fact], said: list[Fact], facts: list[Fact]) -> Text:
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
    if not said and facts and all(f.kind == "exit" for f in facts):
        return Text("{who} ended by SIGBUS while /dev/shm{at} was full", "/dev/shm{at} 已满时 {who} 被 SIGBUS 终止",
                    who=named(ranks), at=at)  # fmt: skip
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


def put_site(case: Case, out: Hypothesis, facts: list[Fact], ranks: list[int]) -> None:
    out.site = site_in([*beside(case, facts), *facts])
    if out.site is None:
        out.site = next((s for r in ranks for f in case.of("stack", rank=r) if (s := stack_site(f))), None)
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


def stack_site(fact: Fact) -> tuple[str, int] | None:
    from ..evidence.frames import site_of

    return site_of(fact.values.get("main") or [])
