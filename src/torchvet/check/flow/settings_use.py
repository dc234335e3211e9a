"""What a loader's batches are for: which model they train, and whether they ever leave the CPU."""

from __future__ import annotations

from ... import knowledge
from ..program.model import walk_expr
from .settings_origins import Frame
from .settings_reach import loops_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..program.model import Expr, Function, Stmt
    from .settings import Loader, Settings
    from .settings_workers import Found
    from .wrapping import Wrapping
    from .wrapping_models import Event


class Unsharded:
    """A shuffled loader without a sampler for the ranks; `forward` is the training call of the DDP model."""

    __slots__ = ("forward", "loader", "wrap")

    def __init__(self, loader: Loader, forward: Event, wrap: Event) -> None:
        self.loader = loader
        self.forward = forward
        self.wrap = wrap


class Use:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program

    # --------------------------------------------------------------------------------------------- not shared out
    def unsharded(self, wrapping: Wrapping) -> list[Unsharded]:
        """Loaders that train a DDP model and give every rank the whole dataset."""
        from .wrapping_models import FORWARD, apart, conditions_at

        out: dict[tuple[str, int], Unsharded] = {}
        for trace in wrapping.traces():
            wraps = {id(w.result): w for w in trace.of_kind("wrapped") if w.family in ("ddp", "fsdp1") and w.result}
            wraps.update(
                {id(w.model): w for w in trace.of_kind("wrapped") if w.family == "fsdp2" and not meshed(w.call)}
            )
            for e in trace.of_kind(FORWARD):
                wrap = wraps.get(id(e.model))
                if wrap is None:
                    continue
                for f, loop in self.loops(e):
                    if loop[0] != "for":
                        continue
                    found = [self.settings.loader_of(o) for o in self.settings.iterated(loop[3], Frame(f))]
                    loaders = [x for x in found if x is not None]
                    if len(loaders) < len(found) or any(ordered(x) and not self.random(x) for x in loaders):
                        continue  # the other loader may be the one for several ranks
                    if not loaders or not self.settings.samplers.trains(loop[4], f):
                        continue
                    if not any(self.settings.samplers.learns(g) for g in (e.function, *(c for c, _ in e.calls))):
                        continue
                    for loader in loaders:
                        path = conditions_at(self.program.body(loader.frame.function), loader.pos)
                        if self.whole(loader) and not apart(path, wrap.path):
                            key = (loader.module.path, loader.pos)
                            out.setdefault(key, Unsharded(loader, e, wrap))
        return [x for _, x in sorted(out.items()) if x.loader.module.path not in self.program.loaded_on_demand]

    def loops(self, e: Event) -> Iterator[tuple[Function, Stmt]]:
        """The loops around an event, and around the calls that led to it."""
        for f, pos in ((e.function, e.pos), *((g, call[1]) for g, call in reversed(e.calls))):
            for loop in loops_around(self.program.body(f), pos):
                yield f, loop

    def whole(self, loader: Loader) -> bool:
        if loader.name != knowledge.loader("loader_classes")[0] or loader.cls is not None:
            return False
        if ordered(loader):
            if not self.random(loader):
                return False
        else:
            values = loader.values("shuffle")
            if not values or not all(v.kind == "const" and v.value is True for v in values):
                return False
        text = self.program.text(loader.module.path) or ""
        if any("seed" in line and "rank" in line for line in text.split("\n")):
            return False  # every rank draws its own order on purpose
        found = loader.argument("dataset")
        if found is None or self.says_sharded(found[0]):
            return False
        kinds = knowledge.loader("datasets")
        for o in loader.origins("dataset"):
            if o.e[0] == "unknown":
                continue
            if self.says_sharded(o.e) or not self.settings.conflicts.makes_object(o):
                return False  # a part of something, or made by code that is not seen
            name = self.program.qualified(o.e[2], self.settings.origins.scope(o.frame)) if o.e[0] == "call" else None
            if name and kinds.get(name) == "iterable":
                return False
            for cls in self.settings.handles.dataset_classes(loader):
                bases = self.program.bases(cls)[1]
                if any(kinds.get(b) == "iterable" for b in bases) or self.says_sharded(("name", 0, cls.name)):
                    return False
        return True

    def random(self, loader: Loader) -> bool:
        """A sampler that draws from the whole dataset, with no generator of the ranks' own."""
        ends = loader.origins("sampler") if loader.given("sampler") else []
        for o in loader.origins("batch_sampler") if loader.given("batch_sampler") else ():
            batches = o.e[0] == "call" and self.program.qualified(o.e[2], self.settings.origins.scope(o.frame))
            inner = batches == "torch.utils.data.BatchSampler" and o.e[3]
            ends += self.settings.origins.of(o.e[3][0], o.frame) if inner else [o]
        for o in ends:
            name = self.program.qualified(o.e[2], self.settings.origins.scope(o.frame)) if o.e[0] == "call" else None
            if name != "torch.utils.data.RandomSampler" or any(k in ("generator", None) for k, _ in o.e[4]):
                return False
        return bool(ends)

    def says_sharded(self, e: Expr) -> bool:
        words = knowledge.loader("sharding_words")
        for x in walk_expr(e):
            names = [str(x[-1])] if x[0] in ("name", "attr") else []
            if x[0] == "call":
                names += [k for k, _ in x[4] if k]
            if any(w in n.lower() for n in names for w in words):
                return True
        return False

    # --------------------------------------------------------------------------------------------- pinned memory
    def pinned(self) -> list[Loader]:
        """Loaders with `pin_memory=True` on every way."""
        out = []
        for loader in self.settings.loaders():
            values = loader.values("pin_memory")
            if values and all(v.kind == "const" and v.value is True for v in values):
                out.append(loader)
        return out

    def pinned_on_gpu(self, pinned: Sequence[Loader]) -> list[Found]:
        """CUDA tensors made by the dataset or the collate function of a loader that pins: pinning raises."""
        from .settings_workers import Found

        workers = self.settings.in_workers
        out: dict[tuple[str, int], Found] = {}
        for loader in pinned:
            for f in workers.inside(loader):
                for call in self.program.calls(f):
                    if workers.puts_on_gpu(call, f, loader):
                        out.setdefault((loader.module.path, loader.pos), Found(call, f, loader))
        return [x for _, x in sorted(out.items())]

    def pinned_on_cpu(self, pinned: Sequence[Loader]) -> list[Loader]:
        """Loaders that pin in a program of which nothing names an accelerator, and which trains."""
        words = knowledge.loader("accelerator_words")
        out = []
        for loader in pinned:
            own = self.program.text(loader.module.path) or ""
            if any(w in own for w in words):
                continue
            texts = [self.program.text(m.path) or "" for m in self.settings.origins.options.group(loader.module)]
            if any("backward(" in t for t in texts) and not any(w in t for t in texts for w in words):
                out.append(loader)
        return out


def ordered(loader: Loader) -> bool:
    """Whether an object of the program says in which order the data is read."""
    return loader.given("sampler") or loader.given("batch_sampler")


def meshed(wrap: Expr) -> bool:
    """`fully_shard(model, mesh=...)`: ranks along another dimension of the mesh share their data."""
    return len(wrap[3]) > 1 or any(k in ("mesh", None) for k, _ in wrap[4])
