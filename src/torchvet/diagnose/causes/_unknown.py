"""Processes of Ray and of pods that ended from outside."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import POSSIBLE, STRONG, Hypothesis, Link
from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Fact


def pods_ended(facts: list[Fact]) -> Hypothesis:
    names = ", ".join(sorted({str(f.values.get("pod") or "?") for f in facts})[:4])
    summary = Text("{pods} ended with exit code 137 (SIGKILL) and no OOM record; who sent it is not known",
                   "{pods} 以退出码 137（SIGKILL）结束且没有 OOM 记录，发送者未知", pods=names)  # fmt: skip
    ranks = sorted({f.rank for f in facts if f.rank is not None})
    out = Hypothesis("unknown", "SIGKILL by unknown", summary, ranks, POSSIBLE)
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in facts[:3]]
    out.missing = [
        Text("events of the pod and of the node (kubectl get events)", "Pod 与节点的事件（kubectl get events）"),
        Text("kernel log of the node", "节点的内核日志"),
    ]
    return out


def vanished(facts: list[Fact]) -> Hypothesis:
    """Ray lost a worker: its connection ended, and nobody saw with which signal."""
    ranks = sorted({f.rank for f in facts if f.rank is not None})
    summary = Text("the process of {who} died without a word: by SIGKILL or in native code, Ray does not know",
                   "{who} 的进程无声消失：被 SIGKILL 或在本地代码中崩溃，Ray 也不知道", who=named(ranks))  # fmt: skip
    out = Hypothesis("unknown", "died without a word", summary, ranks, POSSIBLE)
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in facts[:3]]
    out.missing = [
        Text("raylet.out and the standard error of that worker (ray logs)",
             "raylet.out 与该 worker 的标准错误（ray logs）"),
        Text("kernel log of the node (dmesg -T): OOM kills and segfaults",
             "节点的内核日志（dmesg -T）：OOM kill 与 segfault"),
    ]  # fmt: skip
    return out
