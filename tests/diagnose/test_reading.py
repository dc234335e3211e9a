"""Many files by many processes, and evidence made small on each node: the same facts, the same verdict."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import pytest

from torchvet.cli import main
from torchvet.diagnose import reading
from torchvet.diagnose.engine import diagnose

INCIDENTS = Path(__file__).parent / "incidents"


def plain(facts):
    return [f.plain() for f in facts]


def verdicts(diagnosis):
    return [(h.cause, h.sub, h.ranks, h.confidence, str(h.summary), h.site) for h in diagnosis.verdicts]


@pytest.mark.parametrize("name", ["gloo-subgroup-cycle", "log-ib-link-flap"])
def test_processes_read_what_one_reads(name, monkeypatch):
    folder = [str(INCIDENTS / name / "evidence")]
    one, here = reading.read(folder, jobs=1)
    monkeypatch.setattr(reading, "FEW_FILES", 0)
    monkeypatch.setattr(reading, "CHUNK_FILES", 3)
    seen: list[str] = []
    many, there = reading.read(folder, seen.append, jobs=2)
    assert plain(one) == plain(many)
    assert here.files == there.files and [str(t) for _, t in here.problems] == [str(t) for _, t in there.problems]
    assert sorted(seen) == sorted(name for name, _, _, _ in here.files)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not forks here")
def test_a_file_that_ends_the_process_costs_no_other(tmp_path, monkeypatch):
    for n in range(6):
        (tmp_path / f"rank_{n}.log").write_text(f"step {n}\n")
    real = reading._read_path

    def dies(where, readers):
        if where[0] == "rank_3.log":
            os._exit(9)
        return real(where, readers)

    monkeypatch.setattr(reading, "FEW_FILES", 0)
    monkeypatch.setattr(reading, "CHUNK_FILES", 2)
    monkeypatch.setattr(reading, "_read_path", dies)  # processes are forks: they have it too
    facts, inventory = reading.read([str(tmp_path)], jobs=2)
    assert [n for n, _, _, _ in inventory.files] == [f"rank_{n}.log" for n in range(6)]
    assert [(n, str(t)) for n, t in inventory.problems] == [("rank_3.log", "ended the process that read it")]
    assert {f.source for f in facts} == {f"rank_{n}.log" for n in (0, 1, 2, 4, 5)}


def test_a_system_without_processes(tmp_path, monkeypatch):
    for n in range(4):
        (tmp_path / f"rank_{n}.log").write_text("step 1\n")
    monkeypatch.setattr(reading, "_start", lambda *_: None)
    monkeypatch.setattr(reading, "FEW_FILES", 0)
    _, inventory = reading.read([str(tmp_path)], jobs=2)
    assert len(inventory.files) == 4


@pytest.mark.parametrize(
    "name", ["gloo-host-stall-save", "gloo-op-mismatch", "gloo-disk-full", "log-nccl-watchdog-torch25"]
)
def test_reduced_evidence_gives_the_same_verdict(name, tmp_path, capsys):
    folder = INCIDENTS / name / "evidence"
    out = tmp_path / "node.facts"
    assert main(["diagnose", "--reduce", str(folder), "-o", str(out)]) == 0
    direct, through = diagnose([str(folder)]), diagnose([str(out)])
    assert verdicts(direct) and verdicts(direct) == verdicts(through)
    assert direct.inventory.world == through.inventory.world


def test_nodes_reduce_apart_and_are_read_together(tmp_path):
    folder = INCIDENTS / "gloo-op-mismatch" / "evidence"
    for ranks in ((0, 1), (2, 3)):
        node = tmp_path / f"node-{ranks[0]}"
        for rank in ranks:
            for source in folder.glob(f"fr_*/rank_{rank}*"):
                target = node / source.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        assert main(["diagnose", "--reduce", str(node), "-o", str(tmp_path / f"{node.name}.facts")]) == 0
    (verdict,) = diagnose([str(p) for p in tmp_path.glob("*.facts")]).verdicts
    assert (verdict.cause, verdict.ranks) == ("collective-mismatch", [3])


def test_reduced_dumps_are_small_and_problems_survive(tmp_path):
    entries = [
        {
            "record_id": n, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": n + 1, "profiling_name": "nccl:all_reduce",
            "input_sizes": [[1024, 8]], "output_sizes": [[1024, 8]], "input_dtypes": ["Float"], "state": "completed", "retired": True,
            "frames": [{"name": f"f{k}", "filename": f"/job/src/module_{k}.py", "line": k} for k in range(20)],
        }
        for n in range(2000)
    ]  # fmt: skip
    data = pickle.dumps({"version": "2.10", "entries": entries}, 2)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rank_0").write_bytes(data)
    (tmp_path / "in" / "rank_1").write_bytes(data[:-1000])
    out = tmp_path / "out.facts"
    assert main(["diagnose", "--reduce", str(tmp_path / "in"), "-o", str(out)]) == 0
    assert out.stat().st_size < len(data) / 20
    _, inventory = reading.read([str(out)])
    assert [n for n, _ in inventory.problems] == ["out.facts!rank_1"]
    assert {n for n, _, _, _ in inventory.files} == {"out.facts", "out.facts!rank_0", "out.facts!rank_1"}


def test_a_broken_line_keeps_what_stands_before(tmp_path):
    out = tmp_path / "a.facts"
    good = json.dumps({"kind": "output", "source": "x", "rank": 1, "values": {"last": "a"}})
    for bad in (
        "{",
        "[1]",
        '{"kind": 3, "source": "x"}',
        '{"kind": "a", "source": "x", "values": 7}',
        '{"file": 3}',
        "\xff",
    ):
        out.write_text('{"torchvet": "reduced evidence", "schema": 1}\n' + good + "\n" + bad + "\n" + good + "\n")
        facts, inventory = reading.read([str(out)])
        assert [f.rank for f in facts] == [1]
        assert "line 3 is broken" in str(inventory.problems[0][1])
