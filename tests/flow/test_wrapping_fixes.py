"""The fixes of the loader and wrap rules: applied, the code parses and the rule is silent."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

from torchvet.check.config import Options
from torchvet.check.rules.loader.sampler_epoch_not_set import RULE as EPOCH
from torchvet.check.rules.loader.workers_respawned import RULE as WORKERS
from torchvet.check.rules.project import Project
from torchvet.check.rules.wrap.load_onto_first_gpu import RULE as LOAD
from torchvet.check.rules.wrap.sync_batchnorm_too_late import RULE as CONVERT
from torchvet.check.rules.wrap.unused_parameters_flag import RULE as FLAG
from torchvet.check.rules.wrap.wrapped_before_device import RULE as EARLY

LOADS = """\
import torch
import torch.distributed as dist


def main(net, opt, path):
    dist.init_process_group("nccl")
    net.load_state_dict(torch.load(path))
    opt.load_state_dict(torch.load(f=path, weights_only=True)["x"])
    state = torch.load(
        path,
    )
    net.load_state_dict(state)
"""
EPOCHS = """\
from torch.utils.data import DataLoader, DistributedSampler


class Trainer:
    def __init__(self, d):
        self.loader = DataLoader(d, sampler=DistributedSampler(d))

    def fit(self, model, opt):
        for epoch in range(3):
            # the batches
            for x in self.loader:
                model(x).backward()
                opt.step()
"""


RESPAWNED = """\
from torch.utils.data import DataLoader


def main(d, step):
    loader = DataLoader(
        d,
        num_workers=4,
    )
    for epoch in range(500):
        for x in loader:
            step(x)
"""
CONVERTED = """\
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main(model, rank):
    if rank >= 0:
        model = DDP(model.to(rank), device_ids=[rank])
    model = nn.BatchNorm1d(2).to(rank)
    model = DDP(model, device_ids=[rank])
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return model
"""
MOVED = """\
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def first():
    model = nn.Linear(2, 2)
    model = DDP(model)
    model.cuda()
    return model


def second(rank):
    net = nn.Linear(2, 2)
    net = DDP(net, device_ids=[rank])
    net = net.to(rank)
    return net
"""
FLAGGED = """\
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


def main(rank):
    return DDP(Net().to(rank), device_ids=[rank], find_unused_parameters=True)
"""


def project_of(tmp_path, source: str) -> Project:
    return Project(settings_of(tmp_path, train=source).program, Options())


def applied(source: str, findings) -> str:
    """The source after all fixes, from the last to the first."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits = [(starts[e.line - 1] + e.column - 1, starts[e.end_line - 1] + e.end_column - 1, e.text)
             for f in findings for e in f.fix.edits]  # fmt: skip
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


@pytest.mark.parametrize(
    ("rule", "source", "count"),
    [
        (LOAD, LOADS, 3),
        (EPOCH, EPOCHS, 1),
        (WORKERS, RESPAWNED, 1),
        (CONVERT, CONVERTED, 1),
        (EARLY, MOVED, 2),
        (FLAG, FLAGGED, 1),
    ],
)
def test_fix(tmp_path, rule, source, count):
    found = list(rule.run(project_of(tmp_path, source)))
    assert len(found) == count
    assert all(f.fix is not None and f.fix.safe is (rule is LOAD) for f in found)
    fixed = applied(source, found)
    compile(fixed, "train.py", "exec")
    assert list(rule.run(project_of(tmp_path, fixed))) == []


def test_conversion_moves_before_the_wrap(tmp_path):
    (found,) = CONVERT.run(project_of(tmp_path, CONVERTED))
    lines = [x.strip() for x in applied(CONVERTED, [found]).split("\n")]
    at = lines.index("model = nn.SyncBatchNorm.convert_sync_batchnorm(model)")
    assert lines[at + 1] == "model = DDP(model, device_ids=[rank])"
    other = CONVERTED.replace("model = nn.Sync", "converted = nn.Sync")
    assert [f.fix for f in CONVERT.run(project_of(tmp_path, other))] == [None]


def test_epoch_is_set_before_the_batches(tmp_path):
    (found,) = EPOCH.run(project_of(tmp_path, EPOCHS))
    fixed = applied(EPOCHS, [found]).split("\n")
    at = fixed.index("            self.loader.sampler.set_epoch(epoch)")
    assert fixed[at + 1] == "            for x in self.loader:"
