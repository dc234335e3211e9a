"""Which functions an abstract run enters (see `wrapping_trace`)."""

from __future__ import annotations

from ... import knowledge

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
        scope = self.program.scope(f)
        return any(self.of(g, depth + 1) for c in self.program.calls(f)[:60] for g in self.program.targets(c, scope))
