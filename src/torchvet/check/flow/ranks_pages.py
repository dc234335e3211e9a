"""The texts of modules as the rank analysis searches them: which words stand where, in which function, and which
functions reach a collective by the names that their texts call. Nothing is parsed for it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from ... import knowledge
from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Function, Module
    from ..program.program import Program
    from .ranks_suspects import Suspects

    Spot = tuple["Page", int, int, Function]

WORD = Later(r"[A-Za-z_]\w*")
COMMUNICATES = Later(
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
LARGE = 400
"""Files of a project above which functions beside a wrapped model are told apart."""
FAMILY_WORDS = (
    ("accelerate", "ccelerat"), ("lightning", "ightning"), ("deepspeed", "deepspeed"), ("dtensor", "torch"),
    ("transformers", "transformers"), ("torchmetrics", "torchmetrics"), ("ignite", "ignite"), ("colossalai",
    "colossalai"),
    ("mmengine", "mmengine"), ("fsdp1", "FSDP"), ("fsdp1", "FullyShardedDataParallel"), ("fsdp2", "fully_shard"),
    ("fairscale", "fairscale"), ("horovod", "horovod"), ("zero", "ZeroRedundancyOptimizer"), ("pp", "pipelin"),
    ("composer", "composer"), ("xla", "torch_xla"),
)  # fmt: skip
"""Families of the tables, and what the text of a module says that uses one."""
CALLED_AS = {"pl_module": "lightningmodule"}
"""What a framework's own hooks call the objects that they are handed."""
SPACED = bytes(c if c >= 128 or chr(c).isalnum() or c == 95 else 32 for c in range(256))


def words_of(text: str) -> set[str]:
    """The words of a text, numbers among them (a third faster than a pattern)."""
    return set(text.encode("utf-8", "surrogatepass").translate(SPACED).decode("utf-8", "surrogatepass").split())


def is_class_member(q: str) -> bool:
    return q.rpartition(".")[0].rpartition(".")[2][:1].isupper()


def callable_name(f: Function) -> str:
    """The name by which a function is called: a class for its constructor."""
    return str(f.owner.name if f.name == "__init__" and f.owner is not None else f.name)


def written_by_others(text: str, needle: str) -> bool:
    """Whether `.name =` stands in a text behind anything else than `self`."""
    i = text.find(needle)
    while i >= 0:
        if text[i - 4 : i] != "self":
            return True
        i = text.find(needle, i + len(needle))
    return False


class Where:
    """In which functions the words stand that are asked about: {word: [(page, start, end, function)]}; a module's own
    code has no one place, its start is -1."""

    __slots__ = ("asked", "spots")

    def __init__(self, asked: set[str]) -> None:
        self.asked = asked
        self.spots: dict[str, list[Spot]] = {}


class Page:
    """The text of a module with the places of its functions."""

    __slots__ = ("ends", "functions", "main", "module", "starts", "text", "tokens")

    def __init__(self, program: Program, module: Module, where: Where | None = None) -> None:
        self.module = module
        self.text = program.text(module.path) or ""
        self.main = program.main(module)
        if "\r" in self.text:
            starts = list(accumulate(map(len, self.text.splitlines(keepends=True)), initial=0))
        else:
            starts = [*program.indexed(module.path)[1], len(self.text) + 1]
        last = len(starts) - 1
        placed = []
        for f in module.all_functions():
            placed.append((starts[min(f.first_line - 1, last)], starts[min(f.end_line, last)], f))
        placed.sort(key=lambda x: (x[0], x[1]))
        self.starts = [p[0] for p in placed]
        self.ends = [p[1] for p in placed]
        self.functions = [p[2] for p in placed]
        self.tokens: set[str] = words_of(self.text) if where is None else self.placed(where)

    def placed(self, where: Where) -> set[str]:
        """All words of the text; notes the functions in which those stand that `where` asks about."""
        text, asked, spots = self.text, where.asked, where.spots
        tokens: set[str] = set()
        outside: list[str] = []
        at = 0
        plain = text.isascii()
        spaced = text.encode().translate(SPACED).decode() if plain else text
        for start, end, f in zip(self.starts, self.ends, self.functions):
            if start > at:
                outside.append(text[at:start])
            words = set(spaced[start:end].split()) if plain else words_of(text[start:end])
            tokens |= words
            for word in words & asked:
                spots.setdefault(word, []).append((self, start, end, f))
            at = max(at, end)
        outside.append(text[at:])
        words = words_of("\n".join(outside))
        for word in words & asked:
            spots.setdefault(word, []).append((self, -1, len(text), self.main))
        return tokens | words

    def at(self, offset: int) -> Function:
        """The function (not a nested one) that holds an offset, or the module's own code."""
        n = self.number(offset)
        return self.functions[n] if n >= 0 else self.main

    def number(self, offset: int) -> int:
        """Which of the functions holds an offset; -1: none."""
        n = bisect_right(self.starts, offset) - 1
        while n >= 0:
            if offset < self.ends[n]:
                return n
            n -= 1
            if n >= 0 and self.ends[n] < self.starts[n + 1]:
                break
        return -1

    def in_prose(self, offset: int) -> bool:
        """Whether an offset lies in a docstring of a function."""
        n = self.number(offset)
        return n >= 0 and in_prose(self.text, offset, self.starts[n])

    def places(self, word: str, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where a word stands."""
        text = self.text
        size = len(word)
        i = text.find(word, start, end)
        while i >= 0:
            after = text[i + size : i + size + 1]
            if not (after.isalnum() or after == "_") and not (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
                yield i
            i = text.find(word, i + size, end)

    def places_in(self, word: str, start: int, end: int) -> Iterator[int]:
        """Where a word stands in one function; with a start of -1 in the module's own code."""
        if start >= 0:
            return self.places(word, start, end)
        return (i for i in self.places(word) if self.at(i) is self.main)

    def holding(self, *texts: str) -> list[Function]:
        """The functions in which one of the texts stands, in their order."""
        found: dict[int, Function] = {}
        for text in texts:
            i = self.text.find(text)
            while i >= 0:
                f = self.at(i)
                found[id(f)] = f
                i = self.text.find(text, i + len(text))
        return sorted(found.values(), key=lambda f: f.pos)

    def before(self, offset: int) -> str:
        """What stands before an offset in its line."""
        return self.text[self.text.rfind("\n", 0, offset) + 1 : offset]

    def line(self, offset: int) -> tuple[int, str]:
        """(start, text) of the line that holds an offset."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return start, self.text[start : end if end >= 0 else len(self.text)]


class Heat:
    """Spreads from the words of collectives along the names of functions. `hot` are ids of functions, `names` those by
    which they are called, `plain` those of them that are called without an object."""

    def __init__(self, suspects: Suspects, where: Where, counts: dict[str, int]) -> None:
        self.steps = suspects.steps
        self.plain_steps = suspects.plain_steps
        self.spots = where.spots
        self.counts = counts
        self.hot: set[int] = set()
        self.names: set[str] = set()
        self.plain: set[str] = set()

    def spread(self) -> None:
        fresh = self.seeds()
        while fresh:
            names: set[str] = set()
            for f in fresh:
                name = callable_name(f)
                if self.counts.get(name, 0) > COMMON or name.startswith("__"):
                    continue
                if name not in self.names:
                    names.add(name)
                if (f.owner is None or f.name == "__init__") and name not in self.plain:
                    names.add(name)
                    self.plain.add(name)
            self.names |= names
            fresh = []
            for name in names:
                plain = name in self.plain
                for page, start, end, f in self.spots.get(name, ()):
                    if id(f) not in self.hot and uses(page, name, start, end, plain):
                        self.hot.add(id(f))
                        fresh.append(f)

    def seeds(self) -> list[Function]:
        """Functions that name a collective."""
        found: dict[int, Function] = {}
        for words, runs in ((self.steps, taken), (self.plain_steps, communicates)):
            for word in words:
                for page, start, end, f in self.spots.get(word, ()):
                    if id(f) not in found and any(
                        runs(page, i, word) and in_code(page.text, i, start) for i in page.places_in(word, start, end)
                    ):
                        found[id(f)] = f
        self.hot.update(found)
        return list(found.values())


def in_prose(text: str, i: int, start: int) -> bool:
    """Whether a place in the function that starts at `start` lies in a text of several lines."""
    return bool(text.count('"""', start, i) % 2 or text.count("'''", start, i) % 2)


def in_code(text: str, i: int, start: int) -> bool:
    """Whether a place in the function that starts at `start` (-1: in none) is neither in a comment nor in a string;
    what an f-string holds in braces is code, and so is
    the name of an attribute."""
    if start >= 0 and in_prose(text, i, start):
        return False
    begin = text.rfind("\n", 0, i) + 1
    at = begin
    while True:
        # the next opening quote or comment before the place
        ends = [n for n in (text.find(c, at, i) for c in ("#", '"', "'")) if n >= 0]
        if not ends:
            return True
        at = min(ends)
        quote = text[at]
        if quote == "#":
            return False
        closed = text.find(quote, at + 1, i)
        while closed > 0 and text[closed - 1] == "\\":
            closed = text.find(quote, closed + 1, i)
        if closed < 0:
            return text.rfind("{", at, i) > text.rfind("}", at, i) or "getattr(" in text[begin:at]
        at = closed + 1


def uses(page: Page, name: str, start: int, end: int, plain: bool) -> bool:
    """Whether a name stands in a function where it can be called or handed on; `plain`: also without an object."""
    text, size = page.text, len(name)
    plain = plain and (name in page.module.names or bool(page.module.stars) or IMPORTED in text[max(start, 0) : end])
    for i in page.places_in(name, start, end):
        after = text[i + size : i + size + 1]
        if text[i - 1 : i] == ".":
            if foreign(text, i, name):
                continue
        elif (
            not plain
            or text[i - 4 : i] == "def "
            or not (after == "(" or (after in (",", ")") and handed_on(text, i, name, start)))
        ):
            continue
        if in_code(text, i, start):
            return True
    return False


IMPORTED = "import "


def handed_on(text: str, i: int, name: str, start: int) -> bool:
    """Whether a name before a comma or a bracket is given to somebody; a class may only be asked for or annotate."""
    return not (name[0].isupper() and NO_USE.search(text, max(start, i - 80, 0), i))


NO_USE = Later(r"(?:\b(?:isinstance|issubclass)\([^()]*,\s*\(?(?:[\w.]+,\s*)*|\w\s*:\s*)\Z")
"""Before a class that is only asked for (`isinstance(x, Trainer)`) or that annotates a parameter."""


def taken(page: Page, i: int, word: str) -> bool:
    """Whether the name of a collective stands where it is called or taken as a function: a variable, an argument or a
    key `state_dict` is none, nor is the definition of a method of that name."""
    text = page.text
    if text[i + len(word) : i + len(word) + 1] == "(":
        return text[i - 4 : i] != "def "
    before = page.before(i)
    if text[i - 1 : i] == ".":
        return not ASKED.match(before)  # `if args.push_to_hub:`
    bound = page.module.names.get(word)
    if bound is not None and bound[0] != "value":
        return True
    return IMPORTED in before or ("getattr(" in before and before[-1:] in ("'", '"'))


ASKED = Later(r"\s*(?:if|elif|while|assert|and|or|not)\b")
"""Before an attribute that is tested, not called."""


def communicates(page: Page, i: int, word: str) -> bool:
    """Whether a plain word is called on an object that can communicate: `dist.gather(`, not `torch.gather(`."""
    text = page.text
    if text[i + len(word) : i + len(word) + 1] != "(":
        return False
    if text[i - 1 : i] != ".":
        return text[i - 4 : i] != "def "
    if text[i - 2 : i - 1] in ("'", '"'):
        return False  # `", ".join(`
    holder = WORD.findall(text[max(0, i - 40) : i - 1])
    if not holder or COMMUNICATES.search(holder[-1].lower()):
        return True
    # every class of the package has this method: a metric of torchmetrics may have any name
    return any(r.family in page.tokens and knowledge.api(f"{r.family}.Any.{word}") for r in knowledge.methods(word))


def foreign(text: str, i: int, word: str) -> bool:
    """Whether the holder before a name says that it is not one of the project: `nn.Linear`, `kwargs.get`, `x.to`."""
    holder = WORD.findall(text[max(0, i - 24) : i - 1])
    last = holder[-1] if holder and text[i - 2 : i - 1] not in (")", "]") else ""
    return last in LIBRARIES or (word in PLAIN_METHODS and last not in OWN)
