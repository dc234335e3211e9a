"""What torchvet reports as a leak is one: the faulty form keeps a graph, the repaired form does not.

Nothing here knows the rules. A case runs on CPU torch in a process of its own (run_forms.py), and what is alive afterwards
is counted (graph_meter.py). `drivers.py` says for each case what shows its fault.
"""

from __future__ import annotations

import pytest

pytest.importorskip("yaml")

import reality_cases as reality

FAULTY, CLEAN = map(reality.of_kinds, reality.cases.load(("graphs_loaders",)))
IDS = [c["id"] for c in FAULTY]
# faults of another sort than memory
NOT_RUN = {"A043": "costs time on a GPU, no memory", "A044": "costs time on a GPU, no memory"}

# the faulty form keeps a graph and then runs into it: it ends at its second step, and nothing can pile up
AGAIN = "Trying to backward through the graph a second time"
RUNS_INTO_IT = ("RG607", "RJ630", "RJ632", "RG632", "RG633", "RG634", "RG635", "RG636")


def outcome(ran, name, form):
    if name in NOT_RUN:
        pytest.skip(NOT_RUN[name])
    result = ran[name, form]
    if form == "code" and name in RUNS_INTO_IT and "missing" not in result:
        assert AGAIN in result.get("error", ""), result
        pytest.skip("its second backward fails over the kept graph")
    if "missing" in result:
        pytest.skip(f"needs {result['missing']}")
    assert "error" not in result, result["error"]
    return result


@pytest.mark.parametrize("name", IDS)
def test_faulty_form_keeps_a_graph(name, ran):
    assert outcome(ran, name, "code")["keeps"], ran[name, "code"]


@pytest.mark.parametrize("name", IDS)
def test_repaired_form_keeps_nothing(name, ran):
    assert not outcome(ran, name, "fixed")["keeps"], ran[name, "fixed"]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("form", ["code", "fixed"])
def test_what_is_reported_is_so(name, form, said, ran):
    """No verdict goes further than what happens. What is missed is listed at the end of the run."""
    reported = reality.graph_findings(said[form][1][name])
    if reported:
        assert outcome(ran, name, form)["keeps"], [f["message"] for f in reported]


@pytest.mark.parametrize("name", IDS)
def test_error_means_activations(name, said, ran):
    """Backward frees the activations; who keeps the nodes alone loses host memory, which is a warning."""
    kept = [f for f in said["code"][1][name] if f["code"] in ("TV101", "TV102", "TV103") and f["severity"] == "error"]
    if kept:
        few, many = outcome(ran, name, "code")["bytes"]
        assert many > few, [f["message"] for f in kept]


@pytest.mark.parametrize("case", CLEAN, ids=lambda c: c["id"])
def test_clean_program_keeps_nothing(case, said, ran):
    assert not outcome(ran, case["id"], "clean")["keeps"]
    assert not reality.graph_findings(said["clean"][1][case["id"]])


NO_MORE_WITH_STEPS = {
    "A016": "one graph is kept, not one a step", "A038": "one graph is kept, not one a step",
    "A040": "one graph is kept, not one a step", "A037": "backward frees late, nothing stays",
    "RG502": "backward frees late, nothing stays",
    "A024": "forwards without a backward, nothing stays", "A025": "forwards without a backward, nothing stays",
    "A026": "forwards without a backward, nothing stays",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in IDS if n not in NO_MORE_WITH_STEPS])
def test_probe_of_a_run_names_the_line(name, ran):
    """What piles up is named by a line of the case (or of what the case is given) where its graphs are made."""
    assert outcome(ran, name, "code")["made"]
    assert not ran[name, "fixed"]["made"]


@pytest.mark.parametrize("case", CLEAN, ids=lambda c: c["id"])
def test_probe_of_a_run_is_silent_on_clean_programs(case, ran):
    assert not outcome(ran, case["id"], "clean")["made"]


def test_most_cases_run(said, ran, lines):
    done = [n for n in IDS if n not in NOT_RUN and "keeps" in ran[n, "code"]]
    missed = [n for n in done if ran[n, "code"]["keeps"] and not reality.graph_findings(said["code"][1][n])]
    lines.append(f"{len(done)} of {len(IDS)} run")
    lines += [f"{n} not run: {why}" for n, why in NOT_RUN.items()]
    for n in IDS:
        if n not in NOT_RUN and n not in done:
            lines.append(f"{n} not run: {ran[n, 'code'].get('error') or 'needs ' + ran[n, 'code']['missing']}")
    lines.append(f"keep a graph and are not reported: {', '.join(missed) or 'none'}")
    assert len(done) >= 26
