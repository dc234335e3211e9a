"""The fixes of the loader and wrap rules: applied, the code parses and the rule is silent."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

from torchvet.check.config import Options
from torchvet.check.rules.loader.sampler_epoch_not_set import RULE as EPOCH
from torchvet.check.rules.project import Project
from torchvet.check.rules.wrap.load_onto_first_gpu import RULE as LOAD

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


def project_of(tmp_path, source: str) -> Project:
    return Project(settings_of(tmp_path, train=source).program, Options())


def applied(source: str, findings) -> str:
    """The source after all fixes, from the last to the first."""
    lines = source.split("\n")
    edits = sorted(((e.line, e.column, e.text) for f in findings for e in f.fix.edits), reverse=True)
    for line, column, text in edits:
        lines[line - 1] = lines[line - 1][: column - 1] + text + lines[line - 1][column - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize(("rule", "source", "count"), [(LOAD, LOADS, 3), (EPOCH, EPOCHS, 1)])
def test_fix(tmp_path, rule, source, count):
    found = list(rule.run(project_of(tmp_path, source)))
    assert len(found) == count
    assert all(f.fix is not None and f.fix.safe is (rule is LOAD) for f in found)
    fixed = applied(source, found)
    compile(fixed, "train.py", "exec")
    assert list(rule.run(project_of(tmp_path, fixed))) == []


def test_epoch_is_set_before_the_batches(tmp_path):
    (found,) = EPOCH.run(project_of(tmp_path, EPOCHS))
    fixed = applied(EPOCHS, [found]).split("\n")
    at = fixed.index("            self.loader.sampler.set_epoch(epoch)")
    assert fixed[at + 1] == "            for x in self.loader:"
