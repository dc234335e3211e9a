"""Files that ranks share without waiting for each other: rank 0 writes or deletes, the others read, nothing in between
makes one wait for the other.

Each function that holds a rank test and a call of files.toml is read once from top to bottom. Paths are compared as
they are written, local names followed to what they were assigned. Whatever may communicate (a collective, a call that
reaches one, a training step, a lock, a name that says it waits) ends all that was open: only what certainly nothing
orders is reported.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import calls_in, dotted, expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from ..source.patterns import Later
from .ranks_guarded import ALL, LEADS, REST, Guarded, side

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Expr, Function, Module, Stmt
    from .ranks_machine import Machine
    from .ranks_pages import Page

    Path = tuple[Any, ...]

WAITS = Later(
    r"barrier|sync|wait|broadcast|gather|reduce|rendezvous|prepare|backward|(^|_)fit|train|step$|Parallel|DDP|FSDP"
    r"|fully_shard|process_group|sleep|first|zero_first|lock|Lock|Trainer|launch|spawn|initialize|run$"
)
"""Names after which the ranks may have met."""
RANKED = Later(r"rank|process_index|process_id|uuid|pid|time|temp|tmp", 2)
"""Names that make a path one of this rank alone, or of this run alone."""

ASKED = Later(r"\bnot (\w+)\b(?!\s*[.(\[])|(?<![.\w])(\w+) == [\"'\d]")
BEFORE = 500
"""Characters before a barrier in which the test around it is looked for."""

MAKES_FOLDERS = ("makedirs", "mkdir")
LISTINGS = ("listdir", "scandir", "getsize")
"""Reads that a program does before it decides what to delete."""


class Race:
    """Two accesses that nothing orders. `kind`: "read" (rank 0 writes at `first`, the others read at `second`),
    "deleted" (all use it at `first`, rank 0 deletes it at `second`), "cleared" (rank 0 deletes at `first`, the others
    write at `second`), "missing" (rank 0 makes the folder at `first`, the others write into it at `second`), "polled"
    (every rank asks at `second` in each turn of the loop at `first`), "dead" (a barrier that never runs: the test at
    `second` asks whether the function `what` at `first` is there)."""

    __slots__ = ("first", "function", "kind", "name", "second", "what")

    def __init__(self, kind: str, function: Function, first: int, second: int, what: str, name: str) -> None:
        self.kind = kind
        self.function = function
        self.first = first
        self.second = second
        self.what = what
        self.name = name

    @property
    def module(self) -> Module:
        return self.function.module


class Use:
    """One access to a path."""

    __slots__ = ("how", "name", "path", "pos", "side")

    def __init__(self, how: str, path: Path, pos: int, side: str, name: str) -> None:
        self.how = how
        self.path = path
        self.pos = pos
        self.side = side
        self.name = name


class Races:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.suspects = machine.suspects
        self.words = {w.rpartition(".")[2] for t in ("writes", "makes", "deletes") for w in knowledge.files(t)}
        self.words |= set(knowledge.files("methods")) | {
            w for w, how in knowledge.files("path_methods").items() if how in ("writes", "makes", "deletes")
        }
        self.words -= {"replace", "save", "copy", "move"}
        tables = ("writes", "makes", "deletes", "reads", "asks")
        self.lasts = {w.rpartition(".")[2] for t in tables for w in knowledge.files(t)} | {"open"}
        self.methods = {**knowledge.files("path_methods"), **knowledge.files("methods")}
        self.uses = {*self.lasts, *self.methods} - {"replace"}

    def found(self) -> list[Race]:
        self.suspects.find()
        out: list[Race] = []
        for page in list(self.suspects.pages.values()):
            if "barrier" in page.tokens:
                with self.program.guard(page.module):
                    out += self.dead(page)
            here = page.tokens & self.words
            if "save" in page.tokens and "torch.save(" in page.text:
                here.add("torch.save")
            if not here or page.tokens.isdisjoint(self.suspects.words):
                continue
            uses = [w + "(" for w in page.tokens & self.uses]
            for f in filter(self.suspects.is_ranked, page.holding(*(w + "(" for w in here))):
                text = self.suspects.text_of(f) if f.name != "<module>" else page.text
                if sum(text.count(u) for u in uses) > 1:
                    with self.program.guard(f.module):
                        out += Scan(self, f).run()
        return list({(r.module.path, r.second): r for r in out}.values())

    def dead(self, page: Page) -> Iterator[Race]:
        """Barriers under a test that a function's name decides: `if rank != 0 and not evaluate` (or `evaluate ==
        "train"`), where `evaluate` is a function of the module. A pair that never runs makes nobody wait."""
        asked_of: dict[tuple[int, str], Function] = {}
        for i in page.places("barrier"):
            for m in ASKED.finditer(page.text, max(0, i - BEFORE), i):
                name = m.group(1) or m.group(2)
                if name in page.module.functions:
                    f = page.at(i)
                    asked_of[id(f), name] = f
        for (_, name), f in asked_of.items():
            function = page.module.functions[name]
            for s in self.program.statements(f):
                if s[0] != "if" or not any(callee_name(e) == "barrier" for e in calls_in(s[3])):
                    continue
                for x in walk_expr(s[2]):
                    asked = x[3] if x[0] == "unary" and x[2] == "not" else x[3][0] if x[0] == "cmp" else None
                    if asked is None or asked[0] != "name" or asked[2] != name:
                        continue
                    if self.program.entity(asked, self.program.scope(f)) == ("func", function):
                        yield Race("dead", f, function.pos, s[2][1], name, name)


class Scan:
    """One function from top to bottom."""

    def __init__(self, races: Races, function: Function) -> None:
        self.races = races
        self.program = races.program
        self.function = function
        self.scope = races.program.scope(function)
        self.names: dict[str, Path | None] = {}
        self.uses: list[Use] = []
        self.there: set[Path] = set()
        """Folders that are there for every rank: made by each, or made by some before all met."""
        self.out: list[Race] = []

    def run(self) -> list[Race]:
        if not self.possible():
            return []
        for s, guards in Guarded(self.races.machine, self.function).statements():
            who = side(guards)
            expressions = expressions_of(s)
            for e in expressions:
                for x in reversed(walk_expr(e)):
                    if x[0] == "call":
                        self.call(x, who, s)
            if s[0] == "with" and any(WAITS.search(callee_name(c) or "") for c, _ in s[2] if c[0] == "call"):
                self.met()
            self.bind(s)
        return self.out

    def possible(self) -> bool:
        """Whether two accesses could race if the ranks were parted between them: asked before any test is, as the
        tests cost most."""
        for s in self.program.statements(self.function):
            for e in expressions_of(s):
                for x in reversed(walk_expr(e)):
                    if x[0] == "call":
                        self.call(x, "", s)
                        if self.out:
                            self.names, self.uses, self.out, self.there = {}, [], [], set()
                            return True
            if s[0] == "with" and any(WAITS.search(callee_name(c) or "") for c, _ in s[2] if c[0] == "call"):
                self.met()
            self.bind(s)
        return False

    def met(self) -> None:
        """Whatever was done before, every rank sees from here on."""
        self.there |= {u.path for u in self.uses if u.how == "makes" and u.name in MAKES_FOLDERS}
        self.uses.clear()

    # ------------------------------------------------------------------------------------------------- accesses
    def call(self, e: Expr, who: str, s: Stmt) -> None:
        access = self.access(e)
        if access is None:
            if self.may_wait(e):
                self.met()
            return
        how, written = access
        path = self.path(written)
        if path is None:
            return
        if how == "asks" and not self.decides(s):
            return
        use = Use(how, path, e[1], who, callee_name(e))
        self.compare(use)
        if how == "deletes":
            self.there = {p for p in self.there if p[: len(path)] != path}
        if how != "makes" or path not in self.there:
            self.uses.append(use)

    def access(self, e: Expr) -> tuple[str, Expr] | None:
        """What a call does to which path; None when it touches no file that is known."""
        last = callee_name(e)
        if last not in self.races.lasts and last not in self.races.methods:
            return None
        name = self.program.qualified(e[2], self.scope) if last in self.races.lasts else None
        if name == "builtins.open" or (last == "open" and e[2][0] == "name"):
            mode = e[3][1] if len(e[3]) > 1 else next((v for k, v in e[4] if k == "mode"), None)
            text = mode[2] if mode is not None and mode[0] == "const" else "r" if mode is None else None
            if not isinstance(text, str) or not e[3]:
                return None
            return ("writes" if any(c in text for c in "wx") else "reads" if "a" not in text else "appends"), e[3][0]
        if name is not None:
            for how in ("writes", "makes", "deletes", "reads", "asks"):
                at = knowledge.files(how).get(name)
                if at is not None:
                    return (how, e[3][at]) if at < len(e[3]) and e[3][at][0] != "star" else None
        if e[2][0] != "attr":
            return None
        done = knowledge.files("methods").get(last)
        if done is not None:
            given = e[3][0] if e[3] else next((v for k, v in e[4] if k in ("path", "save_directory")), None)
            return (done, given) if given is not None else None
        done = knowledge.files("path_methods").get(last)
        if done is not None and self.is_path(e[2][2]):
            return done, e[2][2]
        return None

    def is_path(self, e: Expr) -> bool:
        """A value that was made as a path here: `Path(...)`, `folder / name`, or a name assigned from one."""
        if e[0] == "call":
            return callee_name(e) in ("Path", "PurePath", "resolve", "absolute")
        if e[0] == "bin" and e[2] == "/":
            return True
        if e[0] == "name":
            for b in self.scope.bindings().get(e[2], ()):
                if b[0] == "value" and b[1] is not e and b[1][0] != "name" and self.is_path(b[1]):
                    return True
        return False

    def decides(self, s: Stmt) -> bool:
        """Whether what a test of a file says changes more than the making of that folder: `if not exists: makedirs`."""
        if s[0] != "if":
            return s[0] in ("assign", "return", "while")
        for inner in (*walk_block(s[3]), *walk_block(s[4])):
            if inner[0] in ("assign", "aug", "return", "raise", "continue", "break"):
                return True
            for e in expressions_of(inner):
                for x in walk_expr(e):
                    if x[0] == "call" and callee_name(x) in ("load", "load_state_dict", "from_pretrained", "open"):
                        return True
        return False

    def may_wait(self, e: Expr) -> bool:
        """Whether the ranks may have met once this call is over."""
        last = callee_name(e)
        if not last:
            return bool(e[2][0] != "lambda")
        if last in self.races.suspects.hot_names or WAITS.search(last):
            return True
        held = dotted(e[2]) or ""
        return held.split(".")[-1] in ("model", "net", "ddp_model", "engine", "fabric")

    # ------------------------------------------------------------------------------------------------- verdicts
    def compare(self, b: Use) -> None:
        for a in reversed(self.uses):
            kind = verdict(a, b, a.side, b.side) if b.side else verdict(a, b, LEADS, ALL) or verdict(a, b, ALL, LEADS)
            if kind and b.side and a.name in MAKES_FOLDERS and self.made_by_caller(a.path):
                continue
            if kind and not any(r.second == b.pos for r in self.out):
                self.out.append(Race(kind, self.function, a.pos, b.pos, a.name, b.name))
                return

    def made_by_caller(self, path: Path) -> bool:
        """Whether the one who starts this function has made the folder of the same option before: `main` copies the
        configuration into `args.out`, then spawns `train(rank, args)`."""
        option = path[0][1].rpartition(".")[2] if len(path) == 1 and path[0][0] == "name" and "." in path[0][1] else ""
        for caller, _ in self.program.callers(self.function, 0, 3) if option else ():
            for s, guards in Guarded(self.races.machine, caller).statements():
                for call in calls_of(s) if side(guards) == ALL else ():
                    given = [a for a in (*call[3], *(v for _, v in call[4])) if a[0] == "attr" and a[3] == option]
                    if given and (callee_name(call) in MAKES_FOLDERS or self.makes(call, given, caller)):
                        return True
        return False

    def makes(self, call: Expr, given: list[Expr], caller: Function) -> bool:
        """Whether a called function makes the folder that it is given."""
        for f in self.program.targets(call, self.program.scope(caller)):
            named = {n for n, a in self.program.bind(f, call).items() if a in given}
            for made in self.program.calls(f):
                folder = made[3][0] if made[3] and callee_name(made) in MAKES_FOLDERS else None
                if folder is not None and folder[0] == "name" and folder[2] in named:
                    return True
        return False

    # --------------------------------------------------------------------------------------------------- paths
    def bind(self, s: Stmt) -> None:
        if s[0] == "assign" or (s[0] == "ann" and s[4]):
            value = s[3] if s[0] == "assign" else s[4]
            for t in s[2] if s[0] == "assign" else (s[2],):
                whole = dotted(t)
                if whole is not None:
                    path = self.path(value) if value[0] in ("call", "bin", "const", "fstr", "name", "attr") else None
                    self.forget(whole)
                    self.names[whole] = path if path is not None else (("set", s[1]),)
                else:
                    for n in target_names(t):
                        self.forget(n)
                        self.names[n] = (("set", s[1], n),)
        elif s[0] in ("for", "with", "aug"):
            targets = [s[2]] if s[0] == "for" else [s[3]] if s[0] == "aug" else [t for _, t in s[2] if t]
            for t in targets:
                for n in target_names(t):
                    self.forget(n)
                    self.names[n] = (("set", s[1], n),)

    def forget(self, name: str) -> None:
        for known in [k for k in self.names if k.startswith(name + ".")]:
            del self.names[known]

    def path(self, e: Expr) -> Path | None:
        """The path that an expression gives, as its parts; None when it cannot be told, or is each rank's own."""
        kind = e[0]
        if kind == "const":
            return (("text", e[2].rstrip("/")),) if isinstance(e[2], str) else (("const", e[2]),)
        if kind in ("name", "attr"):
            whole = dotted(e)
            if whole is None or RANKED.search(whole):
                return None
            if whole in self.names:
                return self.names[whole]
            return (("name", whole),)
        if kind == "bin":
            left, right = self.path(e[3]), self.path(e[4])
            if left is None or right is None:
                return None
            return (*left, *right) if e[2] == "/" else (("bin", e[2], left, right),)
        if kind == "tuple":
            parts = [self.path(x) for x in e[2]]
            return None if None in parts else (("tuple", *parts),)
        if kind == "fstr":
            inner = [self.path(x) for x in e[2]]
            return None if None in inner else (("fstr", self.text(e[1]), *inner),)
        if kind == "sub" and e[3][0] == "const":
            base = self.path(e[2])
            return None if base is None else (("sub", base, e[3][2]),)
        if kind == "call":
            return self.path_of_call(e)
        return None

    def path_of_call(self, e: Expr) -> Path | None:
        name = self.program.qualified(e[2], self.scope) or ""
        if e[3] and not any(a[0] == "star" for a in e[3]):
            if knowledge.files("joins").get(name):
                parts = [self.path(a) for a in e[3]]
                return None if None in parts else tuple([x for p in parts if p is not None for x in p])
            if knowledge.files("same").get(name):
                return self.path(e[3][0])
            if callee_name(e) == "joinpath" and e[2][0] == "attr":
                parts = [self.path(a) for a in (e[2][2], *e[3])]
                return None if None in parts else tuple([x for p in parts if p is not None for x in p])
            if callee_name(e) == "format" and e[2][0] == "attr":
                parts = [self.path(a) for a in (e[2][2], *e[3])]
                return None if None in parts or e[4] else (("format", *parts),)
        return None

    def text(self, pos: int) -> str:
        module = self.function.module
        line, column, end_line, end = self.program.span(module, pos)
        return self.program.source_line(module, line)[column - 1 : end - 1] if line == end_line else str(pos)


def calls_of(s: Stmt) -> Iterator[Expr]:
    """Calls in a statement itself, not in the statements that it holds."""
    for e in expressions_of(s):
        for x in walk_expr(e):
            if x[0] == "call":
                yield x


def verdict(a: Use, b: Use, first: str, second: str) -> str:
    """What goes wrong when nothing orders these two accesses, of these sides; "" when nothing does."""
    same, inside = a.path == b.path, len(b.path) > len(a.path) and b.path[: len(a.path)] == a.path
    within = len(a.path) > len(b.path) and a.path[: len(b.path)] == b.path
    if first == LEADS and second in (ALL, REST):
        if a.how in ("writes", "makes") and b.how in ("reads", "asks") and same:
            return "read"
        if a.how == "makes" and b.how in ("reads", "asks") and inside and a.name in ("copytree", "extractall"):
            return "read"
        if a.how == "makes" and b.how == "writes" and inside and a.name != "extractall":
            return "missing"
        if a.how == "deletes" and b.how in ("writes", "makes") and (same or inside):
            return "cleared"
    if second == LEADS and b.how == "deletes" and first in (ALL, REST) and a.how == "reads" and (same or within):
        return "deleted" if a.name not in LISTINGS else ""
    return ""
