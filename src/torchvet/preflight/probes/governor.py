"""Do the CPUs run at full speed?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

DYNAMIC = ("intel_pstate", "amd-pstate-epp", "intel_cpufreq")
"""Drivers under which "powersave" still goes to full speed under load (kernel, admin-guide/pm)."""

PROBE = Probe(
    name="governor",
    area="cpu",
    summary=Text("the CPUs are not held at their lowest speed", "CPU 未被限制在最低频率"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    folder = "/sys/devices/system/cpu/cpu0/cpufreq"
    governor = (host.read(f"{folder}/scaling_governor") or "").strip()
    driver = (host.read(f"{folder}/scaling_driver") or "").strip()
    if not governor:
        return None
    said = Text(
        "CPU governor {governor} ({driver})",
        "CPU 调速器 {governor}（{driver}）",
        governor=governor,
        driver=driver or "?",
    )
    if governor == "powersave" and driver and driver not in DYNAMIC:
        text = Text("{x}: the CPUs stay at their lowest speed", "{x}：CPU 保持最低频率", x=said)
        return PROBE.warn(
            governor,
            "performance",
            text,
            Text(
                "cpupower frequency-set -g performance on the node",
                "在节点上执行 cpupower frequency-set -g performance",
            ),
        )
    return PROBE.ok(governor, None, said)
