"""Runs the case programs in a process of its own and prints one JSON line: {id: {"code"|"fixed": [at 4 steps, at 16]}}."""

from __future__ import annotations

import json
import os
import sys

import yaml

sys.path.insert(0, os.path.dirname(__file__))
import case_drivers
from live_graphs import measure

CASES = os.path.join(os.path.dirname(__file__), "..", "cases", "data", "graphs_loaders.yaml")


def main() -> None:
    with open(CASES, encoding="utf-8") as f:
        cases = {c["id"]: c for c in yaml.safe_load(f)}
    out = {}
    for name, driver in {**case_drivers.GROWING, **case_drivers.PEAK}.items():
        if name not in cases:
            continue
        out[name] = {}
        for variant in ("code", "fixed"):
            rows = []
            for steps in (4, 16):
                names: dict = {"__name__": "case"}
                exec(compile(cases[name][variant], f"{name}.{variant}.py", "exec"), names)
                rows.append(measure(lambda n, names=names, driver=driver: driver(names, n), steps))
            out[name][variant] = rows
    print(json.dumps(out))


if __name__ == "__main__":
    main()
