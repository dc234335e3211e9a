"""Files that every rank asks for in its training loop: a kill switch that one rank sees a turn before the others.

The test stands in a loop that communicates, asks a file whose path no turn changes (itself, or through a helper without
arguments), and its branch leaves the loop or the program.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .ranks_pages import words_of
from .ranks_races import Race

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Stmt
    from .ranks_machine import Machine

ASKS = ("exists(", "isfile(", "is_file(")
LONGEST = 10
"""Lines of a helper that does nothing but ask."""
ENDS = ("exit", "_exit", "quit")


class Polls:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects

    def found(self) -> Iterator[Race]:
        helpers: dict[str, Function] = {}
        pages = [p for p in self.suspects.pages.values() if any(a in p.text for a in ASKS)]
        for page in pages:
            for f in page.holding(*ASKS):
                if f.name != "<module>" and not f.params and f.end_line - f.first_line < LONGEST:
                    own = words_of(self.suspects.text_of(f))  # nobody agrees in it, and all ranks ask
                    if own.isdisjoint(self.suspects.steps) and own.isdisjoint(self.suspects.words):
                        helpers[f.name] = f
        for page in list(self.suspects.pages.values()):
            words = [f"if {h}(" for h in page.tokens & helpers.keys()] + ["if os.path.exists(", "if os.path.isfile("]
            for f in page.holding(*words):
                if self.suspects.is_hot(f):
                    with self.program.guard(f.module):
                        yield from self.in_loops(f, helpers)

    def in_loops(self, f: Function, helpers: dict[str, Function]) -> Iterator[Race]:
        for loop in self.program.statements(f):
            if loop[0] not in ("for", "while"):
                continue
            block = loop[4] if loop[0] == "for" else loop[3]
            for s in block:
                if (
                    s[0] == "if"
                    and s[2][0] == "call"
                    and self.leaves(s[3])
                    and self.asks(s[2], f, helpers, loop, block)
                ) and self.trains(block, s, f):
                    yield Race("polled", f, loop[1], s[2][1], "", callee_name(s[2]))

    def asks(self, e: Expr, f: Function, helpers: dict[str, Function], loop: Stmt, block: Block) -> bool:
        """Whether a test asks for one file in every turn."""
        helper = helpers.get(callee_name(e))
        if helper is not None:
            return helper in self.program.targets(e, self.program.scope(f))
        if (self.program.qualified(e[2], self.program.scope(f)) or "") not in knowledge.files("asks") or not e[3]:
            return False
        changed = set(target_names(loop[2])) if loop[0] == "for" else set()
        for s in walk_block(block):
            if s[0] == "assign":
                changed |= {n for t in s[2] for n in target_names(t)}
        return not any(x[0] == "name" and x[2] in changed for x in walk_expr(e[3][0]))

    def leaves(self, block: Block) -> bool:
        last = block[-1]
        if last[0] in ("break", "return"):
            return True
        return bool(last[0] == "expr" and last[2][0] == "call" and callee_name(last[2]) in ENDS)

    def trains(self, block: Block, asked: Stmt, f: Function) -> bool:
        """Whether the loop communicates or trains beside the branch."""
        inside = {id(e) for e in calls_in(asked[3])}
        scope = self.program.scope(f)
        for e in calls_in(block):
            if id(e) not in inside and (
                callee_name(e) in self.suspects.hot_names or callee_name(e) in self.suspects.steps
            ):
                row = knowledge.api(self.program.qualified(e[2], scope) or "")
                if row is not None and row.kind == "collective":
                    return True
                if any(self.suspects.is_hot(g) for g in self.program.targets(e, scope)):
                    return True
        return False
