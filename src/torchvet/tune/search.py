"""Which setting to take: trials one after the other, the next by what the last ones showed.

Workers first (0, 1, 2, 4 ... while it helps, then between the best and the one below), then prefetch where batches
differ much in time, pinning where there is a GPU, workers that persist where starting them takes long. The smallest
setting within 2 % of the best wins; what is close is measured again, in changing order, until it is apart or the
budget is spent.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from .plan import Batch, Room, Setting, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from torchvet.findings import Text

CLOSE = 0.02
"""Settings this close to the best are as good as it: the smallest is taken."""
GAIN = 0.02
"""What a doubling of workers must gain for the next one to be tried."""
MOST_WORKERS = 32
UNEVEN = 2.0
"""Ratio of the 95th percentile to the median of batch times from which on a deeper prefetch is tried."""
START_SHARE = 0.05
"""Share of an epoch that starting the workers may take before they had better stay."""
ROUNDS = 3
"""Measurements of each setting that is close to the best."""


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
        """A further measurement of the same setting: the median counts."""
        self.rates.append(other.rate)
        share = [self.waiting * (len(self.rates) - 1), other.waiting]
        self.waiting = sum(share) / len(self.rates)
        self.rate = statistics.median(self.rates)
        self.shm, self.resident = max(self.shm, other.shm), max(self.resident, other.resident)
        self.started = min(self.started, other.started)
        self.failed = self.failed or other.failed


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

    def try_(self, setting: Setting) -> Trial:
        """The trial of a setting, refused before it starts when the machine has no room for it."""
        if setting in self.trials:
            return self.trials[setting]
        why = refusal(setting, self.batch, self.free())
        trial = Trial(setting, failed=why) if why is not None else self.measure(setting)
        if not trial.failed:
            trial.rates = [trial.rate]
            self.batch.resident = max(self.batch.resident, trial.worker)
        self.trials[setting] = trial
        self.tell(trial)
        return trial

    def best(self) -> Trial | None:
        good = [t for t in self.trials.values() if not t.failed]
        return max(good, key=lambda t: t.rate) if good else None

    def chosen(self) -> Trial | None:
        """The smallest setting within `CLOSE` of the best; None when nothing worked."""
        best = self.best()
        if best is None:
            return None
        close = [t for t in self.trials.values() if not t.failed and t.rate >= best.rate * (1 - CLOSE)]
        return min(close, key=lambda t: t.setting.weight)

    def run(self) -> Trial | None:
        self.workers()
        for step in (self.context, self.prefetch, self.pinning, self.persisting, self.again):
            if not self.spent():
                step()
        return self.chosen()

    def workers(self) -> None:
        last = self.try_(Setting(0))
        count, missed = 1, 0
        while count <= self.most and missed < 2 and not self.spent():
            trial = self.try_(Setting(count))
            if trial.failed:
                break
            # one flat step can be noise, or two ranks' worth of workers on one CPU: two are the end
            missed = missed + 1 if trial.rate < last.rate * (1 + GAIN) else 0
            last = trial if trial.rate > last.rate else last
            if trial.waiting < 0.005:
                break
            count *= 2
        chosen = self.chosen()
        if chosen is None or self.spent():
            return
        # between the best and the doublings beside it
        n = chosen.setting.workers
        for between in sorted({(n // 2 + n) // 2, n + n // 2 if n < self.most else n}):
            if n // 2 < between < 2 * n and between != n and not self.spent():
                self.try_(Setting(between))

    def context(self) -> None:
        chosen = self.chosen()
        if chosen is not None and chosen.setting.workers:
            for name in self.contexts:
                if name and not self.spent():
                    self.try_(replace(chosen.setting, context=name))

    def prefetch(self) -> None:
        chosen = self.chosen()
        if chosen is None or not chosen.setting.workers or (chosen.waiting < 0.01 and chosen.spread < UNEVEN):
            return
        for depth in (4, 8):
            trial = self.try_(replace(chosen.setting, prefetch=depth))
            if self.spent() or trial.failed or trial.rate < chosen.rate * (1 + GAIN):
                return
            chosen = trial

    def pinning(self) -> None:
        chosen = self.chosen()
        if chosen is not None and self.gpu:
            self.try_(replace(chosen.setting, pin=True))

    def persisting(self) -> None:
        """Workers that stay save their start each epoch; how long an epoch is, the loader tells."""
        chosen = self.chosen()
        if chosen is None or not chosen.setting.workers:
            return
        epoch = self.batches / chosen.rate if self.batches and chosen.rate else 0.0
        if chosen.started > START_SHARE * epoch:
            trial = replace_trial(chosen, replace(chosen.setting, persistent=True))
            self.trials.setdefault(trial.setting, trial)
            del self.trials[chosen.setting]

    def again(self) -> None:
        """Measure what is close to the best anew, forth and back."""
        for turn in range(ROUNDS - 1):
            best = self.best()
            if best is None:
                return
            close = [t for t in self.trials.values() if not t.failed and t.rate >= best.rate * (1 - 3 * CLOSE)]
            close.sort(key=lambda t: t.setting.weight, reverse=bool(turn % 2))
            if len(close) < 2:
                return
            for trial in close[:5]:
                if self.spent():
                    return
                more = self.measure(trial.setting)
                if not more.failed:
                    trial.add(more)


def replace_trial(trial: Trial, setting: Setting) -> Trial:
    return replace(trial, setting=setting)
