"""Looking a word up in bytes or in a text, with the C library's `strstr` where that pays.

CPython compares one byte after the other (0.7 ms per MB); glibc looks at 16 to 64 at a time and needs a fifth of that.
Loading `ctypes` costs 3 ms, so it is done for large runs only (`hasten`), and only with glibc: the search of other C
libraries is no faster than Python's. `strstr` ends at a null byte: bytes that hold one are searched by Python.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Has = Callable[[bytes, bytes], object]

SHORT = 1_000
"""Characters of a text below which Python's search is as quick."""

FAR = 4_000
"""Characters of a stretch of a text below which Python's search is as quick: `strstr` does not stop at its end."""

_find = str.find
_strstr: list[Callable[[object, bytes], int | None]] = []
_tried: list[bool] = []


def contains(data: bytes, word: bytes) -> bool:
    """Whether the word stands in the bytes, by Python's own search."""
    return word in data


def hasten() -> None:
    """Use the faster search from now on, where there is one: worth it from a few MB on."""
    if _tried:
        return
    _tried.append(True)
    import os

    try:
        if not os.confstr("CS_GNU_LIBC_VERSION"):
            return
        import ctypes

        found = ctypes.PyDLL(None).strstr
        found.restype = ctypes.c_void_p
        found.argtypes = ctypes.c_void_p, ctypes.c_char_p
        if found(b"a word in here", b"word") and found(b"a word in here", b"work") is None:
            _strstr.append(found)
    except (AttributeError, ImportError, OSError, ValueError):  # another C library, or Python without ctypes
        pass


def searcher(data: bytes) -> Has:
    """The quickest `has(data, word)` for these bytes: something true when the word stands in them."""
    return _strstr[0] if _strstr and 0 not in data else contains


def contains_after(data: bytes, word: bytes, start: int) -> bool:
    """Whether the word stands in the bytes from `start` on. `start` is not behind their end."""
    if searcher(data) is contains:
        return data.find(word, start) >= 0
    find = _strstr[0]
    return find((find(data, b"") or 0) + start, word) is not None


def places(data: bytes, word: bytes) -> Iterator[int]:
    """Where the word stands in the bytes, overlaps included."""
    if searcher(data) is contains:
        at = data.find(word)
        while at >= 0:
            yield at
            at = data.find(word, at + 1)
        return
    find = _strstr[0]
    found = find(data, word)
    if found is None:
        return
    begin = find(data, b"") or 0
    while found is not None:
        yield found - begin
        found = find(found + 1, word)


class Searchable(str):
    """A text in which `in` and `find` are quick; in everything else the `str` that it is."""

    __slots__ = ("raw", "runs")

    raw: bytes
    runs: tuple[list[int], list[int]]  # where runs of other letters than ASCII end: in characters, in bytes

    def __contains__(self, word: object) -> bool:
        return _strstr[0](self.raw, word.encode("utf-8", "surrogatepass")) is not None  # type: ignore[attr-defined]

    def find(self, word: str, start: Any = 0, end: Any = None, /) -> int:
        at = start or 0
        if end is not None and end - at < FAR:  # most often
            return _find(self, word, start, end)
        if at < 0 or at > len(self) or not word or not word.isascii():
            return _find(self, word, start, end)
        ends, byte_ends = self.runs
        if ends:
            i = bisect_right(ends, at)
            at += byte_ends[i - 1] - ends[i - 1] if i else 0
        find = _strstr[0]
        begin = find(self.raw, b"") or 0
        found = find(begin + at, word.encode("ascii"))
        if found is None:
            return -1
        at = found - begin
        if ends:
            i = bisect_right(byte_ends, at)
            at -= byte_ends[i - 1] - ends[i - 1] if i else 0
        return at if end is None or at + len(word) <= end else -1


def searchable(text: str) -> str:
    """The text, made to be searched quickly when that is possible and it is long enough."""
    if not _strstr or len(text) < SHORT or "\0" in text:
        return text
    ends: list[int] = []
    byte_ends: list[int] = []
    if not text.isascii():
        from re import finditer

        more = 0
        for m in finditer(r"[^\x00-\x7f]+", text):
            more += len(m.group().encode("utf-8", "surrogatepass")) - len(m.group())
            ends.append(m.end())
            byte_ends.append(m.end() + more)
    made = Searchable(text)
    made.raw = text.encode("utf-8", "surrogatepass")
    made.runs = ends, byte_ends
    return made
