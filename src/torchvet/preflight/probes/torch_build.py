"""Is the installed PyTorch built for the GPUs of this machine?"""

from __future__ import annotations

from torchvet.findings import Text

from ..plan import gpus
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="torch-build",
    area="versions",
    summary=Text("PyTorch is built for the GPUs of this machine", "PyTorch 支持本机的 GPU"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    versions = host.versions()
    torch = versions.get("torch")
    if not torch:
        return PROBE.unknown(
            Text(
                "this Python has no PyTorch: install torchvet where the job runs",
                "此 Python 没有 PyTorch：请将 torchvet 安装到作业的环境中",
            )
        )
    built = "CUDA" if versions.get("torch_cuda") else "ROCm" if versions.get("torch_hip") else "CPU"
    number = versions.get("torch_cuda") or versions.get("torch_hip") or ""
    said = Text(
        "PyTorch {v}, built for {kind}", "PyTorch {v}，面向 {kind} 构建", v=torch, kind=f"{built} {number}".strip()
    )
    amd = host.exists("/dev/kfd")
    nvidia = "nvidiactl" in host.list("/dev") or (not amd and gpus(host) > 0)
    if not gpus(host) or (built == "CUDA" and nvidia) or (built == "ROCm" and amd):
        return PROBE.ok(torch, None, said)
    if not nvidia and not amd:
        return PROBE.ok(torch, None, said)
    wanted = "CUDA" if nvidia else "ROCm"
    text = Text("{x}; the GPUs of this machine need {wanted}: the job runs on the CPU or stops",
                "{x}；本机 GPU 需要 {wanted}：作业会在 CPU 上运行或停止",
                x=said, wanted=wanted)  # fmt: skip
    return PROBE.fail(
        torch,
        wanted,
        text,
        Text(
            "install the wheel for {wanted}: pytorch.org/get-started/locally",
            "安装面向 {wanted} 的版本：pytorch.org/get-started/locally",
            wanted=wanted,
        ),
    )
