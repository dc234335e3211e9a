"""Searches in the text that spare a parse: they may find too much, never too little."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchvet.check.program import callers
from torchvet.check.program import program as program_module
from torchvet.check.program.attributes import may_set
from torchvet.check.program.callers import defines
from torchvet.check.program.program import Program, call_at, called_names
from torchvet.check.source.words import admit


def program_of(tmp_path: Path, **files: str) -> Program:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pyproject.toml").write_text("")
    paths = [f"{name}.py" for name in files]
    program = Program(str(tmp_path), paths, lambda path: (tmp_path / path).read_text())
    for path in paths:
        program.module(path)
    program.loaded_on_demand.clear()
    return program


def test_called_names_are_those_before_brackets() -> None:
    assert called_names("def f(x):\n    return a.b(c)(d[0](e)) + (g)\n") == {"f", "b"}


@pytest.mark.parametrize(
    ("call", "found"),
    [("torch.log(x)", False), ("y = math.log(torch.log(x))", False), ("self.log(x)", True), ("x.y.log(x)", True),
     ("torch.log(self.log(x))", True), ("inner.log(x)", True), ("log(x)", True)],
)  # fmt: skip
def test_a_call_of_an_outer_module_is_no_call_of_the_project(tmp_path: Path, call: str, found: bool) -> None:
    source = f"import torch, math\nimport inner\n\n\nclass A:\n    def run(self, x):\n        {call}\n"
    program = program_of(tmp_path, lib=source, inner="def log(x): ...\n")
    assert bool(list(program._calls_named("lib.py", "log"))) is found


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("run(1)", 0),
        ("x.run(1)", 2),
        ("rerun(1)", -1),
        ("def run(x): ...", -1),
        ("def run(x): run(x)", 12),
        ("run", -1),
    ],
)
def test_a_call_is_a_whole_word_and_no_definition(text: str, at: int) -> None:
    assert call_at(text, "run", 0) == at


@pytest.mark.parametrize(
    ("line", "sets"),
    [
        ("self.a = 1", True),
        ("self.a, self.b = 1, 2", True),
        ("self.a: int = 1", True),
        ("self.a == 1", False),
        ("self.a.b = 1", False),
        ("(self.a,", True),
        ("self.ab = self.a", True),
    ],
)
def test_lines_that_may_set_an_attribute(line: str, sets: bool) -> None:
    assert may_set(line, ".a") is sets


def test_subclasses_through_renamed_and_assigned_bases(tmp_path: Path) -> None:
    program = program_of(
        tmp_path,
        base="class Base:\n    pass\n\n\nclass Other:\n    pass\n",
        renamed="from base import Base as Root\n\n\nclass A(Root):\n    def run(self): ...\n",
        assigned="import base\n\nParent = base.Base\n\n\nclass B(Parent):\n    def run(self): ...\n",
        far="from renamed import A\n\n\nclass C(A):\n    def run(self): ...\n\n\nclass D(A):\n    def stop(self): ...\n",
    )
    base = program.modules["base.py"].classes
    assert {c.name for c in program.subclasses(base["Base"], "run")} == {"A", "B", "C"}
    assert {c.name for c in program.subclasses(base["Base"], "stop")} == {"D"}
    assert program.subclasses(base["Other"], "run") == []


def test_an_attribute_is_found_wherever_it_is_assigned(tmp_path: Path) -> None:
    program = program_of(
        tmp_path,
        m="class A:\n    x = 0\n\n    def f(self):\n        self.x, y = 1, 2\n\n    def g(self):\n        self.x.y = 3\n\n"
        "    def h(self):\n        self.x: int = 4\n\n\nclass B(A):\n    def k(self):\n        self.x = 5\n",
    )
    module = program.modules["m.py"]
    found = [(value[2], f.name) for value, f in program.attribute(module.classes["B"], "x")]
    assert found == [(5, "k"), (0, "<module>"), (1, "f"), (4, "h")]
    every = {name: [v[2] for v, _ in values] for name, values in program.own_attributes(module.classes["A"]).items()}
    assert every == {"x": [0, 1, 4]}


def test_callers_stop_at_a_name_that_everybody_calls(tmp_path: Path) -> None:
    program = program_of(
        tmp_path,
        lib="def get():\n    return 1\n",
        **{f"user{i}": "from lib import get\n\n\ndef main():\n    get()\n" for i in range(3)},
    )
    function = program.modules["lib.py"].functions["get"]
    assert len(program.callers(function)) == 3
    assert program.callers(function, most=2) == []
    assert len(program.callers(function, most=3)) == 3


def test_a_file_of_training_arguments_or_an_eager_optimizer_is_admitted() -> None:
    assert admit(b"from transformers import TrainingArguments\n\nargs = TrainingArguments(dataloader_num_workers=32)\n")
    assert admit(b"import torch.optim as optim\n\n\ndef make(model):\n    return optim.Adagrad(model.parameters())\n")
    assert not admit(b"from transformers import TrainingArguments\n")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("    def g():\n", True),
        ("    x = 1\n    async def g():\n", True),
        ("    class C:\n", True),
        ("    # def g() is gone\n", False),
        ("    undef = 1; default = 2\n", False),
        ("    x = 'a def ' + y\n    class_ = x\n", False),
        ("    'first class '\n    def g(): ...\n", True),
    ],
)
def test_a_definition_begins_a_line(text: str, holds: bool) -> None:
    assert defines(text) is holds


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_are_the_same_for_all_line_ends_and_however_many_files(tmp_path: Path, ending: str, monkeypatch) -> None:
    monkeypatch.setattr(program_module, "SPLIT_FILES", 2)
    lines = ["class C:", "    def f(self):", "        'ü'", "        return 1", "", "def g():", "    return 2"]
    for name in "abc":
        (tmp_path / f"{name}.py").write_bytes(ending.join(lines).encode())
    files = [f"{name}.py" for name in "abc"]
    program = Program(str(tmp_path), files, lambda path: (tmp_path / path).read_bytes().decode())
    for path in [*files, *files]:
        module = program.module(path)
        assert module is not None
        c, f, g = module.classes["C"], module.classes["C"].methods["f"], module.functions["g"]
        assert program.lines(path) == lines
        assert [program.source_line(path, n) for n in range(9)] == ["", *lines, ""]
        assert program.lines_of(c) == lines[:4] and program.lines_of(f) == lines[1:4]
        assert program.lines_of(g) == lines[5:] and program.text_of(g) == "def g():\n    return 2"
        for first in range(8):
            for end in range(8):
                assert program.text_between(path, first, end) == "\n".join(lines[first:end])


@pytest.mark.parametrize("few", [0, 10])
@pytest.mark.parametrize("near", [0, 400])
def test_callers_are_looked_for_in_modules_first_and_in_the_files_of_a_small_project(
    tmp_path: Path, few: int, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "FEW_NAMES", few)
    monkeypatch.setattr(callers, "NEAR_FILES", near)
    call = "from z import run\n\n\ndef {}():\n    run()\n"
    program = program_of(tmp_path, z="def run():\n    pass\n\n\ndef stop():\n    pass\n", y=call.format("first"))
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(call.format(name))
    program.files += ["a.py", "b.py"]
    run, stop = (program.modules["z.py"].functions[n] for n in ("run", "stop"))
    assert program.callers(stop) == []
    program.module("b.py")  # comes when names are indexed already
    found = [f.name for f, _ in program.callers(run)]
    assert found == ["first", "b", "a"] if near else found == ["first", "b"]


def test_callers_in_files_that_are_not_parsed_are_found_after_a_search_for_names(tmp_path: Path) -> None:
    others = {f"other{i}": f"def f{i}(): ...\n" for i in range(callers.FEW_NAMES + 2)}
    program = program_of(tmp_path, lib="def wanted(): ...\n", **others)
    (tmp_path / "main.py").write_text("from lib import wanted\nwanted()\n")
    program.files.append("main.py")
    program.files_naming(("wanted",))
    for i in range(callers.FEW_NAMES + 2):
        list(program.lines_calling(program.modules[f"other{i}.py"].functions[f"f{i}"]))
    assert list(program.lines_calling(program.modules["lib.py"].functions["wanted"])) == [("main.py", 2)]


def test_calls_in_tests_are_left_out_where_nobody_asks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(tmp_path, lib="def wanted(): ...\n", main="from lib import wanted\nwanted()\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_lib.py").write_text("from lib import wanted\nwanted()\n")
    program.files.append("tests/test_lib.py")
    wanted = program.modules["lib.py"].functions["wanted"]
    for direct in (True, False):
        if not direct:
            monkeypatch.setattr(callers, "FEW_NAMES", 0)
        assert [p for p, _ in program.lines_calling(wanted, tests=False)] == ["main.py"]
        assert [p for p, _ in program.lines_calling(wanted)] == ["main.py", "tests/test_lib.py"]
    assert [g.module.path for g, _ in program.callers(wanted, tests=False)] == ["main.py"]
    assert [g.module.path for g, _ in program.callers(wanted)] == ["main.py", "tests/test_lib.py"]
