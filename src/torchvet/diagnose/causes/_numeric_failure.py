"""Who stopped on a number that is none, and how it is told."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import MEDIUM, PROBABLE, STRONG, Hypothesis, Link
from ..ranks import failed
from ._say import launcher_claim, lost_peers, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


WORDS = re.compile(
    r"(?i)\bnan\b|non-?finite|not finite|\binf(?:inity)?\b|infinite|returned nan values|FloatingPointError|diverged"
    r"|loss scale already at minimum|[Mm]inimum loss scale reached"
)


def step_text(fact: Fact) -> object:
    step = fact.values.get("step")
    return "?" if step is None else step


def stopped_by_it(case: Case, fact: Fact) -> bool:
    """The rank ended by its own exit right behind the number: its last words speak of it."""
    if fact.rank is None or fact.rank not in case.ranks:
        return False
    rank = case.ranks[fact.rank]
    says = bool(re.search(r"(?i)stop|abort|exit|terminat", str(fact.text)))
    words = bool(WORDS.search(rank.last)) or says
    if rank.code == -6:  # torch's threads abort a process that leaves with a group open: its last line is its reason
        return says and rank.last[:120] in fact.text and not rank.closed
    return words and rank.code not in (None, 0, -15, -9) and not rank.closed


def completed(case: Case, out: Hypothesis, ranks: list[int]) -> Hypothesis:
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


def skipped_on_one(case: Case, skipped: list[Fact], ranks: list[int]) -> Hypothesis:
    first = skipped[0]
    summary = Text(
        "{what} of {who} was not finite at step {step} and its batch was "
        "skipped there only: one backward less than the others",
        "{who} 的 {what} 在第 {step} 步不是有限值，只有它跳过了该 batch：比其他 rank 少一次 backward",
        what=first.values.get("what", "loss"),
        who=named(ranks),
        step=step_text(first),
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
    return completed(case, out, ranks)
