#!/usr/bin/env python3
"""What `torchvet preflight` takes on this machine: wall and CPU seconds of whole runs.

python bench/preflight.py [--runs 10] [--dry-run]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from results import torchvet, write
from speed import measure

ROOT = Path(__file__).resolve().parent.parent


def main(words: list[str]) -> int:
    runs = int(words[words.index("--runs") + 1]) if "--runs" in words else 10
    command = [*torchvet(), "preflight", "--this-node", "--output-format", "json"]
    rows = [measure(command, ROOT) for _ in range(runs)]
    wall = [r[2] for r in rows]
    cpu = [r[1] for r in rows]
    said = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    kinds = [r["verdict"] for r in said["results"]]
    text = f"## Preflight\n\n`python bench/preflight.py`, {runs} whole runs without a GPU.\n\n"
    text += "| | wall, median | wall, most | CPU, median | CPU, most |\n|---|---|---|---|---|\n"
    text += f"| whole run | {statistics.median(wall):.2f} s | {max(wall):.2f} s | {statistics.median(cpu):.2f} s "
    text += f"| {max(cpu):.2f} s |\n\n"
    text += (
        f"Results: {len(kinds)} ({', '.join(f'{kinds.count(k)} {k}' for k in sorted(set(kinds)))}); probes that do not "
    )
    text += "apply to this machine give none.\n"
    print(text)
    if "--dry-run" not in words:
        write("preflight", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
