"""--fix ends the leak and changes nothing else.

Every case with a safe fix: a second --fix finds nothing to do, the rule is silent on the fixed file, and where the case runs,
training ends with the same parameters, bit for bit, and keeps no more with each step.
"""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("yaml")

import reality_cases as reality

GRAPHS = [c["id"] for c in reality.of_kinds(reality.cases.load(("graphs_loaders",))[0])]


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="session")
def fixable(said):
    return {n: codes for n, findings in said["code"][1].items() if (codes := reality.safely_fixable(findings))}


def test_there_are_safe_fixes(fixable):
    assert len(fixable) >= 10


def test_fixed_files_differ_and_parse(said, fixable):
    before, after = contents(said["code"][0]), contents(said["repaired"][0])
    for name, text in after.items():
        assert text != before[name], name
        ast.parse(text)


def test_second_fix_changes_nothing(said, fixable):
    folder = said["repaired"][0]
    before = contents(folder)
    reality.fix(folder)
    assert contents(folder) == before


def test_rules_are_silent_after_their_fixes(said, fixable):
    again = {n: [f for f in said["repaired"][1][n] if f["code"] in codes] for n, codes in fixable.items()}
    assert not {
        n: [(f["code"], f["line"], f["message"]) for f in findings] for n, findings in again.items() if findings
    }


def result(ran, name, form):
    r = ran.get((name, form))
    if r is None:
        pytest.skip("no safe fix")
    if "missing" in r:
        pytest.skip(f"needs {r['missing']}")
    return r


@pytest.mark.parametrize("name", GRAPHS)
def test_training_is_the_same(name, ran):
    after, before = result(ran, name, "repaired"), result(ran, name, "code")
    assert after.get("error") == before.get("error")
    assert after.get("state") == before.get("state")


@pytest.mark.parametrize("name", GRAPHS)
def test_leak_is_gone(name, ran):
    after = result(ran, name, "repaired")
    if "error" in after:
        pytest.skip("does not run: test_training_is_the_same")
    assert not after["keeps"], after
