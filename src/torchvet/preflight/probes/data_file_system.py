"""Can the data be read, and over what?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

OBJECT_STORES = ("gcsfuse", "s3fs", "mountpoint-s3", "goofys", "rclone", "blobfuse", "ossfs", "s3ql")

PROBE = Probe(
    name="data-file-system",
    area="disk",
    summary=Text("the data can be read, and not over a slow file system", "数据可读，且不在缓慢的文件系统上"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    folder = plan.data_dir
    if not folder:
        return None
    if host.missing(folder):
        return PROBE.fail(None, folder, Text("there is no {folder}", "没有 {folder}", folder=folder),
                          Text("mount the data there, or name its place with --data-dir",
                               "挂载数据，或用 --data-dir 指定位置"))  # fmt: skip
    mount = host.mount_of(folder)
    if mount is None:
        return PROBE.unknown(
            Text("the file system of {folder} cannot be told", "无法判断 {folder} 的文件系统", folder=folder)
        )
    said = Text("{folder} is on {kind}", "{folder} 位于 {kind}", folder=folder, kind=mount.kind)
    words = f"{mount.kind} {mount.source}".lower()
    store = next((s for s in OBJECT_STORES if s in words), "")
    if mount.kind.startswith("fuse") and store:
        text = Text(
            "{x}: each small or random read is a request to the store",
            "{x}：每次小读或随机读都是一次对象存储请求",
            x=said,
        )
        fix = Text("copy the data to a local disk, or read large shards in order (WebDataset, MDS)",
                   "复制到本地磁盘，或顺序读取大分片（WebDataset、MDS）")  # fmt: skip
        return PROBE.warn(mount.kind, None, text, fix)
    if "noac" in mount.options or ("sync" in mount.options and mount.kind.startswith("nfs")):
        option = "noac" if "noac" in mount.options else "sync"
        text = Text(
            "{x} with {option}: each access asks the server",
            "{x}，带 {option} 选项：每次访问都要询问服务器",
            x=said,
            option=option,
        )
        return PROBE.warn(option, None, text, Text("mount it without {option}", "挂载时去掉 {option}", option=option))
    if not host.list(folder):
        return PROBE.fail(0, None, Text("{folder} is empty or cannot be read", "{folder} 为空或无法读取",
                                        folder=folder),
                          Text("ls -ld {folder}; look whether the volume is mounted",
                               "ls -ld {folder}；检查卷是否已挂载", folder=folder))  # fmt: skip
    return PROBE.ok(mount.kind, None, said)
