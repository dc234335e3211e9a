#!/usr/bin/env python3
"""What a check costs, beside `ruff check --select F` on the same files.

    python bench/speed.py                     all sets; writes its section of RESULTS.md
    python bench/speed.py --rounds 5 small    one set: version, small, transformers
    python bench/speed.py --source DIR large  a folder of your own as large set

Each round runs the programs one after the other, in alternating order, so that a slow moment of the machine meets both;
the median counts. CPU seconds are user and system time of the child and its children (getrusage), peak memory is the
largest resident size of one process. Cold means without a cache (`--no-cache`), warm means the second run with one.

torchvet runs as it does when installed with pip: from compiled modules, by its console script.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from packages import unpacked
from results import ROOT, version_of, write

SMALL = 15
TRANSFORMERS = "transformers==5.23.0"
# run in a process of its own, so that RUSAGE_CHILDREN holds one child only
MEASURE = (
    "import json, os, resource, subprocess, sys, time\n"
    "t = time.perf_counter()\n"
    "code = subprocess.call(json.loads(sys.argv[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    "wall = time.perf_counter() - t\n"
    "r = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
    "print(json.dumps([code, r.ru_utime + r.ru_stime, wall, r.ru_maxrss]))\n"
)


def measure(command: list[str], cwd: Path) -> tuple[int, float, float, float]:
    """(exit code, CPU seconds, wall seconds, peak memory in MiB) of one run."""
    r = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURE, json.dumps(command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    code, cpu, wall, peak = json.loads(r.stdout)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return code, cpu, wall, peak / unit


def alternate(commands: dict[str, list[str]], cwd: Path, rounds: int) -> dict[str, tuple[float, float, float]]:
    """{label: medians of (CPU, wall, peak)} of commands run in turn; a first round warms file caches and is dropped."""
    seen: dict[str, list[tuple[float, float, float]]] = {label: [] for label in commands}
    for number in range(rounds + 1):
        order = list(commands)
        for label in order if number % 2 else order[::-1]:
            code, *numbers = measure(commands[label], cwd)
            if code not in (0, 1):
                raise SystemExit(f"speed: exit {code}: {' '.join(commands[label])}")
            if number:
                seen[label].append(tuple(numbers))
    return {label: tuple(map(statistics.median, zip(*rows))) for label, rows in seen.items()}


def installed(folder: Path) -> str:
    """A console script of the torchvet of this tree, installed as pip does it, with compiled modules."""
    site = folder / "site"
    shutil.copytree(ROOT / "src" / "torchvet", site / "torchvet", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(site)], check=True)
    script = folder / "torchvet"
    # what pip writes, with the one line that an installed package does not need
    flags = "-sP" if sys.version_info >= (3, 11) else "-s"
    script.write_text(
        f"#!{sys.executable} {flags}\nimport sys\nsys.path.insert(0, {str(site)!r})\n"
        "from torchvet.cli import console\nif __name__ == '__main__':\n    sys.exit(console())\n"
    )
    script.chmod(0o755)
    return str(script)


def small_project(folder: Path) -> Path:
    """A project of 15 files: what a person who trains one model has."""
    project = folder / "small"
    (project / "lib").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nname = "small"\nversion = "0"\n')
    sources = [p for name in ("leak", "hang") for p in sorted((ROOT / "examples" / name).glob("*.py"))]
    for number in range(SMALL):
        source = sources[number % len(sources)]
        target = project / ("lib" if number >= len(sources) else "") / f"{source.stem}_{number}.py"
        evaluation = f"evaluation_{2 if number < len(sources) else 7}"
        text = source.read_text("utf-8").replace("from evaluation import", f"from {evaluation} import")
        target.write_text(text, "utf-8")
    return project


def rows(title: str, numbers: dict[str, tuple[float, float, float]], base: str) -> list[str]:
    head = f"| | CPU | wall | peak memory | CPU against {base} |"
    lines = ["", f"### {title}", "", head, "|---|---|---|---|---|"]
    for label, (cpu, wall, peak) in numbers.items():
        ratio = f"{cpu / numbers[base][0]:.2f} ×" if base in numbers and label != base and numbers[base][0] else "-"
        lines.append(f"| {label} | {1000 * cpu:.0f} ms | {1000 * wall:.0f} ms | {peak:.0f} MiB | {ratio} |")
    return lines


def compare(torchvet: str, ruff: str | None, target: Path, rounds: int, cache: Path, rival: str | None) -> dict:
    """The numbers of every program on one folder, cold and warm."""
    check = [torchvet, "check", "--isolated", "--output-format", "concise"]
    cold = {"torchvet, cold": [*check, "--no-cache", str(target)]}
    warm = {"torchvet, nothing changed": [*check, "--cache-dir", str(cache / "torchvet-cache"), str(target)]}
    if ruff:
        # the same files for both, in a response file: they would not fit on a command line
        listed = subprocess.run(
            [torchvet, "check", "--isolated", "--show-files", str(target)], capture_output=True, text=True, check=True
        )
        names = [str(target / n) for n in listed.stdout.split("\n") if n.endswith((".py", ".ipynb"))]
        files = cache / f"{target.name}.txt"
        files.write_text("\n".join(names))
        base = [ruff, "check", "--isolated", "--select", "F", "--exit-zero"]
        cold["ruff F, cold"] = [*base, "--no-cache", f"@{files}"]
        warm["ruff F, warm"] = [*base, "--cache-dir", str(cache / "ruff-cache"), f"@{files}"]
    if rival:
        cold["torch-preflight, cold"] = [rival, "check", str(target)]
    return {**alternate(cold, target, rounds), **alternate(warm, target, rounds)}


def stages(torchvet: str, target: Path) -> str:
    """What `--timing` says about one cold run."""
    options = ["--no-cache", "--isolated", "--timing", "--exit-zero", "--quiet", "--output-format", "concise"]
    r = subprocess.run([torchvet, "check", *options, str(target)], capture_output=True, text=True)
    return r.stderr.strip()


def program(name: str) -> str | None:
    """A program of this environment, else of the path."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else shutil.which(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", type=Path, help="an unpacked package as large set (default: transformers by pip)")
    parser.add_argument("sets", nargs="*", help="version, small, large; default: all")
    args = parser.parse_args()
    sets = set(args.sets) or {"version", "small", "large"}
    ruff, rival = program("ruff"), program("torch-preflight")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["TORCHVET_LANG"] = "en"
    others = ", ".join(version_of(p) for p in (ruff, rival) if p)
    lines = [
        "## Speed",
        "",
        f"Against {others or 'nothing else'}. Medians of {args.rounds} or more alternating rounds.",
    ]
    with tempfile.TemporaryDirectory(prefix="speed-") as name:
        folder = Path(name)
        torchvet = installed(folder)
        if "version" in sets:
            commands = {
                "torchvet --version": [torchvet, "--version"],
                "python -c pass": [sys.executable, "-sc", "pass"],
            }
            lines += rows("Start-up", alternate(commands, folder, max(args.rounds, 9)), "python -c pass")
        if "small" in sets:
            project = small_project(folder)
            found = compare(torchvet, ruff, project, max(args.rounds, 9), folder, rival)
            lines += rows(f"A project of {SMALL} files", found, "ruff F, cold")
        if "large" in sets:
            target = args.source or unpacked(TRANSFORMERS)
            if target is None:
                print(f"speed: {TRANSFORMERS} could not be downloaded", file=sys.stderr)
                return 2
            found = compare(torchvet, ruff, target, args.rounds, folder, None)
            count = sum(1 for _ in target.rglob("*.py"))
            lines += rows(f"{TRANSFORMERS if not args.source else target.name}, {count} files", found, "ruff F, cold")
            if "ruff F, warm" in found:
                ratio = found["torchvet, nothing changed"][0] / found["ruff F, warm"][0]
                lines += ["", f"Nothing changed, against ruff with its cache: {ratio:.2f} × CPU."]
            lines += ["", "Where the time goes (one cold run):", "", "```", stages(torchvet, target), "```"]
    text = "\n".join(lines)
    print(text)
    if not args.sets and not args.source:
        write("speed", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
