"""Can the job write where it starts?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import size

FREE = 1 << 30
"""Own threshold: logs, traces and flight recorder dumps."""

PROBE = Probe(
    name="work-folder",
    area="disk",
    summary=Text("the folder where the job starts can be written", "作业启动目录可写"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    folder = host.cwd()
    if not folder.startswith("/"):
        return None
    space, writable = host.space(folder), host.writable(folder)
    fix = Text(
        "start in a folder that can be written, or give all outputs a path of their own",
        "在可写目录中启动，或为所有输出指定路径",
    )
    if writable is False:
        text = Text(
            "{folder} cannot be written: logs and dumps with relative paths are lost",
            "{folder} 不可写：相对路径的日志与转储会丢失",
            folder=folder,
        )
        return PROBE.warn("read-only", None, text, fix)
    if space is None or not space.size:
        return None
    said = Text("{free} are free in {folder}", "{folder} 剩余 {free}", free=size(space.free), folder=folder)
    if space.free < FREE or (space.inodes and not space.inodes_free):
        return PROBE.warn(space.free, FREE, said, Text("remove old files there", "清理旧文件"))
    return PROBE.ok(space.free, FREE, said) if writable else None
