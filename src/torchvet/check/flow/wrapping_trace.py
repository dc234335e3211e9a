"""An abstract run of a program that follows models: see `wrapping`."""

from __future__ import annotations

from ... import knowledge
from ..program.model import walk_expr
from ..program.program import callee_name
from .settings_origins import Frame, Origins
from .wrapping_calls import KnownCalls
from .wrapping_device import device_kind
from .wrapping_models import (
    ESCAPED,
    REPLACED,
    REQUIRED,
    Instance,
    Model,
    Parameters,
    Several,
    distinct,
    elements,
    followed,
    models_in,
    parameters_in,
    refine,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Class, Expr, Function, Stmt
    from ..program.program import Program
    from .wrapping_models import Values
    from .wrapping_relevance import Relevance

DEPTH = 5
STEPS = 4000
"""Statements that one run may take; beyond it the rest stays unseen."""


class Trace(KnownCalls):
    def __init__(self, program: Program, origins: Origins, relevance: Relevance) -> None:
        super().__init__(program, origins, relevance)
        self._steps = 0
        self._stack: list[Function] = []
        self._entered: set[int] = set()

    # ------------------------------------------------------------------------------------------------ running
    def run(self, root: Function) -> None:
        env: dict[str, Values] = {}
        me: Any = None
        if root.owner is not None and root.is_method and root.params:
            me = self.instance(root.owner, seen=root.name == "__init__")
            env[root.params[0][0]] = (me,)
        self.function(root, env)
        if root.name == "__init__" and root.owner is not None:
            # nobody is seen to use the class: its methods run after the constructor, in their order
            for name, method in root.owner.methods.items():
                if method.is_method and method.params and id(method) not in self._entered and name != "__init__":
                    self.function(method, {method.params[0][0]: (me,)})

    def instance(self, cls: Class, seen: bool) -> Any:
        if self.is_module(cls):
            return Model(cls=cls)
        return Instance(cls, seen)

    def is_module(self, cls: Class) -> bool:
        return "torch.nn.Module" in self.program.bases(cls)[1]

    def function(self, f: Function, env: dict[str, Values]) -> Values:
        self._stack.append(f)
        self._entered.add(id(f))
        before = self._path
        returned: list[Any] = []
        no_grad = any(
            self.qualified(d[2] if d[0] == "call" else d, f) in knowledge.loader("no_grad_contexts")
            for d in f.decorators
        )
        self._no_grad += no_grad
        try:
            self.block(self.program.body(f), env, f, returned)
        finally:
            self._no_grad -= no_grad
            self._stack.pop()
            self._path = before
        return distinct(returned)

    def block(self, block: Block, env: dict[str, Values], f: Function, returned: list[Any]) -> bool:
        """Runs the statements; True when none of them lets the run go on behind the block."""
        for s in block:
            self._steps += 1
            if self._steps > STEPS:
                return True
            if self.statement(s, env, f, returned):
                return True
        return False

    def statement(self, s: Stmt, env: dict[str, Values], f: Function, returned: list[Any]) -> bool:
        kind = s[0]
        if kind == "assign":
            value = self.value(s[3], env, f)
            for t in s[2]:
                self.bind(t, value, env, f)
        elif kind == "ann":
            if s[4]:
                self.bind(s[2], self.value(s[4], env, f), env, f)
        elif kind in ("expr", "aug", "assert", "del"):
            for e in s[2:]:
                if isinstance(e, tuple) and e and isinstance(e[0], str):
                    self.value(e, env, f)
        elif kind == "return":
            if s[2]:
                returned += self.value(s[2], env, f)
            return True
        elif kind == "if":
            return self.branch(s, env, f, returned)
        elif kind in ("for", "while"):
            over = self.value(s[3] if kind == "for" else s[2], env, f)
            if kind == "for":
                parameters = parameters_in(over)
                if parameters:  # `for p in model.parameters()`, `for name, p in model.named_parameters()`
                    last = s[2][2][-1] if s[2][0] in ("tuple", "list") and s[2][2] else s[2]
                    self.bind(last, (Parameters(tuple(parameters)),), env, f)
                else:
                    self.bind(s[2], elements(over), env, f)
            body, other = (s[4], s[5]) if kind == "for" else (s[3], s[4])
            before = self._path
            self.block(body, env, f, returned)
            self._path = before
            self.block(other, env, f, returned)
        elif kind == "with":
            return self.entered(s, env, f, returned)
        elif kind == "try":
            ended = self.block(s[2], env, f, returned)
            for i, h in enumerate(s[3]):
                before = self._path
                self._path = (*before, (f"except {s[1]} {i}", True, None))
                self.block(h[2], env, f, returned)
                self._path = before
            if not ended:
                self.block(s[4], env, f, returned)
            self.block(s[5], env, f, returned)
            return ended and not s[3]
        elif kind == "match":
            before = self._path
            for i, (_, _, case) in enumerate(s[3]):
                self._path = (*before, *((f"case {s[1]} {j}", j == i, None) for j in range(i + 1)))
                self.block(case, env, f, returned)
            self._path = before
        elif kind in ("raise", "break", "continue"):
            return True
        return False

    def branch(self, s: Stmt, env: dict[str, Values], f: Function, returned: list[Any]) -> bool:
        self.value(s[2], env, f)
        text, truth = self.relevance.condition(s[2])
        before = self._path
        then, other = refine(s[2], env)
        self._path = (*before, (text, truth, s[2]))
        ends_then = self.block(s[3], then, f, returned)
        self._path = (*before, (text, not truth, s[2]))
        ends_other = self.block(s[4], other, f, returned)
        self._path = before
        env.clear()
        if ends_then and ends_other:
            env.update(then)
            return True
        if ends_then:
            env.update(other)
            self._path = (*before, (text, not truth, s[2]))
        elif ends_other:
            env.update(then)
            self._path = (*before, (text, truth, s[2]))
        else:
            for k, values in then.items():
                others = other.get(k, values)
                env[k] = values if values is others else distinct((*values, *others))
            for k, values in other.items():
                if k not in then:
                    env[k] = values
        return False

    def entered(self, s: Stmt, env: dict[str, Values], f: Function, returned: list[Any]) -> bool:
        on_device = no_grad = 0
        for context, target in s[2]:
            value = self.value(context, env, f)
            if target:
                self.bind(target, value, env, f)
            name = self.qualified(context[2], f) if context[0] == "call" else ""
            if name in knowledge.loader("device_contexts"):
                on_device += 1
            if name in knowledge.loader("no_grad_contexts"):
                no_grad += 1
        self._on_device += on_device
        self._no_grad += no_grad
        ended = self.block(s[3], env, f, returned)
        self._on_device -= on_device
        self._no_grad -= no_grad
        return ended

    def bind(self, t: Expr, value: Values, env: dict[str, Values], f: Function) -> None:
        if t[0] == "name":
            env[t[2]] = value
        elif t[0] == "attr":
            for owner in self.value(t[2], env, f):
                if isinstance(owner, Instance):
                    owner.attributes[t[3]] = value
                elif isinstance(owner, Parameters) and t[3] == "requires_grad":
                    for m in owner.models:
                        self.event(REQUIRED, m, t, f)
                elif isinstance(owner, Model):
                    if any(isinstance(v, Model) and v.known and v.inner is None for v in value):
                        self.event(REPLACED, owner, t, f)
                    for v in value:
                        if isinstance(v, Model) and v is not owner:
                            if v.parent is None:
                                v.parent = owner
                            owner.members[t[3]] = v
        elif t[0] in ("tuple", "list"):
            for i, x in enumerate(t[2]):
                items = [v.items[i] for v in value if isinstance(v, Several) and i < len(v.items)]
                self.bind(x, distinct([y for it in items for y in it]), env, f)

    # ------------------------------------------------------------------------------------------------- values
    def value(self, e: Expr, env: dict[str, Values], f: Function) -> Values:
        kind = e[0]
        if kind == "name":
            known = env.get(e[2])
            if not known and (known is not None or any(p[0] == e[2] for p in f.params)):
                # may be a model; where it came from is unknown: a parameter, or the result of something not seen
                made = Model(path=self._path)
                made.unseen = known is not None
                known = env[e[2]] = (made,)
            return known or ()
        if kind == "attr":
            return self.attribute(self.value(e[2], env, f), e[3])
        if kind == "call":
            return self.call(e, env, f)
        if kind == "ifexp":
            self.value(e[2], env, f)
            text, truth = self.relevance.condition(e[2])
            before = self._path
            env_then, env_other = refine(e[2], env)
            self._path = (*before, (text, truth, e[2]))
            then = self.value(e[3], env_then, f)
            self._path = (*before, (text, not truth, e[2]))
            other = self.value(e[4], env_other, f)
            self._path = before
            return distinct((*then, *other))
        if kind in ("tuple", "list"):
            return (Several([self.value(x, env, f) for x in e[2]]),)
        if kind == "bool":
            return distinct([v for x in e[3] for v in self.value(x, env, f)])
        if kind == "walrus":
            value = self.value(e[3], env, f)
            self.bind(e[2], value, env, f)
            return value
        if kind == "comp":
            models: list[Model] = []
            given = False
            for g in e[4]:
                got = self.value(g[1], env, f)
                given = given or bool(got)
                models += parameters_in(got)
                parameters = parameters_in(got)
                self.bind(g[0], (Parameters(tuple(parameters)),) if parameters else elements(got), env, f)
            each = self.value(e[3], env, f) if e[3][0] != "tuple" or e[2] != "dict" else ()
            if not given and e[2] == "list" and models_in(each):
                return (Several([each]),)  # `[Block().cuda() for _ in range(n)]`
            return (Parameters(tuple(models)),) if models else ()
        if kind == "dict":
            models = [m for v in e[3] for m in parameters_in(self.value(v, env, f))]
            return (Parameters(tuple(models)),) if models else ()
        if kind in ("await", "star"):
            return self.value(e[2], env, f) if e[2] else ()
        if kind == "sub":
            base = self.value(e[2], env, f)
            if e[3][0] == "const" and isinstance(e[3][2], int):
                return distinct(
                    [
                        x
                        for v in base
                        if isinstance(v, Several) and -1 < e[3][2] < len(v.items)
                        for x in v.items[e[3][2]]
                    ]
                )
            return ()
        for x in walk_expr(e):  # arithmetic, f-strings, ...: calls inside still happen
            if x is not e and x[0] == "call":
                self.value(x, env, f)
                break
        return ()

    def attribute(self, owners: Values, name: str) -> Values:
        out: list[Any] = []
        for owner in owners:
            if isinstance(owner, Instance):
                out += owner.attributes.get(name) or self.unseen_attribute(owner, name)
            elif isinstance(owner, Model):
                if name == "module" and owner.inner is not None:
                    out.append(owner.inner)
                elif name in owner.members:
                    out.append(owner.members[name])
                elif owner.inner is None:
                    part = Model(known=False, path=self._path)
                    part.parent = owner
                    owner.members[name] = part
                    out.append(part)
        return distinct(out)

    def unseen_attribute(self, owner: Instance, name: str) -> Values:
        """An attribute set by code that this run did not meet: a model that may be anywhere."""
        assigned = name in owner.attributes  # to something not seen: moves of other methods are met in their turn
        placed = self.relevance.moved(owner.cls, name) or (not assigned and self.placed_elsewhere(owner.cls, name))
        model = Model(placed=placed)
        owner.attributes[name] = (model,)
        return (model,)

    def placed_elsewhere(self, cls: Class, name: str) -> bool:
        rows = self.relevance.placed_attributes(cls).get(name)
        if not rows:
            return False
        return any(
            method.first_line <= row <= method.end_line
            for method in cls.methods.values()
            if method not in self._stack
            for row in rows
        )

    # -------------------------------------------------------------------------------------------------- calls
    def call(self, e: Expr, env: dict[str, Values], f: Function) -> Values:
        callee = e[2]
        method = callee[3] if callee[0] == "attr" else ""
        receiver = self.value(callee[2], env, f) if method else ()
        models = [m for m in receiver if isinstance(m, Model)]
        if method == "requires_grad_" and not models:
            for m in parameters_in(receiver):
                self.event(REQUIRED, m, e, f)
        if models:
            known = self.method_of_model(e, method, models, env, f)
            if known is not None:
                return known
        arguments = [self.value(a, env, f) for a in e[3]]
        keywords = {k: self.value(v, env, f) for k, v in e[4]}
        if method in ("append", "extend", "add", "update"):  # parameters sorted into lists for an optimizer's groups
            given = [m for v in arguments for m in parameters_in(v)]
            for holder in receiver if given else ():
                if isinstance(holder, Several):
                    holder.items.append((Parameters(tuple(given)),))
        called = self.attribute(receiver, method) if method else env.get(callee[2], ()) if callee[0] == "name" else ()
        followed = [
            m for m in called if isinstance(m, Model) and (m.inner is not None or m.raw_of is not None or m.sharded)
        ]
        if followed:
            self.forward(e, followed, f)
            return ()
        nothing = not receiver and not any(arguments) and not any(keywords.values())
        if self.relevance.idle(callee, f, nothing) or (method and nothing and self.relevance.pointless(callee, f)):
            return ()
        name = self.qualified(callee, f)
        if name:
            known = self.external(e, name, arguments, keywords, f)
            if known is not None:
                return known
        for owner in receiver:
            if isinstance(owner, Instance):
                target = self.program.method(owner.cls, method)
                if target is not None:
                    return self.enter(target, e, arguments, keywords, owner, f)
        return self.project_call(e, arguments, keywords, models, f)

    def project_call(
        self, e: Expr, arguments: list[Values], keywords: dict[str | None, Values], receiver: list[Model], f: Function
    ) -> Values:
        out: list[Any] = []
        entered = False
        for x in self.relevance.entities(e[2], f):
            if x[0] == "class":
                cls = x[1]
                init = self.program.method(cls, "__init__")
                if self.is_module(cls):
                    out.append(self.new_model(e, cls, init, f))
                    self.escape(arguments, keywords, e, f)
                else:
                    made = Instance(cls, True)
                    if init is not None:
                        self.enter(init, e, arguments, keywords, made, f)
                    out.append(made)
                entered = True
            elif x[0] in ("func", "method"):
                target = x[1]
                me = None
                if x[0] == "method" and e[2][0] == "attr" and e[2][2][0] == "name" and e[2][2][2] != "self":
                    me = self.instance(target.owner, seen=False) if target.owner else None
                out += self.enter(target, e, arguments, keywords, me, f)
                entered = True
        if not entered:
            self.escape(arguments, keywords, e, f)
        return distinct(out)

    def new_model(self, e: Expr, cls: Class, init: Function | None, f: Function) -> Model:
        placed = (
            bool(self._on_device)
            or any((k and "device" in k) or (k is None) for k, _ in e[4])
            or any(device_kind(a, Frame(f), self.origins) in ("gpu", "device") for a in e[3])
            or any(self.was_placed(a, f) for a in (*e[3], *(v for _, v in e[4])))
        )
        if init is not None and not placed:
            lines = self.program.lines(init.module.path)[init.first_line - 1 : init.end_line]
            words = [f".{m}(" for m in knowledge.loader("placement_methods")]
            placed = any("." in x and any(w in x for w in words) for x in lines)
        return Model(known=not placed, placed=placed, cls=cls, path=self._path)

    def was_placed(self, e: Expr, f: Function) -> bool:
        """Whether what a module is made of was moved where it was made: `student = create_model(name).cuda()`."""
        for o in self.origins.of(e, Frame(f)) if e[0] in ("name", "attr", "call") else ():
            at = o.e
            while at[0] == "call" and at[2][0] == "attr":
                if at[2][3] in knowledge.loader("placement_methods"):
                    return True
                at = at[2][2]
        return False

    def enter(
        self,
        target: Function,
        e: Expr,
        arguments: list[Values],
        keywords: dict[str | None, Values],
        me: Any,
        f: Function,
    ) -> Values:
        """Runs a project function with the values that the call passes."""
        if target in self._stack or len(self._stack) >= DEPTH:
            self.escape(arguments, keywords, e, f)
            return ()
        holds = isinstance(me, Instance) and any(
            m.inner is not None or m.sharded for v in me.attributes.values() for m in models_in(v)
        )
        if not holds and not self.relevance.on_path(target):
            held = me.attributes.values() if isinstance(me, Instance) else ()
            given = (*arguments, *keywords.values(), (me,), *held)
            models = [m for v in given for m in (*models_in(v), *parameters_in(v))]
            if not any(followed(m) for m in models) and not (models and self.relevance.optimizes(target)):
                return self.given_back(target, e, arguments, keywords, f)
            inside = any(m.raw_of is not None for m in models)  # `loss(model.module, x)`
            if not (inside or self.relevance.of(target) or (isinstance(me, Instance) and target.name == "__init__")):
                return self.given_back(target, e, arguments, keywords, f)
        if target.is_generator:
            self.escape(arguments, keywords, e, f)
            return ()
        inner: dict[str, Values] = {}
        params = [p for p in target.params if p[1] == "pos"]
        if target.is_method and params:
            inner[params[0][0]] = (me,) if me is not None else ()
            if me is None and target.owner is not None:
                inner[params[0][0]] = (self.instance(target.owner, seen=False),)
            params = params[1:]
        for p, v in zip(params, arguments):
            inner[p[0]] = v
        for k, v in keywords.items():
            if k is not None:
                inner[k] = v
        self._calls.append((f, e))
        try:
            return self.function(target, inner)
        finally:
            self._calls.pop()

    def given_back(
        self, target: Function, e: Expr, arguments: list[Values], keywords: dict[str | None, Values], f: Function
    ) -> Values:
        """What a function that is not run returns of what it is given; it may have moved it."""
        if self.relevance.of(target):
            self.escape(arguments, keywords, e, f)
        lines = self.program.lines(target.module.path)[target.first_line - 1 : target.end_line]
        names = {x.strip()[7:].strip() for x in lines if x.lstrip().startswith("return ")}
        out: list[Any] = []
        params = [p[0] for p in target.params if p[1] == "pos"][1 if target.is_method else 0 :]
        for name, v in (*zip(params, arguments), *keywords.items()):
            if name in names:
                out += v
        return distinct(out)

    def escape(self, arguments: list[Values], keywords: dict[str | None, Values], e: Expr, f: Function) -> None:
        if callee_name(e) in ("print", "len", "isinstance", "hasattr", "getattr", "type", "str", "id"):
            return
        for v in (*arguments, *keywords.values()):
            for m in models_in(v):
                self.event(ESCAPED, m, e, f)
