"""Handles that a dataset opens before the workers are forked and uses inside them."""

from __future__ import annotations

from ... import knowledge
from ..program.model import expressions_of, walk_block, walk_expr
from ..program.program import callee_name
from .settings_origins import Frame, Origin, is_self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Expr, Function
    from .settings import Loader, Settings

ENTRIES = ("__getitem__", "__getitems__", "__iter__")
DEPTH = 4
CONTAINING = (
    "torch.utils.data.ConcatDataset",
    "torch.utils.data.Subset",
    "torch.utils.data.random_split",
    "torch.utils.data.ChainDataset",
    "torch.utils.data.StackDataset",
)
SEEDERS = ("numpy.random.seed", "random.seed", "torch.manual_seed")


class Handle:
    """`self.<attribute>` of a dataset holds what `opener` opened; `use` is an expression that a worker evaluates.
    Without attribute and owner: a worker_init_fn calls `opener` with the same seed in every worker."""

    __slots__ = ("attribute", "function", "loader", "opener", "owner", "pos", "use", "use_function")

    def __init__(
        self,
        owner: Class | None,
        attribute: str,
        pos: int,
        function: Function,
        opener: str,
        use: Expr,
        use_function: Function,
    ) -> None:
        self.owner = owner
        self.attribute = attribute
        self.pos = pos
        self.function = function
        self.opener = opener
        self.use = use
        self.use_function = use_function
        self.loader: Loader | None = None


class Handles:
    """What datasets carry into their workers, of the things that a knowledge table names."""

    def __init__(self, settings: Settings, table: str = "fork_unsafe") -> None:
        self.settings = settings
        self.table = table
        self.program = settings.program
        self._of_class: dict[int, list[Handle]] = {}

    def carried(self) -> list[Handle]:
        """Handles of datasets that some loader with workers reads, once for each place that opens one."""
        out: dict[tuple[str, int], Handle] = {}
        for loader in self.settings.loaders():
            if not self.has_workers(loader):
                continue
            if loader.argument("worker_init_fn") is not None:
                for handle in self.seeds(loader) if self.table == "random_generators" else ():
                    out.setdefault((handle.function.module.path, handle.pos), handle)
                continue
            for cls in self.dataset_classes(loader):
                for handle in self.of_class(cls):
                    handle.loader = handle.loader or loader
                    out.setdefault((handle.function.module.path, handle.pos), handle)
        return [h for _, h in sorted(out.items()) if h.function.module.path not in self.program.loaded_on_demand]

    def seeds(self, loader: Loader) -> list[Handle]:
        """Calls of a worker_init_fn that seed with a number which is the same in every worker."""
        found = loader.argument("worker_init_fn")
        out: list[Handle] = []
        for f in self.settings.in_workers.callables(found[0], self.settings.origins.scope(found[1])) if found else ():
            for call in self.program.calls(f):
                name = self.program.qualified(call[2], self.program.scope(f)) or ""
                if name not in SEEDERS or len(call[3]) != 1 or f.owner is not None or len(f.params) != 1:
                    continue
                ends = self.settings.origins.of(call[3][0], Frame(f))
                if ends and all(o.e[0] == "const" and isinstance(o.e[2], int) for o in ends):
                    handle = Handle(None, "", call[1], f, name, loader.call, loader.function)
                    handle.loader = loader
                    out.append(handle)
                    break
        return out

    def has_workers(self, loader: Loader) -> bool:
        """Can the loader have workers? A number that cannot be seen was passed on purpose."""
        if self.table == "random_generators":
            return self.settings.in_workers.surely(loader)
        return any(v.kind != "const" or v.value for v in loader.workers())

    def dataset_classes(self, loader: Loader) -> list[Class]:
        out: list[Class] = []
        for o in loader.origins("dataset"):
            self.add_classes(o, out, 0)
        return out

    def add_classes(self, o: Origin, out: list[Class], depth: int) -> None:
        """The project classes that an end is made of, below ConcatDataset, Subset and random_split."""
        e = o.e[2] if o.e[0] == "item" else o.e
        if e[0] != "call":
            return
        for x in self.program.entities(e[2], self.settings.origins.scope(o.frame)):
            if x[0] == "class" and x[1] not in out and o.e[0] == "call":
                out.append(x[1])
            elif x[0] == "ext" and x[1] in CONTAINING and e[3] and depth < 4:
                for inner in self.settings.origins.of(e[3][0], o.frame):
                    parts = inner.e[2] if inner.e[0] in ("list", "tuple") else ()
                    parts = (inner.e[3],) if inner.e[0] == "comp" else parts
                    if not parts:
                        self.add_classes(inner, out, depth + 1)
                    for part in parts:
                        for end in self.settings.origins.of(part, inner.frame):
                            self.add_classes(end, out, depth + 1)

    def of_class(self, cls: Class) -> list[Handle]:
        if id(cls) not in self._of_class:
            self._of_class[id(cls)] = list(self._find(cls))
        return self._of_class[id(cls)]

    def _find(self, cls: Class) -> list[Handle]:
        program = self.program
        if program.method(cls, "__getstate__") or program.method(cls, "__init__") is None:
            return []
        before = self.reached(cls, ["__init__"])
        inside = self.reached(cls, list(ENTRIES))
        if self.table == "random_generators" and self.knows_worker(cls, inside):
            return []
        out = []
        for attribute, values in self.attributes(cls).items():
            again = [f for _, f in values if f in inside and not self.only_missing(cls, attribute, f, inside)]
            opened = [(e, f) for e, f in values if f in before and f not in again]
            if not opened or again or self.dropped(attribute, before):
                continue
            for e, f in opened:
                opener = self.opens(e, f)
                if opener is not None:
                    use = self.read(attribute, inside)
                    if use is not None:
                        out.append(Handle(cls, attribute, e[1], f, opener, *use))
                    break
                found = self.through_helper(e, f, attribute, inside)
                if found is not None:
                    out.append(found)
                    break
        return out

    def only_missing(self, cls: Class, attribute: str, opener: Function, inside: list[Function]) -> bool:
        """Does the constructor call `opener`, a worker only `if self.attribute is None`? After a fork it never is."""
        init = self.program.method(cls, "__init__")
        if init is None or not any(s[0] == "expr" and calls_own(s[2], opener, init) for s in self.program.body(init)):
            return False
        return all(
            not calls_own(e, opener, f) or (s[0] == "expr" and id(s) in self.behind_missing(attribute, f))
            for f in inside
            for s in walk_block(self.program.body(f))
            for e in expressions_of(s)
        )

    def behind_missing(self, attribute: str, f: Function) -> set[int]:
        """Statements under `if self.attribute is None`."""
        out: set[int] = set()
        for s in walk_block(self.program.body(f)):
            test = s[2] if s[0] == "if" else None
            if test is None or test[0] != "cmp" or test[2][0] != "is":
                continue
            if test[3][0][0] == "attr" and test[3][0][3] == attribute:
                out.update(id(x) for x in walk_block(s[3]))
        return out

    def knows_worker(self, cls: Class, inside: list[Function]) -> bool:
        """Does the code that runs in a worker, or the class, ask which worker it is, or seed again?"""
        lines = self.program.lines(cls.module.path)[cls.first_line - 1 : cls.end_line]
        text = [*lines, *(x for f in inside for x in self.program.lines(f.module.path)[f.first_line - 1 : f.end_line])]
        return any(w in x for x in text for w in ("worker_info", "worker_id", ".seed(", "manual_seed("))

    def attributes(self, cls: Class) -> dict[str, list[tuple[Expr, Function]]]:
        names: dict[str, list[tuple[Expr, Function]]] = {}
        for c in (cls, *self.program.bases(cls)[0]):
            for name, values in self.program.own_attributes(c).items():
                names.setdefault(name, []).extend(values)
        return names

    def reached(self, cls: Class, entries: list[str]) -> list[Function]:
        """Methods that run when one of the entries does, through `self.method()`."""
        out = [m for m in (self.program.method(cls, n) for n in entries) if m is not None]
        for f in out:
            if len(out) > 30:
                break
            for call in self.program.calls(f):
                callee = call[2]
                if callee[0] == "attr" and is_self(callee[2], f):
                    m = self.program.method(cls, callee[3])
                    if m is not None and m not in out:
                        out.append(m)
                elif callee_name(call) == "__init__":
                    for g in self.program.targets(call, self.program.scope(f)):
                        if g not in out:
                            out.append(g)
        return out

    def opens(self, e: Expr, f: Function) -> str | None:
        """The opener whose handle the expression is, or is a part of (`handle[name]` without a slice)."""
        for o in self.settings.origins.of(e, Frame(f)):
            name = self.opener_of(o, 0)
            if name is not None and not self.entered(e, f):
                return name
        return None

    def opener_of(self, o: Origin, depth: int) -> str | None:
        e = o.e
        if e[0] == "call":
            name = self.settings.program.qualified(e[2], self.settings.origins.scope(o.frame)) or ""
            name = name.removeprefix("builtins.")
            if name in knowledge.loader(self.table):
                return name
            if e[2][0] == "attr" and e[2][3] in knowledge.loader("derived_handles") and depth < 3:
                for base in self.settings.origins.of(e[2][2], o.frame):
                    found = self.opener_of(base, depth + 1)
                    if found is not None:
                        return found
            return None
        if e[0] == "sub" and depth < 3 and not reads_all(e[3]):
            for base in self.settings.origins.of(e[2], o.frame):
                found = self.opener_of(base, depth + 1)
                if found is not None and "h5py" in found:
                    return found
        return None

    def entered(self, e: Expr, f: Function) -> bool:
        """Is the handle the name that a `with` binds? It is closed when the block ends."""
        names = {x[2] for x in walk_expr(e) if x[0] == "name"}
        return any(
            t is not None and t[0] == "name" and t[2] in names
            for s in walk_block(self.program.body(f))
            if s[0] == "with"
            for _, t in s[2]
        )

    def dropped(self, attribute: str, before: list[Function]) -> bool:
        """Is the attribute closed, deleted or set to None again before the workers start?"""
        for f in before:
            for s in walk_block(self.program.body(f)):
                if s[0] == "del" and any(t[0] == "attr" and t[3] == attribute for t in s[2]):
                    return True
                if s[0] == "assign" and s[3][0] == "const" and any(t[0] == "attr" and t[3] == attribute for t in s[2]):
                    return True
            for call in self.program.calls(f):
                callee = call[2]
                if (
                    callee[0] == "attr"
                    and callee[3] == "close"
                    and callee[2][0] == "attr"
                    and callee[2][3] == attribute
                ):
                    return True
        return False

    def read(self, attribute: str, inside: list[Function]) -> tuple[Expr, Function] | None:
        for f in inside:
            for x in self.program.expressions(f):
                if x[0] == "attr" and x[3] == attribute and is_self(x[2], f):
                    return x, f
        return None

    def through_helper(self, e: Expr, f: Function, attribute: str, inside: list[Function]) -> Handle | None:
        """`self.reader = Reader(path)`, where the reader opens a handle and a method that the worker calls uses it."""
        if e[0] != "call":
            return None
        for x in self.program.entities(e[2], self.program.scope(f)):
            if x[0] != "class" or self.program.method(x[1], "__init__") is None:
                continue
            if self.program.method(x[1], "__getstate__"):
                continue
            helper = x[1]
            before = self.reached(helper, ["__init__"])
            called = [
                call[2][3]
                for g in inside
                for call in self.program.calls(g)
                if call[2][0] == "attr" and call[2][2][0] == "attr" and call[2][2][3] == attribute
            ]
            called += ["__getitem__"] if self.read(attribute, inside) else []
            if any(c[2][0] == "attr" and c[2][3] == attribute for g in inside for c in self.program.calls(g)):
                called += ["__call__", "forward"]
            used_in = self.reached(helper, called)
            for name, values in self.attributes(helper).items():
                if any(g in used_in for _, g in values) or self.dropped(name, before):
                    continue
                for value, g in values:
                    opener = self.opens(value, g) if g in before else None
                    use = self.read(name, used_in) if opener else None
                    if opener is not None and use is not None:
                        return Handle(helper, name, value[1], g, opener, *use)
        return None


def calls_own(e: Expr, method: Function, f: Function) -> bool:
    """Whether an expression of a method calls another one of its object."""
    return any(
        x[0] == "call" and x[2][0] == "attr" and x[2][3] == method.name and is_self(x[2][2], f) for x in walk_expr(e)
    )


def reads_all(index: Expr) -> bool:
    """`[:]`, `[...]`, `[()]` copy the data into memory."""
    if index[0] == "slice" or (index[0] == "const" and index[2] in ("...", Ellipsis)):
        return True
    return bool(index[0] == "tuple" and (not index[2] or any(reads_all(x) for x in index[2])))
