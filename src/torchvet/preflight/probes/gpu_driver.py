"""Does the NVIDIA driver answer, for every GPU?"""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="gpu-driver",
    area="gpu",
    summary=Text("the NVIDIA driver answers for every GPU", "NVIDIA 驱动对每个 GPU 都有响应"),
    seconds=20,
)

CODES = {
    4: Text("this user may not ask the driver", "当前用户无权访问驱动"),
    9: Text("the NVIDIA driver is not loaded", "NVIDIA 驱动未加载"),
    10: Text("the kernel saw an interrupt fault of a GPU", "内核检测到 GPU 中断故障"),
    12: Text("the NVML library was not found", "找不到 NVML 库"),
    14: Text("the infoROM of a GPU is corrupted", "GPU 的 infoROM 已损坏"),
    15: Text("a GPU has fallen off the bus", "有 GPU 已从总线脱落"),
    18: Text("driver and NVML library have different versions", "驱动与 NVML 库版本不一致"),
    255: Text("the driver reports an internal error", "驱动报告内部错误"),
}
"""Return codes of nvidia-smi (its manual page); 18 is NVML's number for a version mismatch."""

_XID = Text("look for Xid lines: dmesg | grep Xid; reset the GPU or restart the node if there are any",
            "查看 Xid 记录：dmesg | grep Xid；如有则重置 GPU 或重启节点")  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    smi = nvidia.ask(host)
    if smi.state == "absent":
        return _without_command(host)
    if smi.state == "hangs":
        return PROBE.fail(
            "no answer", nvidia.SECONDS,
            Text("nvidia-smi gave no answer in {n} s: a GPU or its driver is stuck",
                 "nvidia-smi 在 {n} 秒内没有响应：GPU 或驱动已卡死", n=nvidia.SECONDS),
            _XID,
        )  # fmt: skip
    if smi.state == "strange":
        return PROBE.unknown(Text("nvidia-smi answers in an unknown form: {words}",
             "nvidia-smi 的输出格式无法识别：{words}",
                                  words=smi.words[:160]))  # fmt: skip
    if smi.state == "failed":
        said = CODES.get(smi.code, Text("nvidia-smi failed", "nvidia-smi 执行失败"))
        words = Text(": {words}", "：{words}", words=smi.words[:160]) if smi.words else Text("")
        message = Text("{said} (nvidia-smi exit {code}){words}", "{said}（nvidia-smi 退出码 {code}）{words}",
                       said=said, code=smi.code, words=words)  # fmt: skip
        return PROBE.fail(smi.code, 0, message, _fix(host, smi.code, smi.words))
    out = []
    for line in smi.lost:
        out.append(
            PROBE.fail(
                line, None, Text("a GPU gives no answer: {line}", "有 GPU 无响应：{line}", line=line[:160]), _XID
            )
        )
    for gpu in smi.gpus:
        if gpu.broken:
            out.append(PROBE.fail(
                gpu.broken, None,
                Text("GPU {i} ({bus}) answers with \"{words}\"", "GPU {i}（{bus}）返回“{words}”",
                     i=gpu.index, bus=gpu.bus, words=gpu.broken),
                Text("nvidia-smi --gpu-reset -i {i}, with no process on it; else restart the node",
                     "确认无进程占用后执行 nvidia-smi --gpu-reset -i {i}；否则重启节点", i=gpu.index),
            ))  # fmt: skip
    if out or smi.state == "none":
        return out or None
    return PROBE.ok(smi.driver, None, Text("driver {driver}", "驱动 {driver}", driver=smi.driver or "?"))


def _without_command(host: Host) -> Result | None:
    files = [n for n in host.list("/dev") if n.startswith("nvidia") and n[6:].isdigit()]
    if host.read("/proc/driver/nvidia/version") is None and not files:
        return None
    return PROBE.unknown(
        Text("the NVIDIA driver is loaded and nvidia-smi is not installed here: GPUs cannot be examined",
             "NVIDIA 驱动已加载，但此处没有 nvidia-smi：无法检查 GPU"),
        pick(host, Text("install nvidia-utils of the driver's version", "安装与驱动同版本的 nvidia-utils"),
             docker=Text("docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …")),
    )  # fmt: skip


def _fix(host: Host, code: int, words: str) -> Text:
    if code == 18 or "version mismatch" in words:
        return Text("the driver was updated while the old one is loaded: restart the node, or unload and load the "
             "nvidia modules",
                    "驱动已更新但旧模块仍在使用：重启节点，或卸载并重新加载 nvidia 模块")  # fmt: skip
    if code in (9, 12):
        return pick(
            host,
            Text("modprobe nvidia; after a kernel update the module must be built again: dkms status",
                 "执行 modprobe nvidia；内核更新后需重新构建模块：dkms status"),
            docker=Text("modprobe nvidia on the host; start with docker run --gpus all …",
                        "在宿主机执行 modprobe nvidia；启动时使用 docker run --gpus all …"),
            kubernetes=Text("look at the driver pod of this node (nvidia-driver-daemonset)",
                            "检查本节点的驱动 Pod（nvidia-driver-daemonset）"),
        )  # fmt: skip
    return _XID
