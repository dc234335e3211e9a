"""Does AMD's driver answer, and may this user open it?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from .. import amd
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="rocm-driver",
    area="gpu",
    summary=Text("AMD's driver answers for every GPU", "AMD 驱动对每个 GPU 都有响应"),
    seconds=25,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    built = host.versions().get("torch_hip")
    rocm = amd.ask(host)
    give = pick(
        host, Text("modprobe amdgpu; the user must be in the groups render and video",
             "执行 modprobe amdgpu；用户需属于 render 与 video 组"),
        docker=Text("docker run --device=/dev/kfd --device=/dev/dri --group-add video …"),
        kubernetes=Text("resources.limits: amd.com/gpu: 1"),
    )  # fmt: skip
    if rocm is None or not rocm.device:
        if not built:
            return None
        return PROBE.fail(
            0, f"ROCm {built}",
            Text("torch is built for ROCm {built}, and there is no /dev/kfd here",
                 "torch 为 ROCm {built} 构建，而这里没有 /dev/kfd", built=built),
            give,
        )  # fmt: skip
    for argv in (["amd-smi", "list"], ["rocm-smi", "--showid"]):
        ran = host.run(argv, 8)
        if ran is None:
            continue
        if ran.timed_out:
            return PROBE.fail(
                "no answer", 8, Text("{name} gave no answer in 8 s: a GPU or its driver is stuck",
                     "{name} 在 8 秒内没有响应：GPU 或驱动已卡死", name=argv[0]),
                Text("dmesg | grep amdgpu; reset the GPU or restart the node",
                     "查看 dmesg | grep amdgpu；重置 GPU 或重启节点"),
            )  # fmt: skip
        if ran.code:
            first = next((x.strip() for x in (ran.err + "\n" + ran.out).splitlines() if x.strip()), "")
            return PROBE.fail(
                ran.code, 0, Text("{name} failed (exit {code}): {words}", "{name} 失败（退出码 {code}）：{words}",
                     name=argv[0], code=ran.code, words=first[:160]),
                give,
            )  # fmt: skip
        seen = len(set(re.findall(r"^GPU\s*[:\[]\s*(\d+)", ran.out, re.MULTILINE)))
        if rocm.count is not None and 0 < seen < rocm.count:
            return PROBE.fail(
                seen, rocm.count, Text("{name} sees {seen} of {n} GPUs", "{name} 只看到 {n} 个 GPU 中的 {seen} 个",
                     name=argv[0], seen=seen, n=rocm.count),
                Text("dmesg | grep amdgpu shows what became of the others",
                     "用 dmesg | grep amdgpu 查看其余 GPU 的情况"),
            )  # fmt: skip
        break
    if rocm.count == 0:
        return PROBE.fail(0, 1, Text("the amdgpu driver lists no GPU", "amdgpu 驱动未列出任何 GPU"), give)
    return PROBE.ok(
        rocm.driver,
        None,
        Text(
            "amdgpu {driver}, {n} GPUs",
            "amdgpu {driver}，{n} 个 GPU",
            driver=rocm.driver or "?",
            n=rocm.count if rocm.count is not None else "?",
        ),
    )
