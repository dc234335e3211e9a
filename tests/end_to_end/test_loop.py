"""The loop of the verbs on real jobs: `run` keeps the evidence, `diagnose --code` names the line, `check` has its rule."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "TORCHVET_LANG": "en"}


def torchvet(*words: str, at: Path, limit: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchvet", *words]
    return subprocess.run(command, cwd=at, env=ENVIRONMENT, capture_output=True, encoding="utf-8", timeout=limit)


@pytest.fixture
def loop(tmp_path):
    """`loop(script, words of its launch)`: (answer of diagnose, findings of check) about a copy of its folder."""
    pytest.importorskip("torch")

    def go(script: Path, *launch: str, **changed: str) -> tuple[dict, list[dict]]:
        code = tmp_path / "code"
        shutil.copytree(script.parent, code)
        for path in code.glob("*.py"):
            text = path.read_text()
            for old, new in changed.values():  # time limits and lengths that suit a test
                text = text.replace(old, new)
            path.write_text(text)
        torchvet(
            "run", "--out", "../evidence", "--interval", "0.4", "--", sys.executable, *launch, script.name, at=code
        )
        said = torchvet("diagnose", "evidence", "--code", "code", "--output-format", "json", at=tmp_path)
        found = torchvet("check", ".", "--output-format", "json", "--isolated", "--no-cache", at=code)
        return json.loads(said.stdout), json.loads(found.stdout)["findings"]

    return go


def line_of(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def place(site: dict) -> tuple[str, int]:
    return Path(site["path"]).name, site["line"]


def test_rank_that_skips_a_batch(loop):
    script = HERE / "programs" / "skip.py"
    answer, findings = loop(script, *TORCHRUN)
    verdict = answer["verdicts"][0]
    assert verdict["cause"] in ("collective-mismatch", "uneven-inputs", "numeric-failure")
    assert place(verdict["site"]) == ("skip.py", line_of(script, "dist.all_reduce"))
    rule = next(f for f in findings if f["name"] == "local-skip")
    lines = {rule["line"], *(r["line"] for r in rule["related"])}
    assert verdict["site"]["line"] in lines and line_of(script, "if torch.isnan(loss)") in lines


def test_evaluation_on_one_rank(loop):
    script = ROOT / "examples" / "hang" / "train.py"
    answer, findings = loop(script, *TORCHRUN, limit=("seconds=30", "seconds=10"))
    verdict = answer["verdicts"][0]
    assert verdict["cause"] in ("collective-mismatch", "shape-mismatch")
    at = ("evaluation.py", line_of(script.with_name("evaluation.py"), "dist.all_reduce(error)"))
    assert place(verdict["site"]) == at
    assert at in {(f["path"], f["line"]) for f in findings if f["name"] == "rank-guarded-collective"}


def test_loss_that_keeps_its_graph(loop):
    """The job ends well: growth alone is no failure, and is told beside it."""
    script = ROOT / "examples" / "leak" / "train.py"
    answer, findings = loop(
        script, longer=("range(3)", "range(30)"), alone=("num_workers=os.cpu_count()", "num_workers=0")
    )
    assert answer["verdicts"] == []
    made = {line_of(script, "loss = criterion"), line_of(script, "loss.backward()")}
    told = {place(f["site"]) for f in answer["side_findings"] if f["site"]}
    assert told & {("train.py", n) for n in made}
    assert line_of(script, "total_loss += loss") in {f["line"] for f in findings if f["name"] == "accumulated-graph"}
