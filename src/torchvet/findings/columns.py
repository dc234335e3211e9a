"""Text on a terminal: how many columns it takes, where it may be broken, what it must not do there."""

from __future__ import annotations

TAB = 4


def cells(text: str) -> list[tuple[str, int]]:
    """Each character of a source line as (what to show, terminal columns). Tabs become blanks; characters that would
    steer a terminal or reverse the reading direction become visible."""
    out: list[tuple[str, int]] = []
    if text.isascii() and text.isprintable():
        return [(c, 1) for c in text]
    from unicodedata import category, east_asian_width

    at = 0
    for c in text:
        if c == "\t":
            cell = (" " * (TAB - at % TAB), TAB - at % TAB)
        elif c < " ":
            cell = (chr(0x2400 + ord(c)), 1)
        elif c == "\x7f":
            cell = ("\u2421", 1)
        elif "\x80" <= c < "\xa0" or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or "\ud800" <= c < "\ue000":
            cell = ("\ufffd", 1)
        elif c < "\u0300":
            cell = (c, 1)
        elif category(c) in ("Mn", "Me", "Cf"):
            cell = (c, 0)
        else:
            cell = (c, 2 if east_asian_width(c) in "WF" else 1)
        out.append(cell)
        at += cell[1]
    return out


def visible(text: str) -> str:
    """A word from outside (a path, a message) without characters that would steer the terminal or break the line."""
    return text if text.isascii() and text.isprintable() else "".join(c for c, _ in cells(text))


def width(text: str) -> int:
    """Terminal columns of a text."""
    return len(text) if text.isascii() else sum(w for _, w in cells(text))


_NEVER_FIRST = "，。；：、！？）》”’」』】,.;:!?)]}…"


def wrap(text: str, room: int) -> list[str]:
    """Break a sentence to lines of at most `room` columns: at blanks, and anywhere between Chinese characters."""
    if width(text) <= room:
        return [text]
    lines: list[str] = []
    line = ""
    used = 0
    for word, columns in _words(text):
        if line and used + columns > room:
            lines.append(line.rstrip())
            line, used = "", 0
            word = word.lstrip()
            columns = width(word)
        while columns > room:  # one word wider than the room
            head, word = _cut(word, room)
            lines.append(head)
            columns = width(word)
        line += word
        used += columns
    if line.strip():
        lines.append(line.rstrip())
    return lines


def _words(text: str) -> list[tuple[str, int]]:
    """Pieces that may be parted before: blanks lead the word they belong to."""
    out: list[tuple[str, int]] = []
    for c, w in cells(text):
        wide = w == 2
        last = out[-1][0] if out else ""
        glued = last and (
            c in _NEVER_FIRST
            or w == 0
            or (c != " " and not wide and (last.isspace() or not _wide(last[-1])))
            or (c == " " and last.isspace())
            or (wide and last.isspace())
        )
        if glued:
            out[-1] = (last + c, out[-1][1] + w)
        else:
            out.append((c, w))
    return out


def _wide(c: str) -> bool:
    from unicodedata import east_asian_width

    return not c.isascii() and east_asian_width(c) in "WF"


def _cut(word: str, room: int) -> tuple[str, str]:
    used = 0
    for i, (_, w) in enumerate(cells(word)):
        if used + w > room and i:
            return word[:i], word[i:]
        used += w
    return word, ""
