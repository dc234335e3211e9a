"""Small programs for unit tests: {file name: source} to a Program."""

from __future__ import annotations

import os
import textwrap

from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program


def program_of(tmp_path, files: dict[str, str], *, parse: list[str] | None = None, lazy: bool = False) -> Program:
    """Write the files and add the Python ones (only those in `parse`, when given) to a Program."""
    for name, source in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")

    def read(path: str) -> str | None:
        try:
            with open(os.path.join(tmp_path, path), encoding="utf-8", newline="") as f:
                return f.read()
        except OSError:
            return None

    program = Program(str(tmp_path), [n for n in files if n.endswith(".py")], read)
    for name in files if parse is None else parse:
        if name.endswith(".py"):
            program.add(name, lower(read(name), lazy=lazy))
    return program


def expression(source: str):
    """The rows of one expression."""
    return lower(source)[0][2]
