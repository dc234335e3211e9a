"""What keeps an autograd graph alive: the answers that the graph rules report.

`Graphs.kept()` gives every place where a value with a graph outlives the step that made it. A store is a fault when the
place lives through a loop in which each turn adds to it (or through the calls of the function, for attributes and
globals), the value carries a graph there, and nothing later runs backward over what was stored. After a backward in the
same turn a later one over the same graph is impossible, so a stored value whose graph is freed needs no further proof;
a value that is still alive is reported only in evaluation or across optimizer steps.
"""

from __future__ import annotations

from ... import knowledge
from ...findings import Edit, Fix, Text
from ..program.callers import called_names
from ..program.model import expressions_of, walk_expr
from ..source.patterns import Later
from .graph_keeping import STORES, Kept
from .graph_meters import Meters
from .graph_preparing import EVALUATING, LOOP, LOOPS, may_comprehend
from .graph_rewriting import ATTRIBUTE, calls_object, recurrent, recurrent_elements, rewrites
from .graph_values import NOTHING, OFF, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..program.model import Expr, Function, Module
    from ..program.program import Program
    from .graph_evaluation import Unguarded
    from .graph_marks import Mark
    from .graph_state import Carried
    from .graph_values import Graph

CALLER_LEVELS = 2
FEW_MODULES = 150
"""Modules up to which words are looked for in the texts rather than in an index of all names."""
AVERAGES = Later(r"[-+*]= |[^*\n]\*[^*\n]|\.\w+_\(| \+ | - ")
"""Where something is scaled, added or changed in place."""
MOST_USING = 24
"""Files that call something of a name, above which its callers are not looked for."""
ITEM = Later(r"self(?<=\bself)\.(\w+)\[[^\n=]*\] = ")
CONSTRUCTORS = ("__init__", "__post_init__")
CACHE = Later(r"@(?:\w+\.)*\w*cache")
"""A decorator that may cache results."""
BARE = Later(r"[\w.]+\(")
"""A line that begins with a call."""
OPEN = ("(", "[", "{", ",", "=", "+", "-", "*", "/", "\\", "and", "or", "return", "yield")
"""Ends of a line that the next one continues."""
GONE, RETURNED, PILED = range(3)
"""What becomes of what a call gives."""
TRAINING = (".backward(", "training_step(", "manual_backward(", "autograd.grad(")
DIFFERENTIATED = ("forward", "backward", "jvp", "vjp")
NAME = Later(r"(\w+)\($")
STEPPING = frozenset(("step", "zero_grad", "backward", "grad"))


class Graphs(Meters):
    """Graph lifetime over a program."""

    def __init__(self, program: Program, options: Any = None) -> None:
        super().__init__(program)
        self._kept: list[Kept] | None = None
        self._candidates: list[Function] | None = None
        self._methods: list[Function] | None = None
        self._training: set[int] = set()
        """Functions that call one which runs backward."""
        self._giving: set[int] = set()
        """Functions that may give their callers a value with a graph."""

    # ------------------------------------------------------------------------------------------------ where to look
    def candidates(self) -> list[Function]:
        """Functions that train or evaluate, and those that call them."""
        if self._candidates is None:
            self._candidates = self.find_candidates()
        return self._candidates

    def find_candidates(self) -> list[Function]:
        words = (*TRAINING, *EVALUATING, *(f"def {name}(" for name in self.hook_names()))
        out: dict[int, Function] = {}
        level: list[Function] = []
        modules = self.examined()
        if len(modules) > FEW_MODULES:
            named = self.program.files_naming(tuple({NAME.search(word)[1] for word in words}))
            modules = [m for m in modules if m.in_tests or m.path in named]
        for module in modules:
            for f in self.functions_holding(module, words):
                for g in self.program.with_nested(f):
                    if id(g) in out:
                        continue
                    own = self.own_text(g)
                    found = [w for w in words if w in own]
                    if found and not (found == [*EVALUATING] and self.prepares(g)):
                        out[id(g)] = g
                        level.append(g)
        for f in list(level):
            # whoever calls a trainer in the same file runs its steps
            if f.name == "<module>" or ".backward(" not in self.text(f):
                continue
            for g in self.functions_holding(f.module, (f.name + "(",)):
                if id(g) not in out:
                    out[id(g)] = g
                    level.append(g)
                    self._training.add(id(g))
        for above in range(CALLER_LEVELS, 0, -1):
            callers: list[Function] = []
            for f in level:
                asked = not self.runs_once(f) and self.may_return_graph(f) and not self.is_differentiated(f)
                if not asked or self.program.is_common(f, MOST_USING, f.module.in_tests):
                    continue
                among = self.files_using(f, above)
                if not among or not self.may_give_graph(f) or not (self.trains(f) or self.gives_evaluated(f)):
                    continue
                sites = self.program.callers(f, MOST_USING, 8, among, f.module.in_tests)
                using = [g for g, call in sites if not g.module.is_collected and self.uses(g, call, above)]
                if not using:
                    continue
                self._giving.add(id(f))
                new = [g for g in using if id(g) not in out]
                if new and (not self.trains(f) or self.gives_graph(f, out)):
                    callers += [g for g in dict.fromkeys(new) if id(g) not in out]
                    out.update((id(g), g) for g in new)
            level = callers
        return list(out.values())

    def is_differentiated(self, f: Function) -> bool:
        """Is a function the forward or backward of an autograd function, which nothing but autograd calls?"""
        if f.owner is None or f.name not in DIFFERENTIATED:
            return False
        return any(base.endswith("Function") for base in self.program.bases(f.owner)[1])

    def files_using(self, f: Function, above: int) -> frozenset[str]:
        """Files that by their text call a function in more than a bare statement, where results may pile up or go on to
        callers."""
        out = set()
        for path, row in self.lines_calling(f):
            if path in out:
                continue
            use = self._uses_on.get((path, row))
            if use is None:
                use = self._uses_on[path, row] = self.use_on(path, row)
            if use == PILED or (above > 1 and use == RETURNED):
                out.add(path)
        return frozenset(out)

    def use_on(self, path: str, row: int) -> int:
        """What may become of what a call on this line gives, by the text of the function around it."""
        line = self.program.source_line(path, row).strip()
        if BARE.match(line) and not self.program.source_line(path, row - 1).rstrip().endswith(OPEN):
            return GONE
        text = self.text_around(path, row)
        if STORES.search(text) or "for " in text or "while " in text:
            return PILED
        return RETURNED if "return " in text else GONE

    def uses(self, caller: Function, call: Expr, above: int) -> bool:
        """May what a call returns pile up in the caller, or in whoever calls that one?"""
        text = self.text(caller)
        if above > 1 and "return " in text and caller.name != "<module>":
            return True
        if not self.runs_once(caller):
            return STORES.search(text) is not None
        found = (*self.program.statements(caller), *self.program.expressions(caller))
        return any(x[0] in LOOPS and self.lies_in(call[1], x[1]) for x in found)

    def gives_graph(self, f: Function, known: dict[int, Function]) -> bool:
        """Does a function return something that its own backward goes over, or that such a function gave it?"""
        graph = self.graph(f)
        returned = {n for r in graph.returns for n in self.structure(r)}
        if any(n in reached for reached in map(self.reach, graph.backwards) for n in returned):
            return True
        if any(n.kind == "call" and any(id(g) in known for g, _ in self.targets(n)) for n in returned):
            return True
        return any(n in e.reached for e in self.events(graph, False) for n in returned)

    def may_return_graph(self, f: Function) -> bool:
        """May a function return something with a graph, by its text?"""
        text = self.text(f)
        if "return " not in text:
            return False
        return self.trains(f) or (".eval(" in text and not any(w in text for w in self.switching_words()))

    def may_give_graph(self, f: Function) -> bool:
        """May a function return something with a graph: by its own returns and, where it only evaluates, what they are
        made of?"""
        graph = self.graph(f)
        if not self.returns_matter(graph) or self.trains(f):
            return self.returns_matter(graph)
        return any(self.may_be_evaluated(n, graph) for n in graph.returns)

    def gives_evaluated(self, f: Function) -> bool:
        """Does a function that only evaluates return something with a graph? One that returns the module prepares
        it."""
        graph = self.graph(f)
        modules = {n for _, node, _ in graph.evals for n in self.structure(node)}
        parts = [n for r in graph.returns for n in (r.inputs if r.kind == "tuple" else (r,))]
        if any(not modules.isdisjoint(self.structure(n)) for n in parts):
            return False
        found = [n for n in parts if self.may_carry(n)]
        if any(n.kind == "call" and self.callee(n) in modules and n.mode != OFF for n in found):
            return True
        return any(self.may_be_evaluated(n, graph) and self.carries(n) for n in found)

    def may_be_evaluated(self, value: Node, graph: Graph) -> bool:
        """Is a value made by calls of modules in evaluation mode, or with them, by what is seen here?"""
        modules = {n for _, node, evaluates in graph.evals if evaluates for n in self.structure(node)} - graph.unpacked
        stack, seen = [value], set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or node is NOTHING:
                continue
            seen.add(node)
            if node.kind == "call" and node.data.evals:
                used = (self.callee(node), *node.inputs)
                if any(not modules.isdisjoint(self.structure(n)) for n in used if n is not NOTHING):
                    return True
            stack += self.sources(node)
        return False

    def trains(self, f: Function) -> bool:
        """Does a function run backward, or call one in its module that does?"""
        return id(f) in self._training or any(w in self.text(f) for w in TRAINING)

    def is_giving(self, f: Function) -> bool:
        return id(f) in self._giving or self.trains(f)

    def switching_words(self) -> set[str]:
        """The last names of what switches gradients off."""
        return {name.rpartition(".")[2] for name in knowledge.graph("no_grad_contexts")}

    def kept(self) -> list[Kept]:
        """Every place that keeps a value with its graph, each once."""
        if self._kept is None:
            found: dict[tuple[str, int], Kept] = {}
            for k in self.each([f for f in self.candidates() if self.may_grow(f)], self.kept_in):
                found.setdefault((k.module.path, k.pos >> 44), k)
            self._kept = list(found.values())
        return self._kept

    def may_grow(self, f: Function) -> bool:
        """Can anything grow in a function: may it be called again and again, does it loop (and store, in a test)?"""
        if self.is_differentiated(f):  # gradients are off in it
            return False
        if self.may_be_repeated(f):
            return True
        text = self.own_text(f)
        comprehends = may_comprehend(text)
        stores = not f.name.startswith("test_") or STORES.search(text) is not None
        if not comprehends and (LOOP.search(text) is None or not stores):
            return False
        return ".eval(" in text or self.trains_in_loop(f)

    def trains_in_loop(self, f: Function) -> bool:
        """Does a loop or comprehension of a function train, or run a function that does, by the names called in it?"""
        text = self.own_text(f)
        called = called_names(text)
        names = called & (self.trainer_names() | STEPPING | knowledge.graph("backward_methods"))
        names |= {name for name in called if name.endswith("caler")}
        rows = {row for name in names for row in self.program.lines_with(f.module.path, name, called=True)}
        rows = {row for row in rows if f.first_line <= row <= f.end_line}
        for s in self.program.statements(f) if rows else ():
            first = s[1] >> 44
            last = first + (s[1] >> 12 & 0xFFFFF)
            if s[0] in ("def", "class") or not any(first <= row <= last for row in rows):
                continue
            if s[0] in LOOPS or any(x[0] == "comp" for e in expressions_of(s) for x in walk_expr(e)):
                return True
        return False

    def evaluations(self) -> list[Unguarded]:
        found: dict[int, Unguarded] = {}
        for u in self.each(self.candidates(), self.unguarded_in):
            found.setdefault(id(u.function), u)
        return list(found.values())

    def carried(self) -> list[Carried]:
        """States that go from step to step with their graph."""
        looping = [f for f in self.candidates() if LOOP.search(self.own_text(f)) and self.trains_in_loop(f)]
        found = list(self.each(looping, self.carried_in))
        return found + list(self.each([f for f in self.methods() if self.may_recur(f)], self.carried_by_objects))

    def statistics(self) -> list[Carried]:
        """Running statistics that take a graph with them."""
        return list(self.each([f for f in self.methods() if self.may_average(f)], self.statistics_in))

    def each(self, functions: list[Function], question: Callable[[Function], Iterable[Any]]) -> Iterator[Any]:
        """The answers for each function; none for one whose expressions nest too deep (generated code)."""
        for f in functions:
            try:
                yield from list(question(f))
            except RecursionError:
                continue

    def methods(self) -> list[Function]:
        """Methods of the admitted modules that change an attribute of self by its own value, constructors left out."""
        if self._methods is None:
            self._methods = [f for module in self.examined() for f in self.methods_of(module)]
        return self._methods

    def methods_of(self, module: Module) -> Iterator[Function]:
        """`methods` of one module, each looked at up to the first such statement."""
        if ATTRIBUTE.search(self.program.text(module.path) or "") is None:
            return
        text, starts = self.program.indexed(module.path)
        for f in self.functions_in(module):
            if f.owner is not None and f.params and f.name not in CONSTRUCTORS and f.first_line <= len(starts):
                end = starts[f.end_line] if f.end_line < len(starts) else len(text)
                if rewrites(text, starts[f.first_line - 1], end) and f"{f.params[0][0]}." in self.text(f):
                    yield f

    def may_recur(self, f: Function) -> bool:
        """May a method hand an attribute to a call that makes its next value: one that no other method sets?"""
        text = self.text(f)
        for attribute, statement in recurrent(text):
            if calls_object(f, statement) and self.is_only_setter(f, attribute):
                return True
        # `self.h[i] = rnn(x, self.h[i])`, where another part of the result is cut, or backward runs over it
        if not any(text.count(f"self.{name}") > 1 for name in set(ITEM.findall(text))):
            return False
        if any(calls_object(f, statement) for statement in recurrent_elements(text)):
            return True
        return any(f".{m}(" in text for m in knowledge.graph("remover_methods"))

    def is_only_setter(self, f: Function, attribute: str) -> bool:
        """Does no other method than the constructor assign an attribute, by their texts?"""
        setting = f".{attribute} = "
        assert f.owner is not None
        others = [m for m in f.owner.methods.values() if m is not f and m.name != "__init__"]
        return not any(setting in self.text(m) for m in others)

    def may_average(self, f: Function) -> bool:
        """May a method keep a running value: does it scale and add to an attribute of a module, or average weights?"""
        text = self.text(f)
        iterators = knowledge.graph("parameter_iterators")
        if any(f".{m}(" in text for m in iterators) and AVERAGES.search(text) is not None:
            return True
        return f.owner is not None and self.is_module_class(f.owner)

    def retained(self) -> list[Mark]:
        texts = ("retain_graph", "create_graph")
        found = [f for f in self.candidates() if any(t in self.text(f) for t in texts)]
        return list(self.each(found, self.retained_in))

    def hooks(self) -> list[Mark]:
        return list(self.each(self.functions_saying("_hook(", ".backward("), self.hooks_in))

    def cached(self) -> list[Mark]:
        found = []
        for module in self.examined():
            for f in self.functions_matching(module, CACHE):
                if self.imports_torch(module) or "torch" in self.text(f):
                    nested = self.program.with_nested(f)
                    found += [g for g in nested if any("cache" in n for n in g.decorator_names())]
        return list(self.each(found, self.cached_in))

    def imports_torch(self, module: Module) -> bool:
        """Does a module import anything of torch for sure, by its text?"""
        text = self.program.text(module.path) or ""
        return "\nimport torch" in text or "\nfrom torch" in text

    def emptied(self) -> list[Mark]:
        return list(self.each([f for f in self.candidates() if "empty_cache" in self.text(f)], self.emptied_in))

    def functions_saying(self, word: str, beside: str) -> list[Function]:
        """The functions of the admitted modules (nested ones too) whose text holds a word; another word stands in the
        same module."""
        out = []
        for module in self.examined():
            if beside in (self.program.text(module.path) or ""):
                for f in self.functions_holding(module, (word,)):
                    out += [g for g in self.program.with_nested(f) if word in self.text(g)]
        return out

    # --------------------------------------------------------------------------------------------------------- texts
    def detached_text(self, kept: Kept) -> str:
        """The value with `.detach()` behind it, as far as it fits a line."""
        text = kept.value
        if not text or len(text) > 48 or kept.expr is None:
            return ".detach()"
        return f"{text}.detach()" if kept.expr[0] in ("name", "attr", "sub", "call") else f"({text}).detach()"

    def detaching(self, kept: Kept) -> list[Edit]:
        """Edits that put `.detach()` behind what is kept; none where that is no tensor by itself."""
        expr = kept.expr
        if not expr or not kept.plain or expr[0] in ("tuple", "list", "dict", "set", "comp", "star", "lambda", "big"):
            return []
        line, column, end_line, end_column = self.program.span(kept.module, expr[1])
        if expr[0] in ("name", "attr", "sub", "call"):
            return [Edit(end_line, end_column, end_line, end_column, ".detach()")]
        return [
            Edit(line, column, line, column, "("),
            Edit(end_line, end_column, end_line, end_column, ").detach()"),
        ]

    def switching_off(self, found: Unguarded) -> Fix | None:
        """`@torch.no_grad()` above a function that only evaluates; none where it trains too, or without torch."""
        f = found.function
        graph = self.graph(f)
        if f.name == "<module>" or f.parent is not None or self.events(graph, False) or f.is_generator:
            return None
        if f.module.names.get("torch") != ("import", "torch"):
            return None
        line = self.program.source_line(f.module, f.line)
        indent = line[: len(line) - len(line.lstrip())]
        return Fix(
            Text("run {name} without gradients", "让 {name} 不记录梯度", name=f.name),
            [Edit(f.line, 1, f.line, 1, f"{indent}@torch.no_grad()\n")],
            safe=False,
        )
