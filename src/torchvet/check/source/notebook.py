"""Jupyter notebooks: the code cells as one source, and the way back from its lines.

The JSON is read by a walk of our own over the standard library's scanners, because a finding needs the line in the
.ipynb file, which `json.loads` forgets.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PYTHON_LANGUAGES = ("python", "ipython", "python3", "xpython")
PYTHON_CELLS = frozenset((
    "time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "python", "python3", "pypy", "debug", "snakeviz",
))  # fmt: skip
"""Cell magics whose body is Python of this notebook."""
AUTOMAGIC = frozenset((
    "ls", "ll", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "less", "more", "man", "clear", "cd", "pwd", "pushd", "popd",
    "pip", "conda", "mamba", "uv", "run", "time", "timeit", "load", "env", "matplotlib", "history", "who", "whos",
))  # fmt: skip
"""Line magics and shell aliases that IPython takes without `%` (`%automagic` is on unless somebody turns it off)."""


class Notebook:
    """One source made of the code cells of a notebook, each cell ending in a line break.

    text    the source; magics are replaced by `pass`, cells in other languages by blank lines, so lines stay in step
    places  for each line of `text` (cell from 1, line in the cell from 1, line in the .ipynb file from 1)
    broken  (line of `text`, SyntaxError) of each cell that Python cannot parse; blank lines stand in its place, because
            Jupyter too compiles cell by cell, and a draft in one cell says nothing about the others
    """

    __slots__ = ("broken", "places", "text")

    def __init__(self, text: str, places: list[tuple[int, int, int]]) -> None:
        self.text = text
        self.places = places
        self.broken: list[tuple[int, SyntaxError]] = []

    def place(self, line: int) -> tuple[int, int, int]:
        """(cell, line in the cell, line in the .ipynb file) of a line of `text`, from 1; cells of every kind count."""
        if not self.places:
            return 1, 1, 1
        return self.places[min(max(line, 1), len(self.places)) - 1]


def load(data: bytes) -> Notebook:
    """Read a notebook (nbformat 3, 4 and what is like it). Code in another language than Python gives an empty text.

    Raises SyntaxError, with the line in the .ipynb file, when it is no notebook."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise SyntaxError(f"not a notebook: {e.reason}", (None, data[: e.start].count(b"\n") + 1, 1, None)) from None
    try:
        root, cells = _Reader(text).notebook()
    except ValueError as e:
        position = getattr(e, "pos", 0)
        reason = getattr(e, "msg", str(e))
        raise SyntaxError(f"not a notebook: {reason}", (None, text.count("\n", 0, position) + 1, 1, None)) from None
    except RecursionError:
        raise SyntaxError("not a notebook: nested too deeply", (None, 1, 1, None)) from None
    if not _is_python(root):
        return Notebook("", [])
    out: list[str] = []
    starts: list[int] = []
    places: list[tuple[int, int, int]] = []
    for number, (kind, language, lines) in enumerate(cells, 1):
        if kind != "code" or language not in ("", *PYTHON_LANGUAGES):
            continue
        source = without_magics([line for line, _ in lines])
        starts.append(len(out))
        for at, (line, (_, raw)) in enumerate(zip(source, lines), 1):
            out.append(line)
            places.append((number, at, raw))
    book = Notebook("\n".join(out) + "\n" if out else "", places)
    if _mistake(book.text) is not None:
        for start, end in zip(starts, [*starts[1:], len(out)]):
            mistake = _mistake("\n".join(out[start:end]) + "\n")
            if mistake is not None and any(_is_automagic(line) for line in out[start:end]):
                out[start:end] = without_automagics(out[start:end])
                mistake = _mistake("\n".join(out[start:end]) + "\n")
            if mistake is not None and out[start:end] and out[start][:1] in (" ", "\t"):
                out[start:end] = unindented(out[start:end])
                mistake = _mistake("\n".join(out[start:end]) + "\n")
            if mistake is not None:
                book.broken.append((start + (mistake.lineno or 1), mistake))
                out[start:end] = [""] * (end - start)
        book.text = "\n".join(out) + "\n"
    return book


def unindented(lines: list[str]) -> list[str]:
    """A cell without the indentation of its first line, which Jupyter takes away from all lines that have it
    (IPython/core/inputtransformer2.py: `leading_indent`)."""
    first = lines[0]
    indent = first[: len(first) - len(first.lstrip())]
    return [line[len(indent) :] if line.startswith(indent) else line for line in lines]


def _mistake(source: str) -> SyntaxError | None:
    from warnings import catch_warnings

    try:
        with catch_warnings(record=True):  # a doubtful escape in somebody's string is no news of ours
            compile(source, "<cell>", "exec", 0x400, dont_inherit=True)  # ast.PyCF_ONLY_AST
    except SyntaxError as e:
        return e
    except (ValueError, RecursionError, MemoryError, OverflowError) as e:
        return SyntaxError(str(e) or type(e).__name__)
    return None


def _is_python(root: dict[str, Any]) -> bool:
    metadata = root.get("metadata")
    if not isinstance(metadata, dict):
        return True
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        row = metadata.get(key)
        if isinstance(row, dict) and isinstance(row.get(name), str):
            return row[name].lower() in PYTHON_LANGUAGES
    return True


class _Reader:
    """Reads the JSON of a notebook; of the cells' sources it keeps where each line stands."""

    def __init__(self, text: str) -> None:
        from json import JSONDecoder
        from json.decoder import scanstring  # type: ignore[attr-defined]

        self.text = text
        self.value = JSONDecoder().raw_decode
        self.string = scanstring
        self.counted = 0
        self.line = 1

    def notebook(self) -> tuple[dict[str, Any], list[tuple[str, str, list[tuple[str, int]]]]]:
        root: dict[str, Any] = {}
        cells: list[tuple[str, str, list[tuple[str, int]]]] = []
        i = self.blank(0)
        if self.text[i : i + 1] != "{":
            raise self.error("expected an object", i)
        found = False
        for key, at in self.members(i):
            if key == "cells" and self.text[at] == "[":
                found = True
                self.cells(at, cells)
            elif key == "worksheets" and self.text[at] == "[":
                for sheet in self.items(at):
                    if self.text[sheet] == "{":
                        for inner, start in self.members(sheet):
                            if inner == "cells" and self.text[start] == "[":
                                found = True
                                self.cells(start, cells)
                            else:
                                self.skip(start)
                    else:
                        self.skip(sheet)
            else:
                root[key] = self.skip(at)
        if not found:
            raise self.error("no cells", 0)
        if self.blank(self.end) < len(self.text):
            raise self.error("extra data", self.end)
        return root, cells

    def cells(self, i: int, out: list[tuple[str, str, list[tuple[str, int]]]]) -> None:
        for at in self.items(i):
            if self.text[at] != "{":
                raise self.error("a cell is not an object", at)
            kind, language, lines = "", "", []
            for key, start in self.members(at):
                if key in ("source", "input"):
                    lines = self.source(start)
                    continue
                value = self.skip(start)
                if key == "cell_type":
                    kind = str(value)
                elif key == "language":
                    language = str(value).lower()
                elif key == "metadata" and isinstance(value, dict):
                    code = value.get("vscode")
                    if isinstance(code, dict):
                        language = str(code.get("languageId", "")).lower()
            out.append((kind, language, lines))

    def source(self, i: int) -> list[tuple[str, int]]:
        """(line, line in the file) rows of a source: a string, or a list of strings that are joined as they are."""
        parts: list[tuple[str, int]] = []
        if self.text[i] == "[":
            for at in self.items(i):
                if self.text[at] != '"':
                    raise self.error("a line of a cell is not a string", at)
                raw = self.line_of(at)
                value, self.end = self.string(self.text, at + 1)
                parts.append((value, raw))
        elif self.text[i] == '"':
            raw = self.line_of(i)
            value, self.end = self.string(self.text, i + 1)
            parts.append((value, raw))
        else:
            self.skip(i)
        rows: list[tuple[str, int]] = []
        open_line = False
        for value, raw in parts:
            pieces = value.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            for n, piece in enumerate(pieces):
                if n == 0 and open_line:
                    rows[-1] = (rows[-1][0] + piece, rows[-1][1])
                elif n + 1 < len(pieces) or piece:
                    rows.append((piece, raw))
            open_line = bool(pieces[-1]) or (open_line and len(pieces) == 1)
        return rows

    # ------------------------------------------------------------------------------------------------------- JSON
    end = 0

    def members(self, i: int) -> Any:
        """(key, index of the value) of the object at `i`; the caller sets `end` to the end of each value."""
        text = self.text
        i = self.blank(i + 1)
        if text[i : i + 1] == "}":
            self.end = i + 1
            return
        while True:
            if text[i : i + 1] != '"':
                raise self.error("expected a key", i)
            key, i = self.string(text, i + 1)
            i = self.blank(i)
            if text[i : i + 1] != ":":
                raise self.error("expected ':'", i)
            i = self.blank(i + 1)
            if i >= len(text):
                raise self.error("unexpected end", i)
            yield key, i
            i = self.blank(self.end)
            if text[i : i + 1] == "}":
                self.end = i + 1
                return
            if text[i : i + 1] != ",":
                raise self.error("expected ',' or '}'", i)
            i = self.blank(i + 1)

    def items(self, i: int) -> Any:
        """The index of each item of the array at `i`; the caller sets `end` to the end of each."""
        text = self.text
        i = self.blank(i + 1)
        if text[i : i + 1] == "]":
            self.end = i + 1
            return
        while True:
            if i >= len(text):
                raise self.error("unexpected end", i)
            yield i
            i = self.blank(self.end)
            if text[i : i + 1] == "]":
                self.end = i + 1
                return
            if text[i : i + 1] != ",":
                raise self.error("expected ',' or ']'", i)
            i = self.blank(i + 1)

    def skip(self, i: int) -> Any:
        value, self.end = self.value(self.text, i)
        return value

    def blank(self, i: int) -> int:
        text, n = self.text, len(self.text)
        while i < n and text[i] in " \t\n\r":
            i += 1
        return i

    def line_of(self, i: int) -> int:
        self.line += self.text.count("\n", self.counted, i)
        self.counted = i
        return self.line

    def error(self, reason: str, position: int) -> ValueError:
        from json import JSONDecodeError

        return JSONDecodeError(reason, self.text, min(position, len(self.text)))


# ---------------------------------------------------------------------------------------------------------- magics


def without_magics(lines: list[str]) -> list[str]:
    """The lines of a cell as Python: IPython's `%magic`, `!command`, `name?` become `pass`, as many lines as before."""
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return lines
    head = lines[first].lstrip()
    if head.startswith("%%"):
        word = head[2:].split()[0] if head[2:].split() else ""
        if word not in PYTHON_CELLS:
            return [""] * len(lines)
        return [*lines[:first], "", *without_magics(lines[first + 1 :])]
    if not any(_may_be_magic(line) for line in lines):
        return lines
    out: list[str] = []
    state = _Inside()
    i = 0
    while i < len(lines):
        line = lines[i]
        if not state.inside:
            code = _python_of(line)
            if code is not None:
                out.append(code)
                # a command goes on over lines that end in a backslash
                while line.rstrip().endswith("\\") and i + 1 < len(lines):
                    i += 1
                    line = lines[i]
                    out.append("")
                i += 1
                continue
        state.read(line)
        out.append(line)
        i += 1
    return out


def without_automagics(lines: list[str]) -> list[str]:
    """The lines of a cell that Python cannot parse, with `pass` for each `ls folder/` that starts a statement."""
    out, state = [], _Inside()
    for line in lines:
        magic = not state.inside and _is_automagic(line)
        out.append(line[: len(line) - len(line.lstrip())] + "pass" if magic else line)
        state.read(out[-1])
    return out


def _is_automagic(line: str) -> bool:
    """A known word, then what is neither a call nor an assignment (IPython/core/prefilter.py: AutoMagicChecker)."""
    word, _, rest = line.strip().partition(" ")
    return word in AUTOMAGIC and not rest.lstrip().startswith("=")


def _may_be_magic(line: str) -> bool:
    code = line.strip()
    return code[:1] in ("%", "!", "?") or code.endswith("?") or ("=" in code and ("!" in code or "%" in code))


def _python_of(line: str) -> str | None:
    """What stands for a line that starts a statement, when IPython would not pass it to Python; None for Python."""
    code = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if code[:1] in ("%", "!", "?"):
        return indent + "pass"
    if code.endswith("?") and code.rstrip("?").replace(".", "").replace("_", "").replace("*", "").isalnum():
        return indent + "pass"
    target, equals, value = code.partition("=")
    value = value.lstrip()
    if equals and value[:1] in ("!", "%") and value[1:2] not in ("", "="):
        names = target.strip()
        if names.replace("_", "").replace(",", "").replace(" ", "").replace(".", "").isalnum():
            return f"{indent}{names} = None"
    return None


class _Inside:
    """Whether the next line goes on with a string or a bracket that an earlier one has opened."""

    def __init__(self) -> None:
        self.quote = ""
        self.depth = 0
        self.joined = False

    @property
    def inside(self) -> bool:
        return bool(self.quote) or self.depth > 0 or self.joined

    def read(self, line: str) -> None:
        i, n = 0, len(line)
        self.joined = False
        while i < n:
            if self.quote:
                if line[i] == "\\":
                    i += 2
                elif line.startswith(self.quote, i):
                    i += len(self.quote)
                    self.quote = ""
                else:
                    i += 1
                continue
            c = line[i]
            if c == "#":
                return
            if c in "\"'":
                self.quote = c * 3 if line.startswith(c * 3, i) else c
                i += len(self.quote)
                continue
            if c in "([{":
                self.depth += 1
            elif c in ")]}":
                self.depth = max(0, self.depth - 1)
            i += 1
        ends = line.endswith("\\")
        if len(self.quote) == 1 and not ends:
            self.quote = ""
        self.joined = ends and not self.quote
