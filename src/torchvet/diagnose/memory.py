"""Memory that grew: what the series of all ranks say together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Case, Fact

GIB, MIB = 1 << 30, 1 << 20
_RISING = 0.6
"""Share of steps upward that a growing series has: warm-up and noise have less over many steps."""


@dataclass(slots=True)
class Growth:
    """Ranks whose memory rose in one context: bytes, of the rank that rose most, first, last and per step."""

    name: str
    context: str
    ranks: list[int]
    first: float
    last: float
    per_step: float
    facts: list[Fact]
    flat: list[int]  # ranks that told the same series and did not rise


def size(value: float) -> str:
    """ "12.3 GiB", "316 MiB" for people."""
    for unit, name in ((1 << 40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            number = value / unit
            return f"{number:.0f} {name}" if number >= 100 or number == int(number) else f"{number:.2f} {name}"
    return f"{value:.0f} B"


def exact(value: float) -> str:
    """Two decimals, as PyTorch prints sizes."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:.2f} {name}"
    return f"{value:.0f} B"


def rises(fact: Fact) -> bool:
    """Whether a series grows steadily: most steps upward, a fifth or 64 MiB more at the end, not levelling off."""
    v = fact.values
    points = v.get("points") or []
    first, last, count = float(v.get("first") or 0), float(v.get("last") or 0), int(v.get("count") or 0)
    if count < 4 or len(points) < 4 or last - first < max(64 * MIB, 0.05 * first):
        return False
    if float(v.get("rising") or 0) < _RISING and not _stairs(points):
        return False
    half = points[len(points) // 2][1]
    return bool(last - half > 0.15 * (last - first))


def _stairs(points: list[list[float]]) -> bool:
    """Rises that come in steps: no fall worth a tenth of the whole rise, and several levels."""
    total = points[-1][1] - points[0][1]
    falls = sum(max(0.0, a[1] - b[1]) for a, b in pairwise(points))
    return falls < 0.1 * total and len({p[1] for p in points}) > 4


def growths(case: Case, name: str) -> list[Growth]:
    """Growth of "rss" or "cuda", per context, the longest first."""
    rows: dict[str, list[Fact]] = {}
    for fact in case.of("series"):
        if fact.values.get("name") == name:
            rows.setdefault(str(fact.values.get("context")), []).append(fact)
    out = []
    for context, facts in rows.items():
        up = [f for f in facts if rises(f)]
        if not up:
            continue
        most = max(up, key=lambda f: f.values["last"] - f.values["first"])
        # a rank that rises by a fraction of what another one does is noise beside a leak
        least = 0.25 * (most.values["last"] - most.values["first"])
        up = [f for f in up if f.values["last"] - f.values["first"] >= least]
        flat = [f.rank for f in facts if f not in up and f.rank is not None]
        out.append(
            Growth(
                name,
                context,
                sorted({f.rank for f in up if f.rank is not None}),
                most.values["first"],
                most.values["last"],
                most.values["slope"],
                up,
                sorted(set(flat)),
            )
        )
    return sorted(out, key=lambda g: g.first - g.last)


def growth_text(growth: Growth) -> Text:
    what = Text("host memory", "主机内存") if growth.name == "rss" else Text("GPU memory", "GPU 显存")
    return Text(
        "{what} rose from {first} to {last} ({slope} per {context})",
        "{what}从 {first} 升至 {last}（每 {context} {slope}）",
        what=what,
        first=size(growth.first),
        last=size(growth.last),
        slope=size(max(growth.per_step, 0)),
        context=growth.context.split()[-1] if growth.context != "line" else "line",
    )
