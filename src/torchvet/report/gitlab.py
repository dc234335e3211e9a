"""GitLab code quality: the array that `artifacts: reports: codequality:` takes."""

from __future__ import annotations

from torchvet.findings import ERROR, NOTE, WARNING
from torchvet.report import place
from torchvet.report.json import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.report import Report

_SEVERITIES = {ERROR: "critical", WARNING: "major", NOTE: "info"}


def render(report: Report) -> str:
    rows = []
    seen: dict[str, int] = {}
    for f in sorted(report.findings, key=lambda f: f.sort_key()):
        path, line, _, end_line, _ = place.region(report, f)
        # GitLab drops issues with equal fingerprints.
        fingerprint = f.fingerprint or f"{f.name}:{path}:{line}"
        n = seen[fingerprint] = seen.get(fingerprint, 0) + 1
        row = {
            # GitLab does not show `check_name`.
            "description": f"{f.name}: {report.say(f.message)}",
            "check_name": f.name,
            "fingerprint": fingerprint if n == 1 else f"{fingerprint}-{n}",
            "severity": _SEVERITIES[f.severity],
            "location": {"path": place.from_root(report, path), "lines": {"begin": line, "end": end_line}},
        }
        rows.append(dump(row))
    return "[\n" + ",\n".join(rows) + "\n]\n" if rows else "[]\n"
