"""The texts of modules as the rank analysis searches them: which words stand where, and in which function."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Function, Module
    from ..program.program import Program

    Spot = tuple["Page", int, int, Function]

SPACED = bytes(c if c >= 128 or chr(c).isalnum() or c == 95 else 32 for c in range(256))


def words_of(text: str) -> set[str]:
    """The words of a text, numbers among them (a third faster than a pattern)."""
    return set(text.encode("utf-8", "surrogatepass").translate(SPACED).decode("utf-8", "surrogatepass").split())


def callable_name(f: Function) -> str:
    """The name by which a function is called: a class for its constructor."""
    return str(f.owner.name if f.name == "__init__" and f.owner is not None else f.name)


class Where:
    """In which functions the words stand that are asked about: {word: [(page, start, end, function)]}; a module's own
    code has no one place, its start is -1."""

    __slots__ = ("asked", "spots")

    def __init__(self, asked: set[str]) -> None:
        self.asked = asked
        self.spots: dict[str, list[Spot]] = {}


class Page:
    """The text of a module with the places of its functions."""

    __slots__ = ("ends", "functions", "main", "module", "starts", "text", "tokens")

    def __init__(self, program: Program, module: Module, where: Where | None = None) -> None:
        self.module = module
        self.text = program.text(module.path) or ""
        self.main = program.main(module)
        mixed = "\r" in self.text
        lengths = map(len, self.text.splitlines(keepends=True) if mixed else self.text.split("\n"))
        lines = list(accumulate(lengths, initial=0))
        last = len(lines) - 1
        gap = 0 if mixed else 1  # the line feeds
        placed = []
        for f in module.all_functions():
            first, end = min(f.first_line - 1, last), min(f.end_line, last)
            placed.append((lines[first] + gap * first, lines[end] + gap * end, f))
        placed.sort(key=lambda x: (x[0], x[1]))
        self.starts = [p[0] for p in placed]
        self.ends = [p[1] for p in placed]
        self.functions = [p[2] for p in placed]
        self.tokens: set[str] = words_of(self.text) if where is None else self.placed(where)

    def placed(self, where: Where) -> set[str]:
        """All words of the text; notes the functions in which those stand that `where` asks about."""
        text, asked, spots = self.text, where.asked, where.spots
        tokens: set[str] = set()
        outside: list[str] = []
        at = 0
        for start, end, f in zip(self.starts, self.ends, self.functions):
            if start > at:
                outside.append(text[at:start])
            words = words_of(text[start:end])
            tokens |= words
            for word in words & asked:
                spots.setdefault(word, []).append((self, start, end, f))
            at = max(at, end)
        outside.append(text[at:])
        words = words_of("\n".join(outside))
        for word in words & asked:
            spots.setdefault(word, []).append((self, -1, len(text), self.main))
        return tokens | words

    def at(self, offset: int) -> Function:
        """The function (not a nested one) that holds an offset, or the module's own code."""
        n = bisect_right(self.starts, offset) - 1
        while n >= 0:
            if offset < self.ends[n]:
                return self.functions[n]
            n -= 1
            if n >= 0 and self.ends[n] < self.starts[n + 1]:
                break
        return self.main

    def places(self, word: str, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where a word stands."""
        text = self.text
        size = len(word)
        i = text.find(word, start, end)
        while i >= 0:
            after = text[i + size : i + size + 1]
            if not (after.isalnum() or after == "_") and not (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
                yield i
            i = text.find(word, i + size, end)

    def places_in(self, word: str, start: int, end: int) -> Iterator[int]:
        """Where a word stands in one function; with a start of -1 in the module's own code."""
        if start >= 0:
            return self.places(word, start, end)
        return (i for i in self.places(word) if self.at(i) is self.main)

    def holding(self, *texts: str) -> list[Function]:
        """The functions in which one of the texts stands, in their order."""
        found: dict[int, Function] = {}
        for text in texts:
            i = self.text.find(text)
            while i >= 0:
                f = self.at(i)
                found[id(f)] = f
                i = self.text.find(text, i + len(text))
        return sorted(found.values(), key=lambda f: f.pos)

    def before(self, offset: int) -> str:
        """What stands before an offset in its line."""
        return self.text[self.text.rfind("\n", 0, offset) + 1 : offset]

    def line(self, offset: int) -> tuple[int, str]:
        """(start, text) of the line that holds an offset."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return start, self.text[start : end if end >= 0 else len(self.text)]
