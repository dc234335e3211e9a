"""Which files are admitted, and which words stand on which lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.check.source.words import RANK_WORDS, admit, word_lines

ADMITTED = {
    "a training loop": "import torch\nfor x, y in data:\n    loss = f(x, y)\n    loss.backward()\n",
    "no import at all": "def fit(policy, batches, opt, criterion):\n    loss = criterion(policy(1), 2)\n    loss.backward()\n",
    "backward of a wrapper": "import torch\ndef step(self, loss):\n    self.manual_backward(loss)\n",
    "evaluation without no_grad": "def validate(val_loader, model):\n    model.eval()\n    for x in val_loader:\n        y = model(x)\n",
    "losses of a loop": "def f(loader):\n    for x, y in loader:\n        losses.append(criterion(model(x), y))\n",
    "losses of any data": "import torch\ndef f(data):\n    for x, y in data:\n        losses.append(self.criterion(model(x), y))\n",
    "a loader": "from torch.utils.data import DataLoader\nd = DataLoader(x, num_workers=64)\n",
    "wrapping": "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(m)\n",
    "wrapping in full": "import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n",
    "sharding": "from torch.distributed.fsdp import fully_shard\nfully_shard(m)\n",
    "a barrier": "import torch.distributed as dist\ndist.barrier()\n",
    "a guard": "import torch\nfrom .comm import is_main_process\nif is_main_process():\n    evaluate()\n",
    "a rank": "import torch\nfrom .comm import get_rank\nif get_rank() == 0:\n    evaluate()\n",
    "an attribute rank": "import torch\nif self.rank == 0:\n    evaluate()\n",
    "local rank": "import torch\nif args.local_rank in (-1, 0):\n    evaluate()\n",
    "lightning": "import pytorch_lightning as pl\nif trainer.is_global_zero:\n    trainer.log_dir\n",
    "a module's step": "class M(Base):\n    def training_step(self, batch, i):\n        self.x.append(self(batch))\n",
    "accelerate": "from accelerate import Accelerator\nif state.is_main_process:\n    gather_object(out)\nstate.wait_for_everyone()\n",
    "a forked handle": "import torch, h5py\nclass D(Dataset):\n    def __init__(self):\n        self.f = h5py.File('x')\n"
    "    def __getitem__(self, i):\n        return self.f[i]\n",
    "running statistics": "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        if self.training:\n"
    "            m = x.mean(0)\n            self.mu.mul_(0.9).add_(m)\n",
    "a hook": "import torch\nmodel.register_forward_hook(lambda m, i, o: kept.append(o))\n",
    "a cached method": "import torch\nfrom functools import lru_cache\nclass M:\n    @lru_cache(None)\n    def mask(self, n):\n        return torch.ones(n)\n",
    "an environment": "import torch\nobs = env.step(act.detach())\nself.store.append(obs)\n",
    "a kernel in a string": "from torch.utils.cpp_extension import load_inline\nm = load_inline(name='x', cpp_sources=s)\n",
    "cupy": "import cupy\nk = cupy.RawKernel(s, 'k')\n",
    "ctypes": "import ctypes\nrt.cudaMallocHost(p, n)\n",
    "a cell of a notebook": '{"cells": [{"source": ["import torch\\n",\n "model.eval()\\n",\n "for x in loader:\\n",\n "  m(x)"]}]}',
    "the licence above": "# distributed under the License is distributed on an AS IS basis\nimport torch.distributed as d\nd.all_gather(x, y)\n",
}
LEFT_OUT = {
    "nothing": "",
    "a model": "import torch\nclass M(torch.nn.Module):\n    @torch.no_grad()\n    def forward(self, x):\n        return self.f(x)\n",
    "a numpy module": "import numpy as np\nfor x in data:\n    total += np.mean(x)\n",
    "an autograd function": "import torch\nclass F(torch.autograd.Function):\n    def backward(ctx, g):\n        ctx.save_for_backward(g)\n",
    "a doctest": 'import torch\ndef f():\n    """\n    >>> loss.backward()\n    >>> model.eval()\n    """\n',
    "a licence": "# distributed under the License is distributed on an AS IS basis\nimport torch\nx = broadcast(y)\n",
    "another framework": "import paddle\nloss.backward()\n",
    "loss of a forward": "import torch\nloss = cross_entropy(x, y)\nloss_fct(x)\n",
    "a low rank": "import torch\nlora_rank = 8\nself.rank_dropout = 0.1\n",
    "threads": "import threading\nb = threading.Barrier(2)\n",
    "loaders that load code": "import torch\nfrom importlib import loader\nspec.loader.exec_module(m)\n",
}


@pytest.mark.parametrize("name", ADMITTED)
def test_admitted(name: str) -> None:
    assert admit(ADMITTED[name].encode())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_left_out(name: str) -> None:
    assert not admit(LEFT_OUT[name].encode())


def test_words_and_lines() -> None:
    source = (
        "import torch\nfor x in loader:\r\n    loss.backward(); loss.backward()\n\x0c\r"
        "if dist.get_rank() == 0 and is_main_process():\n    dist.barrier()\n    init_process_group()\nDataLoader(x, num_workers=4)\n"
    )
    rows = word_lines(source.encode())
    assert rows == [
        (2, "loader"), (3, "backward"), (5, "rank"), (5, "main_process"), (6, "barrier"), (7, "init_process_group"),
        (8, "DataLoader"), (8, "num_workers"),
    ]  # fmt: skip
    assert {w for line, w in rows if line == 5} <= RANK_WORDS


@given(
    st.lists(
        st.sampled_from(("x = 1", "loss.backward()", "all_reduce(x)", "if rank == 0:", "é = 'backward('", "")),
        max_size=12,
    )
)
def test_lines_of_words_are_the_lines_that_hold_them(lines: list[str]) -> None:
    for end in ("\n", "\r\n", "\r"):
        rows = word_lines(end.join(lines).encode())
        assert rows == sorted(rows, key=lambda row: row[0])
        for word, mark in (("backward", "backward("), ("all_reduce", "all_reduce"), ("rank", "rank ==")):
            assert [n for n, w in rows if w == word] == [n for n, line in enumerate(lines, 1) if mark in line]
