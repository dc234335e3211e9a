"""Are there GPUs, when the job's torch is built for them?"""

from __future__ import annotations

from torchvet.findings import Text

from .. import amd, nvidia
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="gpu-present",
    area="gpu",
    summary=Text("GPUs that the job's torch can use", "作业所用 torch 能使用的 GPU"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    if smi.state in ("hangs", "failed"):
        return None  # gpu-driver speaks
    versions = host.versions()
    cuda, hip = versions.get("torch_cuda"), versions.get("torch_hip")
    rocm = amd.ask(host)
    if smi.gpus:
        names = _counted([g.name for g in smi.gpus])
        if hip and not cuda and not (rocm and rocm.count):
            return PROBE.fail(
                names, f"ROCm {hip}",
                Text("this torch is built for AMD GPUs (ROCm {hip}), the GPUs are {names}",
                     "此 torch 为 AMD GPU（ROCm {hip}）构建，而这里的 GPU 是 {names}", hip=hip, names=names),
                Text("install a torch that is built for CUDA", "安装为 CUDA 构建的 torch"),
            )  # fmt: skip
        if versions.get("torch") and not cuda and not hip:
            return PROBE.warn(
                names, "CUDA",
                Text("torch {torch} is built without CUDA: it will not use {names}",
                     "torch {torch} 构建时未启用 CUDA：不会使用 {names}", torch=versions["torch"], names=names),
                Text("install a torch that is built for CUDA", "安装为 CUDA 构建的 torch"),
            )  # fmt: skip
        return PROBE.ok(names, cuda, Text("{names}", names=names))
    if rocm and rocm.count:
        n = rocm.count
        if cuda and not hip:
            return PROBE.fail(
                n, f"CUDA {cuda}",
                Text("this torch is built for CUDA {cuda}, the {n} GPUs are AMD's",
                     "此 torch 为 CUDA {cuda} 构建，而这里的 {n} 个 GPU 是 AMD 的", cuda=cuda, n=n),
                Text("install a torch that is built for ROCm", "安装为 ROCm 构建的 torch"),
            )  # fmt: skip
        return PROBE.ok(n, hip, Text("{n} AMD GPUs", "{n} 个 AMD GPU", n=n))
    if hip and not cuda:
        return None  # rocm-driver speaks
    if not cuda:
        return None  # a CPU build on a machine without GPUs
    if smi.state == "none":
        return PROBE.fail(
            0, f"CUDA {cuda}",
            Text("the NVIDIA driver is loaded and no GPU is visible; torch is built for CUDA {cuda}",
                 "NVIDIA 驱动已加载，但看不到任何 GPU；torch 为 CUDA {cuda} 构建", cuda=cuda),
            _fix(host),
        )  # fmt: skip
    return PROBE.fail(
        0, f"CUDA {cuda}",
        Text("torch is built for CUDA {cuda}, and there is no NVIDIA driver here",
             "torch 为 CUDA {cuda} 构建，而这里没有 NVIDIA 驱动", cuda=cuda),
        _fix(host),
    )  # fmt: skip


def _counted(names: list[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name or "GPU"] = counts.get(name or "GPU", 0) + 1
    return ", ".join(f"{n} × {name}" for name, n in counts.items())


def _fix(host: Host) -> Text:
    return pick(
        host,
        Text("start the job on a machine with GPUs; on this one a CPU build of torch is enough",
             "在有 GPU 的机器上启动作业；本机只需 CPU 版 torch"),
        docker=Text("docker run --gpus all …", "docker run --gpus all …"),
        compose=Text("in the service: deploy.resources.reservations.devices with capabilities: [gpu]",
                     "在 service 中设置：deploy.resources.reservations.devices，capabilities: [gpu]"),
        podman=Text("podman run --device nvidia.com/gpu=all …"),
        kubernetes=Text("resources.limits: nvidia.com/gpu: 1", "resources.limits: nvidia.com/gpu: 1"),
        slurm=Text("ask for them: --gpus-per-node or --gres=gpu:N", "申请 GPU：--gpus-per-node 或 --gres=gpu:N"),
        apptainer=Text("apptainer exec with --nv", "运行 apptainer exec 时加 --nv"),
    )  # fmt: skip
