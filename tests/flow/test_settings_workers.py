"""Handles, CUDA and kept tensors around loader workers; settings that exclude each other."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

DATASET = """\
import h5py
from torch.utils.data import DataLoader, Dataset

class D(Dataset):
    def __init__(self, path):
        {init}

    def __getitem__(self, i):
        {item}

def make(path):
    return DataLoader(D(path), num_workers={workers})
"""


def handles(tmp_path, init: str, item: str, workers: str = "2", more: str = "") -> list[str]:
    source = DATASET.format(
        init=init.replace("\n", "\n        "), item=item.replace("\n", "\n        "), workers=workers
    )
    return [h.attribute for h in settings_of(tmp_path, train=source + more).handles.carried()]


def test_handle_is_carried(tmp_path):
    assert handles(tmp_path, "self.f = h5py.File(path)", "return self.f[i]") == ["f"]
    assert (
        handles(tmp_path, "self.f = open(path)", "return self.line(i)\ndef line(self, i):\n    return self.f.read()")
        == []
    )
    assert handles(tmp_path, "f = h5py.File(path)\nself.rows = f['x']", "return self.rows[i]") == ["rows"]


@pytest.mark.parametrize(
    ("init", "item", "workers"),
    [
        ("self.f = h5py.File(path)", "return self.f[i]", "0"),
        ("self.f = h5py.File(path)\nself.n = len(self.f)\nself.f.close()", "return self.f[i]", "2"),
        ("self.f = h5py.File(path)\nself.f = None", "return self.f[i]", "2"),
        ("self.f = None", "self.f = self.f or h5py.File('a')\nreturn self.f[i]", "2"),
        ("self.rows = h5py.File(path)['x'][:]", "return self.rows[i]", "2"),
        ("with h5py.File(path) as f:\n    self.rows = f['x'][()]", "return self.rows[i]", "2"),
        ("self.text = open(path).read()", "return self.text[i]", "2"),
        ("self.f = h5py.File(path)\nself.n = 3", "return self.n", "2"),
    ],
)
def test_handle_is_fine(tmp_path, init, item, workers):
    assert handles(tmp_path, init, item, workers) == []


def conflicts(tmp_path, source: str) -> list[tuple[str, str]]:
    head = "from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler\n"
    settings = settings_of(tmp_path, train=head + source)
    return [(c.first, c.second) for c in (*settings.conflicts.exclusive(), *settings.conflicts.needs_workers())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(d):\n    return DataLoader(d, shuffle=True, sampler=RandomSampler(d))", ("sampler", "shuffle")),
        ("def f(d, s=None):\n    return DataLoader(d, shuffle=True, sampler=s)\ndef g(d):\n    return f(d, RandomSampler(d))",
         ("sampler", "shuffle")),
        ("def f(d):\n    return DataLoader(d, batch_sampler=BatchSampler(d, 2, True), drop_last=True)",
         ("batch_sampler", "drop_last")),
        ("class I(IterableDataset):\n    pass\ndef f():\n    return DataLoader(I(), shuffle=True)", ("IterableDataset", "shuffle")),
        ("def f(d):\n    return DataLoader(d, prefetch_factor=4)", ("prefetch_factor", "num_workers")),
    ],
)  # fmt: skip
def test_conflict(tmp_path, source, expected):
    assert conflicts(tmp_path, source) == [expected]


@pytest.mark.parametrize(
    "source",
    [
        "def f(d, s=None):\n    return DataLoader(d, shuffle=s is None, sampler=s)",
        "def f(d, shuffle, s=None):\n    return DataLoader(d, shuffle=shuffle, sampler=s)\n"
        "def g(d):\n    return f(d, True), f(d, False, RandomSampler(d))",
        "def f(d, s):\n    return DataLoader(d, shuffle=True, sampler=s)",
        "def f(d, c):\n    kw = {}\n    if c:\n        kw['sampler'] = RandomSampler(d)\n    else:\n"
        "        kw['batch_sampler'] = BatchSampler(d, 2, True)\n    return DataLoader(d, **kw)",
        "def f(d, n=0):\n    return DataLoader(d, num_workers=n, persistent_workers=n > 0)",
        "def f(d, n):\n    return DataLoader(d, num_workers=n, persistent_workers=True)",
        "def f(d, n=0):\n    return DataLoader(d, num_workers=n, persistent_workers=True)\ndef g(d):\n    return f(d, 4)",
        "class I(IterableDataset):\n    pass\ndef f():\n    return DataLoader(I())",
    ],
)
def test_no_conflict(tmp_path, source):
    assert conflicts(tmp_path, source) == []


def test_kept_batches(tmp_path):
    source = """\
    from torch.utils.data import DataLoader

    def f(d, model):
        a, b, c, e = [], [], [], []
        for i, (x, y) in enumerate(DataLoader(d, num_workers=2)):
            a.append(y)
            b.append(y.detach().numpy())
            c.append(y.numpy().copy())
            y = y.clone()
            g = []
            g.append(x)
        for x in DataLoader(d):
            e.append(x)
    """
    found = settings_of(tmp_path, train=source).in_workers.held()
    assert [x.name for x in found] == []  # y is bound again in the loop: what is appended may be the copy
    found = settings_of(tmp_path, train=source.replace("            y = y.clone()\n", "")).in_workers.held()
    assert [x.name for x in found] == ["a", "b"]


def test_whole_loader_in_a_list(tmp_path):
    source = """\
    from torch.utils.data import DataLoader

    def f(d):
        loader = DataLoader(d, num_workers=2)
        a = list(loader)
        b = [y for x, y in loader]
        c = [y.clone() for x, y in loader]
        d = list(DataLoader(d))
        for x in loader:
            e.append(x)
            if len(e) > 3:
                break
        return len(loader)
    """
    found = settings_of(tmp_path, train=source).in_workers.held()
    assert [x.pos >> 44 for x in found] == [5, 6]


def test_stored_generators(tmp_path):
    source = """\
    import random
    import numpy as np
    from torch.utils.data import DataLoader, Dataset

    class Augment:
        def __init__(self):
            self.rng = random.Random(0)

        def __call__(self, x):
            return self.rng.random() + x

    class D(Dataset):
        def __init__(self):
            self.augment = Augment()
            self.order = np.random.default_rng(0).permutation(10)
            self.split = np.random.default_rng(1)
            self.split.shuffle(self.order)

        def __getitem__(self, i):
            return self.order[i], {use}

    def f(n):
        return DataLoader(D(), num_workers={workers})
    """
    kept = source.replace("{use}", "self.augment.rng.random()").replace("{workers}", "2")
    assert [x.attribute for x in settings_of(tmp_path, train=kept).generators.carried()] == []
    called = source.replace("{use}", "self.augment(i)").replace("{workers}", "2")
    assert [x.attribute for x in settings_of(tmp_path, train=called).generators.carried()] == ["rng"]
    without = source.replace("{use}", "self.augment(i)").replace("{workers}", "n")
    assert settings_of(tmp_path, train=without).generators.carried() == []
