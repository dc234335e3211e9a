"""The flight recorder of torch.distributed: how far this rank is, and its dump, over the versions of torch."""

from __future__ import annotations

import json
import os

from .folder import write_json, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RENAMED = (2, 9)
"""Version of torch from which on the recorder's variables begin with TORCH_FR_ (the old names warn there)."""
SIZE = "2000"
"""Entries that the recorder keeps: the default of torch 2.13; up to 2.8 it is 0, which is off (FlightRecorder.hpp)."""


def switch_on(environ: Any, version: str, prefix: str) -> None:
    """Turn the recorder on in this process. What the user set stays. `prefix`: where dumps of NCCL's watchdog go."""
    size, old_size = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"
    place, old_place = "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    numbers = [int(x) if x.isdigit() else 0 for x in version.split("+")[0].split(".")[:2]]
    old = tuple(numbers) < RENAMED
    if size not in environ and old_size not in environ:
        environ[old_size if old else size] = SIZE
    # torchrun hands the value of its own, of the first attempt, to the ranks of a restart
    ours = os.path.dirname(os.path.dirname(prefix)) + os.sep
    known = environ.get(place) or environ.get(old_place)
    if not known or known.startswith(ours):
        environ[old_place if old else place] = prefix
    environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")


class Flight:
    """The recorder of this process. Every method may raise; the caller fences."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        native = getattr(torch._C, "_distributed_c10d", None)
        self.dump_json = getattr(native, "_dump_fr_trace_json", None) or getattr(native, "_dump_nccl_trace_json", None)
        self.dump_pickle = getattr(native, "_dump_fr_trace", None) or getattr(native, "_dump_nccl_trace", None)
        self.plain = getattr(native, "_dump_fr_trace", None) is not None  # takes positional switches

    @property
    def there(self) -> bool:
        return self.dump_pickle is not None

    def progress(self) -> dict[str, list[int]]:
        """{process group: [last enqueued, last completed]}; about 60 us, without the entries."""
        if self.dump_json is None:
            return {}
        status = json.loads(self.dump_json(False, False)).get("pg_status") or {}
        return {
            name: [int(s.get("last_enqueued_collective", -1)), int(s.get("last_completed_collective", -1))]
            for name, s in status.items()
        }

    def dump(self, folder: str, rank: int, name: str = "recorder") -> bool:
        """Write the dump: first without stacks (fast, works while another thread holds what stacks need), then with.
        True when a dump was written."""
        if self.dump_pickle is None:
            return False
        path = os.path.join(folder, f"{name}_rank_{rank}")
        write_json(os.path.join(folder, "groups.json"), self.groups())
        write_whole(path, self.dump_pickle(True, False, False), sync=True)
        write_whole(path, self.dump_pickle(True, True, False), sync=True)
        return True

    def groups(self) -> dict[str, Any]:
        """{group name: {"ranks", "description"}}: gloo dumps of torch 2.13 lack them."""
        out: dict[str, Any] = {}
        c10d = getattr(self.torch.distributed, "distributed_c10d", None)
        world = getattr(c10d, "_world", None)
        if world is None:
            return out
        for group, ranks in list(world.pg_group_ranks.items()):
            name = world.pg_names.get(group, "")
            out[name] = {"ranks": sorted(ranks), "description": getattr(group, "group_desc", "")}
        return out

    def timeout(self) -> float | None:
        """The time-out of the default process group in seconds."""
        dist = self.torch.distributed
        if not (dist.is_available() and dist.is_initialized()):
            return None
        group = dist.distributed_c10d._get_default_group()
        for kind in ("cuda", "cpu"):
            try:
                backend = group._get_backend(self.torch.device(kind))
                return float(backend.options._timeout.total_seconds())
            except Exception:
                continue
        return None
