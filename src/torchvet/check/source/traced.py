"""Text whose characters know where in a file they stand, after quotes are taken away and variables put in.

A part that is not known (a variable that nothing sets, the output of a command) stands in the text as its name between
`OPEN` and `CLOSE`, so that what is known around it stays readable.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OPEN = "\ue000"
CLOSE = "\ue001"
"""Of the private use area: YAML takes them for letters."""


class Traced:
    """`text`, and the offset in the file of every character of it."""

    __slots__ = ("places", "starts", "text")

    def __init__(self, text: str, starts: list[int], places: list[int]) -> None:
        self.text = text
        self.starts = starts
        self.places = places

    @classmethod
    def at(cls, text: str, offset: int) -> Traced:
        """Text that stands in the file as it is, from `offset` on."""
        return cls(text, [0], [offset])

    def offset(self, index: int) -> int:
        """Where in the file the character at `index` stands (at the end: behind the last one)."""
        i = bisect_right(self.starts, index) - 1
        return self.places[i] + index - self.starts[i]

    def cut(self, start: int, end: int) -> Traced:
        """The characters from `start` up to `end`."""
        starts, places = [0], [self.offset(start)]
        i = bisect_right(self.starts, start)
        while i < len(self.starts) and self.starts[i] < end:
            starts.append(self.starts[i] - start)
            places.append(self.places[i])
            i += 1
        return Traced(self.text[start:end], starts, places)

    def __repr__(self) -> str:
        return f"{self.text!r}@{self.places[0]}"


def joined(parts: Iterable[Traced]) -> Traced:
    """The parts as one text."""
    texts: list[str] = []
    starts: list[int] = []
    places: list[int] = []
    length = 0
    for part in parts:
        if not part.text:
            if not starts:
                first = part.places[0]
                starts, places = [0], [first]
            continue
        if length == 0:
            starts, places = [], []
        starts += [s + length for s in part.starts]
        places += part.places
        texts.append(part.text)
        length += len(part.text)
    return Traced("".join(texts), starts or [0], places or [0])


def unknown(name: str, offset: int) -> Traced:
    """A part that is not known; `name` says what it comes from."""
    text = f"{OPEN}{name.translate(_MARKS)}{CLOSE}"
    return Traced(text, [0], [offset])


def name_of(text: str) -> str:
    """The name of the unknown part that a text consists of; "" when it is something else."""
    return text[1:-1] if text[:1] == OPEN and text.find(CLOSE) == len(text) - 1 else ""


def is_known(text: str) -> bool:
    return OPEN not in text


_MARKS = {ord(OPEN): None, ord(CLOSE): None}
