"""`diagnose` and `check` meet: the places that a verdict points at, in the code at hand, with what rules find there."""

from __future__ import annotations

import os

from torchvet.findings import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.diagnose.code import Place, Rule
    from torchvet.diagnose.model import Diagnosis, Hypothesis
    from torchvet.findings import Finding, Text

FAMILIES = {
    "collective-mismatch": ("collective", "wrap"),
    "group-order-cycle": ("collective",),
    "shape-mismatch": ("collective", "wrap"),
    "rank-absent": ("collective", "loader"),
    "uneven-inputs": ("collective", "loader"),
    "p2p-partner-missing": ("collective",),
    "host-stall": ("collective", "loader", "native"),
    "numeric-failure": ("collective",),
    "store-rendezvous": ("collective",),
    "gpu-oom": ("graph", "wrap", "native"),
    "host-oom": ("graph", "loader", "deploy"),
    "shm-exhausted": ("loader", "deploy"),
    "fd-exhausted": ("loader",),
    "native-crash": ("native", "loader"),
    "device-stuck": ("native", "collective"),
    "configuration": ("wrap", "collective", "loader", "deploy"),
}
"""Kind of a cause -> families of rules that find such faults in code. A rule of another family at the same place is
true, but it is not about this failure."""


GROWING = ("gpu-oom", "host-oom")
MOST_CANDIDATES = 3


class Joined:
    """`places`: those of the diagnosis below the folder, each with the findings that fit its cause, the nearest first.
    `candidates`: (cause, sub) of what has no place in the evidence -> findings of the code that can be it: what makes
    memory grow, or what is found where the ranks stood."""

    def __init__(self, places: dict[tuple[str, int], Place]) -> None:
        self.places = places
        self.candidates: dict[tuple[str, str], list[Rule]] = {}


def join(diagnosis: Diagnosis, folder: str) -> Joined:
    """What the code below `folder` has to say to the diagnosis."""
    from torchvet.diagnose.code import located, places_of, standing

    stood = standing(diagnosis) if any(h.site is None for h in diagnosis.verdicts) else []
    places = located(diagnosis, [folder], stood)
    out = Joined(places)
    growing = [h for h in [*diagnosis.verdicts, *diagnosis.side_findings] if _grows(h)]
    if not growing and not any(p.full for p in places.values()):
        return out
    root, findings = _findings(folder)
    for hypothesis in [*diagnosis.verdicts, *diagnosis.side_findings]:
        site = hypothesis.site
        own = places.get((site[0], site[1])) if site is not None else None
        if own is None or own.rules:
            continue
        around = [places[s] for s in places_of(hypothesis) if s in places]
        fitting = [(near, f) for f in findings if fits(f, hypothesis) and (near := nearness(f, own, around, root))]
        fitting.sort(key=lambda row: (row[0], row[1].name != hypothesis.rule, row[1].sort_key()))
        best = fitting[0][0] if fitting else 0
        own.rules = [_rule(f, root, folder) for near, f in fitting if near == best]
    there = [places[s] for s in stood if s in places]
    for hypothesis in diagnosis.verdicts:
        found = [f for f in findings if fits(f, hypothesis) and any(covers(f, p, root) for p in there)]
        if hypothesis.site is None and 0 < len(found) <= MOST_CANDIDATES:
            out.candidates[hypothesis.cause, hypothesis.sub] = [_rule(f, root, folder) for f in found]
    for hypothesis in growing:
        site = hypothesis.site
        place = places.get((site[0], site[1])) if site is not None else None
        found = [f for f in findings if _family(f) == "graph"]
        if (place is None or not place.rules) and 0 < len(found) <= MOST_CANDIDATES:
            out.candidates[hypothesis.cause, hypothesis.sub] = [_rule(f, root, folder) for f in found]
    return out


def _grows(hypothesis: Hypothesis) -> bool:
    """Is it about memory that was seen to grow from step to step?"""
    kinds = {link.fact.kind for link in hypothesis.supports if link.fact is not None}
    return hypothesis.cause in GROWING and bool(kinds & {"series", "snapshot-site"})


def _findings(folder: str) -> tuple[str, list[Finding]]:
    """(the folder that paths count from, everything that `check` finds below the project's folder)."""
    from torchvet.check import config
    from torchvet.check.engine import check
    from torchvet.check.gate.select import shown

    try:
        options = config.load(folder, {}, config="", isolated=False)
    except UserError:  # settings that check would refuse are no reason to keep a verdict back
        options = config.load(folder, {}, config="", isolated=True)
    result = check([folder], options)
    return result.root, shown(result.findings, options, result.root)


def fits(finding: Finding, hypothesis: Hypothesis) -> bool:
    """Can what the rule finds be this cause?"""
    families = FAMILIES.get(hypothesis.cause)
    if families is None:
        return finding.name == hypothesis.rule
    return _family(finding) in families


def _family(finding: Finding) -> str:
    from torchvet.check.rules import rule_names

    return rule_names().get(finding.name, "")


def nearness(finding: Finding, own: Place, around: list[Place], root: str) -> int:
    """1: the finding is at the place; 2: it tells of it; 3: it is at, or tells of, a place on the way; 0: elsewhere."""
    if covers(finding, own, root):
        return 1
    if mentions(finding, own, root):
        return 2
    return 3 if any(covers(finding, p, root) or mentions(finding, p, root) for p in around) else 0


def covers(finding: Finding, place: Place, root: str) -> bool:
    span = finding.span
    return bool(place.full) and _same(root, span.path, place.full) and span.line <= place.line <= span.end_line


def mentions(finding: Finding, place: Place, root: str) -> bool:
    return bool(place.full) and any(
        n.span.line <= place.line <= n.span.end_line and _same(root, n.span.path, place.full) for n in finding.notes
    )


def _same(root: str, path: str, full: str) -> bool:
    return os.path.realpath(os.path.join(root, path)) == os.path.realpath(full)


def _rule(finding: Finding, root: str, folder: str) -> Rule:
    from torchvet.diagnose.code import Rule, excerpt

    def shown(path: str) -> str:
        return os.path.relpath(os.path.join(root, path), folder).replace(os.sep, "/")

    fix = finding.help or (finding.fix.title if finding.fix is not None else "")
    own = excerpt(os.path.join(root, finding.span.path), finding.span.line, 0)
    notes: dict[tuple[str, int], tuple[str, int, str, Text]] = {}
    for note in finding.notes:
        key = (note.span.path, note.span.line)
        text = excerpt(os.path.join(root, note.span.path), note.span.line, 0)
        if text and key != (finding.span.path, finding.span.line):
            notes.setdefault(key, (shown(note.span.path), note.span.line, text[0][1].strip(), note.message))
    return Rule(
        finding.name, finding.code, finding.severity, finding.message, fix or "", finding.span.line,
        shown(finding.span.path), own[0][1].strip() if own else "", list(notes.values()),
    )  # fmt: skip
