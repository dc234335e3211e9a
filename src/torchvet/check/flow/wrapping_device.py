"""On which kind of device an expression such as `device` or `local_rank` puts something, and collectives on the current
GPU where no rank has made its GPU the current one: all of them use GPU 0.

An object collective sends its bytes through the current device of NCCL's ranks; a tensor on plain "cuda" lies there.
"""

from __future__ import annotations

from ... import knowledge
from ..program.program import callee_name
from .settings_origins import Frame, Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr, Function, Module
    from .wrapping_process import Processes

HINTS = ("device", "gpu", "cuda", "rank")


def device_kind(e: Expr, frame: Frame, origins: Origins) -> str:
    """ "gpu", "cpu", "device" (a device, unknown which), "maybe" (not known to be one), "" (no device)."""
    kinds = {end_kind(o.e, o.frame, origins) for o in origins.of(e, frame)}
    if "gpu" in kinds:
        return "gpu"
    if kinds == {"cpu"}:
        return "cpu"
    if "device" in kinds or "cpu" in kinds:
        return "device"
    if e[0] in ("name", "attr") and any(h in e[-1].lower() for h in HINTS):
        return "gpu"
    return "maybe" if "maybe" in kinds or not kinds else ""


def end_kind(e: Expr, frame: Frame, origins: Origins) -> str:
    kind = e[0]
    if kind == "const":
        if isinstance(e[2], bool) or e[2] is None:
            return ""
        if isinstance(e[2], int):
            return "gpu"
        if isinstance(e[2], str):
            return (
                "cpu"
                if e[2].startswith("cpu")
                else "gpu"
                if e[2].partition(":")[0] in knowledge.loader("accelerators")
                else ""
            )
        return ""
    if kind == "fstr":
        return "gpu"
    if kind == "call":
        name = origins.program.qualified(e[2], origins.scope(frame)) or ""
        if name == "torch.device":
            given = e[3] or tuple(v for k, v in e[4] if k in ("device", "type"))
            return device_kind(given[0], frame, origins) or "device" if given else "device"
        row = knowledge.api(name) if name else None
        if row is not None and row.kind in ("rank_source", "local_rank_source"):
            return "gpu"
        if name in ("torch.cuda.current_device", "builtins.int") or name.startswith("os."):
            return "gpu" if name != "builtins.int" or not e[3] else device_kind(e[3][0], frame, origins)
    if kind == "sub" and e[2][0] == "attr" and e[2][3] == "environ":
        return "gpu"
    if kind == "attr":
        if e[3] == "device":
            return "device"
        name = origins.program.qualified(e, origins.scope(frame)) or ""
        return "" if name.startswith("torch.") or e[3] == "dtype" else "maybe"
    return "maybe"


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
