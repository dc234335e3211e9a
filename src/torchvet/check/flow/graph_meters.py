"""Calls that hand a value with its graph to a function or object which keeps it: meters, metrics, buffers."""

from __future__ import annotations

from ... import knowledge
from ..source.patterns import Later
from .graph_carry import MOST_INPUTS
from .graph_keeping import LONGEST, Keeping, Kept, is_plain
from .graph_shape import holds_tensors
from .graph_values import FREED, MAYBE, NOTHING, OFF, Graph, Loop, Node, Store, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Expr, Function
    from ..program.program import Program
    from .graph_values import Path

KEEPING = Later(
    r"\.(?:append|appendleft|extend|insert|add|update|put|push|\w+_)\(|\.\w+[ \t]*[-+]=|\][ \t]*[-+]?=[^=]"
    r"|self\.(\w+) = [^#]{0,160}?self\.\1\b|global |nonlocal "
)
"""Where a function may keep what it is given."""
KEEPER = Later(r"([A-Za-z_]\w*)(?:\.\w+|\[[^\[\]]*\])*(?:\[[^\[\]]*)?$")
"""What it is kept in, by the text up to there: the name that the place begins with."""
BOUND = Later(r"(?m)^[ \t]*(\w+)(?:[ \t]*:[^=\n]+)?[ \t]*=(?!=)[ \t]*(\S{0,12})")
FRESH = Later(r"[\[{\d\"']|(?:list|dict|set|deque|defaultdict|OrderedDict|Counter)\(")
"""The right side of an assignment that makes something new."""
HANDING = Later(r"self\.(\w+)\(")
UNNAMED = ("call", "iter", "join", "param", "phi")
"""What is called without a name of its own, a model or a function that was passed: no object is said to keep."""
ARITHMETIC = ("op", "acc", "box", "join", "phi")
DEEPEST_KEEPER = 2
"""Calls inside a callee that are looked into."""


class Helpers(Keeping):
    """Adds `kept_by_helpers`: places that take up a value by way of a function, `queue = enqueue(queue, keys)`. The
    function puts what it is handed together, so that the call does what `torch.cat([queue, keys])` would do."""

    def kept_by_helpers(self, graph: Graph) -> Iterator[Kept]:
        """Places that a call gives their next value, made of what they held and of a value with a graph."""
        for before, path, call in self.taking_up(graph):
            if any(call in e.reached for e in self.events(graph)):
                continue
            for value, expr in self.taken_up(call, before):
                store = Store(graph, "cat", call.pos, before, path, value, expr, call.loop, call.guards)
                kept = self.judge(store)
                if kept is None:
                    continue
                if kept.alive:
                    fate = self.fate(call)
                    if fate.trained or fate.unknown:
                        continue
                yield kept
                break

    def taking_up(self, graph: Graph) -> Iterator[tuple[Node, Path, Node]]:
        """(what a name or attribute held, its path, the call that is handed this and gives the next value)."""
        for phi, name in list(graph.carried.items()):
            for back in phi.inputs[1:]:
                if is_handed(phi, back) and phi.data in nest_of(back.loop):
                    yield phi, (name,), back
        me = graph.params.get(graph.self_name)
        for key, left in list(graph.attributes.items()) if me is not None else ():
            held: Node | None = graph.elements.get((id(me), key))
            for back in left:
                if held is not None and is_handed(held, back):
                    yield held, (graph.self_name, key), back

    def taken_up(self, call: Node, before: Node) -> Iterator[tuple[Node, Expr]]:
        """The arguments that the called function puts together with another one."""
        given = [
            (n, e) for n, e in zip(call.data.arguments, call.data.expr[3]) if n is not before and self.may_carry(n)
        ]
        for f, _ in self.targets(call)[:2] if given else ():
            if self.own_mode(f) == OFF or not self.may_join(f):
                continue
            graph = self.graph(f)
            joined = [put_together(r) for r in self.returned(f)]
            for value, expr in given:
                names = [n for n in graph.params if self.argument(call, f, n) is value]
                held = [n for n in graph.params if self.argument(call, f, n) is before]
                if any(a in found and b in found for found in joined for a in names for b in held):
                    yield value, expr

    def may_join(self, f: Function) -> bool:
        """May a function put two of its parameters together, by its text?"""
        text = self.text(f)
        names = {name.rpartition(".")[2] for name in knowledge.graph("joining_functions")}
        return " + " in text or any(f"{name}(" in text for name in names)


class Meters(Helpers):
    """Adds `kept_in`: stores and calls that are faults."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._may_keep: dict[tuple[int, int], bool] = {}
        self._by_name: dict[str, list[Function]] = {}
        self._named = 0
        self._keeping_names: dict[str, tuple[bool, int]] = {}
        self._keepers: dict[int, list[tuple[Any, Any]]] = {}

    def kept_in(self, f: Function) -> Iterator[Kept]:
        graph = self.graph(f)
        for store in graph.stores:
            k = self.judge(store)
            if k is not None:
                yield k
        yield from self.kept_by_helpers(graph)
        for node in list(graph.calls.values()):
            yield from self.metered(node)

    def metered(self, node: Node, sites: tuple[Node, ...] = ()) -> Iterator[Kept]:
        """A call that hands a value with a graph to a method that keeps it."""
        if node.kind != "call" or not any(n.kind not in ("param", "free", "context", "func") for n in node.inputs):
            return
        if node.loop is None and not self.may_repeat(node.graph):
            return
        call = node.data
        if call.method in ("update", "forward", "__call__") and self.keeps_inputs(call.receiver):
            yield from self.kept_by(node, node, [(n, None) for n in call.arguments[:1]])
            return
        if any(back.call is call.expr for back in node.graph.backwards):
            return
        f = node.graph.function
        if self.runs_once(f) and (node.loop is None or f.name.startswith("test_")):
            return
        if call.external is not None or (call.method and not self.may_be_keeper(call.method, f)):
            return
        if call.callee.kind in UNNAMED:
            return
        # `metrics["loss"] = loss; metrics.accumulate()`: the object holds it already
        held = node.graph.contents.get(call.receiver, ()) if call.receiver.kind == "object" else ()
        given = [n for n in (*call.arguments, *call.keywords.values(), *held) if self.may_carry(n)]
        if not given or not self.may_matter(given, nest_of(node.loop), node.graph):
            return
        found_in = [g for g, _ in self.targets(node)[:3] if g.name != "__init__" and self.may_keep(g)]
        keeping = [found for g in found_in if (found := self.keepers(g)) and self.any_lives(found, node)]
        # what is handed over has to have a graph by what is seen here, too; that is asked last, for it costs most
        kept = [k for found in keeping for k in self.kept_by(node, node, found)]
        if kept and any(self.carries(n) for n in given):
            yield from kept

    def may_be_keeper(self, name: str, f: Function) -> bool:
        """May a method of this name, called in `f`, keep what it is given: one of a parsed module does, or a file from
        which `f`'s module imports classes has one. A name that nobody defines is that of a called attribute."""
        return self.keeps_by_name(name) or name in self.shared.methods_imported(f.module)

    def keeps_by_name(self, name: str) -> bool:
        functions = self.named(name)
        known = self._keeping_names.get(name)
        if known is None or (not known[0] and known[1] < self._named):
            found = any(self.may_keep(g) for g in functions)
            known = self._keeping_names[name] = (found, self._named)
        return known[0]

    def named(self, name: str) -> list[Function]:
        """The functions and methods of this name in all parsed modules but tests."""
        modules = self.program.modules
        if len(modules) > self._named:
            for module in list(modules.values())[self._named :]:
                for g in self.functions_in(module) if not module.is_collected else ():
                    self._by_name.setdefault(g.name, []).append(g)
            self._named = len(modules)
        return self._by_name.get(name, [])

    def may_keep(self, f: Function, levels: int = DEEPEST_KEEPER) -> bool:
        """May a function keep what it is given, by its text: does it store anything in what it did not make itself, or
        call a method of itself that does?"""
        known = self._may_keep.get((id(f), levels))
        if known is None:
            text = self.text(f)
            known = self._may_keep[id(f), levels] = len(text) < 20_000 and (
                stores_beyond(text, f) or (levels > 0 and f.name != "forward" and self.may_hand_on(text, f, levels - 1))
            )
        return known

    def may_hand_on(self, text: str, f: Function, levels: int) -> bool:
        """Does a function call a method of itself that may keep something?"""
        for name in set(HANDING.findall(text)):
            if any(self.may_keep(g, levels) for g in self.named(name)) or name in self.shared.methods_imported(
                f.module
            ):
                return True
        return False

    def keeps_inputs(self, receiver: Node) -> bool:
        if receiver.kind == "object" and isinstance(receiver.data, str):
            return knowledge.metric_state(receiver.data) == "list"
        if receiver.kind in ("elem", "free"):
            nodes = self.bound(receiver) if receiver.kind == "free" else [n for n, _ in self.parts_of(receiver, (), 4)]
            return any(n.kind == "object" and self.keeps_inputs(n) for n in nodes)
        return False

    def keepers(self, f: Function) -> list[tuple[Any, Any]]:
        """`keepers_of` for a call from outside, asked for once."""
        if self._busy:
            return list(self.keepers_of(f, ()))
        known = self._keepers.get(id(f))
        if known is None:
            known = self._keepers[id(f)] = list(self.keepers_of(f, ()))
        return known

    def keepers_of(self, f: Function, path: tuple[Node, ...]) -> Iterator[tuple[Store, tuple[Node, ...]]]:
        """The stores of a function (and of what it calls, two levels) that keep something made of its parameters in an
        object that outlives the call, with the calls that lead there."""
        if ("keepers", id(f)) in self._busy:
            return
        graph = self.graph(f)
        if graph.backwards:
            return
        self._busy.add(("keepers", id(f)))
        try:
            for store in graph.stores:
                if store.call is not None and self.runs_own(store.call):
                    continue
                if store.value is NOTHING or store.how == "comp" or self.is_copied(store):
                    continue
                emptied = graph.attributes.get(store.path[1] + "=") if len(store.path) > 1 else None
                if self.growth(store)[1] and not emptied and not self.is_overwritten(store):
                    yield store, path
            for node in list(graph.calls.values()) if len(path) < DEEPEST_KEEPER else ():
                call = node.data
                if node.kind != "call" or call.external is not None or not self.hands_on(node):
                    continue
                if not call.method or self.may_be_keeper(call.method, f):
                    for g, _ in self.targets(node)[:2]:
                        if g is not f and g.name != "__init__" and self.may_keep(g):
                            yield from self.keepers_of(g, (*path, node))
        finally:
            self._busy.discard(("keepers", id(f)))

    def hands_on(self, node: Node) -> bool:
        """Does a call hand on something that its function was given?"""
        graph = node.graph
        stack, seen = list(node.data.arguments), set[Node]()
        while stack and len(seen) < MOST_INPUTS:
            at = stack.pop()
            if at in seen or at is NOTHING:
                continue
            seen.add(at)
            if at.kind in ("param", "free") and at.data != graph.self_name:
                return True
            stack += self.sources(at)
        return len(seen) >= MOST_INPUTS

    def any_lives(self, stores: list[tuple[Any, Any]], node: Node) -> bool:
        """Does one of the places in which a callee keeps values live longer than a turn of a loop, or the function?"""
        return any(any(self.life_of(self.holder(store, (node, *path)), node)) for store, path in stores)

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
            found, loops = self.carried_through(value, sites, loops)
            if found is None or self.is_off(found):
                continue
            if self.is_module(value) or self.is_module(found.root):
                continue
            if found.state == FREED and nest and self.is_micro(loops or nest, graph):
                continue
            if found.state != FREED:
                evaluating = self.in_evaluation(found)
                fate = self.fate(at.acc) if at is not None else None
                if fate is not None and (fate.trained or (fate.unknown and not evaluating)):
                    continue
                if not evaluating and not any(self.steps_in(loop, graph, found.way) for loop in loops):
                    continue
            elif at is not None and any(at.acc in e.accs for e in self.events(at.graph)):
                continue
            handed = self.handed(node)
            expr = handed[0] if handed else None
            name = self.text_at(graph, node.data.expr[2])[-LONGEST:]
            k = Kept("meter", graph.function, node.pos, name, self.text_at(graph, expr), found, expr)
            put = self.put_before(node) if handed is None else None
            if put is not None:
                k.pos, expr, handed = put.pos, put.expr, (put.expr or (), put.value)
                k.expr, k.value = expr, self.text_at(graph, expr)
            k.plain = handed is not None and is_plain(handed[1]) and not holds_tensors(self, handed[1])
            k.evaluation = self.in_evaluation(found)
            if at is not None:
                k.store_at = (at.graph.function.module, at.pos)
            yield k
            return

    def put_before(self, node: Node) -> Store | None:
        """The statement that put a value with a graph into the object whose method is called."""
        for acc in node.graph.contents.get(node.data.receiver, ()):
            if self.carries(acc.data.value):
                found: Store = acc.data
                return found
        return None

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

    def handed(self, node: Node) -> tuple[Expr, Node] | None:
        """Which argument of a call brings the value: the one that carries a graph, when there is just one."""
        call = node.data
        given = [(e, n) for e, n in zip(call.expr[3], call.arguments) if e[0] != "star"]
        given += [(v, call.keywords[k]) for k, v in call.expr[4] if k]
        carrying = [(e, n) for e, n in given if self.carries(n)]
        return carrying[0] if len(carrying) == 1 else None


def stores_beyond(text: str, f: Function) -> bool:
    """Does a function store anything in what is not made in it, by its text: in a parameter, an attribute, a global?"""
    fresh: dict[str, bool] | None = None
    given = {p[0] for p in f.params}
    for found in KEEPING.finditer(text):
        start = found.start()
        keeper = KEEPER.search(text, text.rfind("\n", 0, start) + 1, start)
        if keeper is None or found[1] or found[0][0] not in ".]" or keeper[1] in given:
            return True
        if fresh is None:
            fresh = {}
            for bound in BOUND.finditer(text):
                fresh[bound[1]] = fresh.get(bound[1], True) and FRESH.match(bound[2]) is not None
        if not fresh.get(keeper[1]):
            return True
    return False


def is_handed(before: Node, call: Node) -> bool:
    if call.kind != "call" or call.mode in (OFF, MAYBE) or call.data.external is not None or call.data.method:
        return False
    return before in call.data.arguments


def put_together(value: Node) -> set[str]:
    """The parameters that a value is made of by arithmetic alone."""
    out: set[str] = set()
    stack, seen = [value], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen or node is NOTHING:
            continue
        seen.add(node)
        if node.kind == "param":
            out.add(node.data)
        elif node.kind == "box":
            stack += node.data.entries.values()
        elif node.kind in ARITHMETIC:
            stack += node.inputs
    return out
