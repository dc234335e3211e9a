"""The graphs of a program's functions and the texts they come from."""

from __future__ import annotations

from bisect import bisect_right

from ..source.patterns import Later
from .graph_build import graph_of
from .graph_expressions import Shared
from .graph_values import Graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..program.model import Class, Expr, Function, Module
    from ..program.program import Program
    from .graph_values import Node

FUEL = 600
"""Steps of `Summaries.collect` for one question from outside."""
WRITTEN = Later(
    r"\b(?:\s*[-+*/]?=(?!=)|\s*\[[^\n]*=|\s*,[^\n()]*=(?!=)|\.(?:append\w*|extend|insert|add|update|setdefault|\w+_)\()"
)
CALLED = Later(r"\(")
HEADS = ("def ", "async def ", "class ")
USED = Later(r"\.\w+\(")
GIVING = Later(r"return(?<=\breturn)\b[ \t]*[^\s#]")


class Library:
    """Makes the graph of a function when it is first asked for; nothing is computed for functions nobody asks about."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.shared = Shared(program)
        self._graphs: dict[int, Graph] = {}
        self._own_texts: dict[int, str] = {}
        self._functions: dict[str, list[Function]] = {}
        self._heads: dict[str, list[tuple[int, int, bool]]] = {}
        """By file: (line, indentation, is it a function) of every definition."""
        self._around: dict[tuple[str, int, int], str] = {}
        self._places: dict[tuple[str, int], tuple[str, int, int]] = {}
        """The lines of the function around a line: functions of one name are called on the same lines."""
        self._uses_on: dict[tuple[str, int], int] = {}
        self._callers_texts: dict[int, list[tuple[str, int, str]]] = {}
        self._users: dict[int, dict[Node, list[Node]]] = {}
        self._holders: dict[tuple[int, str, Later | None], list[Function]] = {}
        self.fuel = 0
        self.nesting = 0

    def enter(self) -> None:
        """Each question from outside has its fuel; the questions that it asks share it."""
        if self.nesting == 0:
            self.fuel = FUEL
        self.nesting += 1

    def graph(self, f: Function) -> Graph:
        known = self._graphs.get(id(f))
        if known is None:
            try:
                known = graph_of(self.program, f, self.shared)
            except RecursionError:  # an expression of many hundred operators: generated code
                known = Graph(f)
            self._graphs[id(f)] = known
        return known

    def returned(self, f: Function) -> list[Node]:
        """What a function returns; its graph is made only where its text returns anything."""
        text = self.text(f)
        return self.graph(f).returns if GIVING.search(text) is not None else []

    def given_back(self, f: Function) -> list[Node]:
        """What a function returns, or yields where it returns nothing."""
        return self.returned(f) or ([y for y, _ in self.graph(f).yields] if "yield" in self.text(f) else [])

    def examined(self) -> list[Module]:
        """The modules in which faults are looked for. Tests run a few steps and end, and what they keep ends with them;
        in large projects they are half of the code."""
        beyond = self.program.loaded_on_demand
        return [m for p, m in self.program.modules.items() if p not in beyond and not m.is_collected]

    def functions_in(self, module: Module) -> list[Function]:
        """The functions and methods of a module, nested ones left out."""
        known = self._functions.get(module.path)
        if known is None:
            known = self._functions[module.path] = list(module.all_functions())
        return known

    def functions_holding(self, module: Module, words: Iterable[str]) -> list[Function]:
        """The functions and methods of a module (nested ones left out) in whose lines one of the words stands; first
        the module's own code, when one stands there."""
        text = self.program.text(module.path) or ""
        rows = {row for word in words if word in text for row in self.program.lines_with(module.path, word)}
        found = self.program.functions_on(module, sorted(rows)) if rows else []
        return [*found[-1:], *found[:-1]] if found and found[-1].name == "<module>" else found

    def functions_matching(self, module: Module, pattern: Later) -> list[Function]:
        """The functions and methods of a module (nested ones left out) in whose lines a match of a pattern begins: all
        those whose own text it matches, and few others."""
        if pattern.search(self.program.text(module.path) or "") is None:
            return []
        text, starts = self.program.indexed(module.path)
        out: list[Function] = []
        found = pattern.search(text)
        while found is not None:
            row = bisect_right(starts, found.start())
            holding = self.program.functions_on(module, [row])[0]
            if holding.name == "<module>":
                end = row
            else:
                out.append(holding)
                end = holding.end_line
            found = pattern.search(text, starts[end]) if end < len(starts) else None
        return out

    def texts_calling(self, f: Function) -> list[tuple[str, int, str]]:
        """(file, line, text of the function around it, without its head) of the calls that by their text may run a
        function, whether their files are parsed or not."""
        known = self._callers_texts.get(id(f))
        if known is None:
            known = self._callers_texts[id(f)] = [
                (path, row, self.text_around(path, row)) for path, row in self.lines_calling(f)
            ]
        return known

    def lines_calling(self, f: Function) -> Iterator[tuple[str, int]]:
        """(file, line) of the calls that by their text may run a function. What tests do with the code that they test
        says nothing about a training: their calls count for other test code only."""
        return self.program.lines_calling(f, f.module.in_tests)

    def text_around(self, path: str, row: int) -> str:
        """The text of the function around a line, without its head."""
        place = self._places.get((path, row))
        if place is None:
            place = self._places[path, row] = (path, *self.lines_around(path, row))
        known = self._around.get(place)
        if known is None:
            known = self._around[place] = self.program.text_between(*place)
        return known

    def lines_around(self, path: str, row: int) -> tuple[int, int]:
        """(first, end) of the lines below the head of the innermost function around line `row` (from 1), by
        indentation, up to the next definition that is not inside it; all lines where there is none."""
        heads = self._heads.get(path)
        if heads is None:
            lines = enumerate(self.program.lines(path))
            found = [(i, line.lstrip(), line) for i, line in lines if "def " in line or "class " in line]
            heads = self._heads[path] = [
                (i, len(line) - len(words), words[0] != "c") for i, words, line in found if words.startswith(HEADS)
            ]
        line = self.program.source_line(path, row)
        count = len(self.program.indexed(path)[1])
        indent = len(line) - len(line.lstrip())
        at = next((k for k in range(len(heads) - 1, -1, -1) if heads[k][0] < row), -1)
        below = at + 1
        while at >= 0 and (heads[at][1] >= indent or not heads[at][2]):
            at -= 1
        if at < 0:
            return 0, count
        return heads[at][0] + 1, next((i for i, n, _ in heads[below:] if n <= heads[at][1]), count)

    def text(self, f: Function) -> str:
        """The source of a function: cut from its file when asked, all of them would be the files once more."""
        return self.program.text_of(f)

    def text_at(self, graph: Graph, expr: Expr | None) -> str:
        """The source text of an expression, when it stands on one line."""
        if not expr:
            return ""
        module = graph.function.module
        line, column, end_line, end_column = self.program.span(module, expr[1])
        if line != end_line:
            return ""
        return self.program.source_line(module, line)[column - 1 : end_column - 1]

    def users(self, graph: Graph) -> dict[Node, list[Node]]:
        """Where each node of a graph goes: the reverse of the edges."""
        known = self._users.get(id(graph))
        if known is None:
            known = self._users[id(graph)] = {}
            for node in graph.nodes:
                for source in self.sources(node):
                    known.setdefault(source, []).append(node)
        return known

    def sources(self, node: Node) -> Iterator[Node]:
        yield from node.inputs
        if node.kind == "box":
            yield from node.data.entries.values()
        elif node.kind == "snap":
            yield from node.data.values()
        elif node.kind == "lambda":
            yield node.data
        yield from node.graph.contents.get(node, ()) if node.graph else ()

    def holders(self, cls: Class, key: str, how: Later | None = None) -> list[Function]:
        """The methods of a class and its ancestors in whose text an attribute (key ".x") stands; `how`: only those
        that write it (WRITTEN), call it (CALLED) or call a method of it (USED)."""
        mark = (id(cls), key, how)
        known = self._holders.get(mark)
        if known is None:
            known = self._holders[mark] = []
            for c in (cls, *self.program.bases(cls)[0]):
                for method in c.methods.values():
                    text = self.text(method)
                    if key in text and method not in known and (how is None or follows(text, key, how)):
                        known.append(method)
        return known

    def own_text(self, f: Function) -> str:
        """The text of a function; of a module, its own code without what it defines."""
        if f.name != "<module>":
            return self.text(f)
        key = id(f)
        if key not in self._own_texts:
            lines = list(self.program.lines(f.module.path))
            for g in self.functions_in(f.module):
                lines[g.first_line - 1 : g.end_line] = [""] * (g.end_line - g.first_line + 1)
            self._own_texts[key] = "\n".join(lines)
        return self._own_texts[key]


def follows(text: str, key: str, pattern: Later) -> bool:
    """Does the pattern match behind the key somewhere? One pattern for all keys: compiling one costs 0.3 ms."""
    at = text.find(key)
    while at >= 0:
        if pattern.match(text, at + len(key)):
            return True
        at = text.find(key, at + 1)
    return False
