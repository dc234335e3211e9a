"""The outline of a large source gives the rows of the whole source."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.check.program import collect
from torchvet.check.program.outline import outline, triple_quoted

SOURCE = textwrap.dedent('''\
    """A module."""
    import torch


    @torch.no_grad()
    def short(a, b=1): return a


    class Net(torch.nn.Module):
        """Class.

        def not_a_method(self):
            this is text
        """

        rate = 0.1

        def __init__(
            self,
            a: int,
            b: str = ")",
        ) -> None:
            super().__init__()
            self.a = a
            text = """
    def inside():
        of a string
    """
            self.text = text

            # a comment at the end

        @property
        def size(self):
            # first a comment
            def inner(x):
                return x

            return inner(self.a)

        async def wait(self, x):  # a comment behind the head
            if x:
                await x
            return x

        def last(self):
            x = 1
            y = [
                2,
            ]
            return x, y
    other = Net(1)


    def train(loader):
        for batch in loader:
            loss = batch.sum()
            loss.backward()
''')


def whole(source: str, words: list[tuple[int, str]]) -> object:
    tree = compile(source, "<source>", "exec", collect.ONLY_AST, dont_inherit=True, optimize=0)
    return collect.Lowering(words, True).block(tree.body)


def outlined(source: str, words: list[tuple[int, str]]) -> object:
    short = outline(source.encode(), [w[0] for w in words])
    assert short is not None
    assert short.count(b"\n") == source.count("\n")
    tree = compile(short, "<source>", "exec", collect.ONLY_AST, dont_inherit=True, optimize=0)
    return collect.Lowering(words, True).block(tree.body)


def word_at(text: str) -> list[tuple[int, str]]:
    return [(n, "w") for n, line in enumerate(SOURCE.split("\n"), 1) if text in line]


@pytest.mark.parametrize(
    "text", ["no such text", "backward(", "no_grad", "await x", "rate", "self.text = text", "y = ["]
)
def test_same_rows(text: str) -> None:
    assert outlined(SOURCE, word_at(text)) == whole(SOURCE, word_at(text))


def test_bodies_without_words_are_gone() -> None:
    short = outline(SOURCE.encode(), [n for n, _ in word_at("backward(")])
    assert short is not None
    assert b"super()" not in short and b"inner" not in short and b"await" not in short
    assert b"loss.backward()" in short and b"rate = 0.1" in short and b"other = Net(1)" in short


@pytest.mark.parametrize(
    "source",
    [
        "def f():\r\n    a = 1\r\n    b = 2\r\n    return a\r\n",
        "def f():\n\ta = 1\n\tb = 2\n\treturn a\n",
        "def f():\n    a = 1\f\n    b = 2\n    return a\n",
        'x = \'"""\'\ndef f():\n    a = 1\n    b = 2\n    return a\n',
        '# """\ndef f():\n    a = 1\n    b = 2\n    return a\n',
        'x = """never closed\ndef f():\n    a = 1\n    b = 2\n    return a\n',
        "def f():\n    a = 1 + \\\n2\n    b = 2\n    return a\n",
        "x = 1\n",
    ],
)
def test_unsure_is_parsed_whole(source: str) -> None:
    assert outline(source.encode(), []) is None


def test_tabs_in_strings_are_text() -> None:
    source = SOURCE.replace("        this is text\n", "\t\tthis is text\n\n\tand more\n")
    assert source.count("\n\t") == 2
    assert outlined(source, []) == whole(source, [])
    assert outline((source + "def f():\n\treturn 1\n").encode(), []) is None


def test_triple_quotes() -> None:
    assert triple_quoted(b'a = """x"""; b = """y\n"""\n') == ([4, 17], [11, 25])
    assert triple_quoted(b"a = '''\"\"\"'''\n") == ([4], [13])


def test_a_large_source_is_parsed_whole_when_its_outline_does_not_parse() -> None:
    # a bracket that goes on at the margin: the blanked body ends too early
    source = "def f():\n    c = 0\n    d = 0\n    a = (1,\n2)\n    b = 2\n    return a\n" + "# filling\n" * 2000
    assert outline(source.encode(), []) is not None
    assert collect.lower(source) == whole(source, [])


def test_syntax_errors_outside_of_bodies_are_reported() -> None:
    with pytest.raises(SyntaxError):
        collect.lower(SOURCE + "x = = 1\n" + "# filling\n" * 2000)


BODY = st.lists(
    st.sampled_from(
        [
            "x = 1", "y = [\n        1,\n    ]", "if x:\n        pass\n    else:\n        x = 2", "'''text\n def g():\n'''",
            "# comment", "\n", "def g(a):\n        return a\n", "call(a,\n         b)", "s = 'def f():'", "lambda: 0",
            "async def h():\n        await x", "x = \"#\"", "return 1",
        ]
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["def f(a):", "def f(\n    a,\n):", "async def f(): # c"]), BODY), max_size=5)
)
def test_rows_of_any_source(functions: list[tuple[str, list[str]]]) -> None:
    source = "a = 1\n"
    for head, body in functions:
        source += head + "\n    " + "\n    ".join(body) + "\n    pass\nb = 2\n"
    short = outline(source.encode(), [])
    if short is not None:
        assert outlined(source, []) == whole(source, [])
