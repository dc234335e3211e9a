"""What keeps an autograd graph alive: the answers that the graph rules report.

`Graphs.kept()` gives every place where a value with a graph outlives the step that made it. A store is a fault when the
place lives through a loop in which each turn adds to it (or through the calls of the function, for attributes and
globals), the value carries a graph there, and nothing later runs backward over what was stored. After a backward in the
same turn a later one over the same graph is impossible, so a stored value whose graph is freed needs no further proof; a
value that is still alive is reported only in evaluation or across optimizer steps.
"""

from __future__ import annotations

import re

from ... import knowledge
from ...findings import Edit, Fix, Text
from ..program.model import span_of
from .graph_carry import Carry, Carrying
from .graph_evaluation import Evaluations, Unguarded
from .graph_fate import Fates
from .graph_marks import Mark, Marks
from .graph_state import Carried, States
from .graph_values import ALIVE, FREED, INHERIT, MAYBE, NOTHING, OFF, ON, Graph, Loop, Node, Store, contradict, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Expr, Function, Module
    from ..program.program import Program

CALLER_LEVELS = 2
STATE = re.compile(
    r"\bself\.(\w+)\b[^=\n#]*(?<![=!<>])=(?!=)[^=#]{0,160}?\bself\.\1\b"  # self.x = f(self.x), over a few lines
    r"|\bself\.\w+ ?[-+*]=\s|\bself\.\w+\.(?:\w+_)\(|\bself\.\w+\[[^\n=]*\] = "
)
"""A method that may carry state from call to call."""
TRAINING = (".backward(", "training_step(", "manual_backward(")
EVALUATING = (".eval(",)


class Kept:
    """A place that keeps a value with its graph.

    `how` is that of `Store`, or "meter" when the place is behind a call; `name` the text of the place; `state` FREED or
    ALIVE; `function` and `pos` where it is reported; `store_at` (module, pos) of the statement that keeps it, when that is
    elsewhere; `source` (module, pos) of the value's origin; `evaluation`: made in evaluation; `expr` what to detach.
    """

    __slots__ = (
        "carry", "evaluation", "expr", "function", "how", "module", "name", "plain", "pos", "source", "state", "store_at",
        "value",
    )  # fmt: skip

    def __init__(self, how: str, function: Function, pos: int, name: str, value: str, carry: Carry, expr: Expr | None) -> None:
        self.how = how
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.name = name
        self.value = value
        self.state = carry.state
        self.carry = carry
        self.expr = expr
        self.plain = True
        self.evaluation = False
        self.store_at: tuple[Module, int] | None = None
        root = carry.root
        self.source: tuple[Module, int] | None = (root.graph.function.module, root.pos)

    @property
    def alive(self) -> bool:
        return self.state == ALIVE


class Graphs(Evaluations, Marks, States, Fates, Carrying):
    """Graph lifetime over a program."""

    def __init__(self, program: Program, options: Any = None) -> None:
        super().__init__(program)
        self._kept: list[Kept] | None = None
        self._candidates: list[Function] | None = None
        self._methods: list[Function] | None = None
        self._own_texts: dict[int, str] = {}

    # ------------------------------------------------------------------------------------------------ where to look
    def candidates(self) -> list[Function]:
        """Functions that train or evaluate, and those that call them."""
        if self._candidates is None:
            self._candidates = self.find_candidates()
        return self._candidates

    def find_candidates(self) -> list[Function]:
        out: dict[int, Function] = {}
        level: list[Function] = []
        for module in [m for p, m in self.program.modules.items() if p not in self.program.loaded_on_demand]:
            text = self.program.text(module.path) or ""
            if not any(w in text for w in (*TRAINING, *EVALUATING)):
                continue
            for f in (self.program.main(module), *module.all_functions()):
                for g in self.program.with_nested(f):
                    if id(g) in out:
                        continue
                    own = self.own_text(g)
                    if any(w in own for w in (*TRAINING, *EVALUATING)):
                        out[id(g)] = g
                        level.append(g)
        for f in list(level):
            # whoever calls a trainer in the same file runs its steps
            if f.name == "<module>" or ".backward(" not in self.text(f):
                continue
            called = f.name + "("
            for g in (self.program.main(f.module), *f.module.all_functions()):
                if id(g) not in out and called in self.own_text(g):
                    out[id(g)] = g
                    level.append(g)
        for _ in range(CALLER_LEVELS):
            above: list[Function] = []
            for f in level:
                if f.name == "<module>" or not self.gives_graph(f):
                    continue
                for caller, _ in self.program.callers(f)[:8]:
                    if id(caller) not in out:
                        out[id(caller)] = caller
                        above.append(caller)
            level = above
        return list(out.values())

    def own_text(self, f: Function) -> str:
        """The text of a function; of a module, its own code without what it defines."""
        if f.name != "<module>":
            return self.text(f)
        key = id(f)
        if key not in self._own_texts:
            lines = list(self.program.lines(f.module.path))
            for g in f.module.all_functions():
                lines[g.first_line - 1 : g.end_line] = [""] * (g.end_line - g.first_line + 1)
            self._own_texts[key] = "\n".join(lines)
        return self._own_texts[key]

    def gives_graph(self, f: Function) -> bool:
        """Does a function return a value with a graph?"""
        graph = self.graph(f)
        return self.returns_matter(graph) and any(self.carry(r) for r in graph.returns)

    def kept(self) -> list[Kept]:
        """Every place that keeps a value with its graph, each once."""
        if self._kept is None:
            found: dict[tuple[str, int], Kept] = {}
            for f in self.candidates():
                for k in self.kept_in(f):
                    found.setdefault((k.module.path, k.pos >> 44), k)
            self._kept = list(found.values())
        return self._kept

    def evaluations(self) -> list[Unguarded]:
        return self.unguarded(self.candidates())

    def carried(self) -> list[Carried]:
        """States that go from step to step with their graph."""
        return [c for f in self.candidates() for c in self.carried_in(f)] + [
            c for f in self.methods() for c in self.carried_by_objects(f)
        ]

    def statistics(self) -> list[Carried]:
        return [c for f in self.methods() for c in self.statistics_in(f)]

    def methods(self) -> list[Function]:
        """Methods that write attributes of self in the admitted modules, constructors left out."""
        if self._methods is None:
            self._methods = []
            for path, module in list(self.program.modules.items()):
                if path in self.program.loaded_on_demand:
                    continue
                for f in module.all_functions():
                    if f.owner is not None and f.params and f.name != "__init__" and self.writes_self(f):
                        self._methods.append(f)
        return self._methods

    def writes_self(self, f: Function) -> bool:
        """Does the text of a method read and write one attribute of self in one statement?"""
        text = self.text(f)
        return f"{f.params[0][0]}." in text and bool(STATE.search(text))

    def retained(self) -> list[Mark]:
        return [m for f in self.candidates() if "retain_graph" in self.text(f) or "create_graph" in self.text(f) for m in self.retained_in(f)]

    def hooks(self) -> list[Mark]:
        return [m for f in self.functions_saying("_hook(") for m in self.hooks_in(f)]

    def cached(self) -> list[Mark]:
        return [m for f in self.functions_saying("cache") if f.decorators for m in self.cached_in(f)]

    def emptied(self) -> list[Mark]:
        return [m for f in self.candidates() if "empty_cache" in self.text(f) for m in self.emptied_in(f)]

    def functions_saying(self, word: str) -> list[Function]:
        """The functions of the admitted modules (nested ones too) whose text holds a word."""
        out = []
        for path, module in list(self.program.modules.items()):
            if path in self.program.loaded_on_demand or word not in (self.program.text(path) or ""):
                continue
            for f in (self.program.main(module), *module.all_functions()):
                if word in self.text(f):
                    out += [g for g in self.program.with_nested(f) if word in self.text(g)]
        return out

    def kept_in(self, f: Function) -> Iterator[Kept]:
        graph = self.graph(f)
        for store in graph.stores:
            k = self.judge(store)
            if k is not None:
                yield k
        for node in list(graph.calls.values()):
            yield from self.metered(node)

    # ---------------------------------------------------------------------------------------------------- one store
    def judge(self, store: Store) -> Kept | None:
        if store.call is not None and self.targets(store.call) or self.is_overwritten(store):
            return None
        graph = store.graph
        loops, outlives = self.growth(store)
        if not loops and not (outlives and self.is_repeated(graph, store)):
            return None
        found = self.carry(store.value, (), loops[0] if loops else None)
        if found is None or not self.counts(store.acc, found, loops, graph, store.guards) or self.is_off(found):
            return None
        k = Kept(store.how, graph.function, store.pos, self.name_of(store), self.text_at(graph, store.expr), found, store.expr)
        k.evaluation = self.in_evaluation(found)
        k.plain = is_plain(store.value)
        return k

    def counts(self, acc: Node, found: Carry, loops: list[Loop], graph: Graph, guards: Any) -> bool:
        """Is a kept value a fault: not used by a later backward, kept over more than one step."""
        if any(acc in e.accs for e in self.events(graph)) or loops and not self.is_made_in(found, loops[0], acc.data.value):
            return False
        if loops and self.is_micro(loops, graph):
            return False
        if found.state == FREED:
            return True
        if self.in_evaluation(found):
            return not self.fate(acc).trained
        if loops and any(self.steps_in(loop, graph) for loop in loops):
            fate = self.fate(acc)
            return not fate.trained and not fate.unknown
        return False

    def is_overwritten(self, store: Store) -> bool:
        """Is the same place written each time: `x["loss"] = v`."""
        return store.how == "item" and (store.key is None or store.key[0] in ("const", "attr"))

    def is_made_in(self, found: Carry, loop: Loop, value: Node) -> bool:
        """Is the value made in each turn of the loop, or only named again there?"""
        node = found.sites[0] if found.sites else found.root
        if node.graph is not loop.graph:
            return not self.comes_from_outside(value)
        while node.kind in ("elem", "iter") and node.inputs:
            node = node.inputs[0]
        if node.kind in ("param", "free"):
            return False
        return loop in nest_of(node.loop) or node.kind in ("phi", "join", "acc", "snap")

    def comes_from_outside(self, value: Node) -> bool:
        """Is a value an element of what the function was given?"""
        root = value
        while root.kind in ("elem", "iter", "op", "join", "phi") and root.inputs:
            root = root.inputs[0]
        return root.kind == "param" and root.data != root.graph.self_name

    def is_off(self, found: Carry) -> bool:
        """Do all known callers switch gradients off where the value is made?"""
        return found.state == ALIVE and self.mode_at(found.root) != ON

    def growth(self, store: Store) -> tuple[list[Loop], bool]:
        """(loops of the function in each turn of which the place grows, innermost first; whether the place outlives the
        function)."""
        if store.how == "comp":
            return [lo for lo in nest_of(store.loop) if lo.kind == "comp"], False
        nest = nest_of(store.loop)
        loops: set[Loop] = set()
        outer = False
        seen: set[Node] = set()
        carried = store.how in ("add", "inplace", "cat")
        stack: list[tuple[Node, int]] = [(store.place, 0)]
        while stack:
            node, depth = stack.pop()
            if node in seen or depth > 12:
                continue
            seen.add(node)
            kind = node.kind
            if kind == "phi":
                if carried:
                    loops.add(node.data)
                    stack.append((node.inputs[0], depth + 1))
                    stack += [(n, depth + 1) for n in node.inputs[1:] if n.kind == "box"]
                else:
                    stack += [(n, depth + 1) for n in node.inputs]
            elif kind == "join":
                stack += [(n, depth + 1) for n in node.inputs]
            elif kind == "acc":
                stack.append((node.inputs[0], depth + 1))
            elif kind == "op" and (carried or node.data in ("copy", "slice")):
                stack += [(n, depth + 1) for n in node.inputs]
            elif kind in ("box", "object"):
                if kind == "box" and node.data.bounded:
                    return [], False
                if not carried or kind == "box":
                    inside = set(nest_of(node.loop))
                    loops.update(lo for lo in nest if lo not in inside)
            elif kind in ("elem", "iter"):
                root = node
                while root.kind in ("elem", "iter") and root.inputs:
                    root = root.inputs[0]
                if root.kind in ("box", "object"):
                    inside = set(nest_of(root.loop))
                    loops.update(lo for lo in nest if lo not in inside)
                elif root.kind in ("param", "free"):
                    if kind == "elem" or not carried:
                        outer = True
                        loops.update(nest)
                elif root.kind == "call":
                    inside = set(nest_of(root.loop))
                    loops.update(lo for lo in nest if lo not in inside)
                elif root.kind in ("phi", "join", "acc", "op"):
                    stack.append((root, depth + 1))
            elif kind == "free" or kind == "param" and not carried:
                outer = True
                loops.update(nest)
            elif kind == "call" and self.gives_state(node):
                outer = True
                loops.update(nest)
        if carried and len(store.path) == 1 and store.place.kind != "free":
            outer = False  # a local name is bound anew in each call
        kept = [lo for lo in nest if lo in loops and not any(store.path[: len(p)] == p for p in lo.resets)]
        if outer and len(kept) < len([lo for lo in nest if lo in loops]):
            outer = False
        return kept, outer

    def gives_state(self, node: Node) -> bool:
        """Does a call return something that an object keeps: a tensor or list out of its attributes?"""
        for f, _ in self.targets(node):
            graph = self.graph(f)
            stack = list(graph.returns)
            for _ in range(24):
                if not stack:
                    break
                root = stack.pop()
                if root.kind in ("join", "phi"):
                    stack += root.inputs
                elif root.kind == "elem":
                    if root.inputs[0].kind == "param" and root.inputs[0].data == graph.self_name:
                        return True
                    stack.append(root.inputs[0])
        return False

    def is_repeated(self, graph: Graph, store: Store | None) -> bool:
        """Is the function run step after step: it trains by itself, its framework calls it, or a caller's loop does."""
        f = graph.function
        if store is not None:
            path = store.path
            if len(path) >= 2 and path[0] == graph.self_name and graph.attributes.get(path[1] + "="):
                return False
        if f.name in ("__init__", "<module>"):
            return False
        if graph.backwards or f.name in knowledge.graph("step_methods"):
            return True
        if any(e.loop is None and e.pos == f.pos for e in self.events(graph)):
            return True
        if f.parent is not None and self.graph(f.parent).backwards:
            return True
        return any(call.loop is not None for call in self.calls_of(f))

    def is_micro(self, loops: list[Loop], graph: Graph) -> bool:
        """Gradient accumulation: the optimizer steps outside the loop, so that the sum lives for one step."""
        outermost = loops[-1]
        if any(outermost in nest_of(loop) for _, loop in graph.steps):
            return False
        around = outermost.parent
        return around is not None and any(around in nest_of(loop) for _, loop in graph.steps)

    def steps_in(self, loop: Loop, graph: Graph) -> bool:
        """Does backward or an optimizer step run in each turn of a loop, here or in what it calls?"""
        if any(loop in nest_of(e.loop) for e in self.events(graph)) or any(loop in nest_of(at) for _, at in graph.steps):
            return True
        for node in graph.calls.values():
            if node.kind == "call" and loop in nest_of(node.loop):
                for f, _ in self.targets(node):
                    if ".backward(" in self.text(f):
                        return True
        return False

    def in_evaluation(self, found: Carry) -> bool:
        """Was the value made by a module in evaluation mode?"""
        for node in (found.root, *found.sites):
            if node.kind == "call":
                for entries in node.data.evals.values():
                    if any(evaluates and not contradict(guards, node.guards) for guards, evaluates, _ in entries):
                        return True
        return False

    # ------------------------------------------------------------------------------------------------------- meters
    def metered(self, node: Node, sites: tuple[Node, ...] = ()) -> Iterator[Kept]:
        """A call that hands a value with a graph to a method that keeps it."""
        if node.kind != "call" or not any(n.kind not in ("param", "free", "context", "func") for n in node.inputs):
            return
        call = node.data
        if call.method in ("update", "forward", "__call__") and self.keeps_inputs(call.receiver):
            yield from self.kept_by(node, node, [(n, None) for n in call.arguments[:1]])
            return
        if not any(self.carry(n) for n in (*call.arguments, *call.keywords.values()) if n is not NOTHING):
            return
        for f, _ in self.targets(node)[:3]:
            if f.name == "__init__" or len(self.text(f)) > 20_000:
                continue
            found = list(self.keepers_of(f, ()))
            if found:
                yield from self.kept_by(node, node, [(s, path) for s, path in found])

    def keeps_inputs(self, receiver: Node) -> bool:
        if receiver.kind == "object" and isinstance(receiver.data, str):
            return knowledge.metric_state(receiver.data) == "list"
        if receiver.kind in ("elem", "free"):
            nodes = self.bound(receiver) if receiver.kind == "free" else [n for n, _ in self.parts_of(receiver, (), 4)]
            return any(n.kind == "object" and self.keeps_inputs(n) for n in nodes)
        return False

    def keepers_of(self, f: Function, path: tuple[Node, ...]) -> Iterator[tuple[Store, tuple[Node, ...]]]:
        """The stores of a function (and of what it calls, two levels) that keep something made of its parameters in an
        object that outlives the call, with the calls that lead there."""
        if ("keepers", id(f)) in self._busy or len(path) > 2:
            return
        graph = self.graph(f)
        if graph.backwards:
            return
        self._busy.add(("keepers", id(f)))
        try:
            for store in graph.stores:
                if store.call is not None and self.targets(store.call):
                    continue
                if store.value is NOTHING or store.how == "comp":
                    continue
                loops, outlives = self.growth(store)
                if outlives and not graph.attributes.get(store.path[1] + "=" if len(store.path) > 1 else "="):
                    if self.is_overwritten(store):
                        continue
                    yield store, path
            for node in list(graph.calls.values()):
                if node.kind == "call" and node.data.external is None and node.data.arguments:
                    for g, _ in self.targets(node)[:2]:
                        if g is not f and g.name != "__init__":
                            yield from self.keepers_of(g, (*path, node))
        finally:
            self._busy.discard(("keepers", id(f)))

    def kept_by(self, node: Node, site: Node, stores: list[tuple[Any, Any]]) -> Iterator[Kept]:
        graph = node.graph
        receiver = node.data.receiver
        nest = nest_of(node.loop)
        for store, path in stores:
            if isinstance(store, Node):
                value, sites, at = store, (), None
            else:
                value, sites, at = store.value, (node, *path), store
            loops, outlives = self.life_of(receiver, node)
            if at is not None:
                loops, outlives = self.life_of(self.holder(at, sites), node) if sites else (loops, outlives)
            if not loops and not (outlives and self.is_repeated(graph, None)):
                continue
            found = self.carry(value, sites, loops[0] if loops else None)
            if found is None or self.is_off(found) or loops and not self.is_made_in(found, loops[0], value):
                continue
            if self.is_module(value) or self.is_module(found.root):
                continue
            if nest and self.is_micro(loops or nest, graph):
                continue
            if found.state != FREED:
                evaluating = self.in_evaluation(found)
                fate = self.fate(at.acc) if at is not None else None
                if fate is not None and (fate.trained or fate.unknown and not evaluating):
                    continue
                if not evaluating and not any(self.steps_in(loop, graph) for loop in loops):
                    continue
            elif at is not None and any(at.acc in e.accs for e in self.events(at.graph)):
                continue
            expr = self.handed(node, found, value, sites)
            name = self.text_at(graph, node.data.expr[2])
            k = Kept("meter", graph.function, node.pos, name, self.text_at(graph, expr), found, expr)
            k.plain = expr is not None
            k.evaluation = self.in_evaluation(found)
            if at is not None:
                k.store_at = (at.graph.function.module, at.pos)
            yield k
            return

    def holder(self, store: Store, sites: tuple[Node, ...]) -> Node:
        """The object, as the outermost caller knows it, in whose attribute a callee keeps a value."""
        root = store.place
        while root.kind in ("elem", "iter", "phi", "join", "acc", "op") and root.inputs:
            root = root.inputs[0]
        for site in reversed(sites):
            if root.kind != "param":
                break
            f = root.graph.function
            root = self.argument(site, f, root.data)
            while root.kind in ("elem", "iter", "phi", "join", "acc") and root.inputs:
                root = root.inputs[0]
        return root

    def life_of(self, holder: Node, node: Node) -> tuple[list[Loop], bool]:
        """(loops around a call through which an object lives, whether it outlives the function)."""
        root = holder
        while root.kind in ("elem", "iter", "join") and root.inputs:
            root = root.inputs[0]
        nest = nest_of(node.loop)
        if root.kind in ("object", "box", "call"):
            inside = set(nest_of(root.loop))
            return [lo for lo in nest if lo not in inside], False
        if root.kind == "phi":
            entry = root.inputs[0]
            if entry is not NOTHING:
                return self.life_of(entry, node)
            return nest, False
        if root.kind in ("param", "free"):
            return nest, True
        return [], False

    def handed(self, node: Node, found: Carry, value: Node, sites: tuple[Node, ...]) -> Expr | None:
        """Which argument of a call brings the value: the one that carries a graph, when there is just one."""
        call = node.data
        carrying = [
            e for e, n in zip(call.expr[3], call.arguments) if e[0] != "star" and self.carry(n, (), None) is not None
        ]
        carrying += [v for k, v in call.expr[4] if k and self.carry(call.keywords[k], (), None) is not None]
        return carrying[0] if len(carrying) == 1 else None

    # --------------------------------------------------------------------------------------------------------- texts
    def text_at(self, graph: Graph, expr: Expr | None) -> str:
        """The source text of an expression, when it stands on one line."""
        if not expr:
            return ""
        module = graph.function.module
        line, column, end_line, end_column = self.program.span(module, expr[1])
        if line != end_line:
            return ""
        return self.program.source_line(module, line)[column - 1 : end_column - 1]

    def name_of(self, store: Store) -> str:
        if store.path:
            name = store.path[0]
            for part in store.path[1:]:
                name += part
            return name
        graph = store.graph
        line = span_of(store.pos)[0]
        return self.program.source_line(graph.function.module, line).strip().partition("(")[0][:40]

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
        """`@torch.no_grad()` above a function that only evaluates; no fix where it trains too, or torch has no such name."""
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


def is_plain(value: Node) -> bool:
    """Is a value a tensor on every way: no merge with a number, no container."""
    if value.kind in ("box", "tuple", "snap", "object", "nothing"):
        return False
    if value.kind in ("join", "phi"):
        return all(n.kind == "phi" or is_plain(n) for n in value.inputs)
    if value.kind == "op" and value.data in ("copy", "items", "values"):
        return False
    if value.kind == "op" and len(value.inputs) == 1 and value.data in ("+=", "-="):
        return is_plain(value.inputs[0])
    return True


__all__ = ["ALIVE", "FREED", "INHERIT", "MAYBE", "OFF", "ON", "Graphs", "Kept"]
