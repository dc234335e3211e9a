"""Order of moving, wrapping, converting and optimizing, through branches, helpers and attributes."""

from __future__ import annotations

import os
import textwrap

import pytest

from torchvet.check.flow.wrapping import Wrapping
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program

HEAD = """\
import os
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

"""


def wrapping_of(tmp_path, source: str, **more: str) -> Wrapping:
    files = {"train": HEAD + textwrap.dedent(source), **{k: textwrap.dedent(v) for k, v in more.items()}}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")

    def read(path: str) -> str | None:
        full = os.path.join(tmp_path, path)
        return open(full, encoding="utf-8").read() if os.path.isfile(full) else None

    program = Program(str(tmp_path), [f"{n}.py" for n in files], read)
    for name in files:
        program.add(f"{name}.py", lower(read(f"{name}.py")))
    return Wrapping(program)


def lines(wrapping: Wrapping) -> list[int]:
    """Lines below the head of the wraps that come too early."""
    return [(e.wrap.pos >> 44) - HEAD.count("\n") for e in wrapping.early()]


EARLY = {
    "wrapper moved": "def f(m):\n    m = DDP(m)\n    return m.cuda()",
    "inner model moved": "def f(rank):\n    m = Net()\n    d = DDP(m)\n    m.to(torch.device('cuda', rank))\n    return d",
    "device_ids on the CPU": "def f(rank):\n    m = Net()\n    m = DDP(m, device_ids=[rank])\n    return m",
    "dtype is no move": "def f(rank):\n    m = Net().to(torch.bfloat16)\n    m = DDP(m, device_ids=[rank])\n    return m",
    "helper wraps": "def w(m):\n    return DDP(m)\ndef f(rank):\n    m = w(Net())\n    m.cuda(rank)",
    "attribute": "class T:\n    def __init__(self, m):\n        self.m = DDP(m)\n        self.m.cuda()",
    "other branch moves": (
        "def f(rank, c):\n    m = Net()\n    if c:\n        m = DDP(m, device_ids=[rank])\n    else:\n        m.cuda()\n    return m"
    ),
}
FINE = {
    "moved first": "def f(rank):\n    m = Net().cuda(rank)\n    return DDP(m, device_ids=[rank])",
    "moved in place": "def f(device):\n    m = Net()\n    m.to(device)\n    m = DDP(m)\n    return m.to(device)",
    "moved on some path": "def f(rank, c):\n    m = Net()\n    if c:\n        m.cuda()\n    return DDP(m, device_ids=[rank])",
    "moved by a helper": "def put(m):\n    return m.cuda()\ndef f(rank):\n    return DDP(put(Net()), device_ids=[rank])",
    "unknown helper": "import lib\ndef f(rank):\n    m = lib.put(Net())\n    m = DDP(m, device_ids=[rank])\n    return m.cuda()",
    "moved in a loop": (
        "def f(rank):\n    a, b = Net(), Net()\n    for m in (a, b):\n        m.cuda(rank)\n"
        "    [x.to(rank) for x in [a]]\n    return DDP(a, device_ids=[rank]), DDP(b, device_ids=[rank])"
    ),
    "moved by options": "def f(rank, **kw):\n    m = Net().to(**kw)\n    return DDP(m, device_ids=[rank])",
    "CPU": "def f():\n    return DDP(Net())",
    "devices may be None": "def f(rank, c):\n    return DDP(Net(), device_ids=[rank] if c else None)",
    "made on the device": "def f(rank):\n    with torch.device('cuda'):\n        m = Net()\n    return DDP(m, device_ids=[rank])",
    "default device": "torch.set_default_device('cuda')\ndef f(rank):\n    return DDP(Net(), device_ids=[rank])\nf(0)",
    "early return": (
        "def f(rank, c):\n    m = Net()\n    if not c:\n        return m.cuda()\n    m = m.cuda(rank)\n    return DDP(m)"
    ),
    "FSDP": "def f(rank):\n    m = FSDP(Net())\n    return m.cuda(rank)",
    "DataParallel": "def f():\n    m = nn.DataParallel(Net())\n    return m.cuda()",
    "caller moved it": "def w(m, rank):\n    return DDP(m, device_ids=[rank])\ndef f(rank):\n    m = Net()\n    m.cuda()\n    return w(m, rank)",
    "moves itself": (
        "class Own(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.cuda()\n"
        "def f(rank):\n    return DDP(Own(), device_ids=[rank])"
    ),
}


@pytest.mark.parametrize("name", EARLY)
def test_early(tmp_path, name):
    source = EARLY[name]
    expected = next(i for i, line in enumerate(source.split("\n"), 1) if "DDP(" in line)
    assert lines(wrapping_of(tmp_path, source)) == [expected]


@pytest.mark.parametrize("name", FINE)
def test_not_early(tmp_path, name):
    assert lines(wrapping_of(tmp_path, FINE[name])) == []


def test_helper_in_another_file(tmp_path):
    helper = (
        "from torch.nn.parallel import DistributedDataParallel\ndef wrap(m):\n    return DistributedDataParallel(m)\n"
    )
    wrapping = wrapping_of(
        tmp_path, "from helper import wrap\ndef f(rank):\n    m = wrap(Net())\n    m.cuda(rank)", helper=helper
    )
    (early,) = wrapping.early()
    assert (early.wrap.function.module.path, early.moved.function.module.path) == ("helper.py", "train.py")


OPTIMIZER = "torch.optim.SGD(m.parameters(), lr=1)"


@pytest.mark.parametrize(
    ("source", "stale"),
    [
        (f"def f(m):\n    o = {OPTIMIZER}\n    m = FSDP(m)", 1),
        (f"def f(m):\n    o = {OPTIMIZER}\n    fully_shard(m)", 1),
        ("def f(m):\n    o = torch.optim.SGD([{'params': [p for p in m.parameters()]}], lr=1)\n    m = FSDP(m)", 1),
        (f"def o(m):\n    return {OPTIMIZER}\ndef f(m):\n    x = o(m)\n    s = FSDP(m)\n    return x, s", 1),
        (f"def f(m):\n    o = {OPTIMIZER}\n    m = FSDP(m, use_orig_params=True)", 0),
        (f"def f(m, **kw):\n    o = {OPTIMIZER}\n    m = FSDP(m, **kw)", 0),
        (f"def f(m):\n    m = FSDP(m)\n    o = {OPTIMIZER}", 0),
        (f"def f(m):\n    o = {OPTIMIZER}\n    m = DDP(m.cuda())", 0),
        (f"def f(m, c):\n    if c:\n        o = {OPTIMIZER}\n    else:\n        m = FSDP(m)", 0),
        (f"def f(m, n):\n    o = {OPTIMIZER}\n    n = FSDP(n)", 0),
    ],
)
def test_optimizer_before_sharding(tmp_path, source, stale):
    assert len(wrapping_of(tmp_path, source).stale_optimizers()) == stale


def test_synchronised_batch_norm(tmp_path):
    convert = "nn.SyncBatchNorm.convert_sync_batchnorm"
    late = f"def f(m):\n    m = DDP(m.cuda())\n    return {convert}(m)"
    right = f"def f(m):\n    m = {convert}(m.cuda())\n    return DDP(m)"
    assert len(wrapping_of(tmp_path, late).late_conversions()) == 1
    assert wrapping_of(tmp_path, right).late_conversions() == []


CLIP = "nn.utils.clip_grad_norm_(m.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (f"def f(m):\n    m = FSDP(m)\n    {CLIP}", 1),
        (f"def f(m, n):\n    m = FSDP(m)\n    if n > 0:\n        {CLIP}", 1),
        (f"def f(m):\n    fully_shard(m)\n    {CLIP}", 0),
        (f"def f(m):\n    m = DDP(m.cuda())\n    {CLIP}", 0),
        (f"def f(m, c):\n    if c:\n        m = FSDP(m)\n    if not c:\n        {CLIP}", 0),
        (f"def f(m):\n    m = FSDP(m)\n    if not isinstance(m, FSDP):\n        {CLIP}", 0),
        (
            f"from torch.distributed.fsdp import ShardingStrategy as S\ndef f(m):\n    m = FSDP(m, sharding_strategy=S.NO_SHARD)\n    {CLIP}",
            0,
        ),
    ],
)
def test_clip_on_shards(tmp_path, source, wrong):
    assert len(wrapping_of(tmp_path, source).shard_clips()) == wrong


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("d.module(x).sum().backward()", 1),
        ("loss = m(x).sum()\n    loss.backward()", 1),
        ("d(x).sum().backward()", 0),
        ("d(x).sum().backward()\n    m(x)", 0),
        ("with torch.no_grad():\n        y = d.module(x)\n    y.backward()", 0),
        ("loss = d.module.compute_loss(x)\n    loss.backward()", 1),
        ("loss = d.module.compute_loss(x)\n    d(x)\n    loss.backward()", 0),
        ("if x:\n        m = d\n    m.backward(m.compute_loss(x))", 0),
        ("y = d.module(x)", 0),
        ("d.module.state_dict()", 0),
    ],
)
def test_bypassed(tmp_path, call, wrong):
    assert len(wrapping_of(tmp_path, f"def f(m, x):\n    d = DDP(m)\n    {call}").bypasses()) == wrong


@pytest.mark.parametrize(
    ("called", "wrong"),
    [("self.dmodel(x)", 0), ("self.model(x)", 1), ("self.dmodel(x) + self.model.scaled(x)", 0)],
)
def test_the_wrapper_or_in_one_process_the_model(tmp_path, called, wrong):
    source = f"""
        def wrap(model):
            if world_size == 1:
                return model
            return DDP(model)

        class Solver:
            def __init__(self, model):
                self.model = model
                self.dmodel = wrap(model)

            def train(self, loader):
                for x, y in loader:
                    loss = ({called} - y).mean()
                    loss.backward()

        def solver_of(args):
            model = Net()
            if args.model_only:
                return Solver(model)
            return Solver(model)

        def main(args, loader):
            solver_of(args).train(loader)
        """
    assert bool(wrapping_of(tmp_path, source).bypasses()) is bool(wrong)


@pytest.mark.parametrize(
    ("test", "called", "wrong"),
    [("a.sharded", "m", 0), ("a.sharded", "raw", 1), ("not a.plain", "m", 0), ("a.other", "raw", 1)],
)
def test_what_is_wrapped_on_one_way_is_not_wrapped_again_on_the_other(tmp_path, test, called, wrong):
    source = f"""
        import deepspeed
        def train(m, x):
            m(x).sum().backward()
        def f(m, x, a):
            raw = m
            if a.many:
                if not ({test}):
                    m = DDP(m)
            if {test}:
                m, _, _, _ = deepspeed.initialize(args=a, model=m)
            train({called}, x)
        if __name__ == "__main__":
            f(Net().cuda(), 1, 2)
    """
    assert len(wrapping_of(tmp_path, source).bypasses()) == wrong


def processes(tmp_path, source: str):
    return wrapping_of(tmp_path, "import torch.distributed as dist\n" + source).processes


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(m, p):\n    dist.init_process_group('nccl')\n    m.load_state_dict(torch.load(p))", 1),
        (
            "def f(m, p):\n    dist.init_process_group('nccl')\n    s = torch.load(p)\n    m.load_state_dict(s['model'])",
            1,
        ),
        ("def f(m, p):\n    dist.init_process_group('gloo')\n    m.load_state_dict(torch.load(p))  # device", 0),
        ("def f(m, p):\n    m.load_state_dict(torch.load(p))  # cuda", 0),
        ("def f(m, p):\n    dist.init_process_group('nccl')\n    m.load_state_dict(torch.load(p, 'cpu'))", 0),
        ("def f(m, p, **k):\n    dist.init_process_group('nccl')\n    m.load_state_dict(torch.load(p, **k))", 0),
        (
            "def f(m, p, rank):\n    dist.init_process_group('nccl')\n    if rank == 0:\n        m.load_state_dict(torch.load(p))",
            0,
        ),
        ("def f(scheduler, p):\n    dist.init_process_group('nccl')\n    scheduler.load_state_dict(torch.load(p))", 0),
        ("def f(p):\n    dist.init_process_group('nccl')\n    return torch.load(p)", 0),
    ],
)
def test_loads(tmp_path, source, found):
    assert len(processes(tmp_path, source).loads()) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(m, i):\n    dist.init_process_group('nccl')\n    return DDP(m.to(i), device_ids=[i])", 1),
        (
            "def f(m, i):\n    torch.cuda.set_device(i)\n    dist.init_process_group('nccl')\n    return DDP(m.to(i), device_ids=[i])",
            0,
        ),
        (
            "def f(m, i):\n    dist.init_process_group('nccl', device_id=torch.device(i))\n    return DDP(m.to(i), device_ids=[i])",
            0,
        ),
        ("def f(m, b, i):\n    dist.init_process_group(b)\n    return DDP(m.to(i), device_ids=[i])", 0),
        ("def f(m):\n    dist.init_process_group('nccl')\n    return DDP(m)", 0),
    ],
)
def test_unset_devices(tmp_path, source, found):
    assert len(processes(tmp_path, source).unset_devices()) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    torch.cuda.set_device(dist.get_rank())", 1),
        ("def f(m):\n    r = int(os.environ['RANK'])\n    return DDP(m.cuda(), device_ids=[r])", 1),
        ("def f():\n    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())", 0),
        ("def f(m):\n    r = int(os.environ['LOCAL_RANK'])\n    return DDP(m.cuda(), device_ids=[r])", 0),
        ("def f(rank):\n    torch.cuda.set_device(rank)", 0),
        ("def f(g):\n    torch.cuda.set_device(dist.get_rank(g))", 0),
        ("def f():\n    os.environ['MASTER_ADDR'] = 'localhost'\n    torch.cuda.set_device(dist.get_rank())", 0),
    ],
)
def test_global_ranks(tmp_path, source, found):
    assert len(processes(tmp_path, source).global_ranks()) == found


LATE = {
    "unfrozen": (
        "def main(rank):\n    net = Net().to(rank)\n    net.requires_grad_(False)\n    ddp = DDP(net, device_ids=[rank])\n"
        "    ddp.requires_grad_(True)\n",
        ["unfrozen"],
    ),
    "unfrozen by a helper": (
        "def switch(model, on):\n    for name, p in model.named_parameters():\n        p.requires_grad = on\n\n"
        "def main(rank):\n    net = Net().to(rank)\n    switch(net, False)\n    ddp = DDP(net, device_ids=[rank])\n"
        "    switch(ddp.module, True)\n",
        ["unfrozen"],
    ),
    "another part was frozen": (
        "def main(rank):\n    net = Net().to(rank)\n    net.a.requires_grad_(False)\n    ddp = DDP(net, device_ids=[rank])\n"
        "    ddp.module.b.requires_grad_(True)\n",
        [],
    ),
    "a part frozen": (
        "def main(rank):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    for p in ddp.module.layer.parameters():\n"
        "        p.requires_grad_(False)\n",
        ["frozen"],
    ),
    "frozen, unused ones are searched": (
        "def main(rank):\n    ddp = DDP(Net().to(rank), device_ids=[rank], find_unused_parameters=True)\n"
        "    ddp.module.layer.requires_grad_(False)\n",
        [],
    ),
    "all frozen": (
        "def main(rank):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    ddp.requires_grad_(False)\n",
        [],
    ),
    "on and off": (
        "def main(rank, xs):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    for x in xs:\n"
        "        ddp.module.layer.requires_grad_(False)\n        ddp.module.layer.requires_grad_(True)\n",
        [],
    ),
    "value not known": (
        "def main(rank, on):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    ddp.module.layer.requires_grad_(on)\n",
        [],
    ),
    "a new layer": (
        "def main(rank):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    ddp.module.layer = nn.Linear(2, 3)\n",
        ["new"],
    ),
    "a new layer before": (
        "def main(rank):\n    net = Net()\n    net.layer = nn.Linear(2, 3)\n    ddp = DDP(net.to(rank), device_ids=[rank])\n",
        [],
    ),
    "another model": (
        "def main(rank):\n    ddp = DDP(Net().to(rank), device_ids=[rank])\n    teacher = Net()\n"
        "    teacher.layer.requires_grad_(False)\n",
        [],
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_parameters_changed_after_wrapping(tmp_path, name):
    source, expected = LATE[name]
    assert [x.kind for x in wrapping_of(tmp_path, source).parameters.late()] == expected


PARTS = "    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(2, 2)\n        self.b = nn.Linear(2, 2)\n\n"


@pytest.mark.parametrize(
    ("body", "needless"),
    [
        ("        x = self.a(x)\n        return self.b(x)\n", True),
        ("        h = self.a(x).relu()\n        h = h + x\n        return torch.tanh(self.b(h))\n", True),
        ("        h = self.a(x)\n        y = self.b(x)\n        return y\n", False),
        ("        return self.b(x)\n", False),
        ("        return self.a(x), self.b(x)\n", False),
        ("        h = self.a(x).detach()\n        return self.b(h)\n", False),
        ("        if x.sum() > 0:\n            x = self.a(x)\n        return self.b(x)\n", False),
        ("        return self.b(self.a(x)) if self.training else self.b(x)\n", False),
    ],
)
def test_flag_that_finds_nothing(tmp_path, body, needless):
    source = (
        f"class Two(nn.Module):\n{PARTS}    def forward(self, x):\n{body}\n"
        "def main(rank):\n    return DDP(Two().to(rank), device_ids=[rank], find_unused_parameters=True)\n"
    )
    assert bool(wrapping_of(tmp_path, source).parameters.needless()) is needless
