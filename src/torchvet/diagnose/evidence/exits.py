"""Ends as files record them: exit.json of a start script, error.json of torchelastic (`@record`)."""

from __future__ import annotations

import json

from torchvet.findings import Text

from ..files import Unreadable
from ..model import Fact
from .lines import words
from .places import place_of
from .reader import Reader
from .tracebacks import Traceback, starts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

MOST = 8 << 20


def loaded(item: Item) -> Any:
    """The JSON value of a small file. Unreadable: larger than 8 MiB, or no JSON."""
    if item.size > MOST:
        raise Unreadable(Text("is larger than 8 MiB", "大于 8 MiB"))
    with item.open() as f:
        data = f.read(MOST + 1)
    try:
        return json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        raise Unreadable(Text("is not complete JSON", "不是完整的 JSON")) from None


def read_exit(item: Item) -> Iterator[Fact]:
    """{"launcher": code} or {"<rank>": code}: codes of `subprocess`, negative for signals."""
    value = loaded(item)
    if not isinstance(value, dict):
        raise Unreadable(Text("holds no exit codes", "不含退出码"))
    for name, code in value.items():
        if not isinstance(code, int) or isinstance(code, bool):
            continue
        rank = int(name) if name.isdigit() and len(name) < 8 else None
        kind = "exit" if rank is not None else "launcher-exit"
        yield Fact(
            kind,
            item.name,
            0,
            rank,
            f"{name}: {code}"[:100],
            values={"code": code, "by": "recorded", "name": name[:80]},
        )


def read_error(item: Item) -> Iterator[Fact]:
    """torchelastic's error file: {"message": {"message": "Type: text", "extraInfo": {"py_callstack", "timestamp"}}}."""
    value = loaded(item)
    place = place_of(item.name)
    message: Any = value.get("message") if isinstance(value, dict) else None
    extra: Any = {}
    if isinstance(message, dict):
        extra = message.get("extraInfo") or {}
        message = message.get("message")
    if not isinstance(message, str):
        raise Unreadable(Text("is no error file of torchelastic", "不是 torchelastic 的错误文件"))
    values: dict[str, Any] | None = None
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    if isinstance(stack, str):
        values = _from_stack(stack[:200_000])
    if values is None:
        kind, _, text = message.partition(": ")
        from .tracebacks import is_victim

        values = {
            "type": kind.rpartition(".")[2][:200],
            "message": text[:1500],
            "frames": [],
            "victim": is_victim(kind, text),
        }
    time = None
    stamp = extra.get("timestamp") if isinstance(extra, dict) else None
    if isinstance(stamp, (str, int, float)):
        try:
            time = float(stamp)
        except ValueError:
            time = None
    if place.local is not None:
        values["local"] = place.local
    values["recorded"] = True
    yield Fact("exception", item.name, 0, place.rank, words(message.encode()), time, 1, values)


def _from_stack(stack: str) -> dict[str, Any] | None:
    current: Traceback | None = None
    for number, line in enumerate(stack.encode("utf-8", "replace").split(b"\n"), 1):
        if (current is None or not current.feed(line)) and starts(line):
            current = Traceback(number)
    return current.values() if current else None


def sniff_exit(item: Item) -> float:
    return 0.8 if item.base in ("exit.json", "exit_codes.json", "exits.json") else 0.0


def sniff(item: Item) -> float:
    if item.base == "error.json" or (item.head.lstrip()[:1] == b"{" and b'"extraInfo"' in item.head):
        return 0.9
    return sniff_exit(item)


def read(item: Item) -> Iterator[Fact]:
    return read_exit(item) if sniff_exit(item) else read_error(item)


READER = Reader("exit-record", sniff, read)
