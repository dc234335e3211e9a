"""Which suspects can part the ranks by what stands in them: a test of a rank above something that other ranks notice.

The words of a text make a function a suspect; here its statements are read, once and without following anything. A
rank is a word for one, or a name that was made from it or set under a test of it. Others notice a call that can reach a
collective and a way out of the block; what only prints or writes under `if rank == 0` parts nobody. What a callee does
by itself is found there; it counts here when a rank or a function is handed to it, because then it is this call's own.
"""

from __future__ import annotations

import builtins

from ... import knowledge
from ..program.model import collect_expr, expressions_of, target_names, walk_block
from ..source.patterns import Later
from .ranks_batches import NUMBERS, READS
from .ranks_pages import COMMON, COMMUNICATES, LARGE, LIBRARIES, OWN, PLAIN_METHODS
from .ranks_tables import SOURCES
from .traces_questions import BROAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Function, Stmt
    from .ranks_suspects import Suspects

HOT, LEAVES, QUIET = 2, 1, 0
"""What a block holds: a call that can reach a collective; a way out of it; neither."""
EXITS = frozenset(("return", "break", "continue"))
"""An exception is none of them: where one rank alone meets one, the launcher ends the job."""
GIVEN_UP = frozenset(("continue", "break"))
BUILTINS = frozenset(dir(builtins)) - {"exit", "quit", "next"}
OWN_DATA = "own data"
"""Stands among the words of an expression that reads the values of a tensor or a clock: no name is written so."""
MODEL = Later(r"model|net|module|engine|ddp|fsdp|critic|actor|policy|coder|student|teacher|forward|backward|step")
"""Attributes that can be a wrapped model or run one, where the project wraps any."""


class Parting:
    def __init__(self, suspects: Suspects) -> None:
        self.suspects = suspects
        self.program = suspects.program
        self.counts = suspects.counts
        ends = {q.rpartition(".")[2] for q in knowledge.names("local_exit")}
        self.reaching = suspects.hot_names | suspects.steps | suspects.plain_steps | suspects.wraps | ends
        self.reaching |= {"exit", "quit", "spawn"} | {n for n, count in self.counts.items() if count > COMMON}
        self.plain = self.reaching - (suspects.hot_names - suspects.plain_names)
        """Those of the names that are called without an object."""
        self.own_names = suspects.steps | suspects.wraps
        self.plain_steps = suspects.plain_steps
        made = {q.rpartition(".")[2] for q in knowledge.names("group_create")}
        self.ends = (suspects.steps | suspects.plain_steps) - made - set(self.counts)
        """Collectives that are nobody else's name: what they are given changes nothing, except who is in a group."""
        self.ranks = suspects.words | {OWN_DATA}
        self.guarding = {f.name for p in suspects.pages.values() for f in p.functions if suspects.is_ranked(f)}
        self.wraps = suspects.wraps
        self.read = READS | NUMBERS | {q[5:] for q in knowledge.names("rank_local_data_source") if q[:5] == "time."}

    def may(self, f: Function) -> bool:
        """Whether the trace of a function can part the ranks."""
        look = Look(self, f, self.suspects.near(f))
        try:
            held = look.whole(self.program.body(f))
        except RecursionError:
            return True
        if look.sure or (held == HOT and self.suspects.decides(f)):
            return True
        ranks = self.ranks
        if f.name in self.suspects.spawned and f.params:
            ranks = ranks | {f.params[0][0]}
        return held == HOT and look.parts(ranks, self.wraps)


class Look:
    """One function: which names follow from which, and what stands under which test."""

    __slots__ = (
        "assigned", "counts", "first", "function", "guarding", "handed", "main", "names", "near", "own", "parting",
        "ranks", "reaching", "read", "regions", "small", "sure",
    )  # fmt: skip

    def __init__(self, parting: Parting, f: Function, near: bool) -> None:
        self.ranks = parting.suspects.words
        self.small = len(parting.program.files) <= LARGE
        self.guarding = parting.guarding
        self.read = parting.read
        self.function = f
        self.near = near
        self.main = f.name == "<module>"
        self.parting = parting
        self.reaching = parting.reaching
        self.counts = parting.counts
        self.names = f.module.names
        self.first = f.params[0][0] if f.is_method and f.params else ""
        self.own = {p[0] for p in f.params}
        """Parameters and nested functions: what is called by such a name may be anything."""
        self.assigned: list[tuple[list[str], set[str]]] = []
        """Names, and all words that they follow from."""
        self.handed: list[set[str]] = []
        """The words of what is handed to calls that can reach a collective."""
        self.regions: list[set[str]] = []
        """The words of the tests above something that others notice."""
        self.sure = False
        """Parts the ranks, or has to be followed, whatever its tests are."""

    def parts(self, ranks: set[str], wraps: set[str]) -> bool:
        """Whether a test holds a rank or a name that follows from one, or a call is handed one or a wrapped model."""
        made = self.made(ranks)
        if any(not words.isdisjoint(made) for words in self.regions):
            return True
        if any(not words.isdisjoint(made) for words in self.handed):
            return True
        made = self.made(wraps)
        return any(not words.isdisjoint(made) for words in self.handed)

    def made(self, of: set[str]) -> set[str]:
        """Some words, and the names that follow from them here."""
        made = set(of)
        left = self.assigned
        while True:
            kept = []
            for row in left:
                if row[1].isdisjoint(made):
                    kept.append(row)
                else:
                    made.update(row[0])
            if len(kept) == len(left):
                return made
            left = kept

    # ------------------------------------------------------------------------------------------------ statements
    def whole(self, body: Block) -> int:
        """What the body holds, and what its decorators make of it."""
        words: set[str] = set()
        for d in self.function.decorators:
            self.expression(d, words)
        self.regions.append(words)
        return self.block(body, ())

    def block(self, block: Block, above: tuple[set[str], ...]) -> int:
        """Notes what a block assigns and tests; tells what it holds."""
        held = QUIET
        for s in block:
            found = self.statement(s, above)
            if found > held:
                held = found
        return held

    def statement(self, s: Stmt, above: tuple[set[str], ...]) -> int:
        kind = s[0]
        if kind == "def":
            return self.definition(s, above)
        if kind == "class":
            for sub in () if self.main else s[2][6]:
                if sub[0] == "def":
                    self.definition(sub, above)
            return QUIET
        words: set[str] = set()
        held = QUIET
        for e in expressions_of(s):
            found = self.expression(e, words)
            held = held if held > found else found
        if kind == "assign" or kind == "ann" or kind == "aug":
            targets = s[2] if kind == "assign" else (s[2 if kind == "ann" else 3],)
            self.assign(targets, words, above)
            if any(t[0] == "attr" and t[3] in self.parting.suspects.stops for t in targets):
                return HOT
            return held
        if kind == "if" or kind == "while":
            inner = (*above, words)
            inside = max(self.block(s[3], inner), self.block(s[4], inner))
        elif kind == "for":
            self.assign((s[2],), words, above)
            inside = max(self.block(s[4], above), self.block(s[5], above))
            if inside != QUIET and not words.isdisjoint(self.parting.suspects.unordered):
                self.sure = True
        elif kind == "with":
            self.assign([t for _, t in s[2] if t], words, above)
            inside = self.block(s[3], above)
            if held == HOT:
                self.regions.append(words)  # who waits before and behind the body is said by the context
        elif kind == "try":
            return max(held, self.attempt(s, above))
        elif kind == "match":
            inside = max([self.block(c[2], (*above, words)) for c in s[3]])
        elif kind in EXITS:
            return max(held, LEAVES)
        else:
            return held
        if inside != QUIET:
            self.regions.append(words)
        return held if held > inside else inside

    def definition(self, s: Stmt, above: tuple[set[str], ...]) -> int:
        """A nested function runs when it is called, here or where it is handed on."""
        if self.main:
            return QUIET
        row = s[2]
        self.own.add(row[0])
        words: set[str] = set()
        for d in row[2]:
            self.expression(d, words)
        held = self.block(row[7] or (), above)
        if held != QUIET and words:
            self.regions.append(words)
        return HOT if held == HOT else QUIET

    def attempt(self, s: Stmt, above: tuple[set[str], ...]) -> int:
        body = self.block(s[2], above)
        held = max(body, self.block(s[4], above), self.block(s[5], above))
        for kind, _, block, _ in s[3]:
            words: set[str] = set()
            if kind is not None:
                self.expression(kind, words)
            handled = self.block(block, above)
            last = block[-1][0] if block else ""
            broad = kind is None or not words.isdisjoint(BROAD)
            ended = "StopIteration" in words and any(x[0] in ("return", "break") for x in walk_block(block))
            if ended or (body == HOT and last != "raise" and (handled == HOT or (broad and last in GIVEN_UP))):
                self.sure = True
            held = max(held, handled)
        return held

    def assign(self, targets: Any, words: set[str], above: tuple[set[str], ...]) -> None:
        names: list[str] = []
        for t in targets:
            names += target_names(t)
            while t[0] == "sub" or t[0] == "star":
                t = t[2]
            if t[0] == "attr" or t[0] == "name":
                names.append(t[-1])
            elif t[0] in ("tuple", "list"):
                names += [x[3] for x in t[2] if x[0] == "attr"]
        if names:
            self.assigned.append((names, words.union(*above)))

    # ----------------------------------------------------------------------------------------------- expressions
    def expression(self, e: Expr, words: set[str]) -> int:
        """Adds the words of an expression; tells whether it holds a call that can reach a collective."""
        kind = e[0]
        if kind == "name":
            words.add(e[2])
            return QUIET
        if kind == "const":
            if isinstance(e[2], str):
                words.add(e[2])
            return QUIET
        inside: list[Expr] = []
        collect_expr(e, inside)
        held = QUIET
        choosing = False
        mine: set[str] = set()
        for x in inside:
            kind = x[0]
            if kind == "name":
                mine.add(x[2])
            elif kind == "attr":
                mine.add(x[3])
            elif kind == "cmp":
                if any(y[0] == "name" and y[2][:4] == "loss" for y in x[3]):
                    mine.add(OWN_DATA)
            elif kind == "call":
                if x[2][0] == "attr" and x[2][3] in self.read:
                    mine.add(OWN_DATA)
                if self.reaches(x[2]):
                    held = HOT
                    self.hand_on(x)
            elif kind == "const":
                if isinstance(x[2], str):
                    mine.add(x[2])
            elif kind == "bool" or kind == "ifexp" or kind == "comp":
                choosing = True
            elif kind == "walrus":
                self.assigned.append((list(target_names(x[2])), mine))
            elif kind == "yield" or kind == "yieldfrom":
                held = HOT
        if choosing and held == HOT:
            self.regions.append(mine)
            if not mine.isdisjoint(self.parting.suspects.unordered):
                self.sure = True
        words |= mine
        return held

    def reaches(self, callee: Expr) -> bool:
        """Whether a call can reach a collective, by the name that is called."""
        kind = callee[0]
        if kind == "name":
            name = callee[2]
            if name in self.parting.plain or name in self.own or name in self.ranks:
                return True
            if self.near and self.small and name in self.counts:
                return True
            bound = self.names.get(name)
            return bound[0] == "value" if bound is not None else not (name in self.counts or name in BUILTINS)
        if kind != "attr":
            return True
        name = callee[3]
        reaching = name in self.reaching and not self.foreign(callee[2], name)
        if reaching or (self.main and name in self.counts and name in self.guarding):
            if self.main and not (callee[2][0] == "name" and callee[2][2] in self.names):
                self.sure = True  # an object made here: what it inherits calls its own methods
            return True
        if name in self.counts:
            return (self.near and self.small) or name in self.ranks
        holder = callee[2]
        if holder[0] == "name" and holder[2] == self.first:
            return True  # what a field holds is called
        return self.near and bool(MODEL.search(name))

    def foreign(self, holder: Expr, name: str) -> bool:
        """Whether what a method is called on says that it reaches no collective: `os.path.join`, `torch.load`."""
        if name in self.parting.own_names:
            return False
        last = holder[-1] if holder[0] in ("name", "attr") else ""
        if name in PLAIN_METHODS and last not in OWN:
            return name not in self.parting.plain_steps or not COMMUNICATES.search(last.lower())
        return last in LIBRARIES

    def hand_on(self, call: Expr) -> None:
        """A rank or a function that is handed to what can reach a collective makes its trace this call's own."""
        words: set[str] = set()
        given: list[Expr] = []
        for a in call[3]:
            collect_expr(a, given)
        for _, a in call[4]:
            collect_expr(a, given)
        for x in given:
            kind = x[0]
            if kind == "name":
                words.add(x[2])
                bound = self.names.get(x[2])
                if bound is not None and (bound[0] == "def" or (bound[0] == "from" and x[2] in self.counts)):
                    self.sure = True
            elif kind == "attr":
                words.add(x[3])
                if x[3] in self.counts and x[3] in self.reaching:
                    self.sure = True
            elif kind == "const":
                if isinstance(x[2], str):
                    words.add(x[2])
            elif kind == "lambda":
                self.sure = True
        grouped = len(call[3]) > 2 or any(k is None or k == "group" for k, _ in call[4])
        called = call[2][-1] if call[2][0] in ("name", "attr") else ""
        if grouped and called in SOURCES:
            self.sure = True  # whose rank the source is counted in is asked of every trace
        root = self.parting.suspects.rooted.get(called)
        if root is not None:
            given = []
            for a in call[3][int(root[2]) : int(root[2]) + 1]:
                collect_expr(a, given)
            for k, a in call[4]:
                if k is not None and k.removeprefix("group_") == root[0]:
                    collect_expr(a, given)
            self.handed.append({x[-1] for x in given if x[0] in ("name", "attr")})
        if words and not (call[2][0] in ("name", "attr") and call[2][-1] in self.parting.ends):
            self.handed.append(words)
