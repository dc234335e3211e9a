"""What the ranks of a run are doing now: rows from their last beats, as text."""

from __future__ import annotations

import os
import time

from torchvet.findings import Text

from .folder import last_line, number, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SILENT = 15.0
"""Seconds without a beat after which a rank counts as silent."""


class RankState:
    """One rank of the last attempt. Times in seconds, sizes in bytes; None where the rank did not say."""

    __slots__ = ("beat", "end", "first", "growing", "node", "rank", "stalled")

    def __init__(self, folder: str, about: dict[str, Any]) -> None:
        beats = os.path.join(folder, "beats.jsonl")
        self.rank = int(about.get("rank", -1))
        self.node = str(about.get("node", ""))
        self.beat = last_line(beats) or {}
        self.first = first_line(beats) or {}
        self.end = read_json(os.path.join(folder, "end.json"))
        self.stalled = float(self.beat.get("still") or 0.0)
        self.growing = [
            row["growing"]
            for row in lines(os.path.join(folder, "graphs.jsonl"))
            if isinstance(row.get("growing"), dict)
        ]


def ranks_of(out: str) -> list[RankState]:
    """The ranks of the last attempt in the folder of a run, by number."""
    attempts = sorted((n, name) for name in os.listdir(out) if (n := number(name)) is not None)
    if not attempts:
        return []
    folder = os.path.join(out, attempts[-1][1])
    found = []
    for name in os.listdir(folder):
        about = read_json(os.path.join(folder, name, "about.json")) if name.startswith("rank_") else None
        if about is not None:
            found.append(RankState(os.path.join(folder, name), about))
    return sorted(found, key=lambda r: r.rank)


def table(ranks: list[RankState], now: float | None = None) -> list[Text]:
    """One line per rank that is worth one: all up to 32, else those that stall, are silent or ended badly."""
    now = time.time() if now is None else now
    out: list[Text] = []
    steps = [r.beat.get("step", 0) for r in ranks]
    most = max(steps, default=0)
    for r in ranks:
        said = doing(r, now)
        if len(ranks) > 32 and said is None and r.beat.get("step", 0) >= most - 1:
            continue
        out.append(
            Text(
                "rank {rank}  step {step}  {memory}  {doing}", "rank {rank}  第 {step} 步  {memory}  {doing}",
                rank=str(r.rank).rjust(4), step=str(r.beat.get("step", "?")).rjust(8), memory=memory(r).rjust(24),
                doing=said or Text("runs", "运行中"),
            )
        )  # fmt: skip
    hidden = len(ranks) - len(out)
    if hidden:
        out.append(
            Text("{n} other ranks run at step {step}", "另有 {n} 个 rank 运行到第 {step} 步", n=hidden, step=most)
        )
    for r in ranks:
        for row in r.growing[-1:]:
            out.append(
                Text(
                    "rank {rank}: {live} graphs made at {path}:{line} are alive and their number only rises",
                    "rank {rank}：在 {path}:{line} 处产生的 {live} 个计算图仍存活，且数量只增不减",
                    rank=r.rank, live=row.get("live"), path=os.path.relpath(str(row.get("path"))), line=row.get("line"),
                )
            )  # fmt: skip
    return out


def doing(r: RankState, now: float) -> Text | None:
    """What is worth saying of a rank; None when it simply runs."""
    if r.end is not None:
        if r.end.get("how") == "exception":
            return Text("ended by {type}", "因 {type} 结束", type=r.end.get("type"))
        return Text("ended", "已结束")
    silent = now - r.beat.get("t", now)
    if silent > SILENT:
        return Text("silent for {n} s", "已 {n} 秒没有消息", n=round(silent))
    if r.stalled:
        return Text("no progress for {n} s", "{n} 秒没有进展", n=round(r.stalled))
    return None


def memory(r: RankState) -> str:
    rss, first = r.beat.get("rss"), r.first.get("rss")
    if not rss:
        return ""
    grown = (rss - first) / (1 << 20) if first else 0.0
    return f"{rss / (1 << 30):.1f} GiB ({grown:+.0f} MiB)"


def lines(path: str) -> list[dict[str, Any]]:
    import json

    out = []
    try:
        with open(path, "rb") as f:
            for line in f:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    out.append(row)
    except OSError:
        pass
    return out


def first_line(path: str) -> dict[str, Any] | None:
    import json

    for name in (path + ".1", path):
        try:
            with open(name, "rb") as f:
                row = json.loads(f.readline(8192))
            return row if isinstance(row, dict) else None
        except (OSError, ValueError):
            continue
    return None
