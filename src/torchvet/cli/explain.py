"""`torchvet explain`: the page of a rule, a probe or a cause, found by name, code, or an unambiguous beginning."""

from __future__ import annotations

from torchvet.findings import Text, UserError, language, rule_url

from . import terminal
from .arguments import FLAG, VALUE, Argument, help_text, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

ARGUMENTS = (
    Argument("output-format", VALUE, Text("text or json", "text 或 json"), group="options", choices=("text", "json")),
    Argument("lang", VALUE, Text("language of the page", "页面语言"), group="options", choices=("en", "zh")),
    Argument("help", FLAG, Text("print this page", "显示帮助"), group="options", short="h"),
)
GROUPS = {"options": Text("Options", "选项")}


def run(argv: Sequence[str]) -> int:
    """Print the pages that are named."""
    given, words = parse(argv, ARGUMENTS)
    spoken = language(given.get("lang"))
    if given.get("help"):
        purpose = Text(
            "What a rule, a probe or a cause of a failure means, why it matters, how to fix it.",
            "规则、探针或失败原因的含义、危害与修复方法。",
        )
        terminal.say(help_text("torchvet explain [OPTIONS] NAME|CODE ...", purpose, ARGUMENTS, GROUPS, spoken))
        return 0
    from torchvet.check.rules import all_rules

    rules = all_rules()
    if not words:
        raise UserError(
            Text("explain needs the name or code of a rule, or a probe or cause",
                 "explain 需要规则名、代码、探针名或原因名"),
            Text("torchvet rules lists them; probes: torchvet preflight --list",
                 "torchvet rules 列出所有规则；探针：torchvet preflight --list"),
        )  # fmt: skip
    found = [x for word in words for x in topics(word, rules)]
    if given.get("output-format") == "json":
        import json

        rows = [as_plain(x, spoken, page=True) if hasattr(x, "code") else beside(x, spoken) for x in found]
        text = json.dumps(rows[0] if len(rows) == 1 else rows, ensure_ascii=False, indent=2) + "\n"
        terminal.say(text, machine=True)
    else:
        terminal.say("\n".join(in_language(rule.page(), spoken).rstrip() + "\n" for rule in found))
    return 0


def topics(word: str, rules: Mapping[str, Any]) -> list[Any]:
    """What is meant: a rule, a probe, a cause, or all that share the name. Raises UserError as `find`."""
    name = word.strip().lower().replace("_", "-")
    others = _others()
    exact = [rules[name]] if name in rules else []
    exact += [x for x in others if x.name == name] or [x for x in others if getattr(x, "kind", "") == name]
    if exact:
        return exact
    try:
        return [rules[find(word, rules, [x.name for x in others])]]
    except UserError:
        fitting = [x for x in others if name and x.name.startswith(name)]
        code = word.strip().upper()
        if len(fitting) == 1 and not any(n.startswith(name) or rules[n].code.startswith(code) for n in rules):
            return fitting
        raise


def _others() -> list[Any]:
    """All probes, results of a fleet, and causes."""
    from torchvet.diagnose.model import all_causes
    from torchvet.preflight import fleet_pages
    from torchvet.preflight.probe import load, probe_names

    return [*(load(name) for name in probe_names()), *fleet_pages.topics(), *all_causes().values()]


def beside(other: Any, spoken: str) -> dict[str, object]:
    """A probe or cause as values for JSON."""
    about = {"area": other.area} if hasattr(other, "area") else {"kind": other.kind}
    return {"name": other.name, **about, "summary": other.summary.render(spoken), "page": other.page()}


def find(word: str, rules: Mapping[str, Any], others: Iterable[str] = ()) -> str:
    """The name of the rule that is meant. Raises UserError with what it may have been."""
    name = word.strip().lower().replace("_", "-")
    if name in rules:
        return name
    code = word.strip().upper()
    by_code = {rule.code: known for known, rule in rules.items()}
    if code in by_code:
        return by_code[code]
    fitting = [n for n in rules if n.startswith(name)] or [n for c, n in by_code.items() if c.startswith(code)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting and name:
        shown = ", ".join(fitting[:6]) + (", ..." if len(fitting) > 6 else "")
        raise UserError(
            Text("{word} fits several rules", "{word} 对应多条规则", word=word), Text("{names}", names=shown)
        )
    from torchvet.check.config import did_you_mean
    from torchvet.preflight.probe import probe_names

    raise UserError(
        Text("no rule is called {word}", "没有名为 {word} 的规则", word=word or "''"),
        did_you_mean(word, [*rules, *by_code, *probe_names()])
        or Text("torchvet rules lists them", "torchvet rules 列出所有规则"),
    )


def in_language(page: str, spoken: str) -> str:
    """The page with the Chinese section first for Chinese readers; its place is otherwise where its author put it."""
    if spoken != "zh":
        return page
    lines = page.split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith("## 中文")), None)
    if start is None:
        return page
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith(("# ", "## "))), len(lines))
    section, rest = lines[start:end], lines[:start] + lines[end:]
    head = next((i for i, line in enumerate(rest) if line.startswith("# ")), -1) + 1
    while section and not section[-1].strip():
        section.pop()
    return "\n".join([*rest[:head], *([""] if head else []), *section, *([""] if rest[head : head + 1] != [""] else []),
                      *rest[head:]])  # fmt: skip


def as_plain(rule: Any, spoken: str, *, page: bool = False) -> dict[str, object]:
    """A rule as values for JSON."""
    row: dict[str, object] = {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "fix": rule.fixable or None,
        "since": rule.since,
        "summary": rule.summary.render(spoken),
        "url": rule_url(rule.name),
    }
    if page:
        row["page"] = rule.page()
    return row
