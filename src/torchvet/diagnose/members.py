"""Sets of ranks as text: "0-7", "0-56:8", "3,5,9". Ten thousand ranks with ten thousand members each stay small."""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 2_000_000


def ranges(ranks: Iterable[int]) -> str:
    """Sorted distinct ranks; runs with the same stride are one part, "first-last" or "first-last:stride"."""
    return _ranges(tuple(ranks))


@lru_cache(4096)
def _ranges(given: tuple[int, ...]) -> str:
    ranks = sorted(set(given))
    parts: list[str] = []
    at = 0
    while at < len(ranks):
        stop = at + 1
        if stop < len(ranks):
            stride = ranks[stop] - ranks[at]
            while stop + 1 < len(ranks) and ranks[stop + 1] - ranks[stop] == stride:
                stop += 1
            if stop - at >= 2 or stride == 1:
                parts.append(f"{ranks[at]}-{ranks[stop]}" + (f":{stride}" if stride > 1 else ""))
                at = stop + 1
                continue
        parts.append(str(ranks[at]))
        at += 1
    return ",".join(parts)


@lru_cache(4096)
def members(text: str) -> tuple[int, ...]:
    """The ranks of such a text, sorted; what is no such text gives none."""
    out: set[int] = set()
    for part in text.split(",") if text else ():
        span, _, stride = part.partition(":")
        first, dash, last = span.partition("-")
        try:
            low, high, step = int(first), int(last) if dash else int(first), int(stride or 1)
        except ValueError:
            return ()
        if step < 1 or (high - low) // step > MOST:
            return ()
        out.update(range(low, high + 1, step))
    return tuple(sorted(out))


def spoken(ranks: Iterable[int], most: int = 12) -> str:
    """For people: "0", "0 and 3", "0, 1 and 7", "0-6", "0-6, 9 and 11", with "…" when there are many parts."""
    parts = _ranges(tuple(ranks)).replace("-", "–").split(",")
    plain = [p.partition(":")[0] + (f" (every {p.partition(':')[2]}th)" if ":" in p else "") for p in parts]
    if len(plain) > most:
        return ", ".join(plain[:most]) + " …"
    return plain[0] if len(plain) == 1 else ", ".join(plain[:-1]) + " and " + plain[-1]
