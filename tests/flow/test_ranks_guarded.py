"""Fields that were given a rank test say who runs what stands under them."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import ranks_of

HEAD = """\
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def is_global(args):
    return args.rank == 0
def is_local(args):
    return args.local_rank == 0
def is_first(args, local=False):
    return is_local(args) if local else is_global(args)
"""
MAIN = """
def main(args, model):
    args.rank = dist.get_rank()
    model = DDP(model)
    {given}
    if args.dry:
        print(1)
    elif {test}:
        torch.save(model.module.state_dict(), "last.pt")
if __name__ == "__main__":
    main(1, 2)
"""
FIELDS = {
    "a test": ("args.saves = args.logs and args.logs.lower() != 'none' and is_first(args)", "args.saves", False),
    "a comparison": ("args.saves = args.rank == 0", "args.saves", False),
    "with another test": ("args.saves = is_first(args, local=True)", "args.saves and args.logs", False),
    "no test": ("args.saves = args.logs and args.logs.lower() != 'none'", "args.saves", True),
    "another field": ("args.shows = is_first(args)", "args.saves", True),
    "of another object": ("model.saves = is_first(args)", "args.saves", True),
}


@pytest.mark.parametrize("name", FIELDS, ids=list(FIELDS))
def test_a_field_that_holds_a_rank_test(tmp_path, name):
    given, test, wrong = FIELDS[name]
    ranks = ranks_of(tmp_path, train=HEAD + MAIN.format(given=given, test=test))
    assert len(ranks.shared_saves()) == wrong


def test_a_field_given_in_another_file_of_the_folder(tmp_path):
    start = """
        import torch.distributed as dist
        from save import store
        def main(args, model):
            {}
            store(args, model)
        main(1, 2)
    """
    save = """
        import torch
        from torch.nn.parallel import DistributedDataParallel as DDP
        def store(args, model):
            model = DDP(model)
            if args.saves:
                torch.save(model.module.state_dict(), "last.pt")
    """
    for given, wrong in (("args.saves = dist.get_rank() == 0", 0), ("args.saves = dist.is_initialized()", 1)):
        ranks = ranks_of(tmp_path, start=textwrap.dedent(start).format(given), save=save)
        assert len(ranks.shared_saves()) == wrong
