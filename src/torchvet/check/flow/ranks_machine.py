"""The interprocedural part: traces of functions per specialisation, closures, fields, globals and what callers pass.

A function is interpreted once for each set of arguments that matter (rank functions, callables, wrapped models,
flags), at
most `MOST_VARIANTS` times; everything else about its arguments is unknown. Questions that flow cannot answer (a
field, a
parameter of a function nobody was seen to call) are answered from all assignments and all callers.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import Function, Module, walk_block
from . import ranks_batches, ranks_calls, ranks_contexts, ranks_expressions, ranks_seeds
from .ranks_frames import Frame, assigned
from .ranks_names import DEEPEST, Names
from .ranks_values import NONE, REDUCED, UNKNOWN, carries, const, depends_on_rank, identified, leader_test, op, varies
from .releases import Releases
from .traces import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Block, Expr
    from ..program.program import Program
    from .ranks_suspects import Suspects
    from .ranks_values import Value

MOST_VARIANTS = 6
DECIDING = (("const", 0), ("const", -1))
MOST_FRAMES = 3000
"""Functions interpreted for one root; beyond, calls are not followed and the root is listed in
`Machine.over_budget`."""
PLAIN_DECORATORS = frozenset(
    ("property", "cached_property", "staticmethod", "classmethod", "abstractmethod", "contextmanager", "overload",
     "setter", "no_grad", "inference_mode", "wraps", "dataclass", "override", "lru_cache", "cache")
)  # fmt: skip


class Machine(Names):
    def __init__(self, program: Program, suspects: Suspects) -> None:
        super().__init__(program, suspects)
        self.at = 0
        self.shares: dict[int, Any] = {}
        self.seeds: dict[str, Any] = {}
        self.raised: set[int] = set()
        """Exceptions of the program's own that a rank raises for its own data."""
        self.lacking: dict[int, frozenset[Any]] = {}
        self.compared: set[tuple[int, str, Any]] = set()
        self.wrong_sources: dict[tuple[str, int], tuple[Module, int, Function, str, str]] = {}
        self.met: set[tuple[int, int]] = set()
        self.releases = Releases(program)
        self.in_turn: set[tuple[str, int]] = set()
        """Where process groups are made one after the other."""
        self.first_calls: dict[int, list[tuple[str, list[Function]]]] = {}
        self.remembered: set[int] = set()
        """Functions with `@cache` that every rank has called."""
        self.frames = 0
        self.over_budget: set[str] = set()
        self.doubts = False
        """Whether a trace holds a collective that is `doubted`."""
        self._traces: dict[Any, Trace] = {}
        self._variants: dict[int, int] = {}
        self._roots: dict[Any, Trace] = {}
        self._closures: list[tuple[Any, Frame]] = []
        self._closure_of: dict[Any, Value] = {}
        self._finished: dict[int, Frame] = {}
        self._wrappers: dict[int, Value | None] = {}
        self._changed: dict[int, frozenset[str]] = {}

    def machine(self) -> Machine:
        return self

    def changed(self, block: Block) -> frozenset[str]:
        """The names and dotted names that a block rebinds."""
        found = self._changed.get(id(block))
        if found is None:
            found = self._changed[id(block)] = frozenset([n for s in walk_block(block) for n in assigned(s)])
        return found

    def pure_test(self, f: Frame, e: Expr) -> Value | None:
        """The test of a loop when it depends on the rank."""
        items, f.items = f.items, []
        v = f.eval(e)
        f.items = items
        return v if depends_on_rank(v) else None

    # ------------------------------------------------------------------------------------------------ traces
    def root(self, function: Function, receiver: Value | None = None) -> Trace:
        """The trace of a function as its unknown callers run it; its parameters are what the known callers pass."""
        key = (id(function), receiver)
        trace = self._roots.get(key)
        if trace is None:
            trace = self._roots[key] = Trace(function, function.module)
            self.frames = 0
            self.at = id(function)
            if receiver is None and function.is_method:
                receiver = self.own(function)
            wrapper = self.wrapper(function)
            self.interpret(trace, function, receiver, {}, None)
            if wrapper is not None:
                self.guard_root(trace, wrapper, function, receiver)
            if self.frames > MOST_FRAMES:
                self.over_budget.add(f"{function.module.path}:{function.line} {function.qualname}")
        return trace

    def guard_root(self, trace: Trace, wrapper: Value, function: Function, receiver: Value | None) -> None:
        """A decorated function, seen from outside."""
        inner = Trace(function, function.module)
        inner.value = trace.value
        inner.finish(trace.items)
        item = ("call", inner, function.pos, function.name)
        if wrapper[0] == "guarded":
            pos = function.decorators[0][1] if function.decorators else function.pos
            trace.weight, trace.has_ops = 0, False
            trace.finish((("if", wrapper[1], (item,), (), pos, pos),))
            return
        outer = Trace(function, function.module)
        f = Frame(self, function, outer, {}, None)
        first = [receiver] if receiver is not None else []
        call: Expr = ("call", function.pos, ("name", function.pos, function.name), (), ())
        given = [self.param(function, p) if p[1] == "pos" else UNKNOWN for p in function.params[len(first) :]]
        self.run_closure(f, wrapper, [*first, *given], {}, call)
        if f.items:
            trace.weight, trace.has_ops = 0, False
            trace.finish(tuple(f.items))

    def called(
        self, function: Function, receiver: Value | None, bound: dict[str, Value], outer: Frame | None
    ) -> Trace | None:
        """The trace of a call with these arguments; None when the budget is spent."""
        self.met.add((self.at, id(function)))
        key = (id(function), receiver, tuple(bound.items()), id(outer) if outer is not None else None)
        trace = self._traces.get(key)
        if trace is not None:
            return trace
        variants = self._variants.get(id(function), 0)
        if variants >= MOST_VARIANTS and not any(v[0] == "raw" for v in bound.values()):
            # too many specialisations: only arguments that decide much are told apart, then none
            keeps = variants < 3 * MOST_VARIANTS
            bound = {
                k: v if keeps and (special(v) or v in DECIDING) else ("sym", ("param", id(function), k))
                for k, v in bound.items()
            }
            receiver = receiver if keeps else None
            outer = outer if keeps else None
            key = (id(function), receiver, tuple(bound.items()), id(outer) if outer is not None else None)
            trace = self._traces.get(key)
            if trace is not None:
                return trace
        if self._depth > DEEPEST or self.frames > MOST_FRAMES:
            return None
        if (
            not self.suspects.matters(function)
            and not any(carries(v) or ranks_batches.of_this_rank(v) for v in bound.values())
            and not carries(receiver)
            and not ranks_seeds.matters(receiver, bound)
        ):
            return None
        self._variants[id(function)] = variants + 1
        trace = self._traces[key] = Trace(function, function.module)
        trace.special = outer is not None or any(special(v) for v in bound.values()) or special(receiver)
        if receiver is not None and receiver[0] == "inst" and receiver[1] is not function.owner:
            trace.special = True  # an inherited method: what it calls on self is the subclass's
        self.interpret(trace, function, receiver, dict(bound), outer)
        if trace.partial and variants < 3:
            # made while a function that it calls was not finished: a later call is entitled to the whole
            self._traces.pop(key, None)
        return trace

    def interpret(
        self, trace: Trace, function: Function, receiver: Value | None, env: dict[str, Value], outer: Frame | None
    ) -> None:
        self.frames += 1
        self._depth += 1
        f = Frame(self, function, trace, env, outer)
        f.receiver = receiver
        if receiver is not None and function.params and function.is_method:
            env.setdefault(function.params[0][0], receiver)
        if function.name == "<module>":
            self._mains.setdefault(function.module.path, f)
        try:
            f.run(self.program.body(function))
        finally:
            self._depth -= 1
        trace.outs = frozenset(p[0] for p in function.params if f.env.get(p[0]) == REDUCED)
        trace.finish(tuple(f.items))
        self._finished[id(trace)] = f

    # ------------------------------------------------------------------------------------------------ closures
    def closure(self, made: Any, f: Frame) -> Value:
        """A nested function or a lambda with the frame it was made in."""
        key = (id(made), id(f))
        found = self._closure_of.get(key)
        if found is None:
            self._closures.append((made, f))
            found = self._closure_of[key] = ("closure", len(self._closures) - 1)
        return found

    def made_as(self, closure: Value) -> Any:
        """What a closure was made of: a `Function`, or the expression of a lambda."""
        return self._closures[closure[1]][0]

    def run_closure(self, f: Frame, value: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
        made, home = self._closures[value[1]]
        if isinstance(made, Function):
            wrapper = self.wrapper(made)
            if wrapper is not None and wrapper[0] == "guarded":
                outer, f.items = f.items, []
                result = self.closure_call(f, made, home, args, keywords, e)
                items = tuple(f.items)
                f.items = outer
                if items:
                    f.items.append(("if", wrapper[1], items, (), e[1], e[1]))
                return op("sel", wrapper[1], result, NONE)
            return self.closure_call(f, made, home, args, keywords, e)
        inner = Frame(self, home.function, f.trace, {}, home)
        inner.receiver = home.receiver
        self._depth += 1
        if self._depth > DEEPEST:
            self._depth -= 1
            return UNKNOWN
        for i, p in enumerate(made[2]):
            inner.env[p[0]] = args[i] if i < len(args) else keywords.get(p[0], UNKNOWN)
        result = inner.eval(made[3])
        self._depth -= 1
        if inner.items:
            trace = Trace(None, home.module)
            trace.finish(tuple(inner.items))
            if trace.matters:
                f.items.append(("call", trace, e[1], "lambda"))
        return result

    def closure_call(
        self, f: Frame, made: Function, home: Frame, args: list[Value], keywords: dict[str, Value], e: Expr
    ) -> Value:
        bound = self.bound(f, made, None, args, keywords)
        trace = self.called(made, None, bound, home)
        if trace is None:
            return UNKNOWN
        if trace.matters or trace.busy:
            ranks_calls.follow(f, made, ("call", trace, e[1], made.name))
        return self.substituted(trace.value, made, bound)

    def wrapper(self, function: Function) -> Value | None:
        """What the decorators make of a function as far as ranks go: ("guarded", test) for a known rank guard, a
        closure for
        a decorator of the project whose wrapper does something with ranks, else None."""
        if not function.decorators:
            return None
        key = id(function)
        if key in self._wrappers:
            return self._wrappers[key]
        self._wrappers[key] = None
        result: Value | None = None
        scope = self.program.scope(function.parent) if function.parent else self.program.module_scope(function.module)
        for d in reversed(function.decorators):
            target = d[2] if d[0] == "call" else d
            if target[0] not in ("name", "attr") or target[-1] in PLAIN_DECORATORS:
                continue
            denoted = self.denoted(target, scope)
            q = ranks_contexts.qualified(denoted) if denoted is not None else None
            row = knowledge.api(q) if q else None
            if row is None and denoted is None:
                row = self.decorator_row(target, function)
            if row is not None:
                if row.kind == "rank_guard_decorator":
                    axis = "local" if "local" in row.last else "world"
                    origin = (function.module.path, d[1], "@" + row.last)
                    test = leader_test(axis, not row.inferred, origin)
                    if "last" in row.last:
                        test = op("==", ("rank", axis, True, origin), op("-", ("size", axis), const(1)))
                    result = ("guarded", test)
            elif denoted is not None and denoted[0] == "func" and d[0] != "call":
                made = self.decorated(denoted[1], function)
                if made is not None:
                    result = made
        self._wrappers[key] = result
        return result

    def decorator_row(self, target: Expr, function: Function) -> Row | None:
        for row in knowledge.methods(target[-1]):
            if row.kind == "rank_guard_decorator" and "_" in target[-1]:
                return row
        return None

    def decorated(self, decorator: Function, function: Function) -> Value | None:
        """The closure that a project's decorator returns for a function, when it guards or communicates."""
        params = [p[0] for p in decorator.params if p[1] == "pos"]
        if not params or self._depth > DEEPEST:
            return None
        raw: Value = ("raw", function)
        trace = self.called(decorator, None, {params[0]: raw}, None)
        if trace is None or trace.value[0] != "closure":
            return None
        made, home = self._closures[trace.value[1]]
        if not isinstance(made, Function):
            return None
        packed = {}
        for p in made.params:
            packed[p[0]] = ("packed", (), ()) if p[1] in ("*", "**") else UNKNOWN
        body = self.called(made, None, packed, home)
        if body is None:
            return None
        for item in body.items:
            if item[0] in ("op", "if", "try", "loop", "while"):
                return trace.value
        # a wrapper that calls the function under a rank test has no item of its own when the function holds none
        return trace.value if self.tests_rank(made) else None

    def tests_rank(self, function: Function) -> bool:
        f = self.pure_frame(function)
        for s in walk_block(self.program.body(function)):
            if s[0] in ("if", "while"):
                outer, f.items = f.items, []
                v = f.eval(s[2])
                f.items = outer
                if varies(v):
                    return True
        return False

    def imported_from(self, module: Module, bound: Any) -> Module | None:
        """The module that assigns a name which another one imports; None when that is no variable."""
        path = self.program.find(module.path, bound[1], bound[3]) if bound is not None and bound[0] == "from" else None
        if path is None or self.suspects.barren(path, bound[2]):
            return None
        home = self.program.module(path)
        held = home.names.get(bound[2]) if home is not None else None
        return home if held is not None and held[0] in ("value", "from") else None

    def one_of_several(self, key: Any) -> bool:
        """Whether a module's name holds one of the groups that a loop makes, all ranks in one of them each."""
        if not isinstance(key, tuple) or key[0] != "global" or key[1] not in self.program.modules:
            return False
        module, name = self.program.modules[key[1]], key[2]
        for function in self.written_globally(module, name):
            for loop in self.program.statements(function):
                inner = list(walk_block(loop[4])) if loop[0] == "for" else ()
                made = [s for s in inner if s[0] == "assign" and s[3][0] == "call" and s[3][2][-1] == "new_group"]
                held = {t[2] for s in made for t in s[2] if t[0] == "name"}
                if name in held:
                    return True
                kept = [s for s in inner if s[0] == "assign" and s[3][0] == "name" and s[3][2] in held]
                if any(t[0] == "name" and t[2] == name for s in kept for t in s[2]):
                    return True
        return False

    # --------------------------------------------------------------------------------------------- arguments
    def bound(
        self, f: Frame, function: Function, receiver: Value | None, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """{parameter: value} for a call; what is not interesting is the parameter's own unknown."""
        params = function.params
        out: dict[str, Value] = {}
        positional = [p[0] for p in params if p[1] == "pos"]
        if receiver is not None and function.is_method and positional:
            del positional[0]
        for name, v in zip(positional, args):
            out[name] = v
        rest = tuple(args[len(positional) :])
        extra = {}
        if keywords:
            names = {p[0] for p in params if p[1] == "pos" or p[1] == "kw"}
            for k, v in keywords.items():
                if k in names:
                    out[k] = v
                else:
                    extra[k] = v
        skip = params[0][0] if receiver is not None and function.is_method and params else None
        for p in params:
            name = p[0]
            if name == skip:
                continue
            if p[1] == "*":
                out[name] = ("packed", rest, ())
            elif p[1] == "**":
                out[name] = ("packed", (), tuple(sorted(extra.items())))
            elif name not in out:
                out[name] = self.default(p, function)
            else:
                out[name] = self.kept(out[name], function, name)
        return out

    def kept(self, v: Value, function: Function, name: str) -> Value:
        if self.interesting(v):
            return identified(v, ("given", id(function), name))
        if v == UNKNOWN or v[0] == "bound":
            hinted = knowledge.identifier(name)
            if hinted is not None and v == UNKNOWN and hinted[0] in ("rank_source", "local_rank_source"):
                return ("rank", ranks_expressions.axis_of(name), False, (function.module.path, function.pos, name))
            return ("sym", ("param", id(function), name))
        return ("sym", ("param", id(function), name))

    def argument(self, function: Function, receiver: Value | None, name: str, e: Expr) -> Expr | None:
        """The expression that a call passes for a parameter."""
        if e[0] != "call":
            return None
        return self.program.bind(function, e, receiver is not None and function.is_method).get(name)

    def substituted(self, v: Value, function: Function, bound: dict[str, Value]) -> Value:
        """A returned value with the parameters replaced by what this call passed."""
        if v[0] == "sym":
            key = v[1]
            if isinstance(key, tuple) and key[0] in ("param", "v"):
                if key[0] == "param" and key[1] == id(function):
                    given = bound.get(key[2], UNKNOWN)
                    return UNKNOWN if given == v else given
                return UNKNOWN
            return v
        if v[0] == "op":
            args = [self.substituted(x, function, bound) for x in v[2:]]
            if v[1] == "sel" and args[0] == UNKNOWN:
                if not varies(args[1]) and not varies(args[2]) and UNKNOWN in args[1:]:
                    return UNKNOWN
                args[0] = ("sym", ("chosen", id(function), hash(v[2])))
            return op(v[1], *args)
        if v[0] in ("list", "tuple"):
            return (v[0], tuple([self.substituted(x, function, bound) for x in v[1]]))
        return v

    def left_in(self, trace: Trace, name: str) -> dict[str, Value]:
        """What a finished call left in the fields of the object that it knows by a name."""
        f = self._finished.get(id(trace))
        env = f.env if f is not None else {}
        return {k[len(name) + 1 :]: v for k, v in env.items() if k.startswith(name + ".")}

    def fields_after(self, trace: Trace) -> tuple[tuple[str, Value], ...]:
        """The fields that a constructor left known, as far as nobody else assigns them."""
        f = self._finished.get(id(trace))
        if f is None or not f.function.params:
            return ()
        me = f.function.params[0][0] + "."
        owner = f.receiver[1] if f.receiver and f.receiver[0] == "inst" else f.function.owner
        out = []
        for name, v in f.env.items():
            if name.startswith(me) and "." not in name[len(me) :] and self.interesting(v) and size_ok(v):
                last = name[len(me) :]
                if v[0] == "const" and owner is not None and self.assigned_outside(owner, last):
                    continue
                if owner is None or len(self.assignments(owner, last)) <= 1:
                    out.append((last, v))
        return tuple(sorted(out, key=lambda x: x[0]))


def special(v: Value | None) -> bool:
    """An argument that makes the trace of a callee its own."""
    if v is None:
        return False
    if v[0] == "packed":
        return any(special(x) for x in v[1]) or any(special(x) for _, x in v[2])
    if v[0] == "dict":
        return any(special(x) for _, x in v[1])
    if v[0] == "op" and v[1] == "sel" and (special(v[3]) or special(v[4])):
        return True  # `DDP(net) if distributed else net`
    return (v[0] in ("closure", "wrapped", "raw", "func", "inst") and (v[0] != "inst" or bool(v[2]))) or varies(v)


def size_ok(v: Value) -> bool:
    from .ranks_values import size

    return size(v, 12) <= 12
