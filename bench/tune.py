#!/usr/bin/env python3
"""Does `torchvet tune` pick what an exhaustive search would? Four loaders (tests/tune/programs/loaders.py), each tuned
several times with the defaults of the command.

    python bench/tune.py [--repeat 10] [--kinds disk,tiny] [--again] [--dry-run]

What is best of all is itself measured, and the largest of 21 noisy figures is too large: it was chosen for its luck. So
a survey of all settings only says which ones are contenders. They and all settings that were picked are then measured
anew, side by side in rounds of changing order, and the rounds are split: the winner of the odd ones is compared with
the picks in the even ones, and the other way round. Slow minutes of the machine meet all settings of a round alike.

A finished loader is kept in build/bench-tune.json and not measured again, unless --again is given: a run that was
interrupted goes on. Eight to twelve minutes a loader on a quiet machine, one for the tiny one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from results import write  # noqa: E402

from torchvet.tune.plan import Batch, Setting, room  # noqa: E402
from torchvet.tune.race import Race  # noqa: E402
from torchvet.tune.runner import Runner  # noqa: E402
from torchvet.tune.search import Search  # noqa: E402

KINDS = ("processor", "disk", "memory", "tiny")
GRID = [Setting(0), *(Setting(w, p) for w in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) for p in (2, 4))]
SURVEY = 2
"""Rounds over all settings."""
CONTENDERS = 5
REACH = 0.3
"""Share of the leader's rate that a contender may lack in the survey."""
FINAL = 16
"""Rounds over the contenders and what was picked; even, for it is split. At 5 % of noise a half tells 2.5 % apart."""
BUDGET = 120.0
"""Seconds that all trials of a search may take: the default of the command."""
KEPT = ROOT / "build" / "bench-tune.json"
START = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - START:6.0f} s  {text}", file=sys.stderr, flush=True)


def plain(s: Setting) -> Setting:
    """Without what changes nothing in the middle of an epoch."""
    return Setting(s.workers, s.prefetch if s.workers else 2)


def name(s: Setting) -> str:
    return f"{s.workers} x {s.prefetch}" if s.workers else "0"


def rounds(runner: Runner, settings: list[Setting], count: int) -> list[dict[Setting, float]]:
    """`count` rounds of measurements, each from another place on and every second one backwards."""
    out: list[dict[Setting, float]] = []
    for turn in range(count):
        first = turn * len(settings) // count
        order = settings[first:] + settings[:first]
        row: dict[Setting, float] = {}
        for s in order if turn % 2 == 0 else order[::-1]:
            trial = runner.measure(s)
            if trial.failed is None:
                row[s] = trial.rate
        out.append(row)
    return out


def fitted(rows: list[dict[Setting, float]]) -> Race:
    race = Race()
    for row in rows:
        race.turn()
        for s, rate in row.items():
            race.add(s, rate)
    return race


def best_of(race: Race) -> Setting:
    race.fit()
    return max(race.speed, key=lambda s: race.speed[s])


def against_best(rows: list[dict[Setting, float]], picks: set[Setting]) -> dict[Setting, float]:
    """Each pick's rate as a share of the best one's: who is best is said by one half of the rounds, by how much by the
    other half."""
    halves = [fitted(rows[0::2]), fitted(rows[1::2])]
    shares: dict[Setting, list[float]] = {}
    for judge, witness in (halves, halves[::-1]):
        best = best_of(judge)
        for s in picks:
            shares.setdefault(s, []).append(witness.difference(s, best)[0])
    return {s: math.exp(statistics.fmean(v)) for s, v in shares.items()}


def bench(kind: str, repeat: int, seconds: float) -> dict[str, Any]:
    with Runner(f"loaders:{kind}", seconds=seconds) as runner:
        batch = runner.cost()
        survey = fitted(rounds(runner, GRID, SURVEY))
        survey.fit()
        lead = best_of(survey)
        ahead = sorted(
            (s for s in survey.speed if survey.rate(s) >= (1 - REACH) * survey.rate(lead)),
            key=lambda s: -survey.speed[s],
        )[:CONTENDERS]
        say(f"{kind}: surveyed, ahead are {', '.join(map(name, ahead))}")
        picked, took, tried, noises = [], [], [], []
        for i in range(repeat):
            start = time.monotonic()
            fresh = Batch(batch.bytes, batch.storages, batch.seconds, batch.resident)
            search = Search(
                runner.measure, room, fresh, batches=runner.batches, spent=lambda s=start: time.monotonic() > s + BUDGET
            )
            chosen = search.run()
            assert chosen is not None
            picked.append(plain(chosen.setting))
            took.append(time.monotonic() - start)
            tried.append(sum(len(t.rates) for t in search.trials.values()))
            noises.append(search.race.noise)
            say(
                f"{kind} {i + 1} of {repeat}: {name(picked[-1])} after {tried[-1]} trials in {took[-1]:.0f} s, "
                f"noise {noises[-1]:.1%}"
            )
        rows = rounds(runner, list(dict.fromkeys([*ahead, *picked])), FINAL)
    shares = against_best(rows, set(picked))
    whole = fitted(rows)
    best = best_of(whole)
    for s in sorted(shares, key=lambda s: s.weight):
        say(f"{kind}: {name(s)} gives {shares[s]:.1%} of the best, chosen {picked.count(s)} times")
    return {
        "best": name(best), "rate": whole.rate(best), "picked": [name(s) for s in picked],
        "shares": [shares[s] for s in picked], "seconds": statistics.median(took),
        "trials": statistics.median(tried), "noise": statistics.median(noises),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of measuring one setting (the command's default: 1)"
    )
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--again", action="store_true", help="measure also what is kept from a run before")
    parser.add_argument("--dry-run", action="store_true", help="print, do not write RESULTS.md")
    given = parser.parse_args()
    os.chdir(ROOT / "tests" / "tune" / "programs")
    asked = {"repeat": given.repeat, "seconds": given.seconds}
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    if given.again or kept.get("asked") != asked:
        kept = {"asked": asked, "kinds": {}}
    rows = []
    for kind in given.kinds.split(","):
        if kind not in kept["kinds"]:
            kept["kinds"][kind] = bench(kind, given.repeat, given.seconds)
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        found = kept["kinds"][kind]
        shares = found["shares"]
        names = ", ".join(sorted(set(found["picked"]), key=lambda n: [int(x) for x in n.split(" x ")]))
        rows.append(
            f"| {kind} | {found['best']}, {found['rate']:.1f}/s | {names} "
            f"| {sum(s >= 0.95 for s in shares)} of {len(shares)} | {100 * min(shares):.0f} % "
            f"| {found['trials']:.0f} | {found['seconds']:.0f} s | {100 * found['noise']:.1f} % |"
        )
    text = "## What `torchvet tune` picks\n\n`python bench/tune.py`: chosen settings (workers x prefetch) against the "
    text += (
        f"best of all {len(GRID)}, as fast as the loader gives. The {CONTENDERS} that lead a survey of all and what "
    )
    text += f"was chosen are measured anew in {FINAL} rounds; one half says which is best, the other by how much.\n\n"
    text += (
        "| loader | best of all | chosen | within 5 % of it | worst | trials | a search takes | noise of a trial |\n"
    )
    text += "|---|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    print(text)
    if not given.dry_run:
        write("tune", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
