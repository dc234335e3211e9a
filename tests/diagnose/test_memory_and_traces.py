"""Memory snapshots and profiler traces: what is read out of them, and what hostile or broken ones cost."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import time

import pytest

from torchvet.diagnose.causes.slow import CAUSE
from torchvet.diagnose.evidence import snapshot, trace
from torchvet.diagnose.evidence.reader import all_readers, reader_of
from torchvet.diagnose.files import Item, Unreadable, items
from torchvet.diagnose.model import Case, Inventory

MB = 1024 * 1024


def item_of(path):
    return next(e for e in items([str(path)]) if isinstance(e, Item))


def facts(reader, path):
    return list(reader.READER.read(item_of(path)))


# -------------------------------------------------------------------------------------------------------------- snapshots
def frame(path, line, name):
    return {"filename": path, "line": line, "name": name}


LIBRARY = frame("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125, "forward")
KEPT = [LIBRARY, frame("/workspace/proj/evaluate.py", 8, "evaluate"), frame("/workspace/proj/main.py", 3, "<module>")]
STEADY = [LIBRARY, frame("/workspace/proj/model.py", 21, "forward")]


def leaking_snapshot(steps=64):
    """As `torch.cuda.memory._snapshot()` builds it: evaluate.py keeps 4 MB a step, model.py frees what it takes."""
    events, blocks = [], []
    address = 0x7F0000000000
    for step in range(steps):
        for frames, size, freed in ((STEADY, 8 * MB, True), (KEPT, 4 * MB, False)):
            address += 16 * MB
            row = {"addr": address, "size": size, "stream": 0, "frames": frames, "time_us": step, "pool_id": (0, 0)}
            events.append({"action": "alloc", **row})
            if freed:
                events += [{"action": "free_requested", **row}, {"action": "free_completed", **row}]
            else:
                blocks.append({"address": address, "size": size, "requested_size": size - 512, "state": "active_allocated",
                               "frames": frames})  # fmt: skip
    blocks.append({"address": 1, "size": 3 * MB, "requested_size": 0, "state": "inactive", "frames": []})
    events.append({"action": "oom", "addr": 0, "size": 900 * MB, "stream": 0, "device_free": 100 * MB, "frames": KEPT})
    total = sum(b["size"] for b in blocks)
    segment = {
        "address": 0x7F0000000000, "total_size": total, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "allocated_size": total - 3 * MB, "active_size": total - 3 * MB, "device": 0, "blocks": blocks, "frames": [],
    }  # fmt: skip
    return {"segments": [segment], "device_traces": [events], "allocator_settings": {"max_split_size": -1}}


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_place_that_keeps_memory(tmp_path, protocol):
    path = tmp_path / "rank3_memory_snapshot.pickle"
    path.write_bytes(pickle.dumps(leaking_snapshot(), protocol))
    whole, *sites = facts(snapshot, path)
    assert whole.rank == 3 and whole.kind == "snapshot"
    assert whole.values["allocated"] == 64 * 4 * MB and whole.values["inactive"] == whole.values["largest"] == 3 * MB
    assert (whole.values["oom"], whole.values["free"]) == (900 * MB, 100 * MB)
    first = sites[0].values
    assert (first["path"], first["line"], first["function"]) == ("/workspace/proj/evaluate.py", 8, "evaluate")
    assert first["bytes"] == 64 * 4 * MB and first["blocks"] == 64 and first["share"] == 1.0
    assert first["grows"] == 1.0 and first["grew"] > 200 * MB
    assert not any(s.values["path"].endswith("model.py") for s in sites), "what is freed does not grow"


def test_the_reader_knows_its_file(tmp_path):
    path = tmp_path / "snapshot_0.pickle"
    path.write_bytes(pickle.dumps(leaking_snapshot(2)))
    assert reader_of(item_of(path), all_readers()) is snapshot.READER


def test_old_blocks_with_a_history(tmp_path):
    block = {"size": MB, "state": "active_allocated", "history": [{"addr": 1, "real_size": 100, "frames": KEPT}]}
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [{"total_size": 2 * MB, "blocks": [block]}]}))
    whole, site = facts(snapshot, path)
    assert site.values["line"] == 8 and site.values["grows"] is None and whole.values["events"] == 0


def test_many_events_are_read(tmp_path):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(leaking_snapshot(20_000)))
    start = time.perf_counter()
    assert facts(snapshot, path)[1].values["line"] == 8
    assert time.perf_counter() - start < 20


def test_a_cut_snapshot_gives_what_it_holds(tmp_path):
    data = pickle.dumps(leaking_snapshot(), 4)
    path = tmp_path / "s.pickle"
    path.write_bytes(data[: len(data) * 2 // 3])
    whole, site, *_ = facts(snapshot, path)
    assert whole.values["allocated"] > 50 * MB and site.values["line"] == 8


class Command:
    def __reduce__(self):
        return os.system, ("touch {}",)


def test_a_pickle_that_would_run_a_command(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    value = {"segments": [], "device_traces": [], "x": Command()}
    data = pickle.dumps(value).replace(b"touch {}", b"touch m;")
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unreadable, match="is not read: opcode"):
        facts(snapshot, path)
    assert not mark.exists() and not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "value", [{"segments": 5}, {"segments": [5, {"blocks": []}], "device_traces": 9}, {"segments": [{"blocks": [{"size": -1}]}]},
              {"segments": [], "device_traces": [[{"action": "alloc", "frames": 3}, 4, {"action": "free_completed"}]]}]
)  # fmt: skip
def test_other_shapes_are_no_crash(tmp_path, value):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(value))
    try:
        facts(snapshot, path)
    except Unreadable as e:
        assert "\n" not in str(e)


# ----------------------------------------------------------------------------------------------------------------- traces
@pytest.fixture(scope="module")
def real_trace(tmp_path_factory):
    """A loop that waits for its loader, recorded by torch.profiler on this machine."""
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile, schedule

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            time.sleep(0.02)
            return torch.ones(8, 8)

    path = tmp_path_factory.mktemp("trace") / "worker0.pt.trace.json"
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=5, repeat=1)) as p:
        for batch in torch.utils.data.DataLoader(Slow()):
            (batch @ batch).sum()
            p.step()
            if p.step_num == 6:
                break
    p.export_chrome_trace(str(path))
    return path


def test_a_real_trace(real_trace):
    assert reader_of(item_of(real_trace), all_readers()) is trace.READER
    (fact,) = facts(trace, real_trace)
    assert fact.values["steps"] == 5
    assert 0.5 < fact.values["data_ms"] / fact.values["span_ms"] <= 1.0
    assert fact.values["comm_ms"] == 0.0


def test_a_compressed_trace_says_the_same(real_trace, tmp_path):
    path = tmp_path / "worker0.pt.trace.json.gz"
    path.write_bytes(gzip.compress(real_trace.read_bytes()))
    assert facts(trace, path)[0].values == facts(trace, real_trace)[0].values


def made_trace(rank, comm, exposed=0.0, span=1000.0):
    """One step of `span` ms, `comm` ms of all_reduce of which `exposed` ms run alone."""
    busy = span * 0.5
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 1000.0, "dur": span * 1000},
        {**kernel, "name": "ampere_sgemm", "ts": 1000.0, "dur": busy * 1000},
        {**kernel, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ts": 1000.0 + (busy - comm + exposed) * 1000, "dur": comm * 1000},
        {"ph": "M", "name": "process_name", "pid": 1},
    ]  # fmt: skip
    information = {"backend": "nccl", "rank": rank, "world_size": 4}
    return {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": information, "traceEvents": events}


def case_of(tmp_path, traces):
    found = []
    for n, value in enumerate(traces):
        path = tmp_path / f"{n}.pt.trace.json"
        path.write_text(json.dumps(value))
        found += facts(trace, path)
    return Case(found, Inventory())


def test_exposed_communication(tmp_path):
    case = case_of(tmp_path, [made_trace(0, 450, 400), made_trace(1, 450, 390)])
    assert case.of("trace", rank=1)[0].values["exposed_ms"] == pytest.approx(390)
    (found,) = CAUSE.judge(case)
    assert found.side and found.ranks == [0, 1] and "40 % of the time only collectives" in str(found.summary)


def test_the_slow_rank_waits_least(tmp_path):
    case = case_of(tmp_path, [made_trace(r, 60 if r == 2 else 400, 0 if r == 2 else 350) for r in range(4)])
    (found,) = CAUSE.judge(case)
    assert found.side and found.ranks == [2] and found.sub == "slow: one rank"


def test_a_balanced_job_is_not_slow(tmp_path):
    assert not list(CAUSE.judge(case_of(tmp_path, [made_trace(r, 200, 20) for r in range(4)])))


def test_a_trace_that_breaks_off(tmp_path):
    text = json.dumps(made_trace(1, 450, 400))
    path = tmp_path / "t.json"
    path.write_text(text[: len(text) - 60])
    found, said = [], ""
    try:
        for fact in trace.READER.read(item_of(path)):
            found.append(fact)
    except Unreadable as e:
        said = str(e)
    assert "cut off or broken" in said and found[0].values["steps"] == 1 and found[0].rank == 1


@pytest.mark.parametrize(
    "text", ['{"traceEvents": [' + "[" * 200_000, '{"traceEvents": [{"name": "' + "x" * 30_000_000, '{"traceEvents": 5}',
             '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "ts": NaN, "dur": Infinity, "name": "a"}]}', "{}", "[1, 2"]
)  # fmt: skip
def test_hostile_traces_end_soon(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_text(text)
    start = time.perf_counter()
    try:
        list(trace.READER.read(item_of(path)))
    except Unreadable as e:
        assert "\n" not in str(e)
    assert time.perf_counter() - start < 10


def test_large_traces_need_little_memory(tmp_path):
    import tracemalloc

    value = made_trace(0, 450, 400)
    value["traceEvents"] += [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 2000.0 + i, "dur": 1.0}
        for i in range(40_000)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(value))
    del value
    tracemalloc.start()
    facts(trace, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * MB  # all of them at once take 50


def test_a_trace_taken_on_demand_names_its_rank_behind_the_events(tmp_path):
    """kineto/libkineto/src/output_json.cpp: addOnDemandDistMetadata."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 10.0 * i, "dur": 9.0, "pid": 0, "tid": 1}
        for i in range(50)
    ]
    text = '{\n  "schemaVersion": 1,\n    "deviceProperties": [\n    ],\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1,\n  "traceEvents": '
    text += (
        json.dumps(events)
        + ',\n  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 0, "pg_config": [], '
    )
    text += '"nccl_version": "unknown"},\n  "traceName": "/tmp/libkineto_activities_77.json"\n}'
    path = tmp_path / "libkineto_activities_77.json"
    path.write_text(text)
    (fact,) = facts(trace, path)
    assert (fact.rank, fact.values["world"], fact.values["backend"]) == (3, 8, "nccl")


def test_segments_alone_are_a_snapshot(tmp_path):
    """What torch.cuda.memory_snapshot() gives, in the order of keys of torch/csrc/cuda/Module.cpp."""
    segment = {"device": 1, "address": 0x7F0000000000, "total_size": 8 * MB, "allocated_size": 6 * MB, "active_size": 6 * MB, "requested_size": 6 * MB,
               "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
               "blocks": [{"address": 0x7F0000000000, "size": 6 * MB, "requested_size": 6 * MB, "state": "active_allocated", "frames": KEPT},
                          {"address": 0x7F0000600000, "size": 2 * MB, "requested_size": 0, "state": "inactive", "frames": []}]}  # fmt: skip
    path = tmp_path / "segments_rank1.pickle"
    path.write_bytes(pickle.dumps([segment]))
    assert reader_of(item_of(path), all_readers()) is snapshot.READER
    first, site = facts(snapshot, path)
    assert (first.rank, first.values["device"], first.values["allocated"], first.values["inactive"]) == (
        1,
        1,
        6 * MB,
        2 * MB,
    )
    assert site.values["path"] == "/workspace/proj/evaluate.py"


def test_a_trace_that_names_process_groups_is_no_recorder_dump(tmp_path):
    """The header that torch.profiler writes in a job with process groups (torch 2.13)."""
    head = (
        '{\n    "schemaVersion": 1,\n    "deviceProperties": [],\n    \n      "trace_id": "1951AC03AC61412E89407BD4BED8469E",\n      "with_stack": 1,\n'
        '      "distributedInfo": {"backend": "gloo", "rank": 2, "world_size": 4, "pg_count": 1, "pg_config": [{"pg_name": "0", "pg_desc": '
        '"default_pg", "backend_config": "cpu:gloo,cuda:gloo", "pg_size": 4, "ranks": [0, 1, 2, 3]}]},\n      "host_name": "vm",\n'
        '    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": 1790857026000000000,\n    "traceEvents": [\n    \n  '
    )
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": 5210018665343.402 + 1000 * i, "dur": 900.0, "pid": 1, "tid": 1}
              for i in range(3)]  # fmt: skip
    path = tmp_path / "vm_14134.1796067044362539149.pt.trace.json"
    path.write_text(head + ",\n  ".join(json.dumps(e) for e in events) + '\n  ],\n  "traceName": "x"\n}')
    assert reader_of(item_of(path), all_readers()) is trace.READER
    (fact,) = facts(trace, path)
    assert (fact.rank, fact.values["world"], fact.values["steps"]) == (2, 4, 3)
