"""What happens inside loader workers, to the tensors that they send, and how long they live."""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .settings_numbers import AT_MOST, CPUS
from .settings_origins import Frame, functions_on, is_self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Class, Expr, Function, Module, Stmt
    from .settings import Loader, Settings


MANY = 100
"""From so many epochs on forked workers are worth keeping; those that import torch again are from the second on."""
FRESH = ("spawn", "forkserver")


class Found:
    """A call (or statement) that matters for a loader, and its function."""

    __slots__ = ("e", "function", "loader", "name")

    def __init__(self, e: Expr, function: Function, loader: Loader, name: str = "") -> None:
        self.e = e
        self.function = function
        self.loader = loader
        self.name = name

    @property
    def pos(self) -> int:
        return self.e[1]  # type: ignore[no-any-return]


class Workers:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program

    def surely(self, loader: Loader) -> bool:
        """Does the loader have workers, at least with one of its known settings?"""
        return any(v.kind in (CPUS, AT_MOST) or (v.is_number and v.value > 0) for v in loader.workers())

    # -------------------------------------------------------------------------------------------- GPU in workers
    def on_gpu(self) -> list[Found]:
        """Tensors that a dataset or a collate function makes on the GPU inside a worker."""
        out: dict[tuple[str, int], Found] = {}
        for loader in self.settings.loaders():
            if not self.surely(loader) or self.spawned(loader):
                continue
            for f in self.inside(loader):
                for call in self.program.calls(f):
                    if self.puts_on_gpu(call, f, loader):
                        out.setdefault((f.module.path, call[1]), Found(call, f, loader))
                        break
        return [x for _, x in sorted(out.items()) if x.function.module.path not in self.program.loaded_on_demand]

    def spawned(self, loader: Loader) -> bool:
        """A process that is spawned, not forked, may use CUDA."""
        if loader.argument("multiprocessing_context") is not None:
            return True
        return "set_start_method" in (self.program.text(loader.module.path) or "")

    def inside(self, loader: Loader) -> list[Function]:
        """Functions that run in the workers: item access of the dataset, the collate function, what they call."""
        handles = self.settings.handles
        out: list[Function] = []
        for cls in handles.dataset_classes(loader):
            out += handles.reached(cls, ["__getitem__", "__getitems__", "__iter__"])
        out += self.transforms(loader)
        for o in loader.origins("collate_fn"):
            scope = self.settings.origins.scope(o.frame)
            if o.e[0] in ("name", "attr", "unknown"):
                continue
            out += self.callables(o.e, scope)
        found = loader.argument("collate_fn")
        if found is not None:
            out += self.callables(found[0], self.settings.origins.scope(found[1]))
        return list(dict.fromkeys(out))

    def transforms(self, loader: Loader) -> list[Function]:
        """Functions of the project, and classes that are called, in what a dataset is given as its transform."""
        out: list[Function] = []
        for o in loader.origins("dataset"):
            for k, v in o.e[4] if o.e[0] == "call" else ():
                if k is None or "transform" not in k:
                    continue
                for end in self.settings.origins.of(v, o.frame):
                    if end.e[0] not in ("call", "list", "tuple", "name", "attr"):
                        continue
                    scope = self.settings.origins.scope(end.frame)
                    for x in walk_expr(end.e):
                        if x[0] in ("name", "attr", "call"):
                            out += self.callables(x, scope)
        return out

    def callables(self, e: Expr, scope: object) -> list[Function]:
        out = []
        for x in self.program.entities(e, scope):  # type: ignore[arg-type]
            while x and x[0] == "partial":
                x = x[1]
            if x and x[0] in ("func", "method"):
                out.append(x[1])
            elif x and x[0] == "inst":
                m = self.program.method(x[1], "__call__")
                if m is not None:
                    out.append(m)
        return out

    def given_gpu(self, e: Expr, f: Function, loader: Loader) -> bool:
        """Is it a parameter that `partial(collate, device=...)` of this loader fills with a GPU?"""
        if e[0] != "name" or e[2] not in {p[0] for p in f.params}:
            return False
        for o in loader.origins("collate_fn"):
            if o.e[0] == "call" and callee_name(o.e) == "partial":
                for k, v in o.e[4]:
                    if k == e[2] and self.known_gpu(v, o.frame):
                        return True
        return False

    def puts_on_gpu(self, call: Expr, f: Function, loader: Loader) -> bool:
        callee = call[2]
        if callee[0] != "attr":
            return False
        if callee[3] == "cuda":
            return not self.switched(call, f)
        frame = Frame(f)
        if callee[3] == "to" and call[3]:
            return self.known_gpu(call[3][0], frame) or self.given_gpu(call[3][0], f, loader)
        name = self.program.qualified(callee, self.program.scope(f)) or ""
        if name.startswith("torch.") and name.count(".") == 1:
            return any(k == "device" and self.known_gpu(v, frame) for k, v in call[4])
        return False

    def switched(self, call: Expr, f: Function) -> bool:
        """Under a test that is not about CUDA being there: a switch that may be off where workers are used."""
        from .wrapping_process import tests_around

        for test in tests_around(self.program.body(f), call[1]):
            if not any(x[0] == "attr" and x[3] == "is_available" for x in walk_expr(test)):
                return True
        return False

    def known_gpu(self, e: Expr, frame: Frame) -> bool:
        """The device is known to be a GPU, at least where one is there; a name alone says nothing."""
        from .wrapping_device import device_kind

        ends = self.settings.origins.of(e, frame)
        return any(
            o.e[0] in ("const", "call") and device_kind(o.e, o.frame, self.settings.origins) == "gpu" for o in ends
        )

    # ------------------------------------------------------------------------------------------ growing datasets
    def growing(self) -> list[Found]:
        """Containers of a dataset that item access fills, read by workers that live as long as the loader."""
        out: dict[tuple[str, int], Found] = {}
        for loader in self.settings.loaders():
            values = loader.values("persistent_workers")
            if not values or not all(v.kind == "const" and v.value is True for v in values) or not self.surely(loader):
                continue
            for cls in self.settings.handles.dataset_classes(loader):
                inside = self.settings.handles.reached(cls, ["__getitem__", "__getitems__"])
                for f in inside:
                    for name, e in self.fills(f):
                        if self.stays(cls, name, inside):
                            out.setdefault((f.module.path, e[1]), Found(e, f, loader, name))
        return [x for _, x in sorted(out.items()) if x.function.module.path not in self.program.loaded_on_demand]

    def fills(self, f: Function) -> Iterator[tuple[str, Expr]]:
        """(attribute, where) of `self.x[key] = value` and `self.x.append(value)`."""
        for s in self.program.statements(f):
            for t in s[2] if s[0] == "assign" else ():
                if t[0] == "sub" and t[2][0] == "attr" and is_self(t[2][2], f) and t[3][0] != "const":
                    yield t[2][3], t
        for call in self.program.calls(f):
            callee = call[2]
            if callee[0] != "attr" or callee[2][0] != "attr" or callee[3] not in knowledge.graph("growing_methods"):
                continue
            if is_self(callee[2][2], f):
                yield callee[2][3], call

    def stays(self, cls: Class, name: str, inside: list[Function]) -> bool:
        """Is the attribute made as an empty container, never emptied, and is its length never asked for?"""
        made = [e for e, f in self.settings.handles.attributes(cls).get(name, ()) if f not in inside]
        if not made or not all(is_empty(e) for e in made):
            return False
        for f in inside:
            for s in self.program.statements(f):
                targets = s[2] if s[0] in ("assign", "del") else ()
                if any(t[0] == "attr" and t[3] == name for t in targets):
                    return False
                if s[0] == "del" and any(t[0] == "sub" and t[2][-1] == name for t in s[2]):
                    return False
            for call in self.program.calls(f):
                if callee_name(call) == "len" and call[3] and call[3][0][-1] == name:
                    return False
                callee = call[2]
                cleared = callee[0] == "attr" and callee[3] in knowledge.graph("clearing_methods")
                if cleared and callee[2][-1] == name:
                    return False
        return True

    # --------------------------------------------------------------------------------------------- held batches
    def held(self) -> list[Found]:
        """Tensors of a batch that a list keeps as they came from the worker: each holds a piece of shared memory and a
        file descriptor."""
        out: dict[tuple[str, int], Found] = {}
        near: dict[str, Module] = {}
        for loader in self.settings.loaders():
            if self.surely(loader) and not self.copied(loader):
                near.update((m.path, m) for m in self.settings.origins.options.group(loader.module))
        for module in near.values():
            text = self.program.text(module.path) or ""
            if module.path in self.program.loaded_on_demand or "set_sharing_strategy" in text:
                continue
            lines = list(enumerate(self.program.lines(module.path), 1))
            rows = [i for i, line in lines if ".append(" in line or "] = " in line]
            for f in functions_on(self.program, module, rows):
                for s in self.program.statements(f):
                    if s[0] == "for":
                        for found in self.held_in(s, f):
                            out.setdefault((module.path, found.pos), found)
            rows = [i for i, line in lines if "list(" in line or ("[" in line and " for " in line)]
            for f in functions_on(self.program, module, rows):
                for e in self.program.expressions(f):
                    whole = self.held_whole(e, f)
                    if whole is not None:
                        out.setdefault((module.path, whole.pos), whole)
        return [x for _, x in sorted(out.items())]

    def held_whole(self, e: Expr, f: Function) -> Found | None:
        """`list(loader)`, `[y for x, y in loader]`."""
        source: Expr | None = None
        if e[0] == "comp" and e[2] == "list" and len(e[4]) == 1 and not e[4][0][2]:
            if is_raw(e[3], set(target_names(e[4][0][0]))):
                source = e[4][0][1]
        elif e[0] == "call" and e[2][0] == "name" and e[2][2] == "list" and len(e[3]) == 1:
            source = e[3][0]
        if source is None or source[0] not in ("name", "attr", "call"):
            return None
        loader = self.loader_of(source, f)
        if loader is None or not self.surely(loader) or self.copied(loader):
            return None
        return Found(e, f, loader)

    def held_in(self, loop: Stmt, f: Function) -> Iterator[Found]:
        kept = [
            c
            for c in calls_in(loop[4])
            if callee_name(c) == "append"
            and c[2][0] == "attr"
            and (holder(c)[0] == "name" or (holder(c)[0] == "attr" and is_self(holder(c)[2], f)))
        ]
        if any(s[0] == "break" for s in walk_block(loop[4])):
            return  # a few batches
        stored = [
            (t, s[3])
            for s in walk_block(loop[4])
            for t in (s[2] if s[0] == "assign" else ())
            if t[0] == "sub" and t[2][0] == "name" and t[3][0] != "const"
        ]
        raw = raw_names(loop) if kept or stored else set()
        found = [
            (c, holder(c)[-1])
            for c in kept
            if len(c[3]) == 1
            and is_raw(c[3][0], raw)
            and (
                self.outlives(holder(c)[2], loop, f)
                if holder(c)[0] == "name"
                else self.stays_whole(holder(c)[3], loop, f)
            )
        ]
        counts = counters(loop) if stored else set()
        found += [
            (t, t[2][2])
            for t, value in stored
            if is_raw(value, raw, counts) and self.outlives(t[2][2], loop, f) and self.is_dictionary(t[2], f)
        ]
        if not found:
            return
        loader = self.loader_of(loop[3], f)
        if loader is None or not self.surely(loader) or self.copied(loader):
            return
        for e, name in found:
            yield Found(e, f, loader, name)

    def stays_whole(self, name: str, loop: Stmt, f: Function) -> bool:
        """Is `self.name` an empty list before the loop that no method of the class empties or asks for its length?"""
        if f.owner is None:
            return False
        made = [e for e, _ in self.settings.handles.attributes(f.owner).get(name, ())]
        if not made or not all(is_empty(e) for e in made):
            return False
        lines = self.program.lines(f.module.path)
        text = "\n".join(lines[f.owner.first_line - 1 : f.owner.end_line])
        changed = (
            f".{name}.clear(",
            f".{name}.pop",
            f".{name} = self.{name}[",
            f"del self.{name}",
            f"len(self.{name})",
        )
        inside = "\n".join(lines[(loop[1] >> 44) - 1 : (loop[1] >> 44) + (loop[1] >> 12 & 0xFFFFF)])
        return not any(w in text for w in changed) and f"self.{name} = " not in inside

    def is_dictionary(self, e: Expr, f: Function) -> bool:
        """Storing into a dictionary keeps the tensor; storing into a tensor or array copies it."""
        ends = self.settings.origins.of(e, Frame(f))
        return bool(ends) and all(
            o.e[0] == "dict" or (o.e[0] == "call" and callee_name(o.e) in ("dict", "defaultdict", "OrderedDict"))
            for o in ends
        )

    def outlives(self, name: str, loop: Stmt, f: Function) -> bool:
        """Is the list made before the loop and not emptied inside it?"""
        for s in walk_block(loop[4]):
            targets = s[2] if s[0] == "assign" else ()
            if any(n == name for t in targets for n in target_names(t)):
                return False
            for e in expressions_of(s):
                for x in walk_expr(e):
                    if x[0] != "call" or x[2][0] != "attr" or x[2][3] not in knowledge.graph("clearing_methods"):
                        continue
                    if x[2][2][0] == "name" and x[2][2][2] == name:
                        return False
        return any(
            s[0] == "assign" and s[1] < loop[1] and any(n == name for t in s[2] for n in target_names(t))
            for s in walk_block(self.program.body(f))
        )

    def loader_of(self, e: Expr, f: Function) -> Loader | None:
        found = [self.settings.loader_of(o) for o in self.settings.iterated(e, Frame(f))]
        return found[0] if found and all(found) else None

    def copied(self, loader: Loader) -> bool:
        """Pinned batches are copies: the pin thread lets go of the shared memory. Batches of a collate function that is
        not known may be anything."""
        if loader.argument("pin_memory") is not None:
            values = loader.values("pin_memory")
            if not values or any(v.kind != "const" or v.value for v in values):
                return True
        return loader.argument("collate_fn") is not None


class Respawned:
    """A loader whose `workers` processes are started again in each of `epochs` turns of `loop` (0: not known, more than
    one). `fresh`: the processes are not forked and import everything again."""

    __slots__ = ("epochs", "fresh", "function", "loader", "loop", "workers")

    def __init__(self, loader: Loader, function: Function, loop: Stmt, workers: int, epochs: int, fresh: bool) -> None:
        self.loader = loader
        self.function = function
        self.loop = loop
        self.workers = workers
        self.epochs = epochs
        self.fresh = fresh


class Waiting:
    """A loader without a timeout whose batches move to shared memory where a failure is only printed. `collate`: the
    function that makes them (None: batch_size=None)."""

    __slots__ = ("collate", "loader")

    def __init__(self, loader: Loader, collate: Function | None) -> None:
        self.loader = loader
        self.collate = collate


class Life:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program

    # ------------------------------------------------------------------------------------------- started again
    def respawned(self) -> list[Respawned]:
        """Loaders with workers, not persistent, that a loop of many epochs runs over: one for each loop."""
        out: dict[tuple[str, int], Respawned] = {}
        by_module: dict[str, list[Loader]] = {}
        for loader in self.settings.loaders():
            if self.is_plain(loader) and not loader.given("persistent_workers"):
                by_module.setdefault(loader.module.path, []).append(loader)
        for loaders in by_module.values():
            module = loaders[0].module
            lines = self.program.lines(module.path)
            rows = [i for i, line in enumerate(lines, 1) if "range(" in line and "epoch" in line and "for " in line]
            for f in functions_on(self.program, module, rows):
                for loop in self.program.statements(f):
                    if loop[0] != "for" or loop[1] >> 44 not in rows:
                        continue
                    found = self.respawned_in(f, loop, loaders)
                    if found is not None:
                        out.setdefault((module.path, found.loader.pos), found)
        return [x for _, x in sorted(out.items())]

    def is_plain(self, loader: Loader) -> bool:
        return bool(loader.name == knowledge.loader("loader_classes")[0]) and loader.cls is None

    def respawned_in(self, f: Function, loop: Stmt, loaders: list[Loader]) -> Respawned | None:
        epochs = self.epochs(loop[3], Frame(f))
        for loader in loaders:
            fresh = self.fresh(loader)
            if epochs < (2 if fresh else MANY) and not (fresh and epochs == 0):
                continue
            workers = loader.workers()
            if not workers or not all(v.is_number and v.value > 0 for v in workers):
                continue
            use = self.use(f, loop, loader)
            if use is None or self.changes_dataset(loop):
                continue
            return Respawned(loader, f, loop, max(int(v.value) for v in workers), epochs, fresh)
        return None

    def epochs(self, e: Expr, frame: Frame) -> int:
        """The turns of `range(stop)`, `range(start, stop)`, also inside a progress bar; 0 when they are not known."""
        while e[0] == "call" and callee_name(e) not in ("range", "trange") and e[3]:
            e = e[3][0]
        if e[0] != "call" or not e[3] or len(e[3]) > 2:
            return 0
        ends = [self.settings.numbers.of(x, frame) for x in e[3]]
        if not all(len(v) == 1 and v[0].is_number for v in ends):
            return 0
        return int(ends[-1][0].value - (ends[0][0].value if len(ends) == 2 else 0))

    def fresh(self, loader: Loader) -> bool:
        """Are the workers processes of their own, not forked?"""
        values = loader.values("multiprocessing_context")
        if values:
            return all(v.kind == "const" and v.value in FRESH for v in values)
        text = self.program.text(loader.module.path) or ""
        return "set_start_method(" in text and any(f'"{w}"' in text or f"'{w}'" in text for w in FRESH)

    def use(self, f: Function, loop: Stmt, loader: Loader) -> Expr | None:
        """Where the loop runs over the loader or hands it on; None when the loader is made in the loop."""
        if loader.function is f and loop[1] >> 44 <= loader.pos >> 44 <= (loop[1] >> 44) + (loop[1] >> 12 & 0xFFFFF):
            return None
        for s in walk_block(loop[4]):
            for e in (s[3],) if s[0] == "for" else (s[3],) if s[0] == "assign" else (s[2],) if s[0] == "expr" else ():
                for x in walk_expr(e):
                    if x[0] in ("name", "attr") and self.is_loader(x, f, loader):
                        return x
        return None

    def is_loader(self, e: Expr, f: Function, loader: Loader) -> bool:
        ends = self.settings.origins.of(e, Frame(f))
        found = [self.settings.loader_of(o) for o in ends]
        return bool(found) and all(x is not None and x.pos == loader.pos and x.module is loader.module for x in found)

    def changes_dataset(self, loop: Stmt) -> bool:
        """Does the loop touch a dataset, or tell something the epoch? Workers that stay would not hear of it."""
        for s in walk_block(loop[4]):
            for e in s[2:]:
                if isinstance(e, tuple) and e and isinstance(e[0], str):
                    for x in walk_expr(e):
                        if x[0] == "attr" and (x[3] == "dataset" or (x[3] == "set_epoch" and "ampler" not in x[2][-1])):
                            return True
                        if x[0] == "name" and "dataset" in x[2].lower():
                            return True
        return False

    # ------------------------------------------------------------------------------------------- waiting for ever
    def waits(self) -> list[Waiting]:
        """Loaders of programs of several ranks, with workers and without a timeout, whose batches reach shared memory
        only on their way to the main process (multiprocessing/queues.py, `_feed`): where that fails, the batch is lost
        and every rank waits. One for each file."""
        out: dict[str, Waiting] = {}
        for loader in self.settings.loaders():
            module = loader.module
            if module.path in out or module.path in self.program.loaded_on_demand or not self.is_plain(loader):
                continue
            if not (loader.argument("collate_fn") or loader.argument("batch_size")) or not self.several_ranks(module):
                continue
            if loader.given("timeout") or not self.settings.in_workers.surely(loader):
                continue
            sizes = loader.values("batch_size")
            if sizes and all(v.kind == "const" and v.value is None for v in sizes):
                out[module.path] = Waiting(loader, None)
                continue
            made = next(self.collates(loader), None)
            if made is not None:
                out[module.path] = Waiting(loader, made)
        return [x for _, x in sorted(out.items())]

    def several_ranks(self, module: Module) -> bool:
        text = self.program.text(module.path) or ""
        return any(w in text for w in ("DistributedSampler", "init_process_group", "DistributedDataParallel"))

    def collates(self, loader: Loader) -> Iterator[Function]:
        """The loader's collate functions that make tensors of their own."""
        found = loader.argument("collate_fn")
        if found is None:
            return
        workers = self.settings.in_workers
        for f in workers.callables(found[0], self.settings.origins.scope(found[1])):
            scope = self.program.scope(f)
            if any(callee_name(call) == "default_collate" for call in self.program.calls(f)):
                continue  # in a worker it makes its tensors in shared memory
            for call in self.program.calls(f):
                if self.program.qualified(call[2], scope) in knowledge.loader("tensor_makers"):
                    yield f
                    break


def holder(append: Expr) -> Expr:
    """What `all.append(x)`, `self.all.append(x)`, `all["x"].append(x)` adds to."""
    base = append[2][2]
    return base[2] if base[0] == "sub" and base[3][0] == "const" and base[2][0] == "name" else base  # type: ignore[no-any-return]


def is_empty(e: Expr) -> bool:
    """`{}`, `[]`, `[None] * n`, `set()`, `dict()`, `defaultdict(list)`: a container that holds nothing yet and has no
    bound."""
    if e[0] in ("dict", "list"):
        return not e[2]
    if e[0] == "bin" and e[2] == "*" and e[3][0] == "list":  # [None] * n
        return all(x[0] == "const" and x[2] is None for x in e[3][2])
    return e[0] == "call" and callee_name(e) in ("dict", "list", "set", "defaultdict", "OrderedDict") and not e[4]


def raw_names(loop: Stmt) -> set[str]:
    """Names of the batch and of parts of it, as long as nothing else is assigned to them."""
    target = loop[2]
    if loop[3][0] == "call" and callee_name(loop[3]) == "enumerate" and target[0] == "tuple" and len(target[2]) == 2:
        target = target[2][1]
    raw = set(target_names(target))
    lost: set[str] = set()
    for s in walk_block(loop[4]):
        if s[0] == "assign":
            for t in s[2]:
                names = set(target_names(t))
                if is_raw(s[3], raw - lost) and s[3][0] in ("name", "sub", "attr"):
                    raw |= names
                else:
                    lost |= names
        elif s[0] in ("aug", "for", "with"):
            for t in (s[3],) if s[0] == "aug" else (s[2],) if s[0] == "for" else [x for _, x in s[2] if x]:
                lost.update(target_names(t))
    return raw - lost


def is_raw(e: Expr, raw: set[str], counts: set[str] | frozenset[str] = frozenset()) -> bool:
    """The batch, an entry of it, or a view of one. `counts`: names of numbers, as an index they give a view."""
    if e[0] == "name":
        return e[2] in raw
    if e[0] == "sub":
        number = e[3][0] == "const" or (e[3][0] == "name" and e[3][2] in counts)
        return number and is_raw(e[2], raw, counts)
    if e[0] == "call" and e[2][0] == "attr" and not e[4]:
        return e[2][3] in knowledge.loader("view_methods") and is_raw(e[2][2], raw, counts)
    return False


def counters(loop: Stmt) -> set[str]:
    """Names of the numbers that loops inside a loop count: `for i in range(n)`, `for i, x in enumerate(y)`."""
    out: set[str] = set()
    for s in walk_block(loop[4]):
        if s[0] != "for" or s[3][0] != "call":
            continue
        target = s[2]
        if callee_name(s[3]) == "enumerate" and target[0] == "tuple" and target[2]:
            target = target[2][0]
        elif callee_name(s[3]) != "range":
            continue
        if target[0] == "name":
            out.add(target[2])
    return out
