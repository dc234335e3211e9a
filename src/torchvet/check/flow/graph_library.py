"""The graphs of a program's functions, the texts they come from, and what decorators make of their results.

A decorator of the project is looked into: does what it returns, or what the functions that it returns give, come of
what it was handed? One from outside is known by its package; where nothing is known, what the call gives is unknown.
"""

from __future__ import annotations

from bisect import bisect_right

from ... import knowledge
from ..source.patterns import Later
from .graph_build import graph_of
from .graph_expressions import Shared
from .graph_values import NOTHING, Graph, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..program.model import Class, Expr, Function, Module
    from ..program.program import Program

FUEL = 600
"""Steps of `Summaries.collect` for one question from outside."""
WRITTEN = Later(
    r"\b(?:\s*[-+*/]?=(?!=)|\s*\[[^\n]*=|\s*,[^\n()]*=(?!=)|\.(?:append\w*|extend|insert|add|update|setdefault|\w+_)\()"
)
CALLED = Later(r"\(")
HEADS = ("def ", "async def ", "class ")
USED = Later(r"\.\w+\(")
HEAD = Later(r"def \w+\(([^()]*)")
PASSED = Later(r"\breturn (?:await )?(\w+)(?:\(|\n)")
CALLED_FIRST = Later(r"\b(\w+) = (?:await )?(\w+)\(")
PLAIN = Later(r"(?<![*\w])\w+")
"""A parameter that takes one argument."""
DEEPEST_WRAPPER = 4
"""Functions in functions that a decorator returns."""
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


class Decorators(Library):
    """Adds to the graphs what decorators do with results."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._gives_own: dict[int, bool] = {}
        self._hands_on: dict[int, bool] = {}

    def returned(self, f: Function) -> list[Node]:
        return super().returned(f) if not f.decorators or self.gives_own(f) else []

    def gives_own(self, f: Function) -> bool:
        """Does a call of a decorated function give what the function returns?"""
        known = self._gives_own.get(id(f))
        if known is None:
            self._gives_own[id(f)] = True  # a decorator that decorates itself
            known = self._gives_own[id(f)] = self.find_gives_own(f)
        return known

    def find_gives_own(self, f: Function) -> bool:
        keeping = tuple(knowledge.graph("transparent_decorator_prefixes"))
        scope = self.program.scope(f)
        for d in f.decorators:
            found = self.program.entities(d[2] if d[0] == "call" else d, scope.parent or scope)
            for x in found:
                if (x[0] == "ext" and x[1].startswith(keeping)) or x[0] in ("class", "inst"):
                    continue
                if x[0] not in ("func", "method") or not self.hands_on_result(x[1]):
                    return False
            if not found:
                return False
        return True

    def hands_on_result(self, decorator: Function) -> bool:
        """Does what a decorator returns come of the function that it is handed, called or not?"""
        known = self._hands_on.get(id(decorator))
        if known is None:
            self._hands_on[id(decorator)] = True
            known = self.passes_by_text(decorator) or self.comes_of(decorator, frozenset(), DEEPEST_WRAPPER)
            self._hands_on[id(decorator)] = known
        return known

    def passes_by_text(self, decorator: Function) -> bool:
        """Does a decorator say that it returns what its function gives, or the function: `return fn(*args)`?"""
        text = self.text(decorator)
        given = {name for head in HEAD.findall(text) for name in PLAIN.findall(head)}
        if any(name in given for name in PASSED.findall(text)):
            return True
        return any(fn in given and f"return {kept}\n" in text for kept, fn in CALLED_FIRST.findall(text))

    def comes_of(self, f: Function, names: frozenset[str], levels: int) -> bool:
        """Does what a function returns come of one of its parameters, or of one of these names around it?"""
        graph = self.graph(f)
        names |= {p[0] for p in f.params if p[1] in ("pos", "kw") and p[0] != graph.self_name}
        around = names.difference(graph.params) if levels < DEEPEST_WRAPPER else names
        if any(r.kind == "param" and r.data in names for r in graph.returns):
            return True  # the function itself
        stack, seen = [*graph.returns, *(y for y, _ in graph.yields)], set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or node is NOTHING:
                continue
            seen.add(node)
            if node.kind in ("param", "free") and node.data in around:
                return True
            if node.kind == "func" and levels and self.comes_of(node.data, names, levels - 1):
                return True
            if node.kind == "call":
                stack += (node.data.callee, node.data.receiver, *node.data.arguments)
            stack += self.sources(node)
        return False


def follows(text: str, key: str, pattern: Later) -> bool:
    """Does the pattern match behind the key somewhere? One pattern for all keys: compiling one costs 0.3 ms."""
    at = text.find(key)
    while at >= 0:
        if pattern.match(text, at + len(key)):
            return True
        at = text.find(key, at + 1)
    return False
