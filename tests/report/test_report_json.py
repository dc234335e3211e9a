"""The JSON contract, and the formats that share its objects."""

from __future__ import annotations

import json

import report_sample as sample

from torchvet.findings import CERTAIN, ERROR, Finding, Span, Text, rule_url
from torchvet.report import render

NUMBER, TEXT = int, str
FINDING = {
    "code": TEXT, "name": TEXT, "severity": TEXT, "confidence": TEXT, "path": TEXT, "line": NUMBER, "column": NUMBER,
    "end_line": NUMBER, "end_column": NUMBER, "message": TEXT, "help": TEXT, "url": TEXT, "related": list,
    "fix": (dict, type(None)), "fingerprint": TEXT,
}  # fmt: skip


def answer(**settings: object) -> dict:
    return json.loads(render("json", sample.report(**settings)))


def test_contract() -> None:
    got = answer()
    assert list(got) == ["schema", "tool", "summary", "findings"]
    assert got["schema"] == 1
    assert got["tool"] == {"name": "torchvet", "version": "1.2.3"}
    assert got["summary"] == {"files": 2140, "parsed": 37, "errors": 3, "warnings": 2, "notes": 1}
    assert len(got["findings"]) == 6
    for f in got["findings"]:
        extra = (
            {"trace"} if f["name"] == "rank-guarded-collective" else {"cell"} if f["path"].endswith(".ipynb") else set()
        )
        assert set(f) == set(FINDING) | extra
        for key, kind in FINDING.items():
            assert isinstance(f[key], kind), key
        assert f["severity"] in ("error", "warning", "note")
        assert f["confidence"] in ("certain", "likely", "possible")
        assert f["url"] == rule_url(f["name"])
        assert min(f["line"], f["column"], f["end_line"], f["end_column"]) >= 1
        assert (f["end_line"], f["end_column"]) > (f["line"], f["column"])
        for related in f["related"]:
            assert list(related) == ["path", "line", "message"]
        if f["fix"] is not None:
            assert list(f["fix"]) == ["title", "safe", "edits"]
            for edit in f["fix"]["edits"]:
                assert list(edit) == ["line", "column", "end_line", "end_column", "text"]
    assert len({f["fingerprint"] for f in got["findings"]}) == 6


def test_order_is_path_then_line() -> None:
    rows = [
        Finding("TV1", "x", ERROR, CERTAIN, Span(p, n), Text("m")) for p, n in (("b.py", 1), ("a.py", 20), ("a.py", 3))
    ]
    assert [(f["path"], f["line"]) for f in answer(rows=rows)["findings"]] == [("a.py", 3), ("a.py", 20), ("b.py", 1)]


def test_columns_count_characters_and_point_at_the_text() -> None:
    for f in answer()["findings"]:
        line = sample.source(f["path"], f["line"])
        if line is not None:
            pointed = line[f["column"] - 1 : f["end_column"] - 1]
            assert pointed in (
                "dist.barrier()",
                "total_loss += loss",
                "os.cpu_count()",
                "num_workers=64",
                "losses.append(model(x))",
            )


def test_notebook_lines_are_those_of_the_file_on_disk() -> None:
    found = next(f for f in answer()["findings"] if f["path"] == "explore.ipynb")
    assert found["cell"] == {"number": 3, "line": 4, "column": 5}
    related = [sample.source("explore.ipynb", r["line"]) for r in found["related"]]
    assert "losses = []" in related[0]
    assert "DataLoader" in related[1]


def test_fix_of_a_notebook_leaves_a_notebook() -> None:
    found = next(f for f in answer()["findings"] if f["path"] == "explore.ipynb")
    lines = sample.NOTEBOOK.split("\n")
    for e in found["fix"]["edits"]:
        assert e["line"] == e["end_line"]
        text = lines[e["line"] - 1]
        lines[e["line"] - 1] = text[: e["column"] - 1] + e["text"] + text[e["end_column"] - 1 :]
    cell = json.loads("\n".join(lines))["cells"][2]
    assert "".join(cell["source"]).split("\n")[3] == '    losses.append(model(x).detach()  # "off")'


def test_notebook_on_one_line() -> None:
    packed = json.dumps(json.loads(sample.NOTEBOOK))

    def source(path: str, line: int, cell: int = 0) -> str | None:
        return sample.source(path, line, cell) if cell else packed if line == 1 else None

    got = answer(rows=[sample.IN_NOTEBOOK], source=source, raw_line=lambda path, line, cell: 1)["findings"][0]
    assert packed[got["column"] - 1 : got["end_column"] - 1] == "losses.append(model(x))"


def test_unknown_way_of_writing_a_notebook_points_at_the_line() -> None:
    def source(path: str, line: int, cell: int = 0) -> str | None:
        return sample.source(path, line, cell) if cell else '"losses" ...'

    got = answer(rows=[sample.IN_NOTEBOOK], source=source)["findings"][0]
    assert (got["line"], got["column"], got["end_column"]) == (sample.IN_NOTEBOOK.raw_line, 1, 13)
    assert got["fix"] is None


def test_language() -> None:
    assert {f["message"] for f in answer(language="zh")["findings"]} >= {"只有 rank 0 会执行 barrier()"}


def test_names_that_are_no_unicode() -> None:
    rows = [Finding("TV1", "x", ERROR, CERTAIN, Span("caf\udce9.py", 1), Text("m"))]
    for format in ("json", "jsonl", "sarif", "gitlab", "rdjson"):
        render(format, sample.report(rows)).encode("utf-8")
    assert answer(rows=rows)["findings"][0]["path"] == "caf\udce9.py"
    for format in ("html", "junit"):
        render(format, sample.report(rows)).encode("utf-8")


def test_jsonl_has_the_same_objects() -> None:
    rows = [json.loads(line) for line in render("jsonl", sample.report()).splitlines()]
    assert rows == answer()["findings"]


def test_rdjson_columns_count_bytes() -> None:
    got = json.loads(render("rdjson", sample.report()))
    found = next(d for d in got["diagnostics"] if d["code"]["value"] == "workers-from-cpu-count")
    where = found["location"]["range"]
    line = sample.FILES["模型/a b.py"].split("\n")[3].encode()
    assert line[where["start"]["column"] - 1 : where["end"]["column"] - 1] == b"os.cpu_count()"
    assert found["location"]["path"] == "sub dir/模型/a b.py"
    assert {d["severity"] for d in got["diagnostics"]} == {"ERROR", "WARNING", "INFO"}
