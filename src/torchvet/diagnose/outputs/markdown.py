"""For a ticket: the verdict, what speaks for and against it, what is missing, what to do; short enough to be read."""

from __future__ import annotations

import re

from torchvet.findings import Text

from . import rank_map, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Diagnosis, Hypothesis, Link
    from . import Style

MOST_LINKS, MOST_ROWS, MOST_OTHERS = 6, 10, 5


def render(diagnosis: Diagnosis, style: Style) -> str:
    say = style.say
    out: list[str] = []
    if not diagnosis.verdicts:
        out += [f"## torchvet: {plain(say(words.nothing(diagnosis)))}", "", plain(words.here(diagnosis, style)), ""]
    for hypothesis in diagnosis.verdicts[:1]:
        out += [f"## {plain(say(words.headline(hypothesis)))}", ""]
        out += [f"{plain(words.classified(hypothesis, style))}  ", plain(words.here(diagnosis, style)), ""]
        out += _site(hypothesis, style)
        out += _links(words.FOR, hypothesis.supports, style)
        out += _links(words.AGAINST, hypothesis.contradicts, style)
    if len(diagnosis.verdicts) > 1:
        rows = [plain(say(words.headline(h))) for h in diagnosis.verdicts[1 : 1 + MOST_OTHERS]]
        out += _list(words.OR, rows, style)
    rows = _map(diagnosis, style)
    out += rows
    missing = [say(t) for h in diagnosis.verdicts[:1] for t in h.missing] + [
        say(t) for t in diagnosis.inventory.missing
    ]
    out += _list(words.MISSING, [plain(x) for x in dict.fromkeys(missing)][:MOST_LINKS], style)
    out += _list(words.ALSO, [_with_place(h, style) for h in diagnosis.side_findings[:MOST_OTHERS]], style)
    advice = [plain(say(t)) for h in diagnosis.verdicts[:1] for t in h.next]
    out += _list(words.NEXT, advice + [code(c) for c in words.commands(diagnosis, style)], style)
    return "\n".join(out).rstrip() + "\n"


def _site(hypothesis: Hypothesis, style: Style) -> list[str]:
    if hypothesis.site is None:
        where = words.where(hypothesis, style)
        return [f"**{style.say(words.LINE)}** {code(where)}", ""] if where else []
    path, line = hypothesis.site
    place = style.places.get((path, line))
    if place is None or place.same:
        return [f"**{style.say(words.LINE)}** {code(f'{path}:{line}')}", ""]
    out = [f"**{style.say(words.LINE)}** {code(f'{place.path}:{place.line}')}", ""]
    if place.lines:
        rows = [f"{'>' if n == place.line else ' '} {n:>5} {text}" for n, text in place.lines]
        out += fenced("\n".join(rows), "python")
    for rule in place.rules[:1]:
        out.append(f"{code(rule.name)} {rule.code}: {plain(style.say(rule.message))}")
        out += [f"- {code(f'{p}:{n}')} {code(t)} {plain(style.say(label))}" for p, n, t, label in rule.notes[:3]]
        if rule.fix:
            out.append("")
            out.append(plain(style.say(Text("fix: {fix}", "修复：{fix}", fix=rule.fix))))
        out.append("")
    return out


def _links(label: Text, links: Sequence[Link], style: Style) -> list[str]:
    found = words.gathered(links, style)
    rows = [
        plain(said) + (f" ({code(words.some(places, style))})" if places else "") for said, places in found[:MOST_LINKS]
    ]
    if len(found) > MOST_LINKS:
        rows.append(plain(style.say(Text("… {n} more", "… 另有 {n} 项", n=len(found) - MOST_LINKS))))
    return _list(label, rows, style)


def _map(diagnosis: Diagnosis, style: Style) -> list[str]:
    found = rank_map.rows(diagnosis)
    if not diagnosis.verdicts or len(found) < 2:
        return []
    heads = (Text("ranks", "rank"), Text("role", "角色"), Text("where it stands", "状态"))
    out = ["| " + " | ".join(style.say(h) for h in heads) + " |", "|---|---|---|"]
    for row in found[:MOST_ROWS]:
        cells = (words.listed(row.ranks), style.say(rank_map.ROLES[row.role]), style.say(rank_map.said(row)))
        out.append("| " + " | ".join(plain(c) for c in cells) + " |")
    if len(found) > MOST_ROWS:
        out.append(f"| … | | {style.say(Text('{n} more', '另有 {n} 项', n=len(found) - MOST_ROWS))} |")
    return [*out, ""]


def _with_place(hypothesis: Hypothesis, style: Style) -> str:
    said, where = plain(style.say(hypothesis.summary)), words.where(hypothesis, style)
    return f"{said} ({code(where)})" if where else said


def _list(label: Text, rows: Sequence[str], style: Style) -> list[str]:
    return [f"**{style.say(label)}**", "", *(f"- {row}" for row in rows), ""] if rows else []


def plain(text: str) -> str:
    """Text that stays what it is in Markdown: no markup, no mention of a user, no link to an issue."""
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", " ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([@#])(?=\w)", "\\1\u200b", text)


def code(text: str) -> str:
    """Text as inline code, whatever backquotes it holds."""
    text = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str, language: str = "") -> list[str]:
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return [f"{fence}{language}", *text.split("\n"), fence, ""]
