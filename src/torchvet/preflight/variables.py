"""Environment variables of NCCL and torch.distributed: which exist, which are set, and by whom.

The names are a table (`variables.toml`). NCCL also reads files: $NCCL_CONF_FILE, or else ~/.nccl.conf, then
/etc/nccl.conf; what the environment has, they do not replace (nccl src/misc/param.cc).
"""

from __future__ import annotations

import os
import re

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .host import Host

_tables: dict[str, Any] = {}


def table(name: str) -> Any:
    """A table of variables.toml: "names", "renamed", "numbers", "leftovers", "debugging"."""
    if not _tables:
        import sys

        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        with open(os.path.join(os.path.dirname(__file__), "variables.toml"), "rb") as f:
            _tables.update(tomllib.load(f))
    return _tables[name]


class Setting:
    """A variable that is set: `origin` is "" for the environment, else the file that sets it."""

    __slots__ = ("name", "origin", "value")

    def __init__(self, name: str, value: str, origin: str = "") -> None:
        self.name = name
        self.value = value
        self.origin = origin

    @property
    def shown(self) -> str:
        """ "NCCL_DEBUG=INFO", with the file where one sets it."""
        value = self.value if len(self.value) <= 60 else self.value[:57] + "..."
        return f"{self.name}={value}" + (f" ({self.origin})" if self.origin else "")


def conf_files(host: Host) -> list[str]:
    """The files that NCCL would read, whether they exist or not, the strongest first."""
    own = host.env.get("NCCL_CONF_FILE")
    home = host.env.get("HOME")
    first = own or (f"{home}/.nccl.conf" if home else "")
    return [f for f in (first, "/etc/nccl.conf") if f]


def settings(host: Host) -> dict[str, Setting]:
    """All variables of the environment, and those that NCCL's files add."""
    out = {name: Setting(name, value) for name, value in host.env.items()}
    for path in conf_files(host):
        for line in (host.read(path) or "").splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#") and name not in out:
                out[name] = Setting(name, value, path)
    return out


def matching(host: Host, rows: dict[str, Any]) -> list[tuple[Setting, Any]]:
    """Set variables whose value a table of `leftovers` or `debugging` objects to."""
    out = []
    known = settings(host)
    for name, row in rows.items():
        setting = known.get(name)
        value = setting.value.strip().lower() if setting else ""
        if setting is None or not value:
            continue
        if value in row["only"] if "only" in row else value not in row.get("unless", ()):
            out.append((setting, row))
    return out


def tuned(host: Host) -> bool:
    """Has the operator of a cloud set NCCL up for its network? Then tuning values are meant."""
    return any(name.startswith(tuple(table("names")["tuned_by"])) for name in settings(host))


def removal(setting: Setting) -> Text:
    """How to take a setting away, where it was made."""
    if setting.origin:
        return Text("remove it from {path}", "从 {path} 中删除", path=setting.origin)
    return Text("unset {name}", "取消设置 {name}", name=setting.name)


def integer(setting: Setting | None) -> int | None:
    """The number as NCCL reads it (strtoll with base 0: leading digits, hexadecimal, octal); None: unset or empty."""
    if setting is None or not setting.value:
        return None
    found = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)", setting.value)
    if not found:
        return 0
    word = found[2]
    base = 16 if word[:2].lower() == "0x" else 8 if word[0] == "0" and len(word) > 1 else 10
    return int(word, base) * (-1 if found[1] == "-" else 1)


def misspelt(names: Iterable[str]) -> list[tuple[str, str]]:
    """(name, the name that was meant) for names that nothing reads and that are near to one that is read."""
    rows = table("names")
    known = {*rows["nccl"], *rows["nccl_older"], *rows["torch"], *rows["gloo"], *table("renamed")}
    prefixes = tuple(rows["elsewhere_prefixes"])
    elsewhere = set(rows["elsewhere"])
    out = []
    for name in sorted(names):
        if name in known or name in elsewhere or name.startswith(prefixes) or not _ours(name):
            continue
        meant = _nearest(name, known)
        if meant:
            out.append((name, meant))
    return out


def _ours(name: str) -> bool:
    """Is this meant for NCCL, torch.distributed or gloo? Other libraries have names that differ in one letter
    (RCCL_DEBUG, HCCL_DEBUG), they are none of ours; a swapped or missing letter is (NCLL_DEBUG, NCL_DEBUG)."""
    first = name.upper().replace("-", "_").split("_")
    if len(first) < 2:
        return False
    if first[0] in ("NCCL", "NCLL", "NNCL", "NCL", "NCCCL", "NNCCL", "GLOO"):
        return True
    return first[0] in ("TORCH", "TROCH", "PYTORCH") and first[1] in (
        "NCCL",
        "NCLL",
        "NCL",
        "FR",
        "DISTRIBUTED",
        "GLOO",
    )


def _nearest(name: str, known: set[str]) -> str:
    upper = name.upper().replace("-", "_")
    if upper in known:
        return upper
    bare = re.sub(r"^(PYTORCH|TROCH|TORCH)_(?=(NCCL|NCLL|NCL)_)", "", upper)
    for swapped in ("TORCH_" + bare, bare, re.sub(r"^PYTORCH_", "TORCH_", upper)):  # NCCL_HEARTBEAT_TIMEOUT_SEC
        if swapped in known:
            return swapped
    best, least = "", 99
    for other in sorted(known):
        allowed = 1 if len(other) < 12 else 2 if len(other) < 24 else 3
        if abs(len(other) - len(upper)) <= allowed:
            d = _distance(upper, other, allowed)
            if d < least and d <= allowed and not _sense(upper, other):
                best, least = other, d
    if best:
        return best
    words = set(upper.split("_"))
    near = [k for k in known if len(k.split("_")) == len(words) + 1 and words < set(k.split("_"))]
    return near[0] if len(near) == 1 and len(words) > 1 else ""


def _sense(a: str, b: str) -> bool:
    """Do two near names differ only in numbers (NCCL_L1_X, NCCL_L2_X) or in a word that means something else (MAX, MIN;
    ENABLE, DISABLE)? Then one may be the name of another release, not a slip."""
    first, second = a.split("_"), b.split("_")
    if len(first) != len(second):
        return False
    pairs = {frozenset(("MAX", "MIN")), frozenset(("IB", "LL")), frozenset(("TX", "RX")), frozenset(("SEND", "RECV"))}
    differ = [(x, y) for x, y in zip(first, second) if x != y]
    return all(frozenset(p) in pairs or any(c.isdigit() for c in p[0] + p[1]) for p in differ)


def _distance(a: str, b: str, most: int) -> int:
    """Edits (insert, delete, replace, swap of neighbours) between two names; more than `most` is `most` + 1."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
