"""Evidence made small: the facts of some files as JSON lines, to be read by `diagnose` like any other file.

Each node reduces its own logs and dumps (`torchvet diagnose --reduce FILE... -o node-7.facts`), one place reads the
results. A dump of 500 kB becomes about 10 kB. Line by line: a head; {"file": [name, kind, size, facts, place]}
(place: of a dump, where it lay, to be read again where it can be reached);
{"problem": [name, English, Chinese]}; facts as `Fact.plain` gives them.
"""

from __future__ import annotations

import json
import os

from torchvet.findings import Text

from .files import Unreadable
from .model import Fact
from .reading import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .files import Item

HEAD = '{"torchvet": "reduced evidence", "schema": 1}'
MAX_LINE = 64 << 20


def reduced(paths: list[str], progress: Callable[[str], None] | None = None) -> Iterator[str]:
    """The lines of a reduced file. UserError: a path does not exist."""
    facts, inventory = read(paths, progress)
    yield HEAD + "\n"
    for row in inventory.files:
        # only whole files can be opened again, by the one who still has them
        path = inventory.paths.get(row[0], "") if row[1] == "recorder" and "!" not in row[0] else ""
        yield json.dumps({"file": [*row, *([os.path.abspath(path)] if path else [])]}, ensure_ascii=False) + "\n"
    for name, text in inventory.problems:
        yield json.dumps({"problem": [name, text.render("en"), text.render("zh")]}, ensure_ascii=False) + "\n"
    for fact in facts:
        yield json.dumps(fact.plain(), ensure_ascii=False, separators=(",", ":")) + "\n"


def facts_of(item: Item) -> Iterator[Fact]:
    """The facts of a reduced file, each with the name it had behind the file's own ("node-7.facts!0/stderr.log").

    Unreadable: a line is broken (the lines before it count).
    """
    with item.open() as f:
        number = 0
        while line := f.readline(MAX_LINE):
            number += 1
            if number == 1:
                continue
            try:
                row = json.loads(line)
                fact = _fact(row, item.name)
            except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
                raise Unreadable(
                    Text(
                        "line {n} is broken: what stands before was read", "第 {n} 行已损坏：之前的内容已读取", n=number
                    )
                ) from None
            yield fact


def _fact(row: dict[str, Any], name: str) -> Fact:
    if "file" in row:
        file, kind, size, facts, *place = row["file"]
        values = {"kind": kind, "size": size, "facts": facts, "path": str(place[0]) if place else ""}
        return Fact("reduced-file", f"{name}!{file}", values=values)
    if "problem" in row:
        file, en, zh = row["problem"]
        return Fact("reduced-problem", f"{name}!{file}", text=str(en), values={"zh": str(zh)})
    fact = Fact.from_plain(row)
    if not isinstance(fact.kind, str) or not isinstance(fact.values, dict) or not isinstance(fact.source, str):
        raise ValueError
    if fact.rank is not None and not isinstance(fact.rank, int):
        raise ValueError
    fact.source = f"{name}!{fact.source}"
    return fact
