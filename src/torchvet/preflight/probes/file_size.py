"""May a file be as large as a checkpoint?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import size

PROBE = Probe(
    name="file-size",
    area="limits",
    summary=Text("files may be as large as checkpoints (ulimit -f)", "文件可达到检查点大小（ulimit -f）"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("FSIZE")
    if limit is None:
        return None
    soft, need = limit[0], plan.checkpoint_bytes
    if soft < 0:
        return PROBE.ok(-1, need, Text("file size: unlimited", "文件大小：不限"))
    said = Text("files may have {n} at most", "单个文件最大 {n}", n=size(soft))
    fix = Text("ulimit -f unlimited before the start", "启动前执行 ulimit -f unlimited")
    if need and soft < need:
        text = Text("{x}; a checkpoint has {need}: writing it ends the job (SIGXFSZ)",
                    "{x}；检查点为 {need}：写入时作业会被终止（SIGXFSZ）", x=said, need=size(need))  # fmt: skip
        return PROBE.fail(soft, need, text, fix)
    return PROBE.warn(
        soft, need, Text("{x}; a larger checkpoint ends the job", "{x}；更大的检查点会终止作业", x=said), fix
    )
