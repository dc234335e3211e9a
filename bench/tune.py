#!/usr/bin/env python3
"""Does `torchvet tune` pick what an exhaustive search would? Four loaders (tests/tune/programs/loaders.py), each tuned
several times; the chosen setting's rate is looked up in a table of all settings, measured beforehand.

    python bench/tune.py [--repeat 10] [--seconds 1] [--dry-run]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from results import write  # noqa: E402

from torchvet.tune.plan import Setting, room  # noqa: E402
from torchvet.tune.runner import Runner  # noqa: E402
from torchvet.tune.search import Search  # noqa: E402

KINDS = ("processor", "disk", "memory", "tiny")
GRID = [Setting(0), *(Setting(w, p) for w in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) for p in (2, 4))]
ROUNDS = 3


def key(s: Setting) -> tuple[int, int]:
    return s.workers, s.prefetch if s.workers else 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    os.chdir(ROOT / "tests" / "tune" / "programs")
    rows = []
    for kind in given.kinds.split(","):
        with Runner(f"loaders:{kind}", seconds=given.seconds) as runner:
            batch = runner.cost()
            rates: dict[tuple[int, int], list[float]] = {}
            for turn in range(ROUNDS):
                for s in GRID if turn % 2 == 0 else GRID[::-1]:
                    trial = runner.measure(s)
                    if trial.failed is None:
                        rates.setdefault(key(s), []).append(trial.rate)
            table = {k: statistics.median(v) for k, v in rates.items()}
            best = max(table.values())
            picked, took = [], []
            for _ in range(given.repeat):
                start = time.monotonic()
                search = Search(runner.measure, room, batch, batches=runner.batches)
                chosen = search.run()
                took.append(time.monotonic() - start)
                assert chosen is not None
                k = key(chosen.setting)
                if k not in table:
                    table[k] = statistics.median(runner.measure(chosen.setting).rate for _ in range(ROUNDS))
                picked.append((k, table[k] / best))
                print(f"{kind}: {k} {100 * table[k] / best:.1f} % in {took[-1]:.0f} s", file=sys.stderr, flush=True)
            good = sum(share >= 0.95 for _, share in picked)
            winner = max(table, key=lambda k: table[k])
            names = ", ".join(sorted({f"{w} x {p}" for (w, p), _ in picked}))
            rows.append(
                f"| {kind} | {winner[0]} x {winner[1]}, {best:.1f}/s | {names} | {good} of {len(picked)} "
                f"| {100 * min(share for _, share in picked):.0f} % | {statistics.median(took):.0f} s |"
            )
    text = "## What `torchvet tune` picks\n\n`python bench/tune.py`: chosen settings against the best of all "
    text += f"{len(GRID)} (workers x prefetch, median of {ROUNDS}), as fast as the loader gives.\n\n"
    text += "| loader | best of all | chosen | within 5 % of it | worst | a run takes |\n|---|---|---|---|---|---|\n"
    text += "\n".join(rows) + "\n"
    print(text)
    if not given.dry_run:
        write("tune", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
