"""What names, fields and parameters hold when no flow says so: the join of all assignments, of all callers.

A parameter of a function that starts a trace is what its known callers pass; a field is what the class's methods
assign to it; a module's name is what the module assigns. Only what can matter for ranks is asked: a caller costs much.
"""

from __future__ import annotations

from posixpath import dirname

from ... import knowledge
from ..program.model import Class, Function, Module, walk_block
from ..program.names import annotated_class, entities_of
from ..source.patterns import of_names
from . import ranks_batches, ranks_expressions, ranks_models
from .ranks_flags import Flags
from .ranks_frames import Frame
from .ranks_pages import CALLED_AS, FAMILY_WORDS, LARGE, callable_name, is_class_member, written_by_others
from .ranks_values import NONE, REDUCED, UNKNOWN, const, identified, leader_test, op, varies
from .traces import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Expr
    from ..program.names import Scope
    from ..program.program import Program
    from .ranks_machine import Machine
    from .ranks_suspects import Suspects
    from .ranks_values import Value

DEEPEST = 40
FUNCTION_KINDS = frozenset(("func", "closure", "class", "inst", "extinst", "wrapped", "group", "partial", "packed",
                            "graph", "loader", "bar", "set"))  # fmt: skip


class Names:
    def __init__(self, program: Program, suspects: Suspects) -> None:
        self.program = program
        self.suspects = suspects
        self.flags = Flags(self)
        self._depth = 0
        self._mains: dict[str, Frame] = {}
        self._fields: dict[Any, Value | None] = {}
        self._names: dict[Any, Value] = {}
        self._params: dict[Any, Value] = {}
        self._busy: set[Any] = set()
        self._pure: dict[int, Frame] = {}
        self._global_words: dict[str, dict[str, list[int]]] = {}
        self._anywhere: dict[Any, Value | None] = {}
        self.held: dict[Any, Value | None] = {}  # `ranks_guarded`
        self._callers: dict[int, list[tuple[Function, Expr]]] = {}
        self._assigned: dict[int, dict[str, list[Function]]] = {}
        self._near: dict[str, list[str]] = {}
        self._outside: dict[tuple[str, str], bool] = {}
        self._near_size = 0
        self._attributes: dict[int, list[tuple[str, Expr, Expr]]] = {}
        self._hosts: dict[str, frozenset[str]] = {}
        self.large = len(program.files) > LARGE
        self._named: dict[str, bool] = {}
        self._denoted: dict[tuple[int, bool], Value | None] = {}
        self._dataclass_fields: dict[int, list[str]] = {}
        self._assignments: dict[tuple[int, str], list[tuple[Expr, Function]]] = {}

    # --------------------------------------------------------------------------- names, fields, what callers pass
    def origin(self, f: Frame, e: Expr, name: str) -> Any:
        return (f.module.path, e[1], name)

    def denoted(self, e: Expr, scope: Scope, whole: bool = False) -> Value | None:
        """What an expression stands for outside of any flow; what tells nothing about ranks only when `whole`."""
        if not whole and self.from_barren(e, scope):
            return None
        for x in entities_of(e, scope):
            v = self.converted(x)
            if v is not None:
                return v
        return None

    def denoted_callee(self, func: Expr, scope: Scope, whole: bool) -> Value | None:
        """`denoted` for what is called somewhere in the code: asked once for each place."""
        key = (id(func), whole)
        if key not in self._denoted:
            asked = whole or not self.large or func[0] != "attr" or self.named(func[3])
            self._denoted[key] = self.denoted(func, scope, whole) if asked else None
        return self._denoted[key]

    def named(self, name: str) -> bool:
        """Whether a method of this name can be the project's or one of the tables'; `view` and `append` are neither."""
        known = self._named.get(name)
        if known is None:
            known = self._named[name] = name in self.suspects.counts or bool(knowledge.methods(name))
        return known

    def from_barren(self, e: Expr, scope: Scope) -> bool:
        """Whether a name, or the one at the start of a dotted one, comes from where it tells nothing about ranks."""
        while e[0] == "attr":
            e = e[2]
        bound = scope.module.names.get(e[2]) if e[0] == "name" else None
        if bound is None or bound[0] != "from":
            return False
        path = self.program.find(scope.module.path, bound[1], bound[3])
        if path is None or not self.suspects.barren(path, bound[2]):
            return False
        at: Scope | None = scope
        while at is not None and not at.is_module:
            if e[2] in at.bindings():
                return False
            at = at.parent
        return True

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
        known = main.env.get(name) if main is not None else None
        if known is not None and not (known[0] == "const" and self.written_globally(module, name)):
            return known
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
                told = self.flags.shared(module, name, written) if not varying else None
                v = told if told else varying[0] if varying else ("sym", ("global", *key))
        else:
            home = self.machine().imported_from(module, bound)
            if home is not None and bound is not None:
                v = self.global_value(home, bound[2], e)  # `from settings import RANK`
            else:
                v = self.denoted(("name", e[1], name), self.program.module_scope(module)) or UNKNOWN
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
            holds = "global " in (self.program.text(module.path) or "")
            for number, line in enumerate(self.program.lines(module.path) if holds else (), 1):
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
            body = walk_block(self.program.body(function))
            rows = [s for s in body if s[0] == "assign" and any(t[0] == "name" and t[2] == name for t in s[2])]
            bindings = [("value", s[3]) for s in rows]
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

    def machine(self) -> Machine:
        """The machine that these names belong to."""
        raise NotImplementedError

    def pure_frame(self, function: Function) -> Frame:
        """A frame for questions outside of any flow: names are the joins of their assignments."""
        f = self._pure.get(id(function))
        if f is None:
            f = self._pure[id(function)] = PureFrame(
                self.machine(), function, Trace(function, function.module), {}, None
            )
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
        if v[0] == "const" and len(values) < 2 and not isinstance(v[1], bool) and name not in self.suspects.words:
            v = unknown
        if not varies(v) and v[0] not in FUNCTION_KINDS:
            v = self.spawned(function, p) or self.denoted_param(function, p) or v
            v = ranks_batches.of_hook(self, function, p) or v
        if v[0] == "sym" and not any(x[0] == "sym" and x[1] != unknown[1] for x in values):
            hinted = self.hinted(function, p)
            if hinted is not None:
                v = hinted
        self._busy.discard(key)
        v = self._params[key] = identified(v, ("param", id(function), name))
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
        annotation = annotated_class(p[3]) if p[3] is not None else None
        if annotation is not None and annotation[0] == "const" and isinstance(annotation[2], str):
            annotation = ("name", annotation[1], annotation[2])
        if annotation is None or self.from_barren(annotation, self.program.module_scope(function.module)):
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
        if found is None or (
            function.name == "__init__" and p[2] is not None and p[2][0] == "const" and p[2][2] is not None
        ):
            return None
        if found[0] in ("rank_source", "local_rank_source"):
            return ("rank", ranks_expressions.axis_of(p[0]), False, origin)
        if found[0] == "rank_predicate" and not (p[2] is not None and p[2][0] == "const"):
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
        for k, held in holder[2]:
            if k == name:
                return held  # type: ignore[no-any-return]
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
        if v is None and name not in self.dataclass_fields(cls):
            return v
        if name in self.suspects.flags and (v is None or v[0] in ("const", "sym")):
            flag = self.flags.value(cls.module, name)
            v = flag if flag is not None else v
        self._fields[key] = v
        return v

    def assignments(self, cls: Class, name: str) -> list[tuple[Expr, Function]]:
        """What the class and its ancestors assign to `self.<name>`, with the methods that do; only methods whose text
        holds such an assignment are lowered."""
        out = self._assignments.get((id(cls), name))
        if out is not None:
            return out
        out = self._assignments[id(cls), name] = []
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
                    me = method.params[0][0]
                    # plain characters first: `re` looks for them quickly
                    pattern = of_names(rf"{me}\.(?<=\b{me}\.)(\w+)(?:\s*:[^=\n]+)?\s*(?:=(?!=)|,)")
                    for name in set(pattern.findall(self.suspects.text_of(method))):
                        known.setdefault(name, []).append(method)
        return known

    def assigned_outside(self, cls: Class, name: str) -> bool:
        """Whether somebody else writes the field (`trainer.should_stop = True`), as far as the texts say."""
        needle = f".{name} ="
        for path in self.near(cls.module.path):
            key = (path, name)
            if key not in self._outside:
                page = self.suspects.pages.get(path)
                if page is not None and name not in page.tokens:
                    self._outside[key] = False
                    continue
                text = self.program.text(path) or ""
                self._outside[key] = written_by_others(text, needle)
            if self._outside[key]:
                return True
        return False

    def near(self, path: str) -> list[str]:
        here = dirname(path)
        if len(self.program.modules) != self._near_size:
            for p in list(self.program.modules)[self._near_size :]:
                self._near.setdefault(dirname(p), []).append(p)
            self._near_size = len(self.program.modules)
        return self._near.get(here, [])[:60]

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
            module = self.program.modules.get(path)
            if module is None or needle not in (self.program.text(path) or ""):
                continue
            for g in (self.program.main(module), *module.all_functions()):
                for _, value in self.attributes_set(g, name):
                    v = self.pure(self.pure_frame(g), value)
                    if varies(v):
                        found = v if found is None or found == v else found
            if found is not None:
                break
        self._anywhere[key] = found
        return found

    def method_row(self, f: Frame, name: str, e: Expr) -> Row | None:
        """The row of a method of an object of unknown class: its name is one framework's own, and that framework is
        in use here; or the object is called what the framework calls it."""
        rows = _member_rows.get(name)
        if rows is None:
            rows = _member_rows[name] = [r for r in knowledge.methods(name) if is_class_member(r.name)]
        if not rows:
            return None
        receiver = e[2][2] if e[2][0] == "attr" else None
        called = (receiver[-1] if receiver is not None and receiver[0] in ("name", "attr") else "").lower()
        called = CALLED_AS.get(called, called.replace("_", ""))
        hosts = self.hosts(f.module)
        for row in rows:
            if row.family not in hosts and row.family not in ("tvref",):
                continue
            cls = row.name.rpartition(".")[0].rpartition(".")[2].lower()
            if name in OWN_NAMES or (
                name.count("_") >= 2 and cls != "trainer" and name not in knowledge.graph("module_methods")
            ):
                return row
            if called and (called == cls or (cls.endswith(called) and len(called) >= 6)):
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
        if iterated[0] == "bar":
            return self.element(f, iterated[1], s)
        if iterated[0] == "range":
            return ("sym", ("index", iterated[1]))
        if iterated[0] in ("list", "tuple") and iterated[1]:
            first = iterated[1][0]
            if all(x == first for x in iterated[1]):
                return first  # type: ignore[no-any-return]
        return REDUCED if iterated == REDUCED else ("sym", ("v", f.module.path, s[1], "element"))

    def part(self, v: Value, index: int) -> Value:
        if v[0] in ("tuple", "list") and -len(v[1]) <= index < len(v[1]):
            return v[1][index]  # type: ignore[no-any-return]
        if v[0] == "op" and v[1] == "sel":
            return op("sel", v[2], self.part(v[3], index), self.part(v[4], index))
        return ranks_batches.present(v) if v == REDUCED or v[0] in ("batch", "graph") else UNKNOWN

    def own(self, function: Function) -> Value | None:
        if function.owner is None:
            return None
        if "classmethod" in function.decorator_names():
            return ("class", function.owner)
        return ("inst", function.owner, ())

    def default(self, p: Any, function: Function) -> Value:
        if p[2] is not None and p[2][0] == "const":
            return const(p[2][2])
        if p[2] is not None and p[2][0] in ("name", "attr"):
            v = self.denoted(p[2], self.program.module_scope(function.module))
            if v is not None and self.interesting(v):
                return v
        return ("sym", ("param", id(function), p[0]))

    def interesting(self, v: Value) -> bool:
        kind = v[0]
        if kind == "const":
            return v[1] is None or isinstance(v[1], (bool, str)) or v[1] in (0, -1)
        if kind in FUNCTION_KINDS or kind in ("raw", "leader"):
            return True
        if v == REDUCED or varies(v) or ranks_batches.own(v):
            return True
        if kind in ("list", "tuple"):
            return len(v[1]) <= 4 and any(x[0] != "const" and self.interesting(x) for x in v[1])
        if kind == "dict":
            return any(x[0] != "const" and self.interesting(x) for _, x in v[1])
        return kind == "op" and v[1] == "sel" and (self.interesting(v[3]) or self.interesting(v[4]))

    def dataclass_fields(self, cls: Class) -> list[str]:
        out = self._dataclass_fields.get(id(cls))
        if out is None:
            out = self._dataclass_fields[id(cls)] = []
            for c in (*reversed(self.program.bases(cls)[0]), cls):
                out += [s[2][2] for s in c.block if s[0] == "ann" and s[2][0] == "name" and s[2][2] not in out]
        return out


class PureFrame(Frame):
    """Answers for names by the join of their assignments instead of the flow."""

    __slots__ = ()


_member_rows: dict[str, list[Row]] = {}
OWN_NAMES = frozenset(("full_tensor", "redistribute"))
