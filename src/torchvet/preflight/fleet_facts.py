"""What a rank tells rank 0: of itself at once, of its node after the probes."""

from __future__ import annotations

import os

from . import amd, nvidia
from .node import NodeReport
from .probe import PASS
from .quantity import cpu_text
from .ranks import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .host import Host

COMPARED = (
    "CUDA_",
    "CUBLAS_",
    "GLOO_",
    "HIP_",
    "HSA_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MKL_",
    "NCCL_",
    "NVTE_",
    "OMP_",
    "PYTHONHASHSEED",
    "PYTORCH_",
    "RCCL_",
    "TORCH_",
    "UCX_",
)
"""Beginnings of variables that should be the same on every rank."""
OWN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NCCL_HOSTID", "TORCHELASTIC_", "NCCL_IB_HCA", "NCCL_TOPO_FILE")
"""Those of them that differ for good reasons."""
SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "PSK")


def of_rank(host: Host, place: Launch, address: str, port: int) -> dict[str, Any]:
    """The message "rank": numbers, host, environment, limits, CPUs, GPUs that are left visible, the listening port."""
    env = {**host.env, **{k: v for k, v in os.environ.items() if k.startswith(COMPARED) and k not in host.env}}
    cpus = host.cpus()
    versions = host.versions()
    return {
        "kind": "rank", "rank": place.rank, "world": place.world, "local_rank": place.local_rank,
        "local_world": place.local_world, "launcher": place.launcher,
        "host": versions.get("hostname", "?"), "boot_id": versions.get("boot_id", ""),
        "env": {k: v[:400] for k, v in env.items() if _compared(k)},
        "limits": {n: x[0] for n in ("MEMLOCK", "NOFILE") if (x := host.limit(n))},
        "cpus": cpu_text(cpus) if cpus else "", "all_cpus": os.cpu_count() or 0,
        "visible": env.get("CUDA_VISIBLE_DEVICES", env.get("HIP_VISIBLE_DEVICES")),
        "address": address, "port": port,
    }  # fmt: skip


def _compared(name: str) -> bool:
    return name.startswith(COMPARED) and not name.startswith(OWN) and not any(s in name for s in SECRET)


def of_node(host: Host, place: Launch, report: NodeReport, clock: tuple[float, float] | None) -> dict[str, Any]:
    """The message "node": versions, code, GPUs, clock, what the probes said; of probes that passed the names only."""
    packed = report.pack()
    packed["results"] = [r.pack() for r in report.results if r.verdict != PASS]
    smi = nvidia.ask(host)
    rocm = amd.ask(host) if not smi.gpus else None
    return {
        "kind": "node", "rank": place.rank, "host": report.node.get("hostname", "?"), "report": packed,
        "passed": sorted({r.probe for r in report.results if r.verdict == PASS}),
        "driver": smi.driver or (rocm.driver if rocm else ""), "gpus": [g.name for g in smi.gpus],
        "gpu_count": len(smi.gpus) or (rocm.count if rocm else None), "code": code(host),
        "clock": list(clock) if clock else None,
    }  # fmt: skip


def code(host: Host) -> str:
    """Commit and, where files are changed, a hash of the changes, for the folder that the job starts in; "" where it is
    no git work tree."""
    from hashlib import sha256

    # a git that is killed while it refreshes its index would leave index.lock behind
    git = ["git", "--no-optional-locks"]
    head = host.run([*git, "rev-parse", "--short=12", "HEAD"], 4)
    if head is None or not head.ok:
        return ""
    status = host.run([*git, "status", "--porcelain", "--untracked-files=no"], 8)
    if status is None or not status.ok or not status.out.strip():
        return head.out.strip()
    diff = host.run([*git, "diff", "HEAD"], 8)
    changes = (diff.out if diff is not None and diff.ok else status.out).encode()
    return f"{head.out.strip()} + changes {sha256(changes).hexdigest()[:8]}"
