"""One page for the browser that needs nothing else: the verdict, the calls of every rank as a drawing, all evidence."""

from __future__ import annotations

from html import escape

from torchvet.findings import Text
from torchvet.findings.columns import visible

from ..files import spoken_size
from . import clusters, lanes, rank_map, svg, timeline, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import Diagnosis, Hypothesis, Link
    from . import Style

MOST_LINKS, MOST_ROWS, MOST_CLUSTERS, MOST_EVENTS, MOST_FILES, MOST_PROBLEMS = 200, 300, 100, 300, 2_000, 500

_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --dim: #656d76; --back: #f6f8fa; --bad: #cf222e; --wait: #9a6700;
  --link: #0969da; --text: #1f2328; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --line: #30363d; --dim: #8d96a0; --back: #161b22; --bad: #ff7b72;
  --wait: #d29922; --link: #58a6ff; --text: #e6edf3; --page: #0d1117; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 70rem; padding: 1rem 1.5rem 4rem; color: var(--text); background: var(--page);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: .3rem 0; overflow-wrap: anywhere } h2 { font-size: 1rem; margin: 1.6rem 0 .4rem }
.dim { color: var(--dim) } .sure { color: var(--bad); font-weight: 700 } p { margin: .3rem 0 }
ul { margin: .2rem 0; padding-left: 1.2rem } li { overflow-wrap: anywhere }
pre, code { font: 13px/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace }
pre { margin: .5rem 0; padding: .5rem .8rem; overflow-x: auto; background: var(--back); border-radius: .3rem }
pre b { color: var(--bad); font-weight: 600 }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .8rem .2rem 0; vertical-align: top;
  text-align: left; border-bottom: 1px solid var(--line); overflow-wrap: anywhere } td.t { white-space: nowrap }
tr.root td:first-child { color: var(--bad); font-weight: 700 } tr.waits td:first-child { color: var(--wait) }
svg.calls { width: 100%; height: auto; background: var(--back); border-radius: .3rem }
svg text { fill: var(--dim); font: 11px ui-monospace, Menlo, Consolas, monospace } svg text.n { text-anchor: middle }
svg text.who { text-anchor: end; fill: var(--text) } svg text.root { fill: var(--bad); font-weight: 700 }
svg text.waits { fill: var(--wait) }
.h0 { fill: #4c8fd6; background: #4c8fd6 } .h1 { fill: #57a773; background: #57a773 }
.h2 { fill: #a779d1; background: #a779d1 } .h3 { fill: #d1895c; background: #d1895c }
.h4 { fill: #5bb8b8; background: #5bb8b8 } .h5 { fill: #b7a94a; background: #b7a94a }
.h6 { fill: #8b949e; background: #8b949e } svg rect { fill-opacity: .55 }
svg rect.open { fill-opacity: 1; stroke: var(--wait); stroke-width: 2 }
svg rect.never { fill: none; stroke: var(--line); stroke-dasharray: 3 3 } svg rect.never.root { stroke: var(--bad) }
.key { margin-right: 1.2rem; font-size: 13px; color: var(--dim) }
.key i { display: inline-block; width: .9rem; height: .7rem; margin-right: .35rem; border-radius: 2px }
.key i.open { border: 2px solid var(--wait) } .key i.never { border: 1px dashed var(--bad) }
article { border-left: .3rem solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1rem 0 }
article.first { border-color: var(--bad) } details { margin: .6rem 0 } summary { cursor: pointer; font-weight: 600 }
"""

# Nothing may be loaded or run, even if a log line holds markup.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

CALLS = Text("Calls of process group {group}", "进程组 {group} 的调用")


def render(diagnosis: Diagnosis, style: Style) -> str:
    say = style.say
    first = diagnosis.verdicts[0] if diagnosis.verdicts else None
    title = say(first.summary) if first is not None else say(words.nothing(diagnosis))
    out = [
        "<!doctype html>",
        f'<html lang="{"zh-CN" if style.language == "zh" else "en"}">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>torchvet: {_safe(title)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f'<p class="dim">torchvet diagnose · {_safe(words.here(diagnosis, style))}</p>',
    ]
    if first is None:
        out.append(f"<h1>{_safe(title)}</h1>")
    for number, hypothesis in enumerate(diagnosis.verdicts):
        out.append(_hypothesis(hypothesis, style, "first" if number == 0 else "", words.OR if number else None))
    out += _missing(diagnosis, style)
    out += _charts(diagnosis, style)
    out += _map(diagnosis, style)
    if diagnosis.side_findings:
        out.append(f"<h2>{say(words.ALSO)}</h2>")
        out += [_hypothesis(h, style, "", None) for h in diagnosis.side_findings]
    out += _clusters(diagnosis, style)
    out += _timeline(diagnosis, style)
    out += _files(diagnosis, style)
    out += _next(diagnosis, style)
    out.append("</body></html>")
    return "\n".join(out).encode("utf-8", "replace").decode() + "\n"


def _safe(text: str) -> str:
    return escape(visible(text))


def _hypothesis(hypothesis: Hypothesis, style: Style, kind: str, before: Text | None) -> str:
    say = style.say
    sure = say(words.CONFIDENCE.get(hypothesis.confidence, Text(hypothesis.confidence)))
    head = "h1" if kind else "h2"
    label = f'<span class="dim">{say(before)}</span> ' if before is not None else ""
    out = [
        f'<article class="{kind}"><{head}>{label}{_safe(say(hypothesis.summary))} '
        f'<span class="{"sure" if kind else "dim"}">({sure})</span></{head}>',
        f'<p class="dim">{_safe(words.classified(hypothesis, style))}</p>',
        _site(hypothesis, style),
        _links(words.FOR, hypothesis.supports, style),
        _links(words.AGAINST, hypothesis.contradicts, style),
    ]
    out += _list(words.MISSING, [say(t) for t in hypothesis.missing], style)
    out += _list(words.NEXT, [say(t) for t in hypothesis.next], style)
    out.append("</article>")
    return "\n".join(x for x in out if x)


def _site(hypothesis: Hypothesis, style: Style) -> str:
    if hypothesis.site is None:
        where = words.where(hypothesis, style)
        return f"<p><code>{_safe(where)}</code></p>" if where else ""
    path, line = hypothesis.site
    place = style.places.get((path, line))
    if place is None:
        return f"<p><code>{_safe(f'{path}:{line}')}</code></p>"
    if place.same:
        files = ", ".join(place.same[:10])
        return f'<p><code>{_safe(f"{path}:{line}")}</code> <span class="dim">{_safe(files)}</span></p>'
    out = [f"<p><code>{_safe(f'{place.path}:{place.line}')}</code></p>"]
    if place.lines:
        rows = []
        for number, text in place.lines:
            row = f"{number:>5} {_safe(text.expandtabs(4))}"
            rows.append(f"<b>{row}</b>" if number == place.line else row)
        out.append(f"<pre>{chr(10).join(rows)}</pre>")
    for rule in place.rules:
        said = f"<p><code>{_safe(rule.name)}</code> {_safe(rule.code)}: {_safe(style.say(rule.message))}</p>"
        out.append(said)
        rows = [
            f"{_safe(f'{p}:{n}')}  {_safe(text)}  ← {_safe(style.say(label))}" for p, n, text, label in rule.notes[:6]
        ]
        out.append(f"<pre>{chr(10).join(rows)}</pre>" if rows else "")
        if rule.fix:
            out.append(f"<p>{_safe(style.say(Text('fix: {fix}', '修复：{fix}', fix=rule.fix)))}</p>")
    return "\n".join(out)


def _links(label: Text, links: Sequence[Link], style: Style) -> str:
    if not links:
        return ""
    rows = []
    for link in links[:MOST_LINKS]:
        row = _safe(words.reason(link, style))
        if link.fact is not None:
            place = f'<code class="dim">{_safe(link.fact.place)}</code>'
            quote = f"<br><code>{_safe(link.fact.text)}</code>" if link.fact.text else ""
            row += f" {place}{quote}"
        rows.append(f"<li>{row}</li>")
    if len(links) > MOST_LINKS:
        rows.append(f"<li>{_more(len(links) - MOST_LINKS, style)}</li>")
    return f"<p>{style.say(label)}</p><ul>{''.join(rows)}</ul>"


def _list(label: Text, rows: Sequence[str], style: Style) -> list[str]:
    if not rows:
        return []
    return [f"<p>{style.say(label)}</p><ul>{''.join(f'<li>{_safe(r)}</li>' for r in rows)}</ul>"]


def _missing(diagnosis: Diagnosis, style: Style) -> list[str]:
    rows = [style.say(t) for t in diagnosis.inventory.missing]
    if not rows:
        return []
    return [f"<h2>{style.say(words.MISSING)}</h2><ul>{''.join(f'<li>{_safe(r)}</li>' for r in rows[:50])}</ul>"]


def _charts(diagnosis: Diagnosis, style: Style) -> list[str]:
    out = []
    for chart in lanes.charts(diagnosis):
        heading = _safe(style.say(Text(CALLS.en, CALLS.zh, group=chart.group)))
        out.append(f"<h2>{heading}</h2>{svg.draw(chart, style)}<p>{svg.legend(chart, style)}</p>")
        if chart.hidden:
            out.append(f'<p class="dim">{_more(chart.hidden, style)}</p>')
    return out


def _map(diagnosis: Diagnosis, style: Style) -> list[str]:
    found = rank_map.rows(diagnosis)
    if not found:
        return []
    rows = []
    for row in found[:MOST_ROWS]:
        role = style.say(rank_map.ROLES[row.role])
        rows.append(
            f'<tr class="{row.role}"><td>{_safe(style.say(words.ranks(row.ranks, 20)))}</td><td>{role}</td>'
            f"<td>{_safe(style.say(rank_map.said(row)))}</td></tr>"
        )
    if len(found) > MOST_ROWS:
        rows.append(f'<tr><td colspan="3">{_more(len(found) - MOST_ROWS, style)}</td></tr>')
    return [f"<h2>{style.say(words.RANKS)}</h2><table>{chr(10).join(rows)}</table>"]


def _clusters(diagnosis: Diagnosis, style: Style) -> list[str]:
    found = clusters.clusters(diagnosis)
    if not found:
        return []
    total = sum(len(c.ranks) for c in found)
    out = [f"<h2>{style.say(words.CLUSTERS)}</h2>"]
    for cluster in found[:MOST_CLUSTERS]:
        frames = "\n".join(f"{path}:{line} {function}".rstrip() for path, line, function in cluster.frames)
        share = style.say(Text("{n} of {all}", "{n} / {all}", n=len(cluster.ranks), all=total))
        out.append(
            f"<details><summary>{_safe(style.say(words.ranks(cluster.ranks, 20)))} "
            f'<span class="dim">{share} · {_safe(clusters.line_of(cluster))}</span></summary>'
            f"<pre>{_safe_lines(frames)}</pre></details>"
        )
    if len(found) > MOST_CLUSTERS:
        out.append(f'<p class="dim">{_more(len(found) - MOST_CLUSTERS, style)}</p>')
    return out


def _safe_lines(text: str) -> str:
    return "\n".join(_safe(line) for line in text.split("\n"))


def _timeline(diagnosis: Diagnosis, style: Style) -> list[str]:
    found = timeline.events(diagnosis, MOST_EVENTS)
    if not found:
        return []
    rows = []
    for event in found:
        who = style.say(words.ranks(event.ranks)) if event.ranks else ""
        rows.append(
            f'<tr><td class="t">{_safe(timeline.at(event.time))}</td><td>{_safe(event.clock)}</td><td>{_safe(who)}</td>'
            f"<td>{_safe(style.say(event.what))}: <code>{_safe(event.text)}</code><br>"
            f'<code class="dim">{_safe(event.place)}</code></td></tr>'
        )
    notes = []
    if len(timeline.clocks(found)) > 1:
        notes.append(timeline.CLOCKS)
    if any(e.time is None for e in found):
        notes.append(timeline.NO_CLOCK)
    said = "".join(f'<p class="dim">{_safe(style.say(n))}</p>' for n in notes)
    return [f"<h2>{style.say(words.TIMELINE)}</h2>{said}<table>{chr(10).join(rows)}</table>"]


def _files(diagnosis: Diagnosis, style: Style) -> list[str]:
    inventory = diagnosis.inventory
    out = []
    if inventory.problems:
        rows = "".join(
            f"<li><code>{_safe(name)}</code>: {_safe(style.say(why))}</li>"
            for name, why in inventory.problems[:MOST_PROBLEMS]
        )
        more = len(inventory.problems) - MOST_PROBLEMS
        rows += f"<li>{_more(more, style)}</li>" if more > 0 else ""
        out.append(f"<h2>{style.say(words.UNREAD)}</h2><ul>{rows}</ul>")
    lines = [
        f"<tr><td><code>{_safe(name)}</code></td><td>{_safe(kind)}</td><td>{spoken_size(size)}</td><td>{facts:,}</td></tr>"
        for name, kind, size, facts in inventory.files[:MOST_FILES]
    ]
    if len(inventory.files) > MOST_FILES:
        lines.append(f'<tr><td colspan="4">{_more(len(inventory.files) - MOST_FILES, style)}</td></tr>')
    heads = (Text("file", "文件"), Text("kind", "类型"), Text("size", "大小"), Text("facts", "事实"))
    head = "".join(f"<th>{style.say(h)}</th>" for h in heads)
    out.append(
        f"<details><summary>{style.say(words.FILES)} ({len(inventory.files):,})</summary>"
        f"<table><tr>{head}</tr>{chr(10).join(lines)}</table></details>"
    )
    return out


def _next(diagnosis: Diagnosis, style: Style) -> list[str]:
    rows = words.commands(diagnosis, style)
    if not rows:
        return []
    return [f"<h2>{style.say(words.NEXT)}</h2><pre>{chr(10).join(_safe(r) for r in rows)}</pre>"]


def _more(n: int, style: Style) -> str:
    return style.say(Text("… {n} more", "… 另有 {n} 项", n=f"{n:,}"))
