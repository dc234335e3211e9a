"""Who may import whom: the floors of docs/architecture.md. Right may import left, never the other way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "torchvet"
MODULES = sorted(SOURCE.rglob("*.py"))

CHECK = ["check.source", "check.program", "check.flow", "check.rules", "check.gate", "check.engine"]
WINGS = ["preflight", "run", "tune", "diagnose", "report"]
# a module may import the floors below its own, and its own
BELOW: dict[str, set[str]] = {"findings": set(), "knowledge": set(), "": set()}
for number, floor in enumerate(CHECK):
    BELOW[floor] = {"findings", "knowledge", "", "check", *CHECK[:number]}
BELOW["check.config"] = {"findings", "knowledge", ""}
BELOW["check"] = set()
for wing in WINGS:
    BELOW[wing] = {"findings", "knowledge", ""}
BELOW["cli"] = {"findings", "knowledge", "", "check", "check.config", *CHECK, *WINGS}
BELOW["__main__"] = {"cli"}
for floor in CHECK:
    BELOW[floor].add("check.config")
# `run` lives inside a user's job
BELOW["run"] = {"findings", ""}

# expensive at import time (7 to 16 ms each); the hot path of `check` imports them where it needs them
EXPENSIVE = {
    "argparse", "ast", "asyncio", "collections.abc", "concurrent", "dataclasses", "datetime", "difflib", "email", "enum",
    "hashlib", "html", "inspect", "json", "logging", "multiprocessing", "pathlib", "pickle", "random", "shutil", "socket",
    "sqlite3", "statistics", "subprocess", "tempfile", "tokenize", "tomllib", "traceback", "typing", "unittest", "urllib",
    "uuid", "xml",
}  # fmt: skip
HOT = ("findings", "knowledge", "check")


def floor_of(module: str) -> str:
    """The floor of a dotted module below `torchvet`: "check.flow.graphs" is on "check.flow"."""
    parts = module.split(".")
    for size in (2, 1):
        name = ".".join(parts[:size])
        if name in BELOW:
            return name
    raise AssertionError(f"torchvet.{module} is on no floor of docs/architecture.md")


def dotted(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path):
    """(line, dotted module, at import time?) of every import outside `if TYPE_CHECKING`."""
    package = dotted(path).split(".") if path.name == "__init__.py" else dotted(path).split(".")[:-1]
    package = [p for p in package if p]

    def visit(node: ast.AST, now: bool):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                for other in child.orelse:
                    yield from visit(other, now)
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield child.lineno, alias.name, now
            elif isinstance(child, ast.ImportFrom):
                if child.level:
                    base = ["torchvet", *package][: len(package) + 2 - child.level]
                    module = ".".join([*base, *([child.module] if child.module else [])])
                else:
                    module = child.module or ""
                yield child.lineno, module, now
                if module == "torchvet" or module.startswith("torchvet."):
                    for alias in child.names:
                        if (SOURCE / Path(*module.split(".")[1:]) / alias.name).with_suffix(".py").exists() or (
                            SOURCE / Path(*module.split(".")[1:]) / alias.name / "__init__.py"
                        ).exists():
                            yield child.lineno, f"{module}.{alias.name}", now
            yield from visit(child, now and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    yield from visit(ast.parse(path.read_text("utf-8")), True)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: dotted(p) or "torchvet")
def test_imports_go_down(path):
    name = dotted(path)
    if not name:  # the version only
        assert not list(imports(path)), "importing torchvet must cost nothing"
        return
    here = floor_of(name)
    for line, module, _ in imports(path):
        if module != "torchvet" and not module.startswith("torchvet."):
            continue
        below = module.partition(".")[2]
        there = floor_of(below) if below else ""
        assert there == here or there in BELOW[here], f"{path.name}:{line}: {here} imports {there} ({module})"


@pytest.mark.parametrize("path", [p for p in MODULES if dotted(p).split(".")[0] in HOT], ids=dotted)
def test_hot_path_imports_nothing_expensive(path):
    for line, module, now in imports(path):
        if now:
            root = module.partition(".")[0]
            assert module not in EXPENSIVE and root not in EXPENSIVE, f"{path.name}:{line}: {module} at import time"


@pytest.mark.parametrize("path", [p for p in MODULES if dotted(p).split(".")[0] in HOT], ids=dotted)
def test_hot_path_uses_the_standard_library_only(path):
    known = set(sys.stdlib_module_names) | {"torchvet", "tomli", "tomllib", "__future__"}
    known |= {"yaml"} if path.name == "yaml_tree.py" else set()
    for line, module, _ in imports(path):
        assert module.partition(".")[0] in known, f"{path.name}:{line}: {module}"


def test_the_page_about_floors_names_them():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    line = next(x for x in page.split("\n") if "check.source <" in x.replace("←", "<"))
    named = [re.sub(r"[^a-z._ ,]", "", part).strip() for part in re.split(r"<|←", line)]
    assert named[1:] == [*CHECK, "cli"]


def loaded_by(code: str) -> set[str]:
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    r = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n{script}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert r.returncode == 0, r.stderr
    return set(r.stdout.split("\n")[-2].split())


def test_version_imports_nothing_expensive():
    loaded = loaded_by("from torchvet.cli import main; main(['--version'])")
    assert not loaded & {"argparse", "ast", "json", "re", "typing", "dataclasses", "pathlib", "tomllib"}
    assert {m for m in loaded if m.startswith("torchvet")} == {"torchvet", "torchvet.cli"}


def test_engine_imports_nothing_expensive():
    loaded = loaded_by("import torchvet.check.engine")
    assert not loaded & EXPENSIVE - {"collections.abc"}
