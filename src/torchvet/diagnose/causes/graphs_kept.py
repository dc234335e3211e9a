"""Autograd graphs that pile up, as `torchvet run` counted them: memory grows, whether or not that ended the job."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import PROBABLE, STRONG, Cause, Hypothesis, Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="host-oom",
    name="graphs-kept",
    summary=Text("autograd graphs of past steps are kept alive", "过去步骤的 autograd 图一直存活"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    by_site: dict[tuple[str, int], list[Fact]] = {}
    for fact in case.of("graph-growth"):
        by_site.setdefault((fact.values["path"], fact.values["line"]), []).append(fact)
    for (path, line), facts in sorted(by_site.items(), key=lambda row: -max(f.values["live"] for f in row[1])):
        most = max(facts, key=lambda f: f.values["live"])
        who = sorted({f.rank for f in facts if f.rank is not None})
        said = Text("{n} autograd graphs made at {path}:{line} are alive, and their number only rose",
                    "在 {path}:{line} 创建的 autograd 图有 {n} 个仍存活，且数量只增不减",
                    n=f"{most.values['live']:,}", path=path.rpartition("/")[2], line=line)  # fmt: skip
        counted = Text("counted by torchvet run", "由 torchvet run 计数")
        links = [Link(fact, counted, STRONG) for fact in facts[:8]]
        advice = Text("find what keeps them: torchvet check", "找出保留它们的代码：torchvet check")
        yield Hypothesis("host-oom", "graphs kept", said, who, PROBABLE, (path, line), links, next=[advice], side=True,
                         rule="accumulated-graph")  # fmt: skip
