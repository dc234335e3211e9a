"""Bytes to text: the same as what Python's own reader says."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.check.source.text import char_column, decode, encoding, line_at, lines_of

COOKIES = (
    b"# coding: latin-1", b"# -*- coding: utf-8 -*-", b"# vim: set fileencoding=cp1252 :", b"#coding=UTF_8", b"# coding: nonsense",
    b"x = 1 # coding: latin-1", b"", b"   ", b"\f# coding: koi8-r", b"#!/usr/bin/env python", b"pass", b"# coding: Latin-1-unix",
    b"# encoding: iso-8859-15", b"# coding : ascii",
)  # fmt: skip
heads = st.lists(st.sampled_from(COOKIES), min_size=0, max_size=3)
ends = st.sampled_from((b"\n", b"\r\n"))


@given(bom=st.sampled_from((b"", b"\xef\xbb\xbf")), head=heads, end=ends, body=st.binary(max_size=8))
def test_encoding_like_tokenize(bom: bytes, head: list[bytes], end: bytes, body: bytes) -> None:
    data = (
        bom + b"".join(line + end for line in head) + b"s = '" + body.replace(b"\n", b"").replace(b"\r", b"") + b"'\n"
    )
    try:
        expected, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        # tokenize also checks that the first lines decode, which `decode` does
        with pytest.raises(SyntaxError):
            decode(data)
        return
    assert encoding(data) == expected
    try:
        text = data.decode(expected)
    except UnicodeDecodeError:
        with pytest.raises(SyntaxError):
            decode(data)
    else:
        assert decode(data) == text


@pytest.mark.parametrize(
    "data",
    [
        b"s = 'caf\xc3\xa9'\n",
        b"# coding: latin-1\ns = 'caf\xe9'\n",
        b"\n# coding: cp1252\ns = '\x80'\n",
        b"\xef\xbb\xbfs = 'caf\xc3\xa9'\n",
        b"s = 'a'\r\nt = 'b'\r\n",
        b"s = 'a'\rt = 'b'\r",
        b"\x0cs = 'a'\n\x0c\nt = 'b'\n",
        b"",
        b"\n\n",
        "s = '中文'  # 注释\n".encode("gbk").join([b"# coding: gbk\n", b""]),
    ],
)
def test_accepts_what_python_accepts(data: bytes) -> None:
    assert ast.dump(ast.parse(decode(data))) == ast.dump(ast.parse(data))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a = 1\nb = 2\ns = 'caf\xe9'\n", 3),
        (b"a = 1\rb = 2\rs = 'caf\xe9'\r", 3),
        (b"a = 1\r\nb = 2\r\ns = 'caf\xe9'\r\n", 3),
        (b"\xef\xbb\xbf# x\ns = '\xff'\n", 2),
        (b"# coding: no-such-thing\n", 1),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1),
        (b"# coding: hex\nxx\n", 1),
        (b"# coding: ascii\ns = '\xe9'\n", 2),
    ],
)
def test_refuses_with_the_line(data: bytes, line: int) -> None:
    with pytest.raises(SyntaxError) as caught:
        decode(data)
    assert caught.value.lineno == line
    with pytest.raises(SyntaxError):
        compile(data, "x", "exec")


@given(st.text(st.sampled_from("ab\n\r\f\x0b\x1c\u2028é中"), max_size=20))
def test_lines_like_the_compiler(text: str) -> None:
    source = "".join("#" + line for line in text.replace("\n", "\n#").replace("\r", "\r#")) + "\nmark"
    lines = lines_of(source)
    tree = ast.parse(source.encode())
    assert lines[tree.body[-1].lineno - 1] == "mark"
    data = source.encode()
    assert line_at(data, data.index(b"mark")) == tree.body[-1].lineno


@given(st.text(st.characters(exclude_characters="\n\r\0\f'\\", exclude_categories=["Cs", "Cc"]), max_size=12))
def test_columns_like_the_compiler(text: str) -> None:
    line = f"f('{text}', mark)"
    mark = ast.parse(line).body[0].value.args[1]
    assert char_column(line, mark.col_offset) == line.index("mark")
