#!/usr/bin/env python3
"""How the cost of a check grows with the code: the same code base once, twice and four times in one folder.

    python bench/scale.py --root FOLDER              an unpacked code base; writes its section of RESULTS.md
    python bench/scale.py --root FOLDER --runs 5     five runs of each size instead of the best of three

Each copy has top folders and modules of its own names, and its imports name those (`megatron`, `megatron_2`, ...), so
that the program really grows: as many functions, classes and calls again, none of them unresolved or merged. CPU
seconds are user and system time, peak memory is the largest resident size of one process; one process (`--jobs 1`), no
cache. Sizes take turns, so that a slow minute of the machine meets all of them. Linear cost has ratio 2.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from results import torchvet, version_of, write
from speed import measure

SIZES = (1, 2, 4)
SKIPPED = {".git", "__pycache__", "node_modules"}
PARTS = {"tool": "pipeline alone", "collective": "with collective", "all": "all rules"}
"""What is selected -> how it is called: the first is walk, read, parse and lower only."""


def tops(root: Path) -> list[Path]:
    """The folders and modules at the top that hold Python code."""
    found = []
    for path in sorted(root.iterdir()):
        if path.name in SKIPPED or path.name.startswith(".") or path.is_symlink():
            continue
        if path.suffix == ".py" or (path.is_dir() and next(path.rglob("*.py"), None) is not None):
            found.append(path)
    return found


def copied(root: Path, into: Path, number: int) -> None:
    """One more copy of a code base: the first as it is, the others renamed."""
    names = {p.name.removesuffix(".py") for p in tops(root)}
    any_of = "|".join(map(re.escape, sorted(names)))
    pattern = re.compile(rf"(?m)^(\s*(?:from|import)\s+)({any_of})\b|\b({any_of})(?=\.[A-Za-z_])")

    def renamed(m: re.Match[str]) -> str:
        return f"{m[1]}{m[2]}_{number}" if m[2] else f"{m[3]}_{number}"

    for top in tops(root):
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            if SKIPPED.intersection(path.parts) or path.is_symlink():
                continue
            way = path.relative_to(root)
            if number > 1:
                first = way.parts[0]
                base = first.removesuffix(".py")
                way = Path(f"{base}_{number}" + first[len(base) :], *way.parts[1:])
            target = into / way
            target.parent.mkdir(parents=True, exist_ok=True)
            if number == 1:
                shutil.copyfile(path, target)
            else:
                text = path.read_text("utf-8", "surrogateescape")
                target.write_text(pattern.sub(renamed, text), "utf-8", "surrogateescape")


def lines_in(folder: Path) -> tuple[int, int]:
    """(files, lines)"""
    files = list(folder.rglob("*.py"))
    return len(files), sum(p.read_bytes().count(b"\n") for p in files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    a = parser.parse_args()
    command = [*torchvet(), "check", ".", "--no-cache", "--isolated", "--jobs", "1", "-q", "--select"]
    seen: dict[tuple[int, str], list[tuple[int, float, float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="torchvet-scale-") as name:
        folders = {size: Path(name) / str(size) for size in SIZES}
        for number in range(1, max(SIZES) + 1):
            for size, folder in folders.items():
                if number <= size:
                    copied(a.root.resolve(), folder, number)
        lines = {size: lines_in(folder) for size, folder in folders.items()}
        for _ in range(a.runs):
            for size, folder in folders.items():
                for part in PARTS:
                    row = measure([*command, part], folder)
                    if row[0] not in (0, 1):
                        raise SystemExit(f"{' '.join(command)} {part}: exit {row[0]}")
                    seen.setdefault((size, part), []).append(row)
                    print(f"{size}x {part}: {row[1]:.2f} s, {row[2]:.2f} s wall, {row[3]:.0f} MiB", flush=True)
    rows = []
    for size in SIZES:
        cpu = [min(r[1] for r in seen[size, part]) for part in PARTS]
        whole = seen[size, list(PARTS)[-1]]
        rows.append((size, *lines[size], cpu, min(r[2] for r in whole), min(r[3] for r in whole)))
    text = f"## Growth\n\n`python bench/scale.py --root {a.root.name}`, {version_of(torchvet()[0])}; CPU seconds, "
    text += f"wall time and peak memory of one process, the least of {a.runs}; in brackets: times the size before\n\n"
    text += f"| copies | files | lines | {' | '.join(PARTS.values())} | wall | peak memory |\n|{'---|' * 8}\n"
    before: list[float] = []
    for size, files, count, cpu, wall, peak in rows:
        grown = [f" ({c / b:.2f})" for c, b in zip(cpu, before)] or [""] * len(cpu)
        figures = " | ".join(f"{c:.2f} s{g}" for c, g in zip(cpu, grown))
        text += f"| {size} | {files:,} | {count:,} | {figures} | {wall:.2f} s | {peak:.0f} MiB |\n"
        before = cpu
    print(text)
    write("scale", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
