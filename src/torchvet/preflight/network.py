"""Network interfaces and RDMA ports from sysfs and procfs, and the rules by which NCCL selects them by name."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .host import Host

NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"


class Interface:
    """`up`: administratively up with a link; `routed`: has an IPv4 network or a global IPv6 address; `addressed`: has
    any address, also a link-local one, which is enough for NCCL (None: not known)."""

    __slots__ = ("addressed", "index", "loopback", "name", "routed", "up")

    def __init__(
        self, name: str, up: bool | None, loopback: bool, routed: bool | None, addressed: bool | None, index: int
    ) -> None:
        self.name = name
        self.up = up
        self.loopback = loopback
        self.routed = routed
        self.addressed = addressed
        self.index = index


def interfaces(host: Host) -> list[Interface]:
    """Interfaces of this network namespace in the order of their index, as getifaddrs has them."""
    routes = host.read("/proc/net/route")
    inet6 = host.read("/proc/net/if_inet6")
    routed4 = {line.split()[0] for line in (routes or "").splitlines()[1:] if line.split()}
    rows6 = [line.split() for line in (inet6 or "").splitlines()]
    global6 = {r[5] for r in rows6 if len(r) == 6 and r[3] == "00"}
    any6 = {r[5] for r in rows6 if len(r) == 6}
    out = []
    for name in host.list(NET):
        flags = host.read(f"{NET}/{name}/flags")
        if flags is None:
            continue
        state = (host.read(f"{NET}/{name}/operstate") or "").strip()
        carrier = (host.read(f"{NET}/{name}/carrier") or "").strip()
        bits = int(flags, 16) if re.fullmatch(r"\s*0x[0-9a-fA-F]+\s*", flags) else 0
        up = bool(bits & 1) and state not in ("down", "lowerlayerdown", "notpresent", "dormant") and carrier != "0"
        loop = bool(bits & 8)
        known = routes is not None or inet6 is not None
        routed = loop or name in routed4 or name in global6 if known else None
        addressed = routed or name in any6 if known else None
        index = host.read(f"{NET}/{name}/ifindex")
        out.append(Interface(name, up, loop, routed, addressed, int(index) if index and index.strip().isdigit() else 0))
    return sorted(out, key=lambda i: (i.index, i.name))


def selected(value: str, names: Iterable[str]) -> list[str]:
    """The names that a value of NCCL_SOCKET_IFNAME or NCCL_IB_HCA selects: a list of prefixes; `=` before the list:
    of whole names; `^`: all but those (nccl src/misc/utils.cc, matchIfList). Ports after `:` are left out here."""
    exclude = value.startswith("^")
    value = value[1:] if exclude else value
    exact = value.startswith("=")
    value = value[1:] if exact else value
    wanted = [w.split(":")[0] for w in value.split(",") if w.split(":")[0]]
    hit = [n for n in names if not wanted or any(n == w if exact else n.startswith(w) for w in wanted)]
    return [n for n in names if n not in hit] if exclude else hit


def automatic(found: list[Interface]) -> list[Interface]:
    """What NCCL takes when NCCL_SOCKET_IFNAME is not set: all `ib*`; else all but docker*, lo*, virbr*; else docker*;
    else lo* (nccl src/misc/socket.cc, findInterfaces)."""
    usable = [i for i in found if i.up and i.addressed is not False]
    for rule in ("ib", "^docker,lo,virbr", "docker", "lo"):
        names = selected(rule, [i.name for i in usable])
        if names:
            return [i for i in usable if i.name in names]
    return []


class Port:
    """A port of an RDMA card: `card` "mlx5_0", `number`, `state` "ACTIVE", `physical` "LinkUp", `rate` in Gb/s or None,
    `layer` "InfiniBand" or "Ethernet", `counters` name -> value."""

    __slots__ = ("card", "counters", "layer", "number", "physical", "rate", "state")

    def __init__(
        self,
        card: str,
        number: str,
        state: str,
        physical: str,
        rate: float | None,
        layer: str,
        counters: dict[str, int],
    ) -> None:
        self.card = card
        self.number = number
        self.state = state
        self.physical = physical
        self.rate = rate
        self.layer = layer
        self.counters = counters

    @property
    def label(self) -> str:
        return f"{self.card} port {self.number}" if self.number != "1" else self.card

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


COUNTERS = ("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors")


def rdma_ports(host: Host) -> list[Port]:
    """All ports of /sys/class/infiniband; empty without such cards."""
    out = []
    for card in host.list(RDMA):
        for number in host.list(f"{RDMA}/{card}/ports"):
            base = f"{RDMA}/{card}/ports/{number}/"
            state = host.read(base + "state")
            if state is None:
                continue
            rate = re.match(r"\s*(\d+(?:\.\d+)?)\s*Gb/sec", host.read(base + "rate") or "")
            counters = {}
            for name in COUNTERS:
                text = (host.read(base + "counters/" + name) or "").strip()
                if text.isdigit():
                    counters[name] = int(text)
            physical = (host.read(base + "phys_state") or "").partition(":")[2].strip()
            layer = (host.read(base + "link_layer") or "").strip()
            number_of = float(rate[1]) if rate else None
            out.append(Port(card, number, state.partition(":")[2].strip(), physical, number_of, layer, counters))
    return out
