"""The job as the code describes it, for `torchvet preflight --project`."""

from __future__ import annotations

import os

from torchvet.findings import Text, UserError
from torchvet.preflight.plan import Loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torchvet.check.rules.project import Project

    Row = list[Any]

ALIVE = 2
"""Loaders of one file that are taken to live at the same time: one that trains, one that evaluates in between."""


def loaders_of(folder: str, seconds: float) -> list[Loader] | None:
    """The loaders with the largest known demand among those that one file makes; empty where none is known. None: the
    code was not read within `seconds` (it is read in a child, which is then killed). UserError: no such folder."""
    if not os.path.exists(folder):
        raise UserError(Text("{path} does not exist", "{path} 不存在", path=folder))
    rows = _in_child(folder, seconds)
    return None if rows is None else [Loader(*row) for row in rows]


def _in_child(folder: str, seconds: float) -> list[Row] | None:
    import json
    import select
    import signal
    import time

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as f:
                json.dump(_ask(folder), f)
        finally:
            os._exit(0)
    os.close(writer)
    data, end = b"", time.monotonic() + seconds
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            part = pipe.read(65536) if ready else b""
            if not part:
                break
            data += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        rows: list[Row] = json.loads(data)
        return rows
    except ValueError:
        return None


def _ask(folder: str) -> list[Row]:
    from torchvet.check import config
    from torchvet.check.engine import ask

    found = ask([folder], config.load(folder, {}), _loaders)
    return [[x.workers, x.prefetch, x.batch_bytes, x.origin] for x in found]


def _loaders(project: Project, files: list[str]) -> list[Loader]:
    demand = project.settings.demand
    by_file: dict[str, list[Loader]] = {}
    for made in project.settings.loaders():
        if made.module.path in project.program.loaded_on_demand:
            continue
        workers = demand.one(made.workers())
        if workers is None:
            continue
        prefetch = demand.one(made.values("prefetch_factor")) if made.given("prefetch_factor") else None
        origin = f"{made.module.path}:{project.program.span(made.module, made.pos)[0]}"
        by_file.setdefault(made.module.path, []).append(Loader(workers, prefetch, _batch(made, demand), origin))
    best: list[Loader] = []
    for found in by_file.values():
        found.sort(key=_size, reverse=True)
        alive = [x for x in found if x.workers][:ALIVE] or found[:1]
        if not best or sum(map(_size, alive)) > sum(map(_size, best)):
            best = alive
    return best


def _size(loader: Loader) -> int:
    return (loader.demand or 0) * 1000 + loader.batches


def _batch(made: Any, demand: Any) -> int | None:
    """Bytes of a batch, where its shape stands in the code."""
    size = demand.one(made.values("batch_size")) if made.given("batch_size") else 1
    if not size or demand.packs(made):
        return None
    item = demand.item_bytes(made)
    return item * size if item else None
