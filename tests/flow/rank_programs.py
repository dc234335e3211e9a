"""Small programs about ranks: source to divergences."""

from __future__ import annotations

import textwrap

from torchvet.check.flow.ranks import Ranks
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program


def ranks_of(tmp_path, **files: str) -> Ranks:
    """`ranks_of(tmp_path, train="...")`: one file for each keyword; `pkg__mod` is pkg/mod.py."""
    texts = {name.replace("__", "/") + ".py": textwrap.dedent(source) for name, source in files.items()}
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program = Program(str(tmp_path), list(texts), texts.get)
    for name, text in texts.items():
        program.add(name, lower(text))
    return Ranks(program)


def found(tmp_path, **files: str) -> list[tuple[str, str, int, str]]:
    """[(rule, file, line, severity)] of everything that is reported by default."""
    return [
        (d.fault, d.module.path, d.pos >> 44, d.severity)
        for d in ranks_of(tmp_path, **files).divergences()
        if d.confidence != "possible"
    ]
