"""Baseline, changed lines and repairs through the command line, on real files and real git repositories."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

LEAK = "for x in data:\n    total += loss\n"
BASELINE = "torchvet-baseline.json"


def found(outcome) -> list[tuple[str, int]]:
    return [(f["name"], f["line"]) for f in json.loads(outcome.out)["findings"]]


# ------------------------------------------------------------------------------------------------------------- baseline
def test_the_life_of_a_baseline(fake, torchvet):
    train = fake / "train.py"
    train.write_text(LEAK)
    written = torchvet("check", "--write-baseline", BASELINE)
    assert (written.code, written.out) == (0, "")
    assert f"wrote 1 findings to {BASELINE}" in written.err
    assert torchvet("check", "--baseline", BASELINE).code == 0

    train.write_text("import torch\n\n" + LEAK + "guarded()\n")  # lines move, one is new
    outcome = torchvet("check", "--baseline", BASELINE, "--output-format", "json")
    assert outcome.code == 1
    assert found(outcome) == [("rank-guarded-collective", 5)]

    train.write_text("import torch\n")  # repaired: the entry is stale
    outcome = torchvet("check", "--baseline", BASELINE, "--output-format", "json")
    assert outcome.code == 0
    assert found(outcome) == [("stale-baseline", 2)]
    assert torchvet("check", "--baseline", BASELINE, "--strict").code == 1

    pruned = torchvet("check", "--baseline", BASELINE, "--prune-baseline", "--strict")
    assert pruned.code == 0
    assert "took 1 entries out" in pruned.err
    assert json.loads((fake / BASELINE).read_text())["findings"] == []
    train.write_text(LEAK)
    assert torchvet("check", "--baseline", BASELINE).code == 1


def test_a_baseline_is_sorted_and_has_one_finding_per_line(fake, torchvet):
    (fake / "b.py").write_text("risky()\ntotal += loss\n")
    (fake / "a.py").write_text(LEAK)
    torchvet("check", "--write-baseline", BASELINE)
    first = (fake / BASELINE).read_bytes()
    rows = [json.loads(line.rstrip(",")) for line in first.decode().splitlines()[1:-1]]
    assert [(r["path"], r["rule"]) for r in rows] == [
        ("a.py", "accumulated-graph"), ("b.py", "accumulated-graph"), ("b.py", "stored-graph"),
    ]  # fmt: skip
    assert set(rows[0]) == {"rule", "path", "scope", "fingerprint", "line"}
    torchvet("check", "--write-baseline", BASELINE)
    assert (fake / BASELINE).read_bytes() == first


def test_one_more_of_the_same_is_new(fake, torchvet):
    (fake / "train.py").write_text("total += loss\n")
    torchvet("check", "--write-baseline", BASELINE)
    (fake / "train.py").write_text("total += loss\ntotal += loss\n")
    assert len(found(torchvet("check", "--baseline", BASELINE, "--output-format", "json"))) == 1


def test_a_baseline_of_the_settings_is_found_from_any_folder(fake, torchvet, monkeypatch):
    (fake / "torchvet.toml").write_text(f'baseline = "{BASELINE}"\n')
    sub = fake / "sub"
    sub.mkdir()
    (sub / "train.py").write_text(LEAK)
    torchvet("check", "--write-baseline", BASELINE)
    monkeypatch.chdir(sub)
    assert torchvet("check").code == 0
    assert torchvet("check", "--isolated").code == 1


def test_entries_of_files_and_rules_that_were_not_checked_stay(fake, torchvet):
    (fake / "a.py").write_text(LEAK)
    (fake / "b.py").write_text("risky()\n")
    torchvet("check", "--write-baseline", BASELINE)
    (fake / "b.py").write_text("x = 1\n")
    (fake / "a.py").write_text("x = 1\n")
    assert (
        found(torchvet("check", "a.py", "--baseline", BASELINE, "--select", "TV102", "--output-format", "json")) == []
    )
    torchvet("check", "a.py", "--baseline", BASELINE, "--prune-baseline")
    assert [r["path"] for r in json.loads((fake / BASELINE).read_text())["findings"]] == ["b.py"]
    (fake / "c.py").write_text(LEAK)
    torchvet("check", "c.py", "--write-baseline", BASELINE)
    assert [r["path"] for r in json.loads((fake / BASELINE).read_text())["findings"]] == ["b.py", "c.py"]
    (fake / "b.py").unlink()  # a file that is gone needs no entry
    torchvet("check", "a.py", "--baseline", BASELINE, "--prune-baseline")
    assert [r["path"] for r in json.loads((fake / BASELINE).read_text())["findings"]] == ["c.py"]


def test_hidden_findings_do_not_make_entries_stale(fake, torchvet):
    (fake / "train.py").write_text("risky()\n")
    torchvet("check", "--write-baseline", BASELINE)
    assert found(torchvet("check", "--baseline", BASELINE, "--severity", "error", "--output-format", "json")) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"findings": [1]}', "", '{"schema": 1}'])
def test_a_broken_baseline_is_named(fake, torchvet, text):
    (fake / BASELINE).write_text(text)
    outcome = torchvet("check", "--baseline", BASELINE)
    assert outcome.code == 2
    assert f"{BASELINE}" in outcome.err
    assert "is no torchvet baseline" in outcome.err


def test_a_crash_is_never_baselined(fake, torchvet):
    (fake / "train.py").write_text("crash()\n")
    assert torchvet("check", "--write-baseline", BASELINE).code == 2
    assert json.loads((fake / BASELINE).read_text())["findings"] == []


# -------------------------------------------------------------------------------------------------------- changed lines
@pytest.fixture
def repository(fake):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *words],
            cwd=fake, check=True, capture_output=True,
        )  # fmt: skip

    git("init", "-b", "main")
    (fake / "train.py").write_text("total += loss\n\n\nx = 1\n")
    (fake / "helper.py").write_text("barrier()\n\n\ny = 1\n")
    git("add", ".")
    git("commit", "-m", "one")
    return fake, git


def test_diff_reports_changed_lines_only(repository, torchvet):
    folder, _ = repository
    assert torchvet("check", "--diff", "HEAD").code == 0
    (folder / "train.py").write_text("total += loss\n\n\nx = 1\ntotal += loss\n")
    outcome = torchvet("check", "--diff", "HEAD", "--output-format", "json")
    assert (outcome.code, found(outcome)) == (1, [("accumulated-graph", 5)])


def test_diff_sees_new_files(repository, torchvet):
    folder, _ = repository
    (folder / "new file é.py").write_text(LEAK)
    assert found(torchvet("check", "--diff", "HEAD", "--output-format", "json")) == [("accumulated-graph", 2)]


def test_diff_against_a_branch_ignores_what_happened_there_since(repository, torchvet):
    folder, git = repository
    git("checkout", "-b", "feature")
    (folder / "train.py").write_text("total += loss\n\n\nx = 1\nrisky()\n")
    git("commit", "-am", "feature")
    git("checkout", "main")
    (folder / "helper.py").write_text("barrier()\n\n\ny = 2\n")
    git("commit", "-am", "two")
    git("checkout", "feature")
    assert found(torchvet("check", "--diff", "main", "--output-format", "json")) == [("stored-graph", 5)]


def test_diff_counts_related_places(repository, torchvet):
    folder, git = repository
    (folder / "train.py").write_text("guarded()\n\n\nx = 1\n")
    git("commit", "-am", "two")
    assert torchvet("check", "--diff", "HEAD").code == 0
    (folder / "helper.py").write_text("all_reduce()\n\n\ny = 1\n")  # where the others wait
    assert found(torchvet("check", "--diff", "HEAD", "--output-format", "json")) == [("rank-guarded-collective", 1)]


def test_diff_works_from_a_sub_folder(repository, torchvet, monkeypatch):
    folder, git = repository
    (folder / "sub").mkdir()
    (folder / "sub" / "a.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-m", "two")
    (folder / "sub" / "a.py").write_text("risky()\n")
    monkeypatch.chdir(folder / "sub")
    assert found(torchvet("check", "--diff", "HEAD", "--output-format", "json")) == [("stored-graph", 1)]


def test_diff_needs_a_known_commit(repository, torchvet):
    outcome = torchvet("check", "--diff", "origin/nowhere")
    assert outcome.code == 2
    assert "git knows no commit origin/nowhere (in CI, fetch it first: git fetch origin nowhere)" in outcome.err
    assert torchvet("check", "--diff=--output=x").code == 2


def test_diff_needs_a_repository(fake, torchvet):
    (fake / "train.py").write_text(LEAK)
    outcome = torchvet("check", "--diff", "HEAD")
    assert outcome.code == 2
    assert "--diff needs a git repository" in outcome.err


def test_diff_needs_git(repository, torchvet, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "--diff needs git" in torchvet("check", "--diff", "HEAD").err


# -------------------------------------------------------------------------------------------------------------- repairs
def test_fix_repairs_and_reports_what_is_left(fake, torchvet):
    (fake / "train.py").write_text(LEAK + "risky()\n")
    outcome = torchvet("check", "--fix", "--output-format", "json")
    assert (fake / "train.py").read_text() == "for x in data:\n    total += loss.detach()\nrisky()\n"
    assert found(outcome) == [("stored-graph", 3)]
    assert "fixed 1 in 1 files (1 accumulated-graph), 1 left" in outcome.err
    assert outcome.code == 1
    again = torchvet("check", "--fix")
    assert "fixed" not in again.err


def test_unsafe_fixes_are_asked_for(fake, torchvet):
    (fake / "train.py").write_text(LEAK + "risky()\n")
    assert torchvet("check", "--fix", "--unsafe-fixes").code == 0
    assert (fake / "train.py").read_text().endswith("careful()\n")


def test_fix_repairs_only_what_is_reported(fake, torchvet):
    text = "total += loss\ntotal += loss  # torchvet: ignore[TV101] the sum is used\n"
    (fake / "train.py").write_text(text)
    assert torchvet("check", "--fix", "--ignore", "TV101").code == 0
    assert (fake / "train.py").read_text() == text
    assert torchvet("check", "--fix").code == 0
    assert (fake / "train.py").read_text() == text.replace("loss\n", "loss.detach()\n")


def test_show_fixes_writes_nothing(fake, torchvet):
    (fake / "train.py").write_text(LEAK)
    outcome = torchvet("check", "--show-fixes")
    assert outcome.code == 1
    assert outcome.out == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n for x in data:\n-    total += loss\n+    total += loss.detach()\n"
    )
    assert "1 would be fixed" in outcome.err
    assert (fake / "train.py").read_text() == LEAK
    (fake / "p").write_text(outcome.out)
    subprocess.run(["git", "apply", "p"], cwd=fake, check=True)
    assert torchvet("check").code == 0


def test_fix_of_standard_input_goes_to_standard_output(fake, torchvet, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"total += loss\r\n")))
    outcome = torchvet("check", "--fix", "-")
    assert (outcome.code, outcome.out) == (0, "total += loss.detach()\r\n")
    assert "fixed 1" in outcome.err


def test_unused_suppressions_are_removed(fake, torchvet):
    (fake / "train.py").write_text("x = 1  # torchvet: ignore[TV101] was needed\n# torchvet: ignore[TV102]\ny = 1\n")
    assert torchvet("check", "--strict").code == 1
    assert torchvet("check", "--fix", "--strict").code == 0
    assert (fake / "train.py").read_text() == "x = 1\ny = 1\n"


def test_ctrl_c_while_fixing_leaves_the_file(fake, torchvet, monkeypatch):
    (fake / "train.py").write_text(LEAK)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    assert torchvet("check", "--fix").code == 130
    assert (fake / "train.py").read_text() == LEAK
    assert [p.name for p in fake.iterdir()] == ["train.py"]
