"""Which ends are crashes, and how they are told."""

from __future__ import annotations

from torchvet.findings import Text

from ..absence import said_nothing
from ..model import STRONG, WEAK
from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


CRASHES = {
    -11: "segmentation fault",
    -4: "illegal instruction",
    -8: "floating point exception",
    -7: "bus error",
    -6: "abort",
    139: "segmentation fault",
    132: "illegal instruction",
    136: "floating point exception",
    135: "bus error",
    134: "abort",
}


PROGRAM = {
    "illegal access": "illegal memory access",
    "assert": "device assertion",
    "launch failure": "launch failure",
    "cublas failed": "failure of cuBLAS",
    "cudnn failed": "failure of cuDNN",
}


THROWN_BY_TORCH = ("c10", "gloo", "std::runtime_error", "std::system_error", "std::bad_alloc")
"""Types that PyTorch and gloo throw in threads of their own when a peer is gone, and what host-oom explains."""


PROGRAM_XIDS = {13, 31, 43, 45, 69}


def crash_lines(case: Case, rank: int) -> list[Fact]:
    return [f for f in case.of("crash", "segfault", rank=rank) if f.quality != WEAK]


def own_abort(case: Case, rank: int) -> bool:
    """SIGABRT is also the end that PyTorch gives a rank that waited too long, lost a peer or found its GPU gone.

    Words of a crash make it one, or that nobody says anything: faulthandler's "Aborted" is the signal again.
    """
    said = case.of("crash", rank=rank)
    if any(f.quality == STRONG and f.values.get("what") != "Aborted" for f in said):
        return True
    if case.of("lost", "watchdog", "async-error", "heartbeat", "dump-signal", "size", "nccl-error", rank=rank):
        return False
    if any(f.values.get("current") and f.values.get("frames") for f in said):
        return True  # a thread of Python's: those that PyTorch and gloo end a process from run no Python
    if not said and said_nothing(case, rank, case.ranks[rank].code):
        # PyTorch and gloo say why they abort, and so do the ranks around it
        return not case.of("watchdog", "heartbeat", "size", "nccl-error", "dump-signal")
    return any(
        "terminate called after" in f.text and not str(f.values.get("what")).startswith(THROWN_BY_TORCH) for f in said
    )


def device_broken(case: Case, rank: int | None) -> bool:
    """A record of the kernel says that the device itself failed."""
    return any(f.values.get("number") not in PROGRAM_XIDS and (f.rank == rank or rank is None) for f in case.of("xid"))


def is_strong(facts: list[Fact]) -> bool:
    return any(f.kind in ("crash", "segfault") and f.quality == STRONG for f in facts)


def summarised(sub: str, ranks: list[int], site: tuple[str, int] | None, device: bool, facts: list[Fact]) -> Text:
    at = Text(" at {path}:{line}", "（{path}:{line}）", path=site[0], line=site[1]) if site else Text("")
    if device:
        return Text(
            "{who}: {sub} on the GPU, reported{at}",
            "{who}：GPU 上发生 {sub}，报告位置{at}",
            who=named(ranks),
            sub=sub,
            at=at,
        )
    library = next((f.values["library"] for f in facts if f.values.get("library")), "")
    inside = Text(" in {library}", "（{library}）", library=library) if library else Text("")
    worker = bool(facts) and all(f.kind == "worker" or f.values.get("what") == "worker" for f in facts)
    a = "an" if sub[:1] in "aeiou" else "a"
    return Text(
        "{worker}{who} ended by {a} {sub}{inside}{at}",
        "{worker}{who} 因 {sub} 结束{inside}{at}",
        worker=Text("a DataLoader worker of ", "DataLoader worker，属于 ") if worker else Text(""),
        who=named(ranks),
        a=a,
        sub=sub,
        inside=inside,
        at=at,
    )


def ended_when_closed(case: Case, rank: int) -> bool:
    """Whether a rank crashed only when the launcher closed it: others had waited for it in vain before. A crash closes
    the connections of a rank, so that its peers lose it at once."""
    waits = case.waits
    if not case.of("closing", rank=rank) or (rank not in waits.roots and (rank in waits.dumps or rank in waits.places)):
        return False
    waiters = (
        {r for w in waits.waiting_for(rank) for r in w.waiters} if rank in waits.roots else set(case.ranks) - {rank}
    )
    late = {f.rank for f in case.of("lost") if f.values.get("how") == "timeout"} | {f.rank for f in case.of("watchdog")}
    return bool(waiters & late)
