"""What to say of Python code that the running Python cannot parse."""

from __future__ import annotations

import sys

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern


def syntax_problem(
    error: BaseException, text: str | None = None, running: tuple[int, int] = sys.version_info[:2]
) -> tuple[int, int, Text]:
    """(line, column, what to say) of an exception that `compile` or `text.decode` raised. Line and column from 1.

    Understands SyntaxError, UnicodeDecodeError, ValueError (null bytes), RecursionError, MemoryError and OverflowError
    (nested too deeply). `text`, when it could be decoded, tells code for a newer Python from broken code.
    """
    if isinstance(error, SyntaxError):
        line = max(error.lineno or 1, 1)
        column = max(error.offset or 1, 1)
        reason = (error.msg or "invalid syntax").split("\n")[0]
        if "null byte" in reason:
            return _null_bytes(text)
        if "too many nested" in reason or "too complex" in reason:
            return line, column, _too_deep()
        needed = newer_python(reason, text, line, running) if text is not None else None
        if needed:
            what, version = needed
            return line, column, Text(
                "{what} needs Python {needed}, torchvet runs on {running}",
                "{what} 需要 Python {needed}，torchvet 运行于 {running}",
                what=what, needed=f"{version[0]}.{version[1]}", running=f"{running[0]}.{running[1]}",
            )  # fmt: skip
        if _python_2(reason, text, line):
            return line, column, Text("this is Python 2 code: {reason}", "这是 Python 2 代码：{reason}", reason=reason)
        return line, column, _cannot_parse(reason)
    if isinstance(error, UnicodeDecodeError):
        row = error.object.count(b"\n", 0, error.start) + 1
        en, zh = "text is not {name}: {reason}", "文本不是 {name} 编码：{reason}"
        return row, 1, Text(en, zh, name=error.encoding, reason=error.reason)
    if isinstance(error, (RecursionError, MemoryError, OverflowError)):
        return 1, 1, _too_deep()
    if isinstance(error, ValueError) and "null byte" in str(error):
        return _null_bytes(text)
    return 1, 1, _cannot_parse(str(error) or type(error).__name__)


def _cannot_parse(reason: str) -> Text:
    return Text("Python cannot parse this: {reason}", "Python 无法解析：{reason}", reason=reason)


def _too_deep() -> Text:
    return Text("nested too deeply for Python to parse", "嵌套过深，Python 无法解析")


def _null_bytes(text: str | None) -> tuple[int, int, Text]:
    line = column = 1
    if text and "\0" in text:
        before = text[: text.index("\0")].replace("\r\n", "\n").replace("\r", "\n")
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
    return line, column, Text("holds null bytes: not a text file", "含有空字节：不是文本文件")


# ----------------------------------------------------------------------------------------------- newer Pythons

DEFINITION = r"\s*(?:async\s+)?(?:def|class)\s+\w+\s*\["

_newer: list[tuple[Pattern[str], str, str, tuple[int, int]]] = []


def _constructs() -> list[tuple[Pattern[str], str, str, tuple[int, int]]]:
    if not _newer:
        from re import compile

        for source, en, zh, version in (
            (r"\s*match\b.+:\s*(?:#.*)?$", "`match`", "`match`", (3, 10)),
            (r"\s*except\s*\*", "`except*`", "`except*`", (3, 11)),
            (r"\s*type\s+\w+\s*(?:\[.*\])?\s*=", "the `type` statement", "`type` 语句", (3, 12)),
            (DEFINITION + r"[^]]*=", "a default of a type parameter", "类型参数的默认值", (3, 13)),
            (DEFINITION, "a type parameter", "类型参数", (3, 12)),
            (r"\s*except\s+[\w.]+\s*(?:,\s*[\w.]+\s*)+:", "`except A, B`", "`except A, B`", (3, 14)),
            (r""".*?(?<![\w"'])(?:t|tr|rt)["']""", "a t-string", "t 字符串", (3, 14)),
            (r".*\w\[[^\]]*\*\w", "a star inside an index", "下标中的星号", (3, 11)),
        ):
            _newer.append((compile(source, 2 if "t|tr" in source else 0), en, zh, version))
    return _newer


def newer_python(
    reason: str, text: str, line: int, running: tuple[int, int] = sys.version_info[:2]
) -> tuple[Text, tuple[int, int]] | None:
    """(construct, first Python that has it) when the line that could not be parsed holds one that is newer."""
    from .text import lines_of

    lines = lines_of(text)
    code = lines[line - 1] if line <= len(lines) else ""
    if running < (3, 12) and later_fstring("\n".join(lines[line - 1 : line + 40])):
        return Text("an f-string of the new form", "新形式的 f 字符串"), (3, 12)
    for pattern, en, zh, version in _constructs():
        if version > running and pattern.match(code):
            if "except A" in en and _old_except(code):
                continue
            return Text(en, zh), version
    return None


def _old_except(code: str) -> bool:
    """`except ValueError, e:` of Python 2: one class and one lower-case name."""
    names = code.split("except", 1)[1].rstrip().rstrip(":").split(",")
    return len(names) == 2 and names[1].strip().islower() and "." not in names[1]


def _python_2(reason: str, text: str | None, line: int) -> bool:
    if reason.startswith(("Missing parentheses in call to 'print'", "Missing parentheses in call to 'exec'")):
        return True
    if text is None:
        return False
    from .text import lines_of

    lines = lines_of(text)
    code = lines[line - 1].strip() if line <= len(lines) else ""
    if reason.startswith("multiple exception types must be parenthesized"):
        return code.startswith("except") and _old_except(code)
    return code.startswith(("print ", "exec ")) or (code.startswith("raise ") and ", " in code and "(" not in code)


def later_fstring(source: str) -> bool:
    """Whether the first line of `source` holds an f-string that is whole as Python 3.12 reads it and was not before:
    the same quotes inside, a backslash or a comment in an expression, a line break in one."""
    i, n = 0, len(source)
    while i < n and source[i] != "\n":
        c = source[i]
        if c == "#":
            return False
        if c in "\"'":
            start = i
            while start and source[start - 1].isalpha():
                start -= 1
            if "f" in source[start:i].lower():
                end, later = _fstring(source, i, "r" in source[start:i].lower())
                if later and end > 0:
                    return True
            else:
                end = _string(source, i)
            if end < 0:
                return False
            i = end
        else:
            i += 1
    return False


def _quote(source: str, i: int) -> str:
    return source[i] * 3 if source[i : i + 3] == source[i] * 3 else source[i]


def _string(source: str, i: int) -> int:
    """The index after the plain string that starts at the quote `i`; -1 when it is not closed."""
    quote = _quote(source, i)
    i += len(quote)
    while i < len(source):
        if source[i] == "\\":
            i += 2
        elif source.startswith(quote, i):
            return i + len(quote)
        elif source[i] == "\n" and len(quote) == 1:
            return -1
        else:
            i += 1
    return -1


def _fstring(source: str, i: int, raw: bool) -> tuple[int, bool]:
    """(index after the f-string at the quote `i` or -1, whether only Python 3.12 can read it)."""
    quote = _quote(source, i)
    i += len(quote)
    later = False
    while i < len(source):
        c = source[i]
        if source.startswith(quote, i):
            return i + len(quote), later
        if c == "\\":
            i += 1 if raw and source[i + 1 : i + 2] in "{}" else 2
        elif c == "\n" and len(quote) == 1:
            return -1, False
        elif c == "{":
            if source[i + 1 : i + 2] == "{":
                i += 2
                continue
            i, inside = _replacement(source, i + 1, quote)
            later = later or inside
            if i < 0:
                return -1, False
        else:
            i += 1
    return -1, False


def _replacement(source: str, i: int, quote: str) -> tuple[int, bool]:
    """(index after the `}` of a replacement field that starts at `i` or -1, whether only Python 3.12 can read it)."""
    later = False
    depth = 0
    while i < len(source):
        c = source[i]
        if c in "\"'":
            start = i
            inner = _quote(source, i)
            later = later or inner == quote or (inner[0] == quote[0] and len(quote) == 1)
            if source[i - 1] in "fF" or source[i - 2 : i].lower() in ("rf", "fr"):
                i, _ = _fstring(source, i, False)
            else:
                i = _string(source, i)
            if i < 0:
                return -1, False
            later = later or "\\" in source[start:i] or ("\n" in source[start:i] and len(quote) == 1)
        elif c in "([{":
            depth += 1
            i += 1
        elif c in ")]":
            depth -= 1
            i += 1
        elif c == "}":
            if depth <= 0:
                return i + 1, later
            depth -= 1
            i += 1
        elif c == "#":
            later = True
            end = source.find("\n", i)
            if end < 0:
                return -1, False
            i = end
        elif c == "\\":
            later = True
            i += 2
        elif c == "\n":
            later = later or len(quote) == 1
            i += 1
        elif c == ":" and depth == 0:
            # the format: text again, with fields of its own
            i += 1
            while i < len(source) and source[i] != "}":
                if source[i] == "{":
                    i, inside = _replacement(source, i + 1, quote)
                    later = later or inside
                    if i < 0:
                        return -1, False
                elif source.startswith(quote, i):
                    return -1, False
                else:
                    i += 1
        else:
            i += 1
    return -1, False
