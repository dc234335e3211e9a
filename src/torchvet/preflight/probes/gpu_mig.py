"""GPUs that are cut into MIG instances, for a job of several ranks."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-mig", area="gpu", summary=Text("GPUs cut into MIG instances", "被切分为 MIG 实例的 GPU"), seconds=20
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    known = [g for g in smi.gpus if g.text("mig.mode.current")]
    if not known:
        return None
    on = [g.index for g in known if g.text("mig.mode.current") == "Enabled"]
    if not on:
        return PROBE.ok("Disabled", "Disabled", Text("MIG is off", "MIG 未开启"))
    ranks, nodes = plan.ranks(host)[0], plan.node_count(host) or 1
    said = Text("MIG is on for GPU {gpus}", "GPU {gpus} 开启了 MIG", gpus=", ".join(on))
    if ranks < 2 and nodes < 2:
        return PROBE.ok("Enabled", None, said)
    return PROBE.fail(
        "Enabled", "Disabled",
        Text("{said}: NCCL has no peer-to-peer between instances, and refuses two of one GPU",
             "{said}：NCCL 不支持实例间点对点通信，也不接受同一 GPU 的两个实例", said=said),
        Text("nvidia-smi -mig 0 (needs an idle GPU and the administrator), or one rank",
             "执行 nvidia-smi -mig 0（需 GPU 空闲及管理员权限），或只用一个 rank"),
    )  # fmt: skip
