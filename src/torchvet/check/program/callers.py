"""Where functions are called: an index of the words before brackets, then, by text and names, which of those calls can
mean a function before anything is resolved: most calls of a common name (`train`, `update`) are of something else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from posixpath import dirname

from ..source.patterns import Later
from ..source.search import searchable
from ..source.walk import in_tests
from .model import COMPOUND, blocks_of, collect_expr, definitions, expressions_of
from .names import call_targets

NO_USE, OWN_USE, USE = 0, 1, 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .model import Block, Class, Expr, Function, Module
    from .names import Scope

    Paths = frozenset[str] | None
    Site = tuple[Function, Expr]

    from array import array

MOST_LISTS = 200
"""Files whose lines are indexed by lists of numbers; arrays take a twentieth of the memory, and 1 ms to load."""
NEAR_FILES = 400
"""Files of a project up to which every one of them is searched for callers; above, only the parsed ones."""
BEHIND = 1 << 30
"""Rank of the first of them: parsed modules come first."""
FEW_NAMES = 16
"""Names looked for in the texts one by one before all names are indexed."""
RECENT = 256
"""Texts of functions that are kept."""
OF_MODULE = Later(r"(?<![\w.)\]}\"'])([A-Za-z_]\w*)\.$")
"""What stands before an attribute that is called: one plain name."""
OPENED = Later(r"\(\w+")
"""A name before an opening bracket, in a text that is read backwards."""


class Sites:
    """The part of `Program` that knows texts and callers."""

    modules: dict[str, Module]
    files: list[str]

    def __init__(self) -> None:
        self._callers: dict[tuple[int, int, Paths, bool], list[Site]] = {}
        self._more_callers: dict[tuple[int, int, Paths, bool], Iterator[Site]] = {}
        self._sites: dict[tuple[str, str], tuple[list[Site], Iterator[Site]]] = {}
        self._near: dict[str, dict[str, int]] = {}
        """By project: {file: rank} of all its files, when they are few; ranks come behind those of modules."""
        self._ranks: dict[str, int] = {}
        """{path: rank} of the modules in the order in which they came; those that came since are not in it yet."""
        self._uses: dict[str, dict[str, int]] = {}
        self._called: dict[str, frozenset[str]] = {}
        self._sorted: list[str] = []
        self._named: set[str] = set()
        """The files of which all names are indexed."""
        self._near_named: set[int] = set()
        self._naming: dict[str, list[str]] = {}
        """The indexed files that call or define something of a name; those below a folder of tests apart."""
        self._tests_naming: dict[str, list[str]] = {}
        self._tests: list[str] = []
        """Files of tests that are not indexed yet: not everybody asks about them."""
        self._calling: dict[tuple[str, str], list[int]] = {}
        self._starts: dict[str, tuple[str, Sequence[int]]] = {}
        self._recent: dict[Function | Class, str] = {}
        """Texts that were cut out lately: each is asked for a few times in a row, all of them are the files again."""
        self._spans: dict[str, list[tuple[int, int, int, Function]]] = {}

    if TYPE_CHECKING:

        def text(self, path: str) -> str | None: ...
        def lines(self, path: str) -> list[str]: ...
        def find(self, importer: str, dotted: str, level: int = 0) -> str | None: ...
        def module(self, path: str) -> Module | None: ...
        def main(self, module: Module) -> Function: ...
        def project_root(self, folder: str) -> str | None: ...
        def body(self, function: Function) -> Block: ...
        def scope(self, function: Function) -> Scope: ...
        def may_define(self, function: Function) -> bool: ...
        def nested(self, function: Function, pos: int, row: object) -> Function: ...

    # ---------------------------------------------------------------------------------------------- callers
    def callers(
        self, function: Function, most: int = 0, first: int = 0, among: Paths = None, tests: bool = True
    ) -> list[Site]:
        """Every call in the project that may run `function`, with the function (or module code) that holds it. `most`:
        none where more modules than this call something of the name (0: no limit). `first`: only so many of them, the
        others are not looked for (0: all). `among`: only those in these files. `tests`: those in tests, too."""
        key = (id(function), most, among, tests)
        found = self._callers.setdefault(key, [])
        if key not in self._more_callers:
            self._more_callers[key] = self._find_callers(function, most, among, tests)
        if not first:
            found += self._more_callers[key]
            return found
        for caller in self._more_callers[key] if len(found) < first else ():
            found.append(caller)
            if len(found) >= first:
                break
        return found[:first]

    def _find_callers(self, function: Function, most: int, among: Paths, tests: bool) -> Iterator[Site]:
        name = function.name
        if name in ("__init__", "__call__", "forward", "__enter__", "__new__") and function.owner:
            name = function.owner.name if name in ("__init__", "__new__") else ""
        if not name:
            return
        paths = self._paths_naming(function, name, tests)
        if most and len(paths) > most:
            return
        for path in paths:
            for g, call in self._calls_named(path, name) if among is None or path in among else ():
                scope = self.scope(g)
                if may_mean(function, call, scope) and function in call_targets(call, scope):
                    yield g, call

    def _calls_named(self, path: str, name: str) -> Iterator[Site]:
        """The calls of something of this name in a file. Every function of the name asks for them: each is looked for
        once, and none before somebody asks for it."""
        key = (path, name)
        if key not in self._sites:
            self._sites[key] = [], self._find_calls_named(path, name)
        found, more = self._sites[key]
        at = 0
        while True:
            if at == len(found):
                site = next(more, None)
                if site is None:
                    return
                found.append(site)
            yield found[at]
            at += 1

    def _find_calls_named(self, path: str, name: str) -> Iterator[Site]:
        rows = self.rows_calling(path, name)
        module = self.module(path) if rows else None
        if module is None:
            return
        rows = [row for row in rows if not self._calls_outside(module, row, name)]
        for f in self.functions_on(module, rows) if rows else ():
            for g in self._around_rows(f, rows):
                for call in calls_on(self.body(g), rows, name):
                    yield g, call

    def _calls_outside(self, module: Module, row: int, name: str) -> bool:
        """Does a line call functions of imported modules outside the project only: `torch.log(x)`?"""
        text, starts = self.indexed(module.path)
        at, end = starts[row - 1], starts[row] if row < len(starts) else len(text)
        at = call_at(text, name, at)
        while 0 <= at < end:
            found = OF_MODULE.search(text, max(starts[row - 1], at - 80), at)
            bound = module.names.get(found[1]) if found is not None else None
            if bound is None or bound[0] != "import" or self.find(module.path, bound[1]) is not None:
                return False
            at = call_at(text, name, at + len(name))
        return True

    def _around_rows(self, function: Function, rows: list[int]) -> Iterator[Function]:
        """A function and those defined inside it to which one of the sorted lines belongs."""
        yield function
        if function.name == "<module>" or not self.may_define(function):
            return
        for kind, pos, row in definitions(self.body(function)):
            inner = (
                [self.nested(function, pos, row)]
                if kind == "def"
                else function.module.class_at(pos, row, None, function).methods.values()
            )
            for f in inner:
                if any_between(rows, f.first_line, f.end_line):
                    yield from self._around_rows(f, rows)

    def functions_on(self, module: Module, rows: list[int]) -> list[Function]:
        """Functions and methods (nested ones not entered) to which one of the sorted lines belongs; last the module's
        own code, when a line belongs to none."""
        if module.path not in self._spans:
            found = enumerate(module.all_functions())
            self._spans[module.path] = sorted([(f.first_line, f.end_line, i, f) for i, f in found], key=lambda x: x[0])
        spans = self._spans[module.path]
        hit: dict[int, Function] = {}
        outside = False
        for row in rows:
            at = bisect_right(spans, row, key=lambda x: x[0]) - 1
            if at >= 0 and row <= spans[at][1]:
                hit[spans[at][2]] = spans[at][3]
            else:
                outside = True
        return [*(hit[i] for i in sorted(hit)), *((self.main(module),) if outside else ())]

    def lines_calling(self, function: Function, tests: bool = True) -> Iterator[tuple[str, int]]:
        """(file, line) of the calls that by their text may run a function, but for its own: nothing is parsed.
        `tests`: also of those in tests."""
        for path in self._paths_naming(function, function.name, tests):
            for row in self.rows_calling(path, function.name):
                if path != function.module.path or not function.first_line <= row <= function.end_line:
                    yield path, row

    def rows_calling(self, path: str, name: str) -> list[int]:
        """Numbers of the lines of a file that call something of this name, examples in docstrings left out."""
        known = self._calling.get((path, name))
        if known is None:
            text, starts = self.indexed(path)
            known = self._calling[path, name] = []
            for row in self.lines_with(path, name, called=True):
                end = starts[row] if row < len(starts) else len(text)
                if text[starts[row - 1] : end].lstrip()[:4] not in (">>> ", "... "):
                    known.append(row)
        return known

    def is_common(self, function: Function, most: int, tests: bool = True) -> bool:
        """Whether more files than this call something of a function's name."""
        return len(self._paths_naming(function, function.name, tests)) > most

    def _paths_naming(self, function: Function, name: str, tests: bool) -> list[str]:
        """The files whose text calls something of this name; for a nested function, no other than its own."""
        if function.parent is not None and function.owner is None:
            return [function.module.path]
        near = self._near_files(dirname(function.module.path))
        modules, ranks = self.modules, self._ranks
        uses = self._uses.setdefault(name, {})
        if self._named or len(self._uses) > FEW_NAMES:
            self._index_names(near, tests)
            found = [*self._naming.get(name, ()), *(self._tests_naming.get(name, ()) if tests else ())]
            paths = [p for p in found if p in modules or p in near]
            paths.sort(key=lambda p: ranks[p] if p in ranks else near[p])
        else:
            paths = [p for p in (*modules, *[p for p in near if p not in modules]) if tests or not in_tests(p)]
        out = []
        for path in paths:
            use = uses.get(path)
            if use is None:
                use = uses[path] = use_of(self.text(path) or "", name)
            if use == NO_USE or (use == OWN_USE and function.owner is None and path != function.module.path):
                continue
            out.append(path)
        return out

    def _near_files(self, folder: str) -> dict[str, int]:
        """{file: rank} of the files that are searched for callers of what lies in a folder, parsed or not."""
        root = self.project_root(folder)
        prefix = (root if root is not None else folder) or ""
        known = self._near.get(prefix)
        if known is None:
            if not self._sorted:
                self._sorted = sorted(self.files)
            first = bisect_left(self._sorted, prefix)
            near = []
            for path in islice(self._sorted, first, first + NEAR_FILES + 1):
                if not path.startswith(prefix):
                    break
                near.append(path)
            known = self._near[prefix] = {p: BEHIND + i for i, p in enumerate(near if len(near) <= NEAR_FILES else ())}
        return known

    def _index_names(self, near: dict[str, int], tests: bool) -> None:
        """Index the names in the modules that came since it was last done, and in these files."""
        ranks, named = self._ranks, self._named
        todo = list(islice(self.modules, len(ranks), None))
        for path in todo:
            ranks[path] = len(ranks)
        if near and id(near) not in self._near_named:  # those of `_near` live as long as this
            self._near_named.add(id(near))
            todo += near
        for path in todo:
            if path not in named:
                named.add(path)
                if in_tests(path):
                    self._tests.append(path)
                else:
                    self._index(path, self._naming)
        if tests:
            for path in self._tests:
                self._index(path, self._tests_naming)
            self._tests.clear()

    def _index(self, path: str, naming: dict[str, list[str]]) -> None:
        for name in called_names(self.text(path) or ""):
            naming.setdefault(name, []).append(path)

    def files_naming(self, ends: tuple[str, ...]) -> set[str]:
        """Files (all parsed ones but tests are looked at) that call or define something whose name ends in one of
        these."""
        self._index_names({}, False)
        return {path for name, paths in self._naming.items() if name.endswith(ends) for path in paths}

    # ------------------------------------------------------------------------------------------------- texts
    def text_of(self, place: Function | Class) -> str:
        """The lines of a function or class, joined; its last line ends as in the file."""
        recent = self._recent
        known = recent.get(place)
        if known is not None:
            return known
        text, starts = self.indexed(place.module.path)
        first, end = place.first_line, place.end_line
        if first > len(starts):  # the file is no more what was parsed
            return ""
        if len(recent) >= RECENT:
            recent.clear()
        found = recent[place] = text[starts[first - 1] : starts[end] if end < len(starts) else len(text)]
        return found

    def lines_of(self, place: Function | Class) -> list[str]:
        """The lines of a function or class."""
        return self.text_of(place).removesuffix("\n").split("\n")

    def text_between(self, path: str, first: int, end: int) -> str:
        """The lines of a file from index `first` up to `end`, the end of the last one left out."""
        text, starts = self.indexed(path)
        return text[starts[first] : starts[end] - 1 if end < len(starts) else len(text)] if first < end else ""

    def indexed(self, path: str) -> tuple[str, Sequence[int]]:
        """The text of a file with plain line ends, and where its lines start."""
        known = self._starts.get(path)
        if known is None:
            text = self.text(path) or ""
            if "\r" in text or "\f" in text:
                text = searchable(text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " "))
            starts: list[int] | array[int] = [0]
            starts.extend(accumulate(map((1).__add__, map(len, text.split("\n")))))  # each step runs in C
            starts.pop()
            if len(self._starts) > MOST_LISTS:
                from array import array

                starts = array("l", starts)
            known = self._starts[path] = (text, starts)
        return known

    def lines_with(self, path: str, word: str, called: bool = False) -> list[int]:
        """Numbers of the lines of a file that hold a word; `called`: that call a function of this name."""
        text, starts = self.indexed(path)
        out: list[int] = []
        at = call_at(text, word, 0) if called else text.find(word)
        while at >= 0:
            row = bisect_right(starts, at)
            if not out or out[-1] != row:
                out.append(row)
            at = call_at(text, word, at + len(word)) if called else text.find(word, at + len(word))
        return out

    def called(self, path: str) -> frozenset[str]:
        """All names that are called or defined in a file."""
        known = self._called.get(path)
        if known is None:
            known = self._called[path] = called_names(self.text(path) or "")
        return known


def any_between(rows: list[int], first: int, end: int) -> bool:
    """Does one of the sorted lines lie between two?"""
    at = bisect_left(rows, first)
    return at < len(rows) and rows[at] <= end


def calls_on(block: Block, rows: list[int], name: str) -> Iterator[Expr]:
    """The calls of something of this name in the statements of a block on the sorted lines, in order; definitions are
    not entered."""
    for s in block:
        kind = s[0]
        if kind != "def" and kind != "class":
            first = s[1] >> 44
            if not any_between(rows, first, first + (s[1] >> 12 & 0xFFFFF)):
                continue
        for e in expressions_of(s):
            found: list[Expr] = []
            collect_expr(e, found)
            for x in found:
                if x[0] == "call" and callee_name(x) == name:
                    yield x
        if kind in COMPOUND:
            for sub in blocks_of(s):
                yield from calls_on(sub, rows, name)


def may_mean(function: Function, call: Expr, scope: Scope) -> bool:
    """Can a call of this name run the function, before anything is resolved: `model.train()` of a local value is no
    call of a module's function (unless the file puts functions into attributes of that name), `self.m()` in a class
    that has its own m none of another's m."""
    base = call[2][2] if call[2][0] == "attr" else None
    if base is None or base[0] != "name":
        return True
    caller = scope.function
    own = caller.owner
    if own is not None and caller.params and base[2] == caller.params[0][0]:
        mine = own.methods.get(function.name)
        return mine is None or mine is function
    if function.owner is not None or function.parent is not None:
        return True
    at: Scope | None = scope
    while at is not None:
        bound = at.bindings().get(base[2])
        if bound is not None:
            if any(b[0] in ("import", "from", "class", "def") for b in bound):
                return True
            return f".{function.name} = " in (scope.program.text(scope.module.path) or "")
        at = at.parent
    return True


def defines(text: str) -> bool:
    """Whether a definition begins on some line of a text."""
    for word in ("def ", "class "):
        at = text.find(word)
        while at >= 0:
            if text[text.rfind("\n", 0, at) + 1 : at].strip() in ("", "async"):
                return True
            at = text.find(word, at + 1)
    return False


def called_names(text: str) -> frozenset[str]:
    """All names before an opening bracket: ten times as fast when the text is read backwards, from the brackets on."""
    return frozenset([found[:0:-1] for found in set(OPENED.findall(text[::-1]))])


def call_at(text: str, name: str, start: int) -> int:
    """Where `name(` stands from `start` on as a whole word and is not being defined; -1: nowhere."""
    word = name + "("
    at = text.find(word, start)
    while at >= 0:
        before = text[at - 1 : at]
        if not (before.isalnum() or before == "_" or text.endswith(("def ", "class "), 0, at)):
            return at
        at = text.find(word, at + 1)
    return -1


def use_of(text: str, name: str) -> int:
    """Whether a file calls something of this name; OWN_USE: by the plain name only, and has a function so named."""
    if call_at(text, name, 0) < 0:
        return NO_USE
    return OWN_USE if f"\ndef {name}(" in text and "." + name not in text else USE


def callee_name(call: Expr) -> str:
    """The last name of what is called: `a.b.c()` gives "c"."""
    f = call[2]
    return f[-1] if f[0] in ("name", "attr") else ""
