"""Questions over the value-flow graphs of all functions: what a call runs, what a value is made of, in which gradient
mode a function runs. Everything is answered on demand and remembered; functions that nobody asks about cost nothing.
"""

from __future__ import annotations

from ... import knowledge
from .graph_library import WRITTEN, Decorators
from .graph_values import NOTHING, OFF, Box, Call, Node, is_plain_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Function
    from ..program.program import Program

    Sites = tuple[Node, ...]

DEEPEST = 5
"""Calls into calls followed for one question."""
MOST_CALLERS = 8
MOST_FILES = 30
MOST_PARTS = 48


class Summaries(Decorators):
    """Adds to the graphs what crosses functions."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._targets: dict[int, list[tuple[Function, Class | None]]] = {}
        self._classes: dict[int, list[Class]] = {}
        self._busy: set[object] = set()
        self._parts: dict[int, list[tuple[Node, Sites]]] = {}
        self.alone = False
        """What callers pass is not asked for."""
        self.cut = False
        """It would have been: the answer is not the whole one."""
        self._calls_of: dict[tuple[int, int, frozenset[str] | None], list[Node]] = {}

    # ------------------------------------------------------------------------------------------------------- graphs
    # -------------------------------------------------------------------------------------------------------- calls
    def targets(self, node: Node) -> list[tuple[Function, Class | None]]:
        """Project functions that a call may run, each with the class of the object it is called on, as far as known."""
        known = self._targets.get(id(node))
        if known is not None:
            return known
        found: list[tuple[Function, Class | None]] = []
        self._targets[id(node)] = found
        self.enter()
        alone, self.alone = self.alone, False
        try:
            self.find_targets(node, found)
        finally:
            self.nesting -= 1
            self.alone = alone
        return found

    def find_targets(self, node: Node, found: list[tuple[Function, Class | None]]) -> None:
        if node.kind == "object":
            if not isinstance(node.data, str):
                f = self.program.method(node.data, "__init__")
                if f:
                    found.append((f, node.data))
            return
        call = node.data
        f0 = node.graph.function
        scope = self.program.scope(f0)
        for f in self.program.targets(call.expr, scope):
            found.append((f, f.owner))
        if found or call.external is not None:
            return
        callee = call.callee
        if callee is not NOTHING:
            for f in self.functions(callee):
                found.append((f, None))
            for cls in self.classes(callee):
                f2 = self.program.method(cls, "__call__") or self.program.method(cls, "forward")
                if f2:
                    found.append((f2, cls))
            if not found:
                found += self.by_shape(callee, call)
        elif call.method and call.receiver is not NOTHING:
            if call.method in knowledge.graph("plumbing_methods") and call.receiver.kind in ("param", "elem", "iter"):
                return
            for cls in self.classes(call.receiver):
                f2 = self.program.method(cls, call.method)
                if f2:
                    found.append((f2, cls))
            if not found and call.method not in knowledge.graph("growing_methods"):
                attribute = self.callee(node)
                for f in self.functions(attribute):
                    found.append((f, None))
                for cls in self.classes(attribute):
                    f2 = self.program.method(cls, "__call__") or self.program.method(cls, "forward")
                    if f2:
                        found.append((f2, cls))
                if not found:
                    found += self.by_shape(attribute, call)
        del found[6:]

    def callee(self, node: Node) -> Node:
        """What is called, as a value: `self.model` in `self.model(x)`."""
        call: Call = node.data
        if call.callee is not NOTHING or not call.method:
            return call.callee
        if call.receiver is NOTHING:
            return NOTHING
        return self.element_of(call.receiver, "." + call.method)

    def element_of(self, base: Node, key: str) -> Node:
        """The one node for an element or attribute of a value."""
        elements = base.graph.elements
        if (id(base), key) not in elements:
            elements[(id(base), key)] = Node(base.graph, "elem", base.pos, (base,), key)
        found: Node = elements[(id(base), key)]
        return found

    def functions(self, node: Node, depth: int = 0, sites: Sites = ()) -> list[Function]:
        """Project functions that a value may be, seen through the call sites that lead to it."""
        if depth > DEEPEST or node is NOTHING or node.kind in ("op", "box", "tuple", "object", "acc"):
            return []
        if node.kind == "param" and node.data == node.graph.self_name:
            return []  # an instance, or the class
        out: list[Function] = []
        if node.kind == "func":
            return [node.data]
        key = ("functions", id(node), sites[-1:])
        if key in self._busy:
            return []
        self._busy.add(key)
        try:
            if node.kind in ("join", "phi"):
                for n in node.inputs:
                    out += self.functions(n, depth + 1, sites)
            elif node.kind == "call":
                for f, _ in self.targets(node):
                    for r in self.returned(f):
                        out += self.functions(r, depth + 1, (*sites, node))
            elif node.kind in ("elem", "iter"):
                for n, s in self.parts_of(node, sites, depth + 1):
                    if n is not node:
                        out += self.functions(n, depth + 1, s)
            elif node.kind == "free":
                for n in self.bound(node):
                    out += self.functions(n, depth + 1)
            elif node.kind == "param" and (sites or depth < 3):
                for n, s in self.given(node, sites):
                    out += self.functions(n, depth + 1, s)
                    if n.kind == "free":
                        for x in self.program.entities(("name", n.pos, n.data), self.program.scope(n.graph.function)):
                            if x[0] in ("func", "method"):
                                out.append(x[1])
        finally:
            self._busy.discard(key)
        return list(dict.fromkeys(out))[:6]

    def given(self, param: Node, sites: Sites) -> list[tuple[Node, Sites]]:
        """What is passed for a parameter: by the call that led here, else by all callers."""
        f = param.graph.function
        if sites and any(g is f for g, _ in self.targets(sites[-1])):
            found = self.argument(sites[-1], f, param.data)
            return [(found, sites[:-1])] if found is not NOTHING else []
        return [(n, ()) for n, _ in self.passed(param)]

    def classes(self, node: Node, depth: int = 0, sites: Sites = ()) -> list[Class]:
        """Project classes whose instance a value may be, seen through the call sites that lead to it."""
        if depth > DEEPEST or node is NOTHING or node.kind in ("box", "tuple", "acc", "func"):
            return []
        known = self._classes.get(id(node)) if not sites else None
        if known is not None:
            return known
        key = ("classes", id(node), sites[-1:])
        if key in self._busy:
            return []
        self._busy.add(key)
        out: list[Class] = []
        alone, self.alone = self.alone, False
        try:
            if node.kind == "object":
                if not isinstance(node.data, str):
                    out.append(node.data)
            elif node.kind in ("join", "phi"):
                for n in node.inputs:
                    out += self.classes(n, depth + 1, sites)
            elif node.kind == "call":
                out += self.class_called(node)
                for f, _ in self.targets(node):
                    for r in self.returned(f):
                        out += self.classes(r, depth + 1, (*sites, node))
            elif node.kind in ("elem", "iter"):
                for n, s in self.parts_of(node, sites, depth + 1):
                    if n is not node:
                        out += self.classes(n, depth + 1, s)
            elif node.kind == "free":
                for n in self.bound(node):
                    out += self.classes(n, depth + 1)
            elif node.kind == "param":
                out += self.classes_given(node, depth, sites)
            elif node.kind == "op" and node.data in ("copy", "enter"):
                for n in node.inputs:
                    out += self.classes(n, depth + 1, sites)
        finally:
            self._busy.discard(key)
            self.alone = alone
        out = list(dict.fromkeys(out))[:6]
        if not sites and (depth == 0 or out):
            self._classes[id(node)] = out
        return out

    def classes_given(self, param: Node, depth: int, sites: Sites) -> list[Class]:
        """Classes whose instance may be passed for a parameter."""
        graph = param.graph
        if param.data == graph.self_name and graph.function.owner:
            return [graph.function.owner]
        if any(p[0] == param.data and p[3] and is_plain_type(p[3]) for p in graph.function.params):
            return []
        scope = self.program.scope(graph.function)
        out = [x[1] for x in self.program.entities(("name", param.pos, param.data), scope) if x[0] == "inst"]
        if not out and (sites or depth < 3):
            for n, s in self.given(param, sites):
                out += self.classes(n, depth + 1, s)
        if not out and not self.calls_of(graph.function, MOST_FILES):
            out += self.by_methods(param)
        return out

    def by_methods(self, node: Node) -> list[Class]:
        """The one class of the module that has every method called on a value of which nothing else is known."""
        used = {n.data.method for n in node.graph.calls.values() if n.kind == "call" and n.data.receiver is node}
        used -= knowledge.graph("ordinary_methods")
        if not used:
            return []
        classes = node.graph.function.module.classes.values()
        found = [c for c in classes if all(self.program.method(c, m) is not None for m in used)]
        return found if len(found) == 1 else []

    def by_shape(self, callee: Node, call: Call) -> list[tuple[Function, Class | None]]:
        """A called parameter or attribute of which nothing is known: the class of the same file that can be called so,
        takes as many arguments, and has the same name but for case."""
        name = callee.data if callee.kind == "param" else callee.data[1:] if callee.kind == "elem" else ""
        module = callee.graph.function.module if name else None
        for cls in module.classes.values() if module else ():
            if cls.name.lower() != name.replace("_", "").lower() or cls is callee.graph.function.owner:
                continue
            f = cls.methods.get("__call__") or cls.methods.get("forward")
            if f is not None and len(f.params) - 1 == len(call.expr[3]) and not call.expr[4]:
                return [(f, cls)]
        return []

    def class_called(self, node: Node) -> list[Class]:
        """The class that a call instantiates when it was passed as a parameter: `Model(...)`."""
        callee = node.data.callee
        if callee.kind != "param":
            return []
        out = []
        for n, _ in self.passed(callee):
            if n.kind == "free":
                for x in self.program.entities(("name", n.pos, n.data), self.program.scope(n.graph.function)):
                    if x[0] == "class":
                        out.append(x[1])
        return out

    def argument(self, site: Node, f: Function, name: str) -> Node:
        """What a call passes for a parameter."""
        if site.kind == "object":
            call = None
            arguments, keywords = list(site.inputs), {}
            expr = None
        else:
            call = site.data
            arguments, keywords, expr = call.arguments, call.keywords, call.expr
        if name in keywords:
            found: Node = keywords[name]
            return found
        params = f.params
        if f.is_method and params:
            if params[0][0] == name:
                if call is None:
                    return site
                return call.receiver if f.name == call.method else self.callee(site)
            params = params[1:]
        if expr is not None and any(a[0] == "star" for a in expr[3]):
            starred = [a for a, e in zip(arguments, expr[3]) if e[0] == "star"]
            positional = [p[0] for p in params if p[1] == "pos"]
            before = next(i for i, a in enumerate(expr[3]) if a[0] == "star")
            if name in positional and positional.index(name) < before:
                return arguments[positional.index(name)]
            return starred[0]
        i = 0
        for p in params:
            if p[1] == "pos":
                if p[0] == name:
                    return arguments[i] if i < len(arguments) else NOTHING
                i += 1
            elif p[1] == "*" and p[0] == name:
                rest = tuple(a for a in arguments[i:] if a is not NOTHING)
                return Node(site.graph, "tuple", site.pos, rest) if rest else NOTHING
            elif p[1] == "**" and p[0] == name:
                named = {q[0] for q in params}
                entries = {f"['{k}']": v for k, v in keywords.items() if k not in named}
                return Node(site.graph, "box", site.pos, (), Box("dict", entries)) if entries else NOTHING
        return NOTHING

    def passed(self, param: Node) -> list[tuple[Node, Node]]:
        """[(argument, call)] that the callers in the project pass for a parameter."""
        out = []
        for call in self.calls_of(param.graph.function, MOST_FILES):
            found = self.argument(call, param.graph.function, param.data)
            if found is not NOTHING:
                out.append((found, call))
        return out

    def calls_of(self, f: Function, most: int = 0, among: frozenset[str] | None = None) -> list[Node]:
        """The call nodes in the project that may run a function; with `most`, none where the name is called in more
        files than that (what such callers pass says little, and finding them costs much); `among`: in these files."""
        key = (id(f), most, among)
        known = self._calls_of.get(key)
        if known is not None:
            return known
        out: list[Node] = []
        for n in range(2 * MOST_CALLERS):
            sites = self.program.callers(f, most, n + 1, among, f.module.in_tests)
            if len(sites) <= n or len(out) >= MOST_CALLERS:
                break
            caller, expr = sites[n]
            if caller is f:
                continue
            node = self.graph(caller).calls.get(expr[1])
            if node is not None and node not in out:
                out.append(node)
        self._calls_of[key] = out
        return out

    # -------------------------------------------------------------------------------------------------------- values
    def bound(self, free: Node) -> list[Node]:
        """What a free name may hold: the bindings of the functions around, else of the module."""
        f = free.graph.function
        at: Function | None = f.parent
        while at is not None:
            graph = self.graph(at)
            if free.data in graph.params and free.data not in graph.bindings:
                return [graph.params[free.data]]
            if free.data in graph.bindings:
                return [*graph.bindings[free.data], *([graph.params[free.data]] if free.data in graph.params else [])]
            for g in graph.nested:
                if g.name == free.data:
                    return [Node(graph, "func", g.pos, (), g)]
            at = at.parent
        if f.name != "<module>" and free.data in f.module.names and f.module.names[free.data][0] == "value":
            return self.graph(self.program.main(f.module)).bindings.get(free.data, [])
        return []

    def heap(self, cls: Class, key: str) -> list[Node]:
        """What the methods of a class leave in an attribute (key ".x"), and what they put into it."""
        out: list[Node] = []
        for method in self.holders(cls, key, WRITTEN):
            graph = self.graph(method)
            out += graph.attributes.get(key, ())
            me = graph.params.get(graph.self_name)
            if me is not None:
                element = graph.elements.get((id(me), key))
                if element is not None:
                    out += graph.contents.get(element, ())
        return out

    def parts_of(self, node: Node, sites: Sites, depth: int) -> list[tuple[Node, Sites]]:
        """What an `elem` or `iter` node may be: [(node, call sites still open)]; itself where nothing is known."""
        if not sites:
            known = self._parts.get(id(node))
            if known is not None:
                return known
        key = "[*]" if node.kind == "iter" else node.data
        out: list[tuple[Node, Sites]] = []
        self.enter()
        cut, self.cut = self.cut, False
        try:
            self.collect(node.inputs[0], key, sites, depth, out, node)
        finally:
            self.nesting -= 1
            whole = not self.cut
            self.cut = self.cut or cut
        if node.kind == "elem":
            out += [(n.data.value, sites) for n in node.graph.contents.get(node, ()) if n.data.how == "add"]
        del out[MOST_PARTS:]
        if not sites and whole and (self.nesting == 0 or (self.fuel > 0 and depth == 0)):
            self._parts[id(node)] = out
        return out

    def collect(
        self, base: Node, key: str, sites: Sites, depth: int, out: list[tuple[Node, Sites]], whole: Node
    ) -> None:  # fmt: skip
        """Adds to `out` what may be the element `key` of `base`."""
        mark = ("part", id(base), key, len(sites))
        self.fuel -= 1
        if self.fuel < 0 or base is NOTHING or depth > 12 or mark in self._busy or len(out) > MOST_PARTS:
            return
        self._busy.add(mark)
        try:
            self._collect(base, key, sites, depth + 1, out, whole)
        finally:
            self._busy.discard(mark)

    def _collect(
        self, base: Node, key: str, sites: Sites, depth: int, out: list[tuple[Node, Sites]], whole: Node
    ) -> None:  # fmt: skip
        kind = base.kind
        if kind == "box":
            for k, n in base.data.entries.items():
                if k == key or (key == "[*]" and not k.startswith("[**")) or k == "[*]":
                    out.append((n, sites))
                elif k.startswith("[**"):
                    self.collect(n, key, sites, depth, out, whole)
            self.stored(base, key, sites, out)
        elif kind == "tuple":
            index = key[1:-1]
            if index.isdigit() and int(index) < len(base.inputs):
                out.append((base.inputs[int(index)], sites))
            elif key in ("[*]", "[-1]") or (key[0] == "[" and not index.lstrip("-").isdigit()):
                out += [(n, sites) for n in base.inputs]
        elif kind == "snap":
            if key in base.data:
                out.append((base.data[key], sites))
            else:
                if key == "[*]":
                    out += [(n, sites) for n in base.data.values()]
                self.collect(base.inputs[0], key, sites, depth, out, whole)
        elif kind in ("join", "phi"):
            for n in base.inputs:
                self.collect(n, key, sites, depth, out, whole)
        elif kind == "acc":
            if base.data.how in ("append", "comp", "item"):
                out.append((base.data.value, sites))
                self.collect(base.inputs[0], key, sites, depth, out, whole)
            elif base.data.how == "cat":
                for n in base.inputs:
                    self.collect(n, key, sites, depth, out, whole)
            else:
                out.append((base, sites))
        elif kind == "op":
            if base.data in ("copy", "items", "values", "elements", "enumerate", "enter", "slice"):
                for n in base.inputs:
                    self.collect(n, key, sites, depth, out, whole)
            else:
                out.append((base, sites))
        elif kind == "call":
            if base.mode == OFF:
                return
            found = self.targets(base) if len(sites) < DEEPEST else []
            for f, _ in found:
                if f.is_generator:
                    yields = self.graph(f).yields if key == "[*]" else []
                    out += [(y, (*sites, base)) for y, _ in yields if y is not NOTHING]
                    continue
                for r in self.returned(f):
                    self.collect(r, key, (*sites, base), depth, out, whole)
            if not found:
                field = self.field_of(base, key)
                out.append((field or self.opaque(base, key, whole), sites))
        elif kind == "param":
            if sites and any(f is base.graph.function for f, _ in self.targets(sites[-1])):
                self.collect(
                    self.argument(sites[-1], base.graph.function, base.data), key, sites[:-1], depth, out, whole
                )
            elif key[0] == "." and self.classes(base):
                for cls in self.classes(base)[:3]:
                    out += [(n, ()) for n in self.heap(cls, key) if n is not NOTHING]
                out.append((self.opaque(base, key, whole), sites))
            elif depth < 6:
                out.append((self.opaque(base, key, whole), sites))
                self.cut = self.cut or self.alone
                for n, _ in self.passed(base) if not self.alone else ():
                    self.collect(n, key, (), depth + 1, out, whole)
        elif kind == "object":
            field = self.field_of(base, key)
            if field is not None:
                out.append((field, sites))
            if key[0] == "[":
                self.stored(base, key, sites, out)
            if key[0] == "." and not isinstance(base.data, str):
                for n in self.heap(base.data, key):
                    if n is NOTHING:
                        continue
                    out.append(
                        (n, (*sites, base) if n.graph.function.name == "__init__" and len(sites) < DEEPEST else ())
                    )
        elif kind in ("elem", "iter"):
            inner = self.parts_of(base, sites, depth + 1)
            for n, s in inner:
                if n is base or (n.kind == "elem" and n.data == base.data and n.inputs == base.inputs):
                    out.append((self.opaque(base, key, whole), s))
                else:
                    self.collect(n, key, s, depth + 1, out, whole)
            self.stored(base, key, sites, out)
        elif kind == "free":
            for n in self.bound(base):
                self.collect(n, key, (), depth + 1, out, whole)
            out.append((self.opaque(base, key, whole), sites))

    def field_of(self, base: Node, key: str) -> Node | None:
        """A field of a record made by a call: of a NamedTuple or dataclass, or of what `namedtuple` gave."""
        call = base.graph.makers.get(base) if base.kind == "object" else base.data
        if call is None or key[0] not in ".[":
            return None
        names = self.fields(base, call)
        name = (
            key[1:]
            if key[0] == "."
            else names[int(key[1:-1])]
            if key[1:-1].isdigit() and names[int(key[1:-1]) :]
            else ""
        )
        if name not in names:
            return None
        found: Node | None = call.keywords.get(name)
        if found is None and names.index(name) < len(call.arguments):
            found = call.arguments[names.index(name)]
        return found

    def record(self, base: Node) -> list[Node]:
        """What a record made by a call holds in its fields; nothing for what is no record."""
        call = base.graph.makers.get(base) if base.kind == "object" else base.data
        if call is None or not (call.arguments or call.keywords) or not (names := self.fields(base, call)):
            return []
        return [*call.arguments[: len(names)], *(n for k, n in call.keywords.items() if k in names)]

    def fields(self, base: Node, call: Call) -> list[str]:
        if base.kind == "object":
            if isinstance(base.data, str) or self.program.method(base.data, "__init__"):
                return []
            return [s[2][2] for s in base.data.block if s[0] == "ann" and s[2][0] == "name"]
        if call.callee.kind != "free" or not call.callee.data[:1].isupper():
            return []
        for n in self.bound(call.callee):
            if n.kind == "call" and n.data.external == "collections.namedtuple" and len(n.data.expr[3]) > 1:
                names = n.data.expr[3][1]
                if names[0] == "const" and isinstance(names[2], str):
                    return names[2].replace(",", " ").split()
                if names[0] in ("list", "tuple"):
                    return [str(x[2]) for x in names[2] if x[0] == "const"]
        return []

    def stored(self, base: Node, key: str, sites: Sites, out: list[tuple[Node, Sites]]) -> None:
        """What was put into a container, as far as the key allows."""
        for acc in base.graph.contents.get(base, ()):
            store = acc.data
            if store.how == "item" and store.key is not None and key[0] == "[" and store.place is base:
                from .graph_values import key_of

                k = key_of(store.key)
                if k != key and key not in ("[*]",) and k[:2] in ("['", '["') and key[:2] in ("['", '["'):
                    continue
            out.append((store.value if store.how != "add" else acc, sites))

    def opaque(self, base: Node, key: str, whole: Node) -> Node:
        """The node that stands for an element about which nothing more is known."""
        if whole.inputs and whole.inputs[0] is base and (whole.data == key or whole.kind == "iter"):
            return whole
        known = base.graph.elements.get((id(base), key))
        if known is None:
            known = base.graph.elements[(id(base), key)] = Node(base.graph, "elem", base.pos, (base,), key)
        found: Node = known
        return found

    # ------------------------------------------------------------------------------------------------------- modules
