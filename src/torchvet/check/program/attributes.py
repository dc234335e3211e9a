"""What classes assign to their attributes. Only methods that by their text assign an attribute are lowered for it."""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Class, Expr, Function
    from .program import Program

    Assigned = list[tuple[Expr, Function]]


class Attributes:
    """See `Program.attribute` and `Program.own_attributes`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._own: dict[int, dict[str, Assigned]] = {}
        self._of: dict[tuple[int, str], Assigned] = {}
        self._rows: dict[tuple[str, str], list[int]] = {}
        self._set: dict[int, list[tuple[str, Expr]]] = {}

    def of(self, cls: Class, name: str) -> Assigned:
        key = (id(cls), name)
        if key not in self._of:
            found = self._of[key] = []
            for c in (cls, *self.program.bases(cls)[0]):
                found += self._own[id(c)].get(name, ()) if id(c) in self._own else self._assigned(c, name)
        return self._of[key]

    def own(self, cls: Class) -> dict[str, Assigned]:
        key = id(cls)
        if key not in self._own:
            out: dict[str, Assigned] = {}
            self._own[key] = out
            main = self.program.main(cls.module)
            for name, value in set_in_class(cls):
                out.setdefault(name, []).append((value, main))
            for method in cls.methods.values():
                for name, value in self._in_method(method):
                    out.setdefault(name, []).append((value, method))
        return self._own[key]

    def _assigned(self, cls: Class, name: str) -> Assigned:
        main = self.program.main(cls.module)
        out = [(value, main) for n, value in set_in_class(cls) if n == name]
        rows = self._lines_setting(cls.module.path, name)
        for method in cls.methods.values() if rows else ():
            at = bisect_left(rows, method.first_line)
            if at < len(rows) and rows[at] <= method.end_line:
                out += [(value, method) for n, value in self._in_method(method) if n == name]
        return out

    def _lines_setting(self, path: str, name: str) -> list[int]:
        """Numbers of the lines of a file on which `.name` may be assigned to."""
        key = (path, name)
        if key not in self._rows:
            word, lines = "." + name, self.program.lines(path)
            self._rows[key] = [r for r in self.program.lines_with(path, word) if may_set(lines[r - 1], word)]
        return self._rows[key]

    def _in_method(self, method: Function) -> list[tuple[str, Expr]]:
        """(attribute, assigned expression) of what a method assigns to attributes of its first parameter."""
        key = id(method)
        if key not in self._set:
            self._set[key] = out = []
            me = method.params[0][0] if method.params else ""
            for s in self.program.statements(method) if me else ():
                pairs: list[tuple[Expr, Expr]] = []
                if s[0] == "assign":
                    for t in s[2]:
                        if t[0] == "tuple" and s[3][0] == "tuple" and len(t[2]) == len(s[3][2]):
                            pairs += zip(t[2], s[3][2])
                        else:
                            pairs.append((t, s[3]))
                elif s[0] == "ann" and s[4]:
                    pairs.append((s[2], s[4]))
                for t, v in pairs:
                    if t[0] == "attr" and t[2][0] == "name" and t[2][2] == me:
                        out.append((t[3], v))
        return self._set[key]


def set_in_class(cls: Class) -> Iterator[tuple[str, Expr]]:
    """(name, value) of the assignments at class level."""
    for s in cls.block:
        if s[0] == "assign":
            for t in s[2]:
                if t[0] == "name":
                    yield t[2], s[3]
        elif s[0] == "ann" and s[4] and s[2][0] == "name":
            yield s[2][2], s[4]


def may_set(line: str, word: str) -> bool:
    """Can a line that holds `.name` assign to it: is it followed by `=`, or is it one of several names?"""
    at = line.find(word)
    while at >= 0:
        after = line[at + len(word) :].lstrip()
        if not after or (after[0] in "=,:)]\\" and after[:2] != "=="):
            return True
        at = line.find(word, at + 1)
    return False
