"""Which stores keep a value with its graph longer than the step that made it."""

from __future__ import annotations

from ... import knowledge
from ..program.model import span_of
from ..source.patterns import Later
from .graph_carry import MOST_INPUTS, Carry
from .graph_relevance import Relevance
from .graph_shape import holds_tensors
from .graph_values import ALIVE, FREED, OFF, ON, Graph, Loop, Node, Store, contradict, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function, Module
    from ..program.program import Program
    from .graph_values import Guards

STORES = Later(
    r"\.(?:append|appendleft|extend|insert|add|update|put|push|add_)\(|[-+]=|\][ \t]*=[^=]|self\.\w+(?: = |\()"
)
ACCUMULATES = Later(r"\brange\(.*(?:grad|batch|step)\w*accum|\brange\(.*accum\w*(?:grad|batch|step|iter)")
"""The head of a loop over the micro-batches of one step: an engine such as DeepSpeed's has its `step()` in the loop and
counts by itself, so that only the setting that the loop is bounded by tells."""
PIECES = Later(r"\.(?:chunk|tensor_split|unbind)\(|\btorch\.split\(")
PIECES_MADE = Later(r"\b(\w+) = (?:list\(|tuple\()?[\w.]*(?:\.(?:chunk|tensor_split|unbind)|\btorch\.split)\(")
WORD = Later(r"\w+")
LONGEST = 44
"""Characters of a place's name in a message."""


class Kept:
    """A place that keeps a value with its graph.

    `how` is that of `Store`, or "meter" when the place is behind a call; `name` the text of the place; `state` FREED
    or ALIVE; `function` and `pos` where it is reported; `store_at` (module, pos) of the statement that keeps it, when
    that is elsewhere; `source` (module, pos) of the value's origin; `evaluation`: made in evaluation; `expr` what to
    detach.
    """

    __slots__ = (
        "carry", "evaluation", "expr", "function", "how", "module", "name", "plain", "pos", "source", "state",
        "store_at", "value",
    )  # fmt: skip

    def __init__(
        self, how: str, function: Function, pos: int, name: str, value: str, carry: Carry, expr: Expr | None
    ) -> None:
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


class Keeping(Relevance):
    """Adds `judge`: is a store a fault?"""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._repeated: dict[int, bool] = {}

    def judge(self, store: Store) -> Kept | None:
        if self.is_overwritten(store) or self.is_copied(store):
            return None
        graph = store.graph
        loops, outlives = self.growth(store)
        if (not loops and not outlives) or not self.may_carry(store.value, True):
            return None
        if not self.may_matter([store.value], loops, graph):
            return None
        if not loops and not self.is_repeated(graph, store):
            return None
        found, loops = self.carried_through(store.value, (), loops)
        if found is None or (store.call is not None and self.runs_own(store.call)):
            return None
        if not self.counts(store.acc, found, loops, graph) or self.is_off(found):
            return None
        k = Kept(
            store.how,
            graph.function,
            store.pos,
            self.name_of(store),
            self.text_at(graph, store.expr),
            found,
            store.expr,
        )
        k.evaluation = self.in_evaluation(found)
        k.plain = is_plain(store.value) and not holds_tensors(self, store.value)
        return k

    def runs_own(self, node: Node) -> bool:
        """Does `x.append(...)` run a method that the project defines, not that of a list?"""
        return self.shared.defines(node.data.method, node.graph.function.module) and bool(self.targets(node))

    def carried_through(
        self, value: Node, sites: tuple[Node, ...], loops: list[Loop]
    ) -> tuple[Carry | None, list[Loop]]:
        """Whether a value carries a graph, and the loops in each turn of which it is made and its place grows."""
        found = self.carry(value, sites)
        if found is None or not loops:
            return found, loops
        made = [lo for lo in loops if self.is_made_in(found, lo, value)]
        if not made:
            return None, []
        return self.carry(value, sites, made[0]), made

    def counts(self, acc: Node, found: Carry, loops: list[Loop], graph: Graph) -> bool:
        """Is a kept value a fault: not used by a later backward, kept over more than one step."""
        if any(acc in e.accs for e in self.events(graph)):
            return False
        if found.state == FREED:
            return not loops or not self.is_micro(loops, graph)
        if self.in_evaluation(found):
            return not self.fate(acc).trained
        if loops and any(self.steps_in(loop, graph, found.way) for loop in loops):
            fate = self.fate(acc)
            return not fate.trained and not fate.unknown
        return False

    def is_overwritten(self, store: Store) -> bool:
        """Is the same place written each time, or one of a fixed number: `x["loss"] = v`, `x[step % 10] = v`?"""
        if store.how != "item":
            return False
        return store.key is None or store.key[0] in ("const", "attr") or self.goes_round(store.key, store.graph)

    def goes_round(self, key: Expr, graph: Graph) -> bool:
        """Is an index a remainder, by itself or by all that its name is bound to?"""
        if key[0] != "name":
            return bool(key[0] == "bin" and key[2] == "%")
        bound = [
            s[3]
            for s in (self.program.statements(graph.function) if "%" in self.text(graph.function) else ())
            if s[0] == "assign" and any(t[0] == "name" and t[2] == key[2] for t in s[2])
        ]
        return bool(bound) and all(e[0] != "name" and self.goes_round(e, graph) for e in bound)

    def is_copied(self, store: Store) -> bool:
        """Is `x[i] = v` done under `no_grad` on what is no container by its own function: a copy into a tensor?"""
        if store.how != "item" or store.acc.mode != OFF:
            return False
        place = store.place
        parts = [n for n, _ in self.parts_of(place, (), 0)] if place.kind in ("elem", "iter") else [place]
        held = {n for part in parts for n in self.structure(part)}
        return any(n.kind == "tensor" for n in held) or not any(n.kind == "box" for n in held)

    def is_made_in(self, found: Carry, loop: Loop, value: Node) -> bool:
        """Is the value made in each turn of the loop, or only named again there?"""
        node = found.sites[0] if found.sites else found.root
        if node.graph is not loop.graph:
            return not self.comes_from_outside(value)
        while node.kind in ("elem", "iter") and node.inputs:
            node = node.inputs[0]
        if node.kind in ("param", "free"):
            return False
        if found.sites and node in self.structure(loop.iterated) and any(f.is_generator for f, _ in self.targets(node)):
            return True  # the generator makes one in each turn
        return loop in nest_of(node.loop) or node.kind in ("phi", "join", "acc", "snap")

    def comes_from_outside(self, value: Node) -> bool:
        """Is a value made of nothing but what the function was given?"""
        stack, seen = [value], set[Node]()
        given = False
        while stack:
            node = stack.pop()
            if node in seen or len(seen) > MOST_INPUTS:
                continue
            seen.add(node)
            if (node.kind == "elem" and node.data[0] == ".") or node.kind == "call":
                return False  # an attribute that is written elsewhere, a result
            given = given or (node.kind == "param" and node.data != node.graph.self_name)
            stack += node.inputs
        return given

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
        # a sum under a local name grows only by what that name carries over
        local = store.path[0] if store.how in ("add", "cat") and len(store.path) == 1 else ""
        stack: list[tuple[Node, int]] = [(store.place, 0)]
        while stack:
            node, depth = stack.pop()
            kind = node.kind
            if node in seen or depth > 12:
                continue
            seen.add(node)
            if (
                local
                and kind not in ("phi", "join", "acc", "op", "box")
                and not (kind == "free" and node.data == local)
            ):
                continue
            if kind == "phi":
                if carried:
                    if store.path and node.graph.carried.get(node) != store.path[0]:
                        continue
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
            elif kind in ("box", "object", "tensor"):
                if kind == "box" and node.data.bounded:
                    return [], False
                if not carried or kind == "box":
                    inside = set(nest_of(node.loop))
                    loops.update(lo for lo in nest if lo not in inside)
            elif kind in ("elem", "iter"):
                root = node
                while root.kind in ("elem", "iter") and root.inputs:
                    root = root.inputs[0]
                if root.kind in ("box", "object", "tensor"):
                    inside = set(nest_of(root.loop))
                    loops.update(lo for lo in nest if lo not in inside)
                elif root.kind in ("param", "free"):
                    if self.is_bounded(node):
                        return [], False
                    if kind == "elem" or not carried:
                        outer = True
                        loops.update(nest)
                elif root.kind == "call":
                    inside = set(nest_of(root.loop))
                    loops.update(lo for lo in nest if lo not in inside)
                elif root.kind in ("phi", "join", "acc", "op"):
                    stack.append((root, depth + 1))
            elif kind == "free" or (kind == "param" and not carried) or (kind == "call" and self.gives_state(node)):
                outer = True
                loops.update(nest)
        if carried and len(store.path) == 1 and store.place.kind != "free":
            outer = False  # a local name is bound anew in each call
        kept = [lo for lo in nest if lo in loops and not any(store.path[: len(p)] == p for p in lo.resets)]
        if outer and len(kept) < len([lo for lo in nest if lo in loops]):
            outer = False
        return kept, outer

    def is_bounded(self, place: Node) -> bool:
        """Is an attribute a container that drops its oldest elements?"""
        base = place.inputs[0]
        if base.kind != "param" or place.kind != "elem":
            return False
        found = [n for cls in self.classes(base)[:2] for n in self.heap(cls, place.data)]
        return any(n.kind == "box" and n.data.bounded for n in found)

    def gives_state(self, node: Node) -> bool:
        """Does a call return something that an object keeps: a tensor or list out of its attributes?"""
        for f, _ in self.targets(node):
            stack = list(self.returned(f))
            for _ in range(24):
                if not stack:
                    break
                root = stack.pop()
                if root.kind in ("join", "phi"):
                    stack += root.inputs
                elif root.kind == "elem":
                    if root.inputs[0].kind == "param" and root.inputs[0].data == root.graph.self_name:
                        return True
                    stack.append(root.inputs[0])
        return False

    def is_repeated(self, graph: Graph, store: Store | None) -> bool:
        """Is the function run step after step: it trains by itself, its framework calls it, or a caller's loop does."""
        if store is not None:
            path = store.path
            if len(path) >= 2 and path[0] == graph.self_name and graph.attributes.get(path[1] + "="):
                return False
        known = self._repeated.get(id(graph))
        if known is None:
            known = self._repeated[id(graph)] = self.may_repeat(graph) and self.find_repeated(graph)
        return known

    def find_repeated(self, graph: Graph) -> bool:
        f = graph.function
        if self.runs_once(f):
            return False
        if graph.backwards or f.name in knowledge.graph("step_methods"):
            return True
        if any(e.loop is None and e.pos == f.pos for e in self.events(graph)):
            return True
        if f.parent is not None and self.graph(f.parent).backwards:
            return True
        if not any("for " in text or "while " in text for _, _, text in self.texts_calling(f)):
            return False
        return any(call.loop is not None for call in self.calls_of(f))

    def is_micro(self, loops: list[Loop], graph: Graph) -> bool:
        """Gradient accumulation: the optimizer steps outside the loop, so that the sum lives for one step."""
        outermost = loops[-1]
        if self.cuts_batch(outermost, graph):
            return True
        if ACCUMULATES.search(self.program.source_line(graph.function.module, span_of(outermost.pos)[0])):
            return True
        if not graph.steps or any(outermost in nest_of(loop) for _, loop in graph.steps):
            return False
        inside = [n for n in graph.calls.values() if n.kind == "call" and outermost in nest_of(n.loop)]
        return not any(".step(" in self.text(f) for n in inside for f, _ in self.targets(n))

    def cuts_batch(self, loop: Loop, graph: Graph) -> bool:
        """Does a loop run over the pieces of one tensor: `for part in x.chunk(n)`?"""
        line = self.program.source_line(graph.function.module, span_of(loop.pos)[0])
        head = line.partition(" in ")[2]
        if PIECES.search(head):
            return True
        made = PIECES_MADE.findall(self.text(graph.function)) if head else []
        return any(name in WORD.findall(head) for name in made)

    def steps_in(self, loop: Loop, graph: Graph, way: Guards = ()) -> bool:
        """Does backward or an optimizer step run in each turn of a loop, here or in what it calls?"""
        if any(loop in nest_of(e.loop) and not contradict(e.guards, way) for e in self.events(graph)) or any(
            loop in nest_of(at) for _, at in graph.steps
        ):
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

    def name_of(self, store: Store) -> str:
        """The place as the user wrote it; "" for a comprehension."""
        if store.how == "comp":
            return ""
        graph = store.graph
        line = span_of(store.pos)[0]
        text = self.program.source_line(graph.function.module, line).strip()
        name = "".join(store.path) or text.partition("(")[0]
        if '"' in text and "'" in name:
            name = name.replace("'", '"')
        return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def is_plain(value: Node) -> bool:
    """Is a value a tensor on every way: no merge with a number, no container."""
    if value.kind in ("box", "tuple", "snap", "object", "nothing", "iter"):
        return False
    if value.kind in ("join", "phi"):
        return all(n.kind == "phi" or is_plain(n) for n in value.inputs)
    if value.kind == "op" and value.data in ("copy", "items", "values"):
        return False
    if value.kind == "op" and len(value.inputs) == 1 and value.data in ("+=", "-="):
        return is_plain(value.inputs[0])
    return True
