"""set_epoch: seen through loaders, attributes, files and frameworks; silent on anything that may be it."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

HEAD = """\
import torch
from torch.utils.data import DataLoader, DistributedSampler
"""
BODY = "            opt.zero_grad()\n            loss_fn(model(x), y).backward()\n            opt.step()\n"


def stale(tmp_path, source: str, **more: str) -> list[str]:
    found = settings_of(tmp_path, train=HEAD + source, **more).samplers.stale()
    return [f"{made.module.path}:{made.pos >> 44}" for made, _ in found]


def loop(before: str = "", inside: str = "", shuffle: str = "", epochs: str = "range(10)", over: str = "loader") -> str:
    return (
        "def train(model, d, opt, loss_fn):\n"
        f"    sampler = DistributedSampler(d{shuffle})\n    loader = DataLoader(d, sampler=sampler)\n{before}"
        f"    for epoch in {epochs}:\n{inside}        for x, y in {over}:\n{BODY}"
    )


FAULTS = {
    "plain": loop(),
    "progress bar": "from tqdm import tqdm\n" + loop(over="enumerate(tqdm(loader))").replace("x, y in", "i, (x, y) in"),
    "parameter": "def epochs(n):\n    return n\n" + loop(epochs="range(epochs(3))"),
    "unknown shuffle": "def shuffled(): ...\n" + loop(shuffle=", shuffle=shuffled()"),
    "iterator of epochs": "from tqdm import trange\n" + loop(before="    it = trange(4)\n", epochs="it"),
    "other sampler is told": loop(
        before="    other = DistributedSampler(d, shuffle=False)\n", inside="        other.set_epoch(epoch)\n"
    ),
}
FINE = {
    "told": loop(inside="        sampler.set_epoch(epoch)\n"),
    "told through the loader": loop(inside="        loader.sampler.set_epoch(epoch)\n"),
    "told if it can": loop(
        inside="        if hasattr(loader.sampler, 'set_epoch'):\n            loader.sampler.set_epoch(epoch)\n"
    ),
    "told by somebody": "def tell(x, e):\n    x.set_epoch(e)\n" + loop(inside="        tell(sampler, epoch)\n"),
    "no shuffle": loop(shuffle=", shuffle=False"),
    "one epoch": loop(epochs="range(1)"),
    "no training": loop().replace(".backward()", ""),
    "new sampler each round": (
        "def train(model, d, opt, loss_fn):\n    for fold in range(5):\n        sampler = DistributedSampler(d)\n"
        "        loader = DataLoader(d, sampler=sampler)\n        for x, y in loader:\n" + BODY
    ),
    "accelerate": "from accelerate import Accelerator\n" + loop(before="    loader = Accelerator().prepare(loader)\n"),
    "own sampler": "class Own(DistributedSampler):\n    def __iter__(self):\n        return iter([])\n"
    + loop().replace("= DistributedSampler", "= Own"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(tmp_path, name):
    lines = (HEAD + FAULTS[name]).split("\n")
    expected = next(i for i, line in enumerate(lines, 1) if "sampler = DistributedSampler(d" in line)
    assert stale(tmp_path, FAULTS[name]) == [f"train.py:{expected}"]


@pytest.mark.parametrize("name", FINE)
def test_fine(tmp_path, name):
    assert stale(tmp_path, FINE[name]) == []


def test_across_files(tmp_path):
    data = HEAD + "def make(d):\n    s = DistributedSampler(d)\n    return DataLoader(d, sampler=s), s\n"
    engine = "def one_epoch(model, loader, opt, loss_fn):\n    for x, y in loader:\n        loss_fn(model(x), y).backward()\n"
    main = (
        "from data import make\nfrom engine import one_epoch\ndef main(model, d, opt, loss_fn, n):\n"
        "    loader, sampler = make(d)\n    for epoch in range(n):\n"
    )
    call = "        one_epoch(model, loader, opt, loss_fn)\n"
    assert stale(tmp_path, main + call, data=data, engine=engine) == ["data.py:4"]
    assert stale(tmp_path, main + "        sampler.set_epoch(epoch)\n" + call, data=data, engine=engine) == []


def test_two_programs_side_by_side(tmp_path):
    """A set_epoch in a script that shares nothing with the sampler's program does not heal it."""
    other = HEAD + loop(inside="        sampler.set_epoch(epoch)\n")
    assert stale(tmp_path, loop(), other=other) == ["train.py:4"]


def test_restarted_generator(tmp_path):
    source = (
        "def endless(loader):\n    while True:\n        for b in loader:\n            yield b\n"
        "def train(model, d, opt, loss_fn, n):\n"
        "    stream = endless(DataLoader(d, sampler=DistributedSampler(d)))\n    for _ in range(n):\n"
        "        x, y = next(stream)\n        loss_fn(model(x), y).backward()\n"
    )
    assert stale(tmp_path, source) == ["train.py:8"]


@pytest.mark.parametrize(
    "body",
    [
        "    for epoch in range(n):\n        it = iter(loader)\n        for _ in range(100):\n            step(next(it))\n",
        "    it = iter(loader)\n    for _ in range(n):\n        try:\n            b = next(it)\n"
        "        except StopIteration:\n            it = iter(loader)\n            b = next(it)\n        step(b)\n",
    ],
)
def test_iterator_made_again(tmp_path, body):
    head = "def step(b):\n    b.mean().backward()\ndef train(d, n):\n    loader = DataLoader(d, sampler=DistributedSampler(d))\n"
    assert stale(tmp_path, head + body) == ["train.py:6"]
    once = "    it = iter(loader)\n    for _ in range(n):\n        step(next(it))\n"
    assert stale(tmp_path, head + once) == []


def test_fix_is_inserted_at_the_epoch_loop(tmp_path):
    settings = settings_of(tmp_path, train=HEAD + loop())
    ((made, epochs),) = settings.samplers.stale()
    line, column, text = settings.samplers.insertion(made, epochs)
    assert (line, column, text) == (7, 9, "loader.sampler.set_epoch(epoch)\n        ")


FACTORY = """
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Plugin:
    def prepare(self, dataset, shuffle=False):
        sampler = DistributedSampler(dataset, shuffle=shuffle)
        return DataLoader(dataset, sampler=sampler)
"""

USER = """
import torch
from plugin import Plugin


def run(model, data, opt, epochs):
    plugin = Plugin()
    loader = plugin.prepare(data, shuffle={shuffle})
    for epoch in range(epochs):
        {before}
        for x in loader:
            model(x).backward()
            opt.step()
"""


def test_who_asked_for_a_shuffle_is_named(tmp_path):
    """The helper's sampler is one; each program that asks it to shuffle is judged by itself."""
    files = {
        "plugin": FACTORY,
        "first": USER.format(shuffle=True, before="pass"),
        "second": USER.format(shuffle=False, before="pass"),
        "third": USER.format(shuffle=True, before="print(epoch)"),
    }
    found = settings_of(tmp_path, **files).samplers.stale()
    assert [(e.user[1].module.path, e.user[0][1] >> 44) for _, e in found] == [("first.py", 8), ("third.py", 8)]


def test_evaluation_needs_no_epoch(tmp_path):
    source = USER.replace("def run", "@torch.no_grad()\ndef run").format(shuffle=True, before="pass")
    assert settings_of(tmp_path, plugin=FACTORY, first=source).samplers.stale() == []


SPAWNED = """
import torch.multiprocessing as mp


def train(model, d, opt, loss_fn, epochs: int = 1):
    sampler = DistributedSampler(d)
    loader = DataLoader(d, sampler=sampler)
    for epoch in range(epochs):
        for x, y in loader:
            loss_fn(model(x), y).backward()
            opt.step()

"""


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("def main(args):\n    mp.spawn(train, args=(args.epochs,))\n", ["train.py:8"]),
        ("def main(m, d, o, f):\n    train(m, d, o, f)\n", []),
        ("def main(m, d, o, f):\n    train(m, d, o, f, epochs=3)\n", ["train.py:8"]),
    ],
)
def test_default_of_one_epoch(tmp_path, main, expected):
    """The default counts where a call leaves it out; the target of a spawn gets its values in a way that is not seen."""
    assert stale(tmp_path, SPAWNED + main) == expected
