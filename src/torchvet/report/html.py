"""One page for the browser that needs nothing else: findings with their source, filters by severity, rule and text."""

from __future__ import annotations

from html import escape

from torchvet.findings import POSSIBLE, SEVERITIES, Text
from torchvet.findings.columns import cells
from torchvet.report import markdown, place, summary
from torchvet.report.excerpt import blocks, repaired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding
    from torchvet.report import Report
    from torchvet.report.excerpt import Line

_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --dim: #656d76; --back: #f6f8fa; --error: #cf222e;
  --warning: #9a6700; --note: #0969da; --text: #1f2328; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --line: #30363d; --dim: #8d96a0; --back: #161b22; --error: #ff7b72;
  --warning: #d29922; --note: #58a6ff; --text: #e6edf3; --page: #0d1117; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 70rem; padding: 1rem 1.5rem 4rem; color: var(--text); background: var(--page);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: .5rem 0 } h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere }
a { color: var(--note) } ul { padding-left: 1.2rem } .dim { color: var(--dim) }
form { position: sticky; top: 0; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .6rem 0;
  background: var(--page); border-bottom: 1px solid var(--line); }
input[type=search], select { font: inherit; padding: .15rem .4rem }
article { border: 1px solid var(--line); border-left: .3rem solid var(--c); border-radius: .3rem; margin: 1rem 0;
  padding: .7rem 1rem; }
article.error { --c: var(--error) } article.warning { --c: var(--warning) } article.note { --c: var(--note) }
.severity { color: var(--c); font-weight: 700 }
pre, code { font: 13px/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace }
pre { margin: .5rem 0; padding: .4rem 0; overflow-x: auto; background: var(--back); border-radius: .3rem }
pre .file, pre .n { color: var(--dim) } pre .file { padding-left: .6rem }
pre .n { display: inline-block; width: 4rem; padding-right: .8rem; text-align: right; user-select: none }
pre .label { display: block; padding-left: 4rem; white-space: pre-wrap; color: var(--dim) }
pre .label.own { color: var(--c) }
mark { background: none; color: inherit; border-bottom: 2px solid var(--dim) } mark.own { border-color: var(--c) }
table { border-spacing: 0 } td { padding-right: 1.5rem; vertical-align: top }
details pre { padding: .6rem; white-space: pre-wrap }
"""

_SCRIPT = """
const form = document.forms[0], cards = [...document.querySelectorAll('article')];
form.addEventListener('submit', e => e.preventDefault());
form.addEventListener('input', () => {
  const on = new Set([...form.querySelectorAll('[name=severity]:checked')].map(i => i.value));
  const rule = form.rule.value, words = form.words.value.toLowerCase();
  let n = 0;
  for (const c of cards) {
    c.hidden = !on.has(c.dataset.severity) || (rule && c.dataset.rule !== rule)
      || !c.textContent.toLowerCase().includes(words);
    n += !c.hidden;
  }
  form.shown.value = n + ' / ' + cards.length;
});
"""

_RULE = Text("rule", "规则")
_ALL = Text("all rules", "全部规则")
_FIND = Text("find in file names and messages", "在文件名与说明中查找")
_ABOUT = Text("about the rule", "关于这条规则")

# Nothing may be loaded, even if a message or a source line holds markup.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render(report: Report) -> str:
    findings = report.worst_first()
    counts = summary.counted(report.counts(), report.language)
    out = [
        "<!doctype html>",
        f'<html lang="{"zh-CN" if report.language == "zh" else "en"}">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>torchvet: {escape(counts)}</title>",
        f"<style>{_STYLE}</style></head>",
        f"<body><h1>torchvet: {escape(counts)}</h1>",
        f'<p class="dim">{escape(summary.summary_line(report))}</p>',
    ]
    if report.families:
        rows = (row.removeprefix("- ").replace("**", "") for row in markdown.checklist(report))
        out.append(
            "<ul>" + "".join(f"<li>{escape(r.replace('[x] ', '').replace('[ ] ', ''))}</li>" for r in rows) + "</ul>"
        )
    if findings:
        out.append(_filters(report, findings))
    explained: set[str] = set()
    for finding in findings:
        out.append(_article(report, finding, finding.name not in explained))
        explained.add(finding.name)
    if findings:
        out.append(f"<script>{_SCRIPT}</script>")
    out.append("</body></html>")
    return "\n".join(out).encode("utf-8", "replace").decode() + "\n"


def _filters(report: Report, findings: list[Finding]) -> str:
    boxes = []
    for severity in reversed(SEVERITIES):
        if n := report.count(severity):
            box = f'<input type="checkbox" name="severity" value="{severity}" checked>'
            boxes.append(f"<label>{box} {report.say(summary.SEVERITY[severity])} {n}</label>")
    names = sorted({f.name for f in findings})
    options = "".join(f'<option value="{escape(n)}">{escape(n)}</option>' for n in ["", *names])
    options = options.replace("></option>", f">{report.say(_ALL)}</option>", 1)
    total = f"{len(findings)} / {len(findings)}"
    return (
        f'<form>{"".join(boxes)}<label>{report.say(_RULE)} <select name="rule">{options}</select></label>'
        f'<input type="search" name="words" size="32" placeholder="{report.say(_FIND)}">'
        f'<output name="shown">{total}</output></form>'
    )


def _article(report: Report, finding: Finding, explain: bool) -> str:
    say = report.say
    sure = say(summary.POSSIBLE) if finding.confidence == POSSIBLE else ""
    rule = report.rule(finding)
    label = say(summary.SEVERITY[finding.severity])
    out = [
        f'<article class="{finding.severity}" data-severity="{finding.severity}" data-rule="{escape(finding.name)}">',
        f'<h2><span class="severity">{label}</span> {escape(say(finding.message))}</h2>',
        f'<div class="dim"><code>{escape(place.spoken(finding))}</code> · '
        f'<a href="{escape(rule.url)}" rel="noreferrer">{escape(finding.name)}</a> {finding.code}{sure}</div>',
        _excerpt(report, finding),
    ]
    if finding.trace:
        rows = "".join(f"<tr><td>{escape(say(a))}</td><td>{escape(say(b))}</td></tr>" for a, b in finding.trace)
        out.append(f"<table>{rows}</table>")
    word = summary.FIX
    if finding.fix is not None:
        flag = f'<span class="dim">[{summary.flags(finding.fix.safe)}]</span>'
        head = summary.labelled(report, word, "")
        line = repaired(report, finding)
        what = f"<code>{escape(line)}</code>" if line else escape(say(finding.fix.title))
        out.append(f"<div>{head}{what} {flag}</div>")
        word = summary.HELP
    if finding.help is not None:
        out.append(f"<div>{escape(summary.labelled(report, word, finding.help))}</div>")
    if explain and rule.page:
        page = escape(rule.page.strip())
        out.append(f"<details><summary>{say(_ABOUT)}: {escape(say(rule.summary))}</summary><pre>{page}</pre></details>")
    out.append("</article>")
    return "\n".join(out)


def _excerpt(report: Report, finding: Finding) -> str:
    rows = []
    for block in blocks(report, finding):
        where = f"{place.spoken_file(block.path, block.cell)}:{block.line}:{block.column}"
        rows.append(f'<span class="file">{escape(where)}</span>\n')
        for line in block.lines:
            rows.append(f'<span class="n">{line.number}</span>{_marked(line)}\n')
            rows += [
                f'<span class="label{" own" if m.primary else ""}">{escape(m.label)}</span>'
                for m in line.marks
                if m.label
            ]
    return f"<pre>{''.join(rows)}</pre>"


def _marked(line: Line) -> str:
    """The line's text with its marked stretches."""
    if line.text is None:
        return "…"
    shown = cells(line.text.rstrip())
    kinds = [""] * len(shown)
    for mark in sorted(line.marks, key=lambda m: m.primary):
        for i in range(mark.column - 1, min(mark.end - 1, len(shown))):
            kinds[i] = ' class="own"' if mark.primary else " "
    out = []
    open_ = ""
    for (text, _), kind in zip(shown, kinds):
        if kind != open_:
            out.append("</mark>" if open_ else "")
            out.append(f"<mark{kind.rstrip()}>" if kind else "")
            open_ = kind
        out.append(escape(text))
    return "".join(out) + ("</mark>" if open_ else "")
