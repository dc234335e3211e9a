"""Which files of other kinds can matter: words looked up in their bytes, so that nothing is parsed for the rest."""

from __future__ import annotations

from .walk import NATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

RUNTIMES = (
    b"cuda", b"__global__", b"<<<", b"cublas", b"cudnn", b"nccl", b"hip/", b"hipMalloc", b"hipStream", b"hipEvent",
    b"PYBIND11_MODULE", b"TORCH_LIBRARY", b"cusparse", b"cusolver", b"cufft", b"curand", b"hipblas", b"hipsparse",
)  # fmt: skip
"""Names of what allocates on a GPU or launches on it, and of what binds a function to Python."""

LAUNCHES = (
    b"shm", b"--gpus", b"--nv", b"nvidia", b"gpu", b"GPU", b"torchrun", b"torch.distributed", b"accelerate launch",
    b"deepspeed", b"srun", b"mpirun", b"horovodrun", b"ft_launcher", b"composer", b"NCCL_", b"CUDA_LAUNCH_BLOCKING",
    b"TORCH_DISTRIBUTED_DEBUG", b"MASTER_ADDR", b"PYTORCH_NO_CUDA", b"podman", b"nerdctl", b"TORCH_FR_", b"TORCH_NCCL_",
)  # fmt: skip
"""What a file holds that starts a training or a container with a GPU."""

SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".slrm", ".mk", "akefile")
STARTS = (
    b"docker", b"podman", b"nerdctl", b"apptainer", b"singularity", b"/dev/shm", b"torchrun", b"torch.distributed",
    b"accelerate launch", b"deepspeed", b"srun", b"SBATCH", b"mpirun", b"mpiexec", b"horovodrun", b"ft_launcher",
    b"composer", b"NCCL_", b"GLOO_", b"CUDA_LAUNCH_BLOCKING", b"TORCH_DISTRIBUTED_DEBUG", b"MASTER_ADDR",
    b"PYTORCH_NO_CUDA", b"TORCH_FR_", b"TORCH_NCCL_",
)  # fmt: skip
"""What a script holds that rules can have something to say about: the word gpu alone is in many."""

FORMS = (
    rb"^[\"']?(?:services|apiVersion|jobs|steps|searcher|entrypoint|\$schema|Resources)[\"']?\s*:|"
    rb"^[ \t-]*[\"']?(?:containers|runArgs|script|before_script|containerDefinitions|ContainerDefinitions|"
    rb"containerProperties|ContainerProperties|commands?|run|setup|shm_size|cmds)[\"']?\s*:"
)
"""Keys of YAML files that start something: at the top, or at any depth. The others of a repository are settings."""
KEYS = (
    b"services", b"apiVersion", b"jobs", b"steps", b"searcher", b"entrypoint", b"$schema", b"Resources", b"ontainers:",
    b"runArgs", b"script", b"ontainerDefinitions", b"ontainerProperties", b"command", b"run:", b"setup:", b"shm_size",
    b"cmds",
)  # fmt: skip
"""Parts of all of them: looking for these first takes a tenth of the time."""
_forms: list[Pattern[bytes]] = []


def admit(data: bytes, kind: str, path: str = "") -> bool:
    """Whether a file of `kind` (walk.NATIVE or walk.DEPLOYMENT) with these bytes can hold a subject of some rule."""
    words = RUNTIMES if kind == NATIVE else STARTS if path.endswith(SCRIPTS) else LAUNCHES
    if not any(word in data for word in words):
        return False
    if path.endswith(".tf"):
        return b"haredMemorySize" in data or b'"GPU"' in data or (b"<<" in data and b"docker" in data)
    return not path.endswith((".yaml", ".yml")) or has_form(data)


def has_form(data: bytes) -> bool:
    """Whether YAML has a key by which something is started."""
    if not any(key in data for key in KEYS):
        return False
    if not _forms:
        from re import MULTILINE, compile

        _forms.append(compile(FORMS, MULTILINE))
    return _forms[0].search(data) is not None
