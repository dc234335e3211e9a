"""Other processes that hold GPU memory before the job starts."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-processes", area="gpu", summary=Text("GPU memory that others hold", "被其他进程占用的显存"), seconds=20
)

FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
BUSY = 500
"""MiB in use before the start; an idle driver holds less, a CUDA context about as much."""

BUSY_DESKTOP = 2048
"""A card with a display holds that much for windows (AMD's Primus calls 2 GiB busy)."""


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    smi = nvidia.ask(host)
    gpus = nvidia.visible(host, smi) or []
    if not gpus:
        return None
    rows = nvidia.table(host, "query-compute-apps", FIELDS) or []
    out = []
    for gpu in gpus:
        used, total = gpu.number("memory.used"), gpu.number("memory.total")
        own = [r for r in rows if r["gpu_uuid"] == gpu.uuid]
        if not own and (used is None or used <= (BUSY_DESKTOP if "GeForce" in gpu.name else BUSY)):
            continue
        names = ", ".join(f"{r['process_name'].rsplit('/', 1)[-1][:40]} (pid {r['pid']})" for r in own[:3])
        more = f" +{len(own) - 3}" if len(own) > 3 else ""
        by = Text(" by {names}", "，占用者：{names}", names=names + more) if names else Text(
            " by processes that are not visible here", "，占用者在此处不可见")  # fmt: skip
        said = Text("GPU {i}: {used} of {total} MiB are in use{by}", "GPU {i}：{total} MiB 中已占用 {used} MiB{by}",
                    i=gpu.index, used=int(used or 0), total=int(total or 0), by=by)  # fmt: skip
        fix = Text("end what is left of an earlier job: fuser -v /dev/nvidia{i} on the host shows it",
                   "结束先前作业的残留进程：在宿主机上用 fuser -v /dev/nvidia{i} 查看", i=gpu.index)  # fmt: skip
        out.append(PROBE.warn(int(used or 0), BUSY, said, fix))
    return out or PROBE.ok(0, BUSY, Text("no other process holds GPU memory", "没有其他进程占用显存"))
