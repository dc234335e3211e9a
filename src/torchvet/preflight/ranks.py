"""Which rank of how many this process is, from the variables that launchers set."""

from __future__ import annotations

import re

from .quantity import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TORCHRUN, PLAIN, SLURM, OPENMPI, MPI, KUBERNETES = "torchrun", "environment", "srun", "mpirun", "mpi", "kubernetes"


class Launch:
    """`launcher` is who set the variables; numbers are None where nobody says them. `names` are the variables that rank
    and world size come from."""

    __slots__ = ("launcher", "local_rank", "local_world", "names", "nodes", "rank", "world")

    def __init__(
        self,
        launcher: str,
        rank: int,
        world: int,
        local_rank: int | None,
        local_world: int | None,
        nodes: int | None,
        names: tuple[str, str],
    ) -> None:
        self.launcher = launcher
        self.rank = rank
        self.world = world
        self.local_rank = local_rank
        self.local_world = local_world
        self.nodes = nodes
        self.names = names

    @property
    def several_nodes(self) -> bool | None:
        """Does the job run on more than one node? None: not known."""
        if self.nodes is not None:
            return self.nodes > 1
        return self.world > self.local_world if self.local_world else None


_KINDS = (
    # launcher, rank, world, local rank, local world, nodes; the variables of torchrun come first: srun and mpirun may
    # have started it. Slurm's batch step has SLURM_PROCID=0 and no SLURM_STEP_NUM_TASKS: it is no rank.
    (PLAIN, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    (OPENMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    (SLURM, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_STEP_NUM_NODES"),
    (MPI, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""),
    (MPI, "PMIX_RANK", "PMIX_SIZE", "", "", ""),
    (KUBERNETES, "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", "", ""),
    (KUBERNETES, "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "", "", ""),
)  # fmt: skip


def launch(env: Mapping[str, str]) -> Launch | None:
    """This process's place, or None: no launcher's variables, or not all numbers."""
    for kind, rank, world, local_rank, local_world, nodes in _KINDS:
        r, w = whole(env.get(rank)), whole(env.get(world))
        if r is None or w is None or not 0 <= r < w:
            continue
        if kind == PLAIN and ("TORCHELASTIC_RUN_ID" in env or "TORCHELASTIC_RESTART_COUNT" in env):
            kind = TORCHRUN
        lr, lw, n = whole(env.get(local_rank)), whole(env.get(local_world)), whole(env.get(nodes))
        if kind == SLURM:
            lw = _slurm_tasks_here(env)
        if kind == KUBERNETES:
            lr, lw, n = 0, 1, w
        if kind == PLAIN and lr is None:
            lr = whole(env.get("SLURM_LOCALID"))
        return Launch(kind, r, w, lr, lw, n, (rank, world))
    return None


def _slurm_tasks_here(env: Mapping[str, str]) -> int | None:
    """SLURM_STEP_TASKS_PER_NODE is "4(x2),3": tasks of each node of the step, runs of equal ones counted."""
    counts: list[int] = []
    for part in env.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        found = re.fullmatch(r"(\d{1,5})(?:\(x(\d{1,5})\))?", part.strip())
        if not found:
            return None
        counts.extend([int(found[1])] * int(found[2] or 1))
    node = whole(env.get("SLURM_NODEID"))
    return counts[node] if node is not None and 0 <= node < len(counts) else None


def node_names(nodelist: str) -> list[str]:
    """Hosts of a Slurm list: "gpu-[01-03,7],login" is gpu-01, gpu-02, gpu-03, gpu-7, login; [] for something else."""
    out: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*", nodelist):
        if part:
            out.extend(_expand(part))
        if len(out) > 100_000:
            return []
    return out


def _expand(part: str) -> list[str]:
    found = re.match(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if not found:
        return [part]
    out = []
    for block in found[2].split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", block)
        if not ends:
            return []
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last - first > 100_000:
            return []
        for number in range(first, last + 1):
            out.extend(_expand(f"{found[1]}{number:0{len(ends[1])}d}{found[3]}"))
    return out
