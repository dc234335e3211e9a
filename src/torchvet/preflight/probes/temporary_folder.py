"""Do temporary files and sockets work?"""

from __future__ import annotations

from torchvet.findings import Text

from ..host import MAY_HANG
from ..probe import Host, Plan, Probe, Result
from ..quantity import size

FREE = 1 << 30
"""Own threshold: Inductor and Triton compile there."""
LONGEST = 70
"""A socket's path has 107 characters (unix(7)); multiprocessing adds /pymp-xxxxxxxx/listener-xxxxxxxx."""

PROBE = Probe(
    name="temporary-folder",
    area="disk",
    summary=Text("temporary files and sockets work", "临时文件与套接字可用"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    name = next((n for n in ("TMPDIR", "TEMP", "TMP") if host.env.get(n)), "")
    folder = host.env[name] if name else "/tmp"
    shown = Text("{name}={folder}", name=name, folder=folder) if name else Text("{folder}", folder=folder)
    fix = Text("export TMPDIR=/tmp")
    if not folder.startswith("/"):
        return PROBE.warn(folder, None, Text("{x} is no absolute path", "{x} 不是绝对路径", x=shown), fix)
    writable = host.writable(folder)
    if writable is False or (writable is None and host.missing(folder)):
        why = Text("cannot be written", "不可写") if writable is False else Text("does not exist", "不存在")
        return PROBE.fail(folder, None, Text("{x} {why}: compilers and workers stop",
                                             "{x} {why}：编译器与 worker 无法工作",
                                             x=shown, why=why), fix)  # fmt: skip
    if len(folder) > LONGEST:
        text = Text("{x} is long: sockets of worker processes fail (AF_UNIX path too long)",
                    "{x} 过长：worker 进程的套接字会失败（AF_UNIX path too long）", x=shown)  # fmt: skip
        return PROBE.warn(len(folder), LONGEST, text, fix)
    mount, space = host.mount_of(folder), host.space(folder)
    if mount is not None and mount.kind.startswith(MAY_HANG):
        text = Text(
            "{x} is on {kind}: locks and sockets of all nodes meet there",
            "{x} 位于 {kind}：所有节点的锁与套接字都在此",
            x=shown,
            kind=mount.kind,
        )
        return PROBE.warn(mount.kind, None, text, fix)
    if space is not None and space.size and space.free < FREE:
        text = Text("{x}: {free} are free", "{x}：剩余 {free}", x=shown, free=size(space.free))
        return PROBE.warn(
            space.free,
            FREE,
            text,
            Text("remove old files there, or set TMPDIR to a larger disk", "清理旧文件，或将 TMPDIR 指向更大的磁盘"),
        )
    if writable is None:
        return PROBE.unknown(Text("{x} cannot be judged", "无法判断 {x}", x=shown))
    return PROBE.ok(folder, None, Text("temporary files: {x}", "临时文件：{x}", x=shown))
