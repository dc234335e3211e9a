"""Backward calls and what they go over: their own, those of callees, callers and frameworks."""

from __future__ import annotations

from ... import knowledge
from ..program.callers import called_names
from ..source.patterns import Later
from .graph_modules import Modules
from .graph_summaries import MOST_FILES
from .graph_values import NOTHING, OFF, Graph, Loop, Node, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from ..program.program import Program
    from .graph_summaries import Sites
    from .graph_values import Backward, Guards

MAY, HUNT, SURE = 0, 1, 2
HANDED = ("call", "op", "elem", "phi", "join", "acc", "param", "snap", "iter")
"""Kinds of values over which a callee may run backward."""
CALLER_LEVELS = 2
"""Callers of callers asked whether they run backward on what comes back."""
WORD = Later(r"[A-Za-z_]\w*")
NO_PARTS: set[str] = set()
VALUE_ENDS = frozenset(",)]}.:; \t\r\n") | {""}
BEFORE_VALUE = Later(r"(?:^|[=(\[{:,.@|]|\b(?:return|yield|else|or|and|if|lambda))[ \t]*$")
"""What a line holds before a name that is used as a value."""
IMPORTS = Later(r"^[ \t]*(?:from|import)\b|#")
SHORT = 30
"""Lines of a function that may hand a value on to one that runs backward."""


class Event:
    """Backward runs on `nodes`, in `loop` of the function; `keeps`: the graph is retained. What it goes over is known
    at once (`reached`); what of that must have a graph (`proof`) is found when it is asked for: it needs to be known
    what is a module."""

    __slots__ = (
        "_proof", "accs", "consumes", "flow", "guards", "keeps", "level", "loop", "nodes", "outer", "pos", "reached",
    )  # fmt: skip

    def __init__(self, pos: int, nodes: list[Node], loop: Loop | None, guards: Guards, keeps: bool) -> None:
        self.pos = pos
        self.nodes = nodes
        self.loop = loop
        self.guards = guards
        self.keeps = keeps
        self.consumes = False
        """A learner that adapts itself (meta-learning)."""
        self.outer: Event | None = None
        """The caller's event that this one is seen from inside a callee."""
        self.level = SURE
        self.reached: set[Node] = set()
        self.accs: set[Node] = set()
        """Stores whose content goes into the backward."""
        self.flow: Events | None = None
        self._proof: Proof | None = None

    @property
    def proof(self) -> Proof:
        if self._proof is None:
            assert self.flow is not None
            self._proof = self.flow.prove(self)
        return self._proof

    def proves(self, node: Node) -> bool:
        """Must a node have a graph, because this backward runs?"""
        return node in self.reached and node in self.proof.evidence

    def parts(self, base: Node) -> set[str]:
        """The elements of a call's result that this backward reaches."""
        return self.proof.partial.get(base, NO_PARTS) if base in self.reached else NO_PARTS


class Proof:
    """What is known of the values that a backward goes over: how surely each has a graph (`levels`), those that must
    (`evidence`), and the calls of whose result some elements are reached: which (`partial`)."""

    __slots__ = ("evidence", "levels", "partial")

    def __init__(self) -> None:
        self.levels: dict[Node, int] = {}
        self.evidence: set[Node] = set()
        self.partial: dict[Node, set[str]] = {}


class Events(Modules):
    """Adds the backward events of a function."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._events: dict[int, list[Event]] = {}
        self._from_callers: dict[int, list[Event]] = {}
        self._going_back: dict[int, set[Node]] = {}
        self._at_sites: dict[tuple[int, int], list[Event]] = {}
        self._parameters: dict[int, dict[str, bool]] = {}
        self._trainers: tuple[set[str], bool] | None = None
        self._may_run_back: dict[str, bool] = {}
        self._hands_trainers: bool | None = None
        self.caller_levels = 0
        self.depth_of_training = 0

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
        out = [event_of(b) for b in graph.backwards]
        for node in graph.calls.values():
            if node.kind == "call" and node.data.method in knowledge.graph("consuming_methods") and node.data.arguments:
                consumed = Event(node.pos, [node.data.arguments[0]], node.loop, node.guards, True)
                consumed.consumes = True
                out.append(consumed)
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
        names, objects = self.trainers()
        call = node.data
        name = call.method or (call.expr[2][2] if call.expr[2][0] == "name" else "")
        kind = call.callee.kind
        called_object = objects and kind in ("elem", "free", "object", "join", "phi")
        if name not in names and not called_object and kind not in ("param", "call", "join"):
            return []
        if any(back.call is call.expr for back in node.graph.backwards) and len(call.expr[3]) + len(call.expr[4]) < 2:
            return []  # `x.backward(gradient)`: known by its name alone
        out = []
        if name not in names and not called_object:
            if not any(is_computed(n) for n in node.inputs):
                return []  # who runs backward under another name is handed a loss
            if kind == "call" and not any(self.may_give_trainer(f) for f, _ in self.targets(call.callee)):
                return []
            if kind != "call" and not self.hands_trainers():
                return []
        elif not any(n.kind in HANDED for n in node.inputs):
            return []
        if all(n is NOTHING for n in (*call.arguments, *call.keywords.values())):
            return []
        for f, _ in self.targets(node):
            for name, keeps in self.trained_parameters(f).items():
                found = self.argument(node, f, name)
                if found is not NOTHING:
                    out.append((found, keeps))
        return out

    def trainers(self) -> tuple[set[str], bool]:
        """(names of functions that run backward or hand values on to such a one, whether objects are called so)."""
        if self._trainers is None:
            names: set[str] = set()
            short: list[tuple[str, str]] = []
            for module in [m for m in self.program.modules.values() if not m.is_collected]:
                if ".backward(" not in (self.program.text(module.path) or ""):
                    continue
                for f in self.functions_in(module):
                    text = self.text(f)
                    if runs_backward(text):
                        names.add(f.name)
                        nested = [(g, self.text(g)) for g in self.program.with_nested(f) if g is not f]
                        names.update(g.name for g, inner in nested if runs_backward(inner))
                        short += [(g.name, inner) for g, inner in nested if g.end_line - g.first_line < SHORT]
                    elif f.end_line - f.first_line < SHORT:
                        short.append((f.name, text))
            direct = names - {"__init__", "forward"}
            names |= {name for name, text in short if not direct.isdisjoint(called_names(text))}
            names.discard("forward")  # nobody trains in what every module has
            self._trainers = names, "__call__" in names
        return self._trainers

    def may_give_trainer(self, f: Function) -> bool:
        """May a function return one that runs backward: does it name or define any?"""
        return not self.trainers()[0].isdisjoint(WORD.findall(self.text(f)))

    def hands_trainers(self) -> bool:
        """Is a function that runs backward handed on as a value anywhere, by the texts: `run(step)`, `f = step`?"""
        if self._hands_trainers is None:
            names = self.trainers()[0]
            modules = [m for m in self.program.modules.values() if not m.is_collected]
            self._hands_trainers = any(self.is_handed(name, m.path) for name in names for m in modules)
        return self._hands_trainers

    def is_handed(self, name: str, path: str) -> bool:
        """Does a name stand in a file where a value does: not called, defined or imported, not in a sentence?"""
        text = self.program.text(path) or ""
        at = text.find(name)
        while at >= 0:
            end = at + len(name)
            before, after = text[text.rfind("\n", 0, at) + 1 : at], text[end : end + 1]
            if after in VALUE_ENDS and BEFORE_VALUE.search(before) is not None and IMPORTS.search(before) is None:
                return True
            at = text.find(name, end)
        return False

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
                event = event_of(back)
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
        among = None
        if f.name != "__init__":
            among = frozenset(p for p, _, text in self.texts_calling(f) if self.may_run_back(text))
            if not among:
                return out
        for call in self.calls_of(f, 2 * MOST_FILES, among)[:6]:
            if not self.may_run_back(self.text(call.graph.function)):
                continue
            for event in self.events(call.graph):
                inner = self.returned_event(graph, call, event)
                if inner is not None:
                    out.append(inner)
        return out[:6]

    def may_run_back(self, text: str) -> bool:
        """Does a text say backward, or call something of a name that runs it?"""
        known = self._may_run_back.get(text)
        if known is None:
            known = "backward" in text or not self.trainers()[0].isdisjoint(called_names(text))
            self._may_run_back[text] = known
        return known

    def goes_back(self, graph: Graph) -> set[Node]:
        """What the returned values of a function are made of."""
        known = self._going_back.get(id(graph))
        if known is None:
            event = Event(graph.function.pos, list(graph.returns), None, (), True)
            self.close(event)
            known = self._going_back[id(graph)] = event.reached
        return known

    def reach(self, back: Backward) -> set[Node]:
        """What a backward of a function's own goes over."""
        event = event_of(back)
        self.close(event)
        return event.reached

    def returns_matter(self, graph: Graph) -> bool:
        return any(r is not NOTHING and r.kind not in ("func", "object", "param", "context") for r in graph.returns)

    def close(self, event: Event) -> None:
        """What the backward goes over: everything the value is made of, within one step."""
        event.flow = self
        around = set(nest_of(event.loop))
        stack = list(event.nodes)
        seen = event.reached
        while stack:
            node = stack.pop()
            if node is NOTHING or node in seen:
                continue
            seen.add(node)
            kind = node.kind
            if kind in ("op", "join", "call", "acc"):
                if kind == "acc":
                    event.accs.add(node)
                stack += node.inputs
            elif kind == "phi":
                if node.data not in around:
                    stack += node.inputs
            elif kind == "elem":
                base = node.inputs[0]
                if base.kind == "call":
                    stack.append(base)
                else:
                    stack += self.inside(node)
            elif kind == "iter":
                stack += self.inside(node)
            elif kind in ("tuple", "box", "snap", "lambda"):
                stack += self.sources(node)

    def prove(self, event: Event) -> Proof:
        """`close` with how sure it is. A node is reached SURE when it must have a graph; HUNT: when it is a result of a
        called object; otherwise it only may take part."""
        proof = Proof()
        around = set(nest_of(event.loop))
        stack: list[tuple[Node, int]] = [(n, event.level) for n in event.nodes]
        seen = proof.levels
        while stack:
            node, sure = stack.pop()
            if node is NOTHING or seen.get(node, -1) >= sure:
                continue
            if sure == HUNT and node.kind == "call" and self.made_by_object(node):
                sure = SURE
            seen[node] = sure
            kind = node.kind
            if sure == SURE and kind in ("call", "elem", "param", "iter", "free", "acc", "op", "join", "phi"):
                proof.evidence.add(node)
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
                    made = sure == SURE or (sure == HUNT and self.made_by_object(base))
                    if made:
                        proof.partial.setdefault(base, set()).add(node.data)
                        proof.evidence.add(node)
                    if base not in seen:
                        seen[base] = MAY
                        stack += [(n, HUNT if made else MAY) for n in base.inputs]
                else:
                    stack += [(n, min(sure, HUNT)) for n in self.inside(node)]
            elif kind == "iter":
                # `model, loader = prepare(...)`: a turn over one of several results is a turn over data
                of_several = node.inputs[0].kind == "elem" and node.inputs[0].inputs[0].kind == "call"
                stack += [(n, MAY if of_several else min(sure, HUNT)) for n in self.inside(node)]
            elif kind in ("call", "acc"):
                stack += [(n, min(sure, HUNT)) for n in node.inputs]
            elif kind in ("tuple", "box", "snap", "lambda"):
                if kind == "snap":
                    stack.append((node.inputs[0], MAY))
                stack += [(n, min(sure, HUNT)) for n in self.sources(node)]
        return proof

    def inside(self, node: Node) -> list[Node]:
        """What an element or iterated value of a local container is."""
        out = local_parts(node)
        # the stores that hold them take part as well
        contents = node.graph.contents
        child, at = node, node.inputs[0]
        while True:
            key = child.data if child.kind == "elem" else ""
            out += [acc for acc in contents.get(at, ()) if not is_apart(acc.data.place, at, key)]
            if at.kind in ("phi", "join"):
                for n in at.inputs:
                    out += contents.get(n, ())
            if at.kind not in ("elem", "op", "iter", "phi", "join", "acc") or not at.inputs:
                return out
            child, at = at, at.inputs[0]

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
        """Is a value the result of calling an object (a model, a loss) on data, not of a method or a function?"""
        call = node.data
        if call.external is not None or node.mode == OFF or not any(self.is_data(n) for n in node.inputs):
            return False
        if not call.method:
            if call.callee.kind == "func" or (call.callee.kind == "free" and self.targets(node)):
                return False
            if call.callee.kind == "free" and call.callee.data[:1].isupper():
                return False  # makes an object
            return call.callee.kind in ("param", "free", "elem", "object", "join", "phi", "call", "iter")
        if call.receiver.kind == "param" and call.receiver.data == node.graph.self_name:
            return not any(f.name == call.method for f, _ in self.targets(node))
        return self.is_module(self.callee(node))

    def is_data(self, node: Node) -> bool:
        """Something of the step: computed, iterated or passed in, not a setting kept in an attribute."""
        root = node
        while root.kind == "elem":
            root = root.inputs[0]
        return not (root.kind == "param" and root.data == root.graph.self_name)

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
        parts = event.parts(call)
        for k in parts:
            for r in graph.returns:
                nodes += [n for n, _ in self.elements(r, k) if n.graph is graph]
        if not parts and call in event.reached:
            nodes = list(graph.returns)
        nodes = [n for n in nodes if n is not NOTHING]
        if not nodes:
            return None
        inner = Event(graph.function.pos, nodes, None, (), event.keeps)
        inner.outer = event
        inner.level = SURE if parts else event.proof.levels[call]
        return inner


def is_apart(place: Node, base: Node, key: str) -> bool:
    """Does a place below `base` lie in another attribute of it than `key`?"""
    if key[:1] != ".":
        return False
    while place is not base and place.kind in ("elem", "iter", "phi", "join", "acc") and place.inputs:
        if place.inputs[0] is base:
            return place.kind == "elem" and place.data[0] == "." and place.data != key
        place = place.inputs[0]
    return False


def event_of(back: Backward) -> Event:
    return Event(back.pos, [back.node], back.loop, back.guards, back.keeps)


def is_computed(node: Node) -> bool:
    """Is a value computed in the function, or a part of such a one: not as it was given?"""
    while node.kind == "elem":
        node = node.inputs[0]
    return node.kind in ("call", "op", "phi", "join", "acc")


def runs_backward(text: str) -> bool:
    """Does a text call anything whose name ends in `backward`, other than to define it?"""
    at = text.find("backward(")
    while at >= 0:
        start = at
        while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        if not text.endswith("def ", 0, start):
            return True
        at = text.find("backward(", at + 9)
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
        elif kind in ("join", "phi", "acc") or (
            kind == "op" and base.data in ("copy", "items", "values", "enumerate", "slice")
        ):
            stack += [(n, depth + 1) for n in base.inputs]
        elif kind in ("op", "call"):
            out.append(base)
        elif kind in ("elem", "iter"):
            stack += [(n, depth + 1) for n in local_parts(base, level + 1) if n is not base] if level < 3 else []
    return [n for n in out if n is not node and n is not NOTHING]
