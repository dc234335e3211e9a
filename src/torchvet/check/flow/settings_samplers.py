"""Which samplers that shuffle are used for several epochs without `set_epoch`.

A sampler is followed from the loop that trains back to where it is made. A call of `set_epoch` on it, on its loader, or
on something that is not understood anywhere in the same program, keeps this silent.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, dotted, walk_block
from ..program.program import called_names, callee_name
from ..source.patterns import Later
from .settings_origins import CONFIG, DEFAULT, FIELD, OPTION, UNKNOWN_NAME, Frame, Origin, functions_naming
from .settings_reach import contains, loops_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Block, Expr, Function, Module, Stmt
    from .settings import Loader, Made, Settings, Value


NO_LOADERS = ("range", "items", "keys", "values", "parameters", "named_parameters", "modules", "named_modules", "split")
"""Calls over whose result a loop over batches never runs."""
LEARNING = Later(r"step\(|\bopt(?:im|\b)|Trainer|\.fit\(|train_batch")
"""What stands in a program that changes parameters, itself or by what it calls."""


class Epochs:
    """A loop that trains from a sampler's loader again and again. `loop` is the loop over the loader, `outer` the loop
    of epochs (None: the loader is restarted inside a generator), each with its function. `user`: the call, and its
    function, that asks a helper for a shuffled loader (None: the sampler itself says that it shuffles)."""

    __slots__ = ("function", "loader", "loop", "outer", "outer_function", "user")

    def __init__(
        self, function: Function, loop: Stmt, loader: Loader, outer: Stmt | None, outer_function: Function | None
    ) -> None:
        self.function = function
        self.loop = loop
        self.loader = loader
        self.outer = outer
        self.outer_function = outer_function
        self.user: tuple[Expr, Function] | None = None


class Samplers:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program
        self._loops: dict[tuple[str, frozenset[str]], list[tuple[Function, Stmt, Loader]]] = {}
        self._training: dict[str, frozenset[str]] = {}
        self._called: dict[int, frozenset[str]] = {}
        self._anywhere: frozenset[str] | None = None
        self._generators: dict[str, list[Function]] = {}
        self._ends: dict[tuple[str, int, tuple[int, ...]], list[Origin]] = {}

    def stale(self) -> list[tuple[Made, Epochs]]:
        """Samplers that shuffle, are used for several epochs in training, and never learn the epoch."""
        out = []
        for made in self.settings.made("samplers"):
            if not self.needs_epoch(made) or not self.users(made):
                continue
            group = self.settings.origins.options.group(made.module)
            if self.told(made, group):
                continue
            asked: set[tuple[str, int]] = set()
            for found in self.epochs_of(made, group):
                found.user = self.asks(made, found.loader.frame)
                if found.user is None:
                    out.append((made, found))
                    break
                call, f = found.user
                if (f.module.path, call[1]) not in asked and self.shuffles(made, found.loader.frame):
                    asked.add((f.module.path, call[1]))
                    if f.module.path not in self.program.loaded_on_demand:
                        out.append((made, found))
        return out

    def asks(self, made: Made, frame: Frame) -> tuple[Expr, Function] | None:
        """The call outside of the sampler's module that decides, by an argument, whether it shuffles."""
        shuffle = next((v for k, v in made.call[4] if k == "shuffle"), None)
        if shuffle is None or shuffle[0] != "name" or shuffle[2] not in {p[0] for p in made.function.params}:
            return None
        at: Frame | None = frame
        while at is not None:
            if at.call is not None and at.outer is not None and at.outer.module is not made.module:
                return at.call, at.outer.function
            at = at.outer
        return None

    def shuffles(self, made: Made, frame: Frame) -> bool:
        """Does the sampler shuffle where it is made for this loader?"""
        return any(
            x.kind != "const" or x.value
            for k, v in made.call[4]
            if k == "shuffle"
            for x in self.settings.numbers.of(v, frame)
        )

    # ------------------------------------------------------------------------------------------- the sampler
    def needs_epoch(self, made: Made) -> bool:
        if not knowledge.loader("samplers").get(made.name):
            return False
        if made.cls is not None and any(
            self.program.method(made.cls, m) for m in ("__iter__", "set_epoch", "__init__")
        ):
            return False  # a sampler of the project's own may count epochs itself
        for k, v in made.call[4]:
            if k == "shuffle":
                values = self.settings.numbers.of(v, made.frame)
                return not values or any(x.kind != "const" or x.value for x in values)
            if k is None:
                return False
        if len(made.call[3]) > 3:
            values = self.settings.numbers.of(made.call[3][3], made.frame)
            return not values or any(x.kind != "const" or x.value for x in values)
        return not any(a[0] == "star" for a in made.call[3])

    def is_made(self, o: Origin, made: Made) -> bool:
        return o.e[0] == "call" and o.e[1] == made.pos and o.frame.module is made.module

    def samplers_of(self, loader: Loader) -> list[Origin]:
        """The ends of a loader's sampler, also inside a batch sampler."""
        key = (loader.module.path, loader.pos, loader.frame.key())
        if key in self._ends:
            return self._ends[key]
        self._ends[key] = out = []
        stack = [*loader.origins("sampler"), *loader.origins("batch_sampler")]
        for _ in range(20):
            if not stack:
                break
            o = stack.pop()
            out.append(o)
            if o.e[0] == "call" and not self.settings.made_by(o, "samplers"):
                for a in (*o.e[3], *(v for _, v in o.e[4])):
                    if a[0] in ("name", "attr", "call"):
                        stack += self.settings.origins.of(a, o.frame)
        return out

    def users(self, made: Made) -> list[Loader]:
        """Loaders that take their order from the sampler."""
        return [x for x in self.settings.loaders() if any(self.is_made(o, made) for o in self.samplers_of(x))]

    # --------------------------------------------------------------------------------------------- the loops
    def epochs_of(self, made: Made, group: list[Module]) -> Iterator[Epochs]:
        names = self.training_names(group)
        if any(v.kind == "const" and v.value is True for x in self.users(made) for v in x.values("drop_last")):
            names = frozenset()  # any function may be the one
        for module in group:
            for f, loop, loader in self.loops(module, names):
                if any(self.is_made(x, made) for x in self.samplers_of(loader)) and self.learns(f):
                    found = self.repeated(f, loop, loader, made)
                    if found is not None:
                        yield found
            for f in self.generators(module):
                found = self.restarted(f, made)
                if found is not None:
                    yield found
            for f in functions_naming(self.program, module, {"iter("}):
                found = self.iterated_again(f, made)
                if found is not None:
                    yield found

    def training_names(self, group: list[Module]) -> frozenset[str]:
        """Names of functions that, by the names they call, may lead to a backward: a cheap bound, found in the text."""
        key = group[0].path
        if key not in self._training:
            self._training[key] = self.leading_to_step(group)
        return self._training[key]

    def leading_to_step(self, modules: list[Module]) -> frozenset[str]:
        program = self.program
        found = new = frozenset(knowledge.loader("step_methods"))
        for _ in range(4):
            more: set[str] = set()
            for module in modules:
                names = new & program.called(module.path)
                rows = {r for n in names for r in program.lines_with(module.path, n, called=True)}
                more.update(f.name for f in program.functions_on(module, sorted(rows)))
            new = frozenset(more - found)
            found |= new
        return found

    def called_in(self, f: Function) -> frozenset[str]:
        """Names that are called in the text of a function."""
        key = id(f)
        if key not in self._called:
            self._called[key] = called_names(self.program.text_of(f))
        return self._called[key]

    def anywhere(self) -> frozenset[str]:
        """The same bound over all modules."""
        if self._anywhere is None:
            self._anywhere = self.leading_to_step(list(self.program.modules.values()))
        return self._anywhere

    def trains(self, block: Block, f: Function) -> bool:
        return self.settings.trains(block, f, names=self.anywhere())

    def learns(self, f: Function) -> bool:
        """Whether the program of a function takes a step anywhere: gradients alone (of heads to prune, of an input) are
        no training, and the order in which they are collected is of no matter."""
        texts = [self.program.text(m.path) or "" for m in self.settings.origins.options.group(f.module)]
        return any(LEARNING.search(text) for text in texts)

    def loops(self, module: Module, names: frozenset[str]) -> list[tuple[Function, Stmt, Loader]]:
        """Loops over loaders in functions that train (or hand batches on to something not seen into). `names`:
        calls of which one must be there; none: any function."""
        key = (module.path, names)
        if key not in self._loops:
            out: list[tuple[Function, Stmt, Loader]] = []
            self._loops[key] = out
            if names and names.isdisjoint(self.program.called(module.path)):
                return out
            for f in functions_naming(self.program, module, {"for "}):
                if names and f.name != "<module>" and names.isdisjoint(self.called_in(f)):
                    continue
                for s in self.program.statements(f):
                    if s[0] != "for" or s[3][0] not in ("name", "attr", "call", "sub"):
                        continue
                    if s[3][0] == "call" and callee_name(s[3]) in NO_LOADERS:
                        continue
                    if (names or not hands_on(s)) and not self.settings.function_trains(f, names or self.anywhere()):
                        continue
                    for o in self.settings.iterated(s[3], Frame(f)):
                        loader = self.settings.loader_of(o)
                        if loader is not None:
                            out.append((f, s, loader))
        return self._loops[key]

    def generators(self, module: Module) -> list[Function]:
        if module.path not in self._generators:
            found = functions_naming(self.program, module, {"yield"})
            self._generators[module.path] = [f for f in found if f.is_generator]
        return self._generators[module.path]

    def loader_over(self, e: Expr, frame: Frame, made: Made) -> Loader | None:
        """The loader with this sampler that a `for` runs over."""
        if e[0] not in ("name", "attr", "call", "sub"):
            return None
        for o in self.settings.iterated(e, frame):
            loader = self.settings.loader_of(o)
            if loader is not None and any(self.is_made(x, made) for x in self.samplers_of(loader)):
                return loader
        return None

    def repeated(self, f: Function, loop: Stmt, loader: Loader, made: Made) -> Epochs | None:
        """Is the loop over the loader run for several epochs, training?"""
        if not self.trains(loop[4], f) and not self.fed(loop, loader, made):
            return None
        if self.evaluates(f, loop[1]):
            return None
        outer = self.outer_loop(f, loop[1], made)
        if outer is not None:
            return Epochs(f, loop, loader, *outer)
        return None

    def evaluates(self, f: Function, pos: int) -> bool:
        """Are gradients off at a position: `@torch.no_grad()` on the function, or `with torch.no_grad():` around?"""
        off = knowledge.loader("no_grad_contexts")
        scope = self.program.scope(f)
        contexts = [d[2] if d[0] == "call" else d for d in f.decorators]
        for s in walk_block(self.program.body(f)):
            if s[0] == "with" and contains(s[1], pos):
                contexts += [c[2] for c, _ in s[2] if c[0] == "call"]
        return any(c[-1] in ("no_grad", "inference_mode") and self.program.qualified(c, scope) in off for c in contexts)

    def fed(self, loop: Stmt, loader: Loader, made: Made) -> bool:
        """A batch goes to a method that cannot be seen into, from a loader that drops its last batch: training."""
        if not any(v.kind == "const" and v.value is True for v in loader.values("drop_last")):
            return False
        return hands_on(loop)

    def outer_loop(self, f: Function, pos: int, made: Made, depth: int = 0) -> tuple[Stmt, Function] | None:
        """The loop of epochs around a position, here or around the calls of the function."""
        around = loops_around(self.program.body(f), pos)
        for outer in reversed([s for s in around if s[1] != pos]):
            if made.function is f and contains(outer[1], made.pos):
                return None  # a new sampler for each round
            if self.several(outer, Frame(f)):
                return outer, f
            return None
        if depth < 4:
            for g, call in self.program.callers(f)[:6]:
                found = self.outer_loop(g, call[1], made, depth + 1)
                if found is not None:
                    return found
        return None

    def several(self, loop: Stmt, frame: Frame) -> bool:
        """Can the loop run more than once, as epochs do? A loop over the items of a dictionary or another loader cannot
        be told from one, so only counted and endless loops count."""
        if loop[0] == "while":
            return True
        e = loop[3]
        for _ in range(3):  # tqdm(range(...)), enumerate(range(...)), a method of a progress bar
            if e[0] == "call" and callee_name(e) not in ("range", "trange", "count") and e[3]:
                e = e[3][0]
        if e[0] == "name":
            found = [o for o in self.settings.origins.of(e, frame) if o.e[0] == "call"]
            if len(found) == 1:
                e, frame = found[0].e, found[0].frame
                if callee_name(e) not in ("range", "trange", "count") and e[3]:
                    e = e[3][0]
        if e[0] != "call" or callee_name(e) not in ("range", "trange", "count"):
            return False
        if callee_name(e) == "count" or not e[3]:
            return True
        stop = e[3][1] if len(e[3]) > 1 else e[3][0]
        values = self.settings.numbers.of(stop, frame)
        first = self.settings.numbers.of(e[3][0], frame) if len(e[3]) > 1 else []
        base = first[0].value if len(first) == 1 and first[0].is_number else 0
        return not values or any(
            not v.is_number or v.value - base > 1 or v.via in (OPTION, FIELD, CONFIG) or self.open_default(v)
            for v in values
        )

    def open_default(self, v: Value) -> bool:
        """The default of a parameter of a function that nothing is seen to call, such as the target of a spawn."""
        if v.via != DEFAULT:
            return False
        for f in v.origin.frame.module.all_functions():
            if any(p[2] is not None and p[2][1] == v.pos for p in f.params):
                return not self.program.callers(f)
        return False

    def restarted(self, f: Function, made: Made) -> Epochs | None:
        """A generator that runs over the loader without end, consumed where training takes place."""
        if not f.is_generator:
            return None
        body = self.program.body(f)
        for s in walk_block(body):
            if s[0] != "while":
                continue
            for inner in walk_block(s[3]):
                e: Expr | None = None
                if inner[0] == "for":
                    e = inner[3]
                elif inner[0] == "assign" and inner[3][0] == "call" and callee_name(inner[3]) == "iter" and inner[3][3]:
                    e = inner[3][3][0]
                if e is None:
                    continue
                loader = self.loader_over(e, Frame(f), made)
                if loader is not None and self.consumed(f):
                    return Epochs(f, inner, loader, None, None)
        return None

    def iterated_again(self, f: Function, made: Made) -> Epochs | None:
        """`it = iter(loader)` inside a loop that trains on `next(it)`: once for each epoch, or when it is exhausted."""
        if f.is_generator:
            return None
        body = self.program.body(f)
        for s in self.program.statements(f):
            if s[0] != "assign" or s[3][0] != "call" or callee_name(s[3]) != "iter" or not s[3][3]:
                continue
            around = loops_around(body, s[1])
            if not around:
                continue
            outer = around[0]
            inner = outer[4] if outer[0] == "for" else outer[3]
            if not any(callee_name(c) == "next" for c in calls_in(inner)) or not self.trains(inner, f):
                continue
            if not self.settings.function_trains(f, self.anywhere()):
                return None
            if outer[0] == "for" and not self.several(outer, Frame(f)):
                continue
            loader = self.loader_over(s[3][3][0], Frame(f), made)
            if loader is not None and not contains(outer[1], made.pos if made.function is f else 0):
                return Epochs(f, s, loader, outer, f)
        return None

    def consumed(self, generator: Function, depth: int = 0) -> bool:
        """Is a function that calls this generator, or a caller of it, one that trains?"""
        for g, _ in self.program.callers(generator)[:6]:
            if self.trains(self.program.body(g), g):
                return True
            if depth < 2 and self.consumed(g, depth + 1):
                return True
        return False

    def insertion(self, made: Made, epochs: Epochs) -> tuple[int, int, str] | None:
        """(line, column, text) of a `set_epoch` statement at the start of the epoch loop, where loop, loader and epoch
        are plain names of one function and the loader has this one sampler."""
        outer, e = epochs.outer, epochs.loop[3]
        if (
            outer is None
            or epochs.loop[0] != "for"
            or outer[0] != "for"
            or epochs.outer_function is not epochs.function
        ):
            return None
        name = written(e)
        if name is None or outer[2][0] != "name" or outer[2][2].startswith("_"):
            return None
        if len({o.key() for o in self.samplers_of(epochs.loader)}) != 1:
            return None
        first = outer[4][0]
        module = epochs.function.module
        line, column, _, _ = self.program.span(module, first[1])
        text = self.program.source_line(module, line)
        if line <= outer[1] >> 44 or text[: column - 1].strip():
            return None
        return line, column, f"{name}.sampler.set_epoch({outer[2][2]})\n{text[: column - 1]}"

    # -------------------------------------------------------------------------------------------- set_epoch
    def told(self, made: Made, group: list[Module]) -> bool:
        """Does anything in the program tell this sampler the epoch? A receiver that is not understood may be it."""
        for module in group:
            if "set_epoch" not in (self.program.text(module.path) or ""):
                continue
            for f in functions_naming(self.program, module, {"set_epoch"}):
                for call in self.program.calls(f):
                    if callee_name(call) == "set_epoch" and self.may_tell(call, f, made):
                        return True
        return False

    def may_tell(self, call: Expr, f: Function, made: Made) -> bool:
        callee = call[2]
        if callee[0] != "attr":
            return True
        receiver = callee[2]
        ends = self.settings.origins.of(receiver, Frame(f))
        if receiver[0] == "attr" and receiver[3] in ("sampler", "batch_sampler"):
            loaders = [self.settings.loader_of(o) for o in self.settings.origins.of(receiver[2], Frame(f))]
            if loaders and all(loaders):
                ends = [x for loader in loaders if loader for x in self.samplers_of(loader)]
        if not ends:
            return True
        for o in ends:
            if self.is_made(o, made) or o.e[0] == UNKNOWN_NAME:
                return True
            if o.e[0] != "call":
                return True
            loader = self.settings.loader_of(o)
            if loader is not None:
                if any(self.is_made(x, made) for x in self.samplers_of(loader)):
                    return True
            elif not self.settings.made_by(o, "samplers"):
                return True
        return False


def hands_on(loop: Stmt) -> bool:
    """Is the batch an argument of a method?"""
    targets = set(names_bound(loop[2]))
    return any(
        call[2][0] == "attr" and any(a[0] == "name" and a[2] in targets for a in call[3]) for call in calls_in(loop[4])
    )


def written(e: Expr) -> str | None:
    """The loader of a `for` as it is written: `loader` in `enumerate(loader)`, or `self.loader`."""
    while e[0] == "call" and callee_name(e) in ("enumerate", "tqdm") and e[3]:
        e = e[3][0]
    return dotted(e) if e[0] in ("name", "attr") else None


def names_bound(t: Expr) -> list[str]:
    if t[0] == "name":
        return [t[2]]
    if t[0] in ("tuple", "list"):
        return [n for x in t[2] for n in names_bound(x)]
    return []
