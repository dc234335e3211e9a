"""The text of two statements in the other order: for fixes that wrap last."""

from __future__ import annotations

from ..program.model import blocks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Block, Expr, Stmt
    from ..program.program import Program
    from .wrapping_models import Event


def before_wrap(program: Program, wrap: Event, later: Event) -> list[tuple[int, int, int, int, str]] | None:
    """Edits (line, column, end line, end column, text) that put a later statement before the wrap, where both are about
    one and the same name, each on a line of its own in one block: `model = DDP(model)`, and `model = convert(model)` or
    `model.cuda()`."""
    if wrap.function is not later.function:
        return None
    found = together(program.body(wrap.function), wrap.call, later.call)
    if found is None or len({name_of(s) for s in found}) != 1 or name_of(found[0]) == "":
        return None
    rows = [s[1] >> 44 for s in found]
    lines = [program.source_line(wrap.function.module, row) for row in rows]
    name = name_of(found[0])
    for s, line in zip(found, lines):
        alone = line.strip().startswith((f"{name} =", f"{name}.")) and line.rstrip().endswith(")") and ";" not in line
        if s[1] >> 12 & 0xFFFFF or not alone:
            return None
    return [(rows[0], 1, rows[0], 1, lines[1] + "\n"), (rows[1], 1, rows[1] + 1, 1, "")]


def together(block: Block, first: Expr, second: Expr) -> tuple[Stmt, Stmt] | None:
    """The two statements of one block that these calls are, or whose value they are."""
    mine = {id(s[3] if s[0] == "assign" else s[2]): s for s in block if s[0] in ("assign", "expr")}
    if id(first) in mine and id(second) in mine:
        return mine[id(first)], mine[id(second)]
    for s in block:
        for inner in blocks_of(s):
            found = together(inner, first, second)
            if found is not None:
                return found
    return None


def name_of(s: Stmt) -> str:
    """`model` of `model = f(model, ...)`, `model = model.to(...)` and `model.cuda()`; "" for another form."""
    call = s[3] if s[0] == "assign" else s[2]
    receiver = call[2][2] if call[2][0] == "attr" else call[2]
    given = receiver if receiver[0] == "name" and call[2][0] == "attr" else None
    if s[0] == "expr":
        return str(given[2]) if given is not None else ""
    target = s[2][0]
    if len(s[2]) != 1 or target[0] != "name":
        return ""
    names = [x[2] for x in (given, *call[3][:1]) if x is not None and x[0] == "name"]
    return str(target[2]) if target[2] in names else ""
