"""Read the programs and expectations out of a rule's page.

Under each heading, fenced blocks form programs: a line `` `name.py`: `` before a block names its file (any language then);
a `python` block without a name is `train.py`, a `cuda` block `kernel.cu`, a `cpp` block `ext.cpp`. A `toml` block
without a name is the configuration of the program that follows it under the heading, or, when none follows, of the one
before. When a file name comes a second time under a heading, a new program begins. Blocks of other languages without a
name are prose.

On a line of a block:

    # error: [rule-name]         a finding of this severity (error, warning, note) stands here
    # todo-error: [rule-name]    a known miss: it should stand here (also todo-warning, todo-note)
    # todo-ok: [rule-name]       a known false alarm: nothing should stand here
"""

from __future__ import annotations

import re

EXPECTED = re.compile(r"(?:#|//)\s*(todo-ok|todo-error|todo-warning|todo-note|error|warning|note):\s*\[([a-z0-9-]+)\]")
NAMED = re.compile(r"^`([^`\s]+)`\s*[:：]\s*$")
DEFAULT_NAMES = {"python": "train.py", "py": "train.py", "cuda": "kernel.cu", "cpp": "ext.cpp"}


known: dict[str, list[str]] = {"known misses": [], "known false alarms": [], "marked todo but repaired": []}
"""Places of the `todo` marks, filled by the tests and shown at the end of the run."""


class Program:
    """The files of one test: `files` {name: text}, `expected` {(file, line, severity, rule name)} and the `todo` alike."""

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self.files: dict[str, str] = {}
        self.first_lines: dict[str, int] = {}
        self.expected: set[tuple[str, int, str, str]] = set()
        self.todo: set[tuple[str, int, str, str]] = set()

    def add(self, name: str, text: str, first_line: int) -> None:
        self.files[name] = text
        self.first_lines[name] = first_line
        for number, line in enumerate(text.split("\n"), 1):
            for word, rule in EXPECTED.findall(line):
                (self.todo if word.startswith("todo") else self.expected).add((name, number, word, rule))

    def configure(self, text: str, first_line: int) -> None:
        self.add("pyproject.toml" if "[tool.torchvet" in text else "torchvet.toml", text, first_line)

    def page_line(self, name: str, line: int) -> int:
        """Where a line of a file stands in the page."""
        return self.first_lines.get(name, 0) + line - 1


def programs(page: str) -> list[Program]:
    """Every program of a page, in order. Raises ValueError for a fence that is never closed."""
    found: list[Program] = []
    heading, name = "", ""
    current: Program | None = None
    settings: tuple[str, int] | None = None
    lines = page.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := re.match(r"^(```+|~~~+)\s*([\w+-]*)", line):
            end = at + 1
            while end < len(lines) and lines[end].rstrip() != fence[1]:
                end += 1
            if end == len(lines):
                raise ValueError(f"line {at + 1}: a fence that is never closed")
            text = "\n".join(lines[at + 1 : end]) + "\n"
            file = name or DEFAULT_NAMES.get(fence[2], "")
            if file:
                if current is None or file in current.files or settings:
                    current = Program(heading)
                    found.append(current)
                if settings:
                    current.configure(*settings)
                    settings = None
                current.add(file, text, at + 2)
            elif fence[2] == "toml":
                settings = (text, at + 2)
            at, name = end, ""
        elif line.startswith("#"):
            if settings and current:
                current.configure(*settings)
            heading, current, name, settings = line.lstrip("#").strip(), None, "", None
        elif named := NAMED.match(line):
            name = named[1]
        elif line.strip():
            name = ""
        at += 1
    if settings and current:
        current.configure(*settings)
    return found
