"""In files that pytest collects, only what a function runs itself is looked at."""

from __future__ import annotations

import pytest
from rank_programs import found

DIRECT = """\
import torch.distributed as dist


def test_it():
    if dist.get_rank() == 0:
        dist.barrier()
"""
THROUGH_A_HELPER = """\
import torch.distributed as dist


def clean_up():
    dist.barrier()


def test_it():
    if dist.get_rank() == 0:
        clean_up()
"""


@pytest.mark.parametrize("file", ["train", "test_train", "train_test"])
def test_a_collective_in_the_function_itself(tmp_path, file):
    assert found(tmp_path, **{file: DIRECT})


@pytest.mark.parametrize(("file", "said"), [("train", True), ("test_train", False), ("train_test", False)])
def test_a_collective_in_a_helper(tmp_path, file, said):
    assert bool(found(tmp_path, **{file: THROUGH_A_HELPER})) is said
