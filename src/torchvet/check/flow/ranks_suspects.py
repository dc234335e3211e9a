"""Which functions can part the ranks: those whose text holds a rank, or a name that elsewhere is made from one.

Only a filter: what a function does is decided by its trace. `def is_world_zero(self): return dist.get_rank() == 0` makes
`is_world_zero` a word to look for, `self.leader = rank == 0` makes `leader` one.
"""

from __future__ import annotations

from re import compile

from ... import knowledge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Function, Module
    from ..program.program import Program

WORD = compile(r"[A-Za-z_]\w*")
ASSIGNED = compile(r"^\s*(?:[\w.]+\.)?(\w+)(?:\s*:[^=]+)?\s*=(?!=)(.*)$")
TESTING = compile(r"==|!=|\bnot\b|\bin\b|[<>]|\brank\(|RANK|\band\b|\bor\b|_rank\(")
DEFINED = compile(r"^\s*(?:async\s+)?def (\w+)\(")
ROOTS = ("rank", "RANK", "main_process", "is_main", "master", "PROCID", "zero", "primary", "should_", "process_index", "ordinal",
         "gpu", "LOCALID", "first_", "last_", "leader", "chief")  # fmt: skip
SHORT = 14
"""A function of at most this many lines that holds a rank word and returns something is a predicate by name."""
KINDS = ("rank_source", "local_rank_source", "rank_predicate", "rank_guard_decorator", "first_context")


def rank_words() -> frozenset[str]:
    """The words that stand for a rank: last names of the tables' rows, and identifiers that hint at one."""
    from ...knowledge._identifiers import WORDS

    out = {w for w, (kind, _) in WORDS.items() if kind in KINDS}
    for kind in KINDS:
        for q in knowledge.names(kind):
            last = q.rpartition(".")[2].rpartition(":")[2]
            if "rank" in last.lower() or "_" in last:
                out.add(last)
    return frozenset(out)


class Suspects:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.words = set(rank_words())
        self._lines: dict[str, list[tuple[int, frozenset[str]]]] = {}

    def functions(self) -> Iterator[Function]:
        modules = [m for p, m in list(self.program.modules.items()) if p not in self.program.loaded_on_demand]
        for module in modules:
            self.learn(module)
        for module in modules:
            rows = self.rows(module)
            if not rows:
                continue
            numbers = [n for n, line in rows]
            for f in module.all_functions():
                if any(f.first_line <= n <= f.end_line for n in numbers):
                    yield f
            yield self.program.main(module)

    def rows(self, module: Module) -> list[tuple[int, str]]:
        """The lines that hold one of the words."""
        out = []
        words = self.words
        for number, line in enumerate(self.program.lines(module.path), 1):
            if any(w in words for w in WORD.findall(line)):
                out.append((number, line))
        return out

    def learn(self, module: Module) -> None:
        """Names that are made from a rank here."""
        text = self.program.text(module.path) or ""
        if not any(w in text for w in ROOTS):
            return
        rows = self.rows(module)
        if not rows:
            return
        lines = self.program.lines(module.path)
        for number, line in rows:
            assigned = ASSIGNED.match(line)
            if assigned and TESTING.search(assigned.group(2)):
                self.words.add(assigned.group(1))
            if line.lstrip().startswith(("return", "yield", "if")):
                for back in range(number - 1, max(0, number - 1 - SHORT), -1):
                    defined = DEFINED.match(lines[back - 1])
                    if defined:
                        if not defined.group(1).startswith("__"):
                            self.words.add(defined.group(1))
                        break
