"""Versions of installed packages, read from their files: importing torch takes seconds and may touch the GPU."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_ASSIGNED = re.compile(r"^(__version__|git_version|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"\n]*)['\"]", re.MULTILINE)
_KEYS = {"__version__": "torch", "git_version": "torch_git", "cuda": "torch_cuda", "hip": "torch_hip"}
_NCCL = re.compile(r"nvidia_nccl_cu\d+-([\d.]+)\.dist-info")


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
