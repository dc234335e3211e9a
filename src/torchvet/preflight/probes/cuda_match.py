"""Can this torch work with this driver?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="cuda-match",
    area="versions",
    summary=Text("the driver serves the CUDA of this torch", "驱动支持该 torch 的 CUDA 版本"),
    seconds=30,
)

ASK = """# packages
import torch
print("torch", torch.__version__)
try:
    torch.cuda.init()
    print("devices", torch.cuda.device_count())
except Exception as error:
    print("error", " ".join(str(error).split())[:300])
"""


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    built = re.match(r"(\d+)\.(\d+)", host.versions().get("torch_cuda", ""))
    smi = nvidia.ask(host)
    if built is None or not smi.gpus:
        return None
    serves = nvidia.cuda_version(host)
    needs = (int(built[1]), int(built[2]))
    shown = f"{needs[0]}.{needs[1]}"
    fix = Text(
        "update the driver, or install the torch build for CUDA {major} (…/whl/cu{major}x)",
        "更新驱动，或安装 CUDA {major} 版的 torch（…/whl/cu{major}x）",
        major=serves[0] if serves else needs[0],
    )
    if serves and serves[0] < needs[0]:
        return PROBE.fail(
            f"{serves[0]}.{serves[1]}", shown,
            Text("driver {driver} serves CUDA {serves}; this torch needs CUDA {needs}",
                 "驱动 {driver} 最高支持 CUDA {serves}；此 torch 需要 CUDA {needs}",
                 driver=smi.driver, serves=f"{serves[0]}.{serves[1]}", needs=shown),
            fix,
        )  # fmt: skip
    ran = host.python(ASK, 25)
    said = dict(line.split(" ", 1) for line in ran.out.splitlines() if " " in line)
    if ran.timed_out:
        return PROBE.fail(
            "no answer", 25,
            Text("torch.cuda.init() gave no answer in {n} s", "torch.cuda.init() 在 {n} 秒内没有响应", n=25),
            Text("look for Xid lines: dmesg | grep Xid", "查看 Xid 记录：dmesg | grep Xid"),
        )  # fmt: skip
    if "error" in said:
        return PROBE.fail(
            said["error"], None,
            Text("torch cannot start CUDA: {error}", "torch 无法启动 CUDA：{error}", error=said["error"]), fix,
        )  # fmt: skip
    if "devices" not in said:
        return PROBE.unknown(Text("torch could not be asked in a child process", "无法在子进程中询问 torch"))
    seen, chosen = int(said["devices"]), nvidia.visible(host, smi)
    if chosen is not None and seen < len(chosen):
        return PROBE.fail(
            seen, len(chosen),
            Text("torch sees {seen} of {n} GPUs", "torch 只能看到 {n} 个 GPU 中的 {seen} 个", seen=seen, n=len(chosen)),
            Text("nvidia-smi -q shows which one is in trouble; in a container its /dev/nvidia* may be missing",
                 "用 nvidia-smi -q 找出故障的 GPU；在容器中可能缺少对应的 /dev/nvidia*"),
        )  # fmt: skip
    return PROBE.ok(
        f"{serves[0]}.{serves[1]}" if serves else None,
        shown,
        Text(
            "torch for CUDA {needs} sees {seen} GPUs",
            "CUDA {needs} 版 torch 可见 {seen} 个 GPU",
            needs=shown,
            seen=seen,
        ),
    )
