"""Lines of a text file as bytes: streamed, endless lines cut, the middle of a huge file counted but not parsed."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..files import Item

BLOCK = 1 << 20
LONGEST = 8 << 10
"""A line is cut behind so many bytes: real ones are shorter, binary files have no line ends."""
WHOLE = 2 << 30
HEAD_PART, TAIL_PART = 256 << 20, 1 << 30
"""Of a larger file so much is parsed at its start and at its end."""

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]{0,200}\x07")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def blocks(item: Item) -> Iterator[tuple[int, list[bytes]]]:
    """(number of the first line, lines without line ends) until the end of the file. OSError as `read`."""
    number = 1
    gap = (HEAD_PART, item.size - TAIL_PART) if item.size > WHOLE else (0, 0)
    position = 0
    rest = b""
    with item.open() as f:
        while data := f.read(BLOCK):
            start, position = position, position + len(data)
            if gap[0] <= start < gap[1]:
                number += data.count(b"\n")
                rest = b""
                continue
            data = rest + data
            lines = data.split(b"\n")
            rest = lines.pop()
            if len(rest) > BLOCK:  # no line end in sight: keep its beginning
                rest = rest[:LONGEST]
            if lines:
                yield number, lines
                number += len(lines)
    if rest:
        yield number, [rest]


_DIGITS = b"0123456789"


def distinct(text: bytes) -> bytes:
    """The distinct lines of a text, without their digits, each behind a line end: a log of steps is a few of them."""
    lines = set(text.translate(None, _DIGITS).split(b"\n"))
    return b"\n" + b"\n".join(lines)


class Literals:
    """Which of many literals a block of text holds: short pieces that they share are looked for first.

    One search of a long text for a literal is cheap, two hundred are not; a greedy cover of the literals by common
    pieces of `size` bytes leaves a third of the searches. They are made in the distinct lines, which hold no digits.
    """

    def __init__(self, literals: Iterable[bytes], size: int = 4) -> None:
        self.place = {literal: i for i, literal in enumerate(dict.fromkeys(literals))}
        self.whole: dict[bytes, list[bytes]] = {}  # a literal without its digits -> the literals
        for literal in self.place:
            self.whole.setdefault(literal.translate(None, _DIGITS), []).append(literal)
        left = set(self.whole)
        self.groups: list[tuple[bytes, list[bytes]]] = []
        pieces: dict[bytes, set[bytes]] = {}
        for literal in left:
            for i in range(max(1, len(literal) - size + 1)):
                pieces.setdefault(literal[i : i + size], set()).add(literal)
        while left:
            piece = max(pieces, key=lambda p: (len(pieces[p] & left), p))
            covered = pieces[piece] & left
            if len(covered) < 2:
                self.groups += [(literal, [literal]) for literal in sorted(left)]
                break
            self.groups.append((piece, sorted(covered)))
            left -= covered

    def inside(self, text: bytes, lines: bytes) -> tuple[bytes, ...]:
        """Those that the text holds, in the order in which they were given: the first pattern of a kind wins.

        `lines`: `distinct(text)`.
        """
        near = [x for piece, group in self.groups if piece in lines for x in group if x in lines]
        found = [x for short in near for x in self.whole[short] if x == short or x in text]
        return tuple(sorted(found, key=self.place.__getitem__))


def sampled(item: Item) -> bool:
    """Whether the middle of the file was left out."""
    return item.size > WHOLE


def clean(line: bytes) -> bytes:
    """A line without its escape sequences and carriage return, at most LONGEST bytes."""
    if len(line) > LONGEST:
        line = line[:LONGEST]
    if b"\x1b" in line:
        line = _ESCAPES.sub(b"", line)
    return line.rstrip(b"\r\n")


def plain(text: bytes) -> bytes:
    """A text without escape sequences."""
    return _ESCAPES.sub(b"", text) if b"\x1b" in text else text


def words(line: bytes, most: int = 300) -> str:
    """A line as text for a fact: control characters removed, at most `most` characters."""
    text = line[: most * 4].decode("utf-8", "replace")
    return _CONTROL.sub(" ", text).strip()[:most]
