"""Readers of logs: any bytes are survived, marks of launchers are understood, ranks are only names."""

from __future__ import annotations

import random
import shutil
import string
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import Job

from torchvet.diagnose.engine import diagnose, read
from torchvet.diagnose.evidence.patterns import BY_LITERAL, PATTERNS, plain_part, size_of
from torchvet.diagnose.evidence.places import place_of
from torchvet.diagnose.evidence.prefixes import has_tasks, margin_of, speaker_of
from torchvet.diagnose.evidence.reader import all_readers
from torchvet.diagnose.evidence.series import memory_of, nan_of
from torchvet.diagnose.evidence.times import clock_of, time_of
from torchvet.diagnose.files import Item, Unreadable
from torchvet.diagnose.ranks import bus_key, listed

LITERALS = sorted(BY_LITERAL)
LINES = [
    b"Traceback (most recent call last):", b'  File "train.py", line 3, in main', b"ValueError: x", b"[rank3]: KeyError: 'a'", b"Failures:", b"[0]:",
    b"  rank      : 1 (local_rank: 1)", b"  exitcode  : -9 (pid: 12)", b"Root Cause (first observed failure):", b"=====", b"step 3 loss nan rss_gb 12.5",
    b"Fatal Python error: Aborted", b"Current thread 0x0001 (most recent call first):", b"-- Process 1 terminated with the following error:",
    b"JobID State", b"Filesystem 1K-blocks Used Available Use% Mounted on", b"tmpfs 1 1 0 100% /dev/shm", b"Name: x", b"Containers:", b"    Exit Code: 137",
    b"Process 12: python", b'Thread 12 (idle): "MainThread"', b"    f (a.py:3)", b"rank pid state wchan", b"0 12 S (sleeping) x VmRSS=1 kB Threads=7",
]  # fmt: skip


def item(data: bytes, name: str = "logs/x_y/attempt_0/0/stderr.log") -> Item:
    return Item(name, "", len(data), data[:4096], 0.0, 0, data)


def facts_of(data: bytes, name: str, reader):
    out = []
    try:
        for fact in reader.read(item(data, name)):
            out.append(fact)
    except Unreadable:
        pass
    return out


pieces = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(LINES),
    st.sampled_from(LITERALS),
    st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace")),
)
texts = st.lists(
    st.tuples(
        st.sampled_from([b"", b"[rank1]: ", b"(W pid=3, ip=1.2.3.4) ", b"  ", b"\x1b[36m", b"2025-03-04 11:20:05 "]),
        pieces,
    ),
    max_size=40,
).map(lambda rows: b"\n".join(a + b for a, b in rows))


@settings(max_examples=150)
@given(
    texts,
    st.sampled_from(
        [
            "a.log",
            "logs/x_y/attempt_0/3/stderr.log",
            "rank_2.out",
            "dmesg.txt",
            "sacct.txt",
            "pod.json",
            "env.json",
            "error.json",
            "exit.json",
            "df.txt",
            "stack.txt",
        ]
    ),
)
def test_no_bytes_harm_a_reader(data, name):
    for reader in all_readers():
        score = reader.sniff(item(data, name))
        assert 0.0 <= score <= 1.0
        for fact in facts_of(data, name, reader):
            assert fact.source and len(fact.text) <= 300 and "\n" not in fact.text and "\x1b" not in fact.text
            assert fact.plain()


@settings(max_examples=60)
@given(st.binary(max_size=400))
def test_no_line_harms_a_parser(line):
    (
        speaker_of(line, True),
        has_tasks(line),
        plain_part(line),
        memory_of(line),
        nan_of(line),
        time_of(line),
        clock_of(line),
    )
    place_of(line.decode("latin-1")), size_of(line.decode("latin-1")), bus_key(line.decode("latin-1"))


@pytest.mark.parametrize("evil", [
    b"a" * 3_000_000, b" " * 2_000_000 + b"x", b"[" * 200_000, b"[rank1]:" * 200_000, b"loss " * 300_000 + b"nan", b"rank " * 300_000,
    b"Watchdog caught collective operation timeout: WorkNCCL(" + b"(" * 200_000, b"Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(OpType=A" + b", " * 200_000,
    b"CUDA out of memory. Tried to allocate " + b"1.0 GiB. " * 100_000, b"NVRM: Xid (" + b"0" * 500_000, b"\r".join([b"50%|xx| 1/2 ["] * 100_000), b"File " * 200_000,
    b"mem " * 400_000, b"failed (exitcode: " * 100_000, b"oom-kill:constraint=CONSTRAINT_" + b"x" * 300_000, (b"Traceback (most recent call last):\n" * 60_000),
])  # fmt: skip
def test_hostile_lines_take_no_time(evil, tmp_path):
    (tmp_path / "run.log").write_bytes(evil + b"\n")
    start = time.process_time()
    read([str(tmp_path)])
    assert time.process_time() - start < 12


def test_every_pattern_has_its_literal():
    for pattern in PATTERNS:
        assert pattern.literal and pattern.kind


@pytest.mark.parametrize(
    ("line", "rank", "local", "task", "rest"),
    [
        (b"[rank12]: boom", 12, None, None, b"boom"),
        (
            b"[rank3]:[E304 11:20:04.003140127 ProcessGroupNCCL.cpp:632] x",
            3,
            None,
            None,
            b"[E304 11:20:04.003140127 ProcessGroupNCCL.cpp:632] x",
        ),
        (b"[default3]:[rank3]: boom", 3, 3, None, b"boom"),
        (b" 7: step 3", None, None, 7, b"step 3"),
        (b"\x20\x2012: [rank12]: x", 12, None, 12, b"x"),
        (b"(RayTrainWorker pid=17001, ip=10.0.0.7) [rank5]: x", 5, None, None, b"x"),
        (b"[6]: INFO start", 6, None, None, b"INFO start"),
        (b"[1,4]<stderr>:ValueError: x", 4, None, None, b"ValueError: x"),
        (b"[pod/llm-worker-2/trainer] [rank2]: x", 2, None, None, b"x"),
        (b"[INFO] plain", None, None, None, b"[INFO] plain"),
        (b"plain 3: text", None, None, None, b"plain 3: text"),
    ],
)
def test_marks_of_launchers(line, rank, local, task, rest):
    speaker, left, _ = speaker_of(line, task is not None)
    assert left == rest
    assert (speaker.rank if speaker else None) == rank
    assert (speaker.local if speaker else None) == local
    assert (speaker.task if speaker else None) == task


@pytest.mark.parametrize(
    "mark",
    [
        "[rank{r}]: ",
        "[default{r}]:",
        "{r}: ",
        "[1,{r}]<stderr>:",
        "[{r}]: ",
        "(RayTrainWorker pid=90{r}, ip=10.0.0.{r}) [rank{r}]: ",
    ],
)
def test_one_file_for_all_ranks(mark, tmp_path):
    rows = []
    for step in range(6):
        rows += [f"{mark.format(r=r)}step {step} loss 1.0" for r in range(4)]
    trace = [
        "Traceback (most recent call last):",
        '  File "train.py", line 8, in main',
        "    work()",
        '  File "data.py", line 21, in load',
        "    x[0]",
        "IndexError: list index out of range",
    ]
    other = [
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in main',
        "    work()",
        "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.1]:4000.",
    ]
    for number, line in enumerate(trace):  # the lines of two ranks are mixed
        rows.append(mark.format(r=2) + line)
        if number < len(other):
            rows.append(mark.format(r=0) + other[number])
    (tmp_path / "all.log").write_text("\n".join(rows) + "\n")
    found = diagnose([str(tmp_path)])
    assert [(h.cause, h.ranks) for h in found.verdicts] == [("rank-absent", [2])]
    assert found.verdicts[0].site == ("data.py", 21)
    assert found.case.ranks[1].step == 5


@settings(max_examples=12)
@given(st.permutations(range(4)))
def test_ranks_are_only_names(order):
    """Another numbering of the same ranks gives the same verdict under that numbering."""
    with tempfile.TemporaryDirectory() as where:
        job = Job(Path(where), 4)
        job.steps(0, 20).raised(order[1], "ValueError: too many dimensions 'str'", ("train.py", 30, "main")).lost(
            order[0]
        ).lost(order[3])
        job.ended({order[0]: 1, order[1]: 1, order[2]: -15, order[3]: -15}, order[0])
        found = diagnose([where])
    assert [(h.cause, h.ranks) for h in found.verdicts] == [("rank-absent", [order[1]])]


def test_nodes_by_order_and_by_name(tmp_path):
    job = Job(tmp_path, 8, nodes=2)
    job.steps(0, 3).raised(6, "KeyError: 'k'", ("train.py", 3, "main"), prefix=False)
    found = diagnose([str(tmp_path)])
    assert [h.ranks for h in found.verdicts] == [[6]]
    assert found.inventory.nodes == ["node-a", "node-b"]


def test_a_large_log_is_read_quickly(tmp_path):
    """25 MB of ordinary lines with a failure at the end, in CPU time of a busy machine."""
    rows = [
        f"2025-03-04 11:20:05 INFO trainer step {s} loss 2.2026 lr 0.000123 grad_norm 1.23 tokens/s 123456 mem 63.2 GB\n"
        for s in range(1000)
    ]
    with (tmp_path / "run.log").open("w") as f:
        for _ in range(230):
            f.writelines(rows)
        f.write("Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    f()\nKeyError: 'late'\n")
    size = (tmp_path / "run.log").stat().st_size
    start = time.process_time()
    facts, _ = read([str(tmp_path)])
    seconds = time.process_time() - start
    assert any(f.kind == "exception" and f.values["type"] == "KeyError" for f in facts)
    assert size / seconds > 2e6, f"{size / seconds / 1e6:.0f} MB a second"


def test_listed():
    assert listed([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9, 10"
    assert listed([]) == ""
    assert listed(range(0, 200, 2)).endswith("…")


def test_random_garbage_files(tmp_path):
    chooser = random.Random(7)
    for number in range(12):
        (tmp_path / f"{number}.log").write_bytes(bytes(chooser.randrange(256) for _ in range(5000)))
    (tmp_path / "zeros.txt").write_bytes(b"\0" * 100_000)
    (tmp_path / "words.txt").write_text("".join(chooser.choice(string.printable) for _ in range(50_000)))
    found = diagnose([str(tmp_path)])
    assert not [p for p in found.inventory.problems if "torchvet failed here" in str(p[1])]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "gbk"])
def test_encodings_of_windows(encoding, tmp_path):
    """PowerShell writes UTF-16, programs the code page of the machine; lines end in CR LF."""
    key = "尺寸" if encoding == "gbk" else "größe"
    lines = [f"step {n} loss 2.1" for n in range(20)]
    for rank in range(2):
        error = f"KeyError: '{key}'" if rank else "RuntimeError: Connection closed by peer [10.0.0.7]:3100"
        text = [*lines, "Traceback (most recent call last):", '  File "C:\\job\\train.py", line 9, in main', error, ""]
        (tmp_path / f"rank{rank}.log").write_bytes("\r\n".join(text).encode(encoding))
    first = diagnose([str(tmp_path)]).verdicts[0]
    assert (first.cause, first.sub, first.ranks) == ("rank-absent", "crashed: KeyError", [1])
    assert not diagnose([str(tmp_path)]).inventory.problems


@pytest.mark.parametrize(
    "line, rest",
    [
        (b"2026/03/04 11:20:04   File", b"  File"),
        (b"I20260304 11:20:05.123 991 train.py:61]   File", b"  File"),
        (b'1772623000020,"[1,mpirank:1,algo-2]<stdout>:  File"', b'[1,mpirank:1,algo-2]<stdout>:  File"'),
        (b"[03/04/26 11:20:05] [rank2]:   File", b"[rank2]:   File"),
        (b"Epoch 3:  41%|####      | 412/1000 [00:41<00:58, 10.1it/s]  File", None),
        (b"step loss   File", None),
    ],
)
def test_what_stands_before_every_line(line, rest):
    margin = margin_of(line.replace(b"  File", b"Traceback (most recent call last):"), line.index(b"  File"))
    if rest is None:
        assert margin is None
        return
    assert margin is not None
    found = margin.match(line)
    assert found and line[found.end() :] == rest
