"""Faults of communication in simulated jobs: who is blamed, who never is, and what a closer look at dumps adds."""

from __future__ import annotations

import os
import pickle
import shutil

import pytest
from random_jobs import KINDS, LOADER, TOKENS, job, leave
from simulated import Sim, batch, call, end, p2p, say, stay, sync

from torchvet.cli import main
from torchvet.diagnose.engine import diagnose

TP = {"tp0": ("3", "tp", [0, 1]), "tp1": ("4", "tp", [2, 3]), "dp0": ("5", "dp", [0, 2]), "dp1": ("6", "dp", [1, 3])}
PP = {"pp": ("7", "pp", [0, 1, 2, 3])}
STALL = {"host-stall", "rank-absent"}
ORDER = {"group-order-cycle", "collective-mismatch"}
LEFT_OUT = {"uneven-inputs", "collective-mismatch"}
NO_CAUSE = {"unknown", "fabric", "device-stuck"}
PAIR = {"p2p-partner-missing"}


def ddp(steps, calls=3):
    one = [call("world", "all_reduce", 4096 << i, line=57 + i) for i in range(calls)]
    return [x for s in range(steps) for x in [*one, sync(), say(f"step {s} loss {2.5 - s * 0.01:.4f}")]]


def turn(r, s, skip=False, swap=False):
    rows = [call(f"tp{r // 2}", "all_reduce", 512, line=31), call(f"dp{r % 2}", "all_reduce", 2048, line=80),
            call("world", "all_reduce", 1, line=90)]  # fmt: skip
    rows = rows[1:] if skip else [rows[2], rows[1], rows[0]] if swap else rows
    return [*rows, sync(), say(f"step {s}")]


def ring(r, steps):
    parts = [("send", (r + 1) % 4), ("recv", (r - 1) % 4)]
    return [
        x
        for s in range(steps)
        for x in (batch("world", parts), call("world", "all_reduce", 1), sync(), say(f"step {s}"))
    ]


def pipe(r, steps):
    one = [p2p("pp", "recv", r - 1)] * (r > 0) + [p2p("pp", "send", r + 1), p2p("pp", "recv", r + 1)] * (r < 3)
    one += [p2p("pp", "send", r - 1)] * (r > 0)
    return [x for s in range(steps) for x in (*one, call("world", "all_reduce", 1), sync(), say(f"iteration {s}"))]


def stages(r, steps):
    """As `pipe`, each send or receive a batch of its own: ranks make different numbers of them."""
    one = [batch("pp", [(x["op"], x["peer"])]) for x in pipe(r, 1) if x["do"] == "p2p"]
    return [x for s in range(steps) for x in (*one, call("world", "all_reduce", 1), sync(), say(f"iteration {s}"))]


def each(world, rows):
    return [list(rows(r)) for r in range(world)]


def cut(rows, bad, at, *then):
    rows[bad] = [*rows[bad][:at], *then]
    return rows


def skip_in_subgroup(to, backend="nccl"):
    sim = Sim(4, TP, each(4, lambda r: [x for s in range(20) for x in turn(r, s, skip=r == 3 and s == 12)]), backend)
    sim.dumps(to / "fr", version="2.9")


def skip_in_subgroup_gloo(to):
    skip_in_subgroup(to, "gloo")


def other_order_on_one_rank(to):
    rows = each(4, lambda r: [x for s in range(8) for x in turn(r, s, swap=r == 2 and s == 5)])
    Sim(4, TP, rows).dumps(to / "fr", version="2.9")


def other_order_on_half(to):
    rows = each(4, lambda r: [x for s in range(8) for x in turn(r, s, swap=r % 2 == 1 and s == 7)])
    Sim(4, TP, rows).dumps(to / "fr", version="2.8")


def cycle_by_lines_only(to):
    pair = {"tp": ("5", "tp", [0, 1])}
    two = [call("tp", "all_gather"), call("world", "all_reduce")]
    sim = Sim(2, pair, [[*two, *two, sync()], [*two, *two[::-1], sync()]])
    for rank, group in enumerate(("tp", "world")):
        sim.logs(to, {rank: "".join(f"{x}\n" for x in sim.watchdog(rank, groups=[group]))}, [rank])


def both_receive(to):
    rows = each(
        4,
        lambda r: (
            pipe(r, 5) + ([call("world", "all_reduce", 1)] if r in (0, 3) else [p2p("pp", "recv", 3 - r)]) + [sync()]
        ),
    )
    Sim(4, PP, rows).dumps(to / "fr", version="2.9")


def both_send_first(to):
    rows = each(2, lambda r: [*ddp(5), p2p("world", "send", 1 - r), p2p("world", "recv", 1 - r), sync()])
    Sim(2, {}, rows).dumps(to / "fr", kind="json", version="2.7")


def wrong_peer(to):
    Sim(4, PP, cut(each(4, lambda r: pipe(r, 6)), 2, 35, p2p("pp", "recv", 3), sync())).dumps(to / "fr")


def receive_in_a_ring(to):
    rows = each(3, lambda r: [*ddp(5), p2p("world", "recv", (r - 1) % 3), p2p("world", "send", (r + 1) % 3), sync()])
    Sim(3, {}, rows).dumps(to / "fr")


def one_send_too_many(to):
    rows = each(
        3,
        lambda r: (
            ddp(5)
            + [p2p("world", "send", 1)] * 2 * (r == 0)
            + [p2p("world", "recv", 0)] * (r == 1)
            + [call("world", "barrier", 1), sync()]
        ),
    )
    Sim(3, {}, rows).dumps(to / "fr")


def batch_lacks_a_receive(to):
    rows = each(
        4,
        lambda r: [
            *ring(r, 6),
            batch("world", [("send", (r + 1) % 4)] + [("recv", (r - 1) % 4)] * (r != 2)),
            call("world", "all_reduce", 1),
            sync(),
        ],
    )
    Sim(4, {}, rows).dumps(to / "fr")


def stall_after_batches(to):
    Sim(4, {}, cut(each(4, lambda r: ring(r, 10)), 3, 36, stay(*LOADER))).dumps(to / "fr", version="2.9")


def stall_in_a_pipeline_of_batches(to):
    sim = Sim(4, PP, cut(each(4, lambda r: stages(r, 9)), 2, 43, stay(*LOADER)))
    sim.dumps(to / "fr")
    sim.logs(to)


def batches_of_a_healthy_job(to):
    sim = Sim(4, PP, each(4, lambda r: stages(r, 9)))
    sim.dumps(to / "fr", active=True, waited=20)
    sim.logs(to)


def dumps_of_a_moving_job(to):
    rows = each(4, lambda r: ddp(12) + [call("world", "all_reduce")] * (r != 3) + [stay(*TOKENS)])
    Sim(4, {}, rows).dumps(to / "fr", waited=0.3)


def some_dumps_some_logs(to):
    sim = Sim(8, {}, cut(each(8, lambda r: ddp(30)), 6, 140, stay(*TOKENS)))
    sim.dumps(to / "fr", range(4))
    sim.logs(to)


def one_dump_is_old(to):
    rows = cut(each(4, lambda r: ddp(30)), 1, 145, stay(*TOKENS))
    rows[3].insert(50, {"do": "snap"})
    sim = Sim(4, {}, rows)
    sim.dumps(to / "fr", [0, 1, 2])
    (to / "fr/nccl_trace_rank_3").write_bytes(pickle.dumps(sim.dump(3, frozen=True), 2))


def pods_of_one_file(to):
    sim = Sim(4, {}, cut(each(4, lambda r: ddp(12)), 2, 55, say("downloading shard-00041.tar"), stay(*TOKENS)))
    sim.merged(to / "train.log", lambda r: f"[pod/llm-worker-{r}/pytorch] 2025-11-21T11:20:0{r}.119Z ")


def other_gpu(to):
    Sim(8, {}, each(8, lambda r: ddp(30)), stuck={(6, "world", 77)}).dumps(to / "fr", version="2.10")


def all_called_none_finished(to):
    sim = Sim(8, {}, each(8, lambda r: ddp(30)), stuck={(r, "world", 77) for r in range(8)})
    sim.dumps(to / "fr", version="2.10")
    sim.logs(to)


def pair_stuck_among_many_groups(to):
    rows = each(4, lambda r: [x for s in range(8) for x in turn(r, s)])
    Sim(4, TP, rows, stuck={(2, "tp1", 5), (3, "tp1", 5)}).logs(to)


def never_called(to):
    Sim(4, {}, [ddp(2), [stay(("load_state", 61, "/workspace/model.py"))], ddp(2), ddp(2)]).dumps(to / "fr")


def groups_of_one_name(to):
    pairs = {"tp0": ("1", "tp", [0, 1]), "tp1": ("1", "tp", [2, 3])}
    rows = each(
        4,
        lambda r: (
            [call(f"tp{r // 2}", "all_reduce", 512)] * 20
            + [call(f"tp{r // 2}", "all_reduce", 512)] * (r == 2)
            + ([stay(*TOKENS)] if r == 3 else [sync()])
        ),
    )
    Sim(4, pairs, rows).dumps(to / "fr")


def skip_seen_by_sister_groups(to):
    pairs = {f"rep{i}": (str(40 + i), "replicate", [i, i + 4]) for i in range(4)}
    one = [75, 50, 25]
    rows = each(
        8,
        lambda r: [x for s in range(9) for x in [*(call(f"rep{r % 4}", "all_reduce", n, line=n) for n in one), sync()]],
    )
    rows[5] = rows[5][:24] + rows[5][25:]
    Sim(8, pairs, rows).dumps(to / "fr", version="2.9")


def first_call_of_nccl(to):
    text = ("[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File \"/workspace/train.py\", line 30, in main\n"
            "[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0\n")  # fmt: skip
    sim = Sim(
        4, {}, [[say("downloading openwebtext (41.2 GB)"), stay(*TOKENS)], *([say("ready"), end(1)] for _ in range(3))]
    )
    sim.logs(to, {r: text.replace("{r}", str(r)) for r in (1, 2, 3)} | {0: ""})


def left_for_good(to):
    sim = Sim(4, {}, cut(each(4, lambda r: ddp(12)), 1, 50, say("epoch 0 finished after 10 batches"), end(0)))
    sim.dumps(to / "fr", [0, 2, 3])
    sim.logs(to)


def growth_and_a_stall(to):
    one = [[call("world", "all_reduce"), sync(), say(f"step {s} loss 1.0 mem {8000 + 37 * s} MiB")] for s in range(40)]
    rows = each(4, lambda r: [x for s in one for x in s])
    sim = Sim(4, {}, cut(rows, 2, 117, stay(*TOKENS)))
    sim.dumps(to / "fr")
    sim.logs(to)


CASES = [
    (skip_in_subgroup, LEFT_OUT, [3]), (skip_in_subgroup_gloo, LEFT_OUT, [3]), (other_order_on_one_rank, ORDER, [2]),
    (other_order_on_half, ORDER, [0, 1, 2, 3]), (cycle_by_lines_only, ORDER, [0, 1]), (both_receive, PAIR, [1, 2]),
    (both_send_first, PAIR, [0, 1]), (wrong_peer, PAIR, [2]), (receive_in_a_ring, PAIR, [0, 1, 2]),
    (one_send_too_many, PAIR, [0]), (batch_lacks_a_receive, PAIR, [2]), (stall_after_batches, STALL, [3]),
    (stall_in_a_pipeline_of_batches, STALL, [2]), (batches_of_a_healthy_job, set(), []), (dumps_of_a_moving_job, set(), []),
    (some_dumps_some_logs, STALL, [6]), (one_dump_is_old, STALL, [1]), (pods_of_one_file, STALL, [2]),
    (other_gpu, {"device-stuck"}, [6]), (all_called_none_finished, NO_CAUSE, []), (pair_stuck_among_many_groups, NO_CAUSE, []),
    (never_called, STALL, [1]), (groups_of_one_name, STALL, [3]), (skip_seen_by_sister_groups, LEFT_OUT, [5]),
    (first_call_of_nccl, STALL, [0]), (left_for_good, STALL | {"uneven-inputs"}, [1]), (growth_and_a_stall, STALL, [2]),
]  # fmt: skip


@pytest.mark.parametrize("make, kinds, ranks", CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_kind_and_ranks(make, kinds, ranks, tmp_path):
    make(tmp_path)
    found = diagnose([str(tmp_path)])
    assert not [p for p in found.inventory.problems if "torchvet failed" in str(p[1])]
    if not kinds:
        assert not found.verdicts
        return
    first = found.verdicts[0]
    assert first.cause in kinds, str(first.summary)
    assert sorted({r for h in found.verdicts for r in h.ranks}) == ranks, [str(h.summary) for h in found.verdicts]
    for text in (first.summary, *(link.reason for link in first.supports), *first.missing):
        assert "{" not in text.render("en") + text.render("zh")


UNSURE = ("cannot be told", "each waits for the other", "nothing tells", "towards each other")
"""Words of a verdict that names more ranks than are at fault, and says so."""


@pytest.mark.parametrize("number", range(60))
def test_a_random_job_blames_nobody_else(number, tmp_path):
    made = job(number)
    leave(made, number, tmp_path)
    found = diagnose([str(tmp_path)])
    assert not [p for p in found.inventory.problems if "torchvet failed" in str(p[1])]
    said = " ; ".join(str(h.summary) for h in found.verdicts)
    blamed = {r for h in found.verdicts for r in h.ranks}
    if not made.hung and made.fault != "raise":
        assert not found.verdicts, said
    if any(words in said for words in UNSURE):
        return
    assert blamed <= set(made.bad), said
    assert not blamed or found.verdicts[0].cause in KINDS[made.fault], said


def test_most_random_jobs_are_explained(tmp_path):
    right = hung = 0
    for number in range(100, 160):
        made = job(number)
        made.sim.dumps(tmp_path / f"{number}/fr", version="2.9", waited=600)
        made.sim.logs(tmp_path / f"{number}", made.errors)
        if made.hung:
            hung += 1
            found = diagnose([str(tmp_path / str(number))]).verdicts
            right += bool(found) and found[0].cause in KINDS[made.fault] and found[0].ranks == made.bad
    assert hung > 40 and right >= 0.85 * hung, (right, hung)


def long_ago(folder):
    """Rank 2 leaves out the second call of step 300, of 990: only the lines of calls differ, until one is a barrier."""
    rows = []
    for rank in range(4):
        row = []
        for step in range(990):
            row += [call("world", "all_reduce", 8), call("world", "all_reduce", 8, line=61)][
                : 1 if (rank, step) == (2, 300) else 2
            ]
        rows.append([*row, call("world", "barrier", 1, line=99, fn="end_of_epoch"), sync()])
    Sim(4, {}, rows, "gloo").dumps(folder / "fr", version="2.10")


def test_a_fault_outside_the_summary(tmp_path, monkeypatch):
    """Two thousand calls are in the ring, 512 in a summary: the dumps of the ranks in question are read once more."""
    long_ago(tmp_path / "job")
    monkeypatch.chdir(tmp_path / "job")
    facts = tmp_path / "job/node.facts"
    assert main(["diagnose", "--reduce", "fr", "-o", str(facts)]) == 0
    assert facts.stat().st_size < (tmp_path / "job/fr/nccl_trace_rank_0").stat().st_size / 20
    shutil.make_archive(str(tmp_path / "all"), "gztar", tmp_path / "job/fr")
    for path in (tmp_path / "job/fr", facts, tmp_path / "all.tar.gz"):
        (first,) = diagnose([str(path)]).verdicts
        assert (first.cause, first.ranks, first.site) == ("uneven-inputs", [2], ("/workspace/train.py", 61))
        assert "part at call 602" in str(first.summary)
    # elsewhere, or changed since: the summary has to do, and says what is missing
    monkeypatch.chdir(tmp_path)
    with open(tmp_path / "job/fr/nccl_trace_rank_2", "ab") as f:
        f.write(b".")
    (tmp_path / "other").mkdir()
    for path in (facts, shutil.copy(facts, tmp_path / "other")):
        if path != facts:
            monkeypatch.chdir(tmp_path / "other")
        found = diagnose([str(path)])
        assert (found.verdicts[0].cause, found.verdicts[0].ranks) == ("collective-mismatch", [2])
        assert any("dumps of rank" in str(text) for text in found.inventory.missing)


def test_a_summary_names_no_place_elsewhere(tmp_path, monkeypatch):
    """What a reduced file names is followed beside it and below the current folder, nowhere else."""
    from torchvet.diagnose.closer import reachable

    (tmp_path / "here").mkdir()
    (tmp_path / "here/dump").write_text("x")
    (tmp_path / "secret").write_text("x")
    monkeypatch.chdir(tmp_path / "here")
    real = os.path.realpath(tmp_path)
    assert reachable("", "a.facts", "dump") == reachable(f"{real}/here/dump", "b/a.facts", "x") == f"{real}/here/dump"
    assert not reachable(str(tmp_path / "secret"), "a.facts", "../secret") and not reachable("", "a.facts", "gone")
    os.symlink(tmp_path / "secret", tmp_path / "here/link")
    assert not reachable("", "a.facts", "link")
