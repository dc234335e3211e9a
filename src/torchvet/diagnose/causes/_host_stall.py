"""What a rank that does not come does instead, and what says so."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import HALTED
from ..calls import doing_of
from ..waits_stacks import COLLECTIVE, LOADER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact

WORDS = {
    "GIL held": Text("held the GIL or was stuck in native code", "持有 GIL 或卡在原生代码中"),
    "data loading": Text("was busy with its data", "忙于处理数据"),
    "checkpoint": Text("was busy with a checkpoint", "忙于保存检查点"),
    "evaluation": Text("was busy with its evaluation", "忙于评估"),
    "compilation": Text("was busy compiling", "忙于编译"),
    "stopped": HALTED["T"],
}


def activity(case: Case, rank: int, monitor: Fact | None) -> str:
    if monitor is not None and says_gil(monitor):
        return "GIL held"
    if stopped(case, rank) is not None:
        return "stopped"
    at = case.waits.places.get(rank)
    if at is not None and at.what == LOADER:
        return "data loading"
    known = case.ranks.get(rank)
    if at is not None and at.what != COLLECTIVE and at.frames:
        words = " ".join(str(f[2]).replace("_", " ") for f in at.frames[:3])
        if name := doing_of(words):
            return name
    return doing_of(known.last) if known is not None else ""


def says_gil(fact: Fact) -> bool:
    """Whether a monitor within the process says that it did not get the GIL. From outside it may be stuck otherwise."""
    return fact.kind == "gil" and not fact.values.get("outside")


def stopped(case: Case, rank: int) -> Fact | None:
    """What says that the process was stopped, by a signal or a debugger, and not let go on."""
    return next((f for f in case.of("process", rank=rank) if f.values.get("state") in ("T", "t")), None)
