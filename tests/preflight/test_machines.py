"""Recorded machines: every one gets the verdicts that its expected.toml names, and no alarm besides.

[plan]       what is known of the job: keys of Plan, as numbers or sizes ("31MB")
[verdicts]   probe -> pass, warn, fail, unknown, or none (does not apply); every warn and fail must be named
[says]       probe -> a part of its message or fix, in English
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

from torchvet.preflight.node import examine
from torchvet.preflight.plan import Loader, Plan
from torchvet.preflight.probe import load, probe_names
from torchvet.preflight.quantity import parse_size
from torchvet.preflight.recorded import Recorded

MACHINES = Path(__file__).parent / "machines"
NAMES = sorted(p.parent.name for p in MACHINES.glob("*/expected.toml"))


def expected(name: str) -> dict:
    return tomllib.loads((MACHINES / name / "expected.toml").read_text("utf-8"))


def plan_of(table: dict) -> Plan:
    values = {k: parse_size(v) if k.endswith("_bytes") and isinstance(v, str) else v for k, v in table.items()}
    if "loaders" in values:
        rows = [
            {k: parse_size(v) if k.endswith("_bytes") and isinstance(v, str) else v for k, v in row.items()}
            for row in values["loaders"]
        ]
        values["loaders"] = [Loader(**row) for row in rows]
    return Plan(**values)


@cache
def judged(name: str) -> list:
    return examine(Recorded(str(MACHINES / name)), plan_of(expected(name).get("plan", {}))).results


def worst(results: list) -> dict[str, str]:
    order = ("pass", "unknown", "warn", "fail")
    out: dict[str, str] = {}
    for r in results:
        if r.probe not in out or order.index(r.verdict) > order.index(out[r.probe]):
            out[r.probe] = r.verdict
    return out


@pytest.mark.parametrize("name", NAMES)
def test_machine(name):
    wanted = expected(name)
    results = judged(name)
    found = worst(results)
    crashed = [r for r in results if "the probe failed" in str(r.message)]
    assert not crashed, crashed
    for probe, verdict in wanted.get("verdicts", {}).items():
        assert probe in probe_names(), f"{probe} is no probe"
        said = [f"{r.message} | {r.fix}" for r in results if r.probe == probe]
        assert found.get(probe, "none") == verdict, f"{probe}: {said}"
    alarms = {p: [str(r.message) for r in results if r.probe == p] for p, v in found.items() if v in ("warn", "fail")}
    unexpected = {p: m for p, m in alarms.items() if p not in wanted.get("verdicts", {})}
    assert not unexpected, f"alarms that expected.toml does not name: {unexpected}"
    for probe, part in wanted.get("says", {}).items():
        said = [f"{r.message} | {r.fix}" for r in results if r.probe == probe]
        assert any(part in s for s in said), f"{probe} says {said}"


@pytest.fixture(scope="module")
def seen() -> dict[str, set[str]]:
    """Probe -> verdicts that some machine gets."""
    out: dict[str, set[str]] = {}
    for name in NAMES:
        for r in judged(name):
            out.setdefault(r.probe, set()).add(r.verdict)
    return out


@pytest.mark.parametrize("probe", probe_names())
def test_probe_has_a_machine_with_a_fault_and_one_without(probe, seen):
    assert "pass" in seen.get(probe, ()), "no machine where it passes"
    if not load(probe).informs:  # what only informs has no fault to show
        assert seen[probe] & {"warn", "fail"}, "no machine where it warns or fails"
