"""What is known of the job: its loaders, ranks, checkpoints. Verdicts are about this job, or say what they assume."""

from __future__ import annotations

import re

from torchvet.findings import Text

from .quantity import size, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host

PREFETCH = 2
"""`prefetch_factor` of a DataLoader with workers that sets none (torch/utils/data/dataloader.py)."""
PAGE = 4096
USUAL_WORKERS = 4
"""Workers per rank that are assumed where nothing is known and the host has GPUs (the usual advice is 4 to 8)."""

RANK_THREADS, WORKER_THREADS = 128, 4
"""Own estimate: threads of a rank (OpenMP, CUDA, NCCL, autograd, pin memory) and of a worker."""


class Loader:
    """A DataLoader of the job: workers, prefetch factor, bytes of a batch (None: unknown), and where it is made."""

    __slots__ = ("batch_bytes", "origin", "prefetch", "workers")

    def __init__(
        self, workers: int | None, prefetch: int | None = None, batch_bytes: int | None = None, origin: str = ""
    ) -> None:
        self.workers = workers
        self.prefetch = PREFETCH if prefetch is None else prefetch
        self.batch_bytes = batch_bytes
        self.origin = origin

    @property
    def batches(self) -> int:
        """Batches that can lie in shared memory at the same time, for one rank (measured: 13 cases, torch 2.13)."""
        return self.workers * self.prefetch + 2 if self.workers else 0

    @property
    def demand(self) -> int | None:
        """Bytes of shared memory for one rank."""
        if self.workers == 0:
            return 0
        if self.workers is None or self.batch_bytes is None:
            return None
        return self.batches * -(-self.batch_bytes // PAGE) * PAGE


def counted(ranks: int) -> Text:
    """ "1 rank", "8 ranks"."""
    return Text("1 rank", "1 个 rank") if ranks == 1 else Text("{n} ranks", "{n} 个 rank", n=ranks)


class Plan:
    """The job as far as it is known; None is unknown. `loaders` are alive at the same time: their demands add up.
    `origin` says where workers and batch come from ("--workers", "train.py:88")."""

    def __init__(
        self,
        workers: int | None = None,
        prefetch: int | None = None,
        batch_bytes: int | None = None,
        ranks_per_node: int | None = None,
        nodes: int | None = None,
        checkpoint_bytes: int | None = None,
        checkpoint_dir: str | None = None,
        data_dir: str | None = None,
        loaders: list[Loader] | None = None,
        origin: str = "",
    ) -> None:
        if loaders is None:
            loaders = []
            if workers is not None or batch_bytes is not None:
                loaders = [Loader(workers, prefetch, batch_bytes, origin)]
        self.loaders = loaders
        self.ranks_per_node = ranks_per_node
        self.nodes = nodes
        self.checkpoint_bytes = checkpoint_bytes
        self.checkpoint_dir = checkpoint_dir
        self.data_dir = data_dir

    # ------------------------------------------------------------------------------------------------------ loaders
    @property
    def workers(self) -> int | None:
        """Worker processes of one rank, all loaders together; None where no loader with a known number is known."""
        known = [x.workers for x in self.loaders if x.workers is not None]
        return sum(known) if known else None

    @property
    def busy_workers(self) -> int | None:
        """Worker processes of one rank that work at the same time: a job trains or evaluates, not both."""
        return max((x.workers for x in self.loaders if x.workers is not None), default=None)

    def workers_text(self) -> Text:
        """ "4 workers a rank (train.py:88)"."""
        n, places = self.workers or 0, [x.origin for x in self.loaders if x.workers and x.origin]
        said = Text("{n} workers a rank" if n > 1 else "{n} worker a rank", "每个 rank {n} 个 worker", n=n)
        return Text("{x} ({places})", "{x}（{places}）", x=said, places=", ".join(places)) if places else said

    def rank_demand(self) -> int | None:
        """Bytes of shared memory that the loaders of one rank need at most; None where it cannot be told."""
        demands = [x.demand for x in self.loaders]
        if not demands or None in demands:
            return None
        return sum(d for d in demands if d)

    def demand(self, host: Host) -> int | None:
        """Bytes for all ranks of this node."""
        one = self.rank_demand()
        return None if one is None else one * self.ranks(host)[0]

    def demand_text(self, host: Host) -> Text:
        """How the demand comes about: "8 ranks x (4 workers x 2 + 2) batches x 31 MiB (train.py:88)"."""
        parts = []
        for x in self.loaders:
            if x.demand:
                part = Text(
                    "({workers} workers × {prefetch} + 2) batches × {batch}",
                    "({workers} 个 worker × {prefetch} + 2) 个批次 × {batch}",
                    workers=x.workers, prefetch=x.prefetch, batch=size(x.batch_bytes or 0),
                )  # fmt: skip
                parts.append(Text("{part} ({origin})", part=part, origin=x.origin) if x.origin else part)
        joined = parts[0]
        for part in parts[1:]:
            joined = Text("{a} + {b}", a=joined, b=part)
        ranks = self.ranks(host)[0]
        if ranks == 1:
            return joined
        if len(parts) > 1:
            joined = Text("[{x}]", x=joined)
        return Text("{ranks} ranks × {x}", "{ranks} 个 rank × {x}", ranks=ranks, x=joined)

    def uses_workers(self, host: Host) -> bool | None:
        """Does a loader have workers? None: not known."""
        if any(x.workers for x in self.loaders):
            return True
        if self.loaders and all(x.workers == 0 for x in self.loaders):
            return False
        return None

    # -------------------------------------------------------------------------------------------------------- ranks
    def ranks(self, host: Host) -> tuple[int, Text]:
        """Ranks on this node and where the number comes from: the option, the launcher, the GPUs; else 1."""
        if self.ranks_per_node:
            return self.ranks_per_node, Text("--ranks-per-node")
        launched = self.launched(host)
        if launched is not None:
            return launched
        count = gpus(host)
        if count:
            return count, Text("one for each GPU", "每个 GPU 一个")
        return 1, Text("assumed", "假定")

    def launched(self, host: Host) -> tuple[int, Text] | None:
        """Ranks on this node as the launcher counts them, and the variable that says so."""
        for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"):
            number = whole(host.env.get(name))
            if number and number > 0:
                return number, Text(name)
        found = re.match(r"\d+", host.env.get("SLURM_NTASKS_PER_NODE") or host.env.get("SLURM_TASKS_PER_NODE") or "")
        if found and int(found[0]) > 1:  # 1 is also what torchrun under Slurm has
            return int(found[0]), Text("SLURM_TASKS_PER_NODE")
        return None

    def threads(self, host: Host) -> int:
        """Processes and threads of all ranks of this node, about."""
        workers = self.workers if self.workers is not None else USUAL_WORKERS
        return self.ranks(host)[0] * (RANK_THREADS + WORKER_THREADS * workers)

    def node_count(self, host: Host) -> int | None:
        """Nodes of the job: the option, the launcher; None where nothing says it."""
        if self.nodes:
            return self.nodes
        for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "PET_NNODES", "NNODES", "GROUP_WORLD_SIZE"):
            number = whole(host.env.get(name))
            if number and number > 0:
                return number
        world, local = whole(host.env.get("WORLD_SIZE")), whole(host.env.get("LOCAL_WORLD_SIZE"))
        return -(-world // local) if world and local and world > 0 and local > 0 else None


def gpus(host: Host) -> int:
    """GPUs that this process can use: device files, else what nvidia-smi lists (1 when it hangs: there is something to
    hang on), less what CUDA_VISIBLE_DEVICES leaves out. 0: none seen."""
    chosen = host.env.get("CUDA_VISIBLE_DEVICES") or host.env.get("HIP_VISIBLE_DEVICES")
    files = len([n for n in host.list("/dev") if re.fullmatch(r"nvidia\d+", n)])
    if not files:  # a render node is the display of any card: only AMD's compute driver tells
        nodes = host.list("/sys/class/kfd/kfd/topology/nodes")
        files = sum(
            (whole(host.read(f"/sys/class/kfd/kfd/topology/nodes/{n}/gpu_id")) or 0) > 0 for n in nodes
        ) if host.exists("/dev/kfd") else 0  # fmt: skip
    if not files and not host.exists("/dev/kfd"):
        from .nvidia import ask, visible

        smi = ask(host)
        if smi.state == "hangs":
            return 1
        left = visible(host, smi)
        return len(smi.gpus if left is None else left)
    if chosen is None or not files:
        return files
    names = [x for x in chosen.split(",") if x.strip() and x.strip() != "-1"]
    return min(len(names), files) if names else 0
