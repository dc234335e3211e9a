"""Bytes to text as Python itself reads a source file, and columns.

The compiler counts columns in bytes of UTF-8, findings count characters.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

BOM = b"\xef\xbb\xbf"

LATIN_1 = ("latin-1", "iso-8859-1", "iso-latin-1")

_cookie: list[Pattern[bytes]] = []


def encoding(data: bytes) -> str:
    """The encoding that the file declares (byte order mark, or a coding line of PEP 263), else "utf-8".

    Raises SyntaxError for a name that Python does not know, and for a coding line that contradicts the mark."""
    name = declared(data)
    if data[:3] == BOM:
        if name is not None and name not in ("utf-8", "utf8") and not name.startswith("utf-8-"):
            raise SyntaxError(f"encoding problem: {name} with BOM", (None, 1, 1, None))
        return "utf-8-sig"
    return name or "utf-8"


def declared(data: bytes) -> str | None:
    """The name in the coding line of the first two lines, normalised as the tokenizer does; None without one."""
    second = data.find(b"\n", data.find(b"\n") + 1)
    if b"coding" not in (data[:second] if second >= 0 else data):
        return None
    if not _cookie:
        from re import compile

        _cookie.append(compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)"))
        _cookie.append(compile(rb"[ \t\f]*(?:#.*)?\Z"))
    start = 3 if data[:3] == BOM else 0
    for _ in range(2):
        end = _line_end(data, start)
        line = data[start:end]
        found = _cookie[0].match(line)
        if found:
            name = found.group(1).decode("ascii", "replace")
            plain = name[:12].lower().replace("_", "-")
            if plain == "utf-8" or plain.startswith("utf-8-"):
                return "utf-8"
            if plain in LATIN_1 or plain.startswith(tuple(p + "-" for p in LATIN_1)):
                return "iso-8859-1"
            return name
        if not _cookie[1].match(line) or end >= len(data):
            return None  # a first line with code ends the search
        start = end + (2 if data[end : end + 2] == b"\r\n" else 1)
    return None


def _line_end(data: bytes, start: int) -> int:
    ends = [e for e in (data.find(b"\n", start), data.find(b"\r", start)) if e >= 0]
    return min(ends) if ends else len(data)


def decode(data: bytes) -> str:
    """The text of a Python source file. Raises SyntaxError, with the line, where Python would not accept it."""
    name = encoding(data)
    try:
        return data.decode(name)
    except UnicodeDecodeError as e:
        line = line_at(data, e.start + (3 if name == "utf-8-sig" else 0))
        byte = data[e.start + (3 if name == "utf-8-sig" else 0)]
        if name.startswith("utf-8"):
            reason = f"(unicode error) 'utf-8' codec can't decode byte 0x{byte:02x}"
        else:
            reason = f"(unicode error) {name!r} codec can't decode byte 0x{byte:02x}"
        raise SyntaxError(reason, (None, line, 1, None)) from None
    except (LookupError, UnicodeError, ValueError):
        # also codecs that are no text encodings ("hex", "rot13")
        raise SyntaxError(f"encoding problem: {name}", (None, 1, 1, None)) from None


def line_at(data: bytes, offset: int) -> int:
    """Line number, from 1, of the byte at `offset`; "\\n", "\\r\\n" and "\\r" end a line, as for Python."""
    head = data[:offset]
    lines = head.count(b"\n") + 1
    if b"\r" in head:
        lines += head.count(b"\r") - head.count(b"\r\n")
        if head[-1:] == b"\r" and data[offset : offset + 1] == b"\n":
            lines -= 1
    return lines


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends. Line n of the compiler is `lines_of(text)[n - 1]`: unlike
    `str.splitlines`, form feeds and Unicode separators end no line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def char_column(line: str, byte_column: int) -> int:
    """Characters before the byte column (both from 0) that the compiler gives for a place in `line`."""
    if line.isascii():
        return byte_column
    return len(line.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))
