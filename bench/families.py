#!/usr/bin/env python3
"""What each family of rules costs over the bare pipeline (`--select tool`: walk, read, gate, parse, lower).

    python bench/families.py FOLDER [FOLDER ...]     unpacked code bases; writes its section of RESULTS.md

    python bench/families.py --once FOLDER ...       one run each

CPU seconds (user and system) of one process, the least of five runs; the families take turns, so that a slow moment of
the machine meets all of them. torchvet runs as it does when installed with pip: from compiled modules.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from results import version_of, write
from speed import installed, measure

FAMILIES = ("tool", "graph", "loader,wrap", "collective", "all")


def main(folders: list[str]) -> int:
    if not folders:
        raise SystemExit(__doc__)
    runs = 1 if "--once" in folders else 5
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
            least = dict.fromkeys(FAMILIES, float("inf"))
            for _ in range(runs):
                for family in FAMILIES:
                    least[family] = min(least[family], measure([*command, family], Path(folder))[1])
            figures = " | ".join(f"{c:.2f} s" for c in least.values())
            text += f"| {Path(folder).name} | {figures} | +{least['graph'] / least['tool'] - 1:.0%} |\n"
    print(text)
    write("families", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
