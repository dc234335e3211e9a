"""Settings of loaders: every DataLoader that the project makes, with its parameters and the values they can have."""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, expressions_of, walk_block, walk_expr
from ..program.program import callee_name
from .settings_numbers import CONST, CPUS, UNKNOWN, Numbers, Value
from .settings_origins import CONFIG, DEFAULT, FIELD, OPTION, UNKNOWN_NAME, Frame, Origin, Origins, functions_on
from .settings_reach import contains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..program.model import Block, Class, Expr, Function, Module, Stmt
    from ..program.program import Program
    from .deploy import Deploy
    from .settings_conflicts import Conflicts
    from .settings_demand import Demand, Over
    from .settings_handles import Handles
    from .settings_samplers import Samplers
    from .settings_storage import Storage
    from .settings_use import Use
    from .settings_workers import Life, Workers

__all__ = [
    "CONFIG",
    "CONST",
    "CPUS",
    "DEFAULT",
    "FIELD",
    "OPTION",
    "UNKNOWN",
    "UNKNOWN_NAME",
    "Frame",
    "Loader",
    "Origin",
    "Place",
    "Settings",
    "Value",
]  # fmt: skip


CONTEXTS = 12


STEMS = ("oader", "ampler", "Training", "Config", "by_node")
"""Parts of most names of loaders and samplers: where none stands, the names need not be looked for."""

INDIRECT = ("settings_classes", "loader_factories")
"""Tables of what hands settings on to a DataLoader that is made elsewhere."""

DEPLOYMENT = ("", "docker", "deploy", "deployment", "k8s", "kubernetes", "scripts", ".devcontainer")
"""Folders of a project in which Compose files, Kubernetes manifests and scripts that start containers lie."""

PLAIN = ("print", "len", "range", "zip", "enumerate", "to", "cuda", "size", "item", "append", "format", "zero_grad")
"""Calls that lead to no backward."""


class Made:
    """A call that makes an instance of a class outside the project, or of a project class built on one.

    `name` is the canonical name of the outside class; `cls` the project class in between, or None."""

    __slots__ = ("call", "cls", "frame", "function", "name")

    def __init__(self, call: Expr, function: Function, name: str, cls: Class | None) -> None:
        self.call = call
        self.function = function
        self.name = name
        self.cls = cls
        self.frame = Frame(function)

    @property
    def module(self) -> Module:
        return self.function.module

    @property
    def pos(self) -> int:
        return self.call[1]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.name} made at {self.module.path}:{self.pos >> 44}>"


class Loader(Made):
    """A DataLoader construction. `argument(name)` is the expression of a parameter with its frame, or None."""

    __slots__ = ("settings",)

    def __init__(self, made: Made, settings: Settings) -> None:
        super().__init__(made.call, made.function, made.name, made.cls)
        self.settings = settings

    def argument(self, name: str, frame: Frame | None = None) -> tuple[Expr, Frame] | None:
        return self.settings.argument(self, name, frame or self.frame)

    def given(self, name: str) -> bool:
        """Is the parameter passed, as far as can be seen? `**unknown` may pass it: then also true."""
        if self.argument(name) is not None:
            return True
        return any(k is None for k, _ in self.call[4]) and not self.settings.spread_known(self.call, self.frame)

    def spans(self, pos: int) -> bool:
        """Does a position of the same module lie inside the call?"""
        return contains(self.pos, pos)

    def written(self, name: str) -> bool:
        """Is the parameter passed by its own keyword or position, not through `**settings`?"""
        found = self.argument(name)
        return found is not None and found[0][0] != "spread"

    def argument_pos(self, name: str) -> int:
        """Where the parameter is written at the loader; the call when it is not."""
        found = self.argument(name)
        return found[0][1] if found is not None and contains(self.pos, found[0][1]) else self.pos

    def values(self, name: str, frame: Frame | None = None) -> list[Value]:
        """What the parameter can be; empty when it is not passed (the default holds)."""
        found = self.argument(name, frame)
        return self.settings.numbers.of(*found) if found else []

    def origins(self, name: str, frame: Frame | None = None) -> list[Origin]:
        found = self.argument(name, frame)
        return self.settings.origins.of(*found) if found else []

    def contexts(self) -> list[Frame]:
        """The frames in which the construction runs: one for each known caller when parameters are handed through, so
        that settings which belong together are judged together."""
        f = self.function
        if f.name == "<module>" or not f.params:
            return [self.frame]
        names = {p[0] for p in f.params}
        used = {x[2] for _, v in self.call[4] for x in walk_expr(v) if x[0] == "name"}
        used |= {x[2] for v in self.call[3] for x in walk_expr(v) if x[0] == "name"}
        callers = self.settings.program.callers(f) if used & names else []
        if not callers or len(callers) > CONTEXTS:
            return [self.frame]
        return [Frame(f, call, Frame(g)) for g, call in callers]

    def workers(self, frame: Frame | None = None) -> list[Value]:
        """Values of `num_workers`; a constant 0 when it is not passed."""
        found = self.values("num_workers", frame)
        if found or self.given("num_workers"):
            return found
        return [Value(CONST, 0, Origin(("const", self.pos, 0), self.frame), self.pos)]


class Nothing:
    """Stands for all analyses of loaders where there are none: every question has an empty answer."""

    def __getattr__(self, name: str) -> Callable[..., tuple[()]]:
        return lambda *given: ()


NOTHING = Nothing()


PARTS = {
    "samplers": ("settings_samplers", "Samplers"),
    "handles": ("settings_handles", "Handles"),
    "generators": ("settings_handles", "Handles", "random_generators"),
    "in_workers": ("settings_workers", "Workers"),
    "use": ("settings_use", "Use"),
    "conflicts": ("settings_conflicts", "Conflicts"),
    "life": ("settings_workers", "Life"),
    "storage": ("settings_storage", "Storage"),
    "demand": ("settings_demand", "Demand"),
}
"""Analyses of loaders: module, class, what it is given besides the settings. Each is imported when it is needed."""


class Settings:
    """`options` are the user's (limits). Everything is computed when asked for the first time."""

    samplers: Samplers
    handles: Handles
    generators: Handles
    in_workers: Workers
    use: Use
    conflicts: Conflicts
    life: Life
    storage: Storage
    demand: Demand

    def __init__(self, program: Program, options: Any = None) -> None:
        self.program = program
        self.options = options
        self.deploy: Callable[[], Deploy] | None = None
        """Gives the reader of deployment files, when the project has one."""
        self.origins = Origins(program)
        self.numbers = Numbers(self.origins)
        self._made: dict[str, list[Made]] | None = None
        self._loaders: list[Loader] | None = None
        self._trains: dict[int, bool] = {}
        self._by_call: dict[tuple[str, int], Loader] = {}

    # ------------------------------------------------------------------------------------------- constructions
    def made(self, table: str) -> list[Made]:
        """Constructions of the classes in a knowledge table (`loader_classes`, `samplers`, ...), in the admitted
        modules."""
        if self._made is None:
            self._made = {}
            wanted: dict[str, str] = {}
            for t in ("loader_classes", "samplers", *INDIRECT):
                for name in knowledge.loader(t):
                    wanted.setdefault(name, t)
            for m in self._constructions(wanted):
                self._made.setdefault(wanted[m.name], []).append(m)
        return self._made.get(table, [])

    def _constructions(self, wanted: dict[str, str]) -> Iterator[Made]:
        lasts = self._derived({n.rpartition(".")[2] for n in wanted})
        stems = {n: next((x for x in STEMS if x in n), n) for n in lasts}
        for module in list(self.program.modules.values()):
            if module.path in self.program.loaded_on_demand:
                continue
            text = self.program.text(module.path) or ""
            names = self._names_for(module, stems, text)
            if not names:
                continue
            rows = {row for n in names for row in self.program.lines_with(module.path, n)}
            lines = self.program.lines(module.path)
            for f in functions_on(self.program, module, sorted(r for r in rows if may_make(lines[r - 1], names))):
                local = names | self._local_names(f, names)
                scope = self.program.scope(f)
                for call in self.program.calls(f):
                    if base_name(call) not in local:
                        continue
                    made = self._construction(call, f, scope, wanted)
                    if made:
                        yield made

    def functions(self, module: Module) -> Iterator[Function]:
        """Every function of a module, nested ones and the module's own code included."""
        yield self.program.main(module)
        for f in module.all_functions():
            yield from self.program.with_nested(f)

    def _derived(self, lasts: set[str]) -> set[str]:
        """Names of project classes that, by the names of their bases, may be built on one of the classes."""
        bases: dict[str, set[str]] = {}
        for module in list(self.program.modules.values()):
            for c in module.classes.values():
                of = bases.setdefault(c.name, set())
                for b in c.bases:
                    b = b[2] if b[0] == "sub" else b
                    if b[0] in ("name", "attr"):
                        bound = module.names.get(b[-1])
                        of.update((b[-1], bound[2]) if bound is not None and bound[0] == "from" else (b[-1],))
        found = set(lasts)
        while True:
            more = {name for name, of in bases.items() if name not in found and of & found}
            if not more:
                return found
            found |= more

    def _names_for(self, module: Module, stems: dict[str, str], text: str) -> set[str]:
        """Names under which this module can call one of the classes. `stems`: a part of each name."""
        here = {stem for stem in set(stems.values()) if stem in text}
        names = {n for n, stem in stems.items() if stem in here and n in text} if here else set()
        if names:
            names |= {k for k, bound in module.names.items() if bound[0] == "from" and bound[2] in names}
            names |= self._local_names(self.program.main(module), names)
        return names

    def _local_names(self, f: Function, names: set[str]) -> set[str]:
        """Local names that are one of the classes: `loader = DataLoader if x else Other`."""
        out: set[str] = set()
        for s in walk_block(self.program.body(f)):
            if s[0] == "assign" and s[3][0] in ("name", "attr", "ifexp", "call", "bool"):
                if s[3][0] == "call" and base_name(s[3]) in names:
                    continue
                if any(x[0] in ("name", "attr") and x[-1] in names for x in walk_expr(s[3])):
                    out.update(t[2] for t in s[2] if t[0] == "name")
        return out

    def _construction(self, call: Expr, f: Function, scope: Any, wanted: dict[str, str]) -> Made | None:
        callee = call[2]
        if callee[0] == "sub":
            callee = callee[2]
        for x in self.program.entities(callee, scope):
            if x[0] == "partial" and x[1]:
                x = x[1]
            if x[0] == "ext" and x[1] in wanted:
                return Made(call, f, x[1], None)
            if x[0] == "class":
                for o in self.program.bases(x[1])[1]:
                    if o in wanted:
                        return Made(call, f, o, x[1])
        return None

    def made_by(self, o: Origin, table: str) -> tuple[str, Class | None] | None:
        """(canonical name, project class) when an end is a construction of a class in the table."""
        if o.e[0] != "call":
            return None
        wanted = dict.fromkeys(knowledge.loader(table), table)
        made = self._construction(o.e, o.frame.function, self.program.scope(o.frame.function), wanted)
        return (made.name, made.cls) if made else None

    def loaders(self) -> list[Loader]:
        if self._loaders is None:
            self._loaders = [Loader(m, self) for m in self.made("loader_classes")]
            for x in self._loaders:
                self._by_call[(x.module.path, x.pos)] = x
        return self._loaders

    def loader_of(self, o: Origin) -> Loader | None:
        """The loader that an end is, in the frame in which it was met."""
        if o.e[0] != "call":
            return None
        self.loaders()
        known = self._by_call.get((o.frame.module.path, o.e[1]))
        if known is None:
            found = self.made_by(o, "loader_classes")
            if found is None:
                return None
            known = Loader(Made(o.e, o.frame.function, *found), self)
        loader = Loader(known, self)
        loader.frame = o.frame
        return loader

    def __getattr__(self, name: str) -> Any:
        """The analysis of that name (see `PARTS`), made when it is first asked for."""
        if name not in PARTS:
            raise AttributeError(name)
        if not self.loaders():
            return NOTHING
        module, cls, *given = PARTS[name]
        made = getattr(__import__(f"{__package__}.{module}", fromlist=(cls,)), cls)(self, *given)
        setattr(self, name, made)
        return made

    # ----------------------------------------------------------------------------------------------- arguments
    def argument(self, made: Made, name: str, frame: Frame) -> tuple[Expr, Frame] | None:
        """The expression passed for a parameter of the outside class, through the project class's `__init__` if any."""
        own = made.name == knowledge.loader("loader_classes")[0]
        keywords = knowledge.loader("settings_classes").get(made.name)
        if keywords is not None:
            return self._passed(made.call, keywords.get(name, name), frame, False)
        if made.name in knowledge.loader("loader_factories"):
            names = knowledge.loader("worker_keywords") if name == "num_workers" else (name,)
            given = [self._passed(made.call, n, frame, False) for n in names]
            return next((g for g in given if g is not None), None)
        if made.cls is not None:
            init = self.program.method(made.cls, "__init__")
            if init is not None and not passes_all(init):
                inner = Frame(init, made.call, frame)
                for call in self.program.calls(init):
                    if callee_name(call) == "__init__" and is_super(call, init):
                        return self._passed(call, name, inner, own)
                return None
        found = self._passed(made.call, name, frame, own)
        if found is None:
            callee = made.call[2]
            for x in self.program.entities(callee, self.program.scope(frame.function)):
                if x[0] == "partial":
                    for k, v in x[3]:
                        if k == name:
                            return v, frame
        return found

    def _passed(self, call: Expr, name: str, frame: Frame, positional: bool) -> tuple[Expr, Frame] | None:
        for k, v in call[4]:
            if k == name:
                return v, frame
        if positional:
            order = knowledge.loader("parameters")[: knowledge.loader("positional_parameters")]
            at = order.index(name) if name in order else -1
            if 0 <= at < len(call[3]) and not any(a[0] == "star" for a in call[3][: at + 1]):
                return call[3][at], frame
        for k, v in call[4]:
            if k is None:
                found = self.origins.entry(v, name, frame)
                if found is not None:
                    return ("spread", v[1], v, name), frame
        return None

    def spread_known(self, call: Expr, frame: Frame) -> bool:
        """Are all `**x` of a call dictionaries whose keys are known?"""
        for k, v in call[4]:
            if k is None:
                for o in self.origins.of(v, frame):
                    e = o.e
                    if e[0] == "dict" and all(x is not None and x[0] == "const" for x in e[2]):
                        continue
                    if e[0] == "call" and callee_name(e) == "dict" and not e[3] and all(n for n, _ in e[4]):
                        continue
                    if e[0] == "rest" and all(n for n, _ in e[2][4]):
                        continue
                    return False
        return True

    def only_prepare_data(self, loaders: list[Made]) -> bool:
        """Whether all of these loaders are process pools of scripts that prepare data once."""
        from .settings_purpose import prepares_data

        return bool(loaders) and all(prepares_data(self.program, x.module) for x in loaders)

    # -------------------------------------------------------------------------------------------------- places
    def from_cpu_count(self) -> list[Place]:
        """Where the number of workers follows the CPUs of the host."""
        return self.places("num_workers", lambda v: v.kind == CPUS)

    def over_limit(self) -> list[Place]:
        """Where more workers are set than the user's limit for one rank."""
        limit = self.options.max_workers
        found = self.places("num_workers", lambda v: v.is_number and v.value > limit)
        return [place for place in found if not self.swept(place)]

    def swept(self, place: Place) -> bool:
        """Is the value one of several that a loop tries out: `for n in (4, 8, 16)`?"""
        statements = self.program.statements(place.function) if place.function is not None else ()
        lists = [s[3][2] for s in statements if s[0] == "for" and s[3][0] in ("list", "tuple")]
        return any(len(items) > 1 and any(x[1] == place.pos for x in items) for items in lists)

    def over_shared_memory(self) -> list[Over]:
        """Loaders that need more shared memory than the project's deployment files give."""
        with_files = [x for x in self.loaders() if deployment_files(self.program, x.module.path)]
        return self.demand.over(with_files) if with_files else []

    def places(self, name: str, wanted: Callable[[Value], bool]) -> list[Place]:
        """Where the values of a parameter are set, over all loaders, in the order of the files. A place in a module
        that is not itself under check counts as set at the loader."""
        out: dict[tuple[str, int], Place] = {}
        objects = [Loader(m, self) for t in INDIRECT for m in self.made(t)]
        for loader in (*self.loaders(), *objects):
            for v in loader.values(name):
                if not wanted(v):
                    continue
                module, pos, function = v.origin.frame.module, v.pos, v.origin.frame.function
                key = (module.path, pos)
                source = None
                if module.path in self.program.loaded_on_demand or module.path not in self.program.modules:
                    source = (module, pos)
                    module, pos, function = loader.module, loader.argument_pos(name), loader.function
                place = out.setdefault(key, Place(module, pos, function, v))
                place.source = source
                if loader not in place.loaders:
                    place.loaders.append(loader)
        return sorted(out.values(), key=lambda place: (place.module.path, place.pos))

    # --------------------------------------------------------------------------------------------------- loops
    def iterated(self, e: Expr, frame: Frame, depth: int = 0) -> list[Origin]:
        """Ends of what a `for` runs over: through enumerate, zip, progress bars and generators to the loaders."""
        out: list[Origin] = []
        for o in self.origins.of(e, frame):
            if o.e[0] != "call" or depth > 4 or self.loader_of(o) is not None:
                out.append(o)
                continue
            callee = o.e[2]
            name = self.program.qualified(callee, self.origins.scope(o.frame)) or ""
            told = knowledge.loader("set_epoch_callers").get(name, "not")
            if (name.startswith("builtins.") and name not in knowledge.loader("iteration")) or not told.startswith(
                "not"
            ):
                out.append(o)
                continue
            inner: list[Origin] = []
            for a in (*o.e[3], *(v for _, v in o.e[4])):
                if a[0] in ("name", "attr", "call", "star"):
                    inner += [x for x in self.iterated(a, o.frame, depth + 1) if self.loader_of(x)]
            if not inner and callee[0] == "attr":
                inner = [x for x in self.iterated(callee[2], o.frame, depth + 1) if self.loader_of(x)]
            out += inner or [o]
        return out

    def function_trains(self, f: Function, names: frozenset[str] = frozenset()) -> bool:
        if id(f) not in self._trains:
            self._trains[id(f)] = self.trains(self.program.body(f), f, names=names)
        return self._trains[id(f)]

    def trains(
        self,
        block: Block,
        function: Function,
        depth: int = 0,
        seen: set[int] | None = None,
        names: frozenset[str] = frozenset(),
    ) -> bool:
        """Does running the block take an optimisation step: a backward, here or in what it calls? `names`: what is
        called under another name cannot (empty: not known)."""
        seen = set() if seen is None else seen
        scope = self.program.scope(function)
        for call in calls_in(block):
            name = callee_name(call)
            if name in knowledge.loader("step_methods"):
                return True
            if depth < 4 and name and (name in names if names else name not in PLAIN):
                for f in self.program.targets(call, scope):
                    if id(f) not in seen and f.end_line - f.first_line < 1500:
                        seen.add(id(f))
                        if self.trains(self.program.body(f), f, depth + 1, seen, names):
                            return True
        return False


SETS_SHM = (".yaml", ".yml", ".sh", ".bash", ".sbatch", ".slurm", "Makefile", "devcontainer.json")
"""Ends of the names of files that can say how much shared memory a container has."""


def deployment_files(program: Program, path: str) -> list[str]:
    """Files that can start containers, in those folders of the project that a Python file belongs to."""
    folder = path.rpartition("/")[0]
    top = program.project_root(folder)
    out = []
    for below in DEPLOYMENT:
        at = "/".join(x for x in (folder if top is None else top, below) if x)
        if not below or below in program.entries(folder if top is None else top):
            program.consulted.add(at or ".")
            out += [f"{at}/{n}" if at else n for n in program.entries(at) if n.endswith(SETS_SHM)]
    return sorted(out)


def may_make(line: str, names: set[str]) -> bool:
    """Can a line that holds one of the names call it or give it another name? Imports, comments and annotations of
    parameters cannot."""
    start = line.lstrip()
    if start.startswith(("#", "from ", "import ")):
        return False
    if "=" in line or start.startswith(("if ", "else ", "or ", "(")):
        return True
    return any(f"{n}(" in line or f"{n}[" in line or start.startswith(n) for n in names)


def base_name(call: Expr) -> str:
    """The last name of what is called, also of `Class[int](...)`."""
    callee = call[2][2] if call[2][0] == "sub" else call[2]
    return callee[-1] if callee[0] in ("name", "attr") else ""


def passes_all(init: Function) -> bool:
    """`def __init__(self, *args, **kwargs)`: what is given goes through as it is."""
    return all(p[1] in ("*", "**") for p in init.params[1:])


def is_super(call: Expr, init: Function) -> bool:
    """`super().__init__(...)` or `Base.__init__(self, ...)`; only the first form keeps the positions."""
    base = call[2][2]
    return bool(base[0] == "call" and base[2][0] == "name" and base[2][2] == "super")


def statements_with(block: Block, kinds: tuple[str, ...]) -> Iterator[Stmt]:
    for s in walk_block(block):
        if s[0] in kinds:
            yield s


def names_read(e: Expr) -> Iterator[str]:
    for x in walk_expr(e):
        if x[0] == "name":
            yield x[2]


def statement_calls(s: Stmt) -> Iterator[Expr]:
    for e in expressions_of(s):
        for x in walk_expr(e):
            if x[0] == "call":
                yield x


class Place:
    """A place that sets a value for one or more loaders. `source`: the place itself where it lies in a file that is not
    under check, such as a configuration; then the others are those of the first loader."""

    __slots__ = ("function", "loaders", "module", "pos", "source", "value")

    def __init__(self, module: Module, pos: int, function: Function, value: Value) -> None:
        self.module = module
        self.pos = pos
        self.function = function
        self.value = value
        self.source: tuple[Module, int] | None = None
        self.loaders: list[Loader] = []
