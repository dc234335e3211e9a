"""What happens to a model between its construction and its training: moved, wrapped, converted, given to an optimizer,
loaded, clipped, called - in which order, through helper functions.

A program is run abstractly from the functions that nothing calls down to those that wrap: every statement once,
branches one after the other. What happens in one branch of an `if` never precedes what happens in the other (`apart`).
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .settings_origins import Frame, Origins, functions_on
from .wrapping_models import (
    BYPASSED,
    CLIPPED,
    CONVERTED,
    ESCAPED,
    FORWARD,
    LOADED,
    OPTIMIZER,
    PLACED,
    WRAPPED,
    Event,
    Model,
    apart,
)  # fmt: skip
from .wrapping_process import Processes
from .wrapping_relevance import Relevance
from .wrapping_trace import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Block, Expr, Function
    from ..program.program import Program
    from .settings_origins import Origin
    from .wrapping_parameters import Parameters

__all__ = ["Early", "Event", "Model", "Order", "Wrapping"]

FAMILIES = ("ddp", "fsdp1", "fsdp2", "syncbn")
UP, ROOTS = 3, 6
"""Callers are followed this far up, and this many starting points are run for one function."""
CALLED_IN = 20
"""A caller whose own name is called in more modules (`from_pretrained`) is a library's entry: runs start there."""


class Early:
    """A wrap of a model that is not on its device yet. `moved` is the later move, or None where the wrap names devices
    for a model that is known to be on the CPU."""

    __slots__ = ("moved", "wrap")

    def __init__(self, wrap: Event, moved: Event | None) -> None:
        self.wrap = wrap
        self.moved = moved


class Order:
    """Two events on one model in the wrong order: `first` happens before `second`."""

    __slots__ = ("first", "second")

    def __init__(self, first: Event, second: Event) -> None:
        self.first = first
        self.second = second


class Wrapping:
    def __init__(self, program: Program, options: Any = None) -> None:
        self.program = program
        self.options = options
        self.origins = Origins(program)
        self.relevance = Relevance(program)
        self.processes = Processes(program, self.origins)
        self._traces: list[Trace] | None = None
        self._parameters: Parameters | None = None
        self._way: list[Function] = []
        self._names: dict[str, set[str]] = {}

    @property
    def parameters(self) -> Parameters:
        if self._parameters is None:
            from .wrapping_parameters import Parameters

            self._parameters = Parameters(self)
        return self._parameters

    # ------------------------------------------------------------------------------------------------- traces
    def traces(self) -> list[Trace]:
        """One run from each starting point that leads to a wrap."""
        if self._traces is None:
            self._traces = []
            roots: dict[int, Function] = {}
            for f in self.wrapping_functions():
                self.relevance.add(f)
                self._way = [f]
                found = self.roots(f, UP)
                if self.shards_only(f) and not any(self.relevance.names_optimizer(g) for g in self._way):
                    continue  # what matters of fully_shard is an optimizer before it
                for r in found:
                    roots.setdefault(id(r), r)
            for r in roots.values():
                trace = Trace(self.program, self.origins, self.relevance)
                trace.run(r)
                self._traces.append(trace)
        return self._traces

    def wrapping_functions(self) -> Iterator[Function]:
        """Functions that call a wrapper of models directly."""
        rows = [row for n in knowledge.names("wraps_model") if (row := knowledge.api(n))]
        names = {row.last for row in rows if row.family in FAMILIES and row.result != "dp_module"}
        names |= {n.rpartition(".")[2] for n in knowledge.loader("eager_optimizers")}
        prepare = {row.last for row in rows if row.family == "accelerate"}
        for module in list(self.program.modules.values()):
            text = self.program.text(module.path) or ""
            here = {n for n in names if n in text}
            if "use_orig_params" in text:
                here |= {n for n in prepare if n in text}
            if module.path in self.program.loaded_on_demand or not here:
                continue
            local = here | {k for k, b in module.names.items() if b[0] == "from" and b[2] in here}
            self._names[module.path] = local
            lines = {i for n in local for i in self.program.lines_with(module.path, n, called=True)}
            for f in functions_on(self.program, module, sorted(lines)):
                if any(callee_name(c) in local and self.wraps(c, f) for c in self.calls(f)):
                    yield f

    def calls(self, f: Function) -> tuple[Expr, ...]:
        return self.program.calls(f)

    def wraps(self, call: Expr, f: Function) -> bool:
        return self.family(call, f) != ""

    def family(self, call: Expr, f: Function) -> str:
        """The family of the wrapper that a call names; "" when it names none that is followed here."""
        for x in self.program.entities(call[2], self.program.scope(f)):
            while x and x[0] == "partial":
                x = x[1]
            name = x[1] if x and x[0] == "ext" else f"{x[1]}.{x[2]}" if x and x[0] == "extmethod" else ""
            if name in knowledge.loader("eager_optimizers"):
                return "optimizer"
            row = knowledge.api(name) if name else None
            if row is None or row.kind != "wraps_model":
                continue
            if row.family == "accelerate":
                return row.family if "use_orig_params" in (self.program.text(f.module.path) or "") else ""
            if row.result != "dp_module":
                return row.family if row.result != "ddp_module" else "ddp"
        return ""

    def shards_only(self, f: Function) -> bool:
        """Is fully_shard all that the function wraps with?"""
        families = {self.family(c, f) for c in self.calls(f) if callee_name(c) in self._names[f.module.path]}
        return families <= {"", "fsdp2"}

    def roots(self, f: Function, up: int) -> list[Function]:
        """Where to start so that the function is met the way the program runs it."""
        self.relevance.add(f)
        self._way.append(f)
        if f.name == "<module>":
            return [f]
        if f.owner is None and f.parent is None and not self.is_open(f):
            return [f]
        callers = [g for g, _ in self.program.callers(f, CALLED_IN if up < UP else 0) if g is not f] if up else []
        if f.name != "__init__" and f.owner is not None and not callers and up:
            init = f.owner.methods.get("__init__")
            if init is not None and self.mentions(init, f):
                callers = [init]
        out: list[Function] = []
        for g in callers:
            for r in self.roots(g, up - 1):
                if r not in out:
                    out.append(r)
        return out[:ROOTS] or [f]

    def is_open(self, f: Function) -> bool:
        """Can callers have a part in what happens to the models: does the function wrap a parameter, or give something
        back?"""
        params = {p[0] for p in f.params}
        for call in self.program.calls(f):
            given = walk_expr(call[3][0]) if call[3] else ()
            if any(x[0] == "name" and x[2] in params for x in given) and self.wraps(call, f):
                return True
        return any(s[0] == "return" and s[2] for s in self.program.statements(f))

    def mentions(self, g: Function, f: Function) -> bool:
        return any(
            f in self.program.targets(c, self.program.scope(g)) for c in self.calls(g) if callee_name(c) == f.name
        )

    # ------------------------------------------------------------------------------------------------ answers
    def early(self) -> list[Early]:
        """DDP, or FSDP that copies the first rank's weights to all, around a model that is moved to its GPU only
        afterwards, or never."""
        found: dict[tuple[str, int], Early] = {}
        fine: set[tuple[str, int]] = set()
        for trace in self.traces():
            for w in trace.of_kind(WRAPPED):
                if not (w.family == "ddp" or self.synchronises(w)) or trace.default_device:
                    continue
                verdict = self.verdict_early(trace, w)
                if verdict is None:
                    fine.add(w.key)
                else:
                    found.setdefault(w.key, verdict)
        return [v for k, v in sorted(found.items()) if k not in fine]

    def verdict_early(self, trace: Trace, w: Event) -> Early | None:
        before = [e for e in trace.on(w.model) if e.order < w.order and not apart(e.path, w.path)]
        if w.model.placed_when_made or any(e.kind == PLACED and e.device not in ("cpu", "") for e in before):
            return None
        escaped = any(e.kind == ESCAPED for e in before)
        result = w.result
        later = [
            e
            for e in trace.on(w.model, result)
            if e.order > w.order and e.kind == PLACED and e.device == "gpu" and not apart(e.path, w.path)
        ]
        devices = self.names_devices(w)
        if later and not escaped and not (w.model.unseen and devices and not self.made_unplaced(w)):
            return Early(w, later[0])
        if devices and not escaped and w.model.known:
            return Early(w, None)
        return None

    def made_unplaced(self, w: Event) -> bool:
        """Whether the model of a wrap comes, by parameters and returns, straight from constructors, in functions that
        move nothing to a device."""
        ends = self.origins.of(w.call[3][0], Frame(w.function)) if w.call[3] else []
        for o in ends:
            named = self.program.entities(o.e[2], self.origins.scope(o.frame)) if o.e[0] == "call" else ()
            if not any(x[0] == "ext" and x[1].startswith(("torch.nn.", "torchvision.models.")) for x in named):
                return False
        elsewhere = [o.frame.function for o in ends if o.frame.function is not w.function]
        if not elsewhere:
            return bool(ends)  # what was done to it here is known
        callers = [g for g, _ in self.program.callers(w.function)]
        texts = [self.program.text_of(g) for g in (*callers, *elsewhere)]
        return bool(callers) and not any(".to(" in t or ".cuda(" in t for t in texts)

    def synchronises(self, w: Event) -> bool:
        """FSDP with sync_module_states=True needs a model on a GPU, or device_id (torch 2.13, fsdp/_init_utils.py)."""
        given = {k for k, _ in w.call[4]}
        return (
            w.family == "fsdp1"
            and not given & {"device_id", "param_init_fn", None}
            and any(k == "sync_module_states" and v[0] == "const" and v[2] is True for k, v in w.call[4])
        )

    def names_devices(self, w: Event) -> bool:
        """`device_ids=[local_rank]` without a way to be None."""
        for k, v in w.call[4]:
            if k == "device_ids":
                ends = self.origins.of(v, Frame(w.function))
                return bool(ends) and all(o.e[0] == "list" and o.e[2] for o in ends)
        return False

    def orders(self, first: str, second: str) -> list[Order]:
        """Pairs of events of these kinds on one model, first before second on some path; never judged the other way
        round by another run of the same lines."""
        out: dict[tuple[Any, Any], Order] = {}
        for trace in self.traces():
            for b in trace.of_kind(second):
                for a in trace.on(b.model, b.result):
                    if a.kind == first and a.order < b.order and not apart(a.path, b.path):
                        out.setdefault((a.key, b.key), Order(a, b))
        return [v for _, v in sorted(out.items(), key=lambda kv: kv[0])]

    def stale_optimizers(self) -> list[Order]:
        """An optimizer over parameters that sharding replaces afterwards."""
        out = []
        for order in self.orders(OPTIMIZER, WRAPPED):
            w = order.second
            if '["params"]' in (self.program.text(order.first.function.module.path) or ""):
                continue  # the program exchanges the parameters of an optimizer itself
            if w.family in ("fsdp2", "accelerate fsdp1") or (w.family == "fsdp1" and not self.keeps_parameters(w)):
                out.append(order)
        return out

    def left_behind(self) -> list[Order]:
        """An optimizer that made its state before the model was moved: (optimizer, move)."""
        eager = knowledge.loader("eager_optimizers")
        out: list[Order] = []
        for trace in self.traces():
            for a in trace.of_kind(OPTIMIZER):
                if a.family not in eager or a.model.placed_when_made:
                    continue
                moves = [e for e in trace.on(a.model) if e.kind == PLACED and not apart(e.path, a.path)]
                if any(e.order < a.order and e.device not in ("cpu", "") for e in moves):
                    continue
                later = [e for e in moves if e.order > a.order and e.device == "gpu"]
                if later:
                    out.append(Order(later[0], a))
        return unique(out)

    def keeps_parameters(self, w: Event) -> bool:
        """FSDP1 with use_orig_params=True, or with settings that cannot be seen."""
        for k, v in w.call[4]:
            if k is None:
                return True
            if k == "use_orig_params":
                return not all(o.e[0] == "const" and o.e[2] is False for o in self.origins.of(v, Frame(w.function)))
        return False

    def late_conversions(self) -> list[Order]:
        """SyncBatchNorm conversion of a model that DDP has wrapped already."""
        out = []
        for trace in self.traces():
            for c in trace.of_kind(CONVERTED):
                for w in trace.of_kind(WRAPPED):
                    same = c.model is w.result or c.model is w.model
                    if same and w.family == "ddp" and w.order < c.order and not apart(w.path, c.path):
                        out.append(Order(w, c))
        return unique(out)

    def before_wrap(self, wrap: Event, later: Event) -> list[tuple[int, int, int, int, str]] | None:
        """Edits that put a later statement before the wrap, or None (see `wrapping_order`)."""
        from .wrapping_order import before_wrap

        return before_wrap(self.program, wrap, later)

    def shard_clips(self) -> list[Order]:
        """torch's clip_grad_norm_ on the parameters of an FSDP1 model."""
        out = []
        for trace in self.traces():
            for c in trace.of_kind(CLIPPED):
                for w in trace.of_kind(WRAPPED):
                    if w.family != "fsdp1" or c.model is not w.result or w.order > c.order or apart(w.path, c.path):
                        continue
                    if not self.unsharded(w) and not guarded(c, w) and not self.runs_alone(w):
                        out.append(Order(w, c))
        return unique(out)

    def runs_alone(self, w: Event) -> bool:
        """Is the wrap on the way of a single process: `if world_size > 1: DDP(net) elif sharded: FSDP(net)`?"""
        bindings = self.program.scope(w.function).bindings()
        for _, truth, test in w.path:
            if truth or test is None:
                continue
            held = [b[1] for b in bindings.get(test[2], ()) if b[0] == "value"] if test[0] == "name" else [test]
            if any(several(x) for e in held for x in walk_expr(e)):
                return True
        return False

    def unsharded(self, w: Event) -> bool:
        """NO_SHARD keeps whole gradients; a strategy that cannot be seen may be that one."""
        for k, v in w.call[4]:
            if k is None:
                return True
            if k == "sharding_strategy":
                return not all(o.e[0] == "attr" and o.e[3] != "NO_SHARD" for o in self.origins.of(v, Frame(w.function)))
        return False

    def stripped_states(self) -> list[Order]:
        """A state whose "module." prefix was removed, loaded into the DDP wrapper, whose keys have it: (wrap, load)."""
        out = []
        for trace in self.traces():
            for c in trace.of_kind(LOADED):
                for w in trace.of_kind(WRAPPED):
                    if w.family != "ddp" or c.model is not w.result or w.order > c.order or apart(w.path, c.path):
                        continue
                    if c.call[3] and self.stripped(c.call[3][0], Frame(c.function)):
                        out.append(Order(w, c))
        return unique(out)

    def stripped(self, e: Expr, frame: Frame) -> bool:
        ends = self.origins.of(e, frame)
        return bool(ends) and all(
            o.e[2] == "dict" and removes_prefix(o.e[3]) if o.e[0] == "comp" else self.saved_inner(o) for o in ends
        )

    def saved_inner(self, o: Origin) -> bool:
        """`torch.load(path)["model"]` in a module that saves `{"model": model.module.state_dict()}` and nothing else
        under this key."""
        e, f = o.e, o.frame.function
        if e[0] != "sub" or e[3][0] != "const":
            return False
        loaded = self.origins.of(e[2], o.frame)
        if not loaded or not all(
            x.e[0] == "call" and self.program.qualified(x.e[2], self.origins.scope(x.frame)) == "torch.load"
            for x in loaded
        ):
            return False
        saved = []
        rows = sorted(self.program.lines_with(f.module.path, "state_dict", called=True))
        for g in functions_on(self.program, f.module, rows):
            for x in self.program.expressions(g):
                for k, v in zip(x[2], x[3]) if x[0] == "dict" else ():
                    if k is not None and k[0] == "const" and k[2] == e[3][2]:
                        saved.append(v)
        return bool(saved) and all(
            v[0] == "call" and callee_name(v) == "state_dict" and v[2][0] == "attr" and v[2][2][-1] == "module"
            for v in saved
        )

    def bypasses(self) -> list[Order]:
        """A training forward through `.module` of a wrapped model: (wrap, forward)."""
        out = []
        for trace in self.traces():
            for c in trace.of_kind(BYPASSED):
                wraps = [w for w in trace.of_kind(WRAPPED) if w.model is c.model]
                through = [e for w in wraps for e in trace.on(w.result) if e.kind == FORWARD]
                for w in wraps:
                    if w.family in ("ddp", "fsdp1") and w.order < c.order:
                        whole = any(e.function is c.function for e in through) or (c.family == "method" and through)
                        if not whole and not apart(w.path, c.path) and self.trains(c) and not self.by_hand(c):
                            out.append(Order(w, c))
        return unique(out)

    def by_hand(self, c: Event) -> bool:
        """Whether who runs this forward, or a function that it calls, reduces the gradients over the ranks itself."""
        for f in (c.function, *(caller for caller, _ in c.calls)):
            scope = self.program.scope(f)
            if self.reduces_gradients(f) or any(
                self.reduces_gradients(g) for call in self.program.calls(f) for g in self.program.targets(call, scope)
            ):
                return True
        return False

    def reduces_gradients(self, f: Function) -> bool:
        lines = self.program.lines(f.module.path)[f.first_line - 1 : f.end_line]
        return any(".grad" in x for x in lines) and any("all_reduce(" in x or "allreduce(" in x for x in lines)

    def trains(self, c: Event) -> bool:
        """Does the value of the call flow into a backward, here or, returned, in the function that called this one?"""
        if reaches_backward(self.program.body(c.function), c.call):
            return True
        if not c.calls or not any(s[0] == "return" for s in self.program.statements(c.function)):
            return False
        caller, call = c.calls[-1]
        returned = reaches_backward(self.program.body(c.function), c.call, True)
        return returned and reaches_backward(self.program.body(caller), call)


def reaches_backward(body: Block, call: Expr, returned: bool = False) -> bool:
    """Does the value of the call flow, by local names, into a `.backward()` of the same function? `returned`: or out of
    it?"""
    tainted: set[str] = set()
    for s in walk_block(body):
        expressions = expressions_of(s)
        touched = any(x is call or (x[0] == "name" and x[2] in tainted) for e in expressions for x in walk_expr(e))
        if not touched:
            continue
        if returned and s[0] == "return":
            return True
        if s[0] in ("assign", "ann", "aug", "for"):
            targets = s[2] if s[0] == "assign" else (s[3],) if s[0] == "aug" else (s[2],)
            for t in targets:
                tainted.update(target_names(t))
        for e in expressions:
            for x in walk_expr(e):
                if x[0] != "call" or callee_name(x) not in knowledge.loader("step_methods"):
                    continue
                if any(y is call or (y[0] == "name" and y[2] in tainted) for y in walk_expr(x)):
                    return True
    return False


def removes_prefix(pair: Expr) -> bool:
    """`k.replace("module.", "")`, `k.removeprefix("module.")`, `k[7:]`, `k[len("module."):]` as a key."""
    key = pair[2][0] if pair[0] == "tuple" else pair
    constants = [x[2] for x in walk_expr(key) if x[0] == "const"]
    if key[0] == "call" and callee_name(key) in ("replace", "removeprefix"):
        return "module." in constants and (callee_name(key) == "removeprefix" or "" in constants)
    if key[0] == "sub" and key[3][0] == "slice" and key[3][3] is None:
        return 7 in constants or "module." in constants
    return False


def unique(orders: list[Order]) -> list[Order]:
    seen: dict[tuple[str, int], Order] = {}
    for o in orders:
        seen.setdefault(o.second.key, o)
    return [v for _, v in sorted(seen.items())]


def guarded(event: Event, wrap: Event) -> bool:
    """Is the event under a test that the wrap is not under, and that may tell kinds of models apart?"""
    known = {c[0] for c in wrap.path}
    for text, _, test in event.path:
        if text in known or test is None:
            continue
        if any(x[0] == "call" for x in walk_expr(test)) or not measures(test):
            return True
    return False


def several(e: Expr) -> bool:
    """`world_size > 1`, `int(os.environ["WORLD_SIZE"]) > 1`."""
    if e[0] != "cmp" or e[2] != (">",) or e[3][1][0] != "const" or e[3][1][2] != 1:
        return False
    return any("world_size" in str(x[-1]).lower() for x in walk_expr(e[3][0]) if x[0] in ("const", "name", "attr"))


def measures(test: Expr) -> bool:
    """A test of a number or of None (`max_norm > 0`, `step % n == 0`, `clip is not None`, `if clip`) says nothing of
    the model."""
    if test[0] in ("name", "attr"):
        return any(w in str(test[-1]).lower() for w in ("clip", "norm"))
    if test[0] == "bool":
        return all(measures(x) for x in test[3])
    if test[0] == "unary":
        return measures(test[3])
    return bool(
        test[0] in ("cmp", "bin") and not any(isinstance(x[2], str) for x in walk_expr(test) if x[0] == "const")
    )
