"""The whole of `torchvet diagnose` on one page: files - facts - case - causes - verdicts."""

from __future__ import annotations

from torchvet.findings import Text

from .model import Case, Diagnosis, Fact, Hypothesis, all_causes
from .reading import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["diagnose", "read"]


def diagnose(paths: list[str], progress: Callable[[str], None] | None = None, world: int | None = None) -> Diagnosis:
    """Read what is left of a job and say what ended it. `world`: its size, as the user knows it. UserError: a path does
    not exist."""
    from .closer import look_closer
    from .ranks import settle
    from .unexplained import unexplained
    from .verdict import judged

    facts, inventory = read(paths, progress)
    if world:
        facts.append(Fact("output", "--ranks", values={"worlds": {str(world): 1}}))
    case = Case(facts, inventory)
    settle(case)
    look_closer(case)
    found: list[Hypothesis] = []
    for cause in all_causes().values():
        assert cause.judge is not None
        try:
            found += list(cause.judge(case))
        except Exception as e:  # one cause's bug must not cost the verdict
            why = f"{type(e).__name__}: {e}"[:120]
            text = Text("torchvet failed on the cause {name}: {what}", "torchvet 在判断原因 {name} 时出错：{what}",
                        name=cause.name, what=why)  # fmt: skip
            inventory.problems.append(("torchvet", text))
    verdicts, side = judged(found, case)
    if not verdicts:
        verdicts = unexplained(case)
    return Diagnosis(inventory, verdicts, side, case)
