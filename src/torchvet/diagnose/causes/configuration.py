"""The job could not work as it was set up: drivers, devices, interfaces, versions, DDP options, number of ranks."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, PROBABLE, STRONG, WEAK, Cause, Hypothesis, Link
from ..ranks import failed
from ..setups import SETUPS
from ._addresses import had_joined, never_started, odd_environments
from ._configuration import (
    ddp_stops,
    driver_versions,
    empty_buffer,
    names_it,
    nccl_versions,
    odd_environment,
    one_per_source,
    rank_count,
    same_everywhere,
    went_on,
)
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="configuration",
    name="configuration",
    summary=Text("the job could not work as it was set up", "作业的设置使其无法运行"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    rows: dict[str, list[Fact]] = {}
    for fact in case.of("config"):
        rows.setdefault(str(fact.values.get("what")), []).append(fact)
    for fact in case.of("interface"):
        rows.setdefault("interface", []).append(fact)
    for what, facts in rows.items():
        facts = [f for f in facts if beside(case, [f]) or not (f.quality == WEAK or went_on(case, f))]
        if what in SETUPS and any(names_it(case, f) for f in facts):
            yield _setup(case, what, facts)
    yield from ddp_stops(case)
    if (odd := odd_environments(case)) and not had_joined(case):
        yield odd_environment(case, *odd)
    elif gone := never_started(case):
        yield rank_count(case, gone)
    yield from empty_buffer(case)
    yield from same_everywhere(case)
    yield from nccl_versions(case)


def _setup(case: Case, what: str, facts: list[Fact]) -> Hypothesis:
    sub, words, fix = SETUPS[what]
    own = [f for f in facts if f.rank is not None] or facts
    ranks = [] if what == "bridge-address" else ranks_of(case, own)  # who cannot connect is not who offers it
    detail = next(
        (
            f"{k} {f.values[k]}"
            for f in facts
            for k in ("interface", "library", "symbol", "name", "bus", "version", "address")
            if f.values.get(k)
        ),
        "",
    )
    versions = driver_versions(case) if what == "driver-library" else None
    more = versions or (
        Text(" ({detail})", "（{detail}）", detail=detail) if detail and what != "driver-library" else Text("")
    )
    out = Hypothesis(
        "configuration",
        sub,
        Text("{words} on {who}{more}", "{who}：{words}{more}", words=words, who=named(ranks), more=more),
        ranks,
        PROBABLE,
        site_in([*beside(case, own), *own]),
    )
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in one_per_source(facts)[:4]]
    if what == "driver-library":
        out.supports += [
            Link(
                f,
                Text(
                    "{name}: {old} to {new}",
                    "{name}：{old} 升级为 {new}",
                    name=f.values.get("name"),
                    old=f.values.get("old"),
                    new=f.values.get("new"),
                ),
                STRONG,
            )
            for f in case.of("package")[:2]
        ]
    if len({f.source for f in facts}) > 1 or len(out.supports) > 1:
        out.confidence = CONFIRMED
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.next.append(fix)
    return out
