"""A forward of DDP on some ranks waits for the others only when the model has buffers to synchronise."""

from __future__ import annotations

import pytest
from rank_programs import ranks_of

SOURCE = """\
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main(x, factory):
    dist.init_process_group("nccl")
    net = {made}.cuda()
    net = DDP(net)
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(net(x)){more}
"""


@pytest.mark.parametrize(
    ("made", "more", "expected"),
    [
        ("torchvision.models.resnet50(num_classes=2)", "", ["certain"]),
        ("torchvision.models.mobilenet_v2()", "", ["certain"]),
        ("nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))", "", ["certain"]),
        ("nn.Sequential(nn.Linear(2, 2), nn.ReLU())", "", []),
        ("torchvision.models.vgg16()", "", ["possible"]),
        ("factory()", "", ["possible"]),
        ("factory()", "\n        net(x).sum().backward()", ["likely"]),
    ],
)
def test_how_sure_it_is(tmp_path, made, more, expected):
    found = ranks_of(tmp_path, train=SOURCE.format(made=made, more=more)).divergences()
    assert [d.confidence for d in found if d.fault == "rank-guarded-forward"] == expected


def test_a_framework_may_have_sharded_it(tmp_path):
    source = (
        "from accelerate import Accelerator\n\n\n"
        "def main(net, x):\n"
        "    accelerator = Accelerator()\n"
        "    net = accelerator.prepare(net)\n"
        "    accelerator.backward(net(x).sum())\n"
        "    if accelerator.is_main_process:\n"
        "        net(x)\n"
    )
    found = ranks_of(tmp_path, train=source).divergences()
    assert [(d.fault, d.confidence) for d in found] == [("rank-guarded-forward", "likely")]
