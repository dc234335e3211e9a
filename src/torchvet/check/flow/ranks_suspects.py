"""Which functions can part the ranks: those whose text holds a rank and reaches a collective.

Only a filter; what a function does is decided by its trace. Names made from a rank count as ranks (`def
is_world_zero(self):
return dist.get_rank() == 0`, `self.leader = rank == 0`), and what calls a name that reaches a collective reaches it.
Looked up
word by word in the texts: searching a text for one word is a thousand times faster than walking its tree.
"""

from __future__ import annotations

from posixpath import dirname

from ... import knowledge
from ..source.patterns import Later
from .ranks_pages import COMMON, LARGE, Heat, Page, Where, callable_name, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..program.model import Function, Module
    from ..program.program import Program

WORD = Later(r"[A-Za-z_]\w*")
PART = Later(r"\w+")
CALLED = Later(r"([A-Za-z_]\w*)\(")
FIELD = Later(r"^\s+\w+\.(\w+)(?:\s*:[^=]+)?\s*=(?!=)(.*)$")
GLOBAL = Later(r"^(\w+)(?:\s*:[^=]+)?\s*=(?!=)(.*)$")
TEST = Later(r"==|!=|\bnot\b|\bin\b|[<>]")
ALIAS = Later(r"(?:not\s+)?(?:\w+\.)*(\w+)\s*(?:#.*)?$")
SMALL_CALL = Later(
    r"\w*(?:rank|RANK|ordinal|index|int|bool|str|getenv|get|environ|is_initialized|is_available)\w*\([^()]*\)"
)
OUTERMOST = Later(r"(?m)^(?:def|class|@|async|if|try)\b|^@")
DEFINED = Later(r"^(\s*)(?:async\s+)?def (\w+)\(")
SIGNALLED = Later(r"signal\.signal\([^\n]*?(\w+)\s*\)")
FLAG = Later(r"(?m)^\s+\w+(?:\.\w+)*\.(\w+)\s*=\s*(?:True|False|0)\s*(?:#.*)?$")
SHARED = Later(r"(?m)^\s+global ([\w, ]+)$")
HANDED_ON = Later(
    r"^\s*(?:return\s+|[\w.\[\]]+\s*=\s*)?(?:\w+\(\*|(?:self\.)?\w*(?:fn|func|function|callback|callable|method)\()"
)
SET_LOOP = Later(r"\bfor [^\n]* in (?:list\(|tuple\(|enumerate\()?set\(")
SLICE = Later(r"\[[^\[\]\n'\"]*:[^\[\]\n]*\]")
TURNS = Later(r"% *[\w.]+(?:\(\))? *[!=]=")
"""`i % world == rank`"""
OVER_FIELD = Later(r"\bfor [^\n]* in (?:list\(|tuple\(|enumerate\()?self\.\Z")
SET_FIELD = Later(r"self\.(\w+)(?:\s*:[^=\n]+)?\s*=\s*set\(")
# plain characters first: `re` looks for them quickly
HANDLER = Later(r"except(?<=\bexcept)\b([^\n]*):[^\n]*\n((?:[ \t]+[^\n]*\n){1,5})")
LEAVING = {"continue", "break"}
DATA_TEST = Later(
    r"if\b(?<=[ \tl]if)[^\n#]*(?:\.(?:item|any|all|sum|max|min|mean|norm)\([^\n]*:|\bloss\w*(?:\.\w+\(\))*\s*[<>])"
)
"""A decision on the values of a tensor: those of a batch are this rank's own."""
LEFT = Later(
    r"if\b(?<=[ \tl]if)(?:[^\n]*(?:[<>]|[!=]=)|[ \t]+(?:not[ \t]+)?[\w.]+[ \t]*:|[^\n]*\)[ \t]*:)[^\n]*\n"
    r"(?:[^\n]*\n){0,3}?[ \t]+(?:break|return)\b"
)
"""A test of a number, a flag or an answer above a way out."""
BETTER = Later(r"if\b(?<=[ \tl]if)(?=[^\n]*(?:best|loss|acc|score|metric|val|err|ppl|perplex))[^\n]*[<>]")
"""A comparison of what a model was found to do."""
ENDED = Later(r"while\b(?<=[ \t]while)[^\n]*\w\.\w[^\n]*:")
"""A loop that goes on as long as an object says."""
OPTIONAL = Later(r"if\b(?<=[ \tl]if)(?:[^\n]*\bNone\b|[ \t]+(?:not[ \t]+)?\w+[ \t]*:)")
"""A test of a batch that may not be there."""
TRAINING_LOOP = Later(r"(?:for|while) [^\n]*(?:poch|oader|batch|_dl\b|\bdl\b)")
CLOCKS = ("time()", "monotonic()", "perf_counter()")
COMPARED = Later(r"[<>]")
CLOCK_TEST = Later(
    r"\b(?:if|while)\b[^\n#]*(?:[Tt]ime|TIME|elapsed|monotonic|perf_counter|deadline|hours|minutes|seconds)[^\n#]*[<>]"
    r"|\b(?:if|while)\b[^\n#]*[<>][^\n#]*(?:[Tt]ime|TIME|elapsed|deadline|hours|minutes|seconds)"
)
"""A decision by the clock, which each rank reads for itself."""
CALLABLE = Later(r"(?:func|fn|function|callback|closure)$")
SPAWNED = Later(r"\bspawn\(\s*(?:fn\s*=\s*)?(\w+)")
SHARDED = Later(r"fully_shard\(\s*\w+(?:\.\w+)*\.(\w+)\s*[,)]")
GUARDING = Later(
    r"^\s*(?:if|elif|while|return|with|assert|for|yield|except|match|and|or|not|@)\b|^\s*@|==|!=|[<>]|\bif\b.*\belse\b"
    r"|[=(].*\b(?:and|or|not|in)\b|range\(|::|lambda|get_rank\(\w"
)
"""A line that can part the ranks; one that only passes a rank on cannot."""
NUMBER = Later(r"[ \t]*(\w+)[ \t]*=(?!=)")
COUNTED = Later(r"\brange\(([^\n]*)")
SEEDED = Later(r"\bRandom(?:State)?\(|default_rng\(")
LOOPED = Later(r"\bfor\b[^\n]* in ([^\n]*):\n")
GIVEN = Later(r"\b(\w+)\(([^\n()]*)")
DECIDING_LINE = Later(r"(?:if|while|for|with|assert)\b[^\n]*:")
SHORT = 14
"""A function of at most this many lines that returns a test of a rank is a rank predicate by name."""
RANK_VARIABLES = frozenset(("RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK"))
RANK_KINDS = (
    "rank_source",
    "local_rank_source",
    "rank_predicate",
    "rank_guard_decorator",
    "first_context",
    "share_context",
)
STEP_KINDS = (
    "collective",
    "method_collective",
    "group_create",
    "first_context",
    "forward_collective",
    "backward_collective",
)
SHARE_KINDS = ("share_source", "split_source")
NUMBER_TESTS = {"isnan", "isinf", "isfinite"}
DECISIONS = {"isnan", "isinf", "isfinite", "signal"}
"""Words of decisions that a rank takes on its own data."""
MEDIUM = 400
"""Files up to which every function beside a wrapped model is followed: the model may be a global name."""
SHARDERS = {"fully_shard"}
PREPARING = {"Accelerator", "prepare"}
"""Words of a module that wraps its model with accelerate; `prepare` alone is too common."""
SMALL = 80
"""Modules up to which a project's callers are asked for every parameter that is called like a model."""


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
        self.wraps.discard("prepare")
        rows = [r for kind in STEP_KINDS[:2] for q in knowledge.names(kind) if (r := knowledge.api(q))]
        self.of_wrapped = {r.last for r in rows if (r.when or "")[:8] == "wrapped "}
        """Functions that communicate where they are given a wrapped model."""
        self.rooted = {r.last: r.root.partition(" ") for r in rows if r.root}
        """Collectives with a source or destination, and its keyword and position."""
        self.roots = {keyword for keyword, _, _ in self.rooted.values()}
        self.handing = {q.rpartition(".")[2] for kind in SHARE_KINDS for q in knowledge.names(kind)} | set(self.rooted)
        """Names of calls to which a rank is handed because it decides something."""
        self.stops = {q.rpartition(".")[2]: r for q in knowledge.names("stop_flag") if (r := knowledge.api(q))}
        """Fields by which a callback ends the loop of a framework."""
        self.flags: set[str] = set()
        """Fields that are written under a rank test or by a signal handler."""
        self.hot_names: set[str] = set()
        self.plain_names: set[str] = set()
        """Those of them that are called without an object."""
        self.wrapping: set[str] = set()
        self.pages: dict[str, Page] = {}
        self.searched: set[str] = set()
        self._hot: set[int] = set()
        self._ranked: set[int] = set()
        self._known: dict[int, bool] = {}
        self._sharded: dict[str, frozenset[str]] = {}
        self._callers: dict[str, list[Function]] = {}
        self._needles: set[str] = set()
        self._barren: dict[tuple[str, str], bool] = {}
        self.counts: dict[str, int] = {}
        """How many functions carry a name."""
        self.spawned: set[str] = set()
        """Names of functions that are started with the number of their process."""
        self.unordered = {"set"}
        """Names of what has another order in each process: `set(...)`, fields that hold one."""
        self._deciding: set[int] = set()
        self._found = False

    def functions(self) -> list[Function]:
        """Functions to look at, in the order of files and lines."""
        self.find()
        out = []
        may_run = self.may_run()
        for page in list(self.pages.values()):
            near = dirname(page.module.path) in self.wrapping
            # a test sets up and tears down through helpers: only what it runs itself is a finding
            testing = page.module.is_test
            for f in (*page.functions, page.main):
                if id(f) not in self._ranked or (testing and not self.direct(f)):
                    continue
                if id(f) in self._hot or (near and may_run(f)):
                    out.append(f)
        return out

    def near(self, f: Function) -> bool:
        """Whether a model is wrapped in the function's folder."""
        return dirname(f.module.path) in self.wrapping

    def may_run(self) -> Callable[[Function], bool]:
        """The question whether a function can run a wrapped model; in a small project every one of them may."""
        if len(self.program.files) <= LARGE:
            return lambda f: True
        from .ranks_near import Near

        return Near(self).may_run

    def direct(self, f: Function) -> bool:
        """Whether the text of a function itself names a collective, and a rank on a line that decides."""
        text = self.text_of(f)
        return not words_of(text).isdisjoint(self.steps) and any(
            not words_of(line).isdisjoint(self.words) for line in DECIDING_LINE.findall(text)
        )

    def find(self) -> None:
        if self._found:
            return
        self._found = True
        program = self.program
        counts = self.counts
        modules = [(p, m) for p, m in program.modules.items() if p not in program.loaded_on_demand]
        for _, module in modules:
            for f in module.all_functions():
                name = callable_name(f)
                counts[name] = counts.get(name, 0) + 1
        spreading = {n for n, count in counts.items() if count <= COMMON and not n.startswith("__")}
        where = Where(spreading | self.steps | self.plain_steps)
        for path, module in modules:
            page = self.pages[path] = Page(program, module, where)
            self.searched.add(path)
            if not page.tokens.isdisjoint(self.wraps) or page.tokens >= PREPARING:
                self.wrapping.add(dirname(path))
        for page in self.pages.values():
            self.learn(page)
        self.learn_constants()
        for page in self.pages.values():
            self.rank(page, counts)
        heat = Heat(self, where, counts)
        heat.spread()
        self._hot, self.hot_names, self.plain_names = heat.hot, heat.names, heat.plain
        for page in self.pages.values():
            for name in page.tokens & self.stops.keys():
                self._hot |= {id(page.at(i)) for i in page.places(name) if page.line(i)[1].lstrip()[:3] != "if "}

    def rank(self, page: Page, counts: dict[str, int]) -> None:
        """Functions with a line on which a rank can decide something, or is handed to a function of the project."""
        if "set" in page.tokens:
            fields: set[str] = set()
            i = page.text.find("set(")
            while i >= 0:
                start, line = page.line(i)
                if SET_LOOP.search(line):
                    self._ranked.add(id(page.at(i)))
                fields.update(SET_FIELD.findall(line))
                i = page.text.find("set(", start + len(line))
            for field in fields:
                for i in page.places(field):
                    if OVER_FIELD.search(page.before(i)):
                        self._ranked.add(id(page.at(i)))
                        self.unordered.add(field)
        if "except" in page.tokens:
            for m in HANDLER.finditer(page.text):
                words = set(WORD.findall(m.group(2)))
                if words & LEAVING or "StopIteration" in m.group(1) or not words.isdisjoint(self.steps):
                    self._ranked.add(id(page.at(m.start())))
        if "loader" in page.text or "Loader" in page.text or "training_step" in page.tokens:
            for m in DATA_TEST.finditer(page.text):
                if page.before(m.start()).strip() in ("", "el"):
                    self._deciding.add(id(page.at(m.start())))
        wraps = not page.tokens.isdisjoint(self.wraps)
        if "DistributedSampler" in page.tokens or page.tokens >= PREPARING or (wraps and ".backward(" in page.text):
            self.by_own_data(page)
        if "time" in page.tokens and any(c in page.text for c in CLOCKS):
            seen = -1
            for m in COMPARED.finditer(page.text):
                if m.start() > seen:
                    start, line = page.line(m.start())
                    seen = start + len(line)
                    if CLOCK_TEST.search(line):
                        self._deciding.add(id(page.at(m.start())))
        self._ranked |= self._deciding
        if "spawn" in page.tokens:
            names = set(SPAWNED.findall(page.text))
            self.spawned |= names
            self._ranked.update(id(f) for p in self.pages.values() for f in p.functions if f.name in names)
        for word in page.tokens & self.words:
            for i in page.places(word):
                f = page.at(i)
                if id(f) in self._ranked:
                    continue
                line = page.line(i)[1].partition("#")[0]
                decides = GUARDING.search(line) or any(n in counts or n in self.handing for n in CALLED.findall(line))
                decides = decides or not self.roots.isdisjoint(WORD.findall(line))
                decides = decides or self.counts_turns(f, line)
                if "seed" in line or SEEDED.search(line):
                    self._deciding.add(id(f))
                    decides = True
                if decides and not page.in_prose(i):
                    self._ranked.add(id(f))
                    self._ranked.add(id(page.main))

    def counts_turns(self, f: Function, line: str) -> bool:
        """Whether a line makes a number that a loop counts to (`n = total // world + (rank < total % world)`), what a
        loop runs over, or the source of a collective."""
        made = NUMBER.match(line)
        if made is None:
            return False
        text = self.text_of(f)
        given = (
            COUNTED.findall(text) + LOOPED.findall(text) + [x for name, x in GIVEN.findall(text) if name in self.rooted]
        )
        return any(made[1] in WORD.findall(x) for x in given)

    def by_own_data(self, page: Page) -> None:
        """Functions with a loop over epochs or batches that may decide by this rank's loss in training, or by its share
        of the data."""
        for pattern in (LEFT, BETTER, ENDED, OPTIONAL)[: 4 if "collate_fn" in page.tokens else 3]:
            for m in pattern.finditer(page.text):
                f = page.at(m.start())
                if id(f) not in self._deciding:
                    text = self.text_of(f)
                    known = "DistributedSampler" in page.tokens or ".backward(" in text or ".prepare(" in text
                    if known and TRAINING_LOOP.search(text):
                        self._deciding.add(id(f))

    def learn(self, page: Page) -> None:
        """Names that are made from a rank here."""
        here = page.tokens & self.words
        if not here:
            return
        for cls in page.module.classes.values():
            if "__iter__" in cls.methods:
                lines = self.program.lines(page.module.path)
                text = "\n".join(lines[cls.first_line - 1 : cls.end_line])
                shares = "range(" in text or TURNS.search(text) or SLICE.search(text)
                if shares and not (self.words - DECISIONS).isdisjoint(WORD.findall(text)):
                    self.words.add(cls.name)  # iterating over it may give each rank its share
        if "signal" in page.tokens:
            for handler in set(SIGNALLED.findall(page.text)):
                for f in page.functions:
                    if f.name == handler:
                        text = self.text_of(f)
                        self.flags.update(FLAG.findall(text))
                        self.words |= self.flags
                        self.words.update(w for line in SHARED.findall(text) for w in PART.findall(line))
        done: set[int] = set()
        for _ in range(3):  # `self.is_main = self.rank == 0`, then `return self.is_main`
            known = set(self.words)
            self.learn_lines(page, here, done)
            here = (self.words - known) & page.tokens
            if not here:
                break

    def learn_constants(self) -> None:
        """Constants made from a rank in files that hold nothing else of interest: `from settings import IS_MAIN`."""
        asked: set[tuple[str, str]] = set()
        for path, page in self.pages.items():
            for bound in page.module.names.values():
                if bound[0] == "from" and bound[2].isupper() and bound[2] not in self.words:
                    home = self.program.find(path, bound[1], bound[3])
                    if home is not None and home not in self.pages and (home, bound[2]) not in asked:
                        asked.add((home, bound[2]))
                        if self.made_of_rank(self.program.text(home) or "", bound[2], 0):
                            self.words.add(bound[2])

    def made_of_rank(self, text: str, name: str, depth: int) -> bool:
        """Whether a module's text assigns a rank, or a test of one, to a name."""
        i = text.find(f"\n{name} =")
        if not (i >= 0 or text.startswith(f"{name} =")) or depth > 3:
            return False
        start = i + 1
        line = text[start : text.find("\n", start) if "\n" in text[start:] else len(text)].partition("=")[2]
        words = set(WORD.findall(line)) - {name}
        if not words.isdisjoint(self.words) or not RANK_VARIABLES.isdisjoint(WORD.findall(line)):
            return True
        return any(w.isupper() and self.made_of_rank(text, w, depth + 1) for w in words)

    def learn_lines(self, page: Page, here: set[str], done: set[int]) -> None:
        for word in here:
            for i in page.places(word):
                start, line = page.line(i)
                if start in done:
                    continue
                done.add(start)
                assigned = FIELD.match(line) or GLOBAL.match(line)
                if assigned and is_test(assigned.group(2)):
                    self.words.add(assigned.group(1))
                    continue
                stripped = line.lstrip()
                gives = stripped.startswith("return") and (word in NUMBER_TESTS or is_test(stripped[6:]))
                if gives or (stripped.startswith("return ") and is_alias(stripped[7:], word)):
                    self.define(page.text[:start], line, 1)
                elif stripped.startswith("if "):
                    self.learn_flags(page.text, start + len(line) + 1, len(line) - len(stripped))
                if stripped.startswith("if ") and HANDED_ON.match(page.line(start + len(line) + 1)[1]):
                    self.define(page.text[:start], line, 2)

    def learn_flags(self, text: str, start: int, indent: int) -> None:
        """Fields that are set to a plain value under a rank test: what reads them depends on the rank as well."""
        for line in text[start : start + 600].split("\n")[:8]:
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                return
            flag = FLAG.match(line)
            if flag:
                self.flags.add(flag.group(1))
                self.words.add(flag.group(1))

    def define(self, before: str, line: str, levels: int) -> None:
        """The functions around a line, up to two levels (a decorator and its wrapper)."""
        indent = len(line)
        for text in reversed(before[-1500:].split("\n")[-SHORT - 1 :]):
            defined = DEFINED.match(text)
            if defined and len(defined.group(1)) < indent:
                indent = len(defined.group(1))
                if not defined.group(2).startswith("__"):
                    self.words.add(defined.group(2))
                levels -= 1
                if not levels:
                    return

    # ----------------------------------------------------------------------------------------------- questions
    def text_of(self, f: Function) -> str:
        return self.program.text_of(f).removesuffix("\n")

    def matters(self, f: Function) -> bool:
        """Whether following a call of this function can tell anything about ranks."""
        known = self._known.get(id(f))
        if known is None:
            known = id(f) in self._hot or id(f) in self._ranked or not self._found
            if not known and f.module.path in self.searched and f.parent is None:
                wraps = self.wraps if len(self.program.files) <= MEDIUM else SHARDERS
                known = not self.tokens(f.module).isdisjoint(wraps)
                if known and wraps is SHARDERS:
                    known = any(f"{w}(" in (self.program.text(f.module.path) or "") for w in SHARDERS)
            elif not known:
                words = words_of(self.text_of(f))
                known = not (
                    words.isdisjoint(self.words)
                    and words.isdisjoint(self.steps)
                    and (f.parent is None or words.isdisjoint(self.plain_steps))  # `dist.gather` in a nested function
                    and (f.module.path not in self.searched or words.isdisjoint(self.hot_names))
                )
            self._known[id(f)] = known
        return known

    def barren(self, path: str, name: str) -> bool:
        """Whether a class or function of a file that was not searched cannot matter for ranks: its own text names no
        rank and no collective, nor does a base class that reaches one. Parsing the file would cost more than it tells.
        """
        if path in self.searched or not self._found:
            return False
        known = self._barren.get((path, name))
        if known is None:
            known = self._barren[path, name] = self._tells_nothing(self.program.text(path) or "", name)
        return known

    def _tells_nothing(self, text: str, name: str) -> bool:
        needles = self.needles()
        if name in needles or name in self.hot_names:
            return False
        start = text.find(f"\nclass {name}") + 1
        if not start:
            start = text.find(f"\ndef {name}(") + 1
        elif text[start + 6 + len(name)] not in "(:":
            return False
        if not start:
            return False  # imported there, or a variable
        end = OUTERMOST.search(text, start + 1)
        body = text[start : end.start() if end else len(text)]
        bases = body[: body.find(":")] if body.startswith("class") else ""
        if "Module" in bases or not needles.isdisjoint(WORD.findall(bases)):
            return False
        words = words_of(body)
        return words.isdisjoint(self.words) and words.isdisjoint(self.steps) and words.isdisjoint(self.wraps)

    def needles(self) -> set[str]:
        """Names of functions, and classes of methods, that hold a rank or reach a collective."""
        if not self._needles:
            self._needles = set()
            for page in self.pages.values():
                for f in page.functions:
                    if id(f) in self._hot or id(f) in self._ranked:
                        self._needles.add(f.owner.name if f.owner is not None else f.name)
        return self._needles

    def is_ranked(self, f: Function) -> bool:
        return id(f) in self._ranked

    def decides(self, f: Function) -> bool:
        """Whether the text of a function decides by the values of its data, or by the clock."""
        return id(f) in self._deciding

    def is_hot(self, f: Function) -> bool:
        """Whether the function reaches a collective by the names it calls."""
        return id(f) in self._hot

    def tokens(self, module: Module) -> set[str]:
        page = self.pages.get(module.path)
        if page is None:
            page = self.pages[module.path] = Page(self.program, module)
        return page.tokens

    def callers(self, name: str) -> list[Function]:
        """Functions whose text calls a name."""
        known = self._callers.get(name)
        if known is None:
            known = self._callers[name] = []
            for page in list(self.pages.values()):
                if name in page.tokens:
                    for i in page.places(name):
                        if page.text[i + len(name) : i + len(name) + 1] == "(" and page.text[i - 4 : i] != "def ":
                            f = page.at(i)
                            if f not in known:
                                known.append(f)
        return known

    def asks(self, f: Function, name: str) -> bool:
        """Whether what callers pass for a parameter can matter: its name is that of a rank, or a rank or a
        collective is
        read from it; in a small project also when it is called like a model."""
        if name in self.words or name.endswith("seed") or ("oader" in name and id(f) in self._deciding):
            return True
        text = self.text_of(f)
        called = calls_name(text, name)
        if called and CALLABLE.search(name):
            return True
        if self.wrapping and any(f"{w}({name}" in text for w in self.of_wrapped):
            return True
        if name + "." in text:
            for word in read_from(text, name + "."):
                if word in self.words or word in self.steps or word in self.plain_steps:
                    return True
        return called and bool(self.wrapping) and len(self.program.modules) <= SMALL

    def sharded(self, module: Module, field: str) -> bool:
        """Whether the module hands a field of this name to an in-place wrapper: `fully_shard(net.encoder, ...)`."""
        known = self._sharded.get(module.path)
        if known is None:
            found: Iterable[str] = ()
            if "fully_shard" in self.tokens(module):
                found = SHARDED.findall(self.program.text(module.path) or "")
            known = self._sharded[module.path] = frozenset(found)
        return field in known


def calls_name(text: str, name: str) -> bool:
    """Whether a plain name is called in a text: `model(x)`, not `self.model(x)` or `load_model(x)`."""
    i = text.find(f"{name}(")
    while i >= 0:
        before = text[i - 1 : i]
        if not (before.isalnum() or before == "_" or before == "."):
            return True
        i = text.find(f"{name}(", i + 1)
    return False


def read_from(text: str, start: str) -> Iterator[str]:
    """The words that stand behind `name.`; one pattern for all names: compiling one costs 0.3 ms."""
    i = text.find(start)
    while i >= 0:
        found = PART.match(text, i + len(start))
        if found and not (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
            yield found.group()
        i = text.find(start, i + len(start))


def is_alias(text: str, word: str) -> bool:
    """`self.is_main`, `not is_main`: a name for a rank test, and nothing else."""
    found = ALIAS.match(text)
    return found is not None and found.group(1) == word


def is_test(text: str) -> bool:
    """`rank == 0`, `not is_main()`, `dist.get_rank()`: nothing else in it."""
    if len(text) > 120:
        return False
    left = SMALL_CALL.sub("", SMALL_CALL.sub("", text))
    if "(" in left.strip().strip("()"):
        return False
    return bool(TEST.search(left)) or left.strip(" .\n")[-1:] in ("", "]", ")") or "rank" in left
