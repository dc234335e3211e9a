"""The kernel log: lines with their age. Reading it needs a right (CAP_SYSLOG) that containers seldom have."""

from __future__ import annotations

import os
import re

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .host import Host


class Line:
    """`age` in seconds, None where the clock of the line is not known."""

    __slots__ = ("age", "text")

    def __init__(self, text: str, age: float | None) -> None:
        self.text = text
        self.age = age


def lines(host: Host) -> list[Line] | Text:
    """The log from /dev/kmsg, else from dmesg; a Text says why there is none."""
    uptime = re.match(r"(\d+(?:\.\d+)?)", host.read("/proc/uptime") or "")
    now = float(uptime[1]) if uptime else None
    text = host.read("/dev/kmsg")
    out = []
    if text:
        for row in text.splitlines():
            found = re.match(r"\d+,\d+,(\d+),[^;]*;(.*)", row)  # Documentation/ABI/testing/dev-kmsg
            if found:
                at = int(found[1]) / 1e6
                out.append(Line(found[2], max(0.0, now - at) if now is not None else None))
        if out:
            return out
    ran = host.run(["dmesg"])
    if ran is not None and ran.ok and ran.out.strip():
        for row in ran.out.splitlines():
            found = re.match(r"(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)", row)
            age = max(0.0, now - float(found[1])) if found and now is not None else None
            out.append(Line(found[2] if found else row, age))
        return out
    if host.why("/dev/kmsg") == "denied" or (ran is not None and "not permitted" in ran.err):
        return Text("this user may not read the kernel log", "当前用户无权读取内核日志")
    return Text("the kernel log cannot be read here", "此处无法读取内核日志")


_tables: dict[str, Any] = {}


def sentences(name: str) -> Any:
    """A table of this package that explains numbers of the log."""
    if name not in _tables:
        import sys

        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        with open(os.path.join(os.path.dirname(__file__), name), "rb") as f:
            _tables[name] = tomllib.load(f)
    return _tables[name]
