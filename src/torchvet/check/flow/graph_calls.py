"""Calls of a function as nodes of its value-flow graph: names outside the project, builtins, methods by name."""

from __future__ import annotations

from ... import knowledge
from .graph_expressions import Expressions
from .graph_values import INHERIT, MAYBE, NOTHING, OFF, ON, Backward, Box, Call, Loop, Made, Node, key_of, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Class, Expr
    from ..program.names import Scope


WRAPPED = ("copy", "enter", "items", "values", "elements", "enumerate", "slice", "gradient")
"""Operations whose result may be an object of any kind."""


MAPPING = ("items", "values", "keys", "get", "copy", "setdefault")
"""Methods that are taken for those of a mapping, whatever they are called on."""


class Calls(Expressions):
    """Adds calls to `Expressions`."""

    def outside(self, func: Expr) -> str | None:
        """The qualified name when something outside the project is called by its import, or a builtin by its name."""
        root, rest = func, ""
        while root[0] == "attr":
            rest = "." + root[3] + rest
            root = root[2]
        if root[0] != "name" or root[2] in self.env.names:
            return None
        if self.is_local(root[2]):
            return self.find_outside(func, root)
        # a name of the module means the same in all its functions
        known = self.shared.outside
        key = (id(self.function.module), root[2] + rest)
        if key not in known:
            known[key] = self.find_outside(func, root)
        return known[key]

    def find_outside(self, func: Expr, root: Expr) -> str | None:
        if (func is root or func[2] is root) and self.defined_as(root[2], "" if func is root else func[3]):
            return None
        if func[0] == "attr" and func[2] is root and func[3] in MAPPING and self.comes_from_project(root[2]):
            return None  # `TABLE.get(name)`
        found = self.program.entity(func, self.scope)
        return str(found[1]) if found and found[0] == "ext" else None

    def comes_from_project(self, name: str) -> bool:
        """Is a name of the module imported from another file of the project, and no file itself?"""
        path = self.function.module.path
        bound = self.function.module.names.get(name)
        if bound is None or bound[0] != "from" or self.program.find(path, bound[1], bound[3]) is None:
            return False
        return self.program.find(path, f"{bound[1]}.{bound[2]}" if bound[1] else bound[2], bound[3]) is None

    def is_local(self, name: str) -> bool:
        """Is a name bound in the function, or in one around it?"""
        at: Scope | None = self.scope
        while at is not None and not at.is_module:
            if name in at.bindings():
                return True
            at = at.parent
        return False

    def defined_as(self, name: str, attribute: str) -> str:
        """What the text of the project says that a name (or the attribute of a module of that name) is: "def", "class",
        or "" when that is unknown before the module it comes from is parsed."""
        module = self.function.module
        bound = module.names.get(name)
        at: Scope | None = self.scope
        while at is not None and not at.is_module:
            local = at.bindings().get(name)
            if local is not None:
                bound = local[0] if len(local) == 1 else None
                break
            at = at.parent
        if bound is None:
            return ""
        find = self.program.find
        if bound[0] == "from":
            inner = find(module.path, f"{bound[1]}.{bound[2]}" if bound[1] else bound[2], bound[3]) if attribute else ""
            path = inner or find(module.path, bound[1], bound[3])
            if not path or path == module.path:
                return ""
            return self.program.defined_as(path, attribute if inner else bound[2])
        if bound[0] == "import" and attribute:
            path = find(module.path, bound[1])
            return self.program.defined_as(path, attribute) if path else ""
        return bound[0] if bound[0] == "def" and not attribute else ""

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
            what = self.made_by(e[2], call)
            if what is not None:
                node: Node = Made(
                    self.graph, "object", e[1], self.inputs_of(call), what, self.env.mode, self.loop, self.guards
                )
                self.graph.makers[node] = call
                self.graph.calls[e[1]] = node
                return node
        node = self.node(kind, e[1], self.inputs_of(call), data)
        self.graph.calls[e[1]] = node
        return node

    def made_by(self, func: Expr, call: Call) -> Any:
        """The class of the project that a call makes an instance of, or how to find it; None when it makes none."""
        if call.external is not None or func[0] not in ("name", "attr"):
            return None
        root = func if func[0] == "name" else func[2]
        held = self.env.names.get(func[2]) if func is root else None
        if held is not None and held.kind == "elem" and held.inputs[0].kind == "call":
            return None  # one of several results: no class
        if root[0] == "name" and root[2] not in self.env.names:
            told = self.defined_as(root[2], "" if func is root else func[3])
            if told == "class":
                return lambda: self.class_of(func) or ""
            if told and func is root:
                return None
        return self.class_of(func)

    def class_of(self, func: Expr) -> Class | None:
        found = self.program.entity(func, self.scope)
        return found[1] if found and found[0] == "class" else None

    def inputs_of(self, call: Call) -> tuple[Node, ...]:
        every = (call.receiver, *call.arguments, *call.keywords.values())
        kept = [n for n in every if n is not NOTHING and n.kind != "func"]
        return tuple(dict.fromkeys(kept)) if len(kept) > 1 else tuple(kept)

    def external_call(self, e: Expr, call: Call, name: str) -> Node | None:
        table = knowledge.graph
        if name.startswith("builtins."):
            return self.builtin_call(e, call, name[9:])
        if name in self.no_grad or name in self.enablers or name in self.setters:
            return self.switch(e, call, name)
        if name in table("backward_calls"):
            self.run_backward(e, call, call.arguments[0] if call.arguments else NOTHING, name)
            return self.op(e[1], "gradient", *call.arguments) if self.flag(e, "create_graph") else NOTHING
        if name in table("source_less_functions") and name not in table("remover_functions"):
            return self.node("tensor", e[1])
        if name in table("remover_functions") or name in table("remover_helpers"):
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
            made = self.program.entity(e[3][0], self.scope) if e[3] and e[3][0][0] in ("name", "attr") else None
            if made and made[0] == "class":  # defaultdict(Meter)
                entries["[*]"] = self.node("object", e[1], (), made[1])
            return self.node("box", e[1], (), Box("dict" if "ict" in name else "list", entries))
        if name in table("bounded_containers"):
            bounded = len(e[3]) > 1 or any(k == "maxlen" and v[:1] + v[2:] != ("const", None) for k, v in e[4])
            return self.node("box", e[1], (), Box("deque", None, bounded))
        if name.partition(".")[0] in table("graphless_packages"):
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
            if len(e[3]) == 1 and e[3][0][0] == "comp" and not e[4]:
                return call.arguments[0]  # `list(f(x) for x in y)`
            if name != "dict" and len(e[3]) == 1 and e[3][0][0] == "call" and self.runs_generator(e[3][0]):
                return self.collected(e, name, call.arguments[0])
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

    def runs_generator(self, e: Expr) -> bool:
        if e[2][0] == "attr" and (e[2][3] in MAPPING or not self.shared.defines(e[2][3], self.function.module)):
            return False
        return any(f.is_generator for f in self.program.targets(e, self.scope))

    def collected(self, e: Expr, name: str, generated: Node) -> Node:
        """`list(outputs(model, loader))` keeps what a generator of the project gives, as `[x for x in ...]` does."""
        box = self.node("box", e[1], (), Box(name))
        outer = self.loop
        self.loop = Loop(self.graph, e[1], "comp", outer)
        self.loop.iterated = generated
        value = self.iterate(generated, e[1])
        if value is not NOTHING:
            self.keep("comp", e[3][0][1], box, (), value, e[3][0])
        self.loop = outer
        return box

    def flag(self, e: Expr, name: str) -> bool:
        return any(k == name and v[0] == "const" and v[2] is True for k, v in e[4])

    def with_indices(self, e: Expr, values: Node, has_dimension: bool, call: Call) -> Node:
        """`max(dim)` and its like: values with the graph, indices without; other tensors compared with: one result."""
        if values is NOTHING:
            return NOTHING
        others = [n for n in call.arguments[1 if call.external else 0 :] if n is not NOTHING]
        if not has_dimension or others:
            return self.op(e[1], call.method or "max", values, *others)
        return self.node(
            "snap", e[1], (values,), {"[0]": values, "[1]": NOTHING, ".values": values, ".indices": NOTHING}
        )

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
            return (
                NOTHING if not any(a.kind in ("func", "lambda") for a in call.arguments) else self.unknown_call(e, call)
            )
        if receiver.kind == "box" or (name in ("append", "extend", "appendleft", "insert") and name in self.growing):
            known = self.container_call(e, call)
            if known is not None:
                return known
        if name in self.clearing:
            self.clear(func[2], name)
            if name in ("clear", "reset", "flush"):
                return self.unknown_call(e, call)
            return self.element(receiver, "[*]", pos)
        if name in MAPPING:
            return self.mapping_call(e, call)
        if name in self.removers:
            if receiver.kind in ("op", "call", "elem", "phi", "join", "acc", "param", "iter", "snap"):
                self.graph.removed.append((pos, receiver))
                if name == "detach_":
                    self.graph.renewed.append(receiver)
            if name.endswith("_"):
                path = path_of(func[2])
                if path:
                    self.write(path, NOTHING)
            return NOTHING
        if name[-1:] == "_" and name[:-1] in self.keepers:
            return self.inplace_call(e, call)
        if name == "requires_grad_" and any(a[0] == "const" and a[2] is False for a in e[3]):
            self.graph.frozen.add(receiver)
        if name in ("requires_grad_", "zero_", "fill_", "cuda", "to", "cpu"):
            return receiver
        if name in knowledge.graph("second_result_methods"):
            return self.with_indices(e, self.op(pos, name, receiver), bool(e[3] or e[4]), call)
        # `meter.add(v)` as a statement is no tensor arithmetic: its result would be lost; `self.norm(x)` calls a module
        kept = name in self.keepers and e is not self.statement and not self.calls_attribute(receiver)
        if kept and not self.is_project_method(e, receiver):
            others = [] if name.endswith("_as") or name == "to" else [a for a in call.arguments if a.kind != "func"]
            return self.op(pos, name, receiver, *others)
        if name in self.scalers and call.arguments and not self.is_project_method(e, receiver):
            return self.op(pos, name, *call.arguments)
        if name in knowledge.graph("sanitising_methods") and not self.is_project_method(e, receiver):
            return NOTHING
        return None

    def calls_attribute(self, receiver: Node) -> bool:
        """Is a method looked up on the object of the function, whose class sets an attribute by itself?"""
        return receiver.kind == "param" and receiver.data == self.graph.self_name and self.function.is_method

    def is_project_method(self, e: Expr, receiver: Node) -> bool:
        if receiver.kind == "tensor" or (receiver.kind == "op" and receiver.data not in WRAPPED):
            return False  # computed: a tensor
        return self.shared.defines(e[2][3], self.function.module) and bool(self.program.targets(e, self.scope))

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
