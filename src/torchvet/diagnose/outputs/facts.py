"""Everything that was read, one fact a line, for other programs and for doubts about a verdict."""

from __future__ import annotations

from .json import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Diagnosis
    from . import Style


def render(diagnosis: Diagnosis, style: Style) -> str:
    return "".join(dump(fact.plain()) + "\n" for fact in diagnosis.case.facts)
