"""Combinations of settings that DataLoader refuses (torch/utils/data/dataloader.py, `DataLoader.__init__`)."""

from __future__ import annotations

from ... import knowledge
from .settings_origins import CONFIG, FIELD, OPTION, REPLACEABLE, UNKNOWN_NAME
from .wrapping_models import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .settings import Loader, Settings
    from .settings_numbers import Value
    from .settings_origins import Frame, Origin


class Conflict:
    """Two parameters of one loader that exclude each other. `sure`: no value that could be passed in between heals it.
    `place` is where the second value is set when it is not set at the loader."""

    __slots__ = ("first", "loader", "place", "second", "sure", "value")

    def __init__(
        self, loader: Loader, first: str, second: str, sure: bool, value: object = None, place: Value | None = None
    ) -> None:
        self.loader = loader
        self.first = first
        self.second = second
        self.sure = sure
        self.value = value
        self.place = place


class Conflicts:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    # ------------------------------------------------------------------------------- sampler, shuffle and so on
    def exclusive(self) -> list[Conflict]:
        """`sampler` with `shuffle`, `batch_sampler` with any of the four that it replaces, either with an iterable
        dataset: in every context, or in one that can be seen."""
        out = []
        for loader in self.settings.loaders():
            if not self.is_torch(loader) or not (loader.argument("shuffle") or loader.argument("batch_sampler")):
                continue
            for frame in loader.contexts():
                found = self.exclusive_in(loader, frame)
                if found is not None:
                    out.append(found)
                    break
        return out

    def is_torch(self, loader: Loader) -> bool:
        return bool(loader.name == knowledge.loader("loader_classes")[0])

    def exclusive_in(self, loader: Loader, frame: Frame) -> Conflict | None:
        shuffled = self.is_true(loader, "shuffle", frame) if loader.argument("shuffle", frame) else False
        if loader.argument("batch_sampler", frame) and self.is_object(loader, "batch_sampler", frame):
            for name in ("shuffle", "drop_last"):
                if self.is_true(loader, name, frame):
                    return Conflict(loader, "batch_sampler", name, True)
            both = loader.argument("sampler", frame) and self.is_object(loader, "sampler", frame)
            if both and not self.apart(loader, "batch_sampler", "sampler"):
                return Conflict(loader, "batch_sampler", "sampler", True)
            sizes = loader.values("batch_size", frame)
            if sizes and all(v.is_number and v.value != 1 for v in sizes):
                return Conflict(loader, "batch_sampler", "batch_size", True)
        if shuffled and loader.argument("sampler", frame) and self.is_object(loader, "sampler", frame):
            return Conflict(loader, "sampler", "shuffle", True)
        if shuffled and self.is_iterable(loader, frame):
            return Conflict(loader, "IterableDataset", "shuffle", True)
        return None

    def apart(self, loader: Loader, first: str, second: str) -> bool:
        """Whether one test decides which of the two is given: `sampler=None if episodes else s, batch_sampler=s if
        episodes else None`."""
        found = loader.argument(first), loader.argument(second)
        if found[0] is None or found[1] is None:
            return False
        a, b = found[0][0], found[1][0]
        if a[0] != "ifexp" or b[0] != "ifexp" or shape(a[2]) != shape(b[2]):
            return False
        return all(any(x[n][0] == "const" and x[n][2] is None for x in (a, b)) for n in (3, 4))

    def is_true(self, loader: Loader, name: str, frame: Frame) -> bool:
        """Is the flag true on every way to the loader? An entry of `**settings` may be there on some ways only."""
        if not loader.written(name):
            return False
        values = loader.values(name, frame)
        return bool(values) and all(
            v.kind == "const" and v.value is True and v.via not in (OPTION, FIELD, CONFIG) for v in values
        )

    def is_object(self, loader: Loader, name: str, frame: Frame) -> bool:
        """Is the argument an object on some way to the loader, and nothing unknown on the others? With a shuffle that
        is true on all ways, one is enough: `DistributedSampler(d) if distributed else None` fails when distributed."""
        if not loader.written(name):
            return False
        ends = loader.origins(name, frame)
        objects = [o for o in ends if self.makes_object(o)]
        return bool(objects) and all(o in objects or (o.e[0] == "const" and o.e[2] is None) for o in ends)

    def makes_object(self, o: Origin) -> bool:
        if o.e[0] != "call" or o.e[0] == UNKNOWN_NAME:
            return False
        for x in self.settings.program.entities(o.e[2], self.settings.origins.scope(o.frame)):
            if x[0] == "class" or (x[0] == "ext" and x[1].rpartition(".")[2][:1].isupper()):
                return True
        return False

    def is_iterable(self, loader: Loader, frame: Frame) -> bool:
        ends = loader.origins("dataset", frame)
        kinds = knowledge.loader("datasets")
        if not ends:
            return False
        for o in ends:
            if o.e[0] != "call":
                return False
            ok = False
            for x in self.settings.program.entities(o.e[2], self.settings.origins.scope(o.frame)):
                if x[0] == "class":
                    bases = self.settings.program.bases(x[1])[1]
                    ok = any(b.startswith("torch.") and kinds.get(b) == "iterable" and "Pipe" not in b for b in bases)
            if not ok:
                return False
        return True

    # --------------------------------------------------------------------------------------- without workers
    def needs_workers(self) -> list[Conflict]:
        """`persistent_workers=True`, or a `prefetch_factor`, where the number of workers is, or can be, 0."""
        out = []
        for loader in self.settings.loaders():
            if not self.is_torch(loader):
                continue
            if not loader.argument("persistent_workers") and not loader.argument("prefetch_factor"):
                continue
            for frame in loader.contexts():
                found = self.needs_workers_in(loader, frame)
                if found is not None:
                    out.append(found)
                    break
        return out

    def needs_workers_in(self, loader: Loader, frame: Frame) -> Conflict | None:
        for name in ("persistent_workers", "prefetch_factor"):
            values = loader.values(name, frame) if loader.written(name) else []
            if not values or not all(self.demands(v) for v in values):
                continue
            workers = loader.workers(frame)
            if not workers or not all(v.kind == "const" for v in workers):
                continue
            zero = [v for v in workers if not v.value]
            if not zero:
                continue
            fixed = [v for v in zero if v.via not in REPLACEABLE]
            if len(zero) < len(workers) and not fixed:
                continue  # some way passes workers, the default is 0: nothing says that the default is used
            if any(v.via in REPLACEABLE for v in values) and not fixed:
                files = {v.origin.frame.module.path if v.via == CONFIG else "" for v in (*values, *zero)}
                if len(files) > 1 or "" in files or len(zero) < len(workers):
                    continue  # both can be replaced, and may be together
                fixed = zero  # the file as it stands sets both
            return Conflict(loader, name, "num_workers", bool(fixed), values[0].value, (fixed or zero)[0])
        return None

    def demands(self, v: Value) -> bool:
        return v.kind == "const" and v.value is not None and v.value is not False
