"""Does /dev/shm lie in memory?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import more_shm
from ..probe import Host, Plan, Probe, Result

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")

PROBE = Probe(
    name="shm-type",
    area="memory",
    summary=Text("/dev/shm lies in memory, not on a disk", "/dev/shm 位于内存而非磁盘"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    mount = host.mount_of("/dev/shm")
    if mount is None or not host.exists("/dev/shm"):
        return None
    said = Text("/dev/shm is {kind}", "/dev/shm 为 {kind}", kind=mount.kind)
    if mount.kind in IN_MEMORY:
        return PROBE.ok(mount.kind, "tmpfs", said)
    return PROBE.warn(
        mount.kind, "tmpfs",
        Text("{x} ({place}): batches of the workers go over the disk", "{x}（{place}）：worker 的批次要经过磁盘",
             x=said, place=mount.place),
        more_shm(host, plan.demand(host) or 8 << 30),
    )  # fmt: skip
