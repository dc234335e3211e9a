"""Does a checkpoint fit where it shall be written, and does writing work?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import size

SLOW = 2.0
"""Own threshold, seconds for 4 MiB with fsync."""
TRIAL = 4 << 20
SHARE = 0.1

PROBE = Probe(
    name="checkpoint-disk",
    area="disk",
    summary=Text("checkpoints fit into their folder and can be written", "检查点目录空间足够且可写"),
    seconds=12,
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    folder = plan.checkpoint_dir
    if not folder:
        return None
    if host.missing(folder):
        return PROBE.fail(None, folder, Text("there is no folder {folder}", "没有目录 {folder}", folder=folder),
                          Text("mkdir -p {folder}", folder=folder))  # fmt: skip
    results = [r for r in (room(host, plan, folder), place(host, folder)) if r is not None]
    written = host.try_write(folder, TRIAL, 8)
    if written is None:
        return results or PROBE.unknown(Text("{folder} was not tried", "未测试 {folder}", folder=folder))
    if written.timed_out:
        results.append(PROBE.fail(
            written.seconds, SLOW, Text("writing 4 MiB to {folder} did not end in 8 s",
                                        "向 {folder} 写入 4 MiB 在 8 秒内未完成", folder=folder),
            Text("the file system hangs: look for its server", "文件系统无响应：检查其服务器"),
        ))  # fmt: skip
    elif written.error:
        results.append(PROBE.fail(
            written.error, None, Text("{folder} cannot be written: {error}", "无法写入 {folder}：{error}",
                                      folder=folder, error=written.error),
            Text("name a folder that this user may write", "指定当前用户可写的目录"),
        ))  # fmt: skip
    elif written.seconds > SLOW:
        results.append(PROBE.warn(
            round(written.seconds, 2), SLOW,
            Text("4 MiB took {t} s to reach {folder}", "4 MiB 写入 {folder} 用了 {t} 秒", t=f"{written.seconds:.1f}",
                 folder=folder),
            Text("write checkpoints to a faster disk, or asynchronously", "改用更快的磁盘，或异步保存检查点"),
        ))  # fmt: skip
    return results or PROBE.ok(
        round(written.seconds, 3), SLOW, Text("{folder} can be written", "{folder} 可写", folder=folder)
    )


def room(host: Host, plan: Plan, folder: str) -> Result | None:
    space = host.space(folder)
    if space is None or not space.size:
        return None
    need = plan.checkpoint_bytes
    said = Text("{free} of {size} are free in {folder}", "{folder} 的 {size} 中有 {free} 空闲",
                free=size(space.free), size=size(space.size), folder=folder)  # fmt: skip
    fix = Text("remove old checkpoints, or name another folder", "删除旧检查点，或指定其他目录")
    if space.inodes and space.inodes_free == 0:
        return PROBE.fail(0, 1, Text("no more file can be made in {folder} (no inode is free)",
                                     "{folder} 无法再创建文件（inode 用尽）", folder=folder), fix)  # fmt: skip
    if need and space.free < 2 * need:
        text = Text("{x}; a checkpoint has {need}, and the old one stays until the new one is complete",
                    "{x}；检查点为 {need}，新文件写完前旧文件仍在", x=said, need=size(need))  # fmt: skip
        return PROBE.fail(space.free, 2 * need, text, fix)
    if not need and space.free < SHARE * space.size and space.free < 100 << 30:
        return PROBE.warn(space.free, int(SHARE * space.size), said, fix)
    return None


def place(host: Host, folder: str) -> Result | None:
    mount = host.mount_of(folder)
    if mount is None or mount.kind not in ("overlay", "tmpfs", "ramfs", "aufs"):
        return None
    why = (
        Text("is a layer of the container", "是容器层")
        if mount.kind in ("overlay", "aufs")
        else Text("lies in memory", "位于内存")
    )
    text = Text(
        "{folder} {why}: checkpoints are lost with it", "{folder} {why}：检查点会随之丢失", folder=folder, why=why
    )
    return PROBE.warn(mount.kind, None, text, Text("mount a volume there", "在该处挂载卷"))
