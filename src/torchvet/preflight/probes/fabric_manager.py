"""NVSwitch machines whose GPUs have not joined the fabric."""

from __future__ import annotations

from torchvet.findings import Text

from .. import nvidia
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="fabric-manager",
    area="gpu",
    summary=Text("GPUs have joined the NVSwitch fabric", "GPU 已加入 NVSwitch 互联"),
    seconds=20,
)

FIELDS = ("index", "fabric.state", "fabric.status")


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    smi = nvidia.ask(host)
    if len(smi.gpus) < 2:
        return None
    switches = any(n.startswith("nvidia-nvswitch") for n in host.list("/dev"))
    rows = nvidia.table(host, "query-gpu", FIELDS)
    fix = Text("systemctl restart nvidia-fabricmanager on the host; its version must be that of the driver",
               "在宿主机执行 systemctl restart nvidia-fabricmanager；其版本必须与驱动一致")  # fmt: skip
    if rows is None:
        return _by_process(host, fix) if switches else None
    states = {r["index"]: (r["fabric.state"], r["fabric.status"]) for r in rows}
    joined = {
        i for i, (state, status) in states.items() if state == "Completed" and status in ("Success", "N/A", "[N/A]")
    }
    asked = {i for i, (state, _) in states.items() if state.strip("[]") not in ("N/A", "Not Supported", "")}
    if not asked:
        return _by_process(host, fix) if switches else None
    if asked == joined:
        return PROBE.ok(
            len(joined), len(asked), Text("{n} GPUs have joined the fabric", "{n} 个 GPU 已加入互联", n=len(joined))
        )
    bad = sorted(asked - joined)
    return PROBE.fail(
        {i: " / ".join(states[i]) for i in bad}, "Completed / Success",
        Text("GPU {gpus} has not joined the NVSwitch fabric ({state}): CUDA will not start on it",
             "GPU {gpus} 未加入 NVSwitch 互联（{state}）：其上无法启动 CUDA",
             gpus=", ".join(bad), state=" / ".join(states[bad[0]])),
        fix,
    )  # fmt: skip


def _by_process(host: Host, fix: Text) -> Result | None:
    """Drivers before 535 do not tell the state: the daemon must run. In a container its process is not seen."""
    ran = host.run(["systemctl", "is-active", "nvidia-fabricmanager"], 4)
    state = ran.out.strip() if ran and not ran.timed_out else ""
    if state == "active":
        return PROBE.ok(state, "active", Text("nvidia-fabricmanager is active", "nvidia-fabricmanager 正在运行"))
    if state in ("inactive", "failed", "activating"):
        return PROBE.fail(
            state,
            "active",
            Text("nvidia-fabricmanager is {state}", "nvidia-fabricmanager 状态为 {state}", state=state),
            fix,
        )
    return PROBE.unknown(
        Text("whether nvidia-fabricmanager runs cannot be seen here", "此处无法得知 nvidia-fabricmanager 是否运行")
    )
