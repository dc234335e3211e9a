#!/usr/bin/env python3
"""Fill the generated parts of README.md and README.zh-CN.md.

    python scripts/build_docs.py           writes them
    python scripts/build_docs.py --check   exit 1 when they are not what the program says today

Between `<!-- output: torchvet ... -->` and `<!-- end -->` stands what the command prints, between `<!-- rules -->` and
`<!-- end -->` the table of rules, between `<!-- settings -->` and `<!-- end -->` the table of settings.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
PART = re.compile(r"<!-- (output: torchvet (?P<words>[^\n]*?)|rules|settings) -->\n.*?<!-- end -->", re.DOTALL)
# the time differs from run to run
VOLATILE = re.compile(r"\d+\.\d+(?= s\b| 秒)")


def output(words: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "NO_COLOR": "1",
        "TORCHVET_LANG": "en",
        "COLUMNS": "100",
    }
    command = [sys.executable, "-m", "torchvet", *words.split(), "--no-cache"]
    r = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    if r.returncode > 1:
        raise SystemExit(f"build_docs: {' '.join(command)}: exit {r.returncode}\n{r.stderr}")
    return f"```console\n$ torchvet {words}\n{VOLATILE.sub('0.1', r.stdout).strip()}\n```"


def rules_table(zh: bool) -> str:
    from torchvet.check.rules import all_rules

    head = ("代码", "名称", "级别", "找什么") if zh else ("code", "name", "severity", "finds")
    rows = [
        (r.code, f"[{r.name}](src/torchvet/check/rules/{r.family}/{r.name.replace('-', '_')}.md)", r.severity,
         r.summary.render("zh" if zh else "en"))
        for r in all_rules().values() if r.family != "tool"
    ]  # fmt: skip
    return table(head, rows)


def settings_table(zh: bool) -> str:
    from torchvet.check.config import SETTINGS

    head = ("设置", "默认值", "含义") if zh else ("setting", "default", "meaning")
    rows = []
    for s in SETTINGS:
        if s.where != "both":
            continue
        default = s.default
        if isinstance(default, bool):
            shown = str(default).lower()
        elif isinstance(default, (tuple, dict)):
            shown = "[]" if isinstance(default, tuple) else "{}"
        else:
            shown = repr(default).replace("'", '"')
        meaning = s.help.render("zh" if zh else "en")
        if s.choices:
            meaning += ("：" if zh else ": ") + ", ".join(s.choices)
        rows.append((f"`{s.name}`", f"`{shown}`", meaning))
    return table(head, rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in row)} |" for row in rows)])


def filled(text: str, zh: bool) -> str:
    def part(m: re.Match[str]) -> str:
        what = m[1]
        if what == "rules":
            body = rules_table(zh)
        elif what == "settings":
            body = settings_table(zh)
        else:
            body = output(m["words"])
        return f"<!-- {what} -->\n{body}\n<!-- end -->"

    return PART.sub(part, text)


def main() -> int:
    stale = []
    for name in ("README.md", "README.zh-CN.md"):
        path = ROOT / name
        text = path.read_text("utf-8")
        new = filled(text, "zh" in name)
        if new != text:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                path.write_text(new, "utf-8")
    if "--check" in sys.argv[1:] and stale:
        print(f"not up to date: {', '.join(stale)}; run scripts/build_docs.py", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale) or 'nothing to do'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
