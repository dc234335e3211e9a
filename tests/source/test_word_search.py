"""Looking words up: the C library's search answers as Python's does."""

from __future__ import annotations

import pytest

from torchvet.check.source import search
from torchvet.check.source.search import Searchable, contains, contains_after, places, searchable, searcher

TEXTS = (
    "",
    "a",
    "rank",
    "rankrank",
    "x rank y rank_zero\n",
    "größe = rank\nrang",
    "aaaa",
    "ra\0rank",
    "\ud800 rank",
    "ü你 rank 好 rankä a\U0001f600rank",
)
WORDS = ("rank", "a", "aa", "zero", "größe", "\n", "missing")


@pytest.fixture(params=[False, True], ids=["python", "libc"])
def hastened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(search, "_strstr", [])
    monkeypatch.setattr(search, "_tried", [])
    monkeypatch.setattr(search, "SHORT", 0)
    monkeypatch.setattr(search, "FAR", 0)
    if request.param:
        search.hasten()
        if not search._strstr:
            pytest.skip("no glibc")
    return bool(request.param)


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_are_searched_as_python_does(text: str, hastened: bool) -> None:
    data = text.encode("utf-8", "surrogatepass")
    has = searcher(data)
    for word in [w.encode() for w in WORDS]:
        assert bool(has(data, word)) == (word in data)
        assert list(places(data, word)) == [i for i in range(len(data)) if data.startswith(word, i)]
        for start in range(len(data) + 1):
            assert contains_after(data, word, start) == (data.find(word, start) >= 0)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_searched_as_python_does(text: str, hastened: bool) -> None:
    quick = searchable(text)
    assert quick == text
    for word in WORDS:
        assert (word in quick) == (word in text)
        assert quick.find(word) == text.find(word)
        for start in range(-2, len(text) + 2):
            assert quick.find(word, start) == text.find(word, start)
            assert quick.find(word, 0, start) == text.find(word, 0, start)
            assert quick.find(word, 1, start) == text.find(word, 1, start)


def test_only_with_the_faster_search_there_is_another_text(hastened: bool) -> None:
    assert isinstance(searchable("some text"), Searchable) == hastened
    assert type(searchable("half a pair \ud800")) is str  # has no UTF-8 form to look into
    assert searchable(searchable("some text")) == "some text"
    assert searcher(b"with a null \0 byte") is contains
