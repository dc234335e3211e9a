"""Which setting to take: trials one after the other, the next by what the last ones showed.

First a climb: 0, 1, 2, 4 ... workers while it helps. Then a race among what may still be best: its neighbours (between
the doublings, a deeper prefetch, pinned memory where there is a GPU, other start methods) join in, all are measured
again in rounds of changing order, and what is surely slower, or larger and surely not faster, drops out. The smallest
setting within 2 % of the best wins. Last, workers persist where starting them takes long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from .plan import Batch, Room, Setting, refusal
from .race import SURE, Race

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from torchvet.findings import Text

CLOSE = 0.02
"""Settings this close to the best are as good as it: the smallest is taken."""
WORTHWHILE = 0.03
"""What a larger setting must promise beyond the leader's rate to be measured again."""
GAIN = 0.02
"""What a doubling of workers must gain for the next one to be tried."""
GROWING = 1.25
"""Gain over the doubling before with which more workers may still overtake few."""
MOST_WORKERS = 32
UNEVEN = 2.0
"""Ratio of the 95th percentile to the median of batch times from which on a deeper prefetch is tried."""
DEEPEST = 8
START_SHARE = 0.05
"""Share of an epoch that starting the workers may take before they had better stay."""
ROUNDS = 9
"""Measurements of a setting at most, after the first."""
FIELD = 5
"""Settings of a round at most: the fastest so far."""
NEAR = -0.7
"""Logarithm of the ratio to the leader's rate, a half, above which a setting serves to learn the noise."""
TURNS = 4
"""How often the neighbours of a new leader may join."""


@dataclass(slots=True)
class Trial:
    """What one setting measured. Times in seconds, sizes in bytes. `failed`: it did not work here, and why."""

    setting: Setting
    waiting: float = 1.0  # share of the time that the loop waits for its batch
    rate: float = 0.0  # batches a second
    shm: int = 0
    resident: int = 0
    worker: int = 0  # memory of the largest worker
    started: float = 0.0  # seconds to the first batch
    spread: float = 1.0  # 95th percentile of batch times over their median
    busy: float = 0.0  # CPU seconds of all workers for each second
    rates: list[float] = field(default_factory=list)
    failed: Text | None = None

    def add(self, other: Trial) -> None:
        """A further measurement of the same setting. (The rate that counts is the race's.)"""
        self.rates.append(other.rate)
        n = len(self.rates)
        self.waiting += (other.waiting - self.waiting) / n
        self.spread += (other.spread - self.spread) / n
        self.busy += (other.busy - self.busy) / n
        self.shm, self.resident = max(self.shm, other.shm), max(self.resident, other.resident)
        self.started = min(self.started, other.started)


class Search:
    """`measure(setting)` runs one trial; `spent()` says whether the budget is used up; `tell(trial)` shows progress."""

    def __init__(
        self,
        measure: Callable[[Setting], Trial],
        free: Callable[[], Room],
        batch: Batch,
        *,
        gpu: bool = False,
        batches: int | None = None,
        most: int = MOST_WORKERS,
        contexts: tuple[str, ...] = ("",),
        spent: Callable[[], bool] = lambda: False,
        tell: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self.measure = measure
        self.free = free
        self.batch = batch
        self.gpu = gpu
        self.batches = batches
        self.most = most
        self.contexts = contexts
        self.spent = spent
        self.tell = tell
        self.trials: dict[Setting, Trial] = {}
        self.race = Race()

    def try_(self, setting: Setting) -> Trial:
        """A trial of a setting, refused before it starts when the machine has no room for it."""
        known = self.trials.get(setting)
        if known is not None and known.failed:
            return known
        why = refusal(setting, self.batch, self.free())
        trial = Trial(setting, failed=why) if why is not None else self.measure(setting)
        if trial.failed:
            self.trials[setting] = trial
            self.race.drop(setting)
        else:
            self.race.add(setting, trial.rate)
            self.batch.resident = max(self.batch.resident, trial.worker)
            if known is None:
                self.trials[setting], trial.rates = trial, [trial.rate]
            else:
                known.add(trial)
        self.tell(trial)
        return self.trials[setting]

    def good(self) -> list[Trial]:
        """The trials that worked, their rates as the race has them."""
        out = [t for t in self.trials.values() if not t.failed]
        for t in out:
            t.rate = self.race.rate(t.setting) or t.rate
        return out

    def chosen(self) -> Trial | None:
        """The smallest setting within `CLOSE` of the best; None when nothing worked."""
        good = self.good()
        if not good:
            return None
        best = max(t.rate for t in good)
        return min((t for t in good if t.rate >= best * (1 - CLOSE)), key=lambda t: t.setting.weight)

    def run(self) -> Trial | None:
        self.climb()
        for _ in range(TURNS):
            joined = self.neighbours()
            self.settle(joined)
            if not joined or self.spent():
                break
        self.persisting()
        return self.chosen()

    # ------------------------------------------------------------------------------------------------- climb
    def climb(self) -> None:
        self.race.turn()
        best = last = self.try_(Setting(0)).rate
        count, missed = 1, 0
        cores = 2 * self.free().cpus_per_rank
        # up to twice the CPUs only what is far behind ends it: on a busy machine two bad measurements are no news
        while count <= self.most and not self.spent():
            if missed >= 2 and (count > cores or last < best / 2):
                break
            trial = self.try_(Setting(count))
            if trial.failed:
                break
            # one flat step can be noise, or two ranks' worth of workers on one CPU: two are the end. Few workers may
            # cost more than they save; while each doubling gains much, more may be ahead
            helps = trial.rate >= best * (1 + GAIN) or (count > 1 and trial.rate >= last * GROWING)
            missed = 0 if helps else missed + 1
            best, last = max(best, trial.rate), trial.rate
            if trial.waiting < 0.005:
                break
            count *= 2

    # ------------------------------------------------------------------------------------------------- race
    def neighbours(self) -> list[Setting]:
        """Settings beside the one that leads which nobody has tried."""
        chosen = self.chosen()
        if chosen is None or not chosen.setting.workers:
            return (
                [replace(chosen.setting, pin=True)]
                if chosen is not None and self.gpu and self.untried(replace(chosen.setting, pin=True))
                else []
            )
        s = chosen.setting
        n = s.workers
        out = []
        if n & (n - 1) == 0:  # a doubling
            out += [replace(s, workers=w) for w in (3 * n // 4, 3 * n // 2) if 0 < w <= self.most and w != n]
        if s.prefetch < DEEPEST and (chosen.waiting >= 0.01 or chosen.spread >= UNEVEN):
            # one doubling may gain too little to be told from noise, and hide what two would gain
            out += [replace(s, prefetch=p) for p in (2 * s.prefetch, 4 * s.prefetch) if p <= DEEPEST]
        out += [replace(s, context=name) for name in self.contexts if name]
        if self.gpu:
            out.append(replace(s, pin=True))
        return [x for x in out if self.untried(x)]

    def untried(self, setting: Setting) -> bool:
        return setting not in self.trials

    def settle(self, joined: list[Setting]) -> None:
        """Rounds over what may still be the one to take, forth and back, until it is apart."""
        for turn in range(ROUNDS):
            field = [*self.field(), *(joined if turn == 0 else ())]
            if len(field) < 2:
                return
            self.race.turn()
            field.sort(key=lambda s: s.weight, reverse=bool(len(self.race.rounds) % 2))
            for setting in field:
                if self.spent():
                    return
                self.try_(setting)

    def field(self) -> list[Setting]:
        """The setting that leads and those that may still replace it: smaller ones that may be as good, larger ones
        that may be better. As long as nothing was measured twice the noise is only assumed: then also the two next."""
        chosen = self.chosen()
        if chosen is None:
            return []
        lead = chosen.setting
        unknown = all(len(t.rates) < 2 for t in self.good())
        rivals = []
        for t in self.good():
            if t.setting == lead or len(t.rates) > ROUNDS:
                continue
            ahead, error = self.race.difference(t.setting, lead)
            needed = math.log1p(-CLOSE if t.setting.weight < lead.weight else WORTHWHILE)
            if ahead + SURE * error > needed or (unknown and ahead > NEAR):
                rivals.append((ahead + SURE * error - needed, t.setting))
        rivals.sort(key=lambda row: -row[0])
        sure = sum(promise > 0 for promise, _ in rivals)
        return [lead, *(s for _, s in rivals[: min(FIELD - 1, max(sure, 2))])]

    # ------------------------------------------------------------------------------------------------- epochs
    def persisting(self) -> None:
        """Workers that stay save their start each epoch; how long an epoch is, the loader tells."""
        chosen = self.chosen()
        if chosen is None or not chosen.setting.workers:
            return
        epoch = self.batches / chosen.rate if self.batches and chosen.rate else 0.0
        if chosen.started > START_SHARE * epoch:
            trial = replace(chosen, setting=replace(chosen.setting, persistent=True))
            self.trials.setdefault(trial.setting, trial)
            del self.trials[chosen.setting]
