"""Walking the items of a region tree."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .traces import Item, Items


def blocks(item: Item) -> tuple[Items, ...]:
    """The blocks inside one item (not those of a callee)."""
    kind = item[0]
    if kind == "if":
        return (item[2], item[3])
    if kind == "loop":
        return (item[3], item[4])
    if kind == "while":
        return (item[2], item[3])
    if kind == "try":
        return (item[1], *(h[0] for h in item[2]), item[3], item[4])
    return ()


def every(items: Items) -> Iterator[Item]:
    """Each item of a tree, outer ones first; callees are not entered."""
    stack = list(reversed(items))
    while stack:
        item = stack.pop()
        yield item
        for block in reversed(blocks(item)):
            stack.extend(reversed(block))
