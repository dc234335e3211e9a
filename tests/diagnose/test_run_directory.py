"""The folder of `torchvet run`: facts of each file, attempts, lines that break off, files of other tools with such names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchvet.diagnose.engine import diagnose
from torchvet.diagnose.evidence import run_directory
from torchvet.diagnose.evidence.reader import all_readers, reader_of
from torchvet.diagnose.files import Item, items

ROOT = Path(__file__).resolve().parents[2]
INCIDENT = ROOT / "examples" / "incident"
NOW = 1_780_000_000.0

ABOUT = {
    "schema": 1, "rank": 1, "world": 2, "local_rank": 1, "node": "vm", "pid": 77, "started": NOW, "monotonic": 5.0,
    "argv": ["train.py"], "cwd": "/workspace", "python": "3.11.7", "torch": "2.13.0", "cuda": None, "settings": {},
    "environment": {"MASTER_ADDR": "127.0.0.1", "LOCAL_RANK": "1"},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    def write(name, content):
        path = tmp_path / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    write("run.json", {"schema": 1, "command": ["python", "train.py"], "attempt": 0})
    return write


def facts(path, base):
    item = next(e for e in items([str(base)]) if isinstance(e, Item) and e.path == str(path))
    assert reader_of(item, all_readers()) is run_directory.READER
    return {f.kind: f for f in run_directory.READER.read(item)}


def test_about(folder, tmp_path):
    found = facts(folder("attempt_0/rank_1/about.json", ABOUT), tmp_path)
    assert found["env"].rank == 1 and found["env"].values["WORLD_SIZE"] == "2"
    assert found["process"].values["pid"] == 77 and found["version"].values == {"torch": "2.13.0", "python": "3.11.7"}


def test_beats(folder, tmp_path):
    rows = [{"t": NOW + n, "m": n * 2.0, "step": n * 10, "rss": (300 + 40 * n) << 20} for n in range(12)]
    rows.append({"t": NOW + 30, "m": 40.0, "step": 110, "rss": 900 << 20, "still": 18.0})
    path = folder("attempt_0/rank_1/beats.jsonl", rows)
    with open(path, "a") as f:
        f.write('{"t":17800')  # killed while it wrote
    found = facts(path, tmp_path)
    assert found["beat"].values == {"step": 110, "by": "run", "still": 18.0}
    assert found["output"].values["step"] == 110 and found["output"].rank == 1
    series = found["series"].values
    assert (series["name"], series["rising"]) == ("rss", 1.0) and series["first"] == 340 << 20


def test_graphs_that_grow_are_a_side_finding(folder, tmp_path):
    site = ["/workspace/train.py", 41, "step"]
    folder("attempt_0/rank_1/graphs.jsonl", [
        {"t": NOW, "step": 10, "live": [[*site, 10]]},
        {"t": NOW, "growing": {"path": site[0], "line": 41, "function": "step", "live": 40, "step": 40}},
        {"t": NOW, "step": 900, "live": [[*site, 900]]},
    ])  # fmt: skip
    found = diagnose([str(tmp_path / "a")])
    assert not found.verdicts
    (side,) = found.side_findings
    assert side.site == ("/workspace/train.py", 41) and side.ranks == [1] and "900 autograd graphs" in str(side.summary)


def test_window_that_filled_and_stayed_is_no_growth(folder, tmp_path):
    """A deque of 300 losses rises at first; long after, it holds as many."""
    site = ["/workspace/train.py", 41, "step"]
    growing = {"t": NOW, "growing": {"path": site[0], "line": 41, "function": "step", "live": 280, "step": 300}}
    for last, told in ((300, 0), (20_000, 1)):
        path = folder("attempt_0/rank_1/graphs.jsonl", [growing, {"t": NOW, "step": 20_000, "live": [[*site, last]]}])
        assert len([kind for kind in facts(path, tmp_path) if kind == "graph-growth"]) == told


def test_ends(folder, tmp_path):
    end = facts(folder("attempt_0/rank_1/end.json", {"how": "_exit", "code": 3, "t": NOW}), tmp_path)
    assert end["exit"].values["code"] == 3
    row = {
        "t": NOW,
        "type": "KeyError",
        "message": "'x'",
        "frames": [["/w/main.py", 9, "main"], ["/w/data.py", 5, "get"]],
    }
    failed = facts(folder("attempt_0/rank_0/exception.json", row), tmp_path)["exception"]
    assert failed.values["frames"][0] == ["/w/data.py", 5, "get"] and not failed.values["victim"]


def test_only_a_rise_of_the_kill_counter_tells(folder, tmp_path):
    def rows(last):
        return [{"t": NOW, "event": "node", "cgroup_oom_kill": 4},
                {"t": NOW + 9, "event": "end", "code": 137, "cgroup_oom_kill": last}]  # fmt: skip

    assert "cgroup" not in facts(folder("attempt_0/wrapper_vm_1.jsonl", rows(4)), tmp_path)
    found = facts(folder("attempt_0/wrapper_vm_1.jsonl", rows(5)), tmp_path)
    assert found["cgroup"].values["oom_kill"] == 1 and found["launcher-exit"].values["code"] == 137


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([("R", 10.2)], "gil"),
        ([("R", 10.2), ("R", 0)], None),  # it went on
        ([("S", 12.0), ("T", 14.0)], "process"),
        ([("T", 0.4), ("S", 0)], None),
    ],
)
def test_what_a_silent_process_did(folder, tmp_path, rows, kind):
    events = [
        {"t": NOW + n, "event": "state", "rank": 1, "pid": 77, "state": s, "silent": q} for n, (s, q) in enumerate(rows)
    ]
    found = facts(folder("attempt_0/wrapper_vm_5.jsonl", events), tmp_path)
    assert list(found) == ([kind] if kind else [])


def test_the_last_attempt_counts(folder, tmp_path):
    for number in (0, 2, 10):
        folder(f"attempt_{number}/rank_0/end.json", {"how": "exception", "code": 1, "type": "E", "t": NOW})
    named = [e.name if isinstance(e, Item) else (e[0], str(e[1])[:21]) for e in items([str(tmp_path / "a")])]
    assert named == [
        ("attempt_0", "is an earlier attempt"), ("attempt_2", "is an earlier attempt"), "run.json",
        "attempt_10/rank_0/end.json",
    ]  # fmt: skip
    assert [e.name for e in items([str(tmp_path / "a" / "attempt_0")])] == ["rank_0/end.json"]


@pytest.mark.parametrize("name, content", [("end.json", {"x": 1}), ("about.json", []), ("exception.json", "text")])
def test_files_of_other_tools(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(json.dumps(content))
    item = next(e for e in items([str(tmp_path)]) if isinstance(e, Item))
    assert reader_of(item, all_readers()) is not run_directory.READER


# ---------------------------------------------------------------------------------------------------------- the example
def test_the_example_names_the_line(torchvet):
    r = torchvet("diagnose", INCIDENT, "--code", ROOT / "examples" / "hang", "--output-format", "json")
    assert r.code == 1
    said = json.loads(r.out)
    verdict = said["verdicts"][0]
    assert verdict["cause"] in ("shape-mismatch", "collective-mismatch")
    found = verdict.get("candidates") or verdict["code"]["findings"]
    assert [(f["name"], f["path"], f["line"]) for f in found] == [("rank-guarded-collective", "evaluation.py", 13)]
    assert said["inventory"]["world"] == 2


def test_the_example_fits_a_screen(torchvet):
    r = torchvet("diagnose", INCIDENT, "--code", ROOT / "examples" / "hang")
    assert r.out.count("\n") <= 30 and "evaluation.py:13   dist.all_reduce(error)" in r.out


def test_the_guide_shows_what_is_printed(torchvet):
    """The places and the rule of the screen in docs/diagnose.md; the sentences of a verdict may change."""
    guide = (ROOT / "docs" / "diagnose.md").read_text("utf-8")
    printed = torchvet("diagnose", INCIDENT, "--code", ROOT / "examples" / "hang").out.split("\n")
    block = [line[4:] for line in guide.split("\n") if line.startswith("    ")]
    shown = block[block.index(next(x for x in block if x.startswith("Line "))) :]
    assert (
        shown[: shown.index(next(x for x in shown if x.startswith("For ")))]
        == printed[printed.index(shown[0]) : printed.index(next(x for x in printed if x.startswith("For ")))]
    )
