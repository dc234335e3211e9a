"""Which ranks run a statement: the rank tests that it stands under, and the early exits of other ranks before it.

For questions that need no trace: who writes a file, who evaluates, who ends. Tests are asked outside of any flow, and
only where the text of a function holds a rank at all.
"""

from __future__ import annotations

from posixpath import dirname

from ..program.model import blocks_of, dotted, walk_expr
from .ranks_values import LEADER, OTHER, at, op, truth, varies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Stmt
    from .ranks_frames import Frame
    from .ranks_names import Names
    from .ranks_values import Value

    Guard = tuple[Value, Expr]

ALL, LEADS, REST, SOME = "all", "leader", "rest", "some"
"""Who runs a statement: every rank, rank 0 (of the job or of each node) alone, all but it, or some not told."""
LEAVING = ("return", "continue", "break", "raise")


class Guarded:
    """The statements of one function. `side(guards)` says who runs what stands under them."""

    def __init__(self, names: Names, function: Function) -> None:
        self.names = names
        self.function = function
        self.frame: Frame = names.pure_frame(function)

    def test(self, e: Expr) -> Value:
        fields = {}
        for x in walk_expr(e):
            whole = dotted(x) if x[0] == "attr" else None
            if whole is not None and whole.partition(".")[0] not in ("self", "cls"):
                v = self.held_by(whole)
                if v is not None:
                    fields[whole] = v
        if fields:
            self.frame.dotted = True
            self.frame.env.update(fields)
        return self.names.pure(self.frame, e)

    def held_by(self, whole: str) -> Value | None:
        """`args.save_logs = args.logs and is_master(args)` in this function, or else in this folder: what
        `args.save_logs` is where it depends on the rank. By what is written: the object is taken for the one of the
        same name."""
        names, path = self.names, self.function.module.path
        name = whole.rpartition(".")[2]
        if any(dotted(target) == whole for target, _ in names.attributes_set(self.function, name)):
            return self.given(self.function, whole)
        key = (dirname(path), whole)
        if key not in names.held:
            names.held[key] = None
            for near in names.near(path):
                page = names.suspects.pages.get(near)
                for g in page.holding(f"{whole} =") if page is not None and name in page.tokens else ():
                    names.held[key] = names.held[key] or self.given(g, whole)
        return names.held[key]

    def given(self, function: Function, whole: str) -> Value | None:
        """What a function assigns to a dotted name, where it depends on the rank."""
        names = self.names
        for target, value in names.attributes_set(function, whole.rpartition(".")[2]):
            if dotted(target) == whole:
                v = names.pure(names.pure_frame(function), value)
                if varies(v):
                    return v
        return None

    def statements(self) -> Iterator[tuple[Stmt, tuple[Guard, ...]]]:
        """(statement, guards) in order, a compound statement before what it holds; definitions are not entered."""
        yield from self.block(self.names.program.body(self.function), ())

    def block(self, block: Block, guards: tuple[Guard, ...]) -> Iterator[tuple[Stmt, tuple[Guard, ...]]]:
        for s in block:
            yield s, guards
            if s[0] == "if":
                test = self.test(s[2])
                if not varies(test):
                    yield from self.block(s[3], guards)
                    yield from self.block(s[4], guards)
                    continue
                no = op("not", test)
                yield from self.block(s[3], (*guards, (test, s[2])))
                yield from self.block(s[4], (*guards, (no, s[2])))
                if s[3] and s[3][-1][0] in LEAVING:
                    guards = (*guards, (no, s[2]))
                elif s[4] and s[4][-1][0] in LEAVING:
                    guards = (*guards, (test, s[2]))
            elif s[0] not in ("def", "class"):
                for sub in blocks_of(s):
                    yield from self.block(sub, guards)


def side(guards: tuple[Guard, ...]) -> str:
    """Who runs what stands under these guards."""
    if not guards:
        return ALL
    lead = all(truth(at(v, LEADER)) is not False for v, _ in guards)
    other = all(truth(at(v, OTHER)) is not False for v, _ in guards)
    if lead and not other:
        return LEADS
    if other and not lead:
        return REST
    return SOME


def conditional(text: str, word: str) -> bool:
    """Whether a word stands deeper in its function than at the level of its statements, anywhere in a text."""
    at = text.find(word)
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        indent = len(text[start:at]) - len(text[start:at].lstrip())
        for line in reversed(text[max(0, start - 4000) : start].split("\n")):
            left = line.lstrip()
            if left and len(line) - len(left) < indent:
                if not left.startswith(("def ", "async def ", "if __name__", ")", "]")):
                    return True
                break
        at = text.find(word, at + 1)
    return False
