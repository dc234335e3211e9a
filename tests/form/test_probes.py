"""The form of every probe: two files, one name, a complete page, messages in both languages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import torchvet.preflight.probes as probes
from torchvet.preflight.probe import AREAS, load, probe_names

FOLDER = Path(probes.__file__).parent
NAMES = probe_names()
SECTIONS = ("What it reads", "Thresholds", "Why it matters", "Fix", "中文")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
IMPORTS = ("probe", "fixes", "quantity", "surroundings", "plan", "host")


@pytest.fixture(params=NAMES)
def probe(request):
    return load(request.param)


def source(name: str) -> Path:
    return FOLDER / (name.replace("-", "_") + ".py")


def test_there_are_probes():
    assert len(NAMES) >= 55


def test_every_page_has_a_probe():
    assert {p.stem.replace("_", "-") for p in FOLDER.glob("*.md")} == set(NAMES)


def test_name_and_area(probe):
    assert source(probe.name).exists(), "PROBE.name is not the name of its file"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){0,4}", probe.name)
    assert probe.area in AREAS
    assert 0 < probe.seconds <= 30
    assert probe.run is not None, "no function is registered with @PROBE.check"
    assert probe.summary.en and not CHINESE.search(probe.summary.en) and CHINESE.search(probe.summary.zh)


def test_page_has_its_sections(probe):
    from page_form import sections

    page = probe.page()
    assert page.startswith(f"# {probe.name}\n"), "the first line is not `# name`"
    found = sections(page)
    missing = [s for s in SECTIONS if not found.get(s, "").strip()]
    assert not missing, f"sections missing or empty: {', '.join(missing)}"
    assert [s for s in found if s in SECTIONS] == list(SECTIONS)
    assert CHINESE.search(found["中文"]) and "TODO" not in page
    for number, line in enumerate(page.split("\n"), 1):
        assert len(line.encode()) <= 400, f"line {number} is very long"


def test_probe_is_small(probe):
    assert source(probe.name).read_text("utf-8").count("\n") <= 120


def test_messages_in_both_languages(probe):
    for node in ast.walk(ast.parse(source(probe.name).read_text("utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Text"):
            continue
        words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if not words:
            continue
        en, zh = words[0], words[1] if len(words) > 1 else ""
        at = f"{probe.name}:{node.lineno}"
        fields = set(re.findall(r"{(\w+)", en))
        if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(r"{\w+}", "", en)) and not COMMAND.match(en):
            assert zh and CHINESE.search(zh), f"{at}: {en!r} has no Chinese"
        if zh:
            assert set(re.findall(r"{(\w+)", zh)) == fields, f"{at}: other fields in the Chinese text"
        assert not en.endswith("."), f"{at}: a message ends without a full stop"
        assert "\n" not in en, f"{at}: a message is one line"


COMMAND = re.compile(
    r"(docker|podman|sudo|mount|sysctl|ulimit|export|unset|nvidia-smi|rm|systemctl|modprobe|#SBATCH|--)\b"
)
"""Beginnings of fixes that are commands: they read the same in every language."""


def test_probes_read_the_world_through_the_host_only(probe):
    for node in ast.walk(ast.parse(source(probe.name).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = {a.name.partition(".")[0] for a in node.names}
            bad = names & {"os", "subprocess", "socket", "resource", "shutil", "pathlib", "platform", "sys", "torch"}
            assert not bad, f"{probe.name}:{node.lineno}: {', '.join(bad)}: ask the host"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"{probe.name}:{node.lineno}: host.read"
