#!/usr/bin/env python3
"""Write the two files of a new rule.

    python scripts/new_rule.py collective/rank-guarded-collective

The code is the next free one of the family. Nothing else has to be edited: rules are found by listing the folders, and
the code blocks of the page are the rule's tests (pytest -k rank-guarded-collective).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "src" / "torchvet" / "check" / "rules"

PYTHON = '''"""TODO: one line that says what is found."""

from __future__ import annotations

from .._api import WARNING, Rule, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._api import Finding
    from ..project import Project

RULE = Rule(
    code="{code}",
    name="{name}",
    severity=WARNING,
    summary=Text("TODO: what is wrong, in a few words", "TODO: 一句话说明问题"),
    since="{since}",
    words=("TODO",),
)


@RULE.check
def check(project: Project) -> Iterator[Finding]:
    """TODO: ask the program or a flow question of `project`; yield what is sure, stay silent about the rest."""
    return
    yield
'''

PAGE = """# {name} ({code})

TODO: one sentence.

## What it finds

TODO

## Why

TODO: what happens at run time, with the PyTorch file or issue that makes it true.

## Bad

```python
import torch
TODO  # warning: [{name}]
```

## Good

```python
import torch
```

## When it stays silent

TODO

## Fix

TODO

## References

TODO

## 中文

TODO
"""


def next_code(family: str, digit: int) -> str:
    taken = {
        int(m[1])
        for path in (RULES / family).glob("*.py")
        for m in re.finditer(r'code="TV(\d{3})"', path.read_text("utf-8"))
    }
    free = next((n for n in range(digit * 100 + 1, digit * 100 + 100) if n > max(taken, default=0)), 0)
    if not free:
        raise SystemExit(f"new_rule: the family {family} has no code left")
    return f"TV{free:03}"


def main(argv: list[str]) -> int:
    sys.path.insert(0, str(ROOT / "src"))
    from torchvet import __version__
    from torchvet.check.rules import FAMILIES, rule_names

    if len(argv) != 1 or argv[0].count("/") != 1:
        print(__doc__, file=sys.stderr)
        return 2
    family, name = argv[0].split("/")
    problem = ""
    if family not in FAMILIES:
        problem = f"there is no family {family}; one of: {', '.join(FAMILIES)}"
    elif not re.fullmatch(r"[a-z]+(-[a-z0-9]+){1,4}", name):
        problem = f"{name}: a name is the thing found, two to five words in small letters joined by -"
    elif name in rule_names():
        problem = f"there is a rule {name} already"
    if problem:
        print(f"new_rule: {problem}", file=sys.stderr)
        return 2
    fields = {"code": next_code(family, FAMILIES[family]), "name": name, "since": ".".join(__version__.split(".")[:2])}
    folder = RULES / family
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").touch()
    for suffix, text in ((".py", PYTHON), (".md", PAGE)):
        path = folder / (name.replace("-", "_") + suffix)
        path.write_text(text.format(**fields), "utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
