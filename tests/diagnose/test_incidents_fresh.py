"""Jobs that failed in the ways that users name first: own runs with one fault each, and logs as schedulers, collectors
and frameworks leave them. Each YAML file holds the truth and the files; runs with dumps are in `incidents_more/`.

None of them had been seen when the truth was written.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from test_incidents import judged

from torchvet.diagnose.engine import diagnose

HERE = Path(__file__).parent
CASES = sorted((HERE / "incidents_fresh").glob("*.yaml"))
RUNS = HERE / "incidents_more"


def laid_out(path: Path, folder: Path) -> dict:
    """Write the evidence of a case; its truth."""
    truth = yaml.safe_load(path.read_text("utf-8"))
    for name, text in truth["files"].items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return truth


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_cause_ranks_and_silence(path, tmp_path):
    truth = laid_out(path, tmp_path / "job")
    found = diagnose([str(tmp_path / "job")])
    assert not judged(truth, found)
    assert not [p for p in found.inventory.problems if "torchvet failed" in str(p[1])]
    for h in found.verdicts + found.side_findings:
        for text in [h.summary, *(l.reason for l in h.supports + h.contradicts), *h.missing, *h.next]:
            assert text.render("en") and text.render("zh")
        assert re.search(r"[\u4e00-\u9fff]", h.summary.render("zh")), "no Chinese summary"


@pytest.mark.parametrize(
    "name, sub, words",
    [
        ("roots-gather-4-trace", "root", "rank 1 with root 1, ranks 0, 2, 3 with root 0"),
        ("roots-reduce-4-trace", "root", "rank 2 with root 2"),
        ("roots-objlist-2-run", "root", "which side is wrong cannot be told"),
        ("roots-broadcast-2-tree", "root", "ranks 0, 1 act as its root"),
        ("newgroup-members-only-4-trace", "new_group", "who differs cannot be told"),
        ("uneven-nojoin", "operation", "rank 1 in barrier, ranks 0, 2 in a collective within backward()"),
    ],
)
def test_what_differs_is_said(name, sub, words, tmp_path):
    folder = RUNS / name / "evidence"
    if not folder.exists():
        folder = tmp_path / "job"
        laid_out(HERE / "incidents_fresh" / f"{name}.yaml", folder)
    first = diagnose([str(folder)]).verdicts[0]
    assert first.sub == sub
    assert words in first.summary.render("en")


def test_roots_without_the_source(tmp_path):
    """Dumps alone show two roots of a gather, and a reduce that two ranks do not finish; not which one is wrong."""
    for name, words, sure in (
        ("roots-gather-4-trace", "act as its root", ("likely", "possible")),
        ("roots-reduce-4-trace", "all ranks called it", ("possible",)),
    ):
        folder = tmp_path / name
        hidden = shutil.ignore_patterns("src", "logs")
        shutil.copytree(RUNS / name / "evidence", folder, ignore=hidden)
        first = diagnose([str(folder)]).verdicts[0]
        assert (first.cause, first.sub) == ("collective-mismatch", "root")
        assert words in first.summary.render("en") and "cannot be told" in first.summary.render("en")
        assert first.confidence in sure
        assert any("every rank" in text.render("en") for text in first.missing)
