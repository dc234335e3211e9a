"""A GPU stopped: a call is unfinished on one rank that its peers have finished, or the kernel reports the device."""

from __future__ import annotations

from torchvet.findings import Text

from ..devices import HARDWARE, UNCONTAINED
from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ..said import call, claim_of_launcher, plural, sure, waiting, who
from ._device_stuck import CONSEQUENCES, by_program, first_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="device-stuck",
    name="device-stuck",
    summary=Text("a GPU does not get on with what its host has given it", "某块 GPU 不再推进主机交给它的工作"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    reported = [f for f in case.of("xid") if f.values.get("number") in HARDWARE]
    seen: dict[tuple[str, str], list[Fact]] = {}
    for fact in reported:
        if fact.values.get("device"):
            seen.setdefault((str(fact.values.get("node") or ""), str(fact.values["device"])), []).append(fact)
    for (_, device), facts in seen.items():
        yield _by_kernel(case, device, *first_of(facts))
    yield from by_program(case, {f.rank for facts in seen.values() for f in facts})
    ranks = case.waits.stuck_ranks()
    members = {r for g in case.waits.groups for r in g.ranks}
    # on most ranks: dumps of different moments, no fault of devices
    if ranks and 2 * len(ranks) < len(members) and not {f.rank for f in reported} >= set(ranks):
        yield _by_recorder(case, ranks, reported)


def _by_kernel(case: Case, device: str, fact: Fact, later: list[Fact]) -> Hypothesis:
    number = int(fact.values["number"])
    what, act = HARDWARE[number]
    ranks = [f.rank for f in (fact, *later) if f.rank is not None][:1]
    owner = Text(" of rank {rank}", "（rank {rank}）", rank=ranks[0]) if ranks else Text("")
    said = Text("GPU {device}{owner} {what} (Xid {n})", "GPU {device}{owner}{what}（Xid {n}）",
                device=device, owner=owner, what=what, n=number)  # fmt: skip
    links = [Link(fact, Text("kernel: {text}", "内核：{text}", text=fact.text[:160]), STRONG)]
    links += [Link(f, Text("kernel: {text}", "内核：{text}", text=f.text[:160]), MEDIUM) for f in later[:3]]
    for other in case.of("device-error", "async-error", rank=ranks[0])[:1] if ranks else ():
        text = Text("log of rank {rank}: {text}", "rank {rank} 的日志：{text}", rank=ranks[0], text=other.text[:160])
        links.append(Link(other, text, MEDIUM))
    for other in case.of("pcie")[:1]:
        links.append(Link(other, Text("kernel: {text}", "内核：{text}", text=other.text[:160]), MEDIUM))
    links += [waiting(w) for w in case.waits.waiting_for(ranks[0])[:1]] if ranks else []
    out = Hypothesis("device-stuck", f"Xid {number}", said, ranks, sure(links), None, links, next=[act])
    if any(f.values["number"] == UNCONTAINED for f in later):
        out.next = [HARDWARE[UNCONTAINED][1]]
    out.contradicts = claim_of_launcher(case.waits, ranks) if ranks else []
    out.explains = [(kind, r) for kind in CONSEQUENCES for r in ranks]
    if not ranks:
        out.missing.append(Text("which rank uses this GPU: NCCL's start lines (NCCL_DEBUG=INFO) name the bus ids",
                                "该 GPU 属于哪个 rank：NCCL 启动行（NCCL_DEBUG=INFO）给出总线号"))  # fmt: skip
    return out


def _by_recorder(case: Case, ranks: list[int], reported: list[Fact]) -> Hypothesis:
    waits = case.waits
    links = []
    for rank in ranks[:4]:
        one = next(s for s in waits.stuck if s.rank == rank)
        text = Text(
            "recorder: {call} is finished on {peers}, not on rank {rank}",
            "记录器：{call} 在 {peers} 上已完成，在 rank {rank} 上未完成",
            call=call(one.op, one.seq, one.group), peers=who(one.finished), rank=rank,
        )  # fmt: skip
        links.append(Link(one.fact, text, STRONG))
    links += [waiting(w) for w in waits.all if set(w.absent) & set(ranks)][:2]
    kernel = [f for f in reported if f.rank in ranks]
    links += [Link(f, Text("kernel: {text}", "内核：{text}", text=f.text[:160]), STRONG) for f in kernel[:2]]
    first = next(s for s in waits.stuck if s.rank == ranks[0])
    said = Text(
        "the {gpus} of {who} stopped: {call} is unfinished there and finished on {peers}",
        "{who} 的 GPU 已停止：{call} 在其上未完成，而在 {peers} 上已完成",
        gpus=plural(ranks, "GPU", "GPUs"), who=who(ranks), call=call(first.op, first.seq, first.group),
        peers=who(first.finished),
    )  # fmt: skip
    out = Hypothesis("device-stuck", "", said, ranks, sure(links, CONFIRMED if kernel else PROBABLE), None, links)
    out.contradicts = claim_of_launcher(waits, ranks)
    out.explains = [(kind, r) for kind in CONSEQUENCES for r in ranks]
    if not kernel:
        out.missing.append(
            Text("kernel log of the nodes (Xid lines), nvidia-smi -q", "节点的内核日志（Xid 行）、nvidia-smi -q")
        )
    out.next.append(Text("dmesg -T | grep -i xid on the node of rank {n}, then dcgmi diag -r 3",
                         "在 rank {n} 的节点执行 dmesg -T | grep -i xid，再 dcgmi diag -r 3", n=ranks[0]))  # fmt: skip
    return out
