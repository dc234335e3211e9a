"""Which functions an abstract run enters (see `wrapping_trace`)."""

from __future__ import annotations

from ... import knowledge
from ..program.program import called_names
from .settings_origins import is_self
from .wrapping_models import condition, has_placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Class, Expr, Function
    from ..program.program import Program


OPTIMIZING = ("optim.", "Adam", "SGD", "Optim", "DDP(", "FSDP(", "arallel(")


class Relevance:
    """Which functions are worth running: those that lead to a wrap, and those that, alone or through what they call,
    do something with models that is followed here. Also what all runs of one program ask again and again."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, bool] = {}
        self._path: set[int] = set()
        self._path_names: set[str] = set()
        self._wrappers: frozenset[str] = frozenset()
        self._words: tuple[str, ...] = ()
        self._saying: dict[int, bool] = {}
        self._idle: dict[tuple[str, str], str] = {}
        self._placed: dict[int, dict[str, list[int]]] = {}
        self._conditions: dict[int, tuple[Expr, tuple[str, bool]]] = {}
        self._entities: dict[int, tuple[Expr, tuple[Any, ...]]] = {}
        self._moved: dict[tuple[int, str], bool] = {}

    def add(self, f: Function) -> None:
        """A function on the way from a starting point to a wrap."""
        self._known[id(f)] = True
        self._path.add(id(f))
        self._path_names.update((f.name, f.owner.name) if f.owner is not None else (f.name,))

    def on_path(self, f: Function) -> bool:
        return id(f) in self._path

    def of(self, f: Function, depth: int = 0) -> bool:
        known = self._known.get(id(f))
        if known is None:
            self._known[id(f)] = False
            known = self._says(f) or (depth < 3 and self._calls(f, depth))
            if known or depth == 0:
                self._known[id(f)] = known
            else:
                del self._known[id(f)]
        return known

    def optimizes(self, f: Function) -> bool:
        """Does the function's own text name an optimizer or a wrapper?"""
        lines = self.program.lines(f.module.path)[f.first_line - 1 : f.end_line]
        return any(w in line for line in lines for w in OPTIMIZING)

    def names_optimizer(self, f: Function) -> bool:
        """Can the function make an optimizer, or call what makes one?"""
        lines = self.program.lines(f.module.path)[f.first_line - 1 : f.end_line]
        code = [x for x in lines if not x.lstrip().startswith("#")]
        return any(w in x for x in code for w in ("optim.", "ptimizer", "Adam", "SGD"))

    def _says(self, f: Function) -> bool:
        known = self._saying.get(id(f))
        if known is None:
            text = self.program.text_of(f)
            known = self._saying[id(f)] = any(w in text for w in self.words())
        return known

    def words(self) -> tuple[str, ...]:
        if not self._words:
            methods = knowledge.loader("placement_methods")
            self._words = (
                *(f".{m}(" for m in methods),
                "optim",
                ".requires_grad",
                "clip_grad",
                "arallel",
                "FSDP",
                "DDP",
                "shard",
                "SyncB",
                ".module",
                "load_state_dict(",
            )
        return self._words

    def pointless(self, callee: Expr, f: Function) -> bool:
        """Does the name tell of a call of an attribute, given nothing that is followed here, that it makes no object,
        wraps nothing and leads to no wrap? Then what it names need not be looked up, which may parse whole modules."""
        name = callee[3]
        if name[:1].isupper() or is_self(callee[2], f) or name in self._path_names:
            return False
        if not self._path_names.isdisjoint(("__call__", "forward")):
            return False
        if not self._wrappers:
            known = (*knowledge.names("wraps_model"), *knowledge.loader("device_defaults"))
            self._wrappers = frozenset(n.rpartition(".")[2] for n in known)
        return name not in self._wrappers

    def idle(self, callee: Expr, f: Function, nothing: bool) -> bool:
        """Does a call run a function that need not be seen: of a module that is not parsed, in which no relevant word
        stands? `nothing`: it is given nothing that is followed here, so that it cannot give that back either."""
        name = callee[2] if callee[0] == "name" else callee[2][2] if callee[2][0] == "name" else ""
        bound = self._imported(name, f) if name and callee[0] in ("name", "attr") else None
        if bound is None:
            return False
        dotted, name, level = bound
        if callee[0] == "attr":
            dotted, name = f"{dotted}.{name}" if dotted else name, callee[3]
        path = self.program.find(f.module.path, dotted, level)
        if path is None or path in self.program.modules:
            return False
        if (path, name) not in self._idle:
            self._idle[path, name] = self._idle_for(self.program.text(path) or "", name)
        return self._idle[path, name] in ("always", "for nothing" if nothing else "always")

    def _imported(self, name: str, f: Function) -> tuple[str, str, int] | None:
        """(module, name in it, level) of the one import that binds a name, or None."""
        scope = self.program.scope(f)
        while not scope.is_module:
            local = scope.bindings().get(name)
            if local is not None:
                return local[0][1:] if len(local) == 1 and local[0][0] == "from" else None
            if scope.parent is None:
                return None
            scope = scope.parent
        bound = f.module.names.get(name)
        return bound[1:] if bound is not None and bound[0] == "from" else None

    def _idle_for(self, text: str, name: str) -> str:
        at = text.find(f"\ndef {name}(")
        if at < 0:
            return "never"  # it comes from elsewhere
        if any(w in text for w in (*self.words(), *OPTIMIZING)):
            return "for nothing"
        header, _, body = text[at:].partition(":\n")
        body = body.partition("\ndef ")[0]
        given_back = {x.strip()[7:].strip() for x in body.split("\n") if x.lstrip().startswith("return ")}
        return "for nothing" if any(x and x in header for x in given_back) else "always"

    def condition(self, test: Expr) -> tuple[str, bool]:
        known = self._conditions.get(id(test))
        if known is None:
            known = self._conditions[id(test)] = (test, condition(test))
        return known[1]

    def entities(self, e: Expr, f: Function) -> tuple[Any, ...]:
        """What a callee may be: all runs of a program ask the same ones."""
        known = self._entities.get(id(e))
        if known is None:
            known = self._entities[id(e)] = (e, self.program.entities(e, self.program.scope(f)))
        return known[1]

    def moved(self, cls: Class, name: str) -> bool:
        """Is one of the values that methods assign to an attribute moved to a device in the same expression?"""
        key = (id(cls), name)
        if key not in self._moved:
            self._moved[key] = any(has_placement(v) for v, _ in self.program.attribute(cls, name))
        return self._moved[key]

    def placed_attributes(self, cls: Class) -> dict[str, list[int]]:
        """{attribute: lines} of all `.attribute.to(...)` in a class."""
        if id(cls) not in self._placed:
            import re

            out: dict[str, list[int]] = {}
            moves = re.compile(rf"\.(\w+)\.(?:{'|'.join(knowledge.loader('placement_methods'))})\(")
            lines = self.program.lines(cls.module.path)[cls.first_line - 1 : cls.end_line]
            for row, line in enumerate(lines, cls.first_line):
                if "." in line:
                    for name in moves.findall(line):
                        out.setdefault(name, []).append(row)
            self._placed[id(cls)] = out
        return self._placed[id(cls)]

    def _calls(self, f: Function, depth: int) -> bool:
        """Calls of functions of the same module and of own methods; what lies further away is not searched."""
        if not any(self.of(g, depth + 1) for g in self._named(f)):
            return False  # told by the text: the body need not be lowered
        for call in self.program.calls(f)[:80]:
            callee = call[2]
            g = None
            if callee[0] == "name":
                g = f.module.functions.get(callee[2])
            elif callee[0] == "attr" and f.owner is not None and is_self(callee[2], f):
                g = self.program.method(f.owner, callee[3])
            if g is not None and self.of(g, depth + 1):
                return True
        return False

    def _named(self, f: Function) -> list[Function]:
        """Functions of the module and own methods that by the text of the function may be called in it."""
        names = called_names(self.program.text_of(f))
        found = [f.module.functions.get(n) for n in sorted(names)]
        if f.owner is not None:
            found += [self.program.method(f.owner, n) for n in sorted(names)]
        return [g for g in found if g is not None and g is not f]
