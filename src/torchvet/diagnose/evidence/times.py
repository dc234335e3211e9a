# ruff: noqa: E501
"""Times on log lines: full dates as seconds since 1970, dates without a year as seconds within the year."""

from __future__ import annotations

import re

_FULL = re.compile(rb"\b(\d{4})-(\d\d)-(\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
# c10: [E1129 12:55:31.804592473 File.cpp:1], months without a leading zero ([E810 03:04:11...); torchelastic: W1129 12:55:33.542000
_C10 = re.compile(rb"(?:^|\[)[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_MONTHS = {
    m: i
    for i, m in enumerate(
        (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"), 1
    )
}
_KERNEL = re.compile(rb"\[?[A-Z][a-z]{2} ([A-Z][a-z]{2})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\]?")
_SYSLOG = re.compile(rb"^([A-Z][a-z]{2})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)\b")


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (proleptic Gregorian)."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int, part: bytes | None) -> float | None:
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61 and 1970 <= year < 2200):
        return None
    fraction = float(b"0." + part) if part else 0.0
    return _days(year, month, day) * 86400.0 + hour * 3600 + minute * 60 + second + fraction


def _full(line: bytes) -> tuple[int, int, int, int, int, int, bytes | None] | None:
    """(year, month, day, hour, minute, second, fraction) of the first full date of a line."""
    found = _FULL.search(line[:400])
    if found:
        y, mo, d, h, mi, s = (int(x) for x in found.groups()[:6])
        return y, mo, d, h, mi, s, found.group(7)
    found = _KERNEL.search(line[:60])
    if found and found.group(1) in _MONTHS:
        d, h, mi, s, y = (int(x) for x in found.groups()[1:])
        return y, _MONTHS[found.group(1)], d, h, mi, s, None
    return None


def time_of(line: bytes) -> float | None:
    """Seconds since 1970 of the first full date of a line, read as UTC: clocks of logs rarely name their zone."""
    full = _full(line)
    return _seconds(*full) if full else None


def clock_of(line: bytes) -> float | None:
    """Seconds since the start of a (leap) year for stamps that have no year (c10, torchelastic, syslog), or with one."""
    found = _C10.search(line[:80])
    if found:
        mo, d, h, mi, s = (int(x) for x in found.groups()[:5])
        stamp = (mo, d, h, mi, s, found.group(6))
    elif (found := _SYSLOG.match(line)) and found.group(1) in _MONTHS:
        d, h, mi, s = (int(x) for x in found.groups()[1:])
        stamp = (_MONTHS[found.group(1)], d, h, mi, s, None)
    elif full := _full(line):
        stamp = full[1:]
    else:
        return None
    whole = _seconds(2024, *stamp)
    return None if whole is None else whole - _days(2024, 1, 1) * 86400
