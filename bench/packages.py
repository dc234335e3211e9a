"""Pinned packages, downloaded with pip and unpacked into a cache folder. Nothing of them is installed or run."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PINS = (
    "transformers==5.23.0", "accelerate==1.15.0", "mmdet==3.3.0", "timm==1.0.31", "trl==1.16.0",
    "pytorch_lightning==2.6.6", "speechbrain==1.1.2", "flair==0.15.1", "catalyst==22.4", "stable_baselines3==2.9.2",
    "litgpt==0.5.13", "verl==0.9.1",
)  # fmt: skip
KEEP = (".py", ".ipynb", ".toml", ".cfg", ".yaml", ".yml", ".sh", ".cu", ".cpp", ".h", ".cuh")


def cache() -> Path:
    """TORCHVET_BENCH_CACHE, else a folder of the user's cache."""
    named = os.environ.get("TORCHVET_BENCH_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named or os.path.join(base, "torchvet-bench"))


def unpacked(pin: str) -> Path | None:
    """The folder of a pinned package (source files only), or None when pip cannot get it."""
    folder = cache() / pin.replace("==", "-")
    if (folder / ".complete").exists():
        return folder
    with tempfile.TemporaryDirectory() as name:
        r = None
        for python, choice in ways():
            pip = [python, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps"]
            r = subprocess.run([*pip, *choice, "-d", name, pin], capture_output=True, text=True)
            if r.returncode == 0:
                break
        archives = [p for p in Path(name).iterdir() if p.suffix in (".whl", ".zip", ".gz")]
        if not archives:
            print(f"packages: {pin}: {(r.stderr if r else '').strip()[-300:]}", file=sys.stderr)
            return None
        folder.mkdir(parents=True, exist_ok=True)
        unpack(archives[0], folder)
    (folder / ".complete").touch()
    return folder


def ways() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(Python whose pip to ask, options), from the plain wheel to what only an old pip still accepts."""
    wheel = ("--only-binary", ":all:")
    yield sys.executable, wheel
    # a wheel that does not admit to run on this Python
    elsewhere = (*wheel, "--platform", "any", "--python-version", "3.11", "--implementation", "py")
    yield sys.executable, elsewhere
    # metadata that pip 24.1 and later refuse (catalyst 22.4)
    old = cache() / "pip-24.0"
    python = old / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(old)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "pip==24.0"], check=True)
    yield str(python), elsewhere
    yield sys.executable, ("--no-binary", ":all:")


def unpack(archive: Path, folder: Path) -> None:
    """Source files of a wheel or an archive; names that lead outside and links are left out."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as z:
            for name in z.namelist():
                if name.endswith(KEEP):
                    put(folder, name, z.read(name))
    else:
        with tarfile.open(archive) as t:
            for member in t:
                if member.isfile() and member.name.endswith(KEEP):
                    held = t.extractfile(member)
                    if held:
                        put(folder, member.name.partition("/")[2], held.read())


def put(folder: Path, name: str, data: bytes) -> None:
    path = (folder / name).resolve()
    if path.is_relative_to(folder.resolve()) and len(data) < 8_000_000:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
