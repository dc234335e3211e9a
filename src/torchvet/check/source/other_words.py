"""Which files of other kinds can matter: words looked up in their bytes, so that nothing is parsed for the rest."""

from __future__ import annotations

from .walk import NATIVE

RUNTIMES = (b"cuda", b"hip", b"cublas", b"cudnn", b"cusparse", b"cusolver", b"cufft", b"curand", b"nccl", b"rccl")
"""Beginnings of the names of what allocates on a GPU or launches on it."""

LAUNCHES = (
    b"shm", b"nvidia", b"gpu", b"GPU", b"torch", b"docker", b"podman", b"nerdctl", b"srun", b"NCCL", b"mpirun",
    b"accelerate", b"deepspeed",
)  # fmt: skip
"""What a file holds that starts a container or a training job."""


def admit(data: bytes, kind: str) -> bool:
    """Whether a file of `kind` (walk.NATIVE or walk.DEPLOYMENT) with these bytes can hold a subject of some rule."""
    words = RUNTIMES if kind == NATIVE else LAUNCHES
    return any(word in data for word in words)
