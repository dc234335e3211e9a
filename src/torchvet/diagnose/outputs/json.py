"""The contract for other programs: one object, schema 1. Each verdict stands on a line of its own."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..code import Rule
    from ..model import Diagnosis, Hypothesis, Link
    from . import Style

SCHEMA = 1
MOST_LINKS = 200


def render(diagnosis: Diagnosis, style: Style) -> str:
    from torchvet import __version__

    tool = {"name": "torchvet", "version": __version__}
    parts = [f'{{"schema": {SCHEMA}', f'"tool": {dump(tool)}', f'"inventory": {dump(inventory(diagnosis, style))}']
    for key, hypotheses in (("verdicts", diagnosis.verdicts), ("side_findings", diagnosis.side_findings)):
        rows = ",\n".join(dump(plain(h, style)) for h in hypotheses)
        parts.append(f'"{key}": [\n{rows}\n]' if rows else f'"{key}": []')
    return ",\n".join(parts) + "}\n"


def inventory(diagnosis: Diagnosis, style: Style) -> dict[str, Any]:
    """`files` are [{path, kind, bytes, facts}]; `ranks` what is known of each."""
    of = diagnosis.inventory
    return {
        "world": of.world,
        "nodes": of.nodes,
        "files": [{"path": p, "kind": k, "bytes": b, "facts": n} for p, k, b, n in of.files],
        "problems": [{"path": p, "message": style.say(t)} for p, t in of.problems],
        "missing": [style.say(t) for t in of.missing],
        "ranks": [
            {
                "rank": r.number, "local": r.local, "node": r.node, "pid": r.pid, "exit_code": r.code,
                "closed": r.closed, "step": r.step, "has": sorted(r.has),
            }
            for _, r in sorted(diagnosis.case.ranks.items())
        ],
    }  # fmt: skip


def plain(hypothesis: Hypothesis, style: Style) -> dict[str, Any]:
    """A verdict or side finding as the contract has it. `code` (what --code found) is beside it."""
    site = hypothesis.site
    out: dict[str, Any] = {
        "cause": hypothesis.cause,
        "sub": hypothesis.sub,
        "summary": style.say(hypothesis.summary),
        "confidence": hypothesis.confidence,
        "ranks": hypothesis.ranks,
        "site": {"path": site[0], "line": site[1]} if site is not None else None,
        "supports": [_link(x, style) for x in hypothesis.supports[:MOST_LINKS]],
        "contradicts": [_link(x, style) for x in hypothesis.contradicts[:MOST_LINKS]],
        "missing": [style.say(t) for t in hypothesis.missing],
        "next": [style.say(t) for t in hypothesis.next],
    }
    if hypothesis.rule:
        out["rule"] = hypothesis.rule
    candidates = style.candidates.get((hypothesis.cause, hypothesis.sub), [])
    if candidates:
        out["candidates"] = [_rule(r, style) for r in candidates]
    place = style.places.get((site[0], site[1])) if site is not None else None
    if place is not None:
        out["code"] = {
            "path": place.path,
            "line": place.line,
            "text": place.text or None,
            "ambiguous": place.same,
            "findings": [_rule(r, style) for r in place.rules],
        }
    return out


def _rule(rule: Rule, style: Style) -> dict[str, Any]:
    return {
        "name": rule.name, "code": rule.code, "severity": rule.severity, "path": rule.path, "line": rule.line,
        "message": style.say(rule.message), "fix": style.say(rule.fix),
        "related": [{"path": p, "line": n, "text": t, "message": style.say(m)} for p, n, t, m in rule.notes],
    }  # fmt: skip


def _link(link: Link, style: Style) -> dict[str, Any]:
    row: dict[str, Any] = {"reason": style.say(link.reason), "weight": link.weight}
    if link.fact is not None:
        fact = link.fact
        row |= {"kind": fact.kind, "source": fact.source, "line": fact.line, "rank": fact.rank, "text": fact.text}
    return row


def dump(value: object) -> str:
    """JSON that can be written as UTF-8: file names with undecodable bytes hold lone surrogates, which are escaped; a
    number that is none becomes null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(_finite(value))
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_finite(v) for v in value]
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
