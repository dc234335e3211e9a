"""Names and calls: what every rule stands on."""

from __future__ import annotations

import pytest
from project import expression, program_of


def meaning(program, path: str, source: str, function: str | None = None):
    """Entities of an expression as seen at module level of `path` or inside one of its functions."""
    module = program.module(path)
    scope = program.module_scope(module)
    if function:
        owner, _, name = function.rpartition(".")
        f = module.classes[owner].methods[name] if owner else module.functions[name]
        scope = program.scope(f)
    return program.entities(expression(source), scope)


def one(program, path, source, function=None):
    found = meaning(program, path, source, function)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("import torch.distributed as dist", "dist.barrier"),
        ("import torch.distributed", "torch.distributed.barrier"),
        ("import torch", "torch.distributed.barrier"),
        ("from torch import distributed", "distributed.barrier"),
        ("from torch import distributed as d", "d.barrier"),
        ("from torch.distributed import barrier", "barrier"),
        ("from torch.distributed import barrier as wait", "wait"),
        ("import torch.distributed as dist\nb = dist.barrier", "b"),
        ("import torch as t\nd = t.distributed", "d.barrier"),
    ],
)
def test_aliases(tmp_path, line, use):
    program = program_of(tmp_path, {"a.py": line})
    assert one(program, "a.py", use) == ("ext", "torch.distributed.barrier")


def test_chain_of_four_modules(tmp_path):
    program = program_of(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "from .b import sync as s",
            "pkg/b.py": "from pkg.c import sync",
            "pkg/c.py": "from . import d\nsync = d.sync",
            "pkg/d.py": "import torch.distributed as dist\ndef sync():\n    dist.barrier()",
            "main.py": "from pkg import a",
        },
        parse=["main.py"],
    )
    kind, f = one(program, "main.py", "a.s")
    assert kind == "func" and f.module.path == "pkg/d.py" and f.name == "sync"
    assert {"pkg/a.py", "pkg/b.py", "pkg/c.py", "pkg/d.py"} <= program.loaded_on_demand


def test_import_cycle_ends(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": "from b import x\nfrom b import f\ndef g(): pass",
            "b.py": "from a import x\nfrom a import g\ndef f(): pass",
        },
    )
    assert meaning(program, "a.py", "x") == ()
    assert one(program, "a.py", "f")[1].module.path == "b.py"
    assert one(program, "b.py", "g")[1].module.path == "a.py"


def test_self_import_by_own_name(tmp_path):
    # a file named like the library it imports: `import` of itself is not what is meant
    program = program_of(tmp_path, {"torch.py": "import torch\nx = torch.zeros"})
    assert meaning(program, "torch.py", "x") == (("ext", "torch.zeros"),)


def test_programs_with_equal_module_names_stay_apart(tmp_path):
    files = {
        f"{p}/{n}": s
        for p in ("one", "two")
        for n, s in {"train.py": "from helper import f", "helper.py": "def f():\n    pass"}.items()
    }
    files["three/train.py"] = "from helper import f"
    program = program_of(tmp_path, files)
    assert one(program, "one/train.py", "f")[1].module.path == "one/helper.py"
    assert one(program, "two/train.py", "f")[1].module.path == "two/helper.py"
    assert one(program, "three/train.py", "f") == ("ext", "helper.f")


def test_project_root_and_src_are_searched(tmp_path):
    program = program_of(
        tmp_path,
        {
            "pyproject.toml": "",
            "lib/__init__.py": "",
            "lib/core.py": "class Net: pass",
            "src/other/__init__.py": "def f(): pass",
            "tools/run/train.py": "from lib.core import Net\nfrom other import f",
        },
        parse=["tools/run/train.py"],
    )
    assert one(program, "tools/run/train.py", "Net")[0] == "class"
    assert one(program, "tools/run/train.py", "f")[0] == "func"


def test_nested_project_root_hides_the_outer_one(tmp_path):
    program = program_of(
        tmp_path,
        {"setup.py": "", "util.py": "def f(): pass", "ex/setup.py": "", "ex/a/train.py": "from util import f"},
        parse=["ex/a/train.py"],
    )
    assert one(program, "ex/a/train.py", "f") == ("ext", "util.f")


def test_relative_imports(tmp_path):
    program = program_of(
        tmp_path,
        {
            "p/__init__.py": "",
            "p/x.py": "def f(): pass",
            "p/q/__init__.py": "from ..x import f as g",
            "p/q/y.py": "from .. import x\nfrom . import g\nfrom ..x import f\nfrom ...outside import z",
        },
    )
    for use in ("x.f", "g", "f"):
        assert one(program, "p/q/y.py", use)[1].module.path == "p/x.py"
    assert meaning(program, "p/q/y.py", "z") == ()


def test_star_imports_and_reexports(tmp_path):
    program = program_of(
        tmp_path,
        {
            "p/__init__.py": "from .inner import *\nfrom .other import Thing as Public",
            "p/inner.py": "from .deep import *\ndef here(): pass",
            "p/deep.py": "def below(): pass",
            "p/other.py": "class Thing: pass",
            "m.py": "from p import *\nimport p",
        },
        parse=["m.py"],
    )
    for use in ("here", "below", "p.below"):
        assert one(program, "m.py", use)[0] == "func"
    assert one(program, "m.py", "p.Public")[1].name == "Thing"


def test_conditional_imports_first_wins(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": "try:\n    from apex.parallel import DistributedDataParallel as DDP\nexcept ImportError:\n    DDP = None"
        },
    )
    found = meaning(program, "a.py", "DDP")
    assert found and found[0][1].endswith("DistributedDataParallel")


def test_namespace_package(tmp_path):
    program = program_of(
        tmp_path, {"pkg/sub/m.py": "def f(): pass", "a.py": "import pkg.sub.m\nfrom pkg.sub import m"}, parse=["a.py"]
    )
    assert one(program, "a.py", "m.f")[0] == "func"
    assert one(program, "a.py", "pkg.sub.m.f")[0] == "func"


def test_local_names_shadow(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": """
            from torch.distributed import barrier
            def f(barrier):
                barrier()
            def g():
                from threading import Barrier as barrier
                barrier()
            def h():
                barrier()
            def k():
                print = barrier
                print()
            """
        },
    )
    assert meaning(program, "a.py", "barrier", "f") == ()
    assert one(program, "a.py", "barrier", "g") == ("ext", "threading.Barrier")
    assert one(program, "a.py", "barrier", "h") == ("ext", "torch.distributed.barrier")
    assert one(program, "a.py", "print", "k") == ("ext", "torch.distributed.barrier")
    assert one(program, "a.py", "print", "h") == ("ext", "builtins.print")


def test_closures_and_globals(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": """
            import torch.nn as nn
            model = None
            def outer():
                net = nn.Linear(1, 1)
                def inner():
                    return net
                return inner
            def init():
                global model
                model = nn.Linear(2, 2)
            """
        },
    )
    outer = program.module("a.py").functions["outer"]
    inner = next(f for f in program.with_nested(outer) if f.name == "inner")
    assert inner.qualname == "outer.<locals>.inner"
    assert program.entities(expression("net"), program.scope(inner)) == (("extinst", "torch.nn.Linear"),)


def test_methods_through_bases(tmp_path):
    program = program_of(
        tmp_path,
        {
            "base.py": "class Base:\n    def sync(self):\n        pass\n    def twice(self):\n        self.sync()\n",
            "mid.py": "from base import Base\nclass Mid(Base):\n    pass\n",
            "a.py": """
            import mid
            class Trainer(mid.Mid):
                def sync(self):
                    super().sync()
                def run(self):
                    self.twice()
                    self.sync()
            def main():
                t = Trainer()
                t.run()
            """,
        },
        parse=["a.py"],
    )
    module = program.module("a.py")
    run = module.classes["Trainer"].methods["run"]
    calls = [e for e in program.expressions(run) if e[0] == "call"]
    targets = [program.targets(c, program.scope(run))[0].qualname for c in calls]
    assert targets == ["Base.twice", "Trainer.sync"]
    sync = module.classes["Trainer"].methods["sync"]
    call = next(e for e in program.expressions(sync) if e[0] == "call")
    assert program.targets(call, program.scope(sync))[0].qualname == "Base.sync"
    assert program.bases(module.classes["Trainer"])[0][1].name == "Base"


def test_template_method_found_in_subclass(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": "class Base:\n    def run(self):\n        self.step()\nclass A(Base):\n    def step(self): pass\nclass B(Base):\n    def step(self): pass\n"
        },
    )
    run = program.module("a.py").classes["Base"].methods["run"]
    call = next(e for e in program.expressions(run) if e[0] == "call")
    assert {f.qualname for f in program.targets(call, program.scope(run))} == {"A.step", "B.step"}


def test_attributes_from_constructors(tmp_path):
    program = program_of(
        tmp_path,
        {
            "meter.py": "class Meter:\n    def update(self, v): pass\n",
            "a.py": """
            import torch
            from torch.utils.data import DataLoader
            from meter import Meter
            class T:
                kind = torch.nn.ReLU()
                def __init__(self, data):
                    self.meter = Meter()
                    self.loader: DataLoader = DataLoader(data)
                    self.a, self.b = Meter(), torch.nn.GELU()
                def run(self):
                    self.meter.update(1)
            """,
        },
        parse=["a.py"],
    )
    assert one(program, "a.py", "self.meter.update", "T.run")[1].qualname == "Meter.update"
    assert one(program, "a.py", "self.loader", "T.run") == ("extinst", "torch.utils.data.DataLoader")
    assert one(program, "a.py", "self.kind", "T.run") == ("extinst", "torch.nn.ReLU")
    assert one(program, "a.py", "self.b", "T.run") == ("extinst", "torch.nn.GELU")


def test_module_instances_call_forward(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": """
            import torch.nn as nn
            class Net(nn.Module):
                def forward(self, x):
                    return x
            def main():
                net = Net().cuda()
                net = net.to("cuda")
                net(1)
            """
        },
    )
    main = program.module("a.py").functions["main"]
    calls = [e for e in program.expressions(main) if e[0] == "call"]
    assert [f.qualname for f in program.targets(calls[-1], program.scope(main))] == ["Net.forward"]
    assert program.qualified(expression("net.state_dict"), program.scope(main)) == "torch.nn.Module.state_dict"


def test_partial_factory_property_and_annotation(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": """
            from functools import partial
            from typing import Optional
            import torch.nn as nn
            from torch.utils.data import DataLoader
            class Net(nn.Module):
                def __init__(self):
                    self._head = nn.Linear(1, 1)
                @property
                def head(self):
                    return self._head
                @classmethod
                def build(cls):
                    return cls()
            def make():
                return Net()
            def either(flag):
                return nn.Linear(1, 1) if flag else nn.GELU()
            def use(n: Net, o: Optional[Net] = None, s: "Net" = None, l: DataLoader | None = None):
                loader = partial(DataLoader, num_workers=4)
            """
        },
    )
    assert one(program, "a.py", "make()")[0] == "inst"
    assert one(program, "a.py", "Net.build()")[0] == "inst"
    assert one(program, "a.py", "make().head") == ("extinst", "torch.nn.Linear")
    assert set(meaning(program, "a.py", "either(1)")) == {("extinst", "torch.nn.Linear"), ("extinst", "torch.nn.GELU")}
    for name in "nos":
        assert one(program, "a.py", name, "use")[0] == "inst"
    assert one(program, "a.py", "l", "use") == ("extinst", "torch.utils.data.DataLoader")
    assert one(program, "a.py", "loader", "use")[1] == ("ext", "torch.utils.data.DataLoader")


def test_recursion_and_reassignment_end(tmp_path):
    program = program_of(
        tmp_path,
        {
            "a.py": "def f(n):\n    return f(n - 1)\ndef g():\n    x = x.to(1)\n    y = y\n    return x\nclass A(A): pass\n"
        },
    )
    assert meaning(program, "a.py", "f(1)") == ()
    assert meaning(program, "a.py", "g()") == ()
    assert meaning(program, "a.py", "A().x") == ()


def test_bodies_on_demand_keep_positions(tmp_path):
    source = 'class C:\n    """d"""\n\n    @staticmethod\n    def f(a):\n        s = """x\ny"""\n        return g(\n            a)\n'
    lazy = program_of(tmp_path, {"a.py": source}, lazy=True)
    eager = program_of(tmp_path, {"a.py": source})
    f, g = (p.module("a.py").classes["C"].methods["f"] for p in (lazy, eager))
    assert f._body is None
    assert lazy.body(f) == eager.body(g)
    assert not f.is_method


def test_callers(tmp_path):
    program = program_of(
        tmp_path,
        {
            "lib.py": "def step(x): pass\nclass K:\n    def __init__(self): pass\n    def go(self): step(1)\n",
            "a.py": "import lib\ndef main():\n    lib.step(2)\n    def inner():\n        lib.step(3)\n    lib.K()\nlib.step(4)\n",
            "b.py": "def step(x): pass\nstep(5)\n",
        },
        parse=["lib.py"],
    )
    module = program.module("lib.py")
    found = {(f.qualname, c[3][0][2]) for f, c in program.callers(module.functions["step"])}
    assert found == {("K.go", 1), ("main", 2), ("main.<locals>.inner", 3), ("<module>", 4)}
    assert [f.qualname for f, _ in program.callers(module.classes["K"].methods["__init__"])] == ["main"]


def test_bind(tmp_path):
    program = program_of(tmp_path, {"a.py": "def f(a, b=1, *, c=2): pass\nclass K:\n    def m(self, x, y): pass\n"})
    module = program.module("a.py")
    bound = program.bind(module.functions["f"], expression("f(1, c=3)"))
    assert {k: v[2] for k, v in bound.items()} == {"a": 1, "c": 3}
    bound = program.bind(module.classes["K"].methods["m"], expression("k.m(1, y=2)"))
    assert {k: v[2] for k, v in bound.items()} == {"x": 1, "y": 2}
    assert program.bind(module.functions["f"], expression("f(*args, b=2)")).keys() == {"b"}


def test_span_counts_characters(tmp_path):
    program = program_of(tmp_path, {"a.py": 'x = "损失"; y = f(1)\n'})
    module = program.module("a.py")
    assert program.span(module, module.block[1][1]) == (1, 11, 1, 19)


def test_guard_records_a_crash_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHVET_DEBUG", raising=False)
    program = program_of(tmp_path, {"a.py": "x = 1\n"})
    with program.guard(program.module("a.py")):
        raise KeyError("lost")
    assert program.crashes[0][0] == "a.py" and "KeyError" in program.crashes[0][1]
    with pytest.raises(KeyboardInterrupt), program.guard(program.module("a.py")):
        raise KeyboardInterrupt


def test_generators_are_known_before_their_body_is(tmp_path):
    program = program_of(tmp_path, {"a.py": "def g():\n    yield 1\ndef f():\n    return 1  # no yield\n"}, lazy=True)
    functions = program.module("a.py").functions
    assert functions["g"].is_generator and not functions["f"].is_generator


def test_a_package_that_is_checked_by_itself_has_one_path_for_each_file(tmp_path) -> None:
    program = program_of(
        tmp_path / "outer" / "pack",
        {"__init__.py": "", "sub/__init__.py": "", "sub/a.py": "from pack.b import f\n", "b.py": "def f(): ...\n"},
    )
    assert program.find("sub/a.py", "pack.b") == "b.py"
    assert program.find("sub/a.py", "pack.sub.a") is None  # itself
    assert program.find("b.py", "pack.sub") == "sub/__init__.py"
    inner = program_of(tmp_path / "outer" / "pack" / "sub", {"a.py": "", "c.py": ""})
    assert inner.find("a.py", "pack.b") == "../b.py"
    assert inner.find("a.py", "pack.sub.c") == "c.py"
