"""Known misses and known false alarms of the pages are counted and shown at the end of the run."""

from __future__ import annotations

from page_blocks import known


def pytest_terminal_summary(terminalreporter):
    for what, places in known.items():
        if places:
            terminalreporter.write_line(f"rule pages, {what}: {len(places)} ({', '.join(places)})")
