"""Trees to rows: every construct is kept, positions are the compiler's, bodies on demand equal bodies at once."""

from __future__ import annotations

import ast
import marshal
import sysconfig
from pathlib import Path

import pytest

from torchvet.check.program.collect import lower, lower_function
from torchvet.check.program.model import (
    GENERATOR,
    Module,
    blocks_of,
    calls_in,
    definitions,
    expressions_of,
    pack,
    span_of,
    target_names,
    walk_block,
    walk_expr,
)

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
FILES = ["argparse.py", "typing.py", "asyncio/tasks.py", "dataclasses.py", "inspect.py", "shutil.py", "contextlib.py"]


@pytest.mark.parametrize("place", [(1, 0, 1, 1), (70_000, 4000, 70_500, 12), (1, 0, 1_000_000, 4095)])
def test_positions_round_trip(place):
    assert span_of(pack(*place)) == place


def test_columns_beyond_the_field_are_cut():
    assert span_of(pack(3, 9000, 3, 9010)) == (3, 4095, 3, 4095)


@pytest.mark.parametrize("name", FILES)
def test_rows_of_the_standard_library(name):
    source = (LIBRARY / name).read_bytes()
    block = lower(source, lazy=False)
    assert marshal.loads(marshal.dumps(block)) == block

    def everything(block):
        for s in walk_block(block):
            yield s
            if s[0] in ("def", "class"):
                yield from everything(s[2][7] if s[0] == "def" else s[2][6])

    rows = list(everything(block))
    tree = ast.parse(source)
    for kind, node in {
        "if": ast.If,
        "for": (ast.For, ast.AsyncFor),
        "return": ast.Return,
        "aug": ast.AugAssign,
    }.items():
        assert sum(s[0] == kind for s in rows) == sum(isinstance(n, node) for n in ast.walk(tree)), kind
    calls = {span_of(x[1]) for s in rows for e in expressions_of(s) for x in walk_expr(e) if x[0] == "call"}
    wanted = {
        (n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) for n in ast.walk(tree) if isinstance(n, ast.Call)
    }
    # calls in annotations, lambda defaults and f-string format specifications are not kept
    assert calls <= wanted and len(calls) >= 0.97 * len(wanted)


@pytest.mark.parametrize("name", FILES)
def test_a_body_on_demand_is_the_body(name):
    source = (LIBRARY / name).read_text(encoding="utf-8")
    lines = source.split("\n")
    module = Module(name, lower(source, lazy=False), frozenset())
    n = 0
    for f in module.all_functions():
        row = lower_function("\n".join(lines[f.first_line - 1 : f.end_line]), f.first_line)
        assert row[1] == f.pos and row[2][4:6] == (f.first_line, f.end_line)
        assert row[2][7] == f._body, f.qualname
        n += 1
    assert n > 10


def test_lazy_lowers_what_has_a_word():
    source = "def f():\n    a.backward()\ndef g():\n    return 1\nclass C:\n    def m(self):\n        x.barrier()\n"
    block = lower(source, [(2, ".backward("), (7, "barrier(")])
    f, g, c = (s[2] for s in block)
    assert f[7] is not None and f[8] == {".backward("}
    assert g[7] is None and not g[8]
    assert c[7] == {"barrier("} and c[6][0][2][7] is not None


def test_generators_are_marked_and_do_not_leak_outward():
    block = lower("def outer():\n    def gen():\n        yield 1\n    return gen\n", lazy=False)
    outer = block[0][2]
    inner = outer[7][0][2]
    assert inner[6] & GENERATOR and not outer[6] & GENERATOR


def test_big_literals_become_their_length():
    block = lower(f"x = [{', '.join(map(str, range(500)))}]\ny = {{{', '.join(f'{i!r}: {i}' for i in range(99))}}}\n")
    assert [s[3][0] for s in block] == ["big", "big"] and block[0][3][3] == 500


def test_every_statement_is_walked():
    source = """
async def f(a, /, b=1, *c, d: int = 2, **e):
    async with a as x, b:
        async for i in c:
            await d
    try:
        pass
    except (A, B) as error:
        raise C from error
    else:
        del a.b, c[0]
    finally:
        assert a, "no"
    while (n := g()):
        break
    match a:
        case [h, *rest] if h > 1:
            return h
        case {"k": v, **others}:
            continue_ = v
    global z
    k: int = 1
    z += 1
    return [i async for i in x if i], {p: q for p, q in y}, (lambda s=1: s), f"{a!r:>{b}}", *c
"""
    block = lower(source, lazy=False)
    body = block[0][2][7]
    kinds = {s[0] for s in walk_block(body)}
    assert kinds >= {"with", "for", "try", "raise", "del", "assert", "while", "match", "return", "global", "ann", "aug"}
    assert [p[:2] for p in block[0][2][1]] == [("a", "pos"), ("b", "pos"), ("c", "*"), ("d", "kw"), ("e", "**")]
    match = next(s for s in body if s[0] == "match")
    assert [set(c[0]) for c in match[3]] == [{"h", "rest"}, {"v", "others"}]
    assert len(blocks_of(match)) == 2
    assert [c[2][-1] for c in calls_in(body)] == ["g"]
    assert list(target_names(lower("(a, [b, *c]), d.e = x")[0][2][0])) == ["a", "b", "c"]


def test_definitions_are_found_under_if_and_try():
    block = lower("if x:\n    def f(): pass\ntry:\n    class C: pass\nexcept E:\n    def g(): pass\n")
    assert [row[0] for _, _, row in definitions(block)] == ["f", "C", "g"]


@pytest.mark.parametrize("source", ["x = \0", "def f(:\n", "x = " + "(" * 4000, b"\xff\xfe\x00x"])
def test_bad_source_raises_what_the_compiler_raises(source):
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        lower(source)


def test_patterns_give_the_values_that_they_stand_for():
    source = (
        "match x:\n case 0 | 1: pass\n case None: pass\n case Kind.A as k: pass\n case {'a': b}: pass\n case y: pass"
    )
    match = lower(source.encode())[0]
    values, singleton, named, structure, anything = match[4]
    assert [v[2] for v in values] == [0, 1]
    assert [v[2] for v in singleton] == [None]
    assert [(v[0], v[3]) for v in named] == [("attr", "A")]
    assert structure is None and anything == ()
