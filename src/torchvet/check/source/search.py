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
_utf8: list[Callable[[str], int]] = []
_tried: list[bool] = []
_registered: list[bool] = []
_others: list[tuple[int, int]] = []


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

        library = ctypes.PyDLL(None)
        found, utf8 = library.strstr, library.PyUnicode_AsUTF8
        found.restype = utf8.restype = ctypes.c_void_p
        found.argtypes = ctypes.c_void_p, ctypes.c_char_p
        utf8.argtypes = (ctypes.py_object,)
        text = "a word in here"
        if found(utf8(text), b"word") == utf8(text) + 2 and found(b"a word in here", b"work") is None:
            _strstr.append(found)
            _utf8.append(utf8)
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

    __slots__ = ("address", "runs")

    address: int  # of its UTF-8 form, which CPython keeps with the text (for ASCII it is the text itself)
    runs: tuple[list[int], list[int]] | None  # see `runs_of`; None: nobody asked yet

    def __contains__(self, word: object) -> bool:
        return _strstr[0](self.address, word.encode("utf-8", "surrogatepass")) is not None  # type: ignore[attr-defined]

    def find(self, word: str, start: Any = 0, end: Any = None, /) -> int:
        at = start or 0
        if end is not None and end - at < FAR:  # most often
            return _find(self, word, start, end)
        if at < 0 or at > len(self) or not word or not word.isascii():
            return _find(self, word, start, end)
        runs = self.runs
        begin = self.address
        if at:
            if runs is None:
                runs = self.runs = runs_of(self)
            i = bisect_right(runs[0], at) if runs[0] else 0
            at += runs[1][i - 1] - runs[0][i - 1] if i else 0
        found = _strstr[0](begin + at, word.encode("ascii"))
        if found is None:
            return -1
        if runs is None:
            runs = self.runs = runs_of(self)
        at = found - begin
        i = bisect_right(runs[1], at) if runs[1] else 0
        at -= runs[1][i - 1] - runs[0][i - 1] if i else 0
        return at if end is None or at + len(word) <= end else -1


def runs_of(text: str) -> tuple[list[int], list[int]]:
    """Where runs of other letters than ASCII end: in characters, and in bytes of UTF-8.

    The encoder finds them and hands each to an error handler: four times as fast as a regular expression."""
    ends: list[int] = []
    byte_ends: list[int] = []
    if not text.isascii():
        if not _registered:
            from codecs import register_error

            register_error("torchvet.others", _note)
            _registered.append(True)
        _others.clear()
        text.encode("ascii", "torchvet.others")
        more = 0
        for start, end in _others:
            more += len(text[start:end].encode("utf-8")) - (end - start)
            ends.append(end)
            byte_ends.append(end + more)
    return ends, byte_ends


def _note(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    _others.append((error.start, error.end))
    return "", error.end


def searchable(text: str) -> str:
    """The text, made to be searched quickly when that is possible and it is long enough."""
    if not _strstr or len(text) < SHORT or type(text) is Searchable or "\0" in text:
        return text
    made = Searchable(text)
    try:
        made.address = _utf8[0](made)
    except UnicodeEncodeError:  # half of a surrogate pair, in a notebook
        return text
    made.runs = None
    return made
