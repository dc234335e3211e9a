"""A closer look at a few ranks. A summary keeps the last calls of every group; where it does not tell who left the
common order and where, the original dumps of the ranks in question are read once more, and kept whole.

Originals are the files that were given, or those of which a reduced file (`diagnose --reduce`) names the place, when
they lie beside that file or below the current folder and are of the same size.
"""

from __future__ import annotations

import os

from torchvet.findings import Text

from .files import Item, Unreadable, item, items
from .model import Case
from .ranks import listed
from .waits_groups import chosen_dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Fact
    from .waits_groups import GroupState

MOST_RANKS = 8  # a decision needs the odd ranks and one or two of the others
WHOLE = 65_000  # calls of a group; rows are numbered with 16 bits
REPLACED = ("recorder", "progress", "call")


def look_closer(case: Case) -> None:
    """Replace the summaries of ranks in question by whole recordings, where summaries lack what decides."""
    wanted = _in_question(case)
    if not wanted:
        return
    dumps = chosen_dumps(case)
    fresh: list[Fact] = []
    lacking: list[int] = []
    for rank in sorted(wanted):
        read = _whole(case, dumps[rank]) if rank in dumps else []
        for fact in read:
            fact.rank = rank
        fresh += read
        lacking += [] if read or rank not in dumps else [rank]
    if lacking:
        text = Text("dumps of rank {ranks} themselves: the summary here has their last calls only",
                    "rank {ranks} 的原始转储：此处摘要只有最近的调用", ranks=listed(lacking))  # fmt: skip
        case.inventory.missing.append(text)
    if fresh:
        sources = {fact.source for fact in fresh}
        kept = [f for f in case.facts if not (f.source in sources and f.kind in REPLACED)]
        case.replace(kept + fresh)


def _in_question(case: Case) -> set[int]:
    """Ranks of splits, with one or two of the others, whose summaries begin behind the begin of their recordings."""
    out: set[int] = set()
    for split in case.waits.splits:
        group = next((g for g in case.waits.groups if g.label == split.group), None)
        if split.by != "recorder" or group is None:
            continue
        odd = split.minority or split.ranks
        others = [r for r in split.ranks if r not in odd]
        chosen = [*odd[: MOST_RANKS - 2], *others[:2]]
        if any(_short(group, r) for r in chosen):
            out |= set(chosen)
        if len(out) >= MOST_RANKS:
            break
    return out


def _short(group: GroupState, rank: int) -> bool:
    progress = group.ranks.get(rank)
    return bool(progress and progress.history and progress.first is not None and progress.start > progress.first)


def _whole(case: Case, dump: Fact) -> list[Fact]:
    from .evidence.recorder import facts_of_item

    for original in _originals(case, dump.source):
        try:
            facts = list(facts_of_item(original, WHOLE))
        except (Unreadable, OSError, MemoryError):
            continue
        for fact in facts:
            fact.source = dump.source
        if any(f.kind == "recorder" and f.values["entries"] == dump.values["entries"] for f in facts):
            return facts
    return []


def _originals(case: Case, source: str) -> Iterator[Item]:
    path = case.inventory.paths.get(source)
    if not path:
        return
    size = next((size for name, _, size, _ in case.inventory.files if name == source), -1)
    inner = source.partition("!")[2]
    if not inner or _is_reduced(case, source):
        found = item(path, source)
        if isinstance(found, Item) and found.size == size:
            yield found
        return
    for entry in items([path]):  # a member of an archive
        if isinstance(entry, Item) and entry.name.partition("!")[2] == inner and entry.size == size:
            yield entry
            return


def _is_reduced(case: Case, source: str) -> bool:
    outer = source.partition("!")[0]
    return any(name == outer and kind == "reduced" for name, kind, _, _ in case.inventory.files)


def reachable(path: str, facts: str, name: str) -> str:
    """Where the original of a reduced file may be read: beside the file that names it, or below the current folder.

    What a file names is not followed anywhere else: it may come from another machine, or from nobody known.
    """
    beside = os.path.dirname(os.path.abspath(facts))
    for place in (os.path.join(beside, *name.split("!")[0].split("/")), path):
        full = os.path.realpath(place) if place else ""
        for folder in (os.path.realpath(beside), os.path.realpath(os.getcwd())):
            if full.startswith(folder.rstrip(os.sep) + os.sep) and os.path.isfile(full):
                return full
    return ""
