"""Where a value comes from: followed backwards through assignments, parameters and their callers, attributes, returns,
dictionaries, configuration classes and command-line options, to the expressions that make it.

`Origins.of(e, frame)` gives the ends of all these ways. An end that is not understood is an origin like any other (a
call of something outside the project, a parameter that nobody passes): whoever asks decides what unknown means.
"""

from __future__ import annotations

from ..program.model import calls_in, walk_block
from ..program.names import annotated_class
from .settings_frames import (
    CONFIG,
    DEFAULT,
    FIELD,
    OPTION,
    REPLACEABLE,
    UNKNOWN_NAME,
    Frame,
    Origin,
    relabel,
    unknown,
)
from .settings_options import Options
from .settings_reach import START, reaching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Class, Expr, Function, Module
    from ..program.names import Scope
    from ..program.program import Program
    from .settings_configs import Configs

MOST = 12
"""More origins than this are no knowledge."""
DEPTH = 32
CALLERS = 8

FILES = (
    "load",
    "safe_load",
    "full_load",
    "unsafe_load",
    "merge",
    "create",
    "EasyDict",
    "edict",
    "Box",
    "Munch",
    "DotMap",
)
"""Last names of calls whose result can be the entries of a configuration file (see `settings_configs`)."""


class Origins:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.options = Options(program)
        self._memo: dict[Any, tuple[Expr, list[Origin]]] = {}
        """With the expression, which must not be freed: another one would have its identity."""
        self._configs: Configs | None = None
        self._busy: set[Any] = set()
        self._reach: dict[tuple[int, str, int], list[Any]] = {}
        self._touched: dict[int, frozenset[str]] = {}

    def of(self, e: Expr, frame: Frame) -> list[Origin]:
        key = (id(e), frame.key())
        if key in self._memo:
            return self._memo[key][1]
        if key in self._busy or len(self._busy) > DEPTH:
            return []
        self._busy.add(key)
        try:
            out: dict[Any, Origin] = {}
            for o in self._of(e, frame):
                out.setdefault((*o.key(), o.frame.key()), o)
        finally:
            self._busy.discard(key)
        found = list(out.values()) if len(out) <= MOST else [unknown(e, frame)]
        if not self._busy or found:
            self._memo[key] = (e, found)
        return found

    def one(self, e: Expr, frame: Frame) -> Origin | None:
        found = self.of(e, frame)
        return found[0] if len(found) == 1 else None

    def scope(self, frame: Frame) -> Scope:
        return self.program.scope(frame.function)

    @property
    def configs(self) -> Configs:
        if self._configs is None:
            from .settings_configs import Configs

            self._configs = Configs(self)
        return self._configs

    # ------------------------------------------------------------------------------------------------ by kind
    def _of(self, e: Expr, frame: Frame) -> list[Origin]:
        kind = e[0]
        if kind == "name":
            return self.name(e[2], e[1], frame)
        if kind == "attr":
            return self.attr(e, frame)
        if kind == "call":
            return self.call(e, frame)
        if kind == "sub":
            return self.sub(e, frame)
        if kind == "ifexp":
            return self.of(e[3], frame) + self.of(e[4], frame)
        if kind == "bool":
            return [o for x in e[3] for o in self.of(x, frame)]
        if kind == "walrus":
            return self.of(e[3], frame)
        if kind == "await" and e[2]:
            return self.of(e[2], frame)
        if kind == "spread":  # an entry of a dictionary given as **settings
            return self.entry(e[2], e[3], frame) or [Origin(e, frame)]
        return [Origin(e, frame)]

    def name(self, name: str, pos: int | None, frame: Frame) -> list[Origin]:
        """What a name holds at a position of the frame's function (None: at its end)."""
        f = frame.function
        key = (id(f), name, pos or 0)
        if key not in self._reach:
            walrus = ":=" in (self.program.text(f.module.path) or "")
            self._reach[key] = reaching(self.program.body(f), name, pos, walrus, self._touched)
        out: list[Origin] = []
        for d in self._reach[key]:
            if d is START or d == START:
                out += self.outside(name, pos, frame)
            else:
                out += self.definition(d, frame)
        return out

    def definition(self, d: tuple[Any, ...], frame: Frame) -> list[Origin]:
        if d[0] == "value":
            return self.of(d[1], frame)
        if d[0] == "item":
            return self.item(d[1], d[2], frame)
        if d[0] == "element" and d[1][0] in ("tuple", "list") and len(d[1][2]) <= MOST:
            return [o for x in d[1][2] for o in self.of(x, frame)]
        if d[0] == "enter":
            return self.of(d[1], frame)
        return [unknown(d[1] if len(d) > 1 else None, frame)]

    def item(self, value: Expr, index: int, frame: Frame) -> list[Origin]:
        out: list[Origin] = []
        for o in self.of(value, frame):
            if (
                o.e[0] in ("tuple", "list")
                and index < len(o.e[2])
                and not any(x[0] == "star" for x in o.e[2][: index + 1])
            ):
                out += self.of(o.e[2][index], o.frame)
            elif o.e[0] == "call":
                out.append(Origin(("item", o.e[1], o.e, index), o.frame, o.via))
            else:
                out.append(unknown(o.e, o.frame))
        return out

    def outside(self, name: str, pos: int | None, frame: Frame) -> list[Origin]:
        """A name that the function does not assign before: parameter, enclosing function, module, import."""
        f = frame.function
        for p in f.params:
            if p[0] == name:
                return self.parameter(p, frame)
        if f.name == "<module>":
            return self.module_name(f.module, name, frame)
        if f.parent is not None:
            return self.name(name, None, Frame(f.parent))
        return self.name(name, None, Frame(self.program.main(f.module)))

    def module_name(self, module: Module, name: str, frame: Frame) -> list[Origin]:
        bound = module.names.get(name)
        if bound is None:
            for dotted, level in module.stars:
                path = self.program.find(module.path, dotted, level)
                target = self.program.module(path) if path else None
                if target and target is not module and name in target.names:
                    return self.name(name, None, Frame(self.program.main(target)))
        elif bound[0] == "from":
            path = self.program.find(module.path, bound[1], bound[3])
            target = self.program.module(path) if path else None
            if target and target is not module and bound[2] in target.names:
                return self.name(bound[2], None, Frame(self.program.main(target)))
        return [unknown(None, frame)]

    def parameter(self, p: tuple[Any, ...], frame: Frame) -> list[Origin]:
        f = frame.function
        if frame.call is not None and frame.outer is not None:
            return self.argument(p, f, frame.call, frame.outer)
        if f.owner is not None and f.params and f.params[0] is p and f.is_method:
            return [unknown(None, frame)]
        option = self.options.of_parameter(f, p[0])
        if option is not None:
            return self.option(option)
        if f.decorators and p is f.params[0]:
            config = self.configs.of_function(f)
            if config is not None:
                return [config]
        callers = self.program.callers(f) if frame.depth() < 6 else []
        if callers and len(callers) <= CALLERS:
            return [o for g, call in callers for o in self.argument(p, f, call, Frame(g))]
        if p[2] is not None:
            out = [relabel(o, DEFAULT) for o in self.field_default(p[2], self.home(f))]
            return out if not callers else [*out, unknown(None, frame)]
        return [unknown(None, frame)]

    def argument(self, p: tuple[Any, ...], f: Function, call: Expr, outer: Frame) -> list[Origin]:
        """What a call passes for a parameter; its default when the call passes nothing."""
        given = self.program.bind(f, call).get(p[0])
        if given is not None:
            return self.of(given, outer)
        if p[1] in ("*", "**"):
            return [Origin(("rest", call[1], call, f), outer)] if p[1] == "**" else [unknown(None, outer)]
        for name, value in call[4]:
            if name is None:
                found = self.entry(value, p[0], outer)
                if found is not None:
                    return found
        if any(a[0] == "star" for a in call[3]) or p[2] is None:
            return [unknown(None, outer)]
        return [relabel(o, DEFAULT) for o in self.field_default(p[2], self.home(f))]

    def home(self, f: Function) -> Frame:
        """Where the defaults of a function are evaluated."""
        return Frame(f.parent if f.parent is not None else self.program.main(f.module))

    # ---------------------------------------------------------------------------------------- attributes, items
    def attr(self, e: Expr, frame: Frame) -> list[Origin]:
        base, name = e[2], e[3]
        assigned = self.assigned_near(e, frame)
        if assigned is not None:
            return assigned
        scope = self.scope(frame)
        out: list[Origin] = []
        if base[0] == "attr" and base[3] in ("hparams", "_hparams"):
            out = self.saved_hyperparameter(base[2], name, frame)
            if out:
                return out
        for x in self.program.entities(base, scope):
            if x[0] == "module":
                if name in x[1].names:
                    return self.name(name, None, Frame(self.program.main(x[1])))
            elif x[0] in ("inst", "class"):
                out += self.made_with(x[1], name, base, frame) or self.member(x[1], name, base, frame)
            elif x[0] in ("ext", "extmethod", "func", "method"):
                return [Origin(e, frame)]
        if out:
            return out
        ends = self.of(base, frame)
        for o in ends:
            out += self.attr_of(o, name, frame)
        if any(o.known for o in out):
            return out
        option = self.options.near(frame.module, name) if not any(o.known for o in ends) else None
        if option is not None:
            return self.option(option)
        return [Origin(e, frame)]

    def made_with(self, cls: Class, name: str, base: Expr, frame: Frame) -> list[Origin]:
        """What a visible construction of a class of fields (`Config(num_workers=4)`) passes for one of them."""
        if "__init__" in cls.methods or is_self(base, frame.function):
            return []
        out: list[Origin] = []
        for o in self.of(base, frame):
            if o.e[0] != "call":
                return []
            given = self.given_for(o.e, name, o.frame)
            if given is None:
                return []
            out += given
        return out

    def given_for(self, call: Expr, name: str, frame: Frame) -> list[Origin] | None:
        """What a construction passes for a field, also in `Config(**yaml.safe_load(file))`; None when it does not."""
        for key, value in call[4]:
            found = self.of(value, frame) if key == name else self.entry(value, name, frame) if key is None else None
            if found is not None:
                return found
        return None

    def attr_of(self, o: Origin, name: str, frame: Frame) -> list[Origin]:
        """`<end>.name` where the end is known: parsed arguments, an instance with fields, a dictionary as object."""
        e = o.e
        if e[0] == "item" and e[3] == 0:
            e = e[2]
        if e[0] == "sub" and e[3][0] == "const" and e[3][2] == 0:
            e = e[2]
        if e[0] == "config":
            return [self.configs.part(o, name) or unknown(None, o.frame)]
        if e[0] == "call":
            last = e[2][-1] if e[2][0] in ("name", "attr") else ""
            if last in FILES:
                found = self.configs.of_call(e, o.frame, name)
                if found is not None:
                    return found
            option = self.options.of_call(e, last, name, o.frame)
            if option is not None:
                return self.option(option)
            scope = self.scope(o.frame)
            for x in self.program.entities(e[2], scope):
                if x[0] == "class":
                    given = self.given_for(e, name, o.frame) if "__init__" not in x[1].methods else None
                    return given if given is not None else self.member(x[1], name, None, o.frame)
            for a in e[3]:  # tyro.cli(Config), parse(Config): an instance of the class, its fields as options
                for x in self.program.entities(a, scope):
                    if x[0] == "class":
                        return self.member(x[1], name, None, o.frame)
            for key, value in e[4]:  # Namespace(...), SimpleNamespace(...), EasyDict(...)
                if key == name:
                    return self.of(value, o.frame)
        if e[0] == "dict":
            found = self.entry(e, name, o.frame)
            if found is not None:
                return found
        return [unknown(e, o.frame)]

    def member(self, cls: Class, name: str, base: Expr | None, frame: Frame) -> list[Origin]:
        """The values of an attribute of a project class: assigned in its methods, or a field with a default."""
        out: list[Origin] = []
        for value, f in self.program.attribute(cls, name):
            if f.name == "<module>":
                inner = self.field_default(in_class(value, cls), Frame(f))
                out += [relabel(o, FIELD) for o in inner]
            elif base is not None and frame.function is f and frame.call is not None:
                out += self.of(value, frame)
            else:
                out += self.of(value, Frame(f))
        method = self.program.method(cls, name)
        if not out and method is not None and "property" in method.decorator_names():
            out += self.returned(method, Frame(method))
        return out

    def field_default(self, value: Expr, frame: Frame) -> list[Origin]:
        """`field(default=4)`, `Field(4, ...)`: the default inside; any other expression is the default itself."""
        if value[0] == "call" and value[2][-1] in ("field", "Field", "attrib", "ib", "Option", "Argument"):
            for key, inner in value[4]:
                if key == "default":
                    return self.of(inner, frame)
                if key in ("default_factory", "factory"):
                    if inner[0] == "lambda":
                        return self.of(inner[3], frame)
                    return [unknown(value, frame)]
            if value[3] and value[2][-1] != "field":
                return self.of(value[3][0], frame)
            return [unknown(value, frame)]
        return self.of(value, frame)

    def saved_hyperparameter(self, base: Expr, name: str, frame: Frame) -> list[Origin]:
        """`self.hparams.name` of Lightning: the argument of `__init__` of that name (`save_hyperparameters`)."""
        for x in self.program.entities(base, self.scope(frame)):
            if x[0] == "inst":
                init = self.program.method(x[1], "__init__")
                for p in init.params if init else ():
                    if p[0] == name and init is not None:
                        return self.parameter(p, Frame(init))
        return []

    def assigned_near(self, e: Expr, frame: Frame) -> list[Origin] | None:
        """`args.workers = ...` in the same module: the option's default is not the value any more."""
        base, name = e[2], e[3]
        if base[0] != "name":
            return None
        f = frame.function
        if f.is_method and f.params and f.params[0][0] == base[2]:
            return None
        changed = self.options.changed_attributes(frame.module)
        if (base[2], name) not in changed:
            return None
        here = [
            s for s in walk_block(self.program.body(f)) if s[0] == "assign" and len(s[2]) == 1 and _same(s[2][0], e)
        ]
        before = [s for s in here if s[1] < e[1]]
        if before and before[-1] in self.program.body(f):
            return self.of(before[-1][3], frame)
        return [unknown(e, frame)]

    def option(self, option: Any) -> list[Origin]:
        if option.default is None:
            return [Origin(("const", option.pos, None), option.frame(self.program), OPTION)]
        return [relabel(o, OPTION, option.default) for o in self.of(option.default, option.frame(self.program))]

    def sub(self, e: Expr, frame: Frame) -> list[Origin]:
        index = e[3]
        if index[0] != "const":
            return [Origin(e, frame)]
        if isinstance(index[2], str):
            found = self.entry(e[2], index[2], frame)
            return found if found is not None else [Origin(e, frame)]
        if isinstance(index[2], int) and index[2] >= 0:
            return self.item(e[2], index[2], frame)
        return [Origin(e, frame)]

    def entry(self, e: Expr, key: str, frame: Frame) -> list[Origin] | None:
        """The entry `key` of a dictionary expression; None when it has none or nothing is known."""
        busy = (id(e), key, frame.key())
        if busy in self._busy or len(self._busy) > DEPTH:
            return None
        self._busy.add(busy)
        try:
            return self._entry(e, key, frame)
        finally:
            self._busy.discard(busy)

    def _entry(self, e: Expr, key: str, frame: Frame) -> list[Origin] | None:
        out: list[Origin] = []
        if e[0] == "name":
            out += self.entries_set_later(e, key, frame)
        for o in self.of(e, frame):
            out += self.entry_of(o, key) or ()
        return out or None

    def entry_of(self, o: Origin, key: str) -> list[Origin] | None:
        e = o.e
        if e[0] == "dict":
            for k, v in reversed(tuple(zip(e[2], e[3]))):
                if k is None:
                    found = self.entry(v, key, o.frame)
                    if found is not None:
                        return found
                elif k[0] == "const" and k[2] == key:
                    return self.of(v, o.frame)
            return None
        if e[0] == "bin" and e[2] == "|":
            return self.entry(e[4], key, o.frame) or self.entry(e[3], key, o.frame)
        if e[0] == "config":
            part = self.configs.part(o, key)
            return [part] if part is not None else None
        if e[0] == "rest":
            if any(p[0] == key and p[1] in ("pos", "kw") for p in e[3].params):
                return None  # taken by a parameter of its own
            given = next((v for n, v in e[2][4] if n == key), None)
            if given is not None:
                return self.of(given, o.frame)
            for n, v in e[2][4]:
                if n is None:
                    found = self.entry(v, key, o.frame)
                    if found is not None:
                        return found
            return None
        if e[0] == "call":
            last = e[2][-1] if e[2][0] in ("name", "attr") else ""
            if last in FILES:
                found = self.configs.of_call(e, o.frame, key)
                if found is not None:
                    return found
            for n, v in e[4]:
                if n == key and last[:1].islower():
                    return self.of(v, o.frame)
            if last in ("vars", "asdict") and e[3]:
                found = [x for b in self.of(e[3][0], o.frame) for x in self.attr_of(b, key, o.frame)]
                return found if any(x.known for x in found) else None
            for a in e[3]:
                if last in ("dict", "copy", "deepcopy", "OrderedDict"):
                    found2 = self.entry(a, key, o.frame)
                    if found2 is not None:
                        return found2
            for n, v in e[4]:
                if n is None:
                    return self.entry(v, key, o.frame)
            if last == "copy" and e[2][0] == "attr" and not e[3]:
                return self.entry(e[2][2], key, o.frame)
        return None

    def entries_set_later(self, e: Expr, key: str, frame: Frame) -> list[Origin]:
        """`kw["num_workers"] = 4`, `kw.update(num_workers=4)`, `kw.setdefault("num_workers", 4)` on the same name."""
        out: list[Origin] = []
        for s in walk_block(self.program.body(frame.function)):
            if s[0] == "assign" and s[1] < e[1]:
                for t in s[2]:
                    if (
                        t[0] == "sub"
                        and t[2][0] == "name"
                        and t[2][2] == e[2]
                        and t[3][0] == "const"
                        and t[3][2] == key
                    ):
                        out += self.of(s[3], frame)
            elif s[0] == "expr" and s[2][0] == "call" and s[2][1] < e[1]:
                call = s[2]
                f = call[2]
                if f[0] != "attr" or f[2][0] != "name" or f[2][2] != e[2]:
                    continue
                if f[3] == "update":
                    for n, v in call[4]:
                        if n == key:
                            out += self.of(v, frame)
                    for a in call[3]:
                        out += self.entry(a, key, frame) or ()
                elif f[3] == "setdefault" and len(call[3]) == 2 and call[3][0][0] == "const" and call[3][0][2] == key:
                    out += self.of(call[3][1], frame)
        return out

    # -------------------------------------------------------------------------------------------------- calls
    def call(self, e: Expr, frame: Frame) -> list[Origin]:
        f = e[2]
        if f[0] == "attr" and f[3] in ("get", "pop") and e[3] and e[3][0][0] == "const" and isinstance(e[3][0][2], str):
            found = self.entry(f[2], e[3][0][2], frame)
            default = self.of(e[3][1], frame) if len(e[3]) > 1 else []
            if found is not None:
                return found
            if default and self.program.qualified(f[2], self.scope(frame)) == "os.environ":
                return [relabel(o, DEFAULT) for o in default]  # as the default of an option
            return [*(relabel(o, DEFAULT) for o in default), unknown(e, frame)]
        if (
            f[0] == "name"
            and f[2] == "getattr"
            and len(e[3]) >= 2
            and e[3][1][0] == "const"
            and isinstance(e[3][1][2], str)
        ):
            as_attr = ("attr", e[1], e[3][0], e[3][1][2])
            found = [o for o in self.attr(as_attr, frame) if o.known and o.e is not as_attr]
            default = [relabel(o, DEFAULT) for o in self.of(e[3][2], frame)] if len(e[3]) > 2 else []
            return found or [*default, unknown(e, frame)]
        if frame.depth() > 6:
            return [Origin(e, frame)]
        scope = self.scope(frame)
        out: list[Origin] = []
        for x in self.program.entities(f, scope):
            if x[0] in ("func", "method") and not x[1].is_generator:
                out += self.returned(x[1], Frame(x[1], e, frame))
            else:
                return [Origin(e, frame)]
        return out or [Origin(e, frame)]

    def returned(self, f: Function, frame: Frame) -> list[Origin]:
        out: list[Origin] = []
        for s in walk_block(self.program.body(f)):
            if s[0] == "return" and s[2]:
                out += self.of(s[2], frame)
        return out

    def instance_class(self, e: Expr, frame: Frame) -> Class | None:
        """The project class that an expression is an instance of, also by annotation."""
        for x in self.program.entities(e, self.scope(frame)):
            if x[0] == "inst":
                return x[1]  # type: ignore[no-any-return]
        return None


def in_class(e: Any, cls: Class, names: set[str] | None = None, depth: int = 0) -> Any:
    """An expression of a class body with the names of the body as attributes of the class: `workers = cpus - 2`."""
    if not isinstance(e, tuple) or depth > 6 or e[:1] in (("const",), ("lambda",)):
        return e
    if names is None:
        from ..program.attributes import set_in_class

        names = {name for name, _ in set_in_class(cls)} - {cls.name}
    if len(e) == 3 and e[0] == "name" and e[2] in names:
        return ("attr", e[1], ("name", e[1], cls.name), e[2])
    made = tuple(in_class(x, cls, names, depth + 1) for x in e)
    return e if all(a is b for a, b in zip(made, e)) else made


def functions_naming(program: Program, module: Module, names: set[str]) -> Iterator[Function]:
    """Functions (nested ones too, and the module's own code) on whose lines one of the names stands."""
    return functions_on(program, module, sorted({row for n in names for row in program.lines_with(module.path, n)}))


def functions_on(program: Program, module: Module, rows: list[int]) -> Iterator[Function]:
    """Functions (nested ones too, and the module's own code) to which one of the lines belongs."""
    for f in program.functions_on(module, rows):
        yield from program.with_nested(f)


def is_self(e: Expr, f: Function) -> bool:
    return bool(e[0] == "name" and f.is_method and f.params and f.params[0][0] == e[2])


def _same(a: Expr, b: Expr) -> bool:
    return a[0] == b[0] == "attr" and a[3] == b[3] and a[2][0] == b[2][0] == "name" and bool(a[2][2] == b[2][2])


__all__ = [
    "CONFIG", "DEFAULT", "FIELD", "OPTION", "REPLACEABLE", "UNKNOWN_NAME", "Frame", "Origin", "Origins",
    "annotated_class", "calls_in", "functions_naming", "functions_on", "is_self", "unknown",
]  # fmt: skip
