"""Is reading the time fast?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

SLOW = ("hpet", "acpi_pm", "refined-jiffies", "jiffies", "pit")

PROBE = Probe(
    name="clock-source",
    area="cpu",
    summary=Text("reading the time is fast", "读取时间的开销很小"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    source = (host.read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "").strip()
    if not source:
        return None
    said = Text("the kernel's clock is {source}", "内核时钟源为 {source}", source=source)
    if source not in SLOW:
        return PROBE.ok(source, None, said)
    text = Text("{x}: each reading of the time is a slow access to a device, on all CPUs one at a time",
                "{x}：每次读取时间都要访问慢速设备，且各 CPU 互相等待", x=said)  # fmt: skip
    fix = Text("dmesg | grep -i tsc says why; tsc=reliable on the kernel command line where it is right",
               "dmesg | grep -i tsc 说明原因；无误后在内核命令行加 tsc=reliable")  # fmt: skip
    return PROBE.warn(source, "tsc", text, fix)
