"""Numbers with units: read from options and system files, written for people."""

from __future__ import annotations

import re

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_BLOCK = re.compile(r"\d{1,6}(?:-\d{1,6})?", re.ASCII)


def parse_size(text: str) -> int | None:
    """Bytes of "31MB" (powers of 1000), "2.4GiB", "4G" (powers of 1000), "65536"; None for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        return None
    number, prefix, binary, _ = found.groups()
    factor = UNITS[prefix.lower()]
    if binary:
        if not prefix:
            return None
        factor = 1 << (10 * (1 + "kmgt".index(prefix.lower())))
    return round(float(number) * factor)


def size(n: float) -> str:
    """ "64 MiB", "2.4 GiB": powers of 1024, three digits at most where there is a fraction."""
    if n < 0:
        return "-" + size(-n)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            break
        n /= 1024
    if unit == "bytes" or n >= 100 or n == int(n):
        return f"{n:.0f} {unit}"
    return f"{n:.1f} {unit}".replace(".0 ", " ")


def limit_text(n: int) -> str:
    """A resource limit in bytes; -1 is unlimited."""
    return "unlimited" if n < 0 else size(n)


def round_up(n: int) -> str:
    """A size to ask for, as container tools write it: at least `n`, whole gibibytes ("4g"); below 1 GiB "1g"."""
    return f"{max(1, -(-int(n) // 1024**3))}g"


def whole(text: str | None) -> int | None:
    """The whole number that a system file holds, or None: absent, garbage, "max", or out of every range."""
    if text is None:
        return None
    word = text.strip()
    if not word or len(word) > 20 or not word.isascii():
        return None
    digits = word[1:] if word[0] == "-" else word
    return int(word) if digits.isdigit() else None


def cpu_list(text: str | None) -> frozenset[int] | None:
    """CPUs of "0-3,8,10-11"; None where the text is absent or something else."""
    if text is None:
        return None
    out: set[int] = set()
    for block in text.strip().split(","):
        block = block.strip()
        if not block:
            continue
        if not _BLOCK.fullmatch(block):
            return None
        first, _, last = block.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return frozenset(out)


def cpu_text(cpus: frozenset[int]) -> str:
    """The CPUs as a list of blocks: "0-3,8"."""
    blocks: list[str] = []
    row = sorted(cpus)
    start = 0
    for i in range(1, len(row) + 1):
        if i == len(row) or row[i] != row[i - 1] + 1:
            blocks.append(str(row[start]) if i - start == 1 else f"{row[start]}-{row[i - 1]}")
            start = i
    return ",".join(blocks)
