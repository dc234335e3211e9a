"""Files that `torchvet diagnose --reduce` wrote: see `reduce.py`."""

from __future__ import annotations

from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..files import Item
    from ..model import Fact


def sniff(item: Item) -> float:
    return 1.0 if item.head.startswith(b'{"torchvet": "reduced evidence"') else 0.0


def read(item: Item) -> Iterator[Fact]:
    from ..reduce import facts_of

    yield from facts_of(item)


READER = Reader("reduced", sniff, read)
