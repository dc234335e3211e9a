"""Which functions reach a collective, by the names that their texts call. A filter that has to be cheap: nothing is
parsed for it."""

from __future__ import annotations

from re import compile

from .ranks_pages import callable_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from .ranks_pages import Page, Where
    from .ranks_suspects import Suspects

WORD = compile(r"[A-Za-z_]\w*")
COMMUNICATES = compile(
    r"dist|comm|accel|fabric|strateg|trainer|hvd|^xm$|group|engine|metric|self|util|mpu|parallel|^pl$|model|optim|state"
)
"""Objects on which a plain word such as `gather` can be a collective."""
PLAIN_METHODS = {m for t in (dict, list, set, str) for m in dir(t)} | {
    "cpu", "cuda", "device", "dtype", "eval", "named_parameters", "parameters", "reshape", "shape", "size", "start",
    "close", "write", "stop", "enabled", "to", "view", "wait",
}  # fmt: skip
"""Methods of containers, tensors and modules: on an object other than the own one they are taken for those."""
OWN = {"self", "cls"}
LIBRARIES = {"torch", "nn", "F", "functional", "init", "optim", "np", "os", "path", "math", "json", "re", "time"}
"""Holders of names that are not the project's."""
COMMON = 30
"""A name that more functions than this carry says nothing about which one is called."""


class Heat:
    """Spreads from the words of collectives along the names of functions. `hot` are ids of functions, `names` those by
    which they are called."""

    def __init__(self, suspects: Suspects, where: Where, counts: dict[str, int]) -> None:
        self.steps = suspects.steps
        self.plain_steps = suspects.plain_steps
        self.spots = where.spots
        self.counts = counts
        self.hot: set[int] = set()
        self.names: set[str] = set()

    def spread(self) -> None:
        fresh = self.seeds()
        while fresh:
            names = {
                name
                for name in map(callable_name, fresh)
                if name not in self.names and self.counts.get(name, 0) <= COMMON and not name.startswith("__")
            }
            self.names |= names
            fresh = []
            for name in names:
                for page, start, end, f in self.spots.get(name, ()):
                    if id(f) not in self.hot and uses(page, name, start, end):
                        self.hot.add(id(f))
                        fresh.append(f)

    def seeds(self) -> list[Function]:
        """Functions that name a collective."""
        found = {id(f): f for word in self.steps for _, _, _, f in self.spots.get(word, ())}
        for word in self.plain_steps:
            size = len(word)
            for page, start, end, f in self.spots.get(word, ()):
                if id(f) not in found:
                    places = page.places_in(word, start, end)
                    if any(page.text[i + size : i + size + 1] == "(" and communicates(page.text, i) for i in places):
                        found[id(f)] = f
        self.hot.update(found)
        return list(found.values())


def uses(page: Page, name: str, start: int, end: int) -> bool:
    """Whether a name stands in a function where it can be called or handed on."""
    text, size = page.text, len(name)
    for i in page.places_in(name, start, end):
        dotted = text[i - 1 : i] == "."
        if dotted and foreign(text, i, name):
            continue
        if (dotted or text[i + size : i + size + 1] in ("(", ",", ")")) and text[i - 4 : i] != "def ":
            return True
    return False


def communicates(text: str, i: int) -> bool:
    """Whether the object before a plain word can be one that communicates: `dist.gather(`, not `torch.gather(`."""
    if text[i - 1 : i] != ".":
        return True
    holder = WORD.findall(text[max(0, i - 40) : i - 1])
    return not holder or bool(COMMUNICATES.search(holder[-1].lower()))


def foreign(text: str, i: int, word: str) -> bool:
    """Whether the holder before a name says that it is not one of the project: `nn.Linear`, `kwargs.get`, `x.to`."""
    holder = WORD.findall(text[max(0, i - 24) : i - 1])
    last = holder[-1] if holder and text[i - 2 : i - 1] not in (")", "]") else ""
    return last in LIBRARIES or (word in PLAIN_METHODS and last not in OWN)
