"""What the driver wrote to the kernel log about its GPUs."""

from __future__ import annotations

import re
from typing import Any

from torchvet.findings import Text

from .. import nvidia
from ..kernel_log import Line, lines, sentences
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="xid-history", area="gpu", summary=Text("GPU errors in the kernel log", "内核日志中的 GPU 错误"), seconds=20
)

RECENT = 2 * 3600
"""Azure's window for errors that take a node out (azurehpc-health-checks, azure_gpu_xid.nhc)."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([\w:.-]+)[^)]*\): (\d+)\b")
_SXID = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+), (Fatal|Non-fatal)")


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    smi = nvidia.ask(host)
    if smi.state in ("absent", "none") and host.read("/proc/driver/nvidia/version") is None:
        return None
    log = lines(host)
    if isinstance(log, Text):
        return PROBE.unknown(
            log, Text("look outside the container: dmesg | grep -i xid", "在容器外查看：dmesg | grep -i xid")
        )
    table = sentences("xids.toml")
    last: dict[tuple[str, str], tuple[int, Line]] = {}
    for line in log:
        found = _XID.search(line.text)
        switch = _SXID.search(line.text)
        if found and int(found[2]) not in table["program"]:
            key = (found[1].lower(), found[2])
        elif switch and switch[3] == "Fatal":
            key = (switch[1].lower(), "SXid " + switch[2])
        else:
            continue
        last[key] = (last.get(key, (0, line))[0] + 1, line)
    out = [_result(table, bus, number, count, line) for (bus, number), (count, line) in last.items()]
    return out or PROBE.ok(0, 0, Text("no GPU error in the kernel log", "内核日志中没有 GPU 错误"))


def _result(table: dict[str, Any], bus: str, number: str, count: int, line: Line) -> Result:
    stop = table["stop"].get(number)
    what = (
        Text(*stop)
        if stop
        else Text("NVSwitch error", "NVSwitch 错误")
        if "SXid" in number
        else Text("GPU error", "GPU 错误")
    )
    name = number if "SXid" in number else f"Xid {number}"
    when = (
        Text(", {n} min ago", "，{n} 分钟前", n=round(line.age / 60))
        if line.age is not None and line.age < 2 * 86400
        else (Text(", {n} days ago", "，{n} 天前", n=round(line.age / 86400)) if line.age is not None else Text(""))
    )
    said = Text("{name} on {bus}: {what}{times}{when}", "{bus} 出现 {name}：{what}{times}{when}",
                name=name, bus=bus, what=what, when=when,
                times=Text(", {n} times", "，共 {n} 次", n=count) if count > 1 else Text(""))  # fmt: skip
    recent = line.age is None or line.age <= RECENT
    if (stop or "SXid" in number) and recent:
        return PROBE.fail(
            number,
            None,
            said,
            Text(
                "do not start here: reset the GPU or restart the node, then look again",
                "不要在此启动：重置 GPU 或重启节点后再检查",
            ),
        )
    return PROBE.warn(
        number,
        None,
        said,
        Text("look at NVIDIA's page of Xid errors for {name}", "查阅 NVIDIA Xid 文档中的 {name}", name=name),
    )
