"""Dumps of PyTorch's flight recorder: pickle or JSON, every version, found by what they hold, not by their name.

Formats: torch `FlightRecorder.hpp` and `FlightRecorderDetail.hpp` (2.13); a bare list of entries in 2023, a dictionary
with `version` "2.0" to "2.10" since. Keys that are not known are left alone: later versions and other vendors add some.

Facts: one `recorder` for the dump (see `recorder_facts.py`), one `progress` per process group, one `call` for each of
the oldest unfinished calls.
"""

from __future__ import annotations

import os
import re

from torchvet.findings import Text

from ..files import Unreadable
from . import safe_pickle
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item
    from ..model import Fact

MAX_BYTES = 256 << 20
MAX_ENTRIES = 100_000

_KEYS = (b"pg_config", b"pg_status", b"collective_seq_id", b"nccl_version", b"comm_lib_version", b"profiling_name")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_LEGACY_CHECKPOINT = b"\x80\x02\x8a\x0al\xfc\x9c"  # torch.save of old: the magic number of torch/serialization.py
_NAMED = re.compile(r"(?i)(?:^|[._-])(?:rank|dump|trace|fr)[._-]?\d+(?:\.(?:pickle|pkl|json|bin))?$")


def sniff(item: Item) -> float:
    head = item.head
    if _PICKLE.match(head):
        if head.startswith(_LEGACY_CHECKPOINT):
            return 0.0
        if any(key in head for key in _KEYS):
            return 0.95
        return 0.3 if _NAMED.search(item.base) else 0.0
    text = head.lstrip()
    if b'"schemaVersion"' in head or b'"traceEvents"' in head:
        return 0.0  # a trace of the profiler: its header names process groups too
    if text[:1] in (b"{", b"[") and any(b'"' + key + b'"' in head for key in _KEYS):
        return 0.95
    return 0.5 if not item.size and _NAMED.search(item.base) and "." not in item.base else 0.0


def read(item: Item) -> Iterator[Fact]:
    """The facts of one dump. Unreadable: it is empty, cut, refused or no dump; what could be read comes first."""
    yield from facts_of_item(item)


def facts_of_item(item: Item, history: int | None = None) -> Iterator[Fact]:
    """As `read`; `history`: calls of each group that are kept, in place of the usual number."""
    from .recorder_facts import HISTORY, facts_of

    value, problem = decoded(item)
    dump = {"entries": value} if isinstance(value, list) else value
    if not isinstance(dump, dict) or not isinstance(dump.get("entries", []), list) or not _is_dump(dump):
        raise problem or Unreadable(Text("is not a flight-recorder dump", "不是飞行记录器转储"))
    entries, cut = dump.get("entries", []), problem is not None
    if len(entries) > MAX_ENTRIES:
        problem = problem or Unreadable(
            Text(
                "only the last {most} of {count} entries are read",
                "仅读取 {count} 条记录中的最后 {most} 条",
                most=f"{MAX_ENTRIES:,}",
                count=f"{len(entries):,}",
            )
        )
        dump = {**dump, "entries": entries[-MAX_ENTRIES:]}
    yield from facts_of(dump, item.name, cut=cut, written=item.time, history=history or HISTORY)
    if problem:
        raise problem


def _is_dump(dump: dict[Any, Any]) -> bool:
    if "pg_status" in dump or "pg_config" in dump:
        return True
    entries = dump.get("entries", ())
    return any(isinstance(e, dict) and "profiling_name" in e for e in entries[:3])


def decoded(item: Item) -> tuple[Any, Unreadable | None]:
    """(what the file holds, what is wrong with it)."""
    if not item.size:
        raise Unreadable(Text("is empty: the dump was never written", "为空：转储未写入"))
    if item.size > MAX_BYTES:
        raise Unreadable(
            Text(
                "has {size} MB, more than the {most} MB that are read of a dump",
                "大小为 {size} MB，超过转储可读取的 {most} MB",
                size=item.size // 1_000_000,
                most=MAX_BYTES // 1_000_000,
            )
        )
    with item.open() as f:
        data = f.read(MAX_BYTES + 1)
    if data[:1] == b"\x80":
        return _pickle(data)
    return _json(data)


def _refused(why: str) -> Unreadable:
    return Unreadable(
        Text(
            "refused, nothing of it was executed: {why}",
            "已拒绝读取，未执行其中任何内容：{why}",
            why=why,
        )
    )


def _cut(size: int) -> Unreadable:
    return Unreadable(
        Text(
            "ends in the middle, after {size} bytes: what stands before was read",
            "文件在 {size} 字节后中断：之前的内容已读取",
            size=f"{size:,}",
        )
    )


def _pickle(data: bytes) -> tuple[Any, Unreadable | None]:
    try:
        return safe_pickle.load(data), None
    except safe_pickle.Cut:
        try:
            return safe_pickle.rescue(data), _cut(len(data))
        except safe_pickle.Refused:
            raise Unreadable(
                Text(
                    "ends in the middle, after {size} bytes",
                    "文件在 {size} 字节后中断",
                    size=f"{len(data):,}",
                )
            ) from None
    except safe_pickle.Refused as e:
        raise _refused(str(e)) from None
    except MemoryError:
        raise _refused("it asks for more memory than there is") from None


def _json(data: bytes) -> tuple[Any, Unreadable | None]:
    import json

    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text), None
    except RecursionError:
        raise _refused("it is nested too deeply") from None
    except ValueError:
        pass
    # one entry after the other, as far as they go
    start = text.find("[", max(text.find('"entries"'), 0))
    entries: list[Any] = []
    decoder = json.JSONDecoder()
    at = start + 1
    while start >= 0 and len(entries) < MAX_ENTRIES:
        at = _skip(text, at)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        entries.append(value)
    if not entries:
        raise Unreadable(Text("is broken JSON", "JSON 已损坏"))
    dump: dict[str, Any] = {"entries": entries}
    for key in ("version", "pg_config", "pg_status", "comm_lib_version", "nccl_version"):
        found = text.find(f'"{key}":')
        if found >= 0:
            try:
                dump[key] = decoder.raw_decode(text, _skip(text, found + len(key) + 3))[0]
            except (ValueError, RecursionError):
                continue
    return dump, _cut(len(data))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def rank_of_name(name: str) -> int | None:
    """ "comm_lib_trace_rank_12", "host7_12", "rank_3.json", "3/fr_dump": the rank that a file's name tells."""
    base = os.path.splitext(name.replace("!", "/").rpartition("/")[2])
    stem = base[0] if base[1].lower() in (".json", ".pickle", ".pkl", ".bin", ".gz", ".zst") else "".join(base)
    if found := re.findall(r"(?i)rank[._-]?(\d{1,7})", stem):
        return int(found[-1])
    if last := re.search(r"(\d{1,7})$", stem):
        return int(last[1])
    folder = name.rpartition("/")[0].rpartition("/")[2]
    if inside := re.fullmatch(r"(?i)(?:rank|worker)?[._-]?(\d{1,7})", folder):
        return int(inside[1])
    return None


READER = Reader("recorder", sniff, read)
