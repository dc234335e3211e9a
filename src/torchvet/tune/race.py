"""Which of several settings is faster, from measurements that a busy machine disturbs (pure).

Settings are measured in rounds. What slows the machine for a while slows a whole round: a rate is taken as
`setting x round x noise`, fitted so that single bad measurements count little. The noise is estimated from what the fit
leaves, and says which differences are real.
"""

from __future__ import annotations

import math
import statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .plan import Setting

EXPECTED = 0.08
"""Noise of a measurement that is assumed before anything is known of it, worth `WORTH` measurements."""
WORTH = 2.0
SURE = 1.7
"""Standard errors of a difference that make it real: 95 % one way."""
STEADY = 1.5
"""Deviations from the fit, in standard deviations, up to which a measurement counts in full."""
PASSES = 12


class Race:
    """`add(turn, setting, rate)`, then ask."""

    def __init__(self) -> None:
        self.rounds: list[dict[Setting, float]] = []
        self.speed: dict[Setting, float] = {}  # logarithm of the rate
        self.weights: dict[Setting, float] = {}  # measurements, disturbed ones by less
        self.noise = EXPECTED
        self.stale = False

    def turn(self) -> int:
        """Begin a round; its number."""
        self.rounds.append({})
        return len(self.rounds) - 1

    def add(self, setting: Setting, rate: float) -> None:
        """A measurement of the current round."""
        self.rounds[-1][setting] = math.log(max(rate, 1e-9))
        self.stale = True

    def drop(self, setting: Setting) -> None:
        """Forget a setting: it failed later on."""
        for row in self.rounds:
            row.pop(setting, None)
        self.stale = True

    def rate(self, setting: Setting) -> float:
        self.fit()
        return math.exp(self.speed[setting]) if setting in self.speed else 0.0

    def difference(self, one: Setting, other: Setting) -> tuple[float, float]:
        """Logarithm of the ratio of two rates, and its standard error."""
        self.fit()
        error = self.noise * math.sqrt(1 / self.weights[one] + 1 / self.weights[other])
        return self.speed[one] - self.speed[other], error

    def fit(self) -> None:
        if not self.stale:
            return
        self.stale = False
        cells = [(r, s, y) for r, row in enumerate(self.rounds) for s, y in row.items()]
        if not cells:
            self.speed, self.weights = {}, {}
            return
        count = [1.0] * len(cells)
        turns = [0.0] * len(self.rounds)
        speed: dict[Setting, float] = {}
        for _ in range(PASSES):
            speed = averages([(s, y - turns[r], w) for (r, s, y), w in zip(cells, count)])
            # a round in which one setting was measured says nothing of the round
            told = averages([(r, y - speed[s], w) for (r, s, y), w in zip(cells, count) if len(self.rounds[r]) > 1])
            middle = statistics.fmean(told.values()) if told else 0.0
            turns = [told.get(r, middle) - middle for r in range(len(self.rounds))]
            rest = [abs(y - speed[s] - turns[r]) for r, s, y in cells]
            free = max(1, len(cells) - len(speed) - len(told) + 1)
            # zeros of settings that were measured once tell nothing
            often = sorted((x for x in rest if x > 1e-12), reverse=True)
            wide = max(0.01, 1.4826 * statistics.median(often[: 2 * free])) if often else EXPECTED
            count = [min(1.0, STEADY * wide / x) if x > 0 else 1.0 for x in rest]
        self.speed = speed
        self.weights = dict.fromkeys(speed, 0.0)
        for (_, s, _), w in zip(cells, count):
            self.weights[s] += w
        squares = sum(w * x * x for x, w in zip(rest, count))
        free = max(0, len(cells) - len(speed) - len(told) + 1)
        self.noise = math.sqrt((WORTH * EXPECTED**2 + squares) / (WORTH + free))


def averages(rows: list[tuple[object, float, float]]) -> dict:
    """The weighted mean of each key's values."""
    total: dict = {}
    for key, value, weight in rows:
        a, b = total.get(key, (0.0, 0.0))
        total[key] = a + weight * value, b + weight
    return {key: a / b for key, (a, b) in total.items()}
