"""Where the value of a setting comes from: every kind of way, and what must stay unknown."""

from __future__ import annotations

import os
import textwrap

import pytest

from torchvet.check.flow.settings import Settings
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program


def settings_of(tmp_path, **files: str) -> Settings:
    """Settings of a small program: keyword = module name, value = its source."""
    for name, source in files.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")

    def read(path: str) -> str | None:
        full = os.path.join(tmp_path, path)
        return open(full, encoding="utf-8").read() if os.path.isfile(full) else None

    program = Program(str(tmp_path), [f"{n}.py" for n in files], read)
    for name in files:
        program.add(f"{name}.py", lower(read(f"{name}.py")))
    return Settings(program)


def workers(tmp_path, source: str, **more: str) -> list[tuple]:
    """(kind, value, line of the place) of the num_workers of the one loader."""
    settings = settings_of(tmp_path, train=source, **more)
    (loader,) = settings.loaders()
    return sorted({(v.kind, v.value, f"{v.origin.frame.module.path}:{v.pos >> 44}") for v in loader.workers()}, key=str)


HEAD = "import os\nfrom torch.utils.data import DataLoader\n"

WAYS = {
    "literal": ("def f(d):\n    return DataLoader(d, num_workers=12)", [("const", 12, "train.py:4")]),
    "positional": ("def f(d):\n    return DataLoader(d, 8, True, None, None, 12)", [("const", 12, "train.py:4")]),
    "not passed": ("def f(d):\n    return DataLoader(d)", [("const", 0, "train.py:4")]),
    "module constant": ("N = 12\ndef f(d):\n    return DataLoader(d, num_workers=N)", [("const", 12, "train.py:3")]),
    "last assignment": (
        "def f(d):\n    n = 64\n    n = 2\n    return DataLoader(d, num_workers=n)",
        [("const", 2, "train.py:5")],
    ),
    "branches": (
        "def f(d, c):\n    if c:\n        n = 4\n    else:\n        n = 2\n    return DataLoader(d, num_workers=n)",
        [("const", 2, "train.py:7"), ("const", 4, "train.py:5")],
    ),
    "branch that returns": (
        "def f(d, c):\n    n = 4\n    if c:\n        n = 64\n        return n\n    return DataLoader(d, num_workers=n)",
        [("const", 4, "train.py:4")],
    ),
    "conditional expression": (
        "def f(d, c):\n    return DataLoader(d, num_workers=4 if c else 0)",
        [("const", 0, "train.py:4"), ("const", 4, "train.py:4")],
    ),
    "default": ("def f(d, n=12):\n    return DataLoader(d, num_workers=n)", [("const", 12, "train.py:3")]),
    "argument in place of the default": (
        "def f(d, n=12):\n    return DataLoader(d, num_workers=n)\ndef g(d):\n    return f(d, n=3)",
        [("const", 3, "train.py:6")],
    ),
    "no argument with a parameter": (
        "def f(d, n):\n    return DataLoader(d, num_workers=n)",
        [("unknown", None, "train.py:3")],
    ),
    "attribute from a constructor": (
        "class A:\n    def __init__(self, n=12):\n        self.n = n\n    def f(self, d):\n"
        "        return DataLoader(d, num_workers=self.n)",
        [("const", 12, "train.py:4")],
    ),
    "dictionary": (
        "def f(d):\n    kw = dict(num_workers=12)\n    return DataLoader(d, **kw)",
        [("const", 12, "train.py:4")],
    ),
    "dictionary changed later": (
        "def f(d):\n    kw = {}\n    kw['num_workers'] = 12\n    return DataLoader(d, **kw)",
        [("const", 12, "train.py:5")],
    ),
    "merged dictionary": (
        "BASE = {'num_workers': 12}\ndef f(d):\n    return DataLoader(d, **{**BASE, 'batch_size': 2})",
        [("const", 12, "train.py:3")],
    ),
    "keywords of the caller": (
        "def f(d, **kw):\n    return DataLoader(d, **kw)\ndef g(d):\n    return f(d, num_workers=12)",
        [("const", 12, "train.py:6")],
    ),
    "partial": (
        "from functools import partial\nMake = partial(DataLoader, num_workers=12)\ndef f(d):\n    return Make(d)",
        [("const", 12, "train.py:4")],
    ),
    "option": (
        "import argparse\ndef f(d):\n    p = argparse.ArgumentParser()\n    p.add_argument('--num-workers', default=12)\n"
        "    args = p.parse_args()\n    return DataLoader(d, num_workers=args.num_workers)",
        [("const", 12, "train.py:6")],
    ),
    "option with dest": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-j', '--jobs', dest='w', default=12)\n"
        "def f(d, args):\n    return DataLoader(d, num_workers=args.w)",
        [("const", 12, "train.py:5")],
    ),
    "option as dictionary": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--w', default=12)\n"
        "def f(d):\n    opt = vars(p.parse_args())\n    return DataLoader(d, num_workers=opt['w'])",
        [("const", 12, "train.py:5")],
    ),
    "click": (
        "import click\n@click.option('--workers', default=12)\ndef f(workers):\n    return DataLoader([], num_workers=workers)",
        [("unknown", None, "train.py:5")],
    ),
    "dataclass field": (
        "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    n: int = field(default=12)\n"
        "def f(d, c: C):\n    return DataLoader(d, num_workers=c.n)",
        [("const", 12, "train.py:6")],
    ),
    "dataclass made with another value": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    n: int = 12\n"
        "def f(d):\n    c = C(n=3)\n    return DataLoader(d, num_workers=c.n)",
        [("const", 3, "train.py:8")],
    ),
    "get with default": (
        "def f(d, cfg):\n    return DataLoader(d, num_workers=cfg.get('n', 12))",
        [("const", 12, "train.py:4"), ("unknown", None, "train.py:4")],
    ),
    "returned by a function": (
        "def n():\n    return 12\ndef f(d):\n    return DataLoader(d, num_workers=n())",
        [("const", 12, "train.py:4")],
    ),
    "one of a returned pair": (
        "def n():\n    return 8, 12\ndef f(d):\n    a, b = n()\n    return DataLoader(d, num_workers=b)",
        [("const", 12, "train.py:4")],
    ),
    "arithmetic": ("def f(d):\n    return DataLoader(d, num_workers=4 * 3)", [("const", 12, "train.py:4")]),
    "cpus": ("def f(d):\n    return DataLoader(d, num_workers=os.cpu_count() // 2)", [("cpus", None, "train.py:4")]),
    "cpus or one": ("def f(d):\n    return DataLoader(d, num_workers=(os.cpu_count() or 1) - 1)", None),
    "cpus with a limit": (
        "def f(d):\n    return DataLoader(d, num_workers=min(8, os.cpu_count()))",
        [("at most", 8, "train.py:4")],
    ),
    "cpus shared out": (
        "def f(d, world):\n    return DataLoader(d, num_workers=os.cpu_count() // world)",
        [("unknown", None, "train.py:4")],
    ),
    "limited later": (
        "def f(d, n=64):\n    if n > 8:\n        n = 8\n    return DataLoader(d, num_workers=n)",
        [("unknown", None, "train.py:3")],
    ),
    "changed option": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--w', default=64)\nargs = p.parse_args()\n"
        "def f(d):\n    args.w = args.w // 8\n    return DataLoader(d, num_workers=args.w)",
        None,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_value_and_place(tmp_path, way):
    source, expected = WAYS[way]
    found = workers(tmp_path, HEAD + source)
    if way == "click":
        # the option's default belongs to the function's parameter only by the decorator; the place must not be wrong
        assert all(kind in ("unknown", "const") for kind, _, _ in found)
    elif way == "changed option":
        assert not any(kind == "const" and value == 64 for kind, value, _ in found)
    elif way == "cpus or one":
        assert ("cpus", None, "train.py:4") in found
    else:
        assert found == expected


def test_across_modules(tmp_path):
    found = workers(
        tmp_path,
        HEAD
        + "import config\nfrom other import N as M\ndef f(d):\n    return DataLoader(d, num_workers=config.N or M)",
        config="N = 12\n",
        other="N = 3\n",
    )
    assert found == [("const", 12, "config.py:1"), ("const", 3, "other.py:1")]


def test_option_of_an_imported_module(tmp_path):
    found = workers(
        tmp_path,
        HEAD
        + "from options import parse\ndef f(d):\n    args = parse()\n    return DataLoader(d, num_workers=args.workers)",
        options="import argparse\ndef parse():\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--workers', type=int, default=12)\n    return p.parse_args()\n",
    )
    assert found == [("const", 12, "options.py:4")]


def test_cycles_end(tmp_path):
    found = workers(
        tmp_path,
        HEAD + "def f(d, n):\n    return f(d, n)\ndef g(d, n):\n    n = n\n    return DataLoader(d, num_workers=n)",
    )
    assert found == [("unknown", None, "train.py:5")]
    found = workers(
        tmp_path, HEAD + "def f(d, **kw):\n    kw = dict(kw, **kw)\n    return f(d, **kw) or DataLoader(d, **kw)"
    )
    assert not any(kind == "const" and value for kind, value, _ in found)


def test_places_are_shared_by_loaders(tmp_path):
    settings = settings_of(
        tmp_path,
        train=HEAD + "N = 12\ndef f(a, b):\n    return DataLoader(a, num_workers=N), DataLoader(b, num_workers=N)",
    )
    (place,) = settings.places("num_workers", lambda v: v.is_number and v.value > 8)
    assert (place.pos >> 44, len(place.loaders)) == (3, 2)


def test_subclass_and_alias(tmp_path):
    settings = settings_of(
        tmp_path,
        train="""\
        import torch.utils.data as data
        from torch.utils.data import DataLoader as DL

        class Mine(data.DataLoader):
            def __init__(self, ds, jobs=12):
                super().__init__(ds, num_workers=jobs)

        class Same(DL):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

        def f(d, c):
            cls = Same if c else DL
            return DL(d, num_workers=1), Mine(d), Mine(d, 3), Same(d, num_workers=4), cls(d, num_workers=5)
        """,
    )
    found = [[v.value for v in x.workers()] for x in settings.loaders() if x.function.name == "f"]
    assert found == [[1], [12], [3], [4], [5]]


def test_settings_that_end_in_a_loader(tmp_path):
    settings = settings_of(
        tmp_path,
        train="""\
        from timm.data import create_loader
        from transformers import TrainingArguments

        def f(d):
            args = TrainingArguments("out", dataloader_num_workers=16)
            return args, create_loader(d, 8, num_workers=24)
        """,
    )
    found = settings.places("num_workers", lambda v: v.is_number and v.value > 8)
    assert [(p.value.value, p.pos >> 44) for p in found] == [(16, 5), (24, 6)]
