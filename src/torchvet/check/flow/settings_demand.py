"""How much shared memory a loader needs, where its batches have a known size.

Each worker prepares `prefetch_factor` batches, two more are on the way: at most batch bytes x (workers x prefetch + 2)
(measured with torch 2.13 in 13 cases: 75 to 100 % of it).
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import walk_block
from .settings_origins import Frame, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function
    from .settings import Loader, Settings
    from .settings_deployment import Shm
    from .settings_numbers import Value

PAGE = 4096


class Need:
    """The shared memory that a loader takes at most (`need`, bytes). `batch`: bytes of one batch."""

    __slots__ = ("batch", "loader", "need", "prefetch", "workers")

    def __init__(self, loader: Loader, batch: int, workers: int, prefetch: int) -> None:
        self.loader = loader
        self.batch = batch
        self.workers = workers
        self.prefetch = prefetch
        self.need = batch * (workers * prefetch + 2)


class Over(Need):
    """A loader that needs more shared memory than its deployment has."""

    __slots__ = ("shm",)

    def __init__(self, need: Need, shm: Shm) -> None:
        super().__init__(need.loader, need.batch, need.workers, need.prefetch)
        self.shm = shm


class Demand:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program

    def known(self, loaders: list[Loader]) -> list[Need]:
        """The loaders whose demand is known."""
        out = []
        for loader in loaders:
            if loader.module.path in self.program.loaded_on_demand:
                continue
            workers = self.one(loader.workers())
            batch = self.one(loader.values("batch_size")) if workers else None
            if not workers or not batch or self.packs(loader):
                continue
            prefetch = self.one(loader.values("prefetch_factor")) if loader.given("prefetch_factor") else 2
            item = self.item_bytes(loader) if prefetch else None
            if item and prefetch:
                out.append(Need(loader, -(-item * batch // PAGE) * PAGE, workers, prefetch))
        return out

    def over(self, loaders: list[Loader]) -> list[Over]:
        """Those whose batches do not fit into the largest shared memory that their deployment files set."""
        out = []
        deployment = None
        for need in self.known(loaders):
            if deployment is None:
                from .settings_deployment import Deployment

                deployment = Deployment(self.program, self.settings.deploy)
            found = deployment.of(need.loader.module.path)
            if found:
                largest = max(found, key=lambda x: x.size)
                if need.need > largest.size:
                    out.append(Over(need, largest))
        return out

    def one(self, values: list[Value]) -> int | None:
        """The one number that the values are, or None."""
        numbers = {v.value for v in values if v.is_number}
        return int(numbers.pop()) if len(numbers) == 1 and all(v.is_number for v in values) else None

    def packs(self, loader: Loader) -> bool:
        """A collate function of the project may make batches of another size."""
        return loader.argument("collate_fn") is not None or loader.given("batch_sampler")

    # ------------------------------------------------------------------------------------------------- items
    def item_bytes(self, loader: Loader) -> int | None:
        """Bytes of one item, when every way to the loader gives the same."""
        found = {self.dataset_item(o) for o in loader.origins("dataset")}
        return found.pop() if len(found) == 1 else None

    def dataset_item(self, o: Origin) -> int | None:
        if o.e[0] != "call":
            return None
        scope = self.settings.origins.scope(o.frame)
        for x in self.program.entities(o.e[2], scope):
            if x[0] == "class":
                f = self.program.method(x[1], "__getitem__")
                return self.returned(f) if f is not None else None
            if x[0] == "ext" and x[1] == "torch.utils.data.TensorDataset":
                sizes = [self.tensor_bytes(a, o.frame, 1) for a in o.e[3]]
                return sum(s for s in sizes if s) if sizes and all(sizes) else None
            if x[0] == "ext" and x[1] in knowledge.loader("image_datasets"):
                given = next((v for k, v in o.e[4] if k == "transform"), None)
                return self.transformed(given, o.frame) if given is not None else None
        return None

    def returned(self, f: Function) -> int | None:
        """Bytes of the tensors that item access returns, each of them known."""
        totals = set()
        for s in walk_block(self.program.body(f)):
            if s[0] != "return" or not s[2]:
                continue
            parts = s[2][2] if s[2][0] == "tuple" else s[2][3] if s[2][0] == "dict" else (s[2],)
            sizes = [self.part_bytes(p, Frame(f)) for p in parts]
            totals.add(None if None in sizes else sum(s for s in sizes if s))
        return totals.pop() if len(totals) == 1 else None

    def part_bytes(self, e: Expr, frame: Frame) -> int | None:
        """Bytes of a tensor; a number becomes 8 bytes of a batch."""
        ends = self.settings.origins.of(e, frame)
        if len(ends) == 1 and ends[0].e[0] == "const" and isinstance(ends[0].e[2], (int, float)):
            return 8
        return self.tensor_bytes(e, frame, 0)

    def tensor_bytes(self, e: Expr, frame: Frame, skip: int) -> int | None:
        """Bytes of `torch.zeros(3, 224, 224)` and its like, without the first `skip` dimensions."""
        ends = self.settings.origins.of(e, frame)
        if len(ends) != 1 or ends[0].e[0] != "call":
            return None
        call, at = ends[0].e, ends[0].frame
        name = self.program.qualified(call[2], self.settings.origins.scope(at)) or ""
        first = knowledge.loader("sized_tensors").get(name)
        if first is None:
            return None
        sizes = call[3][int(first) :]
        if name == "torch.full":
            sizes = sizes[:1]
        if len(sizes) == 1 and sizes[0][0] in ("tuple", "list"):
            sizes = sizes[0][2]
        elif name in ("torch.full", "torch.randint"):
            return None
        width = 8 if name == "torch.randint" else 4
        for k, v in call[4]:
            if k == "dtype":
                dtype = self.program.qualified(v, self.settings.origins.scope(at)) or ""
                width = knowledge.loader("dtype_bytes").get(dtype, 0)
            elif k == "size" and v[0] in ("tuple", "list"):
                sizes = v[2]
        total = width
        for x in sizes[skip:]:
            number = self.one(self.settings.numbers.of(x, at))
            if number is None:
                return None
            total *= number
        return total or None if sizes else None

    def transformed(self, e: Expr, frame: Frame) -> int | None:
        """Bytes of an RGB image after `transforms.Compose([...])`: the last size that a crop or a resize of both sides
        sets, as float32 after ToTensor, else 3 bytes for each pixel."""
        ends = self.settings.origins.of(e, frame)
        if len(ends) != 1 or ends[0].e[0] != "call" or not ends[0].e[3]:
            return None
        compose, at = ends[0].e, ends[0].frame
        steps = self.settings.origins.of(compose[3][0], at)
        if len(steps) != 1 or steps[0].e[0] not in ("list", "tuple"):
            return None
        sides, floats = None, False
        for step in steps[0].e[2]:
            if step[0] != "call":
                return None
            kind = step[2][-1]
            known = knowledge.loader("image_transforms").get(kind)
            if known is None:
                return None
            if known == "float":
                floats = True
            elif known in ("square", "both") and step[3]:
                sides = self.sides(step[3][0], steps[0].frame, known == "square")
        return sides * 3 * 4 if sides is not None and floats else None

    def sides(self, e: Expr, frame: Frame, square: bool) -> int | None:
        """Pixels of `224` (both sides; for a resize only the shorter one is known) or `(224, 224)`."""
        parts = e[2] if e[0] in ("tuple", "list") else (e, e) if square else ()
        numbers = [self.one(self.settings.numbers.of(x, frame)) for x in parts]
        if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
            return None
        return numbers[0] * numbers[1]
