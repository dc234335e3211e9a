"""Machines that are formulas, with the noise of real ones: how often does a search pick what is best, and how long does it take?

The curves are shaped like those of loaders.py on two cores. Noise: a share of each measurement of a second (longer ones have
less), a drift that is slow against a trial, and now and then a trial that something else has slowed down.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from torchvet.tune.plan import Batch, Room, Setting
from torchvet.tune.search import Search, Trial

GRID = [
    Setting(0),
    *(Setting(w, p) for w in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32) for p in (2, 4, 8)),
]


def processor(s: Setting) -> float:
    """Two cores saturate; more workers cost a little."""
    return 100.0 if not s.workers else 96 * min(s.workers, 2) * (1 - 0.002 * max(0, s.workers - 2))


def declining(s: Setting) -> float:
    """As `processor`, but each worker beyond the cores costs 3 %."""
    return 100.0 if not s.workers else 96 * min(s.workers, 2) * 0.97 ** max(0, s.workers - 2)


def disk(s: Setting) -> float:
    """Waits side by side, until the consumer is the limit at about 24 workers."""
    if not s.workers:
        return 30.0
    return 1 / math.hypot(1 / (29 * s.workers), 1 / 700) * (1.01 if s.prefetch > 2 else 1)


def seeking(s: Setting) -> float:
    """A disk that serves six at a time, worse when more ask: the peak lies between two doublings."""
    return 30.0 if not s.workers else 29 * s.workers if s.workers <= 6 else 174 * (6 / s.workers) ** 0.25


def memory(s: Setting) -> float:
    """Bandwidth is the limit: one worker helps, more do harm."""
    return 52.0 if not s.workers else {1: 60.0, 2: 61.0}.get(s.workers, 60 * 0.985 ** (s.workers - 2))


def tiny(s: Setting) -> float:
    """The way through the queue costs more than the batch."""
    return 9000.0 if not s.workers else 500 + 40 * min(s.workers, 8)


def transport(s: Setting) -> float:
    """The queue costs more than one or two workers save, four and more are ahead."""
    return 100.0 if not s.workers else 32 * min(s.workers, 8)


def uneven(s: Setting) -> float:
    """Some batches take long: a deep queue hides them."""
    return (
        25.0 if not s.workers else 24 * min(s.workers, 8) * (0.8 if s.prefetch == 2 else 0.95 if s.prefetch == 4 else 1)
    )


def waiting_in_line(s: Setting) -> float:
    """Batches come in order, and the next worker's is late: each doubling of the queue gains 6 %, hardly more than noise."""
    if not s.workers:
        return 30.0
    return 1 / math.hypot(1 / (31 * s.workers), 1 / 2000) * {2: 0.888, 4: 0.938, 8: 1.0}[s.prefetch]


CURVES = {
    f.__name__: f for f in (processor, declining, disk, seeking, memory, tiny, transport, uneven, waiting_in_line)
}


@dataclass(slots=True)
class Machine:
    """Measures settings of one curve on a clock of its own. `noise`: standard deviation of a trial of one second."""

    curve: Callable[[Setting], float]
    noise: float
    seed: int
    drift: float = 0.0
    bursts: float = 0.0
    seconds: float = 1.0
    clock: float = 0.0
    trials: int = 0

    dice: random.Random = field(init=False)
    phase: float = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.phase = self.dice.uniform(0, 2 * math.pi)

    def measure(self, s: Setting) -> Trial:
        started = 0.05 + 0.06 * s.workers
        took = self.seconds + started + 0.1
        rate = self.curve(s) * math.exp(self.noise / math.sqrt(self.seconds) * self.dice.gauss(0, 1))
        rate *= 1 + self.drift * math.sin(self.phase + self.clock / 12)
        if self.dice.random() < self.bursts:
            rate *= self.dice.uniform(0.5, 0.9)
        self.clock += took
        self.trials += 1
        return Trial(s, rate=rate, started=started, worker=1 << 20)


@dataclass(slots=True)
class Score:
    """Over many repetitions: share within 5 % of the best, mean number of trials, mean and largest seconds."""

    good: float
    worst: float
    trials: float
    seconds: float
    longest: float


def score(
    name: str,
    noise: float,
    repeats: int,
    *,
    drift: float = 0.0,
    bursts: float = 0.0,
    budget: float = 120.0,
    seconds: float = 1.0,
) -> Score:
    curve = CURVES[name]
    best = max(map(curve, GRID))
    shares, trials, clocks = [], 0, []
    for seed in range(repeats):
        machine = Machine(curve, noise, seed, drift, bursts, seconds)
        search = Search(machine.measure, lambda: Room(2.0), Batch(bytes=4096), spent=lambda m=machine: m.clock > budget)
        chosen = search.run()
        assert chosen is not None
        shares.append(curve(chosen.setting) / best)
        trials += machine.trials
        clocks.append(machine.clock)
    return Score(
        sum(s >= 0.95 for s in shares) / repeats, min(shares), trials / repeats, sum(clocks) / repeats, max(clocks)
    )


if __name__ == "__main__":
    for noise, drift, bursts in (
        (0.0, 0, 0),
        (0.02, 0, 0),
        (0.05, 0, 0),
        (0.08, 0, 0),
        (0.05, 0.15, 0),
        (0.05, 0.1, 0.1),
        (0.08, 0.2, 0.15),
    ):
        print(f"noise {noise:.0%} drift {drift:.0%} bursts {bursts:.0%}")
        for name in CURVES:
            s = score(name, noise, 200, drift=drift, bursts=bursts)
            print(
                f"  {name:10} good {s.good:.3f} worst {s.worst:.2f} trials {s.trials:.1f} {s.seconds:.0f} s, at most {s.longest:.0f}"
            )
