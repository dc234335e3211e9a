"""Functions that make a module ready, put it into evaluation mode and give it to their caller: `def load(): ...`.

What they hand out is the module, not what it computes, and nothing that they do is repeated. Their graphs, often the
largest of a project, need not be made.
"""

from __future__ import annotations

from ..program.model import expressions_of, walk_expr
from ..source.patterns import Later
from .graph_statistics import Statistics
from .graph_values import path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function
    from .graph_values import Path

LOOP = Later(r"(?m)^[ \t]*(?:async )?(?:for|while)\b")
FOR = Later(r"for(?<=\bfor)\b[^\n#]*\bin\b[^\n]*")
LOOPS = ("for", "while", "comp")
EVALUATING = (".eval(",)


class Preparing(Statistics):
    """Adds the question `prepares`."""

    def prepares(self, f: Function) -> bool:
        """Is the module that a function evaluates what it returns; is it neither called from there on, nor handed to
        what may call it again and again, and is nothing repeated? Also of one that evaluates in comments only."""
        text = self.text(f)
        if "return" not in text or f.name == "<module>" or f.parent is not None:
            return False
        calls = self.program.calls(f)
        evaluated = [e for e in calls if is_eval(e)]
        if not evaluated:
            return not any(g is not f for g in self.program.with_nested(f))  # a comment says so
        modules = {path_of(e[2][2]) for e in evaluated}
        if None in modules:
            return False
        first = min(e[1] >> 44 for e in evaluated)
        given = False
        for s in self.program.statements(f):
            begin = s[1] >> 44
            if begin + (s[1] >> 12 & 0xFFFFF) < first:
                continue
            found = [x for e in expressions_of(s) for x in walk_expr(e)]
            if s[0] in LOOPS or any(x[0] == "comp" and ends_behind(x, first) for x in found):
                return False
            if s[0] == "return":
                given = bool(s[2]) and any(returned_path(e) in modules for e in parts_of_result(s[2]))
                if not given:
                    return False
        later = [e for e in calls if e[1] >> 44 >= first and not is_eval(e)]
        return given and not any(self.may_run(e, modules, f) for e in later)

    def may_run(self, call: Expr, modules: set[Path | None], f: Function) -> bool:
        """May a call run one of the modules: is it called, or handed to a function that may call it again and again?"""
        func = call[2]
        if path_of(func) in modules:
            return True
        given = [*call[3], *(v for _, v in call[4])]
        if not any(path_of(x) in modules for e in given for x in walk_expr(e)):
            return False
        found = self.named(func[3]) if func[0] == "attr" else self.program.targets(call, self.program.scope(f))
        return any(runs_repeatedly(self.text(g), g) for g in found)

    def named(self, name: str) -> list[Function]:
        """The functions and methods of this name in all parsed modules but tests."""
        raise NotImplementedError


def is_eval(call: Expr) -> bool:
    func = call[2]
    return bool(func[0] == "attr" and func[3] == "eval" and not call[3] and not call[4])


def ends_behind(e: Expr, line: int) -> bool:
    return bool((e[1] >> 44) + (e[1] >> 12 & 0xFFFFF) >= line)


def parts_of_result(e: Expr) -> tuple[Expr, ...]:
    return e[2] if e[0] in ("tuple", "list") else (e,)


def returned_path(e: Expr) -> Path | None:
    """What is returned; `return model.eval()` gives the model."""
    return path_of(e[2][2] if e[0] == "call" and is_eval(e) else e)


def runs_repeatedly(text: str, f: Function) -> bool:
    """May a function call one of its parameters in a loop, by its text?"""
    return may_repeat_in(text) and any(f"{p[0]}(" in text or f"{p[0]}." in text for p in f.params)


def may_repeat_in(text: str) -> bool:
    """Can there be a loop or comprehension in a text?"""
    return LOOP.search(text) is not None or may_comprehend(text)


def may_comprehend(text: str) -> bool:
    """Can a comprehension stand in a text: a `for ... in` behind something, or on a line of its own without a colon?"""
    for found in FOR.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if before.strip() or not found[0].endswith(":"):
            return True
    return False
