"""Versions of installed packages, read from their files: importing torch takes seconds and may touch the GPU."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ASSIGNED = re.compile(r"^(__version__|git_version|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"\n]*)['\"]", re.MULTILINE)
_KEYS = {"__version__": "torch", "git_version": "torch_git", "cuda": "torch_cuda", "hip": "torch_hip"}
_NCCL = re.compile(r"nvidia_nccl_cu\d+-([\d.]+)\.dist-info")


def environments(env: Mapping[str, str]) -> list[str]:
    """Package folders of the environment that is active, where this program was installed apart from it (pipx, uv)."""
    out = []
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.path.join(env.get(name) or "/nonexistent", "lib")
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        out += [os.path.join(folder, n, "site-packages") for n in sorted(names) if n.startswith("python3")]
    return out


def torch_versions(path: Sequence[str]) -> dict[str, str]:
    """torch, torch_git, torch_cuda, torch_hip, nccl of the torch that `import torch` would find on `path`; keys are
    missing where there is none."""
    for folder in path:
        try:
            with open(os.path.join(folder or ".", "torch", "version.py"), encoding="utf-8", errors="replace") as f:
                text = f.read(65536)
        except OSError:
            continue
        out = {_KEYS[k]: v for k, v in _ASSIGNED.findall(text) if v}
        try:
            names = os.listdir(folder or ".")
        except OSError:
            names = []
        for name in names:
            found = _NCCL.fullmatch(name)
            if found:
                out["nccl"] = found[1]
        return out
    return {}
