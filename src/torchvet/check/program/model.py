"""What a Python module is to torchvet once its syntax tree is gone.

Everything below is made of tuples, strings, numbers and frozensets, so `marshal` can cache it and a forked process can
send it. Each node is a tuple whose first item is its kind and whose second is its position (`span_of`).

Expressions (E)
    ("name", pos, id)
    ("const", pos, value)                  None, bool, int, float, str, bytes, complex, Ellipsis
    ("attr", pos, base E, name)
    ("call", pos, func E, args (E...), keywords ((name|None, E)...))     `*x` in args is ("star", pos, E)
    ("sub", pos, base E, index E)
    ("bin", pos, op, left E, right E)      op: + - * / // % ** @ & | ^ << >>
    ("unary", pos, op, E)                  op: not - + ~
    ("bool", pos, "and"|"or", (E...))
    ("cmp", pos, (op...), (E...))          op: == != < <= > >= in "not in" is "is not"; one operand more than ops
    ("ifexp", pos, test E, then E, else E)
    ("tuple"|"list"|"set", pos, (E...))
    ("dict", pos, (E|None ...), (E...))    a key of None is `**value`
    ("lambda", pos, params, body E)
    ("comp", pos, "list"|"set"|"dict"|"gen", element E (dict: a 2-tuple expression), ((target E, iter E, (if E...))...))
    ("walrus", pos, target E, value E)
    ("await"|"yield"|"yieldfrom", pos, E|None)
    ("star", pos, E)
    ("slice", pos, lower E|None, upper E|None, step E|None)
    ("fstr", pos, (E...))                  the interpolated expressions only
    ("big", pos, kind, length)             a literal container of more than 64 constants, not kept
Statements (S); a block is a tuple of S
    ("assign", pos, targets (E...), value E)
    ("aug", pos, op, target E, value E)
    ("ann", pos, target E, annotation E, value E|None)
    ("expr", pos, E)
    ("return", pos, E|None)
    ("if", pos, test E, block, orelse block)
    ("for", pos, target E, iter E, block, orelse block)
    ("while", pos, test E, block, orelse block)
    ("with", pos, ((context E, target E|None)...), block)
    ("try", pos, block, ((type E|None, name|None, block, pos)...), orelse block, final block)
    ("raise", pos, E|None)
    ("assert", pos, test E)
    ("del", pos, (E...))
    ("break"|"continue"|"pass", pos)
    ("global"|"nonlocal", pos, (name...))
    ("import", pos, ((dotted, asname|None)...))
    ("from", pos, module dotted, ((name, asname|None)...), level)      name "*" imports all
    ("match", pos, subject E, ((pattern names (str...), guard E|None, block)...), (pattern...))
    pattern: (value E...) that it stands for, () when it matches anything, None when it asks for a structure
    ("def", pos, function row)
    ("class", pos, class row)
Function row
    (name, params, decorators (E...), returns E|None, first line with decorators, end line, flags, block|None, words)
    params: ((name, kind, default E|None, annotation E|None)...), kind: "pos" (also positional-only), "kw", "*", "**"
    block None: not lowered yet; `Program.body(function)` lowers it on demand
    words: frozenset of the subject words that occur in its lines (see `torchvet.check.source.words`)
Class row
    (name, bases (E...), keywords, decorators (E...), first line, end line, block, words)
"""

from __future__ import annotations

from ..source.walk import in_tests, is_named_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .program import Program

    Expr = tuple[Any, ...]
    Stmt = tuple[Any, ...]
    Block = tuple[Stmt, ...]

ASYNC, GENERATOR, NESTED = 1, 2, 4
"""Flags of a function row."""


def pack(line: int, column: int, end_line: int, end_column: int) -> int:
    """A position in one number: line from 1, columns from 0 in UTF-8 bytes (as the compiler counts)."""
    return (
        line << 44
        | (column if column < 4096 else 4095) << 32
        | (end_line - line) << 12
        | (end_column if end_column < 4096 else 4095)
    )


def span_of(pos: int) -> tuple[int, int, int, int]:
    """(line from 1, column from 0 in bytes, end line, end column)."""
    line = pos >> 44
    return line, pos >> 32 & 0xFFF, line + (pos >> 12 & 0xFFFFF), pos & 0xFFF


def line_of(pos: int) -> int:
    return pos >> 44


def characters(line: str, column: int) -> int:
    """Bytes to characters: the compiler counts columns in UTF-8 bytes."""
    if line.isascii():
        return column
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


class Function:
    """A function, method or nested function of the project. Two are the same when module and position are."""

    __slots__ = (
        "_body", "_decorator_names", "decorators", "end_line", "first_line", "flags", "is_method", "module", "name",
        "owner", "params", "parent", "pos", "qualname", "returns", "words",
    )  # fmt: skip

    def __init__(self, module: Module, pos: int, row: Any, owner: Class | None, parent: Function | None) -> None:
        self.module = module
        self.pos = pos
        (
            self.name,
            self.params,
            self.decorators,
            self.returns,
            self.first_line,
            self.end_line,
            self.flags,
            self._body,
            self.words,
        ) = row
        self.owner = owner
        self.parent = parent
        self.qualname: str = f"{prefix_of(owner, parent)}{self.name}"
        self.is_method = owner is not None and not (
            self.decorators and any(d[0] == "name" and d[2] == "staticmethod" for d in self.decorators)
        )
        """Takes its instance (or class) as first parameter."""
        self._decorator_names: list[str] | None = None

    @property
    def line(self) -> int:
        return self.pos >> 44

    @property
    def is_generator(self) -> bool:
        """Holds a `yield`. A body that was left out is lowered when its text may hold one."""
        if self._body is None and self.module.program is not None:
            self.module.program.lower_if(self, "yield")
        return bool(self.flags & GENERATOR)

    def decorator_names(self) -> list[str]:
        """The last name of each decorator: `@torch.no_grad()` gives "no_grad"."""
        out = self._decorator_names
        if out is None:
            out = self._decorator_names = []
            for d in self.decorators:
                if d[0] == "call":
                    d = d[2]
                if d[0] in ("name", "attr"):
                    out.append(d[-1])
        return out

    def __repr__(self) -> str:
        return f"<function {self.module.path}:{self.qualname}>"


class Class:
    """A class of the project: its own methods and class-level block; bases are resolved by `Program`."""

    __slots__ = ("bases", "block", "decorators", "end_line", "first_line", "inner", "keywords", "methods", "module",
                 "name", "parent", "pos", "qualname", "words")  # fmt: skip

    def __init__(self, module: Module, pos: int, row: Any, owner: Class | None, parent: Function | None) -> None:
        self.module = module
        self.pos = pos
        (
            self.name,
            self.bases,
            self.keywords,
            self.decorators,
            self.first_line,
            self.end_line,
            self.block,
            self.words,
        ) = row
        self.parent = parent
        self.qualname: str = f"{prefix_of(owner, parent)}{self.name}"
        self.methods: dict[str, Function] = {}
        self.inner: dict[str, tuple[int, Any]] = {}  # (position, row) of the classes defined in it
        for kind, at, sub in definitions(self.block):
            if kind == "def":
                self.methods[sub[0]] = module.function_at(at, sub, self, None)
            else:
                self.inner.setdefault(sub[0], (at, sub))

    def __repr__(self) -> str:
        return f"<class {self.module.path}:{self.qualname}>"


def prefix_of(owner: Class | None, parent: Function | None) -> str:
    return owner.qualname + "." if owner else parent.qualname + ".<locals>." if parent else ""


class Module:
    """A parsed module. `names` maps each module-level name to what binds it last: ("def", Function),
    ("class", Class), ("import", dotted), ("from", dotted module, name, level) or ("value", statement)."""

    __slots__ = ("_all", "_classes", "_functions", "_in_tests", "block", "classes", "functions", "names", "path",
                 "program", "stars", "walrus", "words")  # fmt: skip

    def __init__(self, path: str, block: Block, words: frozenset[str]) -> None:
        self.path = path
        self.block = block
        self.words = words
        self.program: Program | None = None
        self.walrus: bool | None = None  # whether `:=` stands in it, once somebody asked
        self._in_tests: bool | None = None
        self._all: list[Function] | None = None
        self._functions: dict[int, Function] = {}
        self._classes: dict[int, Class] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.names: dict[str, tuple[Any, ...]] = {}
        self.stars: list[tuple[str, int]] = []
        self._bind(block)

    @property
    def is_test(self) -> bool:
        """Whether pytest collects tests from the file, by its name."""
        return is_named_test(self.path)

    @property
    def in_tests(self) -> bool:
        """Whether the file lies in a folder of tests: `in_tests`."""
        if self._in_tests is None:
            self._in_tests = in_tests(self.path)
        return self._in_tests

    @property
    def is_collected(self) -> bool:
        """Whether it holds tests by its name and its folder: that it holds scripts is as good as excluded."""
        return self.in_tests and self.is_test

    def _bind(self, block: Block) -> None:
        for s in block:
            kind = s[0]
            if kind == "def":
                f = self.function_at(s[1], s[2], None, None)
                self.functions[f.name] = f
                self.names[f.name] = ("def", f)
            elif kind == "class":
                c = self.class_at(s[1], s[2], None, None)
                self.classes[c.name] = c
                self.names[c.name] = ("class", c)
            elif kind == "import":
                for dotted, asname in s[2]:
                    if asname:
                        self.names[asname] = ("import", dotted)
                    else:
                        self.names[dotted.partition(".")[0]] = ("import", dotted.partition(".")[0])
            elif kind == "from":
                for name, asname in s[3]:
                    if name == "*":
                        self.stars.append((s[2], s[4]))
                    elif (asname or name) not in self.names or self.names[asname or name][0] == "value":
                        # `try: from fast import f / except ImportError: from slow import f`: the first counts
                        self.names[asname or name] = ("from", s[2], name, s[4])
            elif kind == "assign":
                for t in s[2]:
                    for n in target_names(t):
                        self.names[n] = ("value", s)
            elif kind == "ann":
                for n in target_names(s[2]):
                    self.names[n] = ("value", s)
            else:
                for sub in blocks_of(s):
                    self._bind(sub)

    def function_at(self, pos: int, row: Any, owner: Class | None, parent: Function | None) -> Function:
        """The one object for the function defined at `pos`."""
        f = self._functions.get(pos)
        if f is None:
            f = self._functions[pos] = Function(self, pos, row, owner, parent)
        return f

    def class_at(self, pos: int, row: Any, owner: Class | None, parent: Function | None) -> Class:
        """The one object for the class defined at `pos`."""
        c = self._classes.get(pos)
        if c is None:
            c = self._classes[pos] = Class(self, pos, row, owner, parent)
        return c

    def all_functions(self) -> list[Function]:
        """Every function that is bound at module or class level (nested ones are met in the bodies)."""
        if self._all is None:
            self._all = []
            stack: list[tuple[Block, Class | None]] = [(self.block, None)]
            while stack:
                block, owner = stack.pop()
                for kind, pos, row in definitions(block):
                    if kind == "def":
                        self._all.append(self.function_at(pos, row, owner, None))
                    else:
                        stack.append((row[6], self.class_at(pos, row, owner, None)))
        return self._all

    def __repr__(self) -> str:
        return f"<module {self.path}>"


COMPOUND = frozenset(("if", "while", "for", "with", "try", "match"))
"""Statements with blocks inside."""


def definitions(block: Block) -> list[tuple[str, int, Any]]:
    """("def"|"class", pos, row) of a block, also under `if`, `try` and `with`, not inside functions or classes."""
    out: list[Any] = []
    for s in block:
        kind = s[0]
        if kind == "def" or kind == "class":
            out.append(s)
        elif kind in COMPOUND:
            for sub in blocks_of(s):
                if sub:
                    out += definitions(sub)
    return out


def blocks_of(s: Stmt) -> tuple[Block, ...]:
    """The blocks inside one compound statement (not the bodies of definitions)."""
    kind = s[0]
    if kind in ("if", "while"):
        return (s[3], s[4])
    if kind == "for":
        return (s[4], s[5])
    if kind == "with":
        return (s[3],)
    if kind == "try":
        return (s[2], *(h[2] for h in s[3]), s[4], s[5])
    if kind == "match":
        return tuple(c[2] for c in s[3])
    return ()


def expressions_of(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself, in order of evaluation (not those of its blocks)."""
    kind = s[0]
    if kind == "assign":
        return (s[3], *s[2])
    if kind == "aug":
        return (s[3], s[4])
    if kind == "ann":
        return (s[4], s[2]) if s[4] else (s[2],)
    if kind in ("expr", "return", "raise", "assert"):
        return (s[2],) if s[2] else ()
    if kind in ("if", "while"):
        return (s[2],)
    if kind == "for":
        return (s[3], s[2])
    if kind == "with":
        return tuple(e for item in s[2] for e in item if e)
    if kind == "del":
        return tuple(s[2])
    if kind == "match":
        return (s[2], *(c[1] for c in s[3] if c[1]))
    if kind == "def":
        return (*s[2][2], *(p[2] for p in s[2][1] if p[2]))
    if kind == "class":
        return (*s[2][3], *s[2][1])
    return ()


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of an expression (a lambda's and a comprehension's included)."""
    kind = e[0]
    if kind in ("name", "const", "big"):
        return ()
    if kind in ("attr", "star"):
        return (e[2],)
    if kind == "call":
        return (e[2], *e[3], *(v for _, v in e[4]))
    if kind in ("sub", "walrus"):
        return (e[2], e[3])
    if kind == "bin":
        return (e[3], e[4])
    if kind == "unary":
        return (e[3],)
    if kind in ("bool", "cmp"):
        return tuple(e[3])
    if kind == "ifexp":
        return (e[2], e[3], e[4])
    if kind in ("tuple", "list", "set", "fstr"):
        return tuple(e[2])
    if kind == "dict":
        return (*(k for k in e[2] if k), *e[3])
    if kind == "lambda":
        return (e[3],)
    if kind == "comp":
        return (*(x for g in e[4] for x in (g[1], g[0], *g[2])), e[3])
    if kind == "slice":
        return tuple(x for x in e[2:5] if x)
    return (e[2],) if e[2] else ()  # await, yield, yieldfrom


def walk_expr(e: Expr) -> list[Expr]:
    """An expression and all that it contains, outermost first."""
    out: list[Expr] = []
    collect_expr(e, out)
    return out


def collect_expr(e: Expr, out: list[Expr]) -> None:
    """`walk_expr` into a list."""
    out.append(e)
    kind = e[0]
    while kind == "attr":
        e = e[2]
        out.append(e)
        kind = e[0]
    if kind == "name" or kind == "const":
        return
    if kind == "call":
        callee = e[2]
        if callee[0] == "name":
            out.append(callee)
        else:
            collect_expr(callee, out)
        for x in e[3]:
            if x[0] == "name" or x[0] == "const":
                out.append(x)
            else:
                collect_expr(x, out)
        for _, x in e[4]:
            if x[0] == "name" or x[0] == "const":
                out.append(x)
            else:
                collect_expr(x, out)
        return
    for x in children(e):
        collect_expr(x, out)


def walk_block(block: Block) -> list[Stmt]:
    """Every statement of a block and of the blocks inside it, in order; definitions are given, not entered."""
    out: list[Stmt] = []
    collect_block(block, out)
    return out


def collect_block(block: Block, out: list[Stmt]) -> None:
    """`walk_block` into a list."""
    for s in block:
        out.append(s)
        if s[0] in COMPOUND:
            for sub in blocks_of(s):
                if sub:
                    collect_block(sub, out)


def calls_in(block: Block) -> Iterator[Expr]:
    """Every call expression of a block, in the order of the statements; definitions are not entered."""
    for s in walk_block(block):
        for e in expressions_of(s):
            for x in walk_expr(e):
                if x[0] == "call":
                    yield x


def target_names(t: Expr) -> Iterator[str]:
    """The plain names that an assignment target binds."""
    if t[0] == "name":
        yield t[2]
    elif t[0] in ("tuple", "list"):
        for x in t[2]:
            yield from target_names(x)
    elif t[0] == "star":
        yield from target_names(t[2])


def dotted(e: Expr) -> str | None:
    """`a.b.c` as written, or None when the expression is anything else than names and attributes."""
    parts: list[str] = []
    while e[0] == "attr":
        parts.append(e[3])
        e = e[2]
    if e[0] != "name":
        return None
    parts.append(e[2])
    return ".".join(reversed(parts))
