"""What kind of machine this is, as far as hardware probes need to know."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host


def virtual(host: Host) -> bool | None:
    """Is this a virtual machine? None: not known."""
    text = host.read("/proc/cpuinfo")
    if text is None:
        return None
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return "hypervisor" in flags[1].split() if flags else None


def modules(host: Host) -> set[str] | None:
    """Names of loaded kernel modules; None: unknown."""
    text = host.read("/proc/modules")
    return None if text is None else {line.split()[0] for line in text.splitlines() if line.split()}


def kernel(host: Host) -> tuple[int, int] | None:
    """(5, 15) of "5.15.0-91-generic"."""
    found = re.match(r"(\d+)\.(\d+)", host.versions().get("kernel", ""))
    return (int(found[1]), int(found[2])) if found else None
