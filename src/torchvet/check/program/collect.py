"""Syntax tree to rows (see `model`): the only place in torchvet that walks the compiler's tree.

Uses `_ast` and `compile` directly; importing `ast` costs 7 ms. Function bodies without a subject word are left out and
lowered when something calls into them (`lower_function`).
"""

from __future__ import annotations

import _ast
from bisect import bisect_left

from .model import ASYNC, GENERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

WORTH = 12_000
"""Bytes from which a source is outlined: below, all of it is parsed, and a syntax error in any body is seen."""
ONLY_AST = 0x400  # ast.PyCF_ONLY_AST
BIG = 64
"""A literal container of more constants than this is data, not settings: only its length is kept."""

BINARY = {
    _ast.Add: "+", _ast.Sub: "-", _ast.Mult: "*", _ast.Div: "/", _ast.FloorDiv: "//", _ast.Mod: "%", _ast.Pow: "**",
    _ast.MatMult: "@", _ast.BitAnd: "&", _ast.BitOr: "|", _ast.BitXor: "^", _ast.LShift: "<<", _ast.RShift: ">>",
}  # fmt: skip
UNARY = {_ast.Not: "not", _ast.USub: "-", _ast.UAdd: "+", _ast.Invert: "~"}
COMPARE = {
    _ast.Eq: "==", _ast.NotEq: "!=", _ast.Lt: "<", _ast.LtE: "<=", _ast.Gt: ">", _ast.GtE: ">=", _ast.In: "in",
    _ast.NotIn: "not in", _ast.Is: "is", _ast.IsNot: "is not",
}  # fmt: skip


class Lowering:
    """Turns one tree into rows. `word_lines` are sorted (line, word) pairs of the subject words in the file."""

    def __init__(self, word_lines: Sequence[tuple[int, str]] = (), lazy: bool = True) -> None:
        self.lines = [w[0] for w in word_lines]
        self.words = [w[1] for w in word_lines]
        self.lazy = lazy
        self.depth = 0
        self.generator = False

    # -------------------------------------------------------------------------------------------- expressions
    def expr(self, n: Any) -> Any:
        return EXPR[n.__class__](self, n)

    def exprs(self, nodes: Any) -> tuple[Any, ...]:
        return tuple([EXPR[n.__class__](self, n) for n in nodes]) if nodes else ()

    def maybe(self, n: Any) -> Any:
        return None if n is None else EXPR[n.__class__](self, n)

    def name(self, n: Any) -> Any:
        return ("name", at(n), n.id)

    def const(self, n: Any) -> Any:
        v = n.value
        if v is Ellipsis:
            v = "..."
        return ("const", at(n), v)

    def attr(self, n: Any) -> Any:
        v = n.value
        return ("attr", at(n), EXPR[v.__class__](self, v), n.attr)

    def call(self, n: Any) -> Any:
        f = n.func
        return (
            "call",
            at(n),
            EXPR[f.__class__](self, f),
            tuple([EXPR[a.__class__](self, a) for a in n.args]) if n.args else (),
            tuple([(k.arg, EXPR[k.value.__class__](self, k.value)) for k in n.keywords]) if n.keywords else (),
        )

    def sub(self, n: Any) -> Any:
        v, i = n.value, n.slice
        return ("sub", at(n), EXPR[v.__class__](self, v), EXPR[i.__class__](self, i))

    def bin(self, n: Any) -> Any:
        return ("bin", at(n), BINARY[n.op.__class__], self.expr(n.left), self.expr(n.right))

    def unary(self, n: Any) -> Any:
        op = UNARY[n.op.__class__]
        x = self.expr(n.operand)
        if op == "-" and x[0] == "const" and type(x[2]) in (int, float):
            return ("const", at(n), -x[2])
        return ("unary", at(n), op, x)

    def bool(self, n: Any) -> Any:
        return ("bool", at(n), "and" if n.op.__class__ is _ast.And else "or", self.exprs(n.values))

    def cmp(self, n: Any) -> Any:
        return (
            "cmp",
            at(n),
            tuple([COMPARE[o.__class__] for o in n.ops]),
            (self.expr(n.left), *self.exprs(n.comparators)),
        )

    def ifexp(self, n: Any) -> Any:
        return ("ifexp", at(n), self.expr(n.test), self.expr(n.body), self.expr(n.orelse))

    def sequence(self, n: Any) -> Any:
        kind = SEQUENCE[n.__class__]
        if len(n.elts) > BIG and all(e.__class__ is _ast.Constant for e in n.elts):
            return ("big", at(n), kind, len(n.elts))
        return (kind, at(n), self.exprs(n.elts))

    def dict(self, n: Any) -> Any:
        if len(n.values) > BIG and all(e.__class__ in (_ast.Constant, _ast.Name) for e in n.values):
            return ("big", at(n), "dict", len(n.values))
        return ("dict", at(n), tuple([self.maybe(k) for k in n.keys]), self.exprs(n.values))

    def function(self, n: Any) -> Any:
        return ("lambda", at(n), self.params(n.args), self.expr(n.body))

    def comp(self, n: Any) -> Any:
        gens = tuple([(self.expr(g.target), self.expr(g.iter), self.exprs(g.ifs)) for g in n.generators])
        if n.__class__ is _ast.DictComp:
            element: Any = ("tuple", at(n.key), (self.expr(n.key), self.expr(n.value)))
        else:
            element = self.expr(n.elt)
        return ("comp", at(n), COMP[n.__class__], element, gens)

    def walrus(self, n: Any) -> Any:
        return ("walrus", at(n), self.expr(n.target), self.expr(n.value))

    def wait(self, n: Any) -> Any:
        return ("await", at(n), self.expr(n.value))

    def produce(self, n: Any) -> Any:
        self.generator = True
        return ("yield" if n.__class__ is _ast.Yield else "yieldfrom", at(n), self.maybe(n.value))

    def star(self, n: Any) -> Any:
        return ("star", at(n), self.expr(n.value))

    def slice(self, n: Any) -> Any:
        return ("slice", at(n), self.maybe(n.lower), self.maybe(n.upper), self.maybe(n.step))

    def fstr(self, n: Any) -> Any:
        values = getattr(n, "values", ())
        return (
            "fstr",
            at(n),
            tuple([self.expr(v.value) for v in values if v.__class__.__name__ in ("FormattedValue", "Interpolation")]),
        )

    # -------------------------------------------------------------------------------------------- statements
    def block(self, nodes: Any) -> Any:
        out = []
        for n in nodes:
            make = STMT.get(n.__class__)
            out.append(make(self, n) if make else ("pass", at(n)))
        return tuple(out)

    def assign(self, n: Any) -> Any:
        v = n.value
        return ("assign", at(n), self.exprs(n.targets), EXPR[v.__class__](self, v))

    def aug(self, n: Any) -> Any:
        return ("aug", at(n), BINARY[n.op.__class__], self.expr(n.target), self.expr(n.value))

    def ann(self, n: Any) -> Any:
        return ("ann", at(n), self.expr(n.target), self.expr(n.annotation), self.maybe(n.value))

    def statement(self, n: Any) -> Any:
        v = n.value
        if v.__class__ is _ast.Constant:  # a docstring or a bare `...`
            return ("pass", at(n))
        return ("expr", at(n), EXPR[v.__class__](self, v))

    def ret(self, n: Any) -> Any:
        return ("return", at(n), self.maybe(n.value))

    def cond(self, n: Any) -> Any:
        kind = "if" if n.__class__ is _ast.If else "while"
        return (kind, at(n), self.expr(n.test), self.block(n.body), self.block(n.orelse))

    def loop(self, n: Any) -> Any:
        return ("for", at(n), self.expr(n.target), self.expr(n.iter), self.block(n.body), self.block(n.orelse))

    def context(self, n: Any) -> Any:
        items = tuple([(self.expr(i.context_expr), self.maybe(i.optional_vars)) for i in n.items])
        return ("with", at(n), items, self.block(n.body))

    def attempt(self, n: Any) -> Any:
        handlers = tuple([(self.maybe(h.type), h.name, self.block(h.body), at(h)) for h in n.handlers])
        return ("try", at(n), self.block(n.body), handlers, self.block(n.orelse), self.block(n.finalbody))

    def throw(self, n: Any) -> Any:
        return ("raise", at(n), self.maybe(n.exc))

    def claim(self, n: Any) -> Any:
        return ("assert", at(n), self.expr(n.test))

    def delete(self, n: Any) -> Any:
        return ("del", at(n), self.exprs(n.targets))

    def scope(self, n: Any) -> Any:
        return ("global" if n.__class__ is _ast.Global else "nonlocal", at(n), tuple(n.names))

    def imports(self, n: Any) -> Any:
        return ("import", at(n), tuple([(a.name, a.asname) for a in n.names]))

    def from_import(self, n: Any) -> Any:
        return ("from", at(n), n.module or "", tuple([(a.name, a.asname) for a in n.names]), n.level)

    def match(self, n: Any) -> Any:
        cases = tuple([(tuple(capture_names(c.pattern)), self.maybe(c.guard), self.block(c.body)) for c in n.cases])
        return ("match", at(n), self.expr(n.subject), cases, tuple([self.pattern(c.pattern) for c in n.cases]))

    def pattern(self, p: Any) -> Any:
        """The values that a pattern stands for; () when it matches anything, None when it asks for a structure."""
        if p.__class__ is _ast.MatchValue:
            return (self.expr(p.value),)
        if p.__class__ is _ast.MatchSingleton:
            return (("const", at(p), p.value),)
        if p.__class__ is _ast.MatchOr:
            inner = [self.pattern(x) for x in p.patterns]
            return None if None in inner else () if () in inner else tuple([v for values in inner for v in values])
        if p.__class__ is _ast.MatchAs:
            return self.pattern(p.pattern) if p.pattern else ()
        return None

    # -------------------------------------------------------------------------------------------- definitions
    def words_in(self, first: int, last: int) -> frozenset[str]:
        i, j = bisect_left(self.lines, first), bisect_left(self.lines, last + 1)
        return frozenset(self.words[i:j]) if i < j else NO_WORDS

    def params(self, a: Any) -> Any:
        out = []
        plain = [*a.posonlyargs, *a.args]
        defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
        for p, d in zip(plain, defaults):
            t = p.annotation
            out.append(
                (
                    p.arg,
                    "pos",
                    None if d is None else EXPR[d.__class__](self, d),
                    None if t is None else EXPR[t.__class__](self, t),
                )
            )
        if a.vararg:
            out.append((a.vararg.arg, "*", None, self.maybe(a.vararg.annotation)))
        for p, d in zip(a.kwonlyargs, a.kw_defaults):
            out.append((p.arg, "kw", self.maybe(d), self.maybe(p.annotation)))
        if a.kwarg:
            out.append((a.kwarg.arg, "**", None, self.maybe(a.kwarg.annotation)))
        return tuple(out)

    def define(self, n: Any) -> Any:
        decorators = self.exprs(n.decorator_list)
        first = min([n.lineno, *(d.lineno for d in n.decorator_list)]) + _above
        end = n.end_lineno + _above
        words = self.words_in(first, end)
        flags = ASYNC if n.__class__ is _ast.AsyncFunctionDef else 0
        block = None
        if not self.lazy or words or self.depth:
            outer, self.generator = self.generator, False
            self.depth += 1
            block = self.block(n.body)
            self.depth -= 1
            if self.generator:
                flags |= GENERATOR
            self.generator = outer
        row = (n.name, self.params(n.args), decorators, self.maybe(n.returns), first, end, flags, block, words)
        return ("def", at(n), row)

    def klass(self, n: Any) -> Any:
        first = min([n.lineno, *(d.lineno for d in n.decorator_list)]) + _above
        end = n.end_lineno + _above
        keywords = tuple([(k.arg, self.expr(k.value)) for k in n.keywords])
        row = (
            n.name, self.exprs(n.bases), keywords, self.exprs(n.decorator_list), first, end,
            self.block(n.body), self.words_in(first, end),
        )  # fmt: skip
        return ("class", at(n), row)


NO_WORDS: frozenset[str] = frozenset()
_above = 0
"""Lines of the file above the piece of it that is being lowered."""


def at(n: Any) -> int:
    """`model.pack` of a node's position; most nodes end on their own line."""
    line: int = n.lineno
    e: int = n.end_col_offset
    c: int = n.col_offset
    if n.end_lineno == line and e < 4096:
        return (line + _above << 12 | c) << 32 | e
    last: int = n.end_lineno
    return line + _above << 44 | (c if c < 4096 else 4095) << 32 | (last - line) << 12 | (e if e < 4096 else 4095)


def capture_names(pattern: Any) -> list[str]:
    """The names that a match pattern binds."""
    out = []
    stack = [pattern]
    while stack:
        p = stack.pop()
        for field in p._fields:
            v = getattr(p, field, None)
            if field in ("name", "rest") and isinstance(v, str):
                out.append(v)
            elif isinstance(v, list):
                stack.extend(x for x in v if isinstance(x, _ast.pattern))
            elif isinstance(v, _ast.pattern):
                stack.append(v)
    return out


SEQUENCE = {_ast.Tuple: "tuple", _ast.List: "list", _ast.Set: "set"}
COMP = {_ast.ListComp: "list", _ast.SetComp: "set", _ast.DictComp: "dict", _ast.GeneratorExp: "gen"}
_L = Lowering
EXPR: dict[Any, Callable[[Lowering, Any], Any]] = {
    _ast.Name: _L.name, _ast.Constant: _L.const, _ast.Attribute: _L.attr, _ast.Call: _L.call, _ast.Subscript: _L.sub,
    _ast.BinOp: _L.bin, _ast.UnaryOp: _L.unary, _ast.BoolOp: _L.bool, _ast.Compare: _L.cmp, _ast.IfExp: _L.ifexp,
    _ast.Tuple: _L.sequence, _ast.List: _L.sequence, _ast.Set: _L.sequence, _ast.Dict: _L.dict,
    _ast.Lambda: _L.function,
    _ast.ListComp: _L.comp, _ast.SetComp: _L.comp, _ast.DictComp: _L.comp, _ast.GeneratorExp: _L.comp,
    _ast.NamedExpr: _L.walrus, _ast.Await: _L.wait, _ast.Yield: _L.produce, _ast.YieldFrom: _L.produce,
    _ast.Starred: _L.star, _ast.Slice: _L.slice, _ast.JoinedStr: _L.fstr,
}  # fmt: skip
if hasattr(_ast, "TemplateStr"):  # 3.14
    EXPR[_ast.TemplateStr] = _L.fstr
STMT: dict[Any, Callable[[Lowering, Any], Any]] = {
    _ast.Assign: _L.assign, _ast.AugAssign: _L.aug, _ast.AnnAssign: _L.ann, _ast.Expr: _L.statement,
    _ast.Return: _L.ret,
    _ast.If: _L.cond, _ast.While: _L.cond, _ast.For: _L.loop, _ast.AsyncFor: _L.loop, _ast.With: _L.context,
    _ast.AsyncWith: _L.context, _ast.Try: _L.attempt, _ast.Raise: _L.throw, _ast.Assert: _L.claim,
    _ast.Delete: _L.delete,
    _ast.Global: _L.scope, _ast.Nonlocal: _L.scope, _ast.Import: _L.imports, _ast.ImportFrom: _L.from_import,
    _ast.Match: _L.match, _ast.FunctionDef: _L.define, _ast.AsyncFunctionDef: _L.define, _ast.ClassDef: _L.klass,
    _ast.Break: lambda _, n: ("break", at(n)), _ast.Continue: lambda _, n: ("continue", at(n)),
    _ast.Pass: lambda _, n: ("pass", at(n)),
}  # fmt: skip
if hasattr(_ast, "TryStar"):  # 3.11
    STMT[_ast.TryStar] = _L.attempt


def lower(source: str | bytes, word_lines: Sequence[tuple[int, str]] = (), lazy: bool = True) -> Any:
    """The block of a module. Raises what the compiler raises (SyntaxError, ValueError for null bytes, RecursionError,
    MemoryError). `source` is never executed."""
    tree = _outlined(source, word_lines) if lazy and len(source) > WORTH else None
    if tree is None:
        tree = compile(source, "<source>", "exec", ONLY_AST, dont_inherit=True, optimize=0)
    return Lowering(word_lines, lazy).block(tree.body)


def _outlined(source: str | bytes, word_lines: Sequence[tuple[int, str]]) -> Any:
    """The tree of a large source without the bodies that are not lowered; None when it has to be parsed whole."""
    from .outline import outline

    text = isinstance(source, str)
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    short = outline(data, [w[0] for w in word_lines])
    if short is None:
        return None
    try:
        return compile(
            short.decode("utf-8", "surrogatepass") if text else short,
            "<source>", "exec", ONLY_AST, dont_inherit=True, optimize=0,
        )  # fmt: skip
    except (SyntaxError, ValueError):
        return None


def lower_function(text: str, first_line: int) -> Any:
    """The row of one function from its own lines, which begin at `first_line` of its file; positions as in the file."""
    global _above
    # an indented definition is compiled under `if 1:`, so that columns stay what they are; empty lines in front would
    # keep the line numbers, but the tokenizer takes its time for each
    indented = text[:1] in (" ", "\t")
    tree = compile("if 1:\n" + text if indented else text, "<source>", "exec", ONLY_AST, dont_inherit=True, optimize=0)
    _above = first_line - 2 if indented else first_line - 1
    try:
        return Lowering(lazy=False).define(tree.body[0].body[0] if indented else tree.body[0])
    finally:
        _above = 0
