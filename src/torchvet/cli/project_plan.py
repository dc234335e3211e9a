"""The job as the code describes it, for `torchvet preflight --project`."""

from __future__ import annotations

from torchvet.preflight.plan import Loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torchvet.check.rules.project import Project

ALIVE = 2
"""Loaders of one file that are taken to live at the same time: one that trains, one that evaluates in between."""


def loaders_of(folder: str, environment: dict[str, str] | None = None) -> list[Loader]:
    """The loaders with the largest known demand among those that one file makes; empty where none is known. UserError:
    no such folder."""
    from torchvet.check import config
    from torchvet.check.engine import ask

    return ask([folder], config.load(folder, {}, environment=environment), _loaders)


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
