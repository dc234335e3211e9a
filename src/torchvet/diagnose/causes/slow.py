"""Slow, not stuck: what traces of the profiler show. Never a cause of a failure."""

from __future__ import annotations

from statistics import median

from torchvet.findings import Text

from ..model import MEDIUM, PROBABLE, Cause, Hypothesis, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="host-stall",
    name="slow",
    summary=Text(
        "a job that is slow, not stuck: data, communication, one slow rank",
        "作业缓慢但未卡死：数据、通信、某个慢 rank",
    ),
)

WAITS_FOR_DATA, EXPOSED = 0.15, 0.30
"""Shares of the time from which they are worth a sentence (own margins: tune aims at 1 %, overlapping at 10 %)."""
SHORTEST = 50.0
"""Milliseconds of a trace below which shares say nothing."""


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    traces = [f for f in case.of("trace") if f.values.get("span_ms", 0) >= SHORTEST]
    waiting = [f for f in traces if _share(f, "data_ms") >= WAITS_FOR_DATA]
    if waiting:
        worst = max(waiting, key=lambda f: _share(f, "data_ms"))
        said = Text("the training loop waits for data {n} % of the time", "训练循环有 {n} % 的时间在等数据",
                    n=_percent(worst, "data_ms"))  # fmt: skip
        advice = Text("measure loader settings: torchvet tune", "测量加载器设置：torchvet tune")
        yield _slow("slow: data loading", said, waiting, "data_ms", advice)
    exposed = [f for f in traces if _share(f, "exposed_ms") >= EXPOSED]
    straggler = _straggler(traces)
    if straggler is not None:
        said = Text("the others wait for rank {r}: {a} ms a trace in collectives, {b} ms elsewhere",
                    "其他 rank 在等 rank {r}：它在集合通信中 {a} ms，其他为 {b} ms", r=straggler.rank,
                    a=f"{straggler.values['comm_ms']:,.0f}",
                    b=f"{median(f.values['comm_ms'] for f in traces):,.0f}")  # fmt: skip
        advice = Text("compare its data, GPU clocks and host with the others", "对比它的数据、GPU 频率与主机")
        yield _slow("slow: one rank", said, [straggler], "comm_ms", advice)
    elif exposed:
        worst = max(exposed, key=lambda f: _share(f, "exposed_ms"))
        said = Text("{n} % of the time only collectives run on the GPU", "有 {n} % 的时间 GPU 上只有集合通信在运行",
                    n=_percent(worst, "exposed_ms"))  # fmt: skip
        advice = Text("overlap it with the backward pass, or send less", "让通信与反向计算重叠，或减少通信量")
        yield _slow("slow: communication", said, exposed, "exposed_ms", advice)


def _slow(sub: str, said: Text, facts: list[Fact], key: str, advice: Text) -> Hypothesis:
    links = []
    for fact in facts[:8]:
        reason = Text("trace: {a} ms of {b} ms", "性能跟踪：{b} ms 中有 {a} ms",
                      a=f"{fact.values[key]:,.0f}", b=f"{fact.values['span_ms']:,.0f}")  # fmt: skip
        links.append(Link(fact, reason, MEDIUM))
    ranks = sorted({f.rank for f in facts if f.rank is not None})
    return Hypothesis("host-stall", sub, said, ranks, PROBABLE, supports=links, next=[advice], side=True)


def _straggler(traces: list[Fact]) -> Fact | None:
    """The one rank that spends far less time in collectives than the others, with steps of the same length: it comes
    last, so it never waits."""
    known = [f for f in traces if f.rank is not None and f.values.get("comm_ms")]
    if len(known) < 3:
        return None
    ordered = sorted(known, key=lambda f: f.values["comm_ms"])
    least, middle = ordered[0].values["comm_ms"], median(f.values["comm_ms"] for f in ordered[1:])
    second = ordered[1].values["comm_ms"]
    large = middle - least >= 0.1 * ordered[0].values["span_ms"]
    return ordered[0] if least < 0.5 * middle and second >= 0.7 * middle and large else None


def _share(fact: Fact, key: str) -> float:
    span: float = fact.values.get("span_ms") or 0.0
    return float(fact.values.get(key) or 0.0) / span if span else 0.0


def _percent(fact: Fact, key: str) -> str:
    return f"{100 * _share(fact, key):.0f}"
