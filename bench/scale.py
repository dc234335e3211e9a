#!/usr/bin/env python3
"""How the cost of a check grows with the code: the same code base once, twice and four times in one folder.

    python bench/scale.py --root FOLDER              an unpacked code base; writes its section of RESULTS.md
    python bench/scale.py --root FOLDER --runs 1     one run of each size instead of the better of two
    python bench/scale.py --root FOLDER --select collective

Each copy has top folders and modules of its own names, and its imports name those (`megatron`, `megatron_2`, ...), so
that the program really grows: as many functions, classes and calls again, none of them unresolved or merged. CPU
seconds are user and system time, peak memory is the largest resident size of one process; one process (`--jobs 1`), no
cache. Linear cost has ratio 2; stages that grow faster are listed with what they take (wall time).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from results import torchvet, version_of, write
from speed import measure

SIZES = (1, 2, 4)
SKIPPED = {".git", "__pycache__", "node_modules"}
STAGE = re.compile(r"^\s*([\d.]+) ms\s+[\d.]+%\s+(.+)$", re.MULTILINE)
NOTABLE = 0.02
"""Share of the largest run from which on a stage is listed."""


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


def stages(command: list[str], folder: Path) -> dict[str, float]:
    """Seconds of each stage of a run with `--timing`."""
    said = subprocess.run([*command, "--timing"], cwd=folder, capture_output=True, text=True).stderr
    return {name: float(ms) / 1000 for ms, name in STAGE.findall(said)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--select", default="all")
    a = parser.parse_args()
    command = [*torchvet(), "check", ".", "--no-cache", "--isolated", "--jobs", "1", "-q", "--select", a.select]
    rows, timed = [], {}
    with tempfile.TemporaryDirectory(prefix="torchvet-scale-") as name:
        folder = Path(name)
        made = 0
        for size in SIZES:
            for number in range(made + 1, size + 1):
                copied(a.root.resolve(), folder, number)
            made = size
            seen = [measure(command, folder) for _ in range(a.runs)]
            failed = [code for code, *_ in seen if code not in (0, 1)]
            if failed:
                raise SystemExit(f"{' '.join(command)}: exit {failed[0]}")
            files, lines = lines_in(folder)
            cpu, wall, peak = (min(s[i] for s in seen) for i in (1, 2, 3))
            rows.append((size, files, lines, cpu, wall, peak))
            timed[size] = stages(command, folder)
            print(
                f"{size}x: {files:,} files, {lines:,} lines, {cpu:.2f} s CPU, {wall:.2f} s, {peak:.0f} MiB", flush=True
            )
    text = (
        f"## Growth\n\n`python bench/scale.py --root {a.root.name} --select {a.select}`, {version_of(torchvet()[0])}; "
    )
    text += f"the least of {a.runs}, one process\n\n"
    text += "| copies | files | lines | CPU | wall | peak memory | CPU, doubled code |\n|---|---|---|---|---|---|---|\n"
    before = None
    for size, files, lines, cpu, wall, peak in rows:
        ratio = f"x {cpu / before:.2f}" if before else "-"
        text += f"| {size} | {files:,} | {lines:,} | {cpu:.2f} s | {wall:.2f} s | {peak:.0f} MiB | {ratio} |\n"
        before = cpu
    last = timed[SIZES[-1]]
    whole = last.get("total", sum(last.values()))
    text += "\nStages that take at least 2 % of the largest run (seconds of one run with `--timing`):\n\n"
    heads = " | ".join(f"{n}x" for n in SIZES)
    text += f"| stage | {heads} | from {SIZES[-2]}x to {SIZES[-1]}x |\n|---|{'---|' * len(SIZES)}---|\n"
    for stage, seconds in sorted(last.items(), key=lambda x: -x[1]):
        if stage != "total" and seconds >= NOTABLE * whole:
            figures = [timed[n].get(stage, 0.0) for n in SIZES]
            grown = f"x {figures[-1] / figures[-2]:.2f}" if figures[-2] else "-"
            text += f"| {stage} | {' | '.join(f'{f:.2f}' for f in figures)} | {grown} |\n"
    print(text)
    write("scale", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
