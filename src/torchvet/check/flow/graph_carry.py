"""Does a value carry an autograd graph, and what has become of the graph: the heart of the graph rules.

Evidence is one of: the value is what a module returns; backward runs on it, here, in a callee that is handed it, in a
caller that gets it back, or in the framework; it is computed from such a value. Where a value is an argument of an
unknown call whose result is trained, it is evidence for that argument only if a called object made it. Everything else
is unknown, and unknown is silent.
"""

from __future__ import annotations

from ... import knowledge
from .graph_events import Event, Events
from .graph_library import CALLED, FUEL
from .graph_summaries import DEEPEST
from .graph_values import (
    ALIVE,
    FREED,
    INHERIT,
    MAYBE,
    NOTHING,
    OFF,
    Graph,
    Loop,
    Node,
    contradict,
    nest_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.program import Program
    from .graph_summaries import Sites
    from .graph_values import Guards

DEEPEST_CHAIN = 150
"""Values made of values followed for one question."""
BUDGET = 1500
"""Nodes visited for one question about a value."""
MOST_INPUTS = 200


class Carry:
    """A value has a graph: its state, the node it comes from, the call sites passed on the way."""

    __slots__ = ("root", "sites", "state", "way")

    def __init__(self, state: int, root: Node, sites: Sites, way: Guards = ()) -> None:
        self.state = state
        self.root = root
        self.sites = sites
        self.way = way
        """Tests on the way to the root."""


MOVES = frozenset(("copy", "elements", "enter", "enumerate", "gradient", "items", "slice", "values"))
"""Operations that hand values on and compute nothing."""


class Carrying(Events):
    """Adds the question `carry`."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._active: dict[tuple[Node, Sites], int] = {}
        self._trained: dict[int, bool] = {}
        self._called_values: dict[int, set[Node]] = {}
        self.way: Guards = ()
        self.budget = BUDGET
        self.home: Graph | None = None
        """The function of the question."""
        self.any_state = False
        """Only whether there is a graph is asked: the first one found is the answer."""
        self._never: dict[int, set[tuple[Node, Sites]]] = {}
        """By `home`: values of which it is known that they carry none."""
        self.never: set[tuple[Node, Sites]] = set()
        self.lowest = DEEPEST_CHAIN
        """The depth of the outermost value under way that an answer depends on: None in a cycle is not yet final."""
        self.bottom: Loop | None = None
        """The loop that the place of the question lives through, for values that come back to its function."""

    # ------------------------------------------------------------------------------------------------------- events
    # -------------------------------------------------------------------------------------------------------- states
    def state_here(self, node: Node, within: Loop | None, sites: Sites = ()) -> tuple[bool, int]:
        """(does backward in this function prove a graph, state) of a value, for a place that lives through `within`."""
        if within is not None and within.graph is not node.graph:
            within = None
        events = self.events(node.graph, False)
        if sites:
            events = events + self.site_events(node.graph, sites[-1])
        proof, state = self.proven_by(events, node, within, sites)
        home = self.home
        if not proof and not sites and home is not None and node.graph is home and node in self.goes_back(home):
            proof, state = self.proven_by(self.events(home), node, within, sites)
        return proof, state

    def proven_by(self, events: list[Event], node: Node, within: Loop | None, sites: Sites) -> tuple[bool, int]:
        proof, state = False, ALIVE
        for event in events:
            if node not in event.reached:
                continue
            if event.proves(node):
                proof = True
            if sites and event.outer is not None and not self.in_same_turn(event.outer):
                continue
            if event.keeps or contradict(event.guards, (*node.guards, *self.way)):
                continue
            if within is None or within in nest_of(event.loop):
                state = FREED
        return proof, state

    def in_same_turn(self, event: Event) -> bool:
        """Does a caller's backward run in each turn of the loop that the question is about?"""
        bottom = self.bottom
        if bottom is None or not event.nodes or event.nodes[0].graph is not bottom.graph:
            return True
        return bottom in nest_of(event.loop)

    def carries(self, node: Node) -> bool:
        """Does a value have a graph for all that its function and what that calls tell?"""
        self.any_state = True
        try:
            return self.carry(node, callers=False) is not None
        finally:
            self.any_state = False

    def may_carry(self, value: Node, callers: bool = False) -> bool:
        """May a value have a graph at all, by its own function alone: is it made of a result, or of an attribute?
        `callers`: or of what is returned, over which a caller may run backward."""
        if value is NOTHING:
            return False
        stack, seen = [value], set(self.called_values(value.graph))
        others: list[Node] = []
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            kind = node.kind
            if len(seen) > MOST_INPUTS or kind in ("call", "free", "snap"):
                if kind == "call" and node.data.external is not None and node.data.external not in self.giving():
                    continue
                if kind != "free" or is_bound(node):
                    return True
                continue
            others.append(node)
            if kind in ("elem", "iter") and node.inputs[0].kind == "param":
                if kind == "elem" and node.data[0] == ".":
                    return True
                continue
            stack += self.record(node) if kind == "object" else self.sources(node)
        # what backward runs over is asked last: finding that costs much more than the rest
        if callers and others and not self.goes_back(value.graph).isdisjoint(others):
            return True
        return any(e.proves(node) for e in (self.events(value.graph, False) if others else ()) for node in others)

    def called_values(self, graph: Graph) -> set[Node]:
        """Values of a function that it calls, or on which it calls a method of modules: they are no tensors."""
        known = self._called_values.get(id(graph))
        if known is None:
            known = self._called_values[id(graph)] = {n for n, used in self.module_uses(graph).items() if used}
            known.update(n.data.callee for n in graph.calls.values() if n.kind == "call")
        return known

    def giving(self) -> frozenset[str]:
        """Functions outside the project whose result has a graph, or that of an argument."""
        return knowledge.graph("passing_functions") | knowledge.graph("graph_results")

    def carry(self, node: Node, sites: Sites = (), within: Loop | None = None, callers: bool = True) -> Carry | None:
        """Whether a value has a graph when gradients are on; None when not, or not known. `callers`: ask those of its
        function, too."""
        self.budget = BUDGET
        self.bottom = within
        self.home = node.graph if callers else None
        self.never = self._never.setdefault(id(self.home) if callers else 0, set())
        self.lowest = DEEPEST_CHAIN
        self.way = ()
        self.enter()
        self.fuel = max(self.fuel, 4 * FUEL)
        try:
            return self._carry(node, sites, within)
        finally:
            self.nesting -= 1

    def _carry(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        if node is NOTHING or node.graph is None:
            return None
        self.budget -= 1
        if node.kind in ("call", "op") and self.is_made_off(node, sites):
            return None
        mark = (node, sites)
        if mark in self.never:
            return None
        depth = len(self._active)
        if self.budget < 0 or depth > DEEPEST_CHAIN or mark in self._active:
            self.lowest = min(self.lowest, self._active.get(mark, 0))
            return None
        self._active[mark] = depth
        outer, self.lowest = self.lowest, DEEPEST_CHAIN
        found = None
        try:
            proof, state = self.state_here(node, within, sites)
            if proof:
                found = Carry(state, node, sites, self.way)
            elif node.kind != "call" or node.mode != MAYBE:
                found = self.derive(node, sites, within)
                if found is not None and state == FREED and found.state == ALIVE:
                    found = Carry(FREED, found.root, found.sites, found.way)
        finally:
            del self._active[mark]
        if found is None and self.lowest >= depth and self.fuel >= 0:
            self.never.add(mark)
        self.lowest = min(outer, self.lowest if self.lowest < depth else DEEPEST_CHAIN)
        return found

    def is_made_off(self, node: Node, sites: Sites) -> bool:
        """Is a value made without gradients, by what stands around it, its function, or the calls that lead there?"""
        for at in (node, *reversed(sites)):
            mode = at.mode if at.mode != INHERIT else self.own_mode(at.graph.function)
            if mode != INHERIT:
                return mode == OFF
        return False

    def derive(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        kind = node.kind
        if kind == "join" and node.data:
            return self.by_branch(node, sites, within)
        if kind in ("op", "join", "phi", "tuple"):
            found = self.any_of([(n, sites) for n in node.inputs], within)
            if found is None and kind == "op" and node.data not in MOVES and any(map(is_parameter, node.inputs)):
                return Carry(ALIVE, node, sites)  # a norm of the weights
            return found
        if kind == "acc":
            return self.any_of([(n, sites) for n in (node.inputs[1], node.inputs[0])], within)
        if kind in ("box", "tensor"):
            return self.any_of([(n, sites) for n in self.sources(node)], within)
        if kind == "snap":
            found = self.any_of([(n, sites) for n in node.data.values()], within)
            return found or self.rest_of(node, sites, within)
        if kind in ("elem", "iter"):
            self.alone = self.any_state
            parts = self.parts_of(node, sites, 0)
            self.alone = False
            return self.any_of([(n, s) for n, s in parts if n is not node], within) or self.element_of_call(node, sites)
        if kind == "param":
            return self.through_parameter(node, sites)
        if kind == "free":
            return self.any_of([(n, ()) for n in self.bound(node)], None)
        if kind in ("call", "object"):
            held = self.record(node)
            if held or kind == "object":
                return self.any_of([(n, sites) for n in held], within)
            return self.through_call(node, sites, within)
        return None

    def any_of(self, nodes: list[tuple[Node, Sites]], within: Loop | None) -> Carry | None:
        """The worst of several: alive before freed."""
        best: Carry | None = None
        for n, sites in nodes:
            found = self._carry(n, sites, within)
            if found is not None and (best is None or found.state > best.state):
                best = found
                if found.state == ALIVE or self.any_state:
                    break
        return best

    def by_branch(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        """What came together after a branch, each under the tests of its branch."""
        best: Carry | None = None
        way = self.way
        for n, guards in zip(node.inputs, node.data):
            self.way = (*way, *guards)
            found = self._carry(n, sites, within)
            if found is not None and (best is None or found.state > best.state):
                best = found
                if found.state == ALIVE or self.any_state:
                    break
        self.way = way
        return best

    def rest_of(self, snap: Node, sites: Sites, within: Loop | None) -> Carry | None:
        """The elements of a container that were not replaced."""
        base = snap.inputs[0]
        for event in self.events(base.graph, False):
            for key in event.parts(base):
                if key not in snap.data:
                    here = within if within is not None and within.graph is base.graph else None
                    freed = not event.keeps and (here is None or (event.loop is not None and here in event.loop.nest()))
                    return Carry(FREED if freed else ALIVE, base, sites)
        if base.kind == "box":
            return self.any_of([(n, sites) for k, n in base.data.entries.items() if k not in snap.data], within)
        if base.kind in ("call", "op") and not any(self.partly(base)):
            return self._carry(base, sites, within)
        return None

    def partly(self, base: Node) -> list[str]:
        return [k for event in self.events(base.graph, False) for k in event.parts(base)]

    def element_of_call(self, node: Node, sites: Sites) -> Carry | None:
        """An element of what an unknown call returns: the known outputs of a model, or a sibling by number of an
        element on which backward runs, when the result is used as a list."""
        base = node.inputs[0]
        if base.kind != "call" or base.mode in (OFF, MAYBE):
            return None
        if (
            node.kind == "iter"
            or node.data == "[*]"
            or (node.data[0] == "[" and node.pos != base.pos and node.data[1:2] not in "'\"")
        ):
            proof, state = self.state_here(base, None)
            if proof and not self.partly(base):
                return Carry(state, base, sites)
        if node.kind == "iter":
            return None
        if self.targets(base):
            return None
        outputs = knowledge.graph("output_attributes")
        key = node.data
        known = self.calls_module(base) or any(k.strip(".[]'\"") in outputs for k in self.partly(base))
        if (key[1:] in outputs or key[2:-2] in outputs) and known:
            _, state = self.state_here(base, None)
            return Carry(state, base, sites)
        if base not in base.graph.unpacked and key[1:-1].isdigit():
            for event in self.events(base.graph, False):
                if any(k[1:-1].isdigit() for k in event.parts(base)):
                    return Carry(ALIVE if event.keeps else FREED, base, sites)
        return None

    def through_parameter(self, node: Node, sites: Sites) -> Carry | None:
        """What the call passes through which the question came; a parameter alone is unknown: its callers are asked
        about what they hand on, so that each finding names the call that brings the graph."""
        f = node.graph.function
        if sites and any(t is f for t, _ in self.targets(sites[-1])):
            return self._carry(self.argument(sites[-1], f, node.data), sites[:-1], None if sites[:-1] else self.bottom)
        return None

    def through_call(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        if self.partly(node) and not sites:
            keys = self.partly(node)
            return self._carry(node.graph.elements[(id(node), keys[0])], sites, within)
        call = node.data
        if node.graph.frozen and self.callee(node) in node.graph.frozen:
            return self.any_of([(n, sites) for n in call.arguments], within)
        name = (call.external or "").rpartition(".")[2] or call.method
        found = self.targets(node)
        if found:
            if len(sites) >= DEEPEST:
                return None
            out = None
            for f, cls in found:
                if self.own_mode(f) == OFF:
                    continue
                back = self.given_back(f)
                is_forward = back and cls is not None and f.name == "forward" and self.is_module_class(cls)
                if is_forward and any(self.unclear(r) for r in back):
                    return Carry(ALIVE, node, sites)  # computed of parameters, whatever way
                got = self.any_of([(r, (*sites, node)) for r in back], None)
                if got is not None and (out is None or got.state > out.state):
                    out = got
                    if got.state == ALIVE or self.any_state:
                        break
            return out
        if name in ("step",) and call.method:
            closures = [g for a in call.arguments for g in self.functions(a)]
            return self.any_of([(r, (*sites, node)) for g in closures for r in self.returned(g)], None)
        if call.external is not None and call.external not in knowledge.graph("passing_functions"):
            if call.external in knowledge.graph("graph_results"):
                return Carry(ALIVE, node, sites)
            return None
        if name in knowledge.graph("passing_methods") and call.arguments:
            return self._carry(call.arguments[0], sites, within)
        callee = self.callee(node)
        if self.calls_module(node):
            return Carry(ALIVE, node, sites)
        if self.is_loss(callee) or self.is_trained(callee):
            found_in = self.any_of([(n, sites) for n in call.arguments], within)
            if found_in is None and self.is_trained(callee) and any(self.is_handle(n) for n in call.arguments):
                return Carry(ALIVE, node, sites)
            if found_in is not None:
                # a value beside the trained one: its own nodes keep what they have saved
                return Carry(ALIVE, node, sites)
        return None

    def unclear(self, returned: Node) -> bool:
        """May a returned value have a graph at all: it is computed from something."""
        if returned.kind in ("tuple", "box", "join"):
            return any(self.unclear(n) for n in self.sources(returned))
        if returned.kind == "phi" and all(n is NOTHING or n is returned for n in returned.inputs):
            return False
        return returned.kind in ("op", "call", "elem", "phi") and returned.mode != OFF

    def is_handle(self, node: Node) -> bool:
        """An attribute of self or a parameter handed on as it is: may be the model itself."""
        if node.kind == "elem":
            base = node.inputs[0]
            return base.kind == "param" and base.data == node.graph.self_name
        return False

    def calls_module(self, node: Node) -> bool:
        return node.kind == "call" and self.is_module(self.callee(node))

    def is_loss(self, callee: Node, depth: int = 0) -> bool:
        """Is the called object a loss, or a module without parameters?"""
        if depth > 4:
            return False
        if callee.kind == "object" and isinstance(callee.data, str):
            name = callee.data
            return name in knowledge.graph("loss_classes") or name in knowledge.graph("parameterless_modules")
        if callee.kind in ("join", "phi"):
            return any(self.is_loss(n, depth + 1) for n in callee.inputs)
        if callee.kind == "free":
            return any(self.is_loss(n, depth + 1) for n in self.bound(callee))
        if callee.kind == "elem":
            return any(self.is_loss(n, depth + 1) for n, _ in self.parts_of(callee, (), 6) if n is not callee)
        if callee.kind == "param":
            scope = self.program.scope(callee.graph.function)
            for x in self.program.entities(("name", callee.pos, callee.data), scope):
                if x[0] == "extinst" and x[1] in knowledge.graph("loss_classes"):
                    return True
            return depth < 2 and any(self.is_loss(n, depth + 1) for n, _ in self.passed(callee)[:4])
        return False

    def is_trained(self, callee: Node) -> bool:
        """Does backward run on what this callable returns, at another call of it?"""
        if callee is NOTHING or callee.graph is None:
            return False
        known = self._trained.get(id(callee))
        if known is not None:
            return known
        self._trained[id(callee)] = False
        out = self.trained_in(callee.graph, callee)
        me = callee.graph.params.get(callee.graph.self_name)
        owner = callee.graph.function.owner
        if not out and owner is not None and callee.kind == "elem" and callee.inputs[0] is me:
            for method in self.holders(owner, callee.data, CALLED):
                graph = self.graph(method)
                other = graph.params.get(graph.self_name)
                twin = self.element_of(other, callee.data) if other is not None else None
                if twin is not None and self.trained_in(graph, twin):
                    out = True
                    break
        self._trained[id(callee)] = out
        return out

    def trained_in(self, graph: Graph, callee: Node) -> bool:
        for event in self.events(graph, False):
            for node in event.reached:
                if node.kind == "call" and node.graph is graph and self.callee(node) is callee and event.proves(node):
                    return True
        return False


def is_bound(free: Node) -> bool:
    """May a free name hold a value: is it no builtin, import, function or class of its module?"""
    f = free.graph.function
    bound = f.module.names.get(free.data)
    return f.parent is not None or (bound is not None and bound[0] == "value")


def is_parameter(node: Node) -> bool:
    """What a loop over `parameters()` or `named_parameters()` of a module gives."""
    if node.kind == "elem" and node.data in ("[1]", "[-1]"):
        node = node.inputs[0]
    return (
        node.kind == "iter"
        and node.inputs[0].kind == "call"
        and node.inputs[0].data.method in knowledge.graph("parameter_iterators")
    )
