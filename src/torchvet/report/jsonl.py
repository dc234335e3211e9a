"""One finding a line, as in the JSON contract, for tools that read streams."""

from __future__ import annotations

from torchvet.report.json import dump, finding_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.report import Report


def render(report: Report) -> str:
    rows = sorted(report.findings, key=lambda f: f.sort_key())
    return "".join(dump(finding_object(report, f)) + "\n" for f in rows)
