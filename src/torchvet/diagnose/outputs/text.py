"""For the engineer at three in the morning: the verdict on one screen, what speaks for and against it, what to do."""

from __future__ import annotations

from torchvet.findings import Text
from torchvet.findings.columns import visible, width, wrap

from ..files import spoken_size
from . import clusters, rank_map, timeline, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..code import Place, Rule
    from ..model import Diagnosis, Hypothesis, Link
    from . import Style

LABEL = 10
"""Columns of the labels at the left."""
MOST_LINKS, MOST_ROWS, MOST_MISSING, MOST_UNREAD, MOST_ALSO, MOST_OTHERS = 4, 6, 3, 2, 3, 2
COLORS = {
    "label": "1",
    "confirmed": "1;31",
    "likely": "1;33",
    "possible": "1;36",
    "dim": "2",
    "fix": "32",
    "root": "1;31",
}
ASCII = str.maketrans({"·": "-", "…": "~", "←": "<", "→": ">", "━": "^"})
MOST_NOTES = 3
WEIGHTS = ("strong", "medium", "weak")


def render(diagnosis: Diagnosis, style: Style) -> str:
    out: list[str] = []
    _add(out, words.HERE, [words.here(diagnosis, style)], style)
    if not diagnosis.verdicts:
        _add(out, words.VERDICT, [style.say(words.nothing(diagnosis))], style)
    for number, hypothesis in enumerate(diagnosis.verdicts):
        if number == 0 or style.verbose:
            _verdict(out, hypothesis, words.VERDICT if number == 0 else words.OR, style)
        elif number <= MOST_OTHERS:
            _add(out, words.OR, [style.say(words.headline(hypothesis))], style)
    if len(diagnosis.verdicts) > MOST_OTHERS + 1 and not style.verbose:
        _add(out, Text(""), [_more(len(diagnosis.verdicts) - MOST_OTHERS - 1, style)], style)
    _map(out, diagnosis, style)
    _missing(out, diagnosis, style)
    _also(out, diagnosis, style)
    if style.verbose:
        _clusters(out, diagnosis, style)
        _timeline(out, diagnosis, style)
        _files(out, diagnosis, style)
    _next(out, diagnosis, style)
    text = "\n".join(out) + "\n"
    return text if style.unicode else text.translate(ASCII)


def _verdict(out: list[str], hypothesis: Hypothesis, label: Text, style: Style) -> None:
    said = style.say(words.headline(hypothesis))
    lines = wrap(visible(said), style.width - LABEL)
    painted = [_paint(x, hypothesis.confidence, style) for x in lines]
    lines = [*painted, *wrap(visible(words.classified(hypothesis, style)), style.width - LABEL)]
    _add(out, label, lines, style, ready=True)
    _site(out, hypothesis, style)
    _links(out, words.FOR, hypothesis.supports, style)
    _links(out, words.AGAINST, hypothesis.contradicts, style)


def _site(out: list[str], hypothesis: Hypothesis, style: Style) -> None:
    candidates = style.candidates.get((hypothesis.cause, hypothesis.sub), [])
    if hypothesis.site is None:
        if candidates:
            _add(out, words.LINE, [row for c in candidates for row in _rule_rows(c, None, style)], style, ready=True)
        return
    path, line = hypothesis.site
    place = style.places.get((path, line))
    if place is None:
        rows = [f"{path}:{line}"]
        if style.code:
            rows.append(style.say(Text("no file in {folder} fits this path", "{folder} 中没有与此路径匹配的文件",
                                       folder=style.code)))  # fmt: skip
        _add(out, words.LINE, rows, style)
        return
    _add(out, words.LINE, code_rows(place, style), style, ready=True)


def code_rows(place: Place, style: Style) -> list[str]:
    """The line of code, what `check` finds there, and the fix."""
    if place.same:
        files = ", ".join(place.same[:4]) + (", …" if len(place.same) > 4 else "")
        return wrap(style.say(Text("line {line} of one of {files}: several files fit this path",
                                   "以下文件之一的第 {line} 行：{files}（多个文件与此路径匹配）", line=place.line,
                                   files=visible(files))), style.width - LABEL)  # fmt: skip
    head = visible(f"{place.path}:{place.line}")
    room = style.width - LABEL
    if style.verbose and place.lines:
        out = [head]
        for number, text in place.lines:
            mark = "→" if number == place.line else " "
            out.append(_cut(f"{mark} {number:>5} {visible(text.expandtabs(4))}", room))
    else:
        out = [_cut(f"{head}   {visible(place.text)}".rstrip(), room)]
    for rule in place.rules[: None if style.verbose else 1]:
        out += _rule_rows(rule, place, style)
    return out


def _rule_rows(rule: Rule, place: Place | None, style: Style) -> list[str]:
    """What `check` finds: at the place that is shown, or (None) somewhere in the code."""
    room = style.width - LABEL
    out = [] if place is not None else [_cut(visible(f"{rule.path}:{rule.line}   {rule.text}"), room)]
    near = place is None or (rule.path, rule.line) == (place.path, place.line)
    where = "" if near else f" ({rule.path}:{rule.line})"
    out += wrap(visible(f"{rule.name} {rule.code}{where}: {style.say(rule.message)}"), room)
    for path, line, text, label in rule.notes[:MOST_NOTES]:
        out.append(_cut(visible(f"{path}:{line}   {text}   ← {style.say(label)}"), room))
    if rule.fix:
        fix = style.say(Text("fix: {fix}", "修复：{fix}", fix=rule.fix))
        out += [_paint(x, "fix", style) for x in wrap(visible(fix), room)]
    return out


def _links(out: list[str], label: Text, links: Sequence[Link], style: Style) -> None:
    ordered = words.gathered(sorted(links, key=lambda x: WEIGHTS.index(x.weight) if x.weight in WEIGHTS else 1), style)
    shown = ordered if style.verbose else ordered[:MOST_LINKS]
    rows: list[str] = []
    for said, places in shown:
        rows += bullet(said, words.some(places, style), style)
    if len(ordered) > len(shown):
        rows.append(_more(len(ordered) - len(shown), style))
    if rows:
        _add(out, label, rows, style, ready=True)


def bullet(said: str, place: str, style: Style) -> list[str]:
    """`· reason  (place)`: the place on the same line where its end fits, else below."""
    room = style.width - LABEL - 2
    lines = wrap(said, room)
    place = visible(place)
    if place:
        left = room - width(lines[-1]) - 4
        short = place if style.verbose else _end_of(place, left)
        if width(short) <= left:
            lines[-1] += "  " + _paint(f"({short})", "dim", style)
        else:
            lines.append(_paint(_cut_left(f"({place})", room), "dim", style))
    return [("· " if i == 0 else "  ") + x for i, x in enumerate(lines)]


def _end_of(place: str, room: int) -> str:
    """ "…/0/stderr.log:11": the end of a path that fits, two names at least; the whole place when that does not."""
    parts = place.split("/")
    for first in range(1, len(parts) - 1):
        short = "…/" + "/".join(parts[first:])
        if width(place) <= room:
            return place
        if width(short) <= room:
            return short
    return place


def _map(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    found = rank_map.rows(diagnosis)
    if not diagnosis.verdicts or len(diagnosis.case.ranks) < 2 or not any(r.parts for r in found):
        return
    if len(found) < 2 and not style.verbose:
        return
    shown = found if style.verbose else found[:MOST_ROWS]
    names = [style.say(rank_map.who(r)) for r in shown]
    left = min(30, max(width(n) for n in names))
    rows: list[str] = []
    for row, name in zip(shown, names):
        said = visible(style.say(rank_map.said(row)))
        role = style.say(rank_map.ROLES[row.role])
        if row.role == rank_map.ROOT:
            said = role if not row.parts else f"{role}：{said}" if style.language == "zh" else f"{role}: {said}"
        head = name + " " * max(1, left - width(name) + 2)
        lines = wrap(said, style.width - LABEL - width(head))
        first = _paint(head + lines[0], "root", style) if row.role == rank_map.ROOT else head + lines[0]
        rows += [first, *(" " * width(head) + x for x in lines[1:])]
    if len(found) > len(shown):
        rows.append(_more(len(found) - len(shown), style))
    _add(out, words.RANKS, rows, style, ready=True)


def _missing(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    said = [style.say(t) for h in diagnosis.verdicts[:1] for t in h.missing]
    said += [style.say(t) for t in diagnosis.inventory.missing]
    _bullets(out, words.MISSING, said, MOST_MISSING, style)
    unread = [f"{name}: {style.say(t)}" for name, t in diagnosis.inventory.problems]
    _bullets(out, words.UNREAD, unread, MOST_UNREAD, style)


def _bullets(out: list[str], label: Text, said: list[str], most: int, style: Style) -> None:
    said = list(dict.fromkeys(said))
    shown = said if style.verbose else said[:most]
    rows = [row for s in shown for row in bullet(visible(s), "", style)]
    if len(said) > len(shown):
        rows.append(_more(len(said) - len(shown), style))
    if rows:
        _add(out, label, rows, style, ready=True)


def _also(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    rows: list[str] = []
    found = diagnosis.side_findings
    shown = found if style.verbose else found[:MOST_ALSO]
    for hypothesis in shown:
        where = words.where(hypothesis, style)
        rows += bullet(visible(style.say(hypothesis.summary)), where, style)
    if len(found) > len(shown):
        rows.append(_more(len(found) - len(shown), style))
    if rows:
        _add(out, words.ALSO, rows, style, ready=True)


def _clusters(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    rows = [
        f"{style.say(words.ranks(c.ranks))}: {visible(clusters.line_of(c))}" for c in clusters.clusters(diagnosis)[:20]
    ]
    if rows:
        _add(out, words.CLUSTERS, rows, style)


def _timeline(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    found = timeline.events(diagnosis, 30)
    rows = []
    for event in found:
        who = style.say(words.ranks(event.ranks)) + " " if event.ranks else ""
        clock = f" [{event.clock}]" if event.clock else ""
        row = f"{timeline.at(event.time):<18}{clock} {who}{style.say(event.what)}: {event.text}".rstrip(": ")
        rows.append(_cut(visible(row), style.width - LABEL))
    if rows:
        if len(timeline.clocks(found)) > 1:
            rows.append(style.say(timeline.CLOCKS))
        if any(e.time is None for e in found):
            rows.append(style.say(timeline.NO_CLOCK))
        _add(out, words.TIMELINE, rows, style)


def _files(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    rows = []
    for name, kind, size, facts in diagnosis.inventory.files[:400]:
        said = Text("{n} facts", "{n} 条事实", n=f"{facts:,}")
        rows.append(f"{name}  {kind}, {spoken_size(size)}, {style.say(said)}")
    if rows:
        _add(out, words.FILES, rows, style)


def _next(out: list[str], diagnosis: Diagnosis, style: Style) -> None:
    said = [visible(style.say(t)) for h in diagnosis.verdicts[:1] for t in h.next]
    commands = words.commands(diagnosis, style)
    rows = [row for s in said for row in bullet(s, "", style)]
    line = " · ".join(commands)
    rows += [line] if width(line) <= style.width - LABEL else commands
    if rows and (said or commands):
        _add(out, words.NEXT, rows, style, ready=True)


def _add(out: list[str], label: Text, lines: Sequence[str], style: Style, ready: bool = False) -> None:
    """Lines under a label; `ready`: they are wrapped and safe for a terminal already."""
    word = style.say(label)
    head = _paint(word, "label", style) + " " * (LABEL - width(word))
    if not ready:
        lines = [row for line in lines for row in wrap(visible(line), style.width - LABEL)]
    for line in lines:
        out.append((head + line).rstrip())
        head = " " * LABEL


def _more(n: int, style: Style) -> str:
    return style.say(Text("… {n} more with --verbose", "… 另有 {n} 项，用 --verbose 显示", n=f"{n:,}"))


def _cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    while text and width(text) > room - 1:
        text = text[: -max(1, (width(text) - room) // 2)]
    return text + "…"


def _cut_left(text: str, room: int) -> str:
    return text if width(text) <= room else "…" + text[-(room - 1) :]


def _paint(text: str, kind: str, style: Style) -> str:
    return f"\x1b[{COLORS[kind]}m{text}\x1b[0m" if style.color and text and kind in COLORS else text
