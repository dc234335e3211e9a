"""On which kind of device an expression such as `device` or `local_rank` puts something."""

from __future__ import annotations

from ... import knowledge
from .settings_origins import Frame, Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Expr

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
