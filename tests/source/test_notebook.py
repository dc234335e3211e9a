"""Notebooks: one source, and the way back to cell and file."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.check.source.notebook import load, without_magics


def notebook(*cells: object, **metadata: object) -> bytes:
    rows = [
        c if isinstance(c, dict) else {"cell_type": "code", "metadata": {}, "source": c, "outputs": []} for c in cells
    ]
    return json.dumps({"cells": rows, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


line_texts = st.text(st.sampled_from('ab= "\\é中\t#'), max_size=8).map("#".__add__)


@given(
    st.lists(st.tuples(st.sampled_from(("code", "markdown")), st.lists(line_texts, max_size=4)), max_size=5),
    st.sampled_from((None, 1)),
)
def test_map(cells: list[tuple[str, list[str]]], indent: int | None) -> None:
    rows = [
        {"cell_type": kind, "source": [line + "\n" for line in lines[:-1]] + lines[-1:], "metadata": {}}
        for kind, lines in cells
    ]
    data = json.dumps({"cells": rows, "metadata": {}, "nbformat": 4}, indent=indent, ensure_ascii=False).encode()
    book = load(data)
    raw = data.decode().split("\n")
    texts = book.text.split("\n")[:-1]
    assert len(texts) == len(book.places)
    for n, text in enumerate(texts, 1):
        cell, line, at = book.place(n)
        assert cells[cell - 1][0] == "code"
        assert cells[cell - 1][1][line - 1] == text
        assert json.dumps(text, ensure_ascii=False)[1:-1] in raw[at - 1]
    expected = [
        line for kind, lines in cells if kind == "code" for line in (lines[:-1] if lines and not lines[-1] else lines)
    ]
    assert texts == expected


def test_string_source_and_version_3() -> None:
    assert load(notebook("a = 1\nb = 2")).text == "a = 1\nb = 2\n"
    old = {"nbformat": 3, "metadata": {}, "worksheets": [{"cells": [
        {"cell_type": "heading", "source": ["Title"]},
        {"cell_type": "code", "language": "python", "input": ["x = 1\n", "y = 2"], "outputs": []},
        {"cell_type": "code", "language": "bash", "input": ["ls"]},
    ]}]}  # fmt: skip
    book = load(json.dumps(old).encode())
    assert book.text == "x = 1\ny = 2\n"
    assert book.place(2)[:2] == (2, 2)


def test_sources_that_are_cut_in_the_middle_of_a_line() -> None:
    assert load(notebook(["a", " = 1\n", "b = 2"])).text == "a = 1\nb = 2\n"


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls\ny = 1", "if x:\n    pass\ny = 1"),
        ("torch.nn?\nx = 1", "pass\nx = 1"),
        ("?torch", "pass"),
        ("files = !ls *.py\nx = 1", "files = None\nx = 1"),
        ("t = %timeit -o f()\nx = 1", "t = None\nx = 1"),
        ("%%bash\nls\nrm x", "\n\n"),
        ("%%writefile train.py\nimport torch", "\n"),
        ("%%time\nfor x in y:\n    %pdb\n    pass", "\nfor x in y:\n    pass\n    pass"),
        ("!pip install a \\\n  b\nx = 1", "pass\n\nx = 1"),
        ('s = """\n%d items\n!x\n"""\n!ls', 's = """\n%d items\n!x\n"""\npass'),
        ("x = (a\n  % b)\ny = a % b", "x = (a\n  % b)\ny = a % b"),
        ("x = a != b", "x = a != b"),
        ("x %= 3", "x %= 3"),
        ("s = 'what?'", "s = 'what?'"),
        ("# why?\nx = 1", "# why?\nx = 1"),
    ],
)
def test_magics(cell: str, python: str) -> None:
    out = without_magics(cell.split("\n"))
    assert "\n".join(out) == python
    compile("\n".join(out), "cell", "exec")


def test_other_languages_give_nothing() -> None:
    assert load(notebook("x <- 1", kernelspec={"name": "ir", "language": "R"})).text == ""
    assert load(notebook("x = 1", language_info={"name": "python"})).text == "x = 1\n"
    shell = {"cell_type": "code", "source": ["ls"], "metadata": {"vscode": {"languageId": "shellscript"}}}
    assert load(notebook(shell, "x = 1")).text == "x = 1\n"


def test_nothing_is_lost_beside_outputs_and_attachments() -> None:
    cell = {
        "outputs": [{"data": {"image/png": "x" * 1000, "text": ["a\n"]}}],
        "source": ["y = 1"],
        "cell_type": "code",
        "metadata": {"t": [1, {"cells": []}]},
    }
    book = load(notebook(cell, "z = 2"))
    assert book.text == "y = 1\nz = 2\n"
    assert [p[0] for p in book.places] == [1, 2]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"{\n", 2),
        (b"[]", 1),
        (b'{"cells": 3}', 1),
        (b'{"cells": [1]}', 1),
        (b'{"cells": [\n{"source": [3]}]}', 2),
        (b'{"cells": [\n{"source": ["a"\n', 3),
        (b'{"cells": [],\n}', 2),
        (b'{"cells": []} x', 1),
        (b'{"cells": [\n{"a" 1}]}', 2),
        (b"\x89PNG\r\n\x1a\n\x00", 1),
        (b'{"cells": [\n{"source": ["\xff"]}]}', 2),
        (b'{"metadata": {"x": ' + b"[" * 200_000, 1),
    ],
)
def test_broken(data: bytes, line: int) -> None:
    with pytest.raises(SyntaxError) as caught:
        load(data)
    assert caught.value.lineno == line
    assert "not a notebook" in caught.value.msg


@given(st.binary(max_size=60))
def test_any_bytes_give_a_source_or_a_syntax_error(data: bytes) -> None:
    for candidate in (data, b'{"cells": [{"cell_type": "code", "source": [' + data + b"]}]}"):
        with contextlib.suppress(SyntaxError):
            assert len(load(candidate).places) == load(candidate).text.count("\n")


def test_a_broken_cell_costs_only_itself() -> None:
    book = load(notebook("x = 1", "for (\n  y", "z = (\n3)", "print 'a'\n\0"))
    assert book.text == "x = 1\n\n\nz = (\n3)\n\n\n"
    assert [(line, book.place(line)[:2]) for line, _ in book.broken] == [(2, (2, 1)), (6, (4, 1))]
    assert book.place(5)[:2] == (3, 2)
    compile(book.text, "notebook", "exec")


def test_an_indented_cell_is_read_as_jupyter_reads_it():
    import json

    cells = [{"cell_type": "code", "source": ["    x = 1\n", "    for i in y:\n", "        z(i)\n"]}]
    book = load(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode())
    assert not book.broken and book.text.splitlines() == ["x = 1", "for i in y:", "    z(i)"]


def test_shell_words_need_no_percent_sign() -> None:
    book = load(notebook("ls /content/checkpoints/\nx = 1\nif x:\n  cd sub/dir", "ls = 1\nls /= x", "ls /a/\ny = = 1"))
    assert book.text == "pass\nx = 1\nif x:\n  pass\nls = 1\nls /= x\n\n\n"
    assert [book.place(line)[:2] for line, _ in book.broken] == [(3, 2)]
