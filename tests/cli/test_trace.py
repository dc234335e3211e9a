"""`torchvet check --trace`: which function is meant, and what is said of it, word for word.

TORCHVET_UPDATE_GOLDEN=1 writes the files in tests/cli/golden anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from torchvet import cli

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("TORCHVET_UPDATE_GOLDEN"))
TRAIN = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from evaluation import evaluate


def train(net, loader, epochs):
    rank = dist.get_rank()
    model = DDP(net)
    if not epochs:
        return
    for epoch in range(3):
        for x in loader:
            loss = model(x).sum()
            if torch.isnan(loss):
                continue
            loss.backward()
        if rank == 0:
            evaluate(model)
        elif epoch > 1:
            print("waits")
        try:
            dist.all_reduce(loss)
        except RuntimeError:
            dist.barrier()
    if int(os.environ["LOCAL_RANK"]) == 0:
        return
    dist.barrier()


def outer(net, loader):
    with_group = dist.new_group([0, 1])
    dist.broadcast(net.weight, 0, group=with_group)
    uneven(net, loader)


def uneven(model, files):
    for path in files[dist.get_rank() :: dist.get_world_size()]:
        dist.all_reduce(path)


def first():
    if dist.get_rank() == 0:
        dist.barrier()


def second():
    if dist.get_rank() != 0:
        dist.barrier()


def both():
    first()
    second()


def plain(x):
    return x + 1


def same(x):
    dist.all_reduce(x)
    return x
"""
EVALUATION = """\
import torch.distributed as dist


def evaluate(model):
    if model is None:
        raise ValueError
    dist.all_reduce(model.score)
    again(model)
    again(model)


def again(model):
    dist.barrier()
    dist.barrier()


class Meter:
    def sync(self):
        dist.all_reduce(self.total)


class Other:
    def sync(self):
        dist.barrier()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "evaluation.py").write_text(EVALUATION)
    (tmp_path / "notes.py").write_text("def quiet():\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("TORCHVET_", "LC_")) or name in ("CI", "FORCE_COLOR", "NO_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")


@pytest.fixture
def trace(project, capsys):
    def run(name, *words):
        code = cli.main(["check", ".", "--no-cache", "--trace", name, *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def compare(name, text):
    file = GOLDEN / name
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["train", "outer", "both", "first"])
def test_a_trace_for_people(trace, name, language):
    code, out, err = trace(f"train:{name}", "--lang", language)
    assert (code, err) == (0, "")
    compare(f"trace.{name}.{language}.txt", out)


def test_the_same_facts_for_programs(trace):
    code, out, _ = trace("train:train", "--output-format", "json")
    data = json.loads(out)
    assert (
        code == 0 and data["schema"] == 1 and data["function"] == {"name": "train:train", "path": "train.py", "line": 8}
    )
    assert data["ranks"][:2] == ["0", "1"]
    (guard,) = [r for r in data["rows"] if r["text"] == "if rank == 0:"]
    assert guard["parts"] and guard["kind"] == "if" and guard["line"] == 19
    (reduced,) = [r for r in data["rows"] if r["name"] == "all_reduce" and r["path"] == "evaluation.py"]
    assert reduced["runs"]["0"] == "yes" and reduced["runs"]["1"] == "no" and reduced["group"] == "world"
    assert [f["name"] for f in data["reported"] if f["path"] == "evaluation.py"] == ["rank-guarded-collective"]


def test_colour_only_when_asked(trace):
    assert "\x1b[" not in trace("train:train")[1]
    assert "\x1b[1;33m◆\x1b[0m" in trace("train:train", "--color", "always")[1]


def test_columns_name_the_ranks_that_differ(trace):
    out = trace("train:train")[1]
    head = next(row for row in out.splitlines() if row.startswith("  0"))
    assert head.split() == ["0", "1", "4"]  # a local rank is asked for: the first of another node is not just another
    last = [row for row in out.splitlines() if " 29 │" in row]
    assert [row.split("│")[0].split()[:3] for row in last] == [["·", "●", "·"]]


def test_what_callers_make_up_for_is_said(trace):
    assert "its callers make up for it (train.py:both" in trace("train:first")[1]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("plain", "no collective is known here or in what it calls"),
        ("same", "nothing here depends on the rank"),
        ("notes:quiet", "no collective is known here or in what it calls"),
        ("evaluation.py:9", "nothing here depends on the rank"),
        ("evaluation.Meter.sync".replace("evaluation.", "evaluation:"), "nothing here depends on the rank"),
        ("train:<module>", "no collective is known here or in what it calls"),
    ],
)
def test_why_nothing_is_reported(trace, name, verdict):
    code, out, _ = trace(name)
    assert code == 0 and verdict in out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trian", "there is no function trian (did you mean train:train?)"),
        ("train:uneve", "there is no function train:uneve (did you mean train:uneven?)"),
        (
            "evaluatoin:again",
            "there is no function evaluatoin:again (no file is module evaluatoin; did you mean evaluation?)",
        ),
        ("sync", "sync can mean 2 functions (one of: evaluation:Meter.sync, evaluation:Other.sync)"),
    ],
)
def test_mistakes_are_explained(trace, name, message):
    code, out, err = trace(name)
    assert (code, out) == (2, "") and err == f"torchvet: {message}\n"


def test_only_two_formats(trace):
    code, _, err = trace("train:train", "--output-format", "sarif")
    assert code == 2 and "--trace prints text or json, not sarif" in err


def test_not_from_standard_input(project, capsys):
    assert cli.main(["check", "-", "--trace", "train"]) == 2
    assert "not standard input" in capsys.readouterr().err


def test_axes_of_groups_have_columns_of_their_own(trace, tmp_path):
    (tmp_path / "mesh.py").write_text(
        "import torch.distributed as dist\n\n\n"
        "def save(tp_group, x):\n"
        "    if dist.get_rank(tp_group) == 0:\n"
        "        dist.barrier(group=tp_group)\n"
    )
    code, out, _ = trace("mesh:save")
    rows = out.splitlines()
    assert code == 0 and rows[2].split() == ["a0", "a1"]
    assert rows[4].split("│")[0].split()[:2] == ["●", "·"]
    assert "a0 and a1 are ranks of group tp_group" in out and "8 ranks on 2 nodes" not in out
    assert "rank-guarded-collective" in out


def test_what_a_check_passes_over_is_said(trace, monkeypatch):
    assert "error[rank-guarded-collective]" in trace("train:train")[1]
    monkeypatch.setattr("torchvet.check.flow.ranks_suspects.Suspects.functions", lambda self: [])
    out = trace("train:train")[1]
    assert "not reported: rank-guarded-collective" in out and "a check passes over this function" in out
    assert "error[" not in out


@pytest.mark.parametrize(("tested", "parts"), [('hasattr(net, "module")', False), ("loader", True)])
def test_a_module_that_is_not_wrapped_runs_no_collective(trace, tested, parts):
    """`if hasattr(net, "module"): net.module(x)`: behind its `else` the module is not wrapped."""
    with open("wrapped.py", "w", encoding="utf-8") as f:
        f.write(
            "import torch\nimport torch.multiprocessing as mp\nfrom torch.nn.parallel import DistributedDataParallel\n\n\n"
            "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.register_buffer('mean', torch.zeros(4))\n\n\n"
            "def fit(rank, h, loader):\n    net = Net().to(rank)\n    if h.num_gpus > 1:\n"
            "        net = DistributedDataParallel(net, device_ids=[rank])\n    if rank == 0:\n        for x in loader:\n"
            f"            if {tested}:\n                net.module(x)\n            else:\n                net(x)\n"
            "    for x in loader:\n        net(x).mean().backward()\n\n\n"
            "def main(h):\n    mp.spawn(fit, nprocs=h.num_gpus)\n"
        )
    _, out, _ = trace("wrapped:fit")
    assert ("ranks part here" in out.partition("8 ranks")[0]) is parts
