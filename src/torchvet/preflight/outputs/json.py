"""One JSON object: schema, node, summary, results, worst first."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport
    from . import Style


def render(report: NodeReport, style: Style) -> str:
    return json.dumps(report.plain(style.language), ensure_ascii=False, indent=2) + "\n"
