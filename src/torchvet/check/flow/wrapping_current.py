"""Collectives on the current GPU where no rank has made its GPU the current one: all of them use GPU 0.

An object collective sends its bytes through the current device of NCCL's ranks; a tensor on plain "cuda" lies there.
"""

from __future__ import annotations

from ... import knowledge
from ..program.program import callee_name
from .settings_origins import Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function, Module
    from .wrapping_process import Processes


def on_current_device(processes: Processes, group: list[Module]) -> tuple[Expr, Function] | None:
    """The first collective of a program that goes over the current device: of objects, or of a tensor on "cuda"."""
    table = knowledge.tensors("equal_shapes")
    names = {n for n in (*knowledge.names("collective"), *table) if n.startswith("torch.distributed.")}
    for call, f, name in processes.calls_of(names, group):
        row = knowledge.api(name)
        if row is not None and "object" in row.last and row.family == "c10d":
            # a group of its own may be one over the CPU
            if not any(k in ("group", "device", None) for k, _ in call[4]):
                return call, f
        else:
            at = table.get(name)
            if at is not None and at < len(call[3]) and plain_cuda(processes, call[3][at], f):
                return call, f
    return None


def plain_cuda(processes: Processes, e: Expr, f: Function) -> bool:
    """Whether a tensor was put on "cuda", no number."""
    ends = processes.origins.of(e, Frame(f))
    return bool(ends) and all(made_on_cuda(processes, o.e, o.frame) for o in ends)


def made_on_cuda(processes: Processes, e: Expr, frame: Frame) -> bool:
    if e[0] != "call":
        return False
    last = callee_name(e)
    if last == "cuda" and e[2][0] == "attr":
        return not e[3] and not e[4]
    if last == "to" and e[2][0] == "attr" and e[3]:
        return is_plain(processes, e[3][0], frame)
    name = processes.program.qualified(e[2], processes.origins.scope(frame)) or ""
    device = next((v for k, v in e[4] if k == "device"), None)
    return name.startswith("torch.") and device is not None and is_plain(processes, device, frame)


def is_plain(processes: Processes, e: Expr, frame: Frame) -> bool:
    """The device "cuda" without an index."""
    ends = processes.origins.of(e, frame)
    return bool(ends) and all(
        (o.e[0] == "const" and o.e[2] == "cuda")
        or (o.e[0] == "call" and callee_name(o.e) == "device" and len(o.e[3]) == 1 and o.e[3][0][-1] == "cuda")
        for o in ends
    )
