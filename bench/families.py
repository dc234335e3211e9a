#!/usr/bin/env python3
"""What each family of rules costs over the bare pipeline (`--select tool`: walk, read, gate, parse, lower).

    python bench/families.py FOLDER [FOLDER ...]     unpacked code bases; writes its section of RESULTS.md

    python bench/families.py --once FOLDER ...       one run each

CPU seconds (user and system) of one process, the least of three runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from results import torchvet, version_of, write
from speed import measure

FAMILIES = ("tool", "graph", "loader,wrap", "collective", "all")


def main(folders: list[str]) -> int:
    if not folders:
        raise SystemExit(__doc__)
    runs = 1 if "--once" in folders else 3
    folders = [f for f in folders if f != "--once"]
    text = "## Cost of the families\n\n`python bench/families.py FOLDER ...`, "
    text += f"least of {runs}, {version_of(torchvet()[0])}\n\n"
    text += "| code base | pipeline alone | graph | loader, wrap | collective | all rules | graph over the pipeline |\n"
    text += "|---|---|---|---|---|---|---|\n"
    for folder in folders:
        command = [*torchvet(), "check", ".", "--no-cache", "--isolated", "--jobs", "1", "-q", "--select"]
        cpu = [min(measure([*command, f], Path(folder))[1] for _ in range(runs)) for f in FAMILIES]
        figures = " | ".join(f"{c:.2f} s" for c in cpu)
        text += f"| {Path(folder).name} | {figures} | +{cpu[1] / cpu[0] - 1:.0%} |\n"
    print(text)
    write("families", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
