"""`torchvet preflight` on several ranks: who prints what; reports that were written to a shared folder."""

from __future__ import annotations

import json
import os

from torchvet.findings import Text, UserError

from . import terminal
from .arguments import FLAG, NUMBER, VALUE, Argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torchvet.preflight.host import Host
    from torchvet.preflight.ranks import Launch

    from .preflight import Run

ARGUMENTS = (
    Argument("this-node", FLAG, Text("leave the other ranks of the job out",
         "不与作业的其他 rank 比较"), group="fleet"),
    Argument("collective", FLAG, Text("also a small all_reduce over all ranks",
         "并在所有 rank 上执行一次小的 all_reduce"),
             group="fleet"),
    Argument("out", VALUE, Text("no network: each rank writes to DIR; torchvet preflight merge DIR/*.json",
             "不使用网络：各 rank 写入 DIR；再执行 torchvet preflight merge DIR/*.json"), group="fleet", metavar="DIR"),
    Argument("world", NUMBER, Text("merge: ranks that should have written (as they say)",
             "merge：应当写入的 rank 数（默认取自各报告）"), group="fleet", metavar="N"),
)  # fmt: skip
GROUP = Text("All ranks (torchrun, srun, mpirun, Kubernetes)", "所有 rank（torchrun、srun、mpirun、Kubernetes）")


def applies(given: dict[str, Any]) -> bool:
    """Is this one of several ranks, and are they to be compared?"""
    from torchvet.preflight.fleet import wanted

    if "nodes" in given and "JOB_COMPLETION_INDEX" in os.environ:  # an indexed Job does not tell its pods their number
        os.environ.setdefault("JOB_COMPLETIONS", str(given["nodes"]))
    alone = {"this-node", "record"}.intersection(given)
    return "out" in given or (not alone and wanted())


def run(job: Run, host: Host) -> int:
    """One rank's part; rank 0 prints the report, the others one line."""
    from torchvet.preflight import fleet

    if "out" in job.given:
        return _write(job, host, job.given["out"])
    outcome = fleet.gather(
        lambda seconds: job.examine(host, seconds), host, job.seconds, fail_on=job.fail_on,
        collective=bool(job.given.get("collective")),
    )  # fmt: skip
    if outcome.fleet is not None:
        job.write(outcome.fleet.as_node(job.language))
    elif outcome.node is not None:
        job.write(outcome.node)
    else:
        terminal.complain(f"torchvet: {outcome.line.render(job.language)}\n")
    return outcome.code


def _write(job: Run, host: Host, folder: str) -> int:
    """This rank's messages as a file. A rank that is no leader examines nothing: 0."""
    from torchvet.preflight import fleet, fleet_facts

    place = _place()
    messages = [fleet_facts.of_rank(host, place, "", 0)]
    code = 0
    if fleet.leads(place):
        report = job.examine(host, job.seconds)
        messages.append(fleet_facts.of_node(host, place, report, None))
        code = int(report.blocks(job.fail_on))
    path = os.path.join(folder, f"rank-{place.rank:05d}.json")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as f:
            json.dump({"schema": 1, "messages": messages}, f)
        os.replace(path + ".part", path)  # a reader never sees half of it
    except OSError as error:
        raise UserError(
            Text(
                "cannot write {path}: {reason}", "无法写入 {path}：{reason}", path=path, reason=error.strerror or error
            )
        ) from None
    said = Text("rank {rank} wrote {path}", "rank {rank} 已写入 {path}", rank=place.rank, path=path)
    terminal.complain(f"torchvet: {said.render(job.language)}\n")
    return code


def _place() -> Launch:
    from torchvet.preflight.ranks import PLAIN, Launch, launch

    return launch(dict(os.environ)) or Launch(PLAIN, 0, 1, 0, 1, 1, ("RANK", "WORLD_SIZE"))


def merge(job: Run, paths: Sequence[str]) -> int:
    """Read what the ranks wrote and report as rank 0 would. UserError: nothing that can be read."""
    from torchvet.preflight.fleet_merge import merge as merged

    if not paths:
        raise UserError(
            Text("merge needs the files that the ranks wrote", "merge 需要各 rank 写入的文件"),
            Text("torchvet preflight merge DIR/*.json", "torchvet preflight merge DIR/*.json"),
        )
    messages: list[dict[str, Any]] = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as f:
                rows = json.load(f)["messages"]
            if not all(isinstance(m, dict) and m["kind"] in ("rank", "node") and int(m["rank"]) >= 0 for m in rows):
                raise KeyError("kind")
        except OSError as error:
            raise UserError(
                Text(
                    "cannot read {path}: {reason}",
                    "无法读取 {path}：{reason}",
                    path=path,
                    reason=error.strerror or error,
                )
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                Text(
                    "{path} was not written by torchvet preflight --out",
                    "{path} 不是 torchvet preflight --out 写出的文件",
                    path=path,
                )
            ) from None
        messages += rows
    report = merged(messages, job.given.get("world"))
    job.write(report.as_node(job.language))
    return int(report.blocks(job.fail_on))
