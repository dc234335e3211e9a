"""Is there a GPU for every rank of this node?"""

from __future__ import annotations

from torchvet.findings import Text

from .. import amd, nvidia
from ..probe import Host, Plan, Probe, Result
from ..quantity import whole

PROBE = Probe(
    name="gpu-count",
    area="gpu",
    summary=Text("one GPU for every rank of this node", "本节点的每个 rank 各有一个 GPU"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    limited = host.env.get("CUDA_VISIBLE_DEVICES")
    if smi.state == "ok":
        chosen = nvidia.visible(host, smi)
        if chosen is None:
            return None  # MIG instances: counted by the driver only
        count, present = len(chosen), len(smi.gpus)
        device = chosen[0] if len(chosen) == 1 else None
    else:
        rocm = amd.ask(host)
        if rocm is None or rocm.count is None:
            return None
        count, present, device = amd.visible(host, rocm) or 0, rocm.count, None
    ranks, origin = plan.ranks(host)
    # srun --gpus-per-task and the like give each rank its own GPU: one is visible, and that is right
    own = device is not None and limited and ranks > 1 and whole(host.env.get("SLURM_GPUS_PER_TASK")) == 1
    if count == 0:
        message = Text(
            "CUDA_VISIBLE_DEVICES={value} hides all {present} GPUs",
                 "CUDA_VISIBLE_DEVICES={value} 隐藏了全部 {present} 个 GPU",
            value=repr(limited or ""), present=present,
        )  # fmt: skip
        return PROBE.fail(0, ranks, message, Text("unset CUDA_VISIBLE_DEVICES", "取消设置 CUDA_VISIBLE_DEVICES"))
    if count >= ranks or own:
        return PROBE.ok(
            count,
            ranks,
            Text("{count} GPUs for {ranks} ranks", "{count} 个 GPU，{ranks} 个 rank", count=count, ranks=ranks),
        )
    shared = whole(host.env.get("NCCL_MULTI_RANK_GPU_ENABLE")) == 1
    message = Text(
        "{ranks} ranks on this node ({origin}) and {count} GPUs visible{limited}",
        "本节点有 {ranks} 个 rank（{origin}），而可见 GPU 只有 {count} 个{limited}",
        ranks=ranks, origin=origin, count=count,
        limited=Text(" (CUDA_VISIBLE_DEVICES={value}, {present} present)",
             "（CUDA_VISIBLE_DEVICES={value}，实有 {present} 个）",
                     value=limited, present=present) if limited is not None else Text(""),
    )  # fmt: skip
    fix = Text(
        "{count} ranks on this node: torchrun --nproc-per-node {count}, or give the job more GPUs",
        "本节点使用 {count} 个 rank：torchrun --nproc-per-node {count}，或为作业申请更多 GPU",
        count=count,
    )
    return PROBE.warn(count, ranks, message, fix) if shared else PROBE.fail(count, ranks, message, fix)
