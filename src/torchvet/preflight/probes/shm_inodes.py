"""Can files still be created in /dev/shm?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

FEW = 1000
"""Own threshold: each tensor of a batch in flight and each semaphore is a file."""

PROBE = Probe(
    name="shm-inodes",
    area="memory",
    summary=Text("/dev/shm has room for more files", "/dev/shm 还能创建文件"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    space = host.space("/dev/shm")
    if space is None:
        return None
    if not space.inodes:
        return PROBE.ok(None, None, Text("/dev/shm does not count files", "/dev/shm 不限制文件数"))
    said = Text("/dev/shm can hold {n} more files of {all}", "/dev/shm 还能容纳 {n} 个文件（共 {all}）",
                n=f"{space.inodes_free:,}", all=f"{space.inodes:,}")  # fmt: skip
    fix = pick(
        host,
        Text("mount -o remount,nr_inodes=0 /dev/shm"),
        docker=Text(
            "remove old files: ls /dev/shm; or start a new container", "删除旧文件：ls /dev/shm；或重新启动容器"
        ),
        kubernetes=Text("remove old files: ls /dev/shm; or start a new pod", "删除旧文件：ls /dev/shm；或重新启动 Pod"),
    )
    if space.inodes_free == 0:
        stops = Text(
            "{x}: no loader with workers starts ([Errno 28])", "{x}：带 worker 的加载器无法启动（[Errno 28]）", x=said
        )
        return PROBE.fail(0, FEW, stops, fix)
    if space.inodes_free < FEW:
        return PROBE.warn(space.inodes_free, FEW, said, fix)
    return PROBE.ok(space.inodes_free, FEW, said)
