"""What a dataset's memory costs in workers: lists of objects that are copied page by page, views that take the whole
tensor with them."""

from __future__ import annotations

from ... import knowledge
from ..program.model import walk_block
from ..program.program import callee_name
from .settings_origins import Frame, Origin, is_self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Expr, Function
    from .settings import Loader, Settings

READERS = 8
"""So many workers each copy the pages of a list that they read."""
PARSED = ("json.load", "json.loads", "yaml.safe_load", "builtins.list", "builtins.sorted")
"""Calls whose result is a list or dictionary of Python objects (`list` of what: see `objects`)."""


class Held:
    """`self.<attribute>` of a dataset and the loader whose workers read it. `use`: the other place that matters."""

    __slots__ = ("attribute", "function", "loader", "pos", "use", "use_function", "workers")

    def __init__(
        self, attribute: str, pos: int, function: Function, loader: Loader, use: Expr, use_function: Function
    ) -> None:
        self.attribute = attribute
        self.pos = pos
        self.function = function
        self.loader = loader
        self.use = use
        self.use_function = use_function
        self.workers = 0


class Storage:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.program = settings.program

    def inside(self, cls: Class) -> list[Function]:
        return self.settings.handles.reached(cls, ["__getitem__", "__getitems__"])

    def shown(self, out: dict[tuple[str, int], Held]) -> list[Held]:
        return [h for _, h in sorted(out.items()) if h.function.module.path not in self.program.loaded_on_demand]

    # ------------------------------------------------------------------------------------------ lists of objects
    def lists(self) -> list[Held]:
        """Lists and dictionaries of Python objects, read from a file, that many workers index."""
        out: dict[tuple[str, int], Held] = {}
        for loader in self.settings.loaders():
            workers = [v.value for v in loader.workers() if v.is_number]
            if not workers or max(workers) < READERS:
                continue
            for cls in self.settings.handles.dataset_classes(loader):
                if self.program.method(cls, "__getitem__") is None:
                    continue
                inside = self.inside(cls)
                for name, values in self.settings.handles.attributes(cls).items():
                    if len(values) != 1 or values[0][1] in inside:
                        continue
                    e, f = values[0]
                    use = self.indexed(name, inside) if self.objects(e, Frame(f)) else None
                    if use is not None:
                        held = out.setdefault((f.module.path, e[1]), Held(name, e[1], f, loader, *use))
                        held.workers = max(held.workers, int(max(workers)))
        return self.shown(out)

    def indexed(self, name: str, inside: list[Function]) -> tuple[Expr, Function] | None:
        """`self.name[i]` with an index that is not a constant."""
        for f in inside:
            for x in self.program.expressions(f):
                if x[0] != "sub" or x[2][0] != "attr" or x[2][3] != name or x[3][0] in ("const", "slice"):
                    continue
                if is_self(x[2][2], f):
                    return x, f
        return None

    def objects(self, e: Expr, frame: Frame) -> bool:
        """Is the value a container of Python objects (no numbers) that comes from a file or is made for each line?"""
        ends = self.settings.origins.of(e, frame)
        return bool(ends) and all(self.holds_objects(o) for o in ends)

    def holds_objects(self, o: Origin) -> bool:
        e = o.e
        if e[0] == "comp" and e[2] in ("list", "dict"):
            element = e[3][2][1] if e[2] == "dict" and e[3][0] == "tuple" and len(e[3][2]) == 2 else e[3]
            return element[0] in ("dict", "tuple", "fstr") or self.is_parsed(element, o.frame)
        if e[0] != "call":
            return False
        if e[2][0] == "attr" and e[2][3] in ("readlines", "splitlines", "to_dict"):
            return True
        return self.is_parsed(e, o.frame)

    def is_parsed(self, e: Expr, frame: Frame) -> bool:
        if e[0] != "call":
            return False
        name = self.program.qualified(e[2], self.settings.origins.scope(frame)) or ""
        if name not in PARSED:
            return False
        if not name.startswith("builtins."):
            return True
        inner = e[3][0] if e[3] else None
        while inner is not None and inner[0] in ("sub", "attr"):
            inner = inner[2]
        if inner is None or inner[0] != "call":
            return False
        name = self.program.qualified(inner[2], self.settings.origins.scope(frame)) or ""
        return name in ("pickle.load", "pickle.loads", "json.load", "json.loads", "csv.reader", "csv.DictReader")

    # ------------------------------------------------------------------------------------------ views
    def views(self) -> list[Held]:
        """Items that are views of one tensor, sent by workers as they are: the whole tensor goes with each of them."""
        out: dict[tuple[str, int], Held] = {}
        for loader in self.settings.loaders():
            if not loader.argument("collate_fn") and not loader.argument("batch_size"):
                continue
            classes = [c for c in self.settings.handles.dataset_classes(loader) if self.may_view(c)]
            if not classes or not self.settings.in_workers.surely(loader) or not self.sends_items(loader):
                continue
            for cls in classes:
                for f in self.inside(cls)[:1]:
                    for x, name in self.viewed(f):
                        made = self.tensor(cls, name, f)
                        if made is not None:
                            out.setdefault((f.module.path, x[1]), Held(name, x[1], f, loader, *made))
        return self.shown(out)

    def may_view(self, cls: Class) -> bool:
        """Can item access return a part of an attribute, by its text, and can the class make a tensor?"""
        f = self.program.method(cls, "__getitem__")
        if f is None or not any("return" in x or "self." in x for x in self.text(f) if "[" in x):
            return False
        init = self.program.method(cls, "__init__")
        return init is not None and any("torch." in x or "tensor" in x for x in self.text(init))

    def text(self, f: Function) -> list[str]:
        return self.program.lines(f.module.path)[f.first_line - 1 : f.end_line]

    def viewed(self, f: Function) -> list[tuple[Expr, str]]:
        """(expression, attribute) of the parts `self.x[i]`, `self.x[i:j]` of what item access returns."""
        out = []
        for s in walk_block(self.program.body(f)):
            if s[0] != "return" or not s[2]:
                continue
            parts = s[2][2] if s[2][0] in ("tuple", "list") else s[2][3] if s[2][0] == "dict" else (s[2],)
            for part in parts:
                for o in self.settings.origins.of(part, Frame(f)):
                    e = o.e
                    if o.frame.function is not f or e[0] != "sub" or e[2][0] != "attr":
                        continue
                    if is_self(e[2][2], f) and self.is_plain(e[3], f):
                        out.append((e, e[2][3]))
        return out

    def is_plain(self, index: Expr, f: Function) -> bool:
        """A number or a slice: an index that gives a view. A tensor or a list would copy."""
        if index[0] == "name":
            return len(f.params) > 1 and index[2] == f.params[1][0]
        if index[0] == "tuple":
            return bool(index[2]) and all(self.is_plain(x, f) or x[0] == "const" for x in index[2])
        return bool(index[0] == "slice")

    def tensor(self, cls: Class, name: str, f: Function) -> tuple[Expr, Function] | None:
        """Where the attribute is made, if it is one tensor on every way."""
        values = self.settings.handles.attributes(cls).get(name, [])
        for e, g in values:
            ends = self.settings.origins.of(e, Frame(g))
            if g is f or not ends or not all(self.makes_tensor(o) or self.loads_tensor(o, cls, name) for o in ends):
                return None
        return values[0] if values else None

    def loads_tensor(self, o: Origin, cls: Class, name: str) -> bool:
        """`torch.load` of a file whose content the class asks for its shape: a tensor."""
        if o.e[0] != "call" or self.program.qualified(o.e[2], self.settings.origins.scope(o.frame)) != "torch.load":
            return False
        text = "\n".join(self.program.lines(cls.module.path)[cls.first_line - 1 : cls.end_line])
        return any(f"self.{name}.{w}" in text for w in ("shape", "size(", "ndim", "dim()"))

    def makes_tensor(self, o: Origin) -> bool:
        if o.e[0] != "call":
            return False
        name = self.program.qualified(o.e[2], self.settings.origins.scope(o.frame)) or ""
        return name in knowledge.loader("tensor_makers")

    def sends_items(self, loader: Loader) -> bool:
        """Do the items leave the worker as they are: no batch is made, or the collate function copies nothing?"""
        sizes = loader.values("batch_size") if loader.argument("batch_size") else []
        found = loader.argument("collate_fn")
        if found is None:
            return bool(sizes) and all(v.kind == "const" and v.value is None for v in sizes)
        ends = loader.origins("collate_fn")
        if len(ends) == 1 and ends[0].e[0] == "lambda":
            e = ends[0].e
            return len(e[2]) == 1 and hands_on(e[3], e[2][0][0])
        made = self.settings.in_workers.callables(found[0], self.settings.origins.scope(found[1]))
        return bool(made) and all(self.returns_items(f) for f in made)

    def returns_items(self, f: Function) -> bool:
        params = [p[0] for p in f.params if p[0] != "self"]
        body = self.program.body(f)
        returned = [s[2] for s in walk_block(body) if s[0] == "return"]
        if len(params) != 1 or len(returned) != 1 or returned[0] is None:
            return False
        ends = self.settings.origins.of(returned[0], Frame(f))
        return hands_on(returned[0], params[0]) or (len(ends) == 1 and hands_on(ends[0].e, params[0]))


def hands_on(e: Expr, batch: str) -> bool:
    """The list of items, parts of it or another container of the same items: nothing that copies."""
    if e[0] == "name":
        return bool(e[2] == batch)
    if e[0] == "sub":
        return hands_on(e[2], batch)
    if e[0] in ("tuple", "list"):
        return bool(e[2]) and all(hands_on(x[2] if x[0] == "star" else x, batch) for x in e[2])
    if e[0] == "comp" and len(e[4]) == 1 and e[2] in ("list", "gen"):
        over, names = e[4][0][1], e[4][0][0]
        inner = names[2] if names[0] == "name" else ""
        return hands_on(over, batch) and bool(inner) and hands_on(e[3], inner)
    if e[0] == "call" and callee_name(e) in ("list", "tuple", "zip") and e[3] and not e[4]:
        return all(hands_on(x[2] if x[0] == "star" else x, batch) for x in e[3])
    return False
