"""Dumps of the flight recorder: every version, pickle and JSON, broken and hostile ones."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import pickletools
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.diagnose.evidence import recorder, safe_pickle
from torchvet.diagnose.files import Item, Unreadable
from torchvet.diagnose.members import members, ranges, spoken

CALL = {
    "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
    "profiling_name": "nccl:all_reduce", "time_created_ns": 1_795_956_952_424_674_253, "input_sizes": [[8]],
    "input_dtypes": ["Float"], "output_sizes": [[8]], "output_dtypes": ["Float"], "state": "scheduled",
    "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 8000,
    "is_p2p": False, "frames": [{"name": "step", "filename": "/job/train.py", "line": 12}],
}  # fmt: skip


def dump(count: int = 3, version: str = "2.10", **over) -> dict:
    entries = []
    for n in range(count):
        call = copy.deepcopy(CALL)
        call.update(record_id=n, collective_seq_id=n + 1, op_id=n + 1)
        if n < count - 1:
            call.update(state="completed", retired=True)
        entries.append(call)
    out = {
        "version": version,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": count,
                "last_started_collective": -1,
                "last_completed_collective": count - 1,
            }
        },
        "entries": entries,
    }
    out.update(over)
    return out


@pytest.fixture
def facts_of(tmp_path):
    def run(data: bytes, name: str = "rank_2"):
        path = tmp_path / name
        path.write_bytes(data)
        it = Item(f"fr/{name}", str(path), len(data), data[:4096], 0.0)
        assert recorder.sniff(it) > 0.2
        facts, problem = [], None
        try:
            for fact in recorder.read(it):
                facts.append(fact)
        except Unreadable as e:
            problem = str(e.text)
        return facts, problem

    return run


def progress(facts):
    return {f.values["group"]: f for f in facts if f.kind == "progress"}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_and_json_say_the_same(facts_of, protocol):
    value = dump()
    a, why_a = facts_of(pickle.dumps(value, protocol))
    b, why_b = facts_of(json.dumps(value).encode(), "rank_2.json")
    assert why_a is why_b is None
    assert [(f.kind, f.rank, f.values) for f in a] == [(f.kind, f.rank, f.values) for f in b]
    assert a[0].rank == 2


def test_state_of_a_group(facts_of):
    facts, _ = facts_of(pickle.dumps(dump(5), 2))
    v = progress(facts)["0"].values
    assert (v["enqueued"], v["completed"], v["first"], v["members"], v["backend"]) == (5, 4, 1, "0-3", "nccl")
    (call,) = [f for f in facts if f.kind == "call"]
    assert (call.values["seq"], call.values["op"], call.values["frames"]) == (
        5,
        "all_reduce",
        [["/job/train.py", 12, "step"]],
    )


def test_json_writes_numbers_as_text_and_zero_for_never(facts_of):
    value = dump()
    value["pg_status"]["0"] = {k: str(v) for k, v in value["pg_status"]["0"].items()}
    for entry in value["entries"]:
        entry.update(time_discovered_started_ns=0, time_discovered_completed_ns=0, process_group=["0", "default_pg"])
    facts, why = facts_of(json.dumps(value).encode(), "rank_2.json")
    assert why is None and progress(facts)["0"].values["enqueued"] == 3


@pytest.mark.parametrize("version", ["2.0", "2.3", "2.4", "2.9", "2.10", "3.7", ""])
def test_versions_and_unknown_keys(facts_of, version):
    value = dump(version=version, hccl_comm_state={"a": {"b": "c"}}, something_new=[1, {"x": None}])
    for entry in value["entries"]:
        entry["a_later_field"] = {"deep": [1, 2]}
        if version in ("2.0", ""):
            for key in ("is_p2p", "timeout_ms", "input_dtypes", "output_dtypes", "retired"):
                entry.pop(key)
    facts, why = facts_of(pickle.dumps(value, 2))
    assert why is None
    assert (progress(facts)["0"].values["enqueued"], progress(facts)["0"].values["completed"]) == (3, 2)


def test_a_bare_list_of_2023(facts_of):
    entries = [
        {"pg_id": 0, "seq_id": n, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "state": "completed" if n < 4 else "scheduled", "frames": []}
        for n in range(1, 5)
    ]  # fmt: skip
    facts, why = facts_of(pickle.dumps(entries, 2))
    assert why is None
    assert (progress(facts)["0"].values["enqueued"], progress(facts)["0"].values["completed"]) == (4, 3)


def test_status_without_entries_goes_by_the_order_of_groups(facts_of):
    value = dump(0)
    value["pg_config"] = {n: {"name": n, "desc": f"g{n}", "ranks": "[2, 3]"} for n in ("0", "12", "7")}
    value["pg_status"] = {
        str(n): {
            "last_enqueued_collective": 100 + n,
            "last_completed_collective": 100 + n,
            "last_started_collective": -1,
        }
        for n in (0, 3, 5)
    }
    facts, _ = facts_of(pickle.dumps(value, 2))
    assert {g: f.values["enqueued"] for g, f in progress(facts).items()} == {"0": 100, "7": 103, "12": 105}


def test_gloo_counts_by_its_entries(facts_of):
    """monitored_barrier advances the status of rank 0 without an entry; members stand under an empty name."""
    value = dump(4, pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1, 2]"}})
    for entry in value["entries"]:
        entry.update(profiling_name="gloo:all_reduce", state="scheduled", retired=entry["retired"])
    value["pg_status"]["0"]["last_enqueued_collective"] = 9
    facts, _ = facts_of(pickle.dumps(value, 2))
    v = progress(facts)["0"].values
    assert (v["enqueued"], v["world"], v["backend"]) == (4, 3, "gloo")


@pytest.mark.parametrize(("retired", "completed"), [(True, 4), (False, 3)])
def test_gloo_counts_late_what_its_entries_say_is_over(facts_of, retired, completed):
    """Threads of gloo that end out of order leave the status one call behind (seen in a rank that slept)."""
    value = dump(4)
    for entry in value["entries"]:
        entry.update(profiling_name="gloo:all_reduce", state="scheduled", retired=True)
    value["entries"][-1]["retired"] = retired
    facts, _ = facts_of(pickle.dumps(value, 2))
    assert progress(facts)["0"].values["completed"] == completed


def test_internal_groups_are_left_out(facts_of):
    value = dump(3)
    for entry in value["entries"]:
        entry["process_group"] = ("", "")
    value["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
    facts, why = facts_of(pickle.dumps(value, 2))
    assert why is None and not progress(facts)


def test_truncated_pickles_keep_what_stands_before(facts_of):
    whole = pickle.dumps(dump(50), 2)
    facts, why = facts_of(whole[: len(whole) * 3 // 4])
    assert "ends in the middle" in why
    assert progress(facts)["0"].values["enqueued"] == 50  # the status stands before the entries
    assert facts[0].values["cut"] and 0 < facts[0].values["entries"] < 50


def test_truncated_json_keeps_what_stands_before(facts_of):
    whole = json.dumps(dump(50)).encode()
    facts, why = facts_of(whole[: len(whole) * 3 // 4], "rank_2.json")
    assert "ends in the middle" in why and facts


def test_empty_and_foreign_files(facts_of, tmp_path):
    assert "empty" in facts_of(b"")[1]
    assert "not a flight-recorder dump" in facts_of(pickle.dumps({"weights": [1.0]}, 2))[1]
    assert "broken JSON" in facts_of(b'{"pg_config": ', "rank_2.json")[1]
    legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save of old
    assert recorder.sniff(Item("rank_1", "", len(legacy), legacy, 0.0)) == 0


class Evil:
    def __reduce__(self):
        return (open, ("/tmp/torchvet-was-here", "w"))


class Slots:
    def __setstate__(self, state):
        raise AssertionError("executed")


def nested(opcode: bytes, depth: int) -> bytes:
    return b"\x80\x02" + b"]" * depth + opcode * (depth - 1) + b"."


HOSTILE = {
    "reduce": pickle.dumps({"pg_config": Evil()}, 2),
    "reduce 4": pickle.dumps({"pg_config": Evil()}, 4),
    "reduce 0": b"cos\nsystem\n(S'true'\ntR.",
    "global": b"\x80\x02}X\x09\x00\x00\x00pg_configcbuiltins\neval\ns.",
    "stack global": b"\x80\x04}\x8c\x09pg_config\x8c\x08builtins\x8c\x04eval\x93s.",
    "build": pickle.dumps({"pg_config": Slots()}, 2),
    "inst": b"\x80\x02(ios\nsystem\n.",
    "persistent id": b"\x80\x02X\x09\x00\x00\x00pg_configQ.",
    "extension": b"\x80\x02\x82\x01.",
    "memo by a huge index": b"\x80\x02}r\xff\xff\xff\x7f.",
    "huge text": b"\x80\x02X\xff\xff\xff\x7fpg_config.",
    "huge text 8": b"\x80\x04\x8d\xff\xff\xff\xff\xff\x00\x00\x00pg_config.",
    "huge bytes": b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00.",
    "huge number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "set of tuples": b"\x80\x04\x8f(" + b")" + b"\x85" * 200_000 + b"\x90.",
    "tuples as key": b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
    "no stack": b"\x80\x02uuuu.",
    "memo that is not there": b"\x80\x02h\x07.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused_in_one_line(facts_of, name, tmp_path):
    data = HOSTILE[name]
    with pytest.raises((safe_pickle.Refused, safe_pickle.Cut)) as said:
        safe_pickle.load(data)
    assert "\n" not in str(said.value)
    assert not Path("/tmp/torchvet-was-here").exists()
    if data[:1] == b"\x80":
        facts, why = facts_of(data)
        assert not facts and why and "\n" not in why


def test_deep_nesting_ends(facts_of):
    data = nested(b"a", 300_000)
    facts, why = facts_of(data)
    assert not facts and why
    facts, why = facts_of(b'{"pg_config": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "rank_2.json")
    assert not facts and why


def test_sharing_does_not_multiply(facts_of):
    """150 lists that each hold the one before twice: tiny as a pickle, endless when walked."""
    level: list = [1]
    for _ in range(150):
        level = [level, level]
    value = dump()
    value["entries"][0].update(input_sizes=level, frames=level, process_group=level, profiling_name=level)
    value["pg_config"] = {"0": {"ranks": level, "name": level}}
    facts, why = facts_of(pickle.dumps(value, 2))
    assert why is None and facts


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_field_may_hold_anything(data):
    value = dump(4)
    for _ in range(data.draw(st.integers(1, 6))):
        target = data.draw(
            st.sampled_from(
                [value, value["pg_status"], value["pg_config"], *[e for e in value["entries"] if isinstance(e, dict)]]
            )
            if isinstance(value.get("entries"), list)
            and isinstance(value["pg_status"], dict)
            and isinstance(value["pg_config"], dict)
            else st.just(value)
        )
        key = data.draw(st.sampled_from(sorted(target))) if target else "version"
        if data.draw(st.booleans()):
            target[key] = data.draw(JUNK)
        else:
            target.pop(key, None)
        value.setdefault("entries", [])
        value.setdefault("pg_status", {})
        value.setdefault("pg_config", {})
    from torchvet.diagnose.evidence.recorder_facts import facts_of

    if isinstance(value["entries"], list):
        for fact in facts_of(value, "rank_1", cut=False, written=0.0):
            json.dumps(fact.plain())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(PLAIN, st.integers(2, 5))
def test_plain_values_come_back(value, protocol):
    assert safe_pickle.load(pickle.dumps(value, protocol)) == value


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_end_in_a_value_or_a_refusal(junk, at):
    whole = pickle.dumps(dump(2), 2)
    for data in (b"\x80\x02" + junk, whole[:at] + junk + whole[at + len(junk) :]):
        try:
            safe_pickle.load(data)
        except safe_pickle.Cut:
            with contextlib.suppress(safe_pickle.Refused):
                safe_pickle.rescue(data)
        except (safe_pickle.Refused, MemoryError):
            pass


def test_no_opcode_that_makes_objects_is_let_through():
    allowed = {
        o.name for o in pickletools.opcodes
        if safe_pickle._ONE.match(o.code.encode("latin-1") + struct.pack("<Q", 0) + b"\x00" * 8)
    }  # fmt: skip
    assert allowed == {
        "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "LIST", "DICT",
        "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NEWTRUE", "NEWFALSE", "MEMOIZE", "BINPUT", "BINGET", "LONG_BINPUT",
        "LONG_BINGET", "BININT", "BININT1", "BININT2", "BINFLOAT", "PROTO", "FRAME", "LONG1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, rank",
    [
        ("comm_lib_trace_rank_12", 12), ("nccl_trace_rank_3.json", 3), ("fr/_dump_15", 15), ("host7_4", 4),
        ("rank_5_step_1200", 5), ("rank_3/trace", 3), ("7/fr_dump", 7), ("a.tar!fr/rank_6", 6), ("dump", None),
    ],
)  # fmt: skip
def test_rank_of_a_name(name, rank):
    assert recorder.rank_of_name(name) == rank


@given(st.sets(st.integers(0, 300), max_size=60))
def test_ranges_of_ranks(ranks):
    assert members(ranges(ranks)) == tuple(sorted(ranks))


def test_ranges_are_short():
    assert ranges(range(10_000)) == "0-9999"
    assert ranges(range(3, 512, 8)) == "3-507:8"
    assert spoken([0, 1, 2, 7]) == "0–2 and 7"
    assert members("0-99999999999") == ()
