from __future__ import annotations

import pytest

RANKS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[RANKS] = []


@pytest.fixture(scope="session")
def rank_lines(pytestconfig):
    """Lines for the end of the test run."""
    return pytestconfig.stash[RANKS]


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(RANKS, [])
    if report:
        terminalreporter.section("programs run on gloo ranks")
        for line in report:
            terminalreporter.write_line(line)
