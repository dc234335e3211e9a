"""bench/RESULTS.md: one section per benchmark, each replaced on its own, with the machine and the versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "RESULTS.md"
ORDER = (
    "cases", "real", "speed", "families", "scale", "corpus", "read graph", "read loader,wrap", "read collective",
    "overhead", "tune", "native", "read native,deploy", "read all rules", "scale diagnose", "preflight",
)  # fmt: skip


def machine() -> str:
    """CPU, memory, system, Python, in one line."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), cpu)
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (OSError, ValueError):
        memory = ""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cpu}, {usable} cores{memory}, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def version_of(program: str) -> str:
    """What `program --version` says, or "absent"."""
    try:
        r = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return f"{Path(program).name} absent"
    said = (r.stdout or r.stderr).strip().split("\n")[0]
    return said if Path(program).name.split("-")[0] in said else f"{Path(program).name} {said}"


def torchvet() -> list[str]:
    """The command that runs the torchvet of this tree: the installed script of this environment."""
    script = Path(sys.executable).with_name("torchvet")
    return [str(script)] if script.exists() else [sys.executable, "-m", "torchvet"]


def write(section: str, text: str) -> None:
    """Put `text` (Markdown without a heading of the first level) into its section of RESULTS.md."""
    old = RESULTS.read_text("utf-8") if RESULTS.exists() else ""
    parts: dict[str, str] = {}
    for name in ORDER:
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        if start in old and end in old:
            parts[name] = old.split(start, 1)[1].split(end, 1)[0]
    parts[section] = f"{text.strip()}\n\nMeasured on {machine()}.\n"
    out = "# Results\n\nWritten by the programs of this folder (`make bench`); each replaces its own section.\n"
    for name in ORDER:
        if name in parts:
            out += f"\n<!-- {name} -->\n{parts[name]}<!-- end of {name} -->\n"
    RESULTS.write_text(out, "utf-8")
