"""Clocks that are held down now."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="gpu-throttling", area="gpu", summary=Text("GPU clocks that are held down", "被降频的 GPU"), seconds=20
)

REASONS = {
    0x8: Text("hardware slowdown", "硬件降频"),
    0x20: Text("software thermal slowdown", "软件温控降频"),
    0x40: Text("hardware thermal slowdown", "硬件温控降频"),
    0x80: Text("power brake", "功率制动"),
}
"""Bits of nvmlClocksEventReasons that slow a job down (Azure's list); idle, power cap and clocks set by hand do not."""


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    out, known = [], 0
    for gpu in nvidia.ask(host).gpus:
        mask = gpu.number("clocks_event_reasons.active")
        if mask is None:
            continue
        known += 1
        bits = [text for bit, text in REASONS.items() if int(mask) & bit]
        if bits:
            reasons = bits[0]
            for more in bits[1:]:
                reasons = Text("{a}, {b}", "{a}、{b}", a=reasons, b=more)
            heat = gpu.number("temperature.gpu")
            said = Text("GPU {i} runs slower: {reasons}{heat}", "GPU {i} 正在降频：{reasons}{heat}",
                 i=gpu.index, reasons=reasons,
                        heat=Text(" (at {t} °C)", "（{t} °C）", t=int(heat)) if heat else Text(""))  # fmt: skip
            out.append(PROBE.warn(f"{int(mask):#x}", "0x0", said, Text(
                "look at cooling and power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                "检查散热与供电：nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER")))  # fmt: skip
    if not known:
        return None
    return out or PROBE.ok("0x0", "0x0", Text("no GPU is held down", "没有 GPU 被降频"))
