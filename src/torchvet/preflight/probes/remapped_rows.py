"""Memory rows that wait to be remapped, or could not be."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="remapped-rows",
    area="gpu",
    summary=Text("GPU memory rows that wait to be remapped", "等待重映射的显存行"),
    seconds=20,
)

FIELDS = (
    "gpu_uuid",
    "remapped_rows.correctable",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    smi = nvidia.ask(host)
    if not smi.gpus:
        return None
    rows = nvidia.table(host, "query-remapped-rows", FIELDS)
    if rows is None:
        return PROBE.unknown(Text("nvidia-smi does not tell the remapped rows", "nvidia-smi 未返回行重映射信息"))
    index = {g.uuid: g.index for g in smi.gpus}
    out, known = [], 0
    for row in rows:
        pending, failure = _yes(row["remapped_rows.pending"]), _yes(row["remapped_rows.failure"])
        known += pending is not None
        i = index.get(row["gpu_uuid"], row["gpu_uuid"])
        if failure:
            out.append(PROBE.fail(
                "failure", 0, Text("GPU {i}: a memory row could not be remapped", "GPU {i}：有显存行无法重映射", i=i),
                Text("the GPU has to be replaced", "需更换该 GPU"),
            ))  # fmt: skip
        elif pending:
            out.append(PROBE.fail(
                "pending", 0,
                Text("GPU {i}: a memory row waits to be remapped; until the reset its errors go on",
                     "GPU {i}：有显存行等待重映射；重置前错误会继续出现", i=i),
                Text("nvidia-smi --gpu-reset -i {i}, with no process on it, or restart the node",
                     "确认无进程占用后执行 nvidia-smi --gpu-reset -i {i}，或重启节点", i=i),
            ))  # fmt: skip
    if not out and not known:
        return None  # consumer GPUs have no spare rows
    return out or PROBE.ok(0, 0, Text("no memory row waits to be remapped", "没有等待重映射的显存行"))


def _yes(word: str) -> bool | None:
    """ "Yes", "No", numbers; "[N/A]" is unknown."""
    if word.lower() in ("yes", "no"):
        return word.lower() == "yes"
    return int(word) > 0 if word.isdigit() else None
