"""The five formats: the same report, for people and for programs."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from torchvet.cli.targets import targets
from torchvet.findings import Text
from torchvet.findings.columns import width
from torchvet.preflight.node import NodeReport
from torchvet.preflight.outputs import BY_ENDING, FORMATS, Style, render
from torchvet.preflight.probe import Result
from torchvet.preflight.watch import changes

EVIL = "::error::\x1b[31m<&\"'>\x00\ud800 日本\n::set-output name=x::y"


def report() -> NodeReport:
    results = [
        Result("nofile", "pass", 1048576, 4096, Text("1,048,576 files can be open", "可打开 1,048,576 个文件")),
        Result(
            "shm-size", "fail", 67108864, 2_600_000_000,
            Text("/dev/shm has 64 MiB; this job asks for up to 2.4 GiB: 8 ranks × (4 workers × 2 + 2) batches × 31 MB (train.py:88)",
                 "/dev/shm 有 64 MiB；本作业最多需要 2.4 GiB：8 个 rank × (4 个 worker × 2 + 2) 个批次 × 31 MB (train.py:88)"),
            Text("docker run --shm-size=4g …"),
        ),
        Result("xid-history", "unknown", None, None, Text("the kernel log cannot be read in this container", "此容器中无法读取内核日志")),
        Result("nccl-leftovers", "warn", "NCCL_P2P_DISABLE=1", None, Text("NCCL_P2P_DISABLE=1 is set (debugging aid)", "设置了 NCCL_P2P_DISABLE=1（调试用）"), Text("unset NCCL_P2P_DISABLE")),
        Result("a-name-that-is-longer-than-the-column", "warn", 1.5, None, Text("{x}", "{x}", x=EVIL), Text("{x}", x=EVIL)),
    ]  # fmt: skip
    node = {"hostname": "gpu-07", "container": "docker", "launcher": "slurm", "gpus": "8 × H100, driver 570.86"}
    return NodeReport(node, results, {"probes": 61, "not_applicable": 3, "skipped": 0}, 0.94)


SCREEN = """\
gpu-07 · docker container · slurm · 8 × H100, driver 570.86 · 61 probes in 0.9 s

FAIL  shm-size          /dev/shm has 64 MiB; this job asks for up to 2.4 GiB: 8 ranks × (4 workers ×
                        2 + 2) batches × 31 MB (train.py:88)
                        fix  docker run --shm-size=4g …
WARN  nccl-leftovers    NCCL_P2P_DISABLE=1 is set (debugging aid)
                        fix  unset NCCL_P2P_DISABLE
"""


def test_what_a_person_sees():
    text = render("text", report(), Style())
    assert text.startswith(SCREEN)
    assert "ok    1 probe" in text and "3 do not apply here; --verbose lists them" in text
    assert text.endswith("1 failed, 2 warnings, 1 unknown: do not start this job\n")
    assert "nofile" not in text and "nofile" in render("text", report(), Style(verbose=True))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("columns", [60, 100, 140])
def test_no_line_is_too_wide_and_nothing_steers_the_terminal(language, columns):
    for line in render("text", report(), Style(language, width=columns, verbose=True)).splitlines():
        assert "\x1b" not in line and "\x00" not in line
        assert width(line) <= columns or " " not in line.strip()


def test_colour_carries_no_meaning():
    plain = render("text", report(), Style())
    coloured = render("text", report(), Style(color=True))
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain and "\x1b[" in coloured


def test_terminals_without_box_drawing():
    render("text", NodeReport({"hostname": "a"}, report().results[:3], {}, 1), Style(unicode=False)).encode("ascii")


def test_json_is_the_contract():
    jsonschema = pytest.importorskip("jsonschema")
    row = {
        "type": "object",
        "required": ["probe", "verdict", "value", "limit", "message", "fix"],
        "properties": {
            "probe": {"type": "string"}, "verdict": {"enum": ["pass", "warn", "fail", "unknown"]},
            "message": {"type": "string"}, "fix": {"type": "string"},
        },
    }  # fmt: skip
    schema = {
        "type": "object",
        "required": ["schema", "node", "results"],
        "properties": {"schema": {"const": 1}, "node": {"type": "object"}, "results": {"type": "array", "items": row}},
    }
    read = json.loads(render("json", report(), Style()))
    jsonschema.validate(read, schema)
    assert [r["verdict"] for r in read["results"]] == ["fail", "warn", "warn", "unknown", "pass"]
    assert read["summary"]["fail"] == 1 and read["summary"]["not_applicable"] == 3


def test_a_probe_with_several_results_is_one_row_with_its_worst():
    rows = [Result("x", v, i, None, Text("m")) for i, v in enumerate(["pass", "fail", "warn"])]
    (row,) = json.loads(render("json", NodeReport({}, rows, {}, 0), Style()))["results"]
    assert row["verdict"] == "fail" and [r["verdict"] for r in row["also"]] == ["warn", "pass"]


@pytest.mark.parametrize(("fail_on", "failures"), [("fail", 1), ("warn", 3)])
def test_junit(fail_on, failures):
    suites = ET.fromstring(render("junit", report(), Style(fail_on=fail_on)))
    assert suites.get("failures") == str(failures) and suites.get("tests") == "5"
    assert len(suites.findall(".//failure")) == failures and len(suites.findall(".//skipped")) == 1


def test_github():
    lines = render("github", report(), Style()).splitlines()
    commands = [x for x in lines if x.startswith("::")]
    assert [x.split()[0] for x in commands] == ["::error", "::warning", "::warning", "::notice"]
    assert commands[0].startswith("::error title=preflight shm-size::/dev/shm has 64 MiB")
    assert not any(re.match(r"\s*::set-output", x) for x in lines)


METRIC = re.compile(r'torchvet_preflight_[a-z_]+\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*\} -?\d+(?:\.\d+)?(?:e[+-]?\d+)?')


def test_prometheus():
    seen = set()
    for line in render("prometheus", report(), Style()).splitlines():
        if not line.startswith("#"):
            assert METRIC.fullmatch(line), line
            series = line.rpartition(" ")[0]
            assert series not in seen, "a series may appear once"
            seen.add(series)
    assert 'torchvet_preflight_verdict{node="gpu-07",probe="shm-size"}' in seen


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_report(name):
    assert render(name, NodeReport({}, [], {"probes": 0}, 0.0), Style("zh"))


def test_a_report_that_was_sent_is_the_same():
    sent = NodeReport.unpack(json.loads(json.dumps(report().pack())))
    for language in ("en", "zh"):
        assert sent.plain(language) == report().plain(language)


def test_targets():
    assert targets([], [], FORMATS, BY_ENDING) == [("text", "")]
    assert targets(["json"], ["x"], FORMATS, BY_ENDING) == [("json", "x")]
    assert targets([], ["a.xml", "json=b"], FORMATS, BY_ENDING) == [("junit", "a.xml"), ("json", "b")]
    assert targets(["github"], ["json=b"], FORMATS, BY_ENDING) == [("github", ""), ("json", "b")]


def test_changes_between_two_looks():
    before, now = report(), report()
    now.results = [Result("nofile", "fail", 1, 2, Text("m")), *now.results[2:]]
    assert [(p, a and a.verdict, b and b.verdict) for p, a, b in changes(before, now)] == [
        ("nofile", "pass", "fail"), ("shm-size", "fail", None),
    ]  # fmt: skip
    assert changes(now, now) == []
    assert "nofile" in {p for p, _, _ in changes(None, now)}
