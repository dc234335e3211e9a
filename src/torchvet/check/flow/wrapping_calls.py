"""What calls of PyTorch and its libraries do with models, for an abstract run (see `wrapping_trace`)."""

from __future__ import annotations

from ... import knowledge
from .settings_origins import Frame, Origins
from .wrapping_device import device_kind
from .wrapping_models import (
    BYPASSED,
    CLIPPED,
    CONVERTED,
    ESCAPED,
    FORWARD,
    LOADED,
    OPTIMIZER,
    PLACED,
    REQUIRED,
    WRAPPED,
    Event,
    Model,
    Parameters,
    Several,
    apart,
    models_in,
    parameters_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr, Function
    from ..program.program import Program
    from .wrapping_models import Path, Values
    from .wrapping_relevance import Relevance

STATE_METHODS = ("state_dict", "named_modules", "modules", "children", "named_children", "named_buffers", "buffers")
IN_PLACE_OR_ONE_PROCESS = {("ddp", "dp_module"): "dp", ("fsdp2", "ddp_module"): "replicate"}


class KnownCalls:
    """Events of one run, and the calls that make them. `value`, `attribute` and `enter` are the run's own."""

    def __init__(self, program: Program, origins: Origins, relevance: Relevance) -> None:
        self.program = program
        self.origins = origins
        self.relevance = relevance
        self.events: list[Event] = []
        self.default_device = False
        self._path: Path = ()
        self._calls: list[tuple[Function, Expr]] = []
        self._on_device = 0
        self._no_grad = 0

    def value(self, e: Expr, env: dict[str, Values], f: Function) -> Values:
        raise NotImplementedError

    def attribute(self, owners: Values, name: str) -> Values:
        raise NotImplementedError

    def enter(
        self,
        target: Function,
        e: Expr,
        arguments: list[Values],
        keywords: dict[str | None, Values],
        me: Any,
        f: Function,
    ) -> Values:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------- asking
    def of_kind(self, kind: str) -> list[Event]:
        return [e for e in self.events if e.kind == kind]

    def on(self, *models: Model | None) -> list[Event]:
        """Events on these models, or on what they are part of."""
        wanted: set[int] = set()
        for m in models:
            while m is not None and id(m) not in wanted:
                wanted.add(id(m))
                m = m.parent
        return [e for e in self.events if id(e.model) in wanted]

    def event(self, kind: str, model: Model, e: Expr, f: Function) -> Event:
        made = Event(kind, model, e, f, self._path, len(self.events))
        made.calls = tuple(self._calls)
        self.events.append(made)
        return made

    def qualified(self, e: Expr, f: Function) -> str:
        """The outside function or class that an expression names; "" for an instance of such a class."""
        for x in self.relevance.entities(e, f):
            while x and x[0] == "partial":
                x = x[1]
            if x and x[0] == "ext":
                return str(x[1])
            if x and x[0] == "extmethod":
                return f"{x[1]}.{x[2]}"
        return ""

    # ------------------------------------------------------------------------------------------- known calls
    def method_of_model(
        self, e: Expr, method: str, models: list[Model], env: dict[str, Values], f: Function
    ) -> Values | None:
        if method in knowledge.loader("placement_methods"):
            for m in models:
                self.event(PLACED, m, e, f).trace = self
            return tuple(models)
        if method in knowledge.loader("module_methods"):
            if method == "requires_grad_":
                for m in models:
                    self.event(REQUIRED, m, e, f)
            return tuple(models)
        if method in ("parameters", "named_parameters"):
            return (Parameters(tuple(models)),)
        if method == "load_state_dict":
            for m in models:
                self.event(LOADED, m, e, f)
            return ()
        own = [m for m in models if m.cls is not None and self.program.method(m.cls, method)]
        if own and method != "forward":
            target = self.program.method(own[0].cls, method)  # type: ignore[arg-type]
            if target is not None and not target.is_generator:
                arguments = [self.value(a, env, f) for a in e[3]]
                keywords = {k: self.value(v, env, f) for k, v in e[4]}
                self.forward(e, [m for m in models if m.raw_of], f)
                return self.enter(target, e, arguments, keywords, own[0], f)
        raw = [m for m in models if m.raw_of is not None and not m.raw_of.placed_when_made]
        if any(m.inner is not None for m in models) or method in knowledge.loader("step_methods"):
            raw = []  # the wrapper or, in one process, the model: the usual double meaning of one name
        if raw and method not in ("forward", "module") and not self._no_grad and method not in STATE_METHODS:
            for m in raw:
                self.event(BYPASSED, m, e, f).family = "method"
        for m in models:
            if method not in m.members and method not in (
                "forward",
                "module",
                "state_dict",
                "named_modules",
                "modules",
            ):
                self.event(ESCAPED, m, e, f)
        if all(m.cls is None and m.inner is None and not m.known for m in models) and method not in (
            "forward",
            "module",
        ):
            return None
        for a in (*e[3], *(v for _, v in e[4])):
            self.value(a, env, f)
        parts = [m for m in self.attribute(tuple(models), method) if isinstance(m, Model)]
        self.forward(e, models if method == "forward" else [m for m in parts if m.inner or m.raw_of or m.sharded], f)
        return ()

    def forward(self, e: Expr, models: list[Model], f: Function) -> None:
        # the wrapper or, in one process, the model: `net = DDP(net) if world_size > 1 else net`
        either = any(m.inner is not None for m in models)
        for m in models:
            if m.raw_of is not None and not self._no_grad and not either:
                self.event(BYPASSED, m, e, f)
            elif m.inner is not None or m.sharded:
                self.event(FORWARD, m, e, f)

    def placement(self, e: Expr, method: str, f: Function) -> str:
        """ "gpu", "cpu", "device" (somewhere), "maybe", or "" when the call changes only the type."""
        if method != "to":
            return "cpu" if method == "cpu" else "gpu"
        kinds = [device_kind(a, Frame(f), self.origins) for a in e[3][:1]]
        kinds += [device_kind(v, Frame(f), self.origins) for k, v in e[4] if k == "device"]
        kinds += ["maybe" for k, _ in e[4] if k is None]
        for k in kinds:
            if k:
                return k
        return ""

    def external(
        self, e: Expr, name: str, arguments: list[Values], keywords: dict[str | None, Values], f: Function
    ) -> Values | None:
        row = knowledge.api(name)
        models = [m for v in arguments[:1] for m in models_in(v)]
        if not models:
            models = [m for k in ("module", "model") for m in models_in(keywords.get(k, ()))]
        if row is not None and row.kind == "wraps_model":
            family = IN_PLACE_OR_ONE_PROCESS.get((row.family, row.result or ""), row.family)
            return self.prepare(e, arguments, f) if family == "accelerate" else self.wrap(e, family, models, f)
        if name in knowledge.loader("device_defaults"):
            self.default_device = True
            return ()
        if name in knowledge.loader("returns_module"):
            return tuple(models)
        if name in knowledge.loader("gradient_clips"):
            for m in parameters_in(arguments[0] if arguments else keywords.get("parameters", ())):
                self.event(CLIPPED, m, e, f)
            return ()
        if name.startswith("torch.optim.") and name.rpartition(".")[2][:1].isupper():
            given = arguments[0] if arguments else keywords.get("params", ())
            for m in dict.fromkeys(parameters_in(given)):
                self.event(OPTIMIZER, m, e, f).family = name
            return ()
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
            placed = bool(self._on_device) or any(k == "device" or k is None for k, _ in e[4])
            known = not placed
            if name in knowledge.loader("containers"):
                parts = [m for v in arguments for m in models_in(v)]
                placed = placed or any(m.placed_when_made for m in parts) or self.moved(parts)
                known = not placed and all(arguments)
            return (Model(known=known, placed=placed, path=self._path),)
        if name.startswith("builtins."):
            if name in ("builtins.list", "builtins.tuple", "builtins.filter", "builtins.sorted", "builtins.iter"):
                found = [m for v in arguments for m in parameters_in(v)]
                return (Parameters(tuple(found)),) if found else ()
            return ()
        if name.startswith("torch."):
            return ()
        return None

    def moved(self, models: list[Model]) -> bool:
        return any(x.kind == PLACED and x.device not in ("cpu", "") for x in self.on(*models))

    def prepare(self, e: Expr, arguments: list[Values], f: Function) -> Values:
        """`accelerator.prepare(...)` gives back what it is given, models wrapped. With FSDP and use_orig_params=False
        it replaces their parameters (accelerate: accelerator.py, prepare_model)."""
        family = "accelerate"
        for o in self.origins.of(e[2][2], Frame(f)) if e[2][0] == "attr" else ():
            for k, v in o.e[4] if o.e[0] == "call" else ():
                if k == "fsdp_plugin" and any(self.flattens(p.e, p.frame) for p in self.origins.of(v, o.frame)):
                    family = "accelerate fsdp1"
        out: list[Values] = []
        for given in arguments:
            models = models_in(given)
            out.append(self.wrap(e, family, models, f) if models else given)
        return out[0] if len(out) == 1 else (Several(out),)

    def flattens(self, e: Expr, frame: Frame) -> bool:
        return e[0] == "call" and any(
            k == "use_orig_params" and all(o.e[0] == "const" and o.e[2] is False for o in self.origins.of(v, frame))
            for k, v in e[4]
        )

    def wrap(self, e: Expr, family: str, models: list[Model], f: Function) -> Values:
        if family == "syncbn":
            for m in models:
                self.event(CONVERTED, m, e, f)
            return tuple(models)
        # `if args.sharded: net = ds(net)` wraps nothing that was made where `args.sharded` is false
        met = [m for m in models if not apart(m.path, self._path)] or models
        out = []
        for m in met or [Model(path=self._path)]:
            w = self.event(WRAPPED, m, e, f)
            w.family = family
            if family == "fsdp2":  # fully_shard works in place
                m.sharded = True
                out.append(m)
                continue
            result = Model(path=self._path)
            result.inner = m
            m.raw_of = result
            w.result = result
            out.append(result)
        return tuple(out)
