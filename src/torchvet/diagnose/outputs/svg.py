"""The calls of one process group as a drawing: ranks downwards, numbers of calls to the right."""

from __future__ import annotations

from html import escape

from torchvet.findings import Text

from . import rank_map, words
from .lanes import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Style
    from .lanes import Chart, Lane

WIDTH, LEFT, ROW, TOP = 960, 190, 22, 24
HUES = 7
"""Colours of calls (the classes h0 ... h6 of the page's style); the last is for all further ones and unknown ones."""

FINISHED_CALL = Text("finished", "已完成")
OPEN_CALL = Text("called, not finished", "已调用，未完成")


def draw(chart: Chart, style: Style) -> str:
    """An <svg> element; its colours come from the style of the page."""
    count = chart.last - chart.first + 1
    cell = (WIDTH - LEFT - 10) / max(1, count)
    height = TOP + ROW * len(chart.lanes) + 8
    hue = {op: min(i, HUES - 1) for i, op in enumerate(o for o in chart.ops if o)}
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" class="calls">']
    every = max(1, round(count / 12))
    for seq in range(chart.first, chart.last + 1):
        if (seq - chart.first) % every == 0 or seq == chart.last:
            x = LEFT + (seq - chart.first + 0.5) * cell
            out.append(f'<text class="n" x="{x:.1f}" y="{TOP - 8}">{seq:,}</text>')
    for number, lane in enumerate(chart.lanes):
        out.append(_lane(lane, chart, TOP + number * ROW, cell, hue, style))
    out.append("</svg>")
    return "".join(out)


def _lane(lane: Lane, chart: Chart, y: int, cell: float, hue: dict[str, int], style: Style) -> str:
    who = style.say(words.ranks(lane.ranks, 3))
    role = style.say(rank_map.ROLES[lane.role])
    title = f"{style.say(words.ranks(lane.ranks))}{': ' + role if role else ''}"
    out = [f"<g><title>{escape(title)}</title>"]
    shown = who if len(who) <= 26 else who[:25] + "…"
    out.append(f'<text class="who {lane.role}" x="{LEFT - 10}" y="{y + 15}">{escape(shown)}</text>')
    for first, last, op, state in lane.runs:
        x = LEFT + (first - chart.first) * cell
        width = (last - first + 1) * cell
        kind = f"h{hue.get(op, HUES - 1)}" + (" open" if state != FINISHED else "")
        said = f"{op or '?'} {first:,}" + (f"-{last:,}" if last > first else "")
        tip = f"{said}: {style.say(FINISHED_CALL if state == FINISHED else OPEN_CALL)}"
        out.append(f'<rect class="{kind}" x="{x:.1f}" y="{y + 2}" width="{max(1.0, width - 1):.1f}" '
                   f'height="{ROW - 5}"><title>{escape(tip)}</title></rect>')  # fmt: skip
    end = lane.runs[-1][1] if lane.runs else chart.first - 1
    if end < chart.last:
        x = LEFT + (end + 1 - chart.first) * cell
        out.append(f'<rect class="never {lane.role}" x="{x:.1f}" y="{y + 2}" '
                   f'width="{(chart.last - end) * cell - 1:.1f}" height="{ROW - 5}"/>')  # fmt: skip
    out.append("</g>")
    return "".join(out)


def legend(chart: Chart, style: Style) -> str:
    """What the colours mean, as HTML."""
    named = [o for o in chart.ops if o]
    rows = [f'<span class="key"><i class="h{min(i, HUES - 1)}"></i>{escape(op)}</span>' for i, op in enumerate(named)]
    if "" in chart.ops:
        unknown = style.say(Text("call that was not recorded", "未记录的调用"))
        rows.append(f'<span class="key"><i class="h{HUES - 1}"></i>{unknown}</span>')
    rows.append(f'<span class="key"><i class="open"></i>{style.say(OPEN_CALL)}</span>')
    never = Text("never called", "从未调用")
    rows.append(f'<span class="key"><i class="never root"></i>{style.say(never)}</span>')
    return "".join(rows)
