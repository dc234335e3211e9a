"""The interprocedural part: traces of functions per specialisation, closures, fields, globals and what callers pass.

A function is interpreted once for each set of arguments that matter (rank functions, callables, wrapped models, flags), at
most `MOST_VARIANTS` times; everything else about its arguments is unknown. Questions that flow cannot answer (a field, a
parameter of a function nobody was seen to call) are answered from all assignments and all callers.
"""

from __future__ import annotations

from re import compile

from ... import knowledge
from ..program.model import Class, Function, Module, walk_block
from . import ranks_calls, ranks_expressions, ranks_models
from .ranks_frames import Frame
from .ranks_suspects import callable_name
from .ranks_values import NONE, REDUCED, UNKNOWN, const, leader_test, op, varies
from .traces import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Expr
    from ..program.names import Scope
    from ..program.program import Program
    from .ranks_suspects import Suspects
    from .ranks_values import Value

MOST_VARIANTS = 6
DEEPEST = 40
DECIDING = (("const", 0), ("const", -1))
MOST_FRAMES = 3000
"""Functions interpreted for one root; beyond, calls are not followed and the root is listed in `Machine.over_budget`."""
FUNCTION_KINDS = frozenset(
    ("func", "closure", "class", "inst", "extinst", "wrapped", "group", "partial", "packed", "graph")
)
PLAIN_DECORATORS = frozenset(
    ("property", "cached_property", "staticmethod", "classmethod", "abstractmethod", "contextmanager", "overload",
     "setter", "no_grad", "inference_mode", "wraps", "dataclass", "override", "lru_cache", "cache")
)  # fmt: skip


class Machine:
    def __init__(self, program: Program, suspects: Suspects) -> None:
        self.program = program
        self.suspects = suspects
        self.frames = 0
        self.over_budget: set[str] = set()
        self._traces: dict[Any, Trace] = {}
        self._variants: dict[int, int] = {}
        self._roots: dict[Any, Trace] = {}
        self._depth = 0
        self._closures: list[tuple[Any, Frame]] = []
        self._closure_of: dict[Any, Value] = {}
        self._mains: dict[str, Frame] = {}
        self._finished: dict[int, Frame] = {}
        self._fields: dict[Any, Value | None] = {}
        self._names: dict[Any, Value] = {}
        self._params: dict[Any, Value] = {}
        self._wrappers: dict[int, Value | None] = {}
        self._busy: set[Any] = set()
        self._pure: dict[int, Frame] = {}
        self._global_words: dict[str, dict[str, list[int]]] = {}
        self._anywhere: dict[Any, Value | None] = {}
        self._callers: dict[int, list[tuple[Function, Expr]]] = {}
        self._assigned: dict[int, dict[str, list[Function]]] = {}
        self._near: dict[str, list[str]] = {}
        self._near_size = 0
        self._attributes: dict[int, list[tuple[str, Expr, Expr]]] = {}
        self._hosts: dict[str, frozenset[str]] = {}

    # ------------------------------------------------------------------------------------------------ traces
    def root(self, function: Function, receiver: Value | None = None) -> Trace:
        """The trace of a function as its unknown callers run it; its parameters are what the known callers pass."""
        key = (id(function), receiver)
        trace = self._roots.get(key)
        if trace is None:
            trace = self._roots[key] = Trace(function, function.module)
            self.frames = 0
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
        self.run_closure(f, wrapper, [*first, *[UNKNOWN for _ in function.params[len(first) :]]], {}, call)
        if f.items:
            trace.weight, trace.has_ops = 0, False
            trace.finish(tuple(f.items))

    def own(self, function: Function) -> Value | None:
        if function.owner is None:
            return None
        if "classmethod" in function.decorator_names():
            return ("class", function.owner)
        return ("inst", function.owner, ())

    def called(
        self, function: Function, receiver: Value | None, bound: dict[str, Value], outer: Frame | None
    ) -> Trace | None:
        """The trace of a call with these arguments; None when the budget is spent."""
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
            and not any(carries(v) for v in bound.values())
            and not carries(receiver)
        ):
            return None
        self._variants[id(function)] = variants + 1
        trace = self._traces[key] = Trace(function, function.module)
        trace.special = outer is not None or any(special(v) for v in bound.values()) or special(receiver)
        if receiver is not None and receiver[0] == "inst" and receiver[1] is not function.owner:
            trace.special = True  # an inherited method: what it calls on self is the subclass's
        self.interpret(trace, function, receiver, dict(bound), outer)
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
            f.items.append(("call", trace, e[1], made.name))
        return self.substituted(trace.value, made, bound)

    def wrapper(self, function: Function) -> Value | None:
        """What the decorators make of a function as far as ranks go: ("guarded", test) for a known rank guard, a closure for
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
            q = ranks_calls.qualified(denoted) if denoted is not None else None
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

    # --------------------------------------------------------------------------------------------- arguments
    def bound(
        self, f: Frame, function: Function, receiver: Value | None, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """{parameter: value} for a call; what is not interesting is the parameter's own unknown."""
        params = function.params
        out: dict[str, Value] = {}
        positional = [p for p in params if p[1] == "pos"]
        given = list(args)
        if receiver is not None and function.is_method and positional:
            positional = positional[1:]
        names = set()
        for p, v in zip(positional, given):
            out[p[0]] = v
        rest = tuple(given[len(positional) :])
        extra = {}
        for p in params:
            if p[1] in ("pos", "kw"):
                names.add(p[0])
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

    def default(self, p: Any, function: Function) -> Value:
        if p[2] is not None and p[2][0] == "const":
            return const(p[2][2])
        if p[2] is not None and p[2][0] in ("name", "attr"):
            v = self.denoted(p[2], self.program.module_scope(function.module))
            if v is not None and self.interesting(v):
                return v
        return ("sym", ("param", id(function), p[0]))

    def kept(self, v: Value, function: Function, name: str) -> Value:
        if self.interesting(v):
            return v
        if v == UNKNOWN or v[0] == "bound":
            hinted = knowledge.identifier(name)
            if hinted is not None and v == UNKNOWN and hinted[0] in ("rank_source", "local_rank_source"):
                return ("rank", ranks_expressions.axis_of(name), False, (function.module.path, function.pos, name))
            return ("sym", ("param", id(function), name))
        return ("sym", ("param", id(function), name))

    def interesting(self, v: Value) -> bool:
        kind = v[0]
        if kind == "const":
            return v[1] is None or isinstance(v[1], (bool, str)) or v[1] in (0, -1)
        if kind in FUNCTION_KINDS or kind in ("raw", "leader"):
            return True
        if v == REDUCED or varies(v):
            return True
        if kind in ("list", "tuple"):
            return len(v[1]) <= 4 and any(x[0] != "const" and self.interesting(x) for x in v[1])
        if kind == "dict":
            return any(x[0] != "const" and self.interesting(x) for _, x in v[1])
        return kind == "op" and v[1] == "sel" and (self.interesting(v[3]) or self.interesting(v[4]))

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
                if owner is None or len(self.assignments(owner, last)) <= 1:
                    out.append((last, v))
        return tuple(sorted(out, key=lambda x: x[0]))

    def dataclass_fields(self, cls: Class) -> list[str]:
        out: list[str] = []
        for c in (*reversed(self.program.bases(cls)[0]), cls):
            out += [s[2][2] for s in c.block if s[0] == "ann" and s[2][0] == "name" and s[2][2] not in out]
        return out

    # --------------------------------------------------------------------------- names, fields, what callers pass
    def origin(self, f: Frame, e: Expr, name: str) -> Any:
        return (f.module.path, e[1], name)

    def denoted(self, e: Expr, scope: Scope) -> Value | None:
        for x in self.program.entities(e, scope):
            v = self.converted(x)
            if v is not None:
                return v
        return None

    def converted(self, x: Any) -> Value | None:
        kind = x[0]
        if kind in ("ext", "module", "class", "const"):
            return tuple(x)
        if kind == "func":
            return ("func", x[1], None)
        if kind == "inst":
            return ("inst", x[1], ())
        if kind == "extinst":
            return ("extinst", x[1], None)
        if kind == "method":
            return ("func", x[1], self.converted(x[2]))
        if kind == "extmethod":
            return ("bound", ("extinst", x[1], None), x[2])
        return None

    def outer_name(self, f: Frame, e: Expr) -> Value:
        """A name that is not local to the frame: a parameter of a root, a module's own name, an import, a builtin."""
        name = e[2]
        function: Function | None = f.function
        home = f
        while function is not None and function.name != "<module>":
            bindings = home.scope.bindings()
            if name in bindings and name not in home.declared:
                if isinstance(home, PureFrame):
                    return self.local(home, name)
                for b in bindings[name]:
                    if b[0] == "param":
                        v = f.env[name] = self.param(function, b[1])
                        return v
                return UNKNOWN
            if f.outer is not None:
                break  # the frames around were asked already
            function = function.parent
            if function is not None:
                home = self.pure_frame(function)
        return self.global_value(f.module, name, e)

    def local(self, f: Frame, name: str) -> Value:
        """A local name outside of any flow."""
        key = ("local", id(f), name)
        if key in self._busy:
            return UNKNOWN
        known = self._names.get(key)
        if known is None:
            self._busy.add(key)
            known = self._names[key] = self.assigned_value(f.function, name)
            self._busy.discard(key)
        return known

    def global_value(self, module: Module, name: str, e: Expr) -> Value:
        main = self._mains.get(module.path)
        if main is not None and name in main.env:
            return main.env[name]
        key = (module.path, name)
        if key in self._names:
            return self._names[key]
        if key in self._busy:
            return UNKNOWN
        self._busy.add(key)
        bound = module.names.get(name)
        if bound is not None and bound[0] == "value":
            v = self.assigned_value(self.program.main(module), name)
            written = self.written_globally(module, name)
            if written:
                ranked = [w for w in written if self.suspects.is_ranked(w)]
                values = [v, *[self.assigned_value(w, name) for w in ranked]]
                varying = [x for x in values if varies(x)]
                v = varying[0] if varying else ("sym", ("global", *key))
        else:
            scope = self.program.module_scope(module)
            v = self.denoted(("name", e[1], name), scope) or UNKNOWN
            if v == UNKNOWN:
                v = ("sym", ("global", *key))
        self._busy.discard(key)
        self._names[key] = v
        return v

    def written_globally(self, module: Module, name: str) -> list[Function]:
        """The functions of a module that assign its name by a `global` statement."""
        words = self._global_words.get(module.path)
        if words is None:
            words = self._global_words[module.path] = {}
            for number, line in enumerate(self.program.lines(module.path), 1):
                if line.lstrip().startswith("global "):
                    for w in line.strip()[7:].split(","):
                        words.setdefault(w.strip(), []).append(number)
        rows = words.get(name)
        if not rows:
            return []
        return [g for g in module.all_functions() if any(g.first_line <= r <= g.end_line for r in rows)]

    def set_global(self, module: Module, name: str, value: Value) -> None:
        main = self._mains.get(module.path)
        if main is not None:
            main.env[name] = ("sym", ("global", module.path, name)) if not varies(value) else value

    def assigned_value(self, function: Function, name: str) -> Value:
        """The join of all that a function assigns to a name."""
        f = self.pure_frame(function)
        scope = f.scope
        bindings = scope.bindings().get(name, ())
        if not bindings and name in scope.declared:
            bindings = [("value", s[3]) for s in assignments(self.program.body(function), name)]
        return self.join([self.binding(f, b, name) for b in bindings], (function.module.path, function.pos, name))

    def binding(self, f: Frame, b: Any, name: str) -> Value:
        kind = b[0]
        if kind == "value":
            return self.pure(f, b[1])
        if kind == "item":
            return self.part(self.pure(f, b[1]), b[2])
        if kind == "param":
            return self.param(f.function, b[1])
        if kind in ("import", "from", "def", "class"):
            return self.denoted(("name", 0, name), f.scope) or UNKNOWN
        return UNKNOWN

    def join(self, values: list[Value], where: Any) -> Value:
        kept: list[Value] = []
        for v in values:
            if v not in kept:
                kept.append(v)
        if not kept or len(kept) > 4:
            return next((v for v in kept if varies(v)), ("sym", where))
        if len(kept) == 1:
            return kept[0] if kept[0] != UNKNOWN else ("sym", where)
        model = next((v for v in kept if v[0] == "wrapped"), None)
        if model is not None and not any(varies(v) for v in kept):
            return model
        if not any(varies(v) or v[0] in FUNCTION_KINDS for v in kept):
            return ("sym", where)
        whole = [v for v in kept if v != NONE or len(kept) == 2]
        value = whole[-1]
        for n, v in enumerate(reversed(whole[:-1])):
            value = op("sel", ("sym", ("joined", where, n)), v, value)
        return value

    def pure_frame(self, function: Function) -> Frame:
        """A frame for questions outside of any flow: names are the joins of their assignments."""
        f = self._pure.get(id(function))
        if f is None:
            f = self._pure[id(function)] = PureFrame(self, function, Trace(function, function.module), {}, None)
            if function.is_method:
                f.receiver = self.own(function)
        return f

    def pure(self, f: Frame, e: Expr) -> Value:
        key = ("pure", id(e), id(f))
        if key in self._busy or self._depth > DEEPEST:
            return UNKNOWN
        self._busy.add(key)
        self._depth += 1
        items, f.items = f.items, []
        try:
            return f.eval(e)
        finally:
            f.items = items
            f.env.clear()
            self._depth -= 1
            self._busy.discard(key)

    def param(self, function: Function, p: Any) -> Value:
        """What the callers pass for a parameter, joined; with no caller in sight its annotation, then its name."""
        name = p[0]
        key = (id(function), name)
        known = self._params.get(key)
        if known is not None:
            return known
        if function.is_method and function.params[0] is p:
            return self.own(function) or UNKNOWN
        if key in self._busy:
            return UNKNOWN
        self._busy.add(key)
        unknown: Value = ("sym", ("param", id(function), name))
        values: list[Value] = []
        if p[1] in ("pos", "kw") and self.suspects.asks(function, name):
            for caller, call in self.callers(function):
                argument = self.program.bind(function, call).get(name)
                if argument is not None:
                    values.append(self.pure(self.pure_frame(caller), argument))
                elif p[2] is not None:
                    values.append(self.default(p, function))
        values = [v if v != UNKNOWN and v[0] != "bound" else unknown for v in values]
        v = self.join(values, ("param", id(function), name)) if values else unknown
        if v[0] == "const" and len(values) < 2 and not isinstance(v[1], bool):
            v = unknown
        if not varies(v) and v[0] not in FUNCTION_KINDS:
            v = self.spawned(function, p) or self.denoted_param(function, p) or v
        if v[0] == "sym" and not any(x[0] == "sym" and x[1] != unknown[1] for x in values):
            hinted = self.hinted(function, p)
            if hinted is not None:
                v = hinted
        self._busy.discard(key)
        self._params[key] = v
        return v

    def callers(self, function: Function) -> list[tuple[Function, Expr]]:
        """Up to six calls of a function, with the functions that hold them."""
        known = self._callers.get(id(function))
        if known is None:
            known = self._callers[id(function)] = []
            name = callable_name(function)
            for f in self.suspects.callers(name)[:40]:
                for g in self.program.with_nested(f):
                    scope = self.program.scope(g)
                    for call in self.program.calls(g):
                        if call[2][-1] == name and function in self.program.targets(call, scope):
                            known.append((g, call))
                if len(known) >= 6:
                    break
        return known[:6]

    def denoted_param(self, function: Function, p: Any) -> Value | None:
        if p[3] is None:
            return None
        v = self.denoted(("name", function.pos, p[0]), self.program.scope(function))
        return v if v is not None and v[0] in ("inst", "extinst") else None

    def spawned(self, function: Function, p: Any) -> Value | None:
        """The first parameter of a function given to `mp.spawn` is the number of the process."""
        if not function.params or function.params[0] is not p or function.owner is not None:
            return None
        text = self.program.text(function.module.path) or ""
        if "spawn(" in text and f"spawn({function.name}" in text.replace("fn=", "").replace("\n", "").replace(" ", ""):
            return ("rank", "world", True, (function.module.path, function.pos, p[0]))
        return None

    def hinted(self, function: Function, p: Any) -> Value | None:
        found = knowledge.identifier(p[0])
        origin = (function.module.path, function.pos, p[0])
        if (
            found is None
            or function.name == "__init__"
            and p[2] is not None
            and p[2][0] == "const"
            and p[2][2] is not None
        ):
            return None
        if found[0] in ("rank_source", "local_rank_source"):
            return ("rank", ranks_expressions.axis_of(p[0]), False, origin)
        if found[0] == "rank_predicate":
            return leader_test("local" if "local" in p[0] else "world", False, origin)
        return None

    def member(self, f: Frame, module: Module, name: str, e: Expr) -> Value:
        if name in module.names:
            return self.global_value(module, name, e)
        return self.denoted(e, f.scope) or ("sym", ("global", module.path, name))

    def field(self, holder: Value, name: str) -> Value | None:
        """What an instance holds in a field: what its constructor left there, else the join of all assignments."""
        cls: Class = holder[1]
        if self.suspects.sharded(cls.module, name):
            return ("wrapped", ranks_models.class_of_sharded(), UNKNOWN, None)
        for k, v in holder[2]:
            if k == name:
                return v  # type: ignore[no-any-return]
        key = (id(cls), name)
        if key in self._fields:
            return self._fields[key]
        self._fields[key] = None
        assigned = self.assignments(cls, name)
        v: Value | None = None
        if assigned:
            values = []
            for e, function in assigned[:6]:
                values.append(self.pure(self.pure_frame(function), e))
            values = [x if x != UNKNOWN else ("sym", ("field", id(cls), name)) for x in values]
            v = self.join(values, ("field", id(cls), name))
            if v[0] == "const" and len(assigned) == 1 and self.assigned_outside(cls, name):
                v = ("sym", ("field", id(cls), name))
        elif name in self.dataclass_fields(cls):
            v = self.dataclass_value(cls, name)
        self._fields[key] = v
        return v

    def assignments(self, cls: Class, name: str) -> list[tuple[Expr, Function]]:
        """What the class and its ancestors assign to `self.<name>`, with the methods that do; only methods whose text
        holds such an assignment are lowered."""
        out: list[tuple[Expr, Function]] = []
        for c in (cls, *self.program.bases(cls)[0]):
            for s in c.block:
                if s[0] == "assign" and any(t[0] == "name" and t[2] == name for t in s[2]):
                    out.append((s[3], self.program.main(c.module)))
                elif s[0] == "ann" and s[4] and s[2][0] == "name" and s[2][2] == name:
                    out.append((s[4], self.program.main(c.module)))
            for method in self.assigning(c).get(name, ()):
                me = method.params[0][0] if method.params else ""
                out += [(v, method) for t, v in self.attributes_set(method, name) if t[2][-1] == me]
        return out

    def attributes_set(self, function: Function, name: str) -> list[tuple[Expr, Expr]]:
        """(target, value) of `x.name = value` in a function, also inside tuples of equal length."""
        known = self._attributes.get(id(function))
        if known is None:
            known = self._attributes[id(function)] = []
            for s in walk_block(self.program.body(function)):
                if s[0] == "ann" and s[4] and s[2][0] == "attr":
                    known.append((s[2][3], s[2], s[4]))
                elif s[0] == "assign":
                    for t in s[2]:
                        if t[0] == "attr":
                            known.append((t[3], t, s[3]))
                        elif t[0] == "tuple" and s[3][0] == "tuple" and len(t[2]) == len(s[3][2]):
                            known += [(x[3], x, v) for x, v in zip(t[2], s[3][2]) if x[0] == "attr"]
        return [(t, v) for n, t, v in known if n == name]

    def assigning(self, cls: Class) -> dict[str, list[Function]]:
        """{field: methods whose text assigns it}."""
        known = self._assigned.get(id(cls))
        if known is None:
            known = self._assigned[id(cls)] = {}
            for method in cls.methods.values():
                if method.params:
                    pattern = compile(r"\b" + method.params[0][0] + r"\.(\w+)(?:\s*:[^=\n]+)?\s*(?:=(?!=)|,)")
                    for name in set(pattern.findall(self.suspects.text_of(method))):
                        known.setdefault(name, []).append(method)
        return known

    def assigned_outside(self, cls: Class, name: str) -> bool:
        """Whether somebody else writes the field (`trainer.should_stop = True`), as far as the texts say."""
        needle = f".{name} ="
        return any(
            needle in (self.program.text(p) or "").replace(f"self{needle}", "") for p in self.near(cls.module.path)
        )

    def near(self, path: str) -> list[str]:
        from posixpath import dirname

        here = dirname(path)
        if len(self.program.modules) != self._near_size:
            self._near_size = len(self.program.modules)
            self._near = {}
            for p in self.program.modules:
                self._near.setdefault(dirname(p), []).append(p)
        return self._near.get(here, [])[:60]

    def dataclass_value(self, cls: Class, name: str) -> Value | None:
        return None

    def assigned_anywhere(self, f: Frame, name: str) -> Value | None:
        """`args.rank = dist.get_rank()` somewhere in the module: what `args.rank` of an unknown `args` is."""
        if knowledge.identifier(name) is None:
            return None
        key = (f.module.path, name)
        if key in self._anywhere:
            return self._anywhere[key]
        self._anywhere[key] = None
        needle = f".{name} ="
        found: Value | None = None
        for path in dict.fromkeys((f.module.path, *self.near(f.module.path))):
            if needle not in (self.program.text(path) or ""):
                continue
            module = self.program.modules.get(path)
            if module is None:
                continue
            for g in (self.program.main(module), *module.all_functions()):
                for target, value in self.attributes_set(g, name):
                    v = self.pure(self.pure_frame(g), value)
                    if varies(v):
                        found = v if found is None or found == v else found
            if found is not None:
                break
        self._anywhere[key] = found
        return found

    def method_row(self, f: Frame, name: str, e: Expr) -> Row | None:
        """The row of a method of an object of unknown class: its name is one framework's own, and that framework is in use
        here; or the object is called what the framework calls it."""
        rows = [r for r in knowledge.methods(name) if is_class_member(r.name)]
        if not rows:
            return None
        receiver = e[2][2] if e[2][0] == "attr" else None
        called = (receiver[-1] if receiver is not None and receiver[0] in ("name", "attr") else "").lower().strip("_")
        hosts = self.hosts(f.module)
        for row in rows:
            if row.family not in hosts and row.family not in ("tvref",):
                continue
            cls = row.name.rpartition(".")[0].rpartition(".")[2].lower()
            if name in OWN_NAMES or (
                name.count("_") >= 2 and cls != "trainer" and name not in knowledge.graph("module_methods")
            ):
                return row
            if called and (called == cls or cls.endswith(called) and len(called) >= 6):
                return row
        return None

    def hosts(self, module: Module) -> frozenset[str]:
        """The families of frameworks that a module's text names."""
        if module.path not in self._hosts:
            text = self.program.text(module.path) or ""
            self._hosts[module.path] = frozenset(f for f, word in FAMILY_WORDS if word in text)
        return self._hosts[module.path]

    def element(self, f: Frame, iterated: Value, s: Any) -> Value:
        """What a loop variable stands for."""
        if iterated[0] in ("list", "tuple") and iterated[1]:
            first = iterated[1][0]
            if all(x == first for x in iterated[1]):
                return first  # type: ignore[no-any-return]
        return ("sym", ("v", f.module.path, s[1], "element"))

    def part(self, v: Value, index: int) -> Value:
        if v[0] in ("tuple", "list") and -len(v[1]) <= index < len(v[1]):
            return v[1][index]  # type: ignore[no-any-return]
        if v[0] == "op" and v[1] == "sel":
            return op("sel", v[2], self.part(v[3], index), self.part(v[4], index))
        return REDUCED if v == REDUCED else UNKNOWN


class PureFrame(Frame):
    """Answers for names by the join of their assignments instead of the flow."""

    __slots__ = ()


def special(v: Value | None) -> bool:
    """An argument that makes the trace of a callee its own."""
    if v is None:
        return False
    if v[0] == "packed":
        return any(special(x) for x in v[1]) or any(special(x) for _, x in v[2])
    return v[0] in ("closure", "wrapped", "raw", "func", "inst") and (v[0] != "inst" or bool(v[2])) or varies(v)


def carries(v: Value | None) -> bool:
    """An argument that communicates when it is used: a callable, a wrapped model, an object that holds one."""
    if v is None:
        return False
    kind = v[0]
    if kind in ("closure", "wrapped", "raw", "func", "partial"):
        return True
    if kind == "packed":
        return any(carries(x) for x in v[1]) or any(carries(x) for _, x in v[2])
    return kind == "inst" and any(carries(x) for _, x in v[2])


OWN_NAMES = frozenset(("full_tensor",))
FAMILY_WORDS = (
    ("accelerate", "ccelerat"), ("lightning", "ightning"), ("deepspeed", "deepspeed"), ("dtensor", "torch"),
    ("transformers", "transformers"), ("torchmetrics", "torchmetrics"), ("ignite", "ignite"), ("colossalai", "colossalai"),
    ("mmengine", "mmengine"), ("fsdp1", "FSDP"), ("fsdp1", "FullyShardedDataParallel"), ("fsdp2", "fully_shard"),
    ("fairscale", "fairscale"), ("horovod", "horovod"), ("zero", "ZeroRedundancyOptimizer"), ("pp", "pipelin"),
    ("composer", "composer"), ("xla", "torch_xla"),
)  # fmt: skip


def is_class_member(q: str) -> bool:
    return q.rpartition(".")[0].rpartition(".")[2][:1].isupper()


def size_ok(v: Value) -> bool:
    from .ranks_values import size

    return size(v, 12) <= 12


def assignments(block: Any, name: str) -> Any:
    for s in walk_block(block):
        if s[0] == "assign" and any(t[0] == "name" and t[2] == name for t in s[2]):
            yield s
