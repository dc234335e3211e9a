"""Addresses that ranks were told or tried, and ranks that never came."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


def never_started(case: Case) -> list[int]:
    """Ranks that the others waited for at the start and of which nothing is left: no log, no environment, no end."""
    expected = max((int(f.values.get("expected") or 0) for f in case.of("rendezvous")), default=0)
    if not expected or expected > 65536 or not any(r.has for r in case.ranks.values()):
        return []
    present = {n for n, r in case.ranks.items() if r.has or r.pid is not None}
    gone = [r for r in range(expected) if r not in present]
    joined = max((int(f.values.get("joined") or 0) for f in case.of("rendezvous")), default=0)
    return gone if gone and len(gone) <= expected - joined else []


def odd_environments(case: Case) -> tuple[str, list[int], list[Fact]] | None:
    """("RANK" or "WORLD_SIZE", ranks, facts): processes that were given the number of another rank, or another size of
    the job than most."""
    facts = [f for f in case.of("env") if f.rank is not None]
    taken = {str(f.rank) for f in facts}
    twice = [f for f in facts if str(f.values.get("RANK", f.rank)) in taken - {str(f.rank)}]
    if twice and len(twice) < len(facts):
        return "RANK", sorted({f.rank for f in twice if f.rank is not None}), twice
    sizes: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.values.get("WORLD_SIZE"):
            sizes.setdefault(str(fact.values["WORLD_SIZE"]), []).append(fact)
    most = max(sizes.values(), key=len, default=[])
    odd = [f for row in sizes.values() if row is not most for f in row]
    if odd and 2 * len(most) > len(odd) + len(most):
        return "WORLD_SIZE", sorted({f.rank for f in odd if f.rank is not None}), odd
    return None


def had_joined(case: Case) -> bool:
    """The job had started: steps were told, or calls were made."""
    return any(r.step is not None for r in case.ranks.values()) or bool(case.of("watchdog", "call"))


def odd_addresses(case: Case, by: dict[str, list[Fact]]) -> tuple[list[int], str, str] | None:
    """(ranks, their address, that of the others): a minority was told, or tried, another address than the rest."""
    said: dict[int, str] = {}
    for fact in case.of("env"):
        if fact.rank is not None and fact.values.get("MASTER_ADDR"):
            said[fact.rank] = f"{fact.values['MASTER_ADDR']}:{fact.values.get('MASTER_PORT', '')}"
    tried = {
        f.rank: f"{f.values['host']}:{f.values.get('port', '')}"
        for f in by.get("connect", []) + by.get("refused", [])
        if f.rank is not None and f.values.get("host")
    }
    for rank, address in tried.items():
        if rank is not None:
            said.setdefault(rank, address)
    counts: dict[str, list[int]] = {}
    for rank, address in said.items():
        counts.setdefault(address, []).append(rank)
    if len(counts) < 2:
        return None
    # rank 0 hosts the store: its address is the right one
    right = next((a for a, ranks in counts.items() if 0 in ranks), max(counts, key=lambda a: len(counts[a])))
    odd = sorted(r for a, ranks in counts.items() if a != right for r in ranks)
    return odd, said[odd[0]], right
