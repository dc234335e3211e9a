# ruff: noqa: E501
"""Kernel logs: dmesg, journal, kern.log, kmsg. Lines of NVRM, the OOM killer, links, PCIe and crashed processes.

Grammar of Xid and SXid lines: NVIDIA's Xid catalogue; of oom-kill lines: mm/oom_kill.c; of mlx5 lines: the driver.
A file that lacks such lines is not proof that nothing happened: the ring buffer is short and containers cannot read it.
"""

from __future__ import annotations

import re

from ..model import Fact
from .lines import blocks, clean, words
from .patterns import Pattern, values_of
from .places import place_of
from .reader import Reader
from .times import clock_of, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

P = Pattern
KERNEL: tuple[Pattern, ...] = (
    P("oom-kill", b"oom-kill:constraint", rb"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w+).*?(?:oom_memcg=(?P<cgroup>[^,]*),)?(?:task_memcg=(?P<task_cgroup>[^,]*),)?task=(?P<process>[^,]+),pid=(?P<pid>\d+)", by="kernel"),
    P("oom-kill", b"ut of memory: Kill", rb"(?P<memcg>Memory cgroup )?[Oo]ut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<process>[^)]+)\)"
      rb"(?:.*?anon-rss:(?P<anon_kb>\d+)kB)?(?:.*?shmem-rss:(?P<shmem_kb>\d+)kB)?", by="kernel"),
    # daemons that end processes before the kernel has to; their lines stand in the same journal
    P("oom-kill", b"earlyoom[", rb"earlyoom\[\d+\]: sending SIG(?:TERM|KILL) to process (?P<pid>\d+)(?: uid \d+)? \"(?P<process>[^\"]*)\"(?:.*?VmRSS (?P<anon_mb>\d+) MiB)?", by="earlyoom", constraint="CONSTRAINT_NONE"),
    P("oom-kill", b"systemd-oomd[", rb"systemd-oomd\[\d+\]: Killed (?P<cgroup>\S+) due to memory (?:pressure|used)", by="systemd-oomd", constraint="CONSTRAINT_NONE"),
    P("oom-limit", b"memory: usage", rb"memory: usage (?P<usage_kb>\d+)kB, limit (?P<limit_kb>\d+)kB"),
    P("oom-invoked", b"invoked oom-killer", rb"(?P<process>\S+) invoked oom-killer"),
    P("xid", b"NVRM: Xid", rb"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)[^)]*\).*?: (?P<number>\d+)(?:, pid=(?P<pid>\d+|'?<?unknown>?'?))?(?:, name=(?P<process>[^,]*))?(?:,? ?(?P<message>.*))?"),
    P("xid", b"allen off the bus", rb"NVRM:.*?(?:GPU (?:at )?(?:PCI:)?(?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}[0-9a-fA-F:.]*))?.*?(?:has fallen off the bus|fallen off the bus and is not responding)", number=79),
    P("sxid", b"SXid", rb"nvidia-nvswitch\S*: SXid \((?:PCI:)?(?P<device>[^)]+)\): (?P<number>\d+)(?:, (?P<message>.*))?"),
    P("link", b"Link DOWN", rb"(?P<driver>mlx[45]_\w+|bnxt_\w+|irdma)? ?(?P<bus>[0-9a-fA-F:.]{7,}) ?(?P<device>[\w]+)?:.*?Port: (?P<port>\d+) Link DOWN", state="down"),
    P("link", b"Link ACTIVE", rb"(?P<driver>mlx[45]_\w+|bnxt_\w+|irdma)? ?(?P<bus>[0-9a-fA-F:.]{7,}) ?(?P<device>[\w]+)?:.*?Port: (?P<port>\d+) Link ACTIVE", state="up"),
    P("link", b"Link down", rb"(?P<driver>mlx[45]_\w+|bnxt_\w+|i40e|ixgbe|ice)\s+(?P<bus>[0-9a-fA-F:.]{7,})\s+(?P<device>[\w]+): (?:NIC )?Link (?:is )?[Dd]own", state="down"),
    P("link", b"Link up", rb"(?P<driver>mlx[45]_\w+|bnxt_\w+|i40e|ixgbe|ice)\s+(?P<bus>[0-9a-fA-F:.]{7,})\s+(?P<device>[\w]+): (?:NIC )?Link (?:is )?[Uu]p", state="up"),
    P("link", b"ink is not ready", rb"(?P<device>\w+): link is not ready", state="down"),
    P("link", b"NIC Link is Down", rb"(?P<driver>\w+) (?P<bus>[0-9a-fA-F:.]{7,}) (?P<device>\w+): NIC Link is Down", state="down"),
    P("link", b"lost carrier", rb"(?P<device>(?:ib|en|eth|bond|mlx)\w*): (?:lost carrier|Lost carrier)", state="down"),
    P("link", b"health_recovery", rb"(?P<driver>mlx5_core) (?P<bus>[0-9a-fA-F:.]{7,}):? ?(?P<device>mlx5_\d+)?.*health_recovery_work", state="down"),
    P("pcie", b"AER: ", rb"(?:pcieport|nvidia|mlx5_core) (?P<device>[0-9a-fA-F:.]+): AER: (?P<message>(?:Multiple )?(?P<severity>Uncorrect\w+(?: \((?:Non-)?Fatal\))?|Correct\w+) error.*)"),
    P("pcie", b"PCIe Bus Error", rb"(?P<device>[0-9a-fA-F:.]{7,}): (?:AER: )?PCIe Bus Error: severity=(?P<severity>[\w()\- ]+)"),
    P("hung-task", b"blocked for more than", rb"task (?P<process>[^:]+):(?P<pid>\d+) blocked for more than (?P<seconds>\d+) seconds"),
    P("lockup", b"soft lockup", rb"soft lockup - CPU#\d+ stuck for (?P<seconds>\d+)s! \[(?P<process>[^:]+):(?P<pid>\d+)\]"),
    P("segfault", b"segfault at", rb"(?P<process>[\w.\-/]+)\[(?P<pid>\d+)\]: segfault at \w+ ip \w+ sp \w+ error \d+(?: in (?P<library>[^\[\s]+))?"),
    P("segfault", b"general protection fault", rb"(?P<process>[\w.\-/]+)\[(?P<pid>\d+)\] general protection fault[^\n]*?(?: in (?P<library>[^\[\s]+))?"),
    P("segfault", b"trap invalid opcode", rb"(?P<process>[\w.\-/]+)\[(?P<pid>\d+)\]:? trap invalid opcode[^\n]*?(?: in (?P<library>[^\[\s]+))?", what="Illegal instruction"),
    P("io-error", b"I/O error", rb"(?:blk_update_request: )?I/O error, dev (?P<device>\w+)"),
    P("io-error", b"not responding", rb"nfs: server (?P<server>\S+) not responding"),
    P("ecc", b"ncorrectable ECC", rb"(?:EDAC|NVRM|mce)[^\n]*ncorrectable ECC"),
    P("mce", b"Hardware Error", rb"\[Hardware Error\]: (?P<message>.*)"),
    P("config", b"NVRM: API mismatch", rb"NVRM: API mismatch:.*?the client has the version (?P<version>[\d.]+)", what="driver-library"),
    P("version", b"this kernel module has the version", rb"this kernel module has the version (?P<kernel_driver>[\d.]+?)\.?(?:\s|$)"),
    P("version", b"NVRM: loading NVIDIA", rb"loading NVIDIA [\w ]*Kernel Module(?: for \S+)?\s+(?P<kernel_driver>[\d.]+)"),
)  # fmt: skip
KERNEL_BY_LITERAL: dict[bytes, list[Pattern]] = {}
for _row in KERNEL:
    KERNEL_BY_LITERAL.setdefault(_row.literal, []).append(_row)

# [Tue Oct 14 03:22:50 2025] (dmesg -T), [8311.204811] (dmesg), Aug 21 10:05:33 node-a kernel: (syslog), 2025-...T... node kernel: (journal)
_LINE = re.compile(
    rb"^(?:<\d+>)?(?:\[\s*\d+\.\d{3,9}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d+ [\d:]{8} \d{4}\]|(?:[A-Z][a-z]{2}\s+\d+ [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,+Z\-]+)\s+(?P<host>[\w.\-]+) kernel(?:\[\d+\])?:|\d+,\d+,\d+,-;)"
)
_FOLLOW_UP = re.compile(rb"^\s*(?:NVRM:|nvidia-)")


def kernel_fact(pattern: Pattern, line: bytes) -> dict[str, Any] | None:
    """The values of a kernel line, cleaned; None when the expression does not match."""
    found = pattern.regex.search(line[:2048])
    if not found:
        return None
    values = {**pattern.values, **values_of(found)}
    if not isinstance(values.get("pid", 0), int):
        del values["pid"]
    if pattern.kind == "oom-kill":
        values["rss"] = (values.pop("anon_kb", 0) + values.pop("shmem_kb", 0)) * 1024
        values["rss"] += values.pop("anon_mb", 0) << 20
        if pattern.literal == b"ut of memory: Kill":
            values["constraint"] = "CONSTRAINT_MEMCG" if values.pop("memcg", None) else "CONSTRAINT_NONE"
    for name in ("usage", "limit"):
        if f"{name}_kb" in values:
            values[name] = values.pop(f"{name}_kb") * 1024
    return values


def read(item: Item) -> Iterator[Fact]:
    """The facts of a kernel log; `node` where the file or the line names it."""
    place = place_of(item.name)
    order = 0
    counts: dict[str, int] = {}
    for number, lines in blocks(item):
        whole = b"\n".join(lines)
        active = [literal for literal in KERNEL_BY_LITERAL if literal in whole]
        if not active:
            continue
        for at, raw in enumerate(lines):
            hits = [literal for literal in active if literal in raw]
            if not hits:
                continue
            line = clean(raw)
            kinds = set()
            for pattern in (p for literal in hits for p in KERNEL_BY_LITERAL[literal]):
                values = kernel_fact(pattern, line) if pattern.kind not in kinds else None
                if values is None:
                    continue
                kinds.add(pattern.kind)
                counts[pattern.kind] = counts.get(pattern.kind, 0) + 1
                if counts[pattern.kind] > 500:
                    continue
                head = _LINE.match(line)
                node = head.group("host").decode() if head and head.group("host") else place.node
                if node:
                    values["node"] = node
                clock = clock_of(line)
                if clock is not None:
                    values["clock"] = clock
                order += 1
                yield Fact(pattern.kind, item.name, number + at, None, words(line), time_of(line), order, values)
    yield Fact("kernel-log", item.name, 0, None, "", None, order + 1, {"node": place.node, "lines": number_of(item)})


def number_of(item: Item) -> int:
    return item.head.count(b"\n")


def sniff(item: Item) -> float:
    lines = item.head.split(b"\n")[:40]
    full = [line for line in lines if line.strip()]
    if not full:
        return 0.4 if re.match(r"(?i)(?:kernel|kern|dmesg|kmsg)", item.base) else 0.0
    hits = sum(1 for line in full if _LINE.match(line) or _FOLLOW_UP.match(line))
    if hits * 10 >= len(full) * 7:
        return 0.9
    return 0.6 if re.match(r"(?i)(?:kernel|kern\.|dmesg|kmsg)", item.base) else 0.0


READER = Reader("kernel-log", sniff, read)
