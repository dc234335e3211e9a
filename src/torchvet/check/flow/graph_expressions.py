"""Expressions of a function as nodes of its value-flow graph."""

from __future__ import annotations

from ... import knowledge
from .graph_values import (
    INHERIT,
    MAYBE,
    NOTHING,
    OFF,
    ON,
    Backward,
    Box,
    Call,
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

    from ..program.model import Expr, Function
    from ..program.names import Scope
    from ..program.program import Program
    from .graph_values import Guards, Path

MERGES = 8
"""A merge of more values than this keeps the first ones."""


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

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.scope: Scope = program.scope(function)
        self.graph = Graph(function)
        self.env = Env()
        self.alive = True
        self.loop: Loop | None = None
        self.guards: Guards = ()
        table = knowledge.graph
        self.removers = table("remover_methods")
        self.keepers = table("keeper_methods")
        self.growing = table("growing_methods")
        self.clearing = table("clearing_methods")
        self.backward_methods = table("backward_methods")
        self.no_grad = table("no_grad_contexts")
        self.setters = table("grad_mode_setters")
        self.enablers = table("enable_grad_contexts")

    # ------------------------------------------------------------------------------------------------ making nodes
    def node(self, kind: str, pos: int, inputs: tuple[Node, ...] = (), data: Any = None) -> Node:
        return Node(self.graph, kind, pos, inputs, data, self.env.mode, self.loop, self.guards)

    def op(self, pos: int, what: str, *inputs: Node) -> Node:
        """A value computed from others: it has a graph when one of them has, and gradients are on."""
        kept = tuple(n for n in dict.fromkeys(inputs) if n is not NOTHING)
        if not kept or self.env.mode == OFF:
            return NOTHING
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
        make = getattr(self, "on_" + e[0], None)
        return make(e) if make else NOTHING

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

    def on_attr(self, e: Expr) -> Node:
        path = path_of(e)
        name = e[3]
        if path:
            written = self.env.fields.get(path[0])
            if written and path in written:
                return written[path]
        base = self.eval(e[2])
        if name in knowledge.graph("remover_attributes") or name in knowledge.graph("gradient_attributes"):
            if name == "data" and base.kind in ("op", "call", "elem", "phi", "join", "acc"):
                self.graph.removed.append((e[1], base))
            # `self.data`, `batch.name`: attributes of other objects are no tensors with a graph either
            return NOTHING if base.kind not in ("param", "free") or name != "name" else self.element(base, "." + name, e[1])
        if name in knowledge.graph("keeper_attributes"):
            return self.op(e[1], name, base)
        return self.element(base, "." + name, e[1])

    def on_sub(self, e: Expr) -> Node:
        path = path_of(e)
        if path:
            written = self.env.fields.get(path[0])
            if written and path in written:
                return written[path]
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

    # ------------------------------------------------------------------------------------------------------- calls
    def outside(self, func: Expr) -> str | None:
        """The qualified name when something outside the project is called by its import, or a builtin by its name."""
        root = func
        while root[0] == "attr":
            root = root[2]
        if root[0] != "name" or root[2] in self.env.names:
            return None
        found = self.program.entity(func, self.scope)
        return str(found[1]) if found and found[0] == "ext" else None

    def on_call(self, e: Expr) -> Node:
        func = e[2]
        call = Call(e)
        call.external = self.outside(func)
        if func[0] == "attr":
            call.method = func[3]
            if call.external is None:
                call.receiver = self.eval(func[2])
        elif call.external is None:
            call.callee = self.eval(func)
        call.arguments = [self.whole(a) for a in e[3]]
        call.keywords = {k or f"**{i}": self.whole(v) for i, (k, v) in enumerate(e[4])}
        call.evals = self.env.evals
        if call.external is not None:
            known = self.external_call(e, call, call.external)
            if known is not None:
                return known
        elif call.method:
            known = self.method_call(e, call)
            if known is not None:
                return known
        elif call.callee.kind == "lambda":
            body: Node = call.callee.data
            return body
        return self.unknown_call(e, call)

    def unknown_call(self, e: Expr, call: Call) -> Node:
        kind, data = "call", call
        if call.method == "" or call.method[:1].isupper():
            made = self.program.entity(e[2], self.scope) if call.external is None and e[2][0] in ("name", "attr") else None
            if made and made[0] == "class":
                node = self.node("object", e[1], self.inputs_of(call), made[1])
                node.guards = self.guards
                self.graph.calls[e[1]] = node
                return node
        node = self.node(kind, e[1], self.inputs_of(call), data)
        self.graph.calls[e[1]] = node
        return node

    def inputs_of(self, call: Call) -> tuple[Node, ...]:
        every = (call.receiver, *call.arguments, *call.keywords.values())
        return tuple(n for n in dict.fromkeys(every) if n is not NOTHING and n.kind != "func")

    def external_call(self, e: Expr, call: Call, name: str) -> Node | None:
        table = knowledge.graph
        if name.startswith("builtins."):
            return self.builtin_call(e, call, name[9:])
        if name in self.no_grad or name in self.enablers or name in self.setters:
            return self.switch(e, call, name)
        if name in table("backward_calls"):
            self.run_backward(e, call, call.arguments[0] if call.arguments else NOTHING, name)
            return self.op(e[1], "gradient", *call.arguments) if self.flag(e, "create_graph") else NOTHING
        if name in table("remover_functions") or name in table("remover_helpers") or name in table("source_less_functions"):
            for a in call.arguments:
                if a.kind in ("op", "call", "elem", "phi", "join", "acc"):
                    self.graph.removed.append((e[1], a))
            return NOTHING
        if name in table("sanitising_calls"):
            return NOTHING
        if name in table("second_result_functions"):
            return self.with_indices(e, self.op(e[1], name, *call.arguments[:1]), len(e[3]) > 1 or bool(e[4]), call)
        if name in table("keeper_functions") or name in table("loss_functions"):
            return self.op(e[1], name, *call.arguments, *call.keywords.values())
        if name in table("unbounded_containers"):
            entries = {f"[**{i}]": a for i, a in enumerate(call.arguments) if a.kind not in ("func", "free", "lambda")}
            entries.update({f"['{k}']": v for k, v in call.keywords.items()})
            return self.node("box", e[1], (), Box("dict" if "ict" in name else "list", entries))
        if name in table("bounded_containers"):
            bounded = len(e[3]) > 1 or any(k == "maxlen" and v[:1] + v[2:] != ("const", None) for k, v in e[4])
            return self.node("box", e[1], (), Box("deque", None, bounded))
        package = name.partition(".")[0]
        if package in ("numpy", "math", "os", "time", "random", "sklearn", "scipy", "json", "logging", "re", "jax", "tensorflow"):
            return NOTHING
        last = name.rpartition(".")[2]
        if last[:1].isupper():
            node = self.node("object", e[1], self.inputs_of(call), name)
            self.graph.calls[e[1]] = node
            return node
        return None

    def builtin_call(self, e: Expr, call: Call, name: str) -> Node | None:
        table = knowledge.graph
        if name in ("list", "dict", "set"):
            entries = {f"[**{i}]": a for i, a in enumerate(call.arguments)}
            entries.update({f"['{k}']": v for k, v in call.keywords.items()})
            return self.node("box", e[1], (), Box(name, entries))
        if name in ("next", "iter") and call.arguments:
            return self.iterate(call.arguments[0], e[1]) if name == "next" else call.arguments[0]
        if name in ("sum", "max", "min"):
            # of one argument: of its elements
            if len(e[3]) == 1:
                return self.op(e[1], name, self.iterate(call.arguments[0], e[1]))
            return self.op(e[1], name, *call.arguments)
        if name in table("keeper_builtins"):
            return self.op(e[1], "copy", *call.arguments)
        if name in ("range", "len", "super", "getattr", "setattr", "hasattr", "open", "any", "all", "enumerate"):
            if name == "getattr" and call.arguments:
                key = f".{e[3][1][2]}" if len(e[3]) > 1 and e[3][1][0] == "const" else ".*"
                return self.element(call.arguments[0], key, e[1])
            if name == "super":
                return self.graph.params.get(self.graph.self_name, NOTHING)
            return self.op(e[1], "enumerate", *call.arguments) if name == "enumerate" else NOTHING
        if name in table("remover_builtins"):
            for a in call.arguments:
                if name in ("float", "int") and a.kind in ("op", "call", "elem", "phi", "join", "acc"):
                    self.graph.removed.append((e[1], a))
        return NOTHING

    def flag(self, e: Expr, name: str) -> bool:
        return any(k == name and v[0] == "const" and v[2] is True for k, v in e[4])

    def with_indices(self, e: Expr, values: Node, has_dimension: bool, call: Call) -> Node:
        """`max(dim)` and its like: values with the graph, indices without; other tensors compared with: one result."""
        if values is NOTHING:
            return NOTHING
        others = [n for n in call.arguments[1 if call.external else 0 :] if n is not NOTHING]
        if not has_dimension or others:
            return self.op(e[1], call.method or "max", values, *others)
        return self.node("snap", e[1], (values,), {"[0]": values, "[1]": NOTHING, ".values": values, ".indices": NOTHING})

    def switch(self, e: Expr, call: Call, name: str) -> Node:
        """A context manager (or statement) that sets the gradient mode."""
        mode = OFF if name in self.no_grad else ON
        if name in self.setters:
            argument = e[3][0] if e[3] else next((v for k, v in e[4] if k in ("mode", "enabled")), None)
            if argument is not None:
                if argument[0] == "const":
                    mode = OFF if bool(argument[2]) == (name in self.no_grad) else ON
                    if name in self.no_grad and not argument[2]:
                        mode = INHERIT
                else:
                    mode = MAYBE
        self.graph.switches.append((e[1], mode))
        node = self.node("context", e[1], (), mode)
        node.inputs = tuple(n for n in call.arguments if n is not NOTHING)
        return node

    def method_call(self, e: Expr, call: Call) -> Node | None:
        name, receiver, func = call.method, call.receiver, e[2]
        pos = e[1]
        if name in self.backward_methods and (receiver is not NOTHING or call.arguments):
            self.backward_call(e, call)
            return self.unknown_call(e, call) if receiver.kind in ("param", "free", "elem", "object") else NOTHING
        if name in ("eval", "train") and len(e[3]) <= 1 and receiver is not NOTHING:
            self.set_mode(e, receiver, name)
            return receiver
        if name in ("step", "zero_grad"):
            self.graph.steps.append((pos, self.loop))
            return self.unknown_call(e, call)
        if receiver is NOTHING:
            return NOTHING if not any(a.kind in ("func", "lambda") for a in call.arguments) else self.unknown_call(e, call)
        if receiver.kind == "box" or (name in ("append", "extend", "appendleft", "insert") and name in self.growing):
            known = self.container_call(e, call)
            if known is not None:
                return known
        if name in self.clearing:
            self.clear(func[2], name)
            if name in ("clear", "reset", "flush"):
                return self.unknown_call(e, call)
            return self.element(receiver, "[*]", pos)
        if name in ("items", "values", "keys", "get", "copy", "setdefault"):
            return self.mapping_call(e, call)
        if name in self.removers:
            if receiver.kind in ("op", "call", "elem", "phi", "join", "acc", "param", "iter", "snap"):
                self.graph.removed.append((pos, receiver))
            if name.endswith("_"):
                path = path_of(func[2])
                if path:
                    self.write(path, NOTHING)
            return NOTHING
        if name[-1:] == "_" and name[:-1] in self.keepers:
            return self.inplace_call(e, call)
        if name in ("requires_grad_", "zero_", "fill_", "cuda", "to", "cpu"):
            return receiver
        if name in knowledge.graph("second_result_methods"):
            return self.with_indices(e, self.op(pos, name, receiver), bool(e[3] or e[4]), call)
        if name in self.keepers and not self.is_project_method(e):
            others = [] if name.endswith("_as") or name == "to" else [a for a in call.arguments if a.kind != "func"]
            return self.op(pos, name, receiver, *others)
        if name in ("scale", "scale_loss") and call.arguments and not self.is_project_method(e):
            return self.op(pos, name, *call.arguments)
        if name in knowledge.graph("sanitising_methods") and not self.is_project_method(e):
            return NOTHING
        return None

    def is_project_method(self, e: Expr) -> bool:
        return bool(self.program.targets(e, self.scope))

    def mapping_call(self, e: Expr, call: Call) -> Node:
        name, receiver, pos = call.method, call.receiver, e[1]
        if name == "keys":
            return NOTHING
        if name in ("get", "setdefault") and e[3]:
            path = path_of(("sub", pos, e[2][2], e[3][0]))
            found = self.read(path, pos) if path else self.element(receiver, key_of(e[3][0]), pos)
            if name == "setdefault" and len(e[3]) > 1 and path:
                return self.join(pos, found, call.arguments[1])
            return self.join(pos, found, *call.arguments[1:2])
        if name == "copy":
            return self.op(pos, "copy", receiver)
        if name in ("items", "values"):
            return self.op(pos, name, receiver)
        return receiver

    def container_call(self, e: Expr, call: Call) -> Node | None:
        """append, extend, insert, update ... of a container."""
        name, receiver, func = call.method, call.receiver, e[2]
        if name in self.growing and call.arguments and name not in ("setdefault",):
            if name == "update" and receiver.kind != "box":
                return None
            value = call.arguments[-1] if name == "insert" else call.arguments[0]
            expr = e[3][-1] if name == "insert" else e[3][0]
            if name in ("extend", "extendleft", "update"):
                value = self.op(e[1], "copy", value)
            store = None
            if value is not NOTHING:
                store = self.keep("append", e[1], receiver, path_of(func[2]) or (), value, expr)
            if receiver.kind not in ("box",):
                node = self.unknown_call(e, call)
                if store:
                    store.call = node
            return NOTHING
        if name in self.clearing:
            self.clear(func[2], name)
            return self.element(receiver, "[*]", e[1]) if name not in ("clear",) else NOTHING
        return None

    def inplace_call(self, e: Expr, call: Call) -> Node:
        """`x.add_(v)`; `x.mul_(a).add_(v)` changes x too."""
        base = e[2][2]
        while base[0] == "call" and base[2][0] == "attr" and base[2][3][-1:] == "_" and base[2][3][-2:] != "__":
            base = base[2][2]
        others = [a for a in (*call.arguments, *call.keywords.values()) if a is not NOTHING]
        if not others or self.env.mode == OFF:
            return call.receiver
        if base[0] == "attr" and base[3] in ("data", "grad"):
            return call.receiver
        value = self.op(e[1], call.method, *others)
        expr = e[3][0] if e[3] else next(v for _, v in e[4])
        store = self.keep("inplace", e[1], call.receiver, path_of(base) or (), value, expr)
        path = path_of(base)
        if path:
            self.write(path, store.acc)
        return store.acc

    def backward_call(self, e: Expr, call: Call) -> None:
        receiver = call.receiver
        tensor = receiver.kind in ("op", "call", "acc", "phi", "join", "iter") or not call.arguments
        target = receiver if tensor else call.arguments[0]
        if not tensor and target is NOTHING:
            target = receiver
        self.run_backward(e, call, target, call.method)

    def run_backward(self, e: Expr, call: Call, target: Node, via: str) -> None:
        if target is NOTHING:
            return
        creates = self.flag(e, "create_graph")
        back = Backward(e[1], target, self.loop, self.guards, creates or self.flag(e, "retain_graph"), creates, via)
        back.call = e
        self.graph.backwards.append(back)

    def set_mode(self, e: Expr, module: Node, name: str) -> None:
        evaluates = name == "eval"
        argument = e[3][0] if e[3] else None
        if name == "train" and argument is not None:
            if argument[0] != "const":
                self.env.evals = {k: v for k, v in self.env.evals.items() if k is not module}
                return
            evaluates = not argument[2]
        self.graph.evals.append((e[1], module, evaluates))
        self.env.evals = {**self.env.evals, module: ((self.guards, evaluates, e[1]),)}

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
