"""Which functions can part the ranks: those whose text holds a rank and reaches a collective.

Only a filter; what a function does is decided by its trace. Names made from a rank count as ranks (`def is_world_zero(self):
return dist.get_rank() == 0`, `self.leader = rank == 0`), and what calls a name that reaches a collective reaches it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from re import compile

from ... import knowledge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Function, Module
    from ..program.program import Program

NEWLINE = compile(r"\r\n|\r|\n")
SHARDED = compile(r"fully_shard\(\s*\w+(?:\.\w+)*\.(\w+)\s*[,)]")
WORD = compile(r"[A-Za-z_]\w*")
CALLED = compile(r"(?:\b([A-Za-z_]\w*)\.)?\b([A-Za-z_]\w*)\(|\b(?:self|cls)\.([A-Za-z_]\w*)\b(?!\()")
GUARDING = compile(r"\b(?:if|while|elif|and|or|not|in|with|return|yield|lambda|assert)\b|==|!=|[<>]|^\s*@|range\(|::|except")
"""A line that can part the ranks; one that only passes a rank on cannot."""
FIELD = compile(r"^\s+\w+\.(\w+)(?:\s*:[^=]+)?\s*=(?!=)(.*)$")
GLOBAL = compile(r"^(\w+)(?:\s*:[^=]+)?\s*=(?!=)(.*)$")
TEST = compile(r"==|!=|\bnot\b|\bin\b|[<>]")
SMALL_CALL = compile(
    r"\w*(?:rank|RANK|ordinal|index|int|bool|str|getenv|get|environ|is_initialized|is_available)\w*\([^()]*\)"
)
DEFINED = compile(r"^(\s*)(?:async\s+)?def (\w+)\(")
HANDED_ON = compile(r"^\s*(?:return\s+|\w+\s*=\s*)?\w+\(\*")
SHORT = 14
"""A function of at most this many lines that returns a test of a rank is a rank predicate by name."""
RANK_KINDS = ("rank_source", "local_rank_source", "rank_predicate", "rank_guard_decorator", "first_context")
STEP_KINDS = (
    "collective",
    "method_collective",
    "group_create",
    "first_context",
    "forward_collective",
    "backward_collective",
)
SMALL = 80
"""Modules up to which a project's callers are asked for every parameter that is called like a model."""
DECISIONS = {"isnan", "isinf", "isfinite", "signal"}
"""Words of decisions that a rank takes on its own data."""
STEP = "<step>"
COMMUNICATES = compile(r"dist|comm|accel|fabric|strateg|trainer|hvd|^xm$|group|engine|metric|self|util|mpu|parallel|^pl|model|optim|state")
COMMON = 30
"""A name that more functions than this carry says nothing about which one is called."""


def rank_words() -> set[str]:
    """The words that stand for a rank: last names of the tables' rows, and identifiers that hint at one."""
    from ...knowledge._identifiers import WORDS

    out = {w for w, (kind, _) in WORDS.items() if kind in RANK_KINDS}
    for kind in RANK_KINDS:
        for q in knowledge.names(kind):
            last = q.rpartition(".")[2].rpartition(":")[2]
            if "rank" in last.lower() or "_" in last:
                out.add(last)
    return out


def step_words() -> tuple[set[str], set[str]]:
    """(names of collectives that say what they are, plain words such as `gather` that many objects have)."""
    rows = {q for kind in STEP_KINDS for q in knowledge.names(kind)}
    words = {w for q in rows if (w := q.rpartition(".")[2]) not in ("forward", "step", "backward")}
    strong = {w for w in words if "_" in w.strip("_") or w.startswith(("all", "barrier", "broadcast"))}
    return strong, words - strong


class Suspects:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.words = rank_words() | DECISIONS
        self.steps, self.plain_steps = step_words()
        self.wraps = {q.rpartition(".")[2] for q in knowledge.names("wraps_model")} | {"DDP", "FSDP"}
        self.hot_names: set[str] = set()
        self._hot: set[int] = set()
        self._ranked: set[int] = set()
        self._known: dict[int, bool] = {}
        self._calls: dict[int, frozenset[str]] = {}
        self._found = False
        self.wrapping: set[str] = set()
        self._tokens: dict[str, set[str]] = {}
        self._starts: dict[str, list[int]] = {}
        self._sharded: dict[str, frozenset[str]] = {}
        self.callers_of: dict[str, list[Function]] = {}

    def functions(self) -> list[Function]:
        """Functions to look at, in the order of files and lines."""
        from posixpath import dirname

        self.find()
        out = []
        for module in self.modules():
            near = dirname(module.path) in self.wrapping
            for f in (*module.all_functions(), self.program.main(module)):
                if id(f) in self._ranked and (id(f) in self._hot or near):
                    out.append(f)
        return out

    def modules(self) -> list[Module]:
        return [m for p, m in list(self.program.modules.items()) if p not in self.program.loaded_on_demand]

    def find(self) -> None:
        if self._found:
            return
        self._found = True
        modules = self.modules()
        for module in modules:
            self.learn(module)
        by_name: dict[str, list[Function]] = {}
        callers = self.callers_of
        from posixpath import dirname

        for module in modules:
            text = self.program.text(module.path) or ""
            if any(w in text for w in self.wraps):
                self.wrapping.add(dirname(module.path))
            for f in module.all_functions():
                by_name.setdefault(callable_name(f), []).append(f)
        todo: list[Function] = []
        for module in modules:
            text = self.program.lines(module.path)
            lines = [n for n in self.ranked_lines(module) if GUARDING.search(text[n - 1])]
            tokens = self.tokens(module)
            if tokens.isdisjoint(self.steps) and tokens.isdisjoint(self.plain_steps) and tokens.isdisjoint(by_name):
                continue
            for f in (*module.all_functions(), self.program.main(module)):
                calls = self.calls(f)
                for name in calls:
                    if name in by_name:
                        callers.setdefault(name, []).append(f)
                if STEP in calls or not calls.isdisjoint(self.steps):
                    todo.append(f)
                if lines:
                    at = bisect_left(lines, f.first_line)
                    if at < len(lines) and lines[at] <= f.end_line:
                        self._ranked.add(id(f))
        while todo:
            f = todo.pop()
            if id(f) in self._hot:
                continue
            self._hot.add(id(f))
            name = callable_name(f)
            if name not in self.hot_names and len(by_name.get(name, ())) <= COMMON:
                self.hot_names.add(name)
                todo += callers.get(name, ())

    def text_of(self, f: Function) -> str:
        lines = self.program.lines(f.module.path)
        return "\n".join(lines[f.first_line - 1 : f.end_line])

    def calls(self, f: Function) -> frozenset[str]:
        """Names that the text of a function calls or reads from self."""
        known = self._calls.get(id(f))
        if known is None:
            found = set()
            for holder, called, read in CALLED.findall(self.text_of(f)):
                if called in self.plain_steps and (holder == "" or COMMUNICATES.search(holder.lower())):
                    found.add(STEP)
                found.add(called or read)
            found.discard(f.name)
            known = self._calls[id(f)] = frozenset(found)
        return known

    def sharded(self, module: Module, field: str) -> bool:
        """Whether the module hands a field of this name to an in-place wrapper: `fully_shard(net.encoder, ...)`."""
        known = self._sharded.get(module.path)
        if known is None:
            found: list[str] = []
            if "fully_shard" in self.tokens(module):
                found = SHARDED.findall(self.program.text(module.path) or "")
            known = self._sharded[module.path] = frozenset(found)
        return field in known

    def is_ranked(self, f: Function) -> bool:
        return id(f) in self._ranked

    def asks(self, f: Function, name: str) -> bool:
        """Whether what callers pass for a parameter can matter: its name is that of a rank, or a rank or a collective is
        read from it; in a small project also when it is called like a model."""
        if name in self.words:
            return True
        text = self.text_of(f)
        for word in compile(rf"\b{name}\.(\w+)").findall(text):
            if word in self.words or word in self.steps or word in self.plain_steps:
                return True
        return len(self.program.modules) <= SMALL and bool(self.wrapping) and f"{name}(" in text

    def tokens(self, module: Module) -> set[str]:
        known = self._tokens.get(module.path)
        if known is None:
            known = self._tokens[module.path] = set(WORD.findall(self.program.text(module.path) or ""))
        return known

    def matters(self, f: Function) -> bool:
        """Whether following a call of this function can tell anything about ranks."""
        known = self._known.get(id(f))
        if known is None:
            known = id(f) in self._hot or id(f) in self._ranked or not self.tokens(f.module).isdisjoint(self.wraps)
            if not known and self._found:
                words = set(WORD.findall(self.text_of(f)))
                calls = self.calls(f)
                known = bool(words & self.words or words & self.steps or STEP in calls or calls & self.hot_names)
            self._known[id(f)] = known or not self._found
        return self._known[id(f)]

    def ranked_lines(self, module: Module) -> list[int]:
        """The numbers of the lines that hold a rank word, in order."""
        here = self.tokens(module) & self.words
        if not here:
            return []
        text = self.program.text(module.path) or ""
        starts = self._starts.get(module.path)
        if starts is None:
            starts = self._starts[module.path] = [0, *[m.end() for m in NEWLINE.finditer(text)]]
        words = compile(r"\b(?:" + "|".join(sorted(here)) + r")\b")
        out: list[int] = []
        for m in words.finditer(text):
            number = bisect_right(starts, m.start())
            if not out or out[-1] != number:
                out.append(number)
        return out

    def learn(self, module: Module) -> None:
        """Names that are made from a rank here."""
        if self.tokens(module).isdisjoint(self.words):
            return
        lines = self.program.lines(module.path)
        for number in self.ranked_lines(module):
            line = lines[number - 1]
            assigned = FIELD.match(line) or GLOBAL.match(line)
            if assigned and self.is_test(assigned.group(2)):
                self.words.add(assigned.group(1))
                continue
            stripped = line.lstrip()
            if stripped.startswith("return") and self.is_test(stripped[6:]):
                self.define(lines, number, 1)
            elif stripped.startswith("if ") and number < len(lines) and HANDED_ON.match(lines[number]):
                self.define(lines, number, 2)

    def is_test(self, text: str) -> bool:
        """`rank == 0`, `not is_main()`, `dist.get_rank()`: nothing else in it."""
        if len(text) > 120:
            return False
        left = SMALL_CALL.sub("", SMALL_CALL.sub("", text))
        return "(" not in left.strip().strip("()") and (
            bool(TEST.search(left)) or left.strip(" .\n")[-1:] in ("", "]", ")") or "rank" in left
        )

    def define(self, lines: list[str], number: int, levels: int) -> None:
        """The functions around a line, up to two levels (a decorator and its wrapper)."""
        indent = len(lines[number - 1])
        for back in range(number - 1, max(0, number - 1 - SHORT), -1):
            defined = DEFINED.match(lines[back - 1])
            if defined and len(defined.group(1)) < indent:
                indent = len(defined.group(1))
                if not defined.group(2).startswith("__"):
                    self.words.add(defined.group(2))
                levels -= 1
                if not levels:
                    return


def callable_name(f: Function) -> str:
    """The name by which a function is called: a class for its constructor."""
    return f.owner.name if f.name == "__init__" and f.owner is not None else f.name
