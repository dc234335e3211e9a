"""AMD GPUs from sysfs: the driver lists them there, without a command that could hang."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host

NODES = "/sys/class/kfd/kfd/topology/nodes"


class Amd:
    """`count`: GPUs of the compute driver (None: its topology is not visible); `driver`: version of amdgpu, "inbox"
    for the one of the kernel; `device`: is /dev/kfd there; `usable`: may this user open it (None: unknown)."""

    __slots__ = ("count", "device", "driver", "usable")

    def __init__(self, count: int | None, driver: str, device: bool, usable: bool | None) -> None:
        self.count = count
        self.driver = driver
        self.device = device
        self.usable = usable


def ask(host: Host) -> Amd | None:
    """None where nothing of AMD's compute driver is."""
    device = host.exists("/dev/kfd")
    nodes = host.list(NODES)
    module = host.exists("/sys/module/amdgpu")
    if not device and not nodes:
        return None
    count: int | None = None
    for node in nodes:
        text = host.read(f"{NODES}/{node}/properties")
        if text is None:
            continue
        words = dict(line.split(None, 1) for line in text.splitlines() if len(line.split(None, 1)) == 2)
        count = (count or 0) + (words.get("simd_count", "0").strip() != "0")
    driver = (host.read("/sys/module/amdgpu/version") or "").strip() or ("inbox" if module else "")
    return Amd(count, driver, device, None)


def visible(host: Host, amd: Amd) -> int | None:
    """GPUs left by HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES (CUDA_VISIBLE_DEVICES is read by HIP too)."""
    count = amd.count
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        value = host.env.get(name)
        if value is not None and count is not None:
            count = min(count, len([w for w in value.split(",") if w.strip() not in ("", "-1")]))
    return count
