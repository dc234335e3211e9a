from __future__ import annotations

import importlib.util
import os

import pytest

HERE = os.path.dirname(__file__)
REPORT = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[REPORT] = []


@pytest.fixture(scope="session")
def lines(pytestconfig):
    """Lines for the end of the test run."""
    return pytestconfig.stash[REPORT]


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(REPORT, [])
    if report:
        terminalreporter.section("graph cases run on CPU torch")
        for line in report:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def torch_here():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")


@pytest.fixture(scope="session")
def said(tmp_path_factory):
    """What torchvet says: {"code", "fixed", "clean" or "repaired": (folder, {id: findings})}.

    `repaired` is `code` after --fix: only the cases with a safe fix.
    """
    import reality_cases as reality

    faulty, clean = reality.cases.load(("graphs_loaders", "hangs"))
    root = tmp_path_factory.mktemp("graphs")
    made = {"code": {c["id"]: reality.cases.texts(c) for c in faulty}}
    made["fixed"] = {c["id"]: reality.cases.texts(c, True) for c in reality.of_kinds(faulty)}
    made["clean"] = {c["id"]: reality.cases.texts(c) for c in reality.of_kinds(clean)}
    found = {}
    for form in ("code", "fixed", "clean"):
        reality.write(root / form, made[form])
        found[form] = root / form, reality.check(root / form)
    fixable = {name for name, findings in found["code"][1].items() if reality.safely_fixable(findings)}
    reality.write(root / "repaired", {name: made["code"][name] for name in fixable})
    reality.fix(root / "repaired")
    found["repaired"] = root / "repaired", reality.check(root / "repaired")
    return found


@pytest.fixture(scope="session")
def ran(torch_here, said):
    """{(id, form): what happened}, for the cases with a graph fault."""
    import reality_cases as reality

    faulty, clean = reality.cases.load(("graphs_loaders",))
    ids = {c["id"] for c in reality.of_kinds(faulty + clean)}
    jobs = [
        {"key": f"{name} {form}", "id": name, "path": str(next((folder / name).rglob("*.py")))}
        for form, (folder, found) in said.items()
        for name in found
        if name in ids
    ]
    return {tuple(key.split(" ")): result for key, result in reality.run(jobs).items()}
