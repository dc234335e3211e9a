"""What a reader is, and how the reader of a file is found."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..files import Item
    from ..model import Fact


class Reader:
    """`sniff(item)`: 0 (not mine) to 1 (surely mine); `read(item)`: the facts of the file."""

    def __init__(self, name: str, sniff: Callable[[Item], float], read: Callable[[Item], Iterator[Fact]]) -> None:
        self.name = name
        self.sniff = sniff
        self.read = read


def all_readers() -> list[Reader]:
    """Every reader: found by listing the folder."""
    out = []
    for entry in sorted(os.listdir(os.path.dirname(__file__))):
        if entry.endswith(".py") and entry not in ("__init__.py", "reader.py"):
            module = __import__(f"{__package__}.{entry[:-3]}", fromlist=["READER"])
            if hasattr(module, "READER"):
                out.append(module.READER)
    return out


def reader_of(item: Item, readers: list[Reader]) -> Reader | None:
    """The surest reader of a file; None when nobody knows it."""
    best, sure = None, 0.0
    for reader in readers:
        score = reader.sniff(item)
        if score > sure:
            best, sure = reader, score
    return best
