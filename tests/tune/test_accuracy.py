"""How often a search picks a setting within 5 % of the best one, on machines that are formulas with the noise of real ones."""

from __future__ import annotations

import pytest
from machines import CURVES, score


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(
    ("noise", "drift", "bursts", "least"),
    [
        (0.0, 0.0, 0.0, 1.0),
        (0.02, 0.0, 0.0, 0.97),
        (0.05, 0.0, 0.0, 0.9),
        (0.05, 0.15, 0.0, 0.8),  # everything is up to 15 % slower, then faster, within minutes
        (0.05, 0.1, 0.1, 0.66),  # one trial in ten is slowed by up to a half
    ],
)
def test_choice_is_within_5_percent(name, noise, drift, bursts, least):
    found = score(name, noise, 40, drift=drift, bursts=bursts)
    assert found.good >= least
    assert found.longest < 130, "the budget holds"


@pytest.mark.parametrize("name", CURVES)
def test_a_search_takes_a_minute_or_two(name):
    assert score(name, 0.03, 20).seconds < 100
