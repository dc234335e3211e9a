"""Expressions of a function as nodes of its value-flow graph."""

from __future__ import annotations

from ... import knowledge
from ..source.patterns import Later
from .graph_values import (
    INHERIT,
    NOTHING,
    OFF,
    Box,
    Graph,
    Loop,
    Node,
    Store,
    key_of,
    path_of,
    text_of_test,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr, Function, Module
    from ..program.names import Scope
    from ..program.program import Program
    from .graph_values import Guards, Path

DEFINED = Later(r"def (?<=\bdef )(\w+)")
MERGES = 8
"""A merge of more values than this keeps the first ones."""


class Shared:
    """What the graphs of all functions have in common: answers about names that do not depend on the function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.outside: dict[tuple[int, str], str | None] = {}
        """By module and dotted name of the module: what it is called outside the project."""
        self.yielding: dict[int, frozenset[int]] = {}
        """By context manager of the project: the gradient modes in which it yields."""
        self._defined: set[str] = set()
        self._looked_at = 0
        self._imported: dict[str, set[str]] = {}

    def defines(self, name: str, module: Module) -> bool:
        """Does a parsed module, or one that `module` imports from, define a function of this name?"""
        modules = self.program.modules
        if len(modules) > self._looked_at:
            for parsed in list(modules.values())[self._looked_at :]:
                self._defined.update(parsed.functions)
                for cls in parsed.classes.values():
                    self._defined.update(cls.methods)
            self._looked_at = len(modules)
        if name in self._defined:
            return True
        return name in self.methods_imported(module)

    def methods_imported(self, module: Module) -> set[str]:
        """Names of the functions in files that are not parsed and from which a module imports classes or modules."""
        known = self._imported.get(module.path)
        if known is None:
            known = self._imported[module.path] = set()
            find = self.program.find
            paths = {find(module.path, dotted, level) for dotted, level in module.stars}
            for name, bound in module.names.items():
                if bound[0] == "import":
                    paths.add(find(module.path, bound[1]))
                elif bound[0] == "from":
                    inner = find(module.path, f"{bound[1]}.{bound[2]}" if bound[1] else bound[2], bound[3])
                    paths.add(inner or (find(module.path, bound[1], bound[3]) if name[:1].isupper() else None))
            for path in paths:
                if path is not None and path not in self.program.modules:
                    known.update(DEFINED.findall(self.program.text(path) or ""))
        return known


class Env:
    """What names hold at one point: plain names, elements written since (`fields`), gradient mode, evaluation modes."""

    __slots__ = ("evals", "fields", "mode", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.fields: dict[str, dict[Path, Node]] = {}
        self.mode = INHERIT
        self.evals: dict[Any, tuple[tuple[Guards, bool, int], ...]] = {}

    def copy(self) -> Env:
        out = Env()
        out.names = dict(self.names)
        out.fields = {k: dict(v) for k, v in self.fields.items()}
        out.mode = self.mode
        out.evals = self.evals
        return out


class Expressions:
    """Turns expressions into nodes. The statements are in `graph_build.Builder`."""

    kinds: dict[str, Any]
    """{kind of an expression: the method that makes its node}"""

    def __init__(self, program: Program, function: Function, shared: Shared) -> None:
        self.program = program
        self.shared = shared
        self.function = function
        self.scope: Scope = program.scope(function)
        self.graph = Graph(function)
        self.env = Env()
        self.alive = True
        self.loop: Loop | None = None
        self.guards: Guards = ()
        self.statement: Expr = ()
        """The expression that is a statement by itself."""
        table = knowledge.graph
        self.removers = table("remover_methods")
        self.keepers = table("keeper_methods")
        self.growing = table("growing_methods")
        self.clearing = table("clearing_methods")
        self.backward_methods = table("backward_methods")
        self.no_grad = table("no_grad_contexts")
        self.setters = table("grad_mode_setters")
        self.enablers = table("enable_grad_contexts")
        self.scalers = {n.rpartition(".")[2] for n in table("loss_scalers")}
        self.remover_attributes = table("remover_attributes")
        self.gradient_attributes = table("gradient_attributes")
        self.keeper_attributes = table("keeper_attributes")

    # ------------------------------------------------------------------------------------------------ making nodes
    def node(self, kind: str, pos: int, inputs: tuple[Node, ...] = (), data: Any = None) -> Node:
        return Node(self.graph, kind, pos, inputs, data, self.env.mode, self.loop, self.guards)

    def op(self, pos: int, what: str, *inputs: Node) -> Node:
        """A value computed from others: it has a graph when one of them has, and gradients are on."""
        if self.env.mode == OFF:
            return NOTHING
        kept = tuple([n for n in inputs if n is not NOTHING])
        if not kept:
            return NOTHING
        if len(kept) > 1:
            kept = tuple(dict.fromkeys(kept))
        return self.node("op", pos, kept, what)

    def join(self, pos: int, *inputs: Node) -> Node:
        flat: list[Node] = []
        for n in inputs:
            flat += n.inputs if n.kind == "join" and not n.data else (n,)
        kept = list(dict.fromkeys(flat))[:MERGES]
        return kept[0] if len(kept) == 1 else self.node("join", pos, tuple(kept)) if kept else NOTHING

    def element(self, base: Node, key: str, pos: int) -> Node:
        """An element or attribute; the same node each time it is asked for the same thing."""
        if base is NOTHING:
            return NOTHING
        if base.kind == "tuple" and key[0] == "[":
            index = key[1:-1]
            if index.isdigit() and int(index) < len(base.inputs):
                return base.inputs[int(index)]
            if index[:1] == "-" and index[1:].isdigit() and int(index[1:]) <= len(base.inputs):
                return base.inputs[-int(index[1:])]
        if base.kind == "snap" and key in base.data:
            found: Node = base.data[key]
            return found
        known = self.graph.elements.get((id(base), key))
        if known is None:
            known = Node(self.graph, "elem", pos, (base,), key, INHERIT, self.loop, self.guards)
            self.graph.elements[(id(base), key)] = known
        return known

    def name_node(self, name: str, pos: int) -> Node:
        node = self.env.names.get(name)
        if node is not None:
            return node
        known = self.graph.free.get(name)
        if known is None:
            known = self.graph.free[name] = Node(self.graph, "free", pos, (), name)
        return known

    def read(self, path: Path, pos: int) -> Node:
        """What a place holds now."""
        if len(path) == 1:
            return self.name_node(path[0], pos)
        written = self.env.fields.get(path[0])
        if written:
            known = written.get(path)
            if known is not None:
                return known
        return self.element(self.read(path[:-1], pos), path[-1], pos)

    # ------------------------------------------------------------------------------------------------- expressions
    def eval(self, e: Expr) -> Node:
        make = self.kinds.get(e[0])
        return make(self, e) if make else NOTHING

    def whole(self, e: Expr) -> Node:
        """A value that is handed on as a whole: with the elements that were replaced in it since it was made."""
        node = self.eval(e)
        if e[0] == "name":
            written = self.env.fields.get(e[2])
            if written and e[2] != self.graph.self_name and node.kind not in ("func", "nothing"):
                direct = {p[1]: v for p, v in written.items() if len(p) == 2}
                if direct:
                    return self.node("snap", e[1], (node,), direct)
        return node

    def on_name(self, e: Expr) -> Node:
        return self.name_node(e[2], e[1])

    def written_at(self, e: Expr) -> Node | None:
        """What was written to an element or attribute since its holder was made."""
        root = e
        while root[0] == "attr" or root[0] == "sub":
            root = root[2]
        written = self.env.fields.get(root[2]) if root[0] == "name" else None
        path = path_of(e) if written else None
        return written.get(path) if written and path else None

    def on_attr(self, e: Expr) -> Node:
        name = e[3]
        written = self.written_at(e)
        if written is not None:
            return written
        base = self.eval(e[2])
        if name in self.remover_attributes or name in self.gradient_attributes:
            if name == "data" and base.kind in ("op", "call", "elem", "phi", "join", "acc"):
                self.graph.removed.append((e[1], base))
            # `self.data`, `batch.name`: attributes of other objects are no tensors with a graph either
            return (
                NOTHING
                if base.kind not in ("param", "free") or name != "name"
                else self.element(base, "." + name, e[1])
            )
        if name in self.keeper_attributes:
            return self.op(e[1], name, base)
        return self.element(base, "." + name, e[1])

    def on_sub(self, e: Expr) -> Node:
        written = self.written_at(e)
        if written is not None:
            return written
        base = self.eval(e[2])
        if e[3][0] not in ("const", "name", "attr"):
            self.eval(e[3])
        key = key_of(e[3])
        if key == "[:]":
            return self.op(e[1], "slice", base)
        return self.element(base, key, e[1])

    def on_bin(self, e: Expr) -> Node:
        left, right = self.eval(e[3]), self.eval(e[4])
        if e[2] == "%" and e[3][0] in ("const", "fstr"):
            return NOTHING
        return self.op(e[1], e[2], left, right)

    def on_unary(self, e: Expr) -> Node:
        inner = self.eval(e[3])
        return NOTHING if e[2] in ("not", "~") else self.op(e[1], e[2], inner)

    def on_cmp(self, e: Expr) -> Node:
        for x in e[3]:
            self.eval(x)
        return NOTHING

    def on_bool(self, e: Expr) -> Node:
        return self.join(e[1], *[self.eval(x) for x in e[3]])

    def on_ifexp(self, e: Expr) -> Node:
        self.eval(e[2])
        out = []
        for branch, truth in ((e[3], True), (e[4], False)):
            env, guards = self.env, self.guards
            self.env = env.copy()
            self.guards = self.guarded(e[2], truth)
            self.refine(e[2], truth)
            out.append(self.eval(branch))
            self.env, self.guards = env, guards
        return self.join(e[1], *out)

    def on_tuple(self, e: Expr) -> Node:
        items = [self.whole(x) for x in e[2]]
        if all(n is NOTHING for n in items):
            return NOTHING
        if any(x[0] == "star" for x in e[2]):
            return self.node("box", e[1], (), Box("tuple", {f"[{i}]": n for i, n in enumerate(items)}))
        return self.node("tuple", e[1], tuple(items))

    def on_list(self, e: Expr) -> Node:
        return self.node("box", e[1], (), Box("list", {f"[{i}]": self.whole(x) for i, x in enumerate(e[2])}))

    on_set = on_list

    def on_dict(self, e: Expr) -> Node:
        entries = {}
        for i, (k, v) in enumerate(zip(e[2], e[3])):
            if k and k[0] not in ("const", "name", "attr"):
                self.eval(k)
            entries[key_of(k) if k else f"[**{i}]"] = self.whole(v)
        return self.node("box", e[1], (), Box("dict", entries))

    def on_big(self, e: Expr) -> Node:
        return self.node("box", e[1], (), Box(e[2]))

    def on_lambda(self, e: Expr) -> Node:
        env = self.env
        self.env = env.copy()
        for p in e[2]:
            self.env.names[p[0]] = NOTHING
        body = self.eval(e[3])
        self.env = env
        return self.node("lambda", e[1], (), body)

    def on_comp(self, e: Expr) -> Node:
        before = self.env
        outer = self.loop
        box = self.node("box", e[1], (), Box(e[2]))
        self.env = before.copy()
        for target, iterated, tests in e[4]:
            source = self.eval(iterated)
            self.loop = Loop(self.graph, e[1], "comp", self.loop)
            self.loop.iterated = source
            self.bind_element(target, iterated, source)
            for t in tests:
                self.eval(t)
                self.refine(t, True)
        if e[2] == "dict":
            self.eval(e[3][2][0])
            value = self.whole(e[3][2][1])
            expr = e[3][2][1]
        else:
            value, expr = self.whole(e[3]), e[3]
        if value is not NOTHING:
            self.keep("comp", expr[1], box, (), value, expr)
        self.loop = outer
        self.env = before
        return box

    def on_walrus(self, e: Expr) -> Node:
        value = self.eval(e[3])
        self.assign(e[2], value, e[3])
        return value

    def on_await(self, e: Expr) -> Node:
        return self.eval(e[2]) if e[2] else NOTHING

    def on_star(self, e: Expr) -> Node:
        return self.op(e[1], "copy", self.eval(e[2]))

    def on_yield(self, e: Expr) -> Node:
        self.graph.yields.append((self.whole(e[2]) if e[2] else NOTHING, self.env.mode))
        return NOTHING

    def on_yieldfrom(self, e: Expr) -> Node:
        self.graph.yields.append((self.op(e[1], "elements", self.eval(e[2])), self.env.mode))
        return NOTHING

    def on_fstr(self, e: Expr) -> Node:
        for x in e[2]:
            self.eval(x)
        return NOTHING

    # ---------------------------------------------------------------------------------------------------- to override
    def assign(self, target: Expr, value: Node, expr: Expr | None) -> None:
        raise NotImplementedError

    def write(self, path: Path, value: Node) -> None:
        raise NotImplementedError

    def bind_element(self, target: Expr, iterated: Expr, source: Node) -> None:
        raise NotImplementedError

    def iterate(self, source: Node, pos: int) -> Node:
        raise NotImplementedError

    def refine(self, test: Expr, truth: bool) -> None:
        raise NotImplementedError

    def clear(self, e: Expr, how: str) -> None:
        raise NotImplementedError

    def guarded(self, test: Expr, truth: bool) -> Guards:
        text = text_of_test(test[3] if test[0] == "unary" and test[2] == "not" else test)
        if test[0] == "unary" and test[2] == "not":
            truth = not truth
        return (*self.guards, (text, truth)) if text else self.guards

    def keep(self, how: str, pos: int, place: Node, path: Path, value: Node, expr: Expr | None) -> Store:
        """Note that a value is kept at a place, and give the place its new content."""
        store = Store(self.graph, how, pos, place, path, value, expr, self.loop, self.guards)
        self.graph.stores.append(store)
        store.acc.mode = self.env.mode
        if how in ("append", "comp", "item"):
            at = place
            while True:
                self.graph.contents.setdefault(at, []).append(store.acc)
                if at.kind not in ("elem", "join", "phi") or not at.inputs:
                    break
                for other in at.inputs[1:]:
                    self.graph.contents.setdefault(other, []).append(store.acc)
                at = at.inputs[0]
        return store
