#!/usr/bin/env python3
"""How fast native sources are checked, and what is found in those of public repositories.

    python bench/native.py FOLDER...      each folder is a repository; writes the section "native" of RESULTS.md

Of each folder the C, C++, CUDA and HIP sources are copied into an empty folder, so that nothing else is measured, and
checked there by the command itself, without a cache. CPU seconds are those of the child.
"""

from __future__ import annotations

import argparse
import collections
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import torchvet, write

ENDINGS = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hh", ".hpp", ".hxx", ".hip"}


def copy(folder: Path, to: Path) -> tuple[int, int]:
    """(files, bytes) of the native sources of a folder."""
    files = size = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix in ENDINGS and path.is_file() and not path.is_symlink():
            target = to / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            files, size = files + 1, size + path.stat().st_size
    return files, size


def check(folder: Path) -> tuple[float, float, collections.Counter]:
    """(CPU seconds, wall seconds, findings by rule and severity)."""
    command = [*torchvet(), "check", "--no-cache", "--isolated", "--output-format", "json", "."]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    r = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = collections.Counter((f["name"], f["severity"]) for f in json.loads(r.stdout)["findings"])
    return cpu, wall, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    args = parser.parse_args()
    lines = [
        "| repository | files | MB | CPU s | MB/s | errors | warnings | notes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total_size, total_cpu = 0, 0.0
    rules: collections.Counter = collections.Counter()
    for folder in args.folder:
        with tempfile.TemporaryDirectory(prefix="native-") as temporary:
            files, size = copy(folder.resolve(), Path(temporary))
            if not files:
                continue
            cpu, _, found = check(Path(temporary))
        total_size, total_cpu = total_size + size, total_cpu + cpu
        rules.update(found)
        levels = collections.Counter()
        for (_, severity), n in found.items():
            levels[severity] += n
        lines.append(
            f"| {folder.name.removeprefix('gh_')} | {files} | {size / 1e6:.1f} | {cpu:.1f} | {size / 1e6 / cpu:.1f} | "
            f"{levels['error']} | {levels['warning']} | {levels['note']} |"
        )
    lines += [
        "",
        f"- all: {total_size / 1e6:.1f} MB in {total_cpu:.1f} CPU seconds, {total_size / 1e6 / total_cpu:.1f} MB/s "
        "(with the start of the interpreter)",
        "- findings: " + ", ".join(f"{n} {name} ({severity})" for (name, severity), n in sorted(rules.items())),
    ]
    write("native", "## Native sources\n\nC, C++ and CUDA files of public repositories.\n\n" + "\n".join(lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
