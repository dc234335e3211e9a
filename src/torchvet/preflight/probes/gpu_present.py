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
    if smi.state in ("hangs", "failed", "strange"):
        return None  # gpu-driver speaks
    versions = host.versions()
    cuda, hip = versions.get("torch_cuda"), versions.get("torch_hip")
    rocm = amd.ask(host)
    if smi.gpus:  # whether torch is built for them: torch-build
        names = _counted([g.name for g in smi.gpus])
        return PROBE.ok(names, None, Text("{names}", names=names))
    if rocm and rocm.count:
        return PROBE.ok(rocm.count, None, Text("{n} AMD GPUs", "{n} 个 AMD GPU", n=rocm.count))
    if hip and not cuda:
        return None  # rocm-driver speaks
    if not cuda:
        return None  # a CPU build on a machine without GPUs
    said = Text("no NVIDIA GPU is visible here, and torch is built for CUDA {cuda}",
                "此处看不到 NVIDIA GPU，而 torch 为 CUDA {cuda} 构建", cuda=cuda)  # fmt: skip
    if smi.state == "none" or _meant(host):
        return PROBE.fail(0, f"CUDA {cuda}", said, _fix(host))
    if any(n.startswith("nvidia") for n in host.list("/dev")):
        return None  # gpu-driver speaks
    return PROBE.unknown(
        Text("{said}: the job would run on the CPU", "{said}：作业将在 CPU 上运行", said=said), _fix(host)
    )


def _meant(host: Host) -> bool:
    """Is there a sign that this machine has GPUs, or that the job asked for some? Images with CUDA set
    NVIDIA_VISIBLE_DEVICES=all; a start without --gpus leaves it."""
    env = host.env
    if env.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none"):
        return not any(n.startswith("nvidia") for n in host.list("/dev"))
    if any(env.get(n) for n in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE")):
        return True
    pci = "/sys/bus/pci/devices/"
    return any(
        (host.read(f"{pci}{n}/vendor") or "").strip() == "0x10de"
        and (host.read(f"{pci}{n}/class") or "").startswith("0x03")
        for n in host.list(pci.rstrip("/"))
    )


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
