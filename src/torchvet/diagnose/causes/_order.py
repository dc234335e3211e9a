"""How sure a circular wait is: the order of a rank without a dump would be a vote."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, PROBABLE
from ..said import who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case


def unrecorded(case: Case) -> list[int]:
    """Ranks without a dump: their order of the calls would be a vote."""
    return [r for r in range(min(case.world or 0, 65536)) if r not in case.waits.dumps]


def at_most(case: Case, odd: list[int]) -> str:
    return CONFIRMED if odd or not unrecorded(case) else PROBABLE


def left_open(case: Case, said: Text) -> Text:
    if not unrecorded(case):
        return said
    return Text("{head}; which side is out of order cannot be told", "{head}；无法判断哪一方顺序有误", head=said)


def lacking(case: Case) -> list[Text]:
    ranks = unrecorded(case)
    return [Text("flight recorder dump of {who}", "{who} 的 flight recorder 转储", who=who(ranks))] if ranks else []
