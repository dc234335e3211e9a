"""Which fault of a GPU led to the others, and what CUDA itself says of one."""

from __future__ import annotations

from torchvet.findings import Text

from ..devices import FIRST
from ..model import PROBABLE, STRONG, Hypothesis, Link
from ..said import claim_of_launcher, who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact


FAULTS = {
    "ecc": Text("had an uncorrectable ECC error", "出现不可纠正的 ECC 错误"),
    "lost": Text("is gone from the bus", "已从总线上消失"),
}
CONSEQUENCES = ("rank-absent", "host-stall", "native-crash")


def first_of(facts: list[Fact]) -> tuple[Fact, list[Fact]]:
    """(the fault of one GPU, what followed it, one fact for each number): FIRST goes before what it leads to, else the
    kernel's order decides."""
    by_number: dict[int, Fact] = {}
    for fact in facts:
        by_number.setdefault(int(fact.values["number"]), fact)
    found = next((by_number[n] for n in FIRST if n in by_number), facts[0])
    return found, [f for f in by_number.values() if f is not found]


def by_program(case: Case, told: set[int | None]) -> Iterator[Hypothesis]:
    """CUDA's own word that the memory of the GPU failed or that it is gone, where no kernel log is at hand."""
    for what, said in FAULTS.items():
        facts = [f for f in case.of("device-error") if f.values.get("what") == what and f.rank not in told]
        ranks = sorted({f.rank for f in facts if f.rank is not None})
        if facts and (ranks or not told):
            text = Text("the GPU of {who} {said}", "{who} 的 GPU {said}", who=who(ranks), said=said) if ranks else said
            links = [Link(f, Text("{words}", "{words}", words=f.text[:160]), STRONG) for f in facts[:3]]
            out = Hypothesis("device-stuck", what, text, ranks, PROBABLE, None, links)
            out.contradicts = claim_of_launcher(case.waits, ranks) if ranks else []
            out.explains = [(kind, r) for kind in CONSEQUENCES for r in ranks]
            out.missing.append(Text("kernel log of the node (Xid lines), nvidia-smi -q",
                                    "该节点的内核日志（Xid 行）、nvidia-smi -q"))  # fmt: skip
            yield out
