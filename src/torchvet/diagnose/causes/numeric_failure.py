"""A number that is none stopped a rank, or made one rank skip what the others did."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._numeric_failure import WORDS, completed, skipped_on_one, step_text, stopped_by_it
from ._say import named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="numeric-failure",
    name="numeric-failure",
    summary=Text("a loss or gradient is not finite", "loss 或梯度不是有限值"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    raised = [
        f
        for f in case.of("exception")
        if not f.values.get("victim")
        and not f.values.get("ignored")
        and (
            f.values.get("type") == "FloatingPointError"
            or (
                WORDS.search(str(f.values.get("message"))[:400]) and "No inf checks" not in str(f.values.get("message"))
            )
        )
    ]
    told = case.of("nan")
    if raised:
        yield _raised(case, raised, told)
        return
    skipped = [f for f in told if f.values.get("skipped")]
    ranks = ranks_of(case, skipped)
    if skipped and ranks and len(ranks) < max(2, len(case.ranks)) and failed(case) is not False:
        yield skipped_on_one(case, skipped, ranks)
        return
    stopped = [f for f in told if stopped_by_it(case, f)]
    if stopped and failed(case):
        yield _raised(case, [], stopped)
    elif told:
        out = Hypothesis(
            "numeric-failure",
            "not finite",
            Text(
                "{what} of {who} was not finite{since}",
                "{who} 的 {what} 不是有限值{since}",
                what=told[0].values.get("what", "loss"),
                who=named(ranks_of(case, told)),
                since=Text("")
                if told[0].values.get("step") is None
                else Text(" from step {step} on", "（自第 {step} 步起）", step=step_text(told[0])),
            ),
            ranks_of(case, told),
        )
        out.supports = [Link(f, Text("printed", "日志所示"), MEDIUM) for f in told[:2]]
        out.side = True
        yield out


def _raised(case: Case, raised: list[Fact], told: list[Fact]) -> Hypothesis:
    ranks = ranks_of(case, raised or told)
    site = site_in(raised)
    first = (raised or told)[0]
    at = Text(" at {path}:{line}", "（{path}:{line}）", path=site[0], line=site[1]) if site else Text("")
    words = str(first.values.get("message") or first.text).split("\n")[0][:120]
    summary = Text(
        "{who} stopped on a number that is not finite{at}: {words}",
        "{who} 因非有限值停止{at}：{words}",
        who=named(ranks),
        at=at,
        words=words,
    )
    out = Hypothesis("numeric-failure", "stopped", summary, ranks, PROBABLE, site)
    out.supports = [Link(f, Text("raised by the program itself", "由程序自身抛出"), STRONG) for f in raised[:3]]
    out.supports += [
        Link(
            f,
            Text(
                "{what} of rank {r} was {value} at step {step}",
                "rank {r} 的 {what} 在第 {step} 步为 {value}",
                what=f.values.get("what"),
                r=f.rank if f.rank is not None else "?",
                value=f.values.get("value"),
                step=step_text(f),
            ),
            STRONG,
        )
        for f in told[:3]
    ]
    if raised and told:
        out.confidence = CONFIRMED
    return completed(case, out, ranks)
