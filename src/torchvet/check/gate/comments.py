"""Where the comments of a file are, and which lines each speaks for.

Trailing: its own line; behind an opening bracket, or on a line of closing brackets, where formatters put the comment of
a statement that they split: all lines of the bracket. On a line of its own: the statement (or the element) below. Of
shell text and Dockerfiles all lines that `\\` continues are one statement: between them no comment can stand.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PYTHON = frozenset(("ipynb", "py", "pyi", "pyw"))
_C_LIKE = frozenset(("json", "jsonc", "c", "cc", "cl", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx"))


class Comment:
    """`text` with its sign, beginning at `line` and `column` (from 1) and ending on the same line; it speaks for the
    lines `first` to `last`. `blank` is the column where the blanks before it begin; 0 when it stands alone."""

    __slots__ = ("blank", "column", "first", "last", "line", "text")

    def __init__(self, line: int, column: int, blank: int, text: str, first: int, last: int) -> None:
        self.line = line
        self.column = column
        self.blank = blank
        self.text = text
        self.first = first
        self.last = last


def comments(path: str, text: str, wanted: Callable[[str], bool]) -> list[Comment]:
    """The comments of a file whose text is `wanted`, in order. What stands in strings is no comment."""
    kind = path.rpartition(".")[2].lower()
    if kind in _PYTHON:
        return _python(text, wanted)
    return _c_like(text, wanted) if kind in _C_LIKE else _hash(text, wanted)


def _python(text: str, wanted: Callable[[str], bool]) -> list[Comment]:
    import io
    import tokenize

    found: list[tuple[int, int, str, str]] = []
    code: dict[int, list[str]] = {}  # line -> the code tokens on it
    statements: list[tuple[int, int]] = []  # first and last line of logical lines
    open_brackets: list[int] = []
    opened_on: dict[int, int] = {}  # line -> last line of the outermost bracket that it opens
    closed_on: dict[int, int] = {}  # line -> first line of the outermost bracket that it closes
    begin = 0
    no_code = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        for kind, string, (line, column), (end, _), physical in tokenize.generate_tokens(
            io.StringIO(text, newline=None).readline
        ):
            if kind == tokenize.COMMENT:
                if wanted(string):
                    found.append((line, column + 1, string, physical.split("\n")[0]))
                continue
            if kind == tokenize.NEWLINE:
                if begin:
                    statements.append((begin, line))
                begin = 0
            if kind in no_code:
                continue
            begin = begin or line
            code.setdefault(line, []).append(string)
            for between in range(line + 1, end + 1):  # a string over several lines
                code.setdefault(between, []).append("...")
            if string in ("(", "[", "{"):
                open_brackets.append(line)
            elif string in (")", "]", "}") and open_brackets:
                opening = open_brackets.pop()
                opened_on[opening] = line
                closed_on[line] = opening
    except (tokenize.TokenError, SyntaxError):
        pass  # a broken file: what stands before the break counts
    code_lines = sorted(code)
    out: list[Comment] = []
    for line, column, string, physical in found:
        first = last = line
        here = code.get(line)
        if here is None:
            after = next((n for n in code_lines if n > line), 0)
            if after:
                # inside brackets the next line; before a statement all its lines
                first, last = next(((a, b) for a, b in statements if a == after), (after, after))
            blank = 0
        else:
            if here[-1] in ("(", "[", "{"):
                last = opened_on.get(line, line)
            elif all(t in (")", "]", "}", ",", ":") for t in here):
                first = closed_on.get(line, line)
            blank = _blank(physical, column) if len(physical) >= column else column
        out.append(Comment(line, column, blank, string, first, last))
    return out


def _blank(line: str, column: int) -> int:
    return len(line[: column - 1].rstrip()) + 1


def _c_like(text: str, wanted: Callable[[str], bool]) -> list[Comment]:
    token = re.compile(
        r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
    )
    lines = text.split("\n")
    bare = token.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0], text).split("\n")
    out: list[Comment] = []
    line, seen = 1, 0
    for m in token.finditer(text):
        if m[0][0] != "/" or not wanted(m[0]):
            continue
        at = m.start()
        for part in m[0].split("\n"):
            if wanted(part):
                line += text.count("\n", seen, at)
                seen = at
                column = at - (text.rfind("\n", 0, at) + 1) + 1
                out.append(_placed(lines, bare, line, column, part))
            at += len(part) + 1
    return out


def _hash(text: str, wanted: Callable[[str], bool]) -> list[Comment]:
    lines = text.split("\n")
    bare = [re.sub(r"^\s*#.*", "", line) for line in lines]
    out: list[Comment] = []
    for number, line in enumerate(lines, 1):
        if wanted(line):
            at = _hash_sign(line)
            if at >= 0 and wanted(line[at:]):
                comment = _placed(lines, bare, number, at + 1, line[at:])
                _continue(comment, bare)
                out.append(comment)
    return out


def _continue(comment: Comment, bare: list[str]) -> None:
    """Let a comment speak for all lines of a continued command."""
    while comment.first > 1 and comment.blank and bare[comment.first - 2].rstrip().endswith("\\"):
        comment.first -= 1
    while comment.last < len(bare) and bare[comment.last - 1].rstrip().endswith("\\"):
        comment.last += 1


def _hash_sign(line: str) -> int:
    """Where the comment of a shell, YAML or Dockerfile line begins: `#` after a blank and outside quotes; or -1."""
    quote = ""
    for i, c in enumerate(line):
        if quote:
            if c == quote and line[i - 1] != "\\":
                quote = ""
        elif c in "\"'" and c in line[i + 1 :]:  # an apostrophe in prose opens nothing
            quote = c
        elif c == "#" and (i == 0 or line[i - 1] in " \t"):
            return i
    return -1


def _placed(lines: list[str], bare: list[str], line: int, column: int, text: str) -> Comment:
    """`bare` are the lines without comments."""
    text = text.rstrip("\r")
    if not bare[line - 1].strip():
        for number in range(line, len(bare)):
            if bare[number].strip():
                return Comment(line, column, 0, text, number + 1, number + 1)
    return Comment(line, column, _blank(lines[line - 1], column), text, line, line)
