"""Which functions an abstract run enters (see `wrapping_trace`)."""

from __future__ import annotations

from ... import knowledge
from .settings_origins import is_self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from ..program.program import Program


class Relevance:
    """Which functions are worth running: those that lead to a wrap, and those that, alone or through what they call,
    do something with models that is followed here."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, bool] = {}
        self._path: set[int] = set()
        self._words: tuple[str, ...] = ()

    def add(self, f: Function) -> None:
        """A function on the way from a starting point to a wrap."""
        self._known[id(f)] = True
        self._path.add(id(f))

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
        return any(w in line for line in lines for w in ("optim.", "Adam", "SGD", "Optim", "DDP(", "FSDP(", "arallel("))

    def _says(self, f: Function) -> bool:
        if not self._words:
            methods = knowledge.loader("placement_methods")
            self._words = (
                *(f".{m}(" for m in methods),
                "optim",
                "clip_grad",
                "arallel",
                "FSDP",
                "DDP",
                "shard",
                "SyncB",
            )
        lines = self.program.lines(f.module.path)[f.first_line - 1 : f.end_line]
        return any(w in line for line in lines for w in self._words)

    def _calls(self, f: Function, depth: int) -> bool:
        """Calls of functions of the same module and of own methods; what lies further away is not searched."""
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
