# ruff: noqa: E501
"""What a program's own lines tell in numbers: steps, losses that are none, memory that grows."""

from __future__ import annotations

import re

from .patterns import size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STEP = re.compile(
    rb"(?i)\b(global[_ ]?step|train(?:er)?[/_]global_step|steps?|iter(?:ation)?s?|it|batch(?:_?idx)?|minibatch|mini[- ]batch|update)"
    rb"['\"]?\s{0,2}[:=#\[(]{0,2}\s{0,12}(\d{1,12})\b"
)
_BAR = re.compile(rb"\d{1,3}%\|[^|]{0,120}\|\s*(\d{1,12})/(\d{1,12})\s*\[")
_NUMBER = rb"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_UNIT = rb"(kib|kb|mib|mb|gib|gb|bytes|b|k|m|g)?"
_MEMORY = re.compile(
    rb"(?i)\b(?P<name>rss|resident|vmrss|host[_ ]?mem(?:ory)?|cpu[_ ]?mem(?:ory)?|process[_ ]?mem(?:ory)?|ram|uss|pss"
    rb"|max[_ ]?mem(?:ory)?(?:[_ ](?:alloc(?:ated)?|reserved))?|peak[_ ]?mem(?:ory)?|alloc(?:ated)?|reserved|cuda[_ ]?mem(?:ory)?(?:[_ ]alloc(?:ated)?)?"
    rb"|gpu[_ ]?mem(?:ory)?|(?:cuda|gpu)[_ ]?(?:alloc(?:ated)?|reserved|used)|mem(?:ory)?[_ ](?:allocated|reserved|alloc)|vram|mem(?:ory)?)"
    rb"(?:[_ (/]?(?P<unit>kib|kb|mib|mb|gib|gb|bytes)\b\)?)?['\"]?\s{0,2}[:=]?\s{0,3}(?P<value>\d+(?:\.\d+)?)\s?(?P<unit2>kib|kb|mib|mb|gib|gb|bytes|b|k|m|g)?\b"
)
_HOST = (b"rss", b"resident", b"vmrss", b"host", b"cpu", b"process", b"ram", b"uss", b"pss")
_MEMORY_HINT = re.compile(rb"[mM]em|MEM|rss|RSS|[aA]lloc|eserved|[vV]?(?:RAM|ram)|esident|[up]ss")
_BEFORE = 40
"""The longest name of `_MEMORY` has fewer bytes before its hint."""
_NAN = re.compile(
    rb"(?i)\b(?P<what>[\w/.]*loss[\w/.]*|ce|nll|perplexity|ppl|grad(?:ient)?(?:[ _]?norm)?s?|logits?|activations?|outputs?|weights?|param\w*)\b"
    rb"['\"]?\s{0,3}(?:is|was|are|became|[:=|])?\s{0,3}(?P<value>nan|[-+]?inf(?:inity)?)\b"
)
_NAN_WORDS = re.compile(
    rb"(?i)\b(?:loss|grad(?:ient)?s?(?:[ _]?norm)?|output|activation|logit|input|parameter|weight|value|tensor)s?\b[^\n]{0,60}?"
    rb"\b(?:(?:is|are|was|were|became|contains?|has|have|found|detected) )(?:a )?(?:not finite|non-?finite|nan|nans|inf|infs|infinite)\b"
    rb"|\b(?:found|detected|encountered|got) (?:a )?(?:nan|non-?finite|inf)\b[^\n]{0,40}?\b(?:loss|grad|output|logit|activation)"
    rb"|\b(?:nan|non-?finite|inf)\b (?:loss|grad\w*)\b"
    rb"|returned nan values in its"
)
_SCALER = re.compile(rb"(?i)loss[ _]?scale|gradscaler|overflow")
_SKIP = re.compile(rb"(?i)\bskip(?:ped|ping|s)?\b|\bignor(?:ed|ing)\b|\bdropp(?:ed|ing)\b")
NAN_HINT = re.compile(rb"nan|NaN|NAN|[ =:\-]inf| Inf|finite")
_STEPPY = re.compile(rb"(?i)eval|valid|test|infer|predict|generat|warm")
KEPT = 64


class Steps:
    """Step numbers of one voice, per context (the words before the number)."""

    __slots__ = ("best", "contexts", "lines", "words")

    def __init__(self) -> None:
        self.contexts: dict[str, list[int]] = {}  # context -> [last, count, first line, last line]
        self.words: dict[bytes, str] = {}  # what stands before a number, without digits -> its context
        self.lines = 0
        self.best = ""

    def known(self, line: bytes) -> bool:
        """Whether a line tells a step in the words of lines before."""
        found = STEP.search(line) if self.words else None
        if not found:
            return False
        return line[max(0, found.start() - 40) : found.end(1)].translate(None, b"0123456789:.,") in self.words

    def seen(self, line: bytes, number: int) -> tuple[str, int] | None:
        """(context, step) of a line that tells a step."""
        found = STEP.search(line)
        if found:
            step = int(found.group(2))
            before = line[max(0, found.start() - 40) : found.end(1)]
            key = before.translate(None, b"0123456789:.,")  # dates and numbers differ from line to line
            context = self.words.get(key, "")
            if not context:
                letters = re.sub(rb"[^A-Za-z]+", b" ", before).strip().lower().decode("ascii", "replace")
                context = " ".join(letters.split()[-3:])
                if len(self.words) < 256:
                    self.words[key] = context
        elif found := _BAR.search(line):
            step, context = int(found.group(1)), "bar"
        else:
            return None
        self.lines += 1
        row = self.contexts.setdefault(context, [step, 0, number, number]) if len(self.contexts) < 64 else None
        if row is None:
            return None
        row[0], row[1], row[3] = step, row[1] + 1, number
        return context, step

    def last(self) -> int | None:
        """The step that the voice told last, of its training loop when it tells several kinds."""
        if not self.contexts:
            return None
        rows = [(c, r) for c, r in self.contexts.items() if not _STEPPY.search(c.encode())] or list(
            self.contexts.items()
        )
        most = max(r[1] for _, r in rows)
        rows = [(c, r) for c, r in rows if r[1] * 4 >= most]
        return max(rows, key=lambda row: row[1][3])[1][0]


class Series:
    """One quantity over the lines of one voice in one context; at most KEPT points stay."""

    __slots__ = ("context", "count", "down", "every", "first", "last", "line", "name", "points", "up")

    def __init__(self, name: str, context: str, line: int) -> None:
        self.name = name
        self.context = context
        self.line = line
        self.count = self.up = self.down = 0
        self.every = 1
        self.first: tuple[int, float] | None = None
        self.last: tuple[int, float] = (0, 0.0)
        self.points: list[tuple[int, float]] = []

    def add(self, step: int, value: float) -> None:
        if self.first is None:
            self.first = (step, value)
        else:
            self.up += value > self.last[1]
            self.down += value < self.last[1]
        self.last = (step, value)
        if self.count % self.every == 0:
            self.points.append((step, value))
            if len(self.points) >= 2 * KEPT:
                self.points = self.points[::2]
                self.every *= 2
        self.count += 1

    def values(self) -> dict[str, Any] | None:
        if self.first is None or self.count < 3:
            return None
        if self.points[-1] != self.last:
            self.points.append(self.last)
        return {
            "name": self.name,
            "context": self.context,
            "first": self.first[1],
            "last": self.last[1],
            "most": max(v for _, v in self.points),
            "count": self.count,
            "slope": slope(self.points),
            "rising": round(self.up / (self.count - 1), 3),
            "points": [[s, v] for s, v in self.points],
        }


def slope(points: list[tuple[int, float]]) -> float:
    """Bytes per step of the least-squares line; 0 when the steps do not move."""
    n = len(points)
    mean_s = sum(s for s, _ in points) / n
    mean_v = sum(v for _, v in points) / n
    square = sum((s - mean_s) ** 2 for s, _ in points)
    return sum((s - mean_s) * (v - mean_v) for s, v in points) / square if square else 0.0


def memory_of(line: bytes) -> list[tuple[str, float]]:
    """("rss" or "cuda", bytes) of a line that tells memory in a unit."""
    hint = _MEMORY_HINT.search(line, 0, 2000)
    if hint is None:
        return []
    out: list[tuple[str, float]] = []
    for found in _MEMORY.finditer(line, max(0, hint.start() - _BEFORE), 2000):
        unit = found.group("unit") or found.group("unit2")
        if not unit:
            continue
        size = size_of(found.group("value").decode() + unit.decode())
        if size is None:
            continue
        name = "rss" if found.group("name").lower().startswith(_HOST) else "cuda"
        if all(name != n for n, _ in out):
            out.append((name, float(size)))
    return out


def nan_of(line: bytes) -> tuple[str, str, bool] | None:
    """(what, value, skipped) of a line that tells a number that is none; None otherwise.

    A loss scaler that lowers its scale is at work, not at fault: such lines count only if the loss itself is none.
    """
    found = _NAN.search(line)
    if found:
        what, value = found.group("what").decode("ascii", "replace").lower(), found.group("value").decode().lower()
        if what in ("it", "step") or (_SCALER.search(line) and "loss" not in what):
            return None
        return what, value, _SKIP.search(line) is not None
    found = _NAN_WORDS.search(line)
    if found and not _SCALER.search(line):
        text = found.group(0).lower()
        return (
            ("grad" if b"grad" in text else "loss" if b"loss" in text else "value"),
            "nan" if b"nan" in text else "not finite",
            _SKIP.search(line) is not None,
        )
    return None
