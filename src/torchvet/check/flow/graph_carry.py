"""Does a value carry an autograd graph, and what has become of the graph: the heart of the graph rules.

Evidence is one of: the value is what a module returns; backward runs on it, here, in a callee that is handed it, in a
caller that gets it back, or in the framework; it is computed from such a value. Where a value is an argument of an unknown
call whose result is trained, it is evidence for that argument only if a called object made it. Everything else is unknown,
and unknown is silent.
"""

from __future__ import annotations

from ... import knowledge
from .graph_summaries import DEEPEST, FUEL, Summaries
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
    from ..program.model import Function
    from .graph_summaries import Sites
    from .graph_values import Guards

MAY, HUNT, SURE = 0, 1, 2
CALLER_LEVELS = 2
"""Callers of callers asked whether they run backward on what comes back."""
SHORT = 30
"""Lines of a function that may hand a value on to one that runs backward."""
BUDGET = 1500
"""Nodes visited for one question about a value."""


class Carry:
    """A value has a graph: its state, the node it comes from, the call sites passed on the way."""

    __slots__ = ("root", "sites", "state")

    def __init__(self, state: int, root: Node, sites: Sites) -> None:
        self.state = state
        self.root = root
        self.sites = sites


class Event:
    """Backward runs on `nodes`, in `loop` of the function; `keeps`: the graph is retained."""

    __slots__ = ("accs", "evidence", "guards", "keeps", "level", "loop", "nodes", "outer", "partial", "pos", "reached")

    def __init__(self, pos: int, nodes: list[Node], loop: Loop | None, guards: Guards, keeps: bool) -> None:
        self.pos = pos
        self.nodes = nodes
        self.loop = loop
        self.guards = guards
        self.keeps = keeps
        self.outer: Event | None = None
        """The caller's event that this one is seen from inside a callee."""
        self.level = SURE
        self.reached: dict[Node, int] = {}
        self.evidence: set[Node] = set()
        """Reached nodes that must have a graph."""
        self.partial: dict[Node, set[str]] = {}
        """Calls of whose result some elements are reached: which."""
        self.accs: set[Node] = set()
        """Stores whose content goes into the backward."""


class Carrying(Summaries):
    """Adds to the summaries: closures of backward calls, and the question `carry`."""

    def __init__(self, program: object) -> None:
        super().__init__(program)  # type: ignore[arg-type]
        self._events: dict[int, list[Event]] = {}
        self._parameters: dict[int, dict[str, bool]] = {}
        self._active: set[object] = set()
        self._trained: dict[int, bool] = {}
        self._from_callers: dict[int, list[Event]] = {}
        self._at_sites: dict[tuple[int, int], list[Event]] = {}
        self.way: Guards = ()
        self.caller_levels = 0
        self.budget = BUDGET

    # ------------------------------------------------------------------------------------------------------- events
    def events(self, graph: Graph, callers: bool = True) -> list[Event]:
        """All backward runs over values of a function: its own calls, callees that are handed a value, its framework,
        and (on demand) callers that get a value back."""
        known = self._events.get(id(graph))
        if known is None:
            known = self._events[id(graph)] = []
            for event in self.find_events(graph):
                self.close(event)
                known.append(event)
        if not callers:
            return known
        if id(graph) not in self._from_callers and self.caller_levels < CALLER_LEVELS:
            more = self._from_callers[id(graph)] = []
            self.caller_levels += 1
            try:
                for event in self.caller_events(graph):
                    self.close(event)
                    more.append(event)
            finally:
                self.caller_levels -= 1
        return known + self._from_callers.get(id(graph), [])

    def find_events(self, graph: Graph) -> list[Event]:
        f = graph.function
        out = [Event(b.pos, [b.node], b.loop, b.guards, b.keeps) for b in graph.backwards]
        for node in graph.calls.values():
            if node.kind == "call" and node.data.method in knowledge.graph("consuming_methods") and node.data.arguments:
                out.append(Event(node.pos, [node.data.arguments[0]], node.loop, node.guards, True))
                continue
            handed = self.handed_to_backward(node)
            if handed:
                keeps = all(k for _, k in handed)
                out.append(Event(node.pos, [n for n, _ in handed], node.loop, node.guards, keeps))
        if f.owner is not None:
            hooks = knowledge.graph("training_hooks")
            if any(f"{base}.{f.name}" in hooks for base in self.program.bases(f.owner)[1]):
                nodes = [x for r in graph.returns for x in self.losses_of(r)]
                if nodes:
                    out.append(Event(f.pos, nodes, None, (), False))
        return out

    def losses_of(self, returned: Node) -> list[Node]:
        """What a training hook returns: the loss, or a dict with "loss"."""
        if returned.kind in ("box", "snap", "call"):
            return [n for n, _ in self.elements(returned, "['loss']")] or [returned]
        return [returned]

    def elements(self, base: Node, key: str) -> list[tuple[Node, Sites]]:
        out: list[tuple[Node, Sites]] = []
        if base is NOTHING:
            return out
        whole = base.graph.elements.get((id(base), key)) or Node(base.graph, "elem", base.pos, (base,), key)
        base.graph.elements[(id(base), key)] = whole
        self.collect(base, key, (), 0, out, whole)
        return [(n, s) for n, s in out if n is not NOTHING]

    def handed_to_backward(self, node: Node) -> list[tuple[Node, bool]]:
        """[(argument, retained)] of a call whose callee runs backward on that argument."""
        if node.kind != "call" or node.data.external is not None:
            return []
        out = []
        interesting = [n for n in node.inputs if n.kind in ("call", "op", "elem", "phi", "join", "acc", "param", "snap", "iter")]
        if not interesting:
            return []
        for f, _ in self.targets(node):
            for name, keeps in self.trained_parameters(f).items():
                found = self.argument(node, f, name)
                if found is not NOTHING:
                    out.append((found, keeps))
        return out

    def trained_parameters(self, f: Function) -> dict[str, bool]:
        """{parameter: retained} on whose argument the function runs backward."""
        known = self._parameters.get(id(f))
        if known is not None:
            return known
        out = self._parameters[id(f)] = {}
        if self.depth_of_training > 3 or not self.may_train(f):
            return out
        self.depth_of_training += 1
        try:
            graph = self.graph(f)
            for back in graph.backwards:
                event = Event(back.pos, [back.node], back.loop, back.guards, back.keeps)
                self.close(event)
                for name, node in graph.params.items():
                    if node in event.reached and name != graph.self_name:
                        out[name] = out.get(name, True) and back.keeps
            for node in graph.calls.values():
                for handed, keeps in self.handed_to_backward(node):
                    if handed.kind == "param" and handed.data != graph.self_name:
                        out[handed.data] = out.get(handed.data, True) and keeps
        finally:
            self.depth_of_training -= 1
        return out

    depth_of_training = 0

    def may_train(self, f: Function) -> bool:
        """May a function run backward: it says so, or it is short and its module says so."""
        if "backward" in self.text(f):
            return True
        return f.end_line - f.first_line < SHORT and ".backward(" in (self.program.text(f.module.path) or "")

    def caller_events(self, graph: Graph) -> list[Event]:
        """The callers run backward on what the function returns."""
        out: list[Event] = []
        f = graph.function
        if not graph.returns or f.name == "<module>" or not self.returns_matter(graph):
            return out
        for call in self.calls_of(f)[:6]:
            if self.caller_levels > 1 and "backward" not in self.text(call.graph.function):
                continue
            for event in self.events(call.graph):
                inner = self.returned_event(graph, call, event)
                if inner is not None:
                    out.append(inner)
        return out[:6]

    def returns_matter(self, graph: Graph) -> bool:
        return any(r is not NOTHING and r.kind not in ("func", "object", "param", "context") for r in graph.returns)

    def close(self, event: Event) -> None:
        """What the backward goes over: everything the value is made of, within one step. A node is reached SURE when it
        must have a graph; HUNT: when it is a result of a called object; otherwise it only may take part."""
        around = set(nest_of(event.loop))
        stack: list[tuple[Node, int]] = [(n, event.level) for n in event.nodes]
        seen = event.reached
        while stack:
            node, sure = stack.pop()
            if node is NOTHING or seen.get(node, -1) >= sure:
                continue
            if sure == HUNT and node.kind == "call" and self.made_by_object(node):
                sure = SURE
            seen[node] = sure
            kind = node.kind
            if sure == SURE and kind in ("call", "elem", "param", "iter", "free", "acc", "op", "join", "phi"):
                event.evidence.add(node)
            if kind == "op":
                stack += self.operands(node, sure)
            elif kind == "phi":
                if node.data not in around:
                    stack += [(n, sure) for n in node.inputs]
            elif kind == "join":
                stack += [(n, sure) for n in node.inputs]
            elif kind == "elem":
                base = node.inputs[0]
                if base.kind == "call":
                    made = sure == SURE or sure == HUNT and self.made_by_object(base)
                    if made:
                        event.partial.setdefault(base, set()).add(node.data)
                        event.evidence.add(node)
                    if base not in seen:
                        seen[base] = MAY
                        stack += [(n, HUNT if made else MAY) for n in base.inputs]
                else:
                    stack += [(n, min(sure, HUNT)) for n in self.inside(node)]
            elif kind == "iter":
                stack += [(n, min(sure, HUNT)) for n in self.inside(node)]
            elif kind == "call":
                stack += [(n, min(sure, HUNT)) for n in node.inputs]
            elif kind == "acc":
                event.accs.add(node)
                stack += [(n, min(sure, HUNT)) for n in node.inputs]
            elif kind in ("tuple", "box", "snap", "lambda"):
                if kind == "snap":
                    stack.append((node.inputs[0], MAY))
                stack += [(n, min(sure, HUNT)) for n in self.sources(node)]

    def inside(self, node: Node) -> list[Node]:
        """What an element or iterated value of a local container is."""
        out = local_parts(node)
        # the stores that hold them take part as well
        at: Node | None = node.inputs[0]
        while at is not None:
            out += node.graph.contents.get(at, ())
            if at.kind in ("phi", "join"):
                for n in at.inputs:
                    out += node.graph.contents.get(n, ())
            at = at.inputs[0] if at.kind in ("elem", "op", "iter", "phi", "join", "acc") and at.inputs else None
        return out

    def operands(self, node: Node, sure: int) -> list[tuple[Node, int]]:
        """The operands of a trained value: one alone and a numerator must have a graph, of several some must."""
        if len(node.inputs) == 1:
            return [(node.inputs[0], sure)]
        if node.data in ("/", "/=", "//"):
            return [(node.inputs[0], sure), *((n, MAY) for n in node.inputs[1:])]
        if node.data[:1].isalpha() and node.data not in knowledge.graph("loss_functions"):
            return [(node.inputs[0], min(sure, HUNT)), *((n, MAY) for n in node.inputs[1:])]
        return [(n, min(sure, HUNT)) for n in node.inputs]

    def made_by_object(self, node: Node) -> bool:
        """Is a value the result of calling an object (a model, a loss) on data, not of a method or an outside function?"""
        call = node.data
        if call.external is not None or node.mode == OFF or not any(self.is_data(n) for n in node.inputs):
            return False
        if not call.method:
            if call.callee.kind == "func" or (call.callee.kind == "free" and self.targets(node)):
                return False
            return call.callee.kind in ("param", "free", "elem", "object", "join", "phi", "call")
        if call.receiver.kind == "param" and call.receiver.data == node.graph.self_name:
            return not any(f.name == call.method for f, _ in self.targets(node))
        return self.is_module(self.callee(node))

    def is_data(self, node: Node) -> bool:
        """Something of the step: computed, iterated or passed in, not a setting kept in an attribute."""
        root = node
        while root.kind == "elem":
            root = root.inputs[0]
        return not (root.kind == "param" and root.data == root.graph.self_name)

    # -------------------------------------------------------------------------------------------------------- states
    def site_events(self, graph: Graph, site: Node) -> list[Event]:
        """What the caller at one call site runs backward on, as events over what the callee returns."""
        key = (id(graph), id(site))
        known = self._at_sites.get(key)
        if known is None:
            known = self._at_sites[key] = []
            if site.kind == "call" and any(f is graph.function for f, _ in self.targets(site)):
                for event in self.events(site.graph, False):
                    inner = self.returned_event(graph, site, event)
                    if inner is not None:
                        self.close(inner)
                        known.append(inner)
        return known

    def returned_event(self, graph: Graph, call: Node, event: Event) -> Event | None:
        """A backward of a caller over what a call returns, seen from inside the callee."""
        nodes: list[Node] = []
        if call in event.partial:
            for k in event.partial[call]:
                for r in graph.returns:
                    nodes += [n for n, _ in self.elements(r, k) if n.graph is graph]
        elif call in event.reached:
            nodes = list(graph.returns)
        nodes = [n for n in nodes if n is not NOTHING]
        if not nodes:
            return None
        inner = Event(graph.function.pos, nodes, None, (), event.keeps)
        inner.outer = event
        inner.level = SURE if call in event.partial else event.reached[call]
        return inner

    def state_here(self, node: Node, within: Loop | None, sites: Sites = ()) -> tuple[bool, int]:
        """(does backward in this function prove a graph, state) of a value, for a place that lives through `within`."""
        proof, state = False, ALIVE
        if within is not None and within.graph is not node.graph:
            within = None
        events = self.events(node.graph, not sites and node.graph is self.home)
        if sites:
            events = events + self.site_events(node.graph, sites[-1])
        for event in events:
            if node not in event.reached:
                continue
            if node in event.evidence:
                proof = True
            if sites and event.outer is not None and not self.in_same_turn(event.outer):
                continue
            if not event.keeps and not contradict(event.guards, (*node.guards, *self.way)):
                if within is None or event.loop is not None and within in event.loop.nest():
                    state = FREED
        return proof, state

    def in_same_turn(self, event: Event) -> bool:
        """Does a caller's backward run in each turn of the loop that the question is about?"""
        bottom = self.bottom
        if bottom is None or not event.nodes or event.nodes[0].graph is not bottom.graph:
            return True
        return bottom in nest_of(event.loop)

    def carry(self, node: Node, sites: Sites = (), within: Loop | None = None) -> Carry | None:
        """Whether a value has a graph when gradients are on; None when not, or not known."""
        self.budget = BUDGET
        self.bottom = within
        self.home = node.graph
        self.way = ()
        self.enter()
        self.fuel = max(self.fuel, 4 * FUEL)
        try:
            return self._carry(node, sites, within)
        finally:
            self.nesting -= 1

    home: Graph | None = None
    """The function of the question."""
    bottom: Loop | None = None
    """The loop that the place of the question lives through, for values that come back to its function."""

    def _carry(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        if node is NOTHING or node.graph is None:
            return None
        self.budget -= 1
        mark = (id(node), len(sites), id(sites[-1]) if sites else 0)
        if self.budget < 0 or mark in self._active or node.mode == OFF and node.kind in ("call", "op"):
            return None
        if node.kind in ("call", "op") and node.mode == INHERIT and self.own_mode(node.graph.function) == OFF:
            return None
        self._active.add(mark)
        try:
            proof, state = self.state_here(node, within, sites)
            if proof:
                return Carry(state, node, sites)
            if node.kind == "call" and node.mode == MAYBE:
                return None
            found = self.derive(node, sites, within)
            if found is not None and state == FREED and found.state == ALIVE:
                return Carry(FREED, found.root, found.sites)
            return found
        finally:
            self._active.discard(mark)

    def derive(self, node: Node, sites: Sites, within: Loop | None) -> Carry | None:
        kind = node.kind
        if kind == "join" and node.data:
            return self.by_branch(node, sites, within)
        if kind in ("op", "join", "phi", "tuple"):
            return self.any_of([(n, sites) for n in node.inputs], within)
        if kind == "acc":
            return self.any_of([(n, sites) for n in (node.inputs[1], node.inputs[0])], within)
        if kind == "box":
            return self.any_of([(n, sites) for n in self.sources(node)], within)
        if kind == "snap":
            found = self.any_of([(n, sites) for n in node.data.values()], within)
            return found or self.rest_of(node, sites, within)
        if kind in ("elem", "iter"):
            return self.any_of([(n, s) for n, s in self.parts_of(node, sites, 0) if n is not node], within) or self.element_of_call(node, sites)
        if kind == "param":
            return self.through_parameter(node, sites)
        if kind == "free":
            return self.any_of([(n, ()) for n in self.bound(node)], None)
        if kind == "call":
            return self.through_call(node, sites, within)
        return None

    def any_of(self, nodes: list[tuple[Node, Sites]], within: Loop | None) -> Carry | None:
        """The worst of several: alive before freed."""
        best: Carry | None = None
        for n, sites in nodes:
            found = self._carry(n, sites, within)
            if found is not None and (best is None or found.state > best.state):
                best = found
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
        self.way = way
        return best

    def rest_of(self, snap: Node, sites: Sites, within: Loop | None) -> Carry | None:
        """The elements of a container that were not replaced."""
        base = snap.inputs[0]
        for event in self.events(base.graph):
            for key in event.partial.get(base, ()):
                if key not in snap.data:
                    here = within if within is not None and within.graph is base.graph else None
                    freed = not event.keeps and (here is None or event.loop is not None and here in event.loop.nest())
                    return Carry(FREED if freed else ALIVE, base, sites)
        if base.kind == "box":
            return self.any_of([(n, sites) for k, n in base.data.entries.items() if k not in snap.data], within)
        if base.kind in ("call", "op") and not any(self.partly(base)):
            return self._carry(base, sites, within)
        return None

    def partly(self, base: Node) -> list[str]:
        return [k for event in self.events(base.graph, False) for k in event.partial.get(base, ())]

    def element_of_call(self, node: Node, sites: Sites) -> Carry | None:
        """An element of what an unknown call returns: the known outputs of a model, or a sibling by number of an element on
        which backward runs, when the result is used as a list."""
        base = node.inputs[0]
        if base.kind != "call" or base.mode in (OFF, MAYBE):
            return None
        if node.kind == "iter" or node.data == "[*]" or node.data[0] == "[" and node.pos != base.pos and node.data[1:2] not in "'\"":
            proof, state = self.state_here(base, None)
            if proof and not self.partly(base):
                return Carry(state, base, sites)
        if node.kind == "iter":
            return None
        if self.targets(base):
            return None
        outputs = knowledge.graph("output_attributes")
        key = node.data
        if (key[1:] in outputs or key[2:-2] in outputs) and self.calls_module(base):
            _, state = self.state_here(base, None)
            return Carry(state, base, sites)
        if base not in base.graph.unpacked and key[1:-1].isdigit():
            for event in self.events(base.graph, False):
                if any(k[1:-1].isdigit() for k in event.partial.get(base, ())):
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
        name = (call.external or "").rpartition(".")[2] or call.method
        found = self.targets(node)
        if found:
            if len(sites) >= DEEPEST:
                return None
            out = None
            for f, cls in found:
                if self.own_mode(f) == OFF:
                    continue
                graph = self.graph(f)
                returned = [(r, (*sites, node)) for r in graph.returns] or [(y, (*sites, node)) for y, _ in graph.yields]
                got = self.any_of(returned, None)
                if got is None and cls is not None and f.name == "forward" and self.is_module_class(cls):
                    if any(self.unclear(r) for r, _ in returned):
                        got = Carry(ALIVE, node, sites)
                if got is not None and (out is None or got.state > out.state):
                    out = got
            return out
        if name in ("step",) and call.method:
            closures = [g for a in call.arguments for g in self.functions(a)]
            return self.any_of([(r, (*sites, node)) for g in closures for r in self.graph(g).returns], None)
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
        return returned.kind in ("op", "call", "elem", "phi")

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
            for method in self.holders(owner, callee.data):
                graph = self.graph(method)
                other = graph.params.get(graph.self_name)
                twin = graph.elements.get((id(other), callee.data)) if other is not None else None
                if twin is not None and self.trained_in(graph, twin):
                    out = True
                    break
        self._trained[id(callee)] = out
        return out

    def trained_in(self, graph: Graph, callee: Node) -> bool:
        for event in self.events(graph, False):
            for node in event.evidence:
                if node.kind == "call" and node.graph is graph and self.callee(node) is callee:
                    return True
        return False


def local_parts(node: Node, level: int = 0) -> list[Node]:
    """What an `elem` or `iter` node may be, looked for in its own function only."""
    out: list[Node] = []
    key = "[*]" if node.kind == "iter" else node.data
    stack = [(node.inputs[0], 0)]
    seen: set[Node] = set()
    while stack:
        base, depth = stack.pop()
        if base in seen or depth > 8:
            continue
        seen.add(base)
        kind = base.kind
        if kind == "box":
            out += [n for k, n in base.data.entries.items() if k == key or key == "[*]" or k.startswith("[*")]
        elif kind == "tuple":
            out += base.inputs
        elif kind == "snap":
            out += [base.data[key]] if key in base.data else []
            stack.append((base.inputs[0], depth + 1))
        elif kind in ("join", "phi", "acc") or kind == "op" and base.data in ("copy", "items", "values", "enumerate", "slice"):
            stack += [(n, depth + 1) for n in base.inputs]
        elif kind in ("op", "call"):
            out.append(base)
        elif kind in ("elem", "iter"):
            stack += [(n, depth + 1) for n in local_parts(base, level + 1) if n is not base] if level < 3 else []
    return [n for n in out if n is not node and n is not NOTHING]
