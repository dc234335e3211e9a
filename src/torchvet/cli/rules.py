"""`torchvet rules`: all rules in one table."""

from __future__ import annotations

from torchvet.findings import Text, UserError, language, rule_url

from . import terminal
from .arguments import FLAG, VALUE, Argument, help_text, parse
from .explain import as_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

ARGUMENTS = (
    Argument("output-format", VALUE, Text("form of the list", "列表格式"), group="options",
             choices=("text", "json", "markdown")),
    Argument("lang", VALUE, Text("language of the summaries", "摘要语言"), group="options", choices=("en", "zh")),
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="options", short="h"),
)  # fmt: skip
GROUPS = {"options": Text("Options", "选项")}
HEADINGS = (
    Text("code", "代码"), Text("name", "名称"), Text("severity", "级别"), Text("confidence", "可信度"),
    Text("fix", "修复"), Text("summary", "摘要"),
)  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Print the table."""
    given, words = parse(argv, ARGUMENTS)
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text("List all rules.", "列出所有规则。")
        terminal.say(help_text("torchvet rules [OPTIONS]", purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    if words:
        raise UserError(
            Text("rules takes no names", "rules 不接受规则名"),
            Text("torchvet explain {word}", word=words[0]),
        )
    from torchvet.check.rules import all_rules

    rules = all_rules().values()
    form = given.get("output-format", "text")
    if form == "json":
        import json

        text = json.dumps([as_plain(rule, spoken) for rule in rules], ensure_ascii=False, indent=2) + "\n"
        terminal.say(text, machine=True)
    elif form == "markdown":
        terminal.say(markdown(rules, spoken), machine=True)
    else:
        terminal.say(table(rules, spoken))
    return 0


def _cells(rule: Any, spoken: str) -> tuple[str, ...]:
    return (rule.code, rule.name, rule.severity, rule.confidence, rule.fixable or "-", rule.summary.render(spoken))


def table(rules: Iterable[Any], spoken: str) -> str:
    """Columns for a terminal; the summary comes last, so only its length varies."""
    rows = [tuple(h.render(spoken) for h in HEADINGS), *(_cells(rule, spoken) for rule in rules)]
    widths = [max(_columns(row[i]) for row in rows) for i in range(len(HEADINGS) - 1)]
    lines = []
    for row in rows:
        padded = [cell + " " * (w - _columns(cell)) for cell, w in zip(row, widths)]
        lines.append("  ".join([*padded, row[-1]]).rstrip())
    return "\n".join(lines) + "\n"


def _columns(text: str) -> int:
    return sum(2 if ord(c) > 0x2E7F else 1 for c in text)


def markdown(rules: Iterable[Any], spoken: str) -> str:
    """A table whose names link to the rules' pages."""
    lines = ["| " + " | ".join(h.render(spoken) for h in HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for rule in rules:
        code, name, *rest = _cells(rule, spoken)
        cells = [code, f"[{name}]({rule_url(name)})", *(cell.replace("|", "\\|") for cell in rest)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
