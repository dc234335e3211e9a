"""What is said of code that cannot be parsed, in one sentence and with a place."""

from __future__ import annotations

import sys

import pytest

from torchvet.check.source.python import later_fstring, newer_python, syntax_problem
from torchvet.check.source.text import decode


def problem(source: str, running: tuple[int, int] = sys.version_info[:2]) -> tuple[int, int, str, str]:
    try:
        compile(source, "x.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        line, column, text = syntax_problem(e, source, running)
        return line, column, text.render("en"), text.render("zh")
    raise AssertionError("it compiles")


def test_plain_mistakes() -> None:
    line, column, en, zh = problem("x = 1\ny = (2\nz = 3\n")
    assert line == 2 and column >= 1
    assert en == "Python cannot parse this: '(' was never closed"
    assert zh.startswith("Python 无法解析：")
    assert problem("if x:\ny = 1\n")[0] == 2


def test_null_bytes() -> None:
    for source in ("\0", "x = 1\ny = '\0'\n"):
        line, _, en, zh = problem(source)
        assert (line, en) == (source.count("\n", 0, source.index("\0")) + 1, "holds null bytes: not a text file")
        assert zh == "含有空字节：不是文本文件"


@pytest.mark.parametrize("source", ["(" * 3000 + ")" * 3000, "x = " + "-" * 3000 + "1", "x" + "[0" * 3000 + "]" * 3000])
def test_nesting(source: str) -> None:
    try:
        compile(source, "x.py", "exec")
    except (SyntaxError, RecursionError, MemoryError, OverflowError) as e:
        line, _, text = syntax_problem(e, source)
        assert line == 1 and str(text) == "nested too deeply for Python to parse"


def test_undecodable() -> None:
    with pytest.raises(SyntaxError) as caught:
        decode(b"x = 1\ny = '\xe9'\n")
    line, _, text = syntax_problem(caught.value, None)
    assert line == 2 and "codec can't decode" in str(text)
    with pytest.raises(UnicodeDecodeError) as raw:
        b"a\n\xff".decode()
    assert syntax_problem(raw.value)[0] == 2


@pytest.mark.parametrize(
    ("code", "what", "needed"),
    [
        ("type X = int", "the `type` statement", (3, 12)),
        ("type X[T] = list[T]", "the `type` statement", (3, 12)),
        ("def f[T](x: T) -> T: ...", "a type parameter", (3, 12)),
        ("class A[T]:", "a type parameter", (3, 12)),
        ("class A[T = int]:", "a default of a type parameter", (3, 13)),
        ("    except* ValueError:", "`except*`", (3, 11)),
        ("except A, B:", "`except A, B`", (3, 14)),
        ("x = t'{y}'", "a t-string", (3, 14)),
        ('x = f(rt"{y}")', "a t-string", (3, 14)),
        ("match x:", "`match`", (3, 10)),
        ("x: tuple[*Ts]", "a star inside an index", (3, 11)),
        ("x = f'{d['a']}'", "an f-string of the new form", (3, 12)),
        ("x = f'{'\\n'.join(y)}'", "an f-string of the new form", (3, 12)),
        ("x = f'{f'{1}'}'", "an f-string of the new form", (3, 12)),
    ],
)
def test_newer_pythons(code: str, what: str, needed: tuple[int, int]) -> None:
    found = newer_python("invalid syntax", "x = 0\n" + code, 2, (3, 9))
    assert found is not None
    assert (str(found[0]), found[1]) == (what, needed)
    again = newer_python("invalid syntax", "x = 0\n" + code, 2, needed)
    assert again is None or again[1] > needed
    line, _, text = syntax_problem(SyntaxError("invalid syntax", (None, 2, 1, code)), "x = 0\n" + code, (3, 9))
    assert line == 2
    assert str(text) == f"{what} needs Python 3.{needed[1]}, torchvet runs on 3.9"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python knows them")
@pytest.mark.parametrize(
    "code", ["type X = int\n", "def f[T](x): pass\n", "x = f'{d['a']}'\n", "x = f'{\n1}'\n", "x = f'{1 # one\n}'\n"]
)
def test_newer_pythons_for_real(code: str) -> None:
    line, _, en, zh = problem("import torch\n" + code)
    assert line == 2
    assert "needs Python 3.12, torchvet runs on 3." in en and "需要 Python 3.12" in zh


@pytest.mark.parametrize(
    "code",
    [
        "x = f'{d[\"a\"]}'",
        "x = 'f{'",
        "x = f'{{'",
        'x = f"""{d["a"]}"""',
        "x = f'{x:>{w}}'",
        "x = f'{d['a'}'",
        "# f'{d['a']}'",
        "x = f'{a",
    ],
)
def test_fstrings_that_are_old_or_broken(code: str) -> None:
    assert not later_fstring(code)


@pytest.mark.parametrize("code", ["print 'x'\n", "try:\n    pass\nexcept ValueError, e:\n    pass\n", "exec 'x'\n"])
def test_python_2(code: str) -> None:
    if sys.version_info >= (3, 14) and "except" in code:
        pytest.skip("valid again")
    assert problem(code)[2].startswith("this is Python 2 code: ")


def test_broken_code_is_not_taken_for_newer() -> None:
    for code in ("type x", "def f(:\n", "class A[:\n    pass", "x = t'", "match x\n"):
        assert "torchvet runs on" not in problem(code, (3, 14))[2]
