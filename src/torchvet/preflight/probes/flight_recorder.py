"""Where the flight recorder of torch will write, and whether it records."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import settings

PROBE = Probe(
    name="flight-recorder", area="nccl",
    summary=Text("torch's flight recorder can write its dump", "torch 飞行记录器可以写出转储"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    known = settings(host)
    path = next((known[n] for n in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE") if n in known), None)
    size = next((known[n] for n in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") if n in known), None)
    out: list[Result] = []
    if size is not None and size.value.strip() == "0":
        out.append(PROBE.warn(
            0, 2000,
            Text("{shown}: no collective is recorded, a hang leaves no trace",
                 "{shown}：不记录集合通信，挂起后没有线索", shown=size.shown),
            Text("TORCH_FR_BUFFER_SIZE=2000"),
        ))  # fmt: skip
    if path is not None and path.value:
        folder = path.value.rpartition("/")[0] or "."
        if not folder.startswith("/"):
            return out or None  # below the working directory of the job
        writable = host.writable(folder)
        fix = Text(
            "mkdir -p {folder}, on storage that outlives the container",
            "mkdir -p {folder}，且位于容器外的存储",
            folder=folder,
        )
        if writable is False or (writable is None and not host.exists(folder)):
            why = Text("is not writable", "不可写") if writable is False else Text("does not exist", "不存在")
            out.append(PROBE.warn(
                folder, None,
                Text("{shown}: {folder} {why}, no dump will be written", "{shown}：{folder} {why}，不会写出转储",
                     shown=path.shown, folder=folder, why=why),
                fix,
            ))  # fmt: skip
        elif writable and not out:
            return PROBE.ok(folder, None, Text("dumps go to {folder}", "转储写入 {folder}", folder=folder))
    return out or None
