"""A process ran into the limit of open files: tensors of workers are kept, each with a descriptor."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import MEDIUM, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case

CAUSE = Cause(
    kind="fd-exhausted", name="fd-exhausted", summary=Text("the limit of open files is reached", "达到打开文件数上限")
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    facts = case.of("fd") + [f for f in case.of("shm") if "Too many open files" in f.text]
    facts = [f for f in facts if not f.values.get("ignored")]
    if not facts:
        return
    ranks = ranks_of(case, facts)
    raised = beside(case, facts)
    kept = any(f.values.get("what") == "ancdata" for f in facts) or any(
        "torch_" in f.text or "reductions.py" in str(f.values.get("frames")) for f in facts
    )
    why = Text(" while it took a tensor from a worker", "（从 worker 接收张量时）") if kept else Text("")
    summary = Text("{who} has too many open files{why}", "{who} 打开的文件过多{why}", who=named(ranks), why=why)
    out = Hypothesis("fd-exhausted", "open files", summary, ranks, PROBABLE, site_in([*raised, *facts]))
    seen: set[tuple[int | None, str]] = set()
    for fact in facts:
        key = (fact.rank, str(fact.values.get("what")))
        if key not in seen and len(out.supports) < 4:
            seen.add(key)
            out.supports.append(Link(fact, Text("no descriptor was left", "没有可用的文件描述符"), STRONG))
    for fact in case.of("env"):
        if "ulimit_n" in fact.values:
            out.supports.append(Link(fact, Text("limit: {n}", "上限：{n}", n=fact.values["ulimit_n"]), MEDIUM))
    out.supports += lost_peers(case, ranks)
    out.contradicts += launcher_claim(case, ranks)
    out.missing.append(
        Text("limit and use: ulimit -n; ls /proc/<pid>/fd | wc -l", "上限与用量：ulimit -n；ls /proc/<pid>/fd | wc -l")
    )
    out.next += [
        Text(
            "look for batches or tensors of workers that are kept in a list: copy what you keep (.clone())",
            "查找被列表保留的 worker batch 或张量：只保留副本（.clone()）",
        ),
        Text(
            "ulimit -n 65536, or torch.multiprocessing.set_sharing_strategy('file_system')",
            "ulimit -n 65536，或 torch.multiprocessing.set_sharing_strategy('file_system')",
        ),
    ]
    out.side = failed(case) is False
    yield out
