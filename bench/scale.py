#!/usr/bin/env python3
"""How the cost of a check grows with the code: the same code base once, twice and four times in one folder.

    python bench/scale.py --root FOLDER              an unpacked code base; writes its section of RESULTS.md
    python bench/scale.py --root FOLDER --runs 1     one run of each size instead of the better of two

Each copy has top folders and modules of its own names, and its imports name those (`megatron`, `megatron_2`, ...), so
that the program really grows: as many functions, classes and calls again, none of them unresolved or merged. CPU
seconds are user and system time, peak memory is the largest resident size of one process; one process (`--jobs 1`), no
cache. Linear cost has ratio 2.
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
    parser.add_argument("--runs", type=int, default=2)
    a = parser.parse_args()
    command = [*torchvet(), "check", ".", "--no-cache", "--isolated", "--jobs", "1", "-q", "--select"]
    rows = []
    with tempfile.TemporaryDirectory(prefix="torchvet-scale-") as name:
        folder = Path(name)
        made = 0
        for size in SIZES:
            for number in range(made + 1, size + 1):
                copied(a.root.resolve(), folder, number)
            made = size
            cpu = []
            for part in PARTS:
                seen = [measure([*command, part], folder) for _ in range(a.runs)]
                failed = [code for code, *_ in seen if code not in (0, 1)]
                if failed:
                    raise SystemExit(f"{' '.join(command)} {part}: exit {failed[0]}")
                least, wall, peak = (min(s[i] for s in seen) for i in (1, 2, 3))
                cpu.append(least)
            rows.append((size, *lines_in(folder), cpu, wall, peak))
            print(f"{size}x: {', '.join(f'{c:.2f} s' for c in cpu)}, {wall:.2f} s wall, {peak:.0f} MiB", flush=True)
    text = f"## Growth\n\n`python bench/scale.py --root {a.root.name}`, {version_of(torchvet()[0])}; CPU seconds, "
    text += f"wall time and peak memory of one process, the least of {a.runs}; in brackets: times the size before\n\n"
    text += f"| copies | files | lines | {' | '.join(PARTS.values())} | wall | peak memory |\n|{'---|' * 8}\n"
    before: list[float] = []
    for size, files, lines, cpu, wall, peak in rows:
        grown = [f" ({c / b:.2f})" for c, b in zip(cpu, before)] or [""] * len(cpu)
        figures = " | ".join(f"{c:.2f} s{g}" for c, g in zip(cpu, grown))
        text += f"| {size} | {files:,} | {lines:,} | {figures} | {wall:.2f} s | {peak:.0f} MiB |\n"
        before = cpu
    print(text)
    write("scale", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
