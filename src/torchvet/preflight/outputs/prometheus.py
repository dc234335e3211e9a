"""Prometheus text, for the textfile collector of node_exporter: verdicts of probes, values where they are numbers.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import time

from ..probe import VERDICTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport
    from ..probe import Result
    from . import Style


def render(report: NodeReport, style: Style) -> str:
    node = str(report.node.get("hostname", ""))
    worst: dict[str, Result] = {}
    for r in report.results:  # a series may appear once
        if r.probe not in worst or VERDICTS.index(r.verdict) > VERDICTS.index(worst[r.probe].verdict):
            worst[r.probe] = r
    out = _head("verdict", "worst verdict of a probe: 0 pass, 1 unknown, 2 warn, 3 fail")
    out += [_row("verdict", VERDICTS.index(r.verdict), node=node, probe=p) for p, r in sorted(worst.items())]
    for name, said in (("value", "what a probe saw"), ("limit", "what a value was held against")):
        rows = [(p, getattr(r, name)) for p, r in sorted(worst.items())]
        rows = [(p, v) for p, v in rows if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if rows:
            out += _head(name, said)
            out += [_row(name, v, node=node, probe=p) for p, v in rows]
    out += _head("results", "number of results of each verdict")
    out += [_row("results", report.count(v), node=node, verdict=v) for v in VERDICTS]
    out += _head("seconds", "how long the run took")
    out.append(_row("seconds", round(report.seconds, 3), node=node))
    out += _head("timestamp_seconds", "when the run ended, in seconds since 1970")
    out.append(_row("timestamp_seconds", round(time.time(), 3), node=node))
    return "\n".join(out) + "\n"


def _head(name: str, said: str) -> list[str]:
    return [f"# HELP torchvet_preflight_{name} {said}", f"# TYPE torchvet_preflight_{name} gauge"]


def _row(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{k}="{_label(v)}"' for k, v in labels.items())
    return f"torchvet_preflight_{name}{{{inside}}} {value}"


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
