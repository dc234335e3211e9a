"""A number that is none stopped a rank, or made one rank skip what the others did."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="numeric-failure",
    name="numeric-failure",
    summary=Text("a loss or gradient is not finite", "loss 或梯度不是有限值"),
)
_WORDS = re.compile(
    r"(?i)\bnan\b|non-?finite|not finite|\binf(?:inity)?\b|infinite|returned nan values|FloatingPointError|diverged"
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
                _WORDS.search(str(f.values.get("message"))[:400])
                and "No inf checks" not in str(f.values.get("message"))
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
        yield _skipped(case, skipped, ranks)
        return
    stopped = [f for f in told if _stopped(case, f)]
    if stopped and failed(case):
        yield _raised(case, [], stopped)
    elif told:
        out = Hypothesis(
            "numeric-failure",
            "not finite",
            Text(
                "{what} of {who} was not finite from step {step} on",
                "{who} 的 {what} 自第 {step} 步起不是有限值",
                what=told[0].values.get("what", "loss"),
                who=named(ranks_of(case, told)),
                step=_step(told[0]),
            ),
            ranks_of(case, told),
        )
        out.supports = [Link(f, Text("printed", "日志所示"), MEDIUM) for f in told[:2]]
        out.side = True
        yield out


def _step(fact: Fact) -> object:
    step = fact.values.get("step")
    return "?" if step is None else step


def _stopped(case: Case, fact: Fact) -> bool:
    """The rank ended by its own exit right behind the number: its last words speak of it."""
    if fact.rank is None or fact.rank not in case.ranks:
        return False
    rank = case.ranks[fact.rank]
    words = bool(_WORDS.search(rank.last)) or bool(re.search(r"(?i)stop|abort|exit", str(fact.text)))
    return words and rank.code not in (None, 0, -15, -6, -9) and not rank.closed


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
                step=_step(f),
            ),
            STRONG,
        )
        for f in told[:3]
    ]
    if raised and told:
        out.confidence = CONFIRMED
    return _finished(case, out, ranks)


def _skipped(case: Case, skipped: list[Fact], ranks: list[int]) -> Hypothesis:
    first = skipped[0]
    summary = Text(
        "{what} of {who} was not finite at step {step} and its batch was "
        "skipped there only: one backward less than the others",
        "{who} 的 {what} 在第 {step} 步不是有限值，只有它跳过了该 batch：比其他 rank 少一次 backward",
        what=first.values.get("what", "loss"),
        who=named(ranks),
        step=_step(first),
    )
    out = Hypothesis("numeric-failure", "batch skipped on one rank", summary, ranks, PROBABLE)
    out.supports = [
        Link(
            f,
            Text(
                "rank {r}: {words}",
                "rank {r}：{words}",
                r=f.rank if f.rank is not None else "?",
                words=f.values.get("skip_text", f.text)[:120],
            ),
            STRONG,
        )
        for f in skipped[:3]
    ]
    signs = case.of("mismatch", "watchdog", "absent", "behind") or [
        f for f in case.of("lost") if f.values.get("how") == "timeout"
    ]
    calls = case.of("progress", "call")
    if signs or calls:
        out.supports.append(
            Link(
                (signs or calls)[0],
                Text("the calls of the ranks do not pair any more", "各 rank 的调用不再配对"),
                MEDIUM,
            )
        )
    out.rule = "local-skip"
    return _finished(case, out, ranks)


def _finished(case: Case, out: Hypothesis, ranks: list[int]) -> Hypothesis:
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.missing.append(
        Text(
            "the batch or the layer that gave the number: torch.autograd.set_detect_anomaly(True)",
            "产生该值的 batch 或层：torch.autograd.set_detect_anomaly(True)",
        )
    )
    if out.sub != "stopped":
        out.next.append(
            Text(
                "decide on all ranks: all_reduce the flag, then skip everywhere",
                "在所有 rank 上一致决定：先 all_reduce 标志，再一起跳过",
            )
        )
    out.side = failed(case) is False
    return out
