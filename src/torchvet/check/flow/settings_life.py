"""How long loader workers live: started again for every epoch, or waiting for ever for a batch that never comes."""

from __future__ import annotations

from ... import knowledge
from ..program.model import walk_block, walk_expr
from ..program.program import callee_name
from .settings_origins import Frame, functions_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function, Module, Stmt
    from .settings import Loader, Settings

MANY = 100
"""From so many epochs on forked workers are worth keeping; those that import torch again are from the second on."""
FRESH = ("spawn", "forkserver")


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
