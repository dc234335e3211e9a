"""The cases with a graph fault, what torchvet says about them, and what happens when they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))

import cases  # noqa: E402

KINDS = ("graph-", "eval-", "rnn-", "hook-", "cache", "buffer", "retain", "backward-", "oversync")
CHECK = [sys.executable, "-m", "torchvet", "check", "--isolated", "--no-cache"]
LOUD = ("warning", "error")


def of_kinds(some: list[dict]) -> list[dict]:
    """Those with a graph fault, or that look like it."""
    return [c for c in some if c["lang"] == "python" and (c.get("kind") or c["looks_like"]).startswith(KINDS)]


def write(root: Path, texts: dict[str, dict[str, str]]) -> None:
    for name, files in texts.items():
        cases.put(root / name, files)


def check(root: Path, *options: str) -> dict[str, list[dict]]:
    """{folder below root: findings} of one run over root."""
    command = [*CHECK, "--output-format", "json", *options, "."]
    r = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    found: dict[str, list[dict]] = {p.name: [] for p in root.iterdir()}
    for finding in json.loads(r.stdout)["findings"]:
        assert finding["code"] != "TV009", finding["message"]
        found[finding["path"].split("/")[0]].append(finding)
    return found


def fix(root: Path) -> None:
    r = subprocess.run([*CHECK, "--fix", "--quiet", "."], cwd=root, capture_output=True, text=True, timeout=120)
    assert r.returncode in (0, 1), r.stderr


def run(jobs: list[dict]) -> dict[str, dict]:
    """{key: result} of run_forms.py, which says what a job and a result are."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    r = subprocess.run(
        [sys.executable, str(HERE / "run_forms.py")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    assert r.returncode == 0, r.stderr[-3000:]
    return {result["key"]: result for result in map(json.loads, r.stdout.splitlines())}


def graph_findings(findings: list[dict]) -> list[dict]:
    return [f for f in findings if f["code"].startswith("TV1") and f["severity"] in LOUD]


def safely_fixable(findings: list[dict]) -> set[str]:
    """Codes of the findings that --fix repairs."""
    return {f["code"] for f in findings if (f.get("fix") or {}).get("safe")}
