#!/usr/bin/env python3
"""What each family of rules costs over the bare pipeline (`--select tool`: walk, read, gate, parse, lower).

    python bench/families.py FOLDER [FOLDER ...]     unpacked code bases; writes its section of RESULTS.md

    python bench/families.py --once FOLDER ...       one run each

CPU seconds (user and system) of one process, the least of nine runs; the families take turns, so that a slow moment of
the machine meets all of them. The last column is the median of what graph costs over the pipeline in the same turn.
torchvet runs as it does when installed with pip: from compiled modules.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from results import version_of, write
from speed import installed, measure

FAMILIES = ("tool", "graph", "loader,wrap", "collective", "all")


def main(folders: list[str]) -> int:
    if not folders:
        raise SystemExit(__doc__)
    runs = 1 if "--once" in folders else 9
    folders = [f for f in folders if f != "--once"]
    with tempfile.TemporaryDirectory() as tmp:
        program = installed(Path(tmp))
        text = "## Cost of the families\n\n`python bench/families.py FOLDER ...`, "
        text += f"least of {runs}, {version_of(program)}\n\n"
        text += (
            "| code base | pipeline alone | graph | loader, wrap | collective | all rules | graph over the pipeline |\n"
        )
        text += "|---|---|---|---|---|---|---|\n"
        for folder in folders:
            command = [program, "check", ".", "--no-cache", "--isolated", "--jobs", "1", "-q", "--select"]
            turns = [{f: measure([*command, f], Path(folder))[1] for f in FAMILIES} for _ in range(runs)]
            figures = " | ".join(f"{min(turn[f] for turn in turns):.2f} s" for f in FAMILIES)
            over = statistics.median(turn["graph"] / turn["tool"] for turn in turns) - 1
            text += f"| {Path(folder).name} | {figures} | +{over:.0%} |\n"
    print(text)
    write("families", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
