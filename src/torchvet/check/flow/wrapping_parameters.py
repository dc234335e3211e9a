"""Parameters of a DDP model: changed after DDP has registered them, or searched for unused ones where all are used."""

from __future__ import annotations

from ..program.model import expressions_of, target_names, walk_expr
from .settings_origins import Frame, is_self
from .wrapping_models import REPLACED, REQUIRED, WRAPPED, apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Expr, Function
    from .wrapping import Wrapping
    from .wrapping_models import Event, Model
    from .wrapping_trace import Trace

UNFROZEN, FROZEN, NEW = "unfrozen", "frozen", "new"
PARTIAL = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Module", "Parameter", "Identity")
"""Names of torch.nn that say nothing of which parameters a call uses (a Parameter is used by being read)."""
CUTS = ("detach", "item", "argmax", "data", "numpy", "tolist", "long", "int", "bool", "topk", "checkpoint")
"""Names on a way on which gradients may end."""


class Late:
    """A change of parameters after `wrap`: "unfrozen", "frozen" or "new". `before`: where they were frozen, or None."""

    __slots__ = ("before", "change", "kind", "wrap")

    def __init__(self, kind: str, wrap: Event, change: Event, before: Event | None = None) -> None:
        self.kind = kind
        self.wrap = wrap
        self.change = change
        self.before = before


class Parameters:
    def __init__(self, wrapping: Wrapping) -> None:
        self.wrapping = wrapping
        self.program = wrapping.program
        self.origins = wrapping.origins
        self._used: dict[int, bool] = {}

    # ------------------------------------------------------------------------------------------- late changes
    def late(self) -> list[Late]:
        """Parameters that are unfrozen, frozen or made after DDP has registered those of the model."""
        out: dict[tuple[str, int], Late] = {}
        for trace in self.wrapping.traces():
            for w in trace.of_kind(WRAPPED):
                if w.family != "ddp":
                    continue
                for c in (*trace.of_kind(REQUIRED), *trace.of_kind(REPLACED)):
                    if c.order > w.order and self.inside(c.model, w) and not apart(c.path, w.path):
                        found = self.judged(trace, w, c)
                        if found is not None:
                            out.setdefault(c.key, found)
        return [x for _, x in sorted(out.items()) if x.change.function.module.path not in self.program.loaded_on_demand]

    def inside(self, model: Model, w: Event) -> bool:
        return any(m is w.model or m is w.result for m in chain(model))

    def overlap(self, a: Event, b: Event, w: Event) -> bool:
        """Do two changes inside the wrapped model touch the same parameters?"""
        first, second = (w.model if e.model is w.result else e.model for e in (a, b))
        return any(m is second for m in chain(first)) or any(m is first for m in chain(second))

    def judged(self, trace: Trace, w: Event, c: Event) -> Late | None:
        if c.kind == REPLACED:
            return Late(NEW, w, c) if c.model is not w.result else None
        value = self.truth(c)
        if value is None:
            return None
        others = [e for e in trace.of_kind(REQUIRED) if e is not c and self.inside(e.model, w)]
        before = [
            e
            for e in others
            if e.order < w.order and self.truth(e) is False and not apart(e.path, c.path) and self.overlap(e, c, w)
        ]
        if value:
            return Late(UNFROZEN, w, c, before[-1]) if before else None
        if any(self.truth(e) is not False for e in others if e.order > w.order) or self.finds_unused(w):
            return None  # turned on and off again, as for the two sides of a GAN
        return Late(FROZEN, w, c) if c.model not in (w.model, w.result) and not before else None

    def truth(self, e: Event) -> bool | None:
        """The constant that a change sets; `requires_grad_()` sets True."""
        frame = Frame(e.function)
        if e.calls:
            g, call = e.calls[-1]
            frame = Frame(e.function, call, Frame(g))
        if e.call[0] == "call":
            given: Expr | None = e.call[3][0] if e.call[3] else next((v for _, v in e.call[4]), None)
            if given is None:
                return True
        else:
            given = self.assigned(e)
        ends = self.origins.of(given, frame) if given is not None else []
        values = {o.e[2] for o in ends if o.e[0] == "const" and isinstance(o.e[2], bool)}
        return values.pop() if len(values) == 1 and all(o.e[0] == "const" for o in ends) else None

    def assigned(self, e: Event) -> Expr | None:
        for s in self.program.statements(e.function):
            if s[0] == "assign" and any(t is e.call for t in s[2]):
                value: Expr = s[3]
                return value
        return None

    def finds_unused(self, w: Event) -> bool:
        return any(k is None or k in ("find_unused_parameters", "static_graph") for k, _ in w.call[4])

    # ------------------------------------------------------------------------------------------- the flag
    def needless(self) -> list[tuple[Event, Expr]]:
        """DDP with find_unused_parameters=True around a model that uses every parameter on its only way: (wrap, value
        of the flag)."""
        out: dict[tuple[str, int], tuple[Event, Expr]] = {}
        kept: set[tuple[str, int]] = set()
        for trace in self.wrapping.traces():
            for w in trace.of_kind(WRAPPED):
                flag = next((v for k, v in w.call[4] if k == "find_unused_parameters"), None)
                if w.family != "ddp" or flag is None or flag[0] != "const" or flag[2] is not True:
                    continue
                if w.model.cls is not None and self.uses_all(w.model.cls) and not self.frozen(w):
                    out.setdefault(w.key, (w, flag))
                else:
                    kept.add(w.key)
        return [v for k, v in sorted(out.items()) if k not in kept and k[0] not in self.program.loaded_on_demand]

    def frozen(self, w: Event) -> bool:
        """Does a file that makes or wraps the model switch gradients off for some of it?"""
        modules = {w.function.module.path, *(g.module.path for g, _ in w.calls)}
        if w.model.cls is not None:
            modules.add(w.model.cls.module.path)
        return any("requires_grad" in (self.program.text(p) or "") for p in modules)

    def uses_all(self, cls: Class, depth: int = 0) -> bool:
        """Does the result of `forward` depend on every parameter of the module, whatever the input?"""
        if id(cls) not in self._used:
            self._used[id(cls)] = False
            self._used[id(cls)] = depth < 4 and self.judge_class(cls, depth)
        return self._used[id(cls)]

    def judge_class(self, cls: Class, depth: int) -> bool:
        inside, outside = self.program.bases(cls)
        forward = cls.methods.get("forward")
        if inside or set(outside) - {"builtins.object"} != {"torch.nn.Module"} or forward is None or forward.decorators:
            return False
        if any(n.startswith("register_") or n in ("add_module", "__getattr__", "apply") for n in cls.methods):
            return False
        init = cls.methods.get("__init__")
        text = self.program.text_of(init) if init is not None else ""
        if any(w in text for w in ("add_module", "setattr", "register_", "no_grad")):
            return False
        parts = set()
        for name, values in self.program.own_attributes(cls).items():
            for e, f in values:
                kind = self.kind_of(e, f, depth)
                if kind is None or (kind and f is not init):
                    return False
                if kind:
                    parts.add(name)
        return bool(parts) and parts <= self.reaching_result(forward)

    def kind_of(self, e: Expr, f: Function, depth: int) -> bool | None:
        """True: a module all of whose parameters a call uses; False: nothing with parameters; None: not known."""
        if e[0] in ("const", "fstr", "bin", "cmp"):
            return False
        if e[0] == "name":
            annotation = next((p[3] for p in f.params if p[0] == e[2]), None)
            plain = (
                annotation is not None and annotation[0] == "name" and annotation[2] in ("int", "float", "bool", "str")
            )
            return False if plain else None
        if e[0] != "call":
            return None
        for x in self.program.entities(e[2], self.program.scope(f)):
            if x[0] == "class":
                return True if self.uses_all(x[1], depth + 1) else None
            if x[0] == "ext" and x[1].startswith("torch.nn.") and x[1].count(".") == 2:
                last = x[1].rpartition(".")[2]
                if last == "Parameter":
                    return True
                if last == "Sequential":
                    return True if e[3] and all(self.kind_of(a, f, depth) for a in e[3]) else None
                return True if last[:1].isupper() and last not in PARTIAL else None
        return None

    def reaching_result(self, forward: Function) -> set[str]:
        """Attributes of self on which the returned tensor surely depends: `forward` is one straight way."""
        body = [s for s in self.program.body(forward) if not (s[0] == "expr" and s[2][0] == "const")]
        if not body or body[-1][0] != "return" or not body[-1][2] or any(s[0] != "assign" for s in body[:-1]):
            return set()
        if body[-1][2][0] in ("tuple", "list", "dict"):
            return set()
        live: set[str] = set()
        used: set[str] = set()
        for s in reversed(body):
            targets = [n for t in s[2] for n in target_names(t)] if s[0] == "assign" else []
            if targets and not live & set(targets):
                continue
            if s[0] == "assign" and any(t[0] != "name" for t in s[2]):
                return set()
            live -= set(targets)
            for e in (s[3],) if s[0] == "assign" else expressions_of(s):
                for x in walk_expr(e):
                    if x[0] in ("ifexp", "bool", "comp", "lambda", "sub") or (x[0] == "attr" and x[3] in CUTS):
                        return set()
                    if x[0] == "attr" and is_self(x[2], forward):
                        used.add(x[3])
                    elif x[0] == "name":
                        live.add(x[2])
        return used


def chain(model: Model) -> list[Model]:
    """The model and what it is a part of."""
    out = [model]
    while out[-1].parent is not None and len(out) < 8:
        out.append(out[-1].parent)
    return out
