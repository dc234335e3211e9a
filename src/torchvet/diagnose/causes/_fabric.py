"""Which of NCCL's lines speak of the fabric, and the words."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


FABRIC = re.compile(
    r"NET/IB|ibv_\w+ failed|Call to ibv_|async fatal event|Got async "
    r"event|local_work_queue|IBV_|port error|NET/OFI|NVLS|"
    r"NET/Socket ?: (?:Connection|socket|peer)|connect to \S+ failed|RoCE|gid|[Uu]nable to (?:connect|reach)"
)


HARMLESS = re.compile(
    r"Failed to open libibverbs|No device found|NET/Plugin|Could not find|ibvwrap|unhandled|Using network"
)


# completion status of a transfer (infiniband/verbs.h); 5 only follows another error of the same queue
STATUS = {
    12: Text("retry exceeded", "重试次数耗尽"), 13: Text("receiver not ready", "接收端未就绪"),
    4: Text("protection error", "保护错误"), 10: Text("remote access error", "远端访问错误"),
    11: Text("remote operation error", "远端操作错误"), 9: Text("remote invalid request", "远端无效请求"),
    5: Text("flushed", "已被冲刷"),
}  # fmt: skip


def told(facts: list[Fact], down: list[Fact], switch: list[Fact], ranks: list[int]) -> tuple[str, Text]:
    """(sub, summary) of what failed."""
    status = next(
        (f.values["status"] for f in facts if f.values.get("status") in STATUS and f.values["status"] != 5), None
    )
    word = Text("")
    if status:
        word = Text("completion status {n} ({what})", "完成状态 {n}（{what}）", n=status, what=STATUS[status])
    if down:
        device = str(down[0].values.get("device") or down[0].values.get("bus") or "?")
        node = str(down[0].values.get("node") or "")
        at = f"{node} {device}".strip()
        sub = "IB link down"
        summary = Text(
            "link {at} went down{status}; {who} report it" if ranks else "link {at} went down while all ranks waited",
            "链路 {at} 断开{status}；由 {who} 报告" if ranks else "链路 {at} 断开，所有 rank 都在等待",
            at=at,
            who=named(ranks),
            status=Text(": {word}", "：{word}", word=word) if status else "",
        )
    elif switch and not facts:
        number = switch[0].values.get("number")
        sub = "NVSwitch"
        summary = Text(
            "an NVSwitch reported SXid {n} ({device})",
            "NVSwitch 报告 SXid {n}（{device}）",
            n=number,
            device=switch[0].values.get("device"),
        )
    elif any(f.values.get("what") == "nvlink" for f in facts):
        sub = "NVLink"
        summary = Text("CUDA reports an NVLink error on {who}", "CUDA 在 {who} 上报告 NVLink 错误", who=named(ranks))
    else:
        sub = "retry exceeded" if status == 12 else "transfer error"
        text = word if status else str(facts[0].values.get("message", ""))[:100]
        summary = Text(
            "transfers between nodes failed on {who}: {what}",
            "{who} 的节点间传输失败：{what}",
            who=named(ranks),
            what=text,
        )
    return sub, summary


def all_wait(case: Case) -> bool:
    """All ranks that say something wait in one call, and nobody is missing there: no fault of a program's order."""
    waits = case.waits
    return len({f.rank for f in case.of("watchdog")}) > 1 and not waits.roots and not waits.splits and not waits.stuck


def near(fact: Fact, others: list[Fact]) -> bool:
    """Whether a link's line is of the time of the failure: a link that was down at the last boot is no cause."""
    clock = fact.values.get("clock")
    gaps = []
    for other in others:
        if fact.time is not None and other.time is not None:
            gaps.append(abs(fact.time - other.time))
        elif clock is not None and other.values.get("clock") is not None:
            gaps.append(abs(clock - other.values["clock"]))
    # kernel logs are often in another zone: whole hours apart is the same moment
    return not gaps or any(g < 3600 or (g < 15 * 3600 and min(g % 3600, -g % 3600) < 600) for g in gaps)


def outage(case: Case, fact: Fact) -> Text:
    """How long a port was down."""
    back = next(
        (f for f in case.of("link")
         if f.values.get("state") == "up" and f.source == fact.source and f.order > fact.order
         and f.values.get("device") == fact.values.get("device")), None,
    )  # fmt: skip
    wait = (back.time or 0) - (fact.time or 0) if back and back.time and fact.time else 0
    if wait > 0:
        return Text("the port was down for {n:.0f} s", "端口断开 {n:.0f} 秒", n=wait)
    return Text("the port was down", "端口处于断开状态")
