"""Hosts and ranks in a few words."""

from __future__ import annotations

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = 6
"""So many hosts are named, the others counted."""


def hosts_text(names: Sequence[str], all_of: int = 0) -> Text:
    """ "gpu-01, gpu-02", "all 8 nodes", "gpu-01, gpu-02 and 30 more"."""
    if all_of > 1 and len(names) == all_of:
        return Text("all {n} nodes", "全部 {n} 个节点", n=all_of)
    shown = ", ".join(names[:NAMES])
    if len(names) > NAMES:
        return Text("{shown} and {n} more", "{shown} 等另 {n} 个", shown=shown, n=len(names) - NAMES)
    return Text("{shown}", shown=shown)


def blocks_of(numbers: Sequence[int]) -> str:
    """ "0-3, 7"."""
    out: list[str] = []
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            out.append(str(numbers[start]) if i - start == 1 else f"{numbers[start]}-{numbers[i - 1]}")
            start = i
    return ", ".join(out)
