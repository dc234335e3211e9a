"""What CI systems read: their limits, their escapes, their schemas."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import report_sample as sample

from torchvet.findings import CERTAIN, ERROR, NOTE, WARNING, Finding, Note, Span, Text, fingerprints
from torchvet.report import Report, render, step_summary
from torchvet.report.place import from_root


def many(n: int, severity: str, text: str = "fault {i}") -> list[Finding]:
    rows = [
        Finding("TV101", "accumulated-graph", severity, CERTAIN, Span(f"{severity}/{i:05}.py", i + 1), Text(text, i=i))
        for i in range(n)
    ]
    fingerprints(rows)
    return rows


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("::")]


# --------------------------------------------------------------------------------------------------------- GitHub


def test_annotations_stay_within_the_limit_and_the_last_says_how_many_more() -> None:
    text = render("github", sample.report(many(25, NOTE) + many(12, WARNING) + many(10, ERROR)))
    rows = commands(text)
    assert [sum(r.startswith(f"::{c} ") for r in rows) for c in ("error", "warning", "notice")] == [10, 10, 10]
    assert [r.split(" ")[0] for r in rows] == ["::error"] * 10 + ["::warning"] * 10 + ["::notice"] * 10
    assert "more" not in rows[9]
    assert "and 2 warnings more" in rows[19]
    assert "and 15 notes more" in rows[29]
    assert sum("more" in r for r in rows) == 2
    assert len(text.splitlines()) == 30 + 47 + 1  # the log holds every finding


def test_annotation_fields_and_escapes() -> None:
    bad = Finding(
        "TV101",
        "accumulated-graph",
        ERROR,
        CERTAIN,
        Span("a:b,c%.py", 3, 5, 3, 9),
        Text("50% lost,\r\nsee: ::error::x"),
    )
    (row,) = commands(render("github", sample.report([bad], root="", base="")))
    assert row == (
        "::error file=a%3Ab%2Cc%25.py,line=3,col=5,endLine=3,endColumn=9,title=accumulated-graph (TV101)"
        "::50%25 lost,%0D%0Asee: ::error::x"
    )


def test_columns_only_on_one_line() -> None:
    wide = Finding("TV101", "accumulated-graph", ERROR, CERTAIN, Span("a.py", 3, 5, 6, 2), Text("m"))
    (row,) = commands(render("github", sample.report([wide], root="", base="")))
    assert row.startswith("::error file=a.py,line=3,endLine=6,title=")


@pytest.mark.parametrize("name", ["::error file=x::y.py", "##[error]y.py", " ::stop-commands::a.py"])
def test_file_name_is_no_workflow_command(name: str) -> None:
    rows = render("github", sample.report([Finding("TV1", "x", ERROR, CERTAIN, Span(name, 1), Text("m"))])).splitlines()
    assert sum(bool(re.match(r"\s*(::|##\[)", r)) for r in rows) == 1


def test_step_summary_fits() -> None:
    text = step_summary(sample.report(many(9000, ERROR, "图 " * 40 + "{i}") + many(5, WARNING), families={}))
    assert 1_000_000 < len(text.encode()) <= 1024 * 1024
    left_out = int(re.search(r"and ([\d,]+) more lines", text).group(1).replace(",", ""))  # type: ignore[union-attr]
    assert len(re.findall(r"^\| error \|", text, re.M)) + left_out == 9005
    small = step_summary(sample.report())
    assert small.count("\n| ") == 1 + 6
    assert "more lines" not in small


# ------------------------------------------------------------------------------------------------------- Markdown


def test_comment_fits() -> None:
    text = render("markdown", sample.report(many(3000, ERROR)))
    assert 60_000 < len(text) <= 65_000
    assert re.search(r"and [\d,]+ more lines", text)
    assert text.startswith("## torchvet: 3,000 errors\n")


def test_checklist_ticks_what_is_clean_and_counts_what_was_looked_at() -> None:
    rows = [r for r in render("markdown", sample.report()).splitlines() if r.startswith("- [")]
    assert rows == [
        "- [ ] **Graphs** (what keeps an autograd graph alive): 12 values kept over steps looked at, **1 error, 1 warning**",
        "- [ ] **Loaders** (workers, shared memory, host memory): 3 places looked at, **1 warning, 1 note**",
        "- [x] **Wrapping** (order of wrapping, devices, checkpoints): 1 place looked at, nothing found",
        "- [ ] **Collectives** (ranks in step): **1 error**",
        "- [ ] **The check itself** (unreadable files, suppressions): **1 error**",
    ]
    clean = [r for r in render("markdown", sample.report([])).splitlines() if r.startswith("- [")]
    assert clean[3] == "- [x] **Collectives** (ranks in step): nothing of the kind here"
    assert all(r.startswith("- [x]") for r in clean)
    noted = render("markdown", sample.report(many(1, NOTE)))
    assert "- [x] **Graphs**" in noted


def test_markdown_shows_names_as_they_are() -> None:
    text = "__init__ *x* [a](b) `c` <img src=x> | @octocat #12 $a$ \\ ~~d~~"
    bad = Finding("TV1", "x", ERROR, CERTAIN, Span("a`b|.py", 1), Text("{t}", t=text))
    out = render("markdown", sample.report([bad]))
    assert "\\_\\_init\\_\\_ \\*x\\* \\[a\\](b) \\`c\\` &lt;img src=x&gt; \\|" in out
    assert "@octocat" not in out and "#12" not in out
    assert "``a`b|.py:1:1``" in out
    assert "``a`b\\|.py:1:1``" in step_summary(sample.report([bad]))


# --------------------------------------------------------------------------------------------------- GitLab, JUnit


def test_gitlab() -> None:
    rows = json.loads(render("gitlab", sample.report()))
    assert {r["severity"] for r in rows} == {"critical", "major", "info"}
    for r in rows:
        assert set(r) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert r["description"].startswith(r["check_name"])
        assert not r["location"]["path"].startswith((".", "/"))
        assert r["location"]["lines"]["begin"] >= 1
    twins = many(1, ERROR) * 3
    assert len({r["fingerprint"] for r in json.loads(render("gitlab", sample.report(twins)))}) == 3
    assert json.loads(render("gitlab", sample.report([]))) == []


def test_junit() -> None:
    bad = Finding("TV1", "x", ERROR, CERTAIN, Span("a&\"'<\x01.py", 1), Text("]]> \x00\ufffe <b>"))
    tree = ElementTree.fromstring(render("junit", sample.report([*sample.findings(), bad])).encode())
    cases = tree.findall("./testsuite/testcase")
    assert (tree.get("tests"), tree.get("failures"), len(cases)) == ("7", "6", 7)
    assert len(tree.findall(".//failure")) == 6  # notes never block
    assert sum(int(s.get("tests")) for s in tree.findall("testsuite")) == 7  # type: ignore[arg-type]
    assert sum(int(s.get("failures")) for s in tree.findall("testsuite")) == 6  # type: ignore[arg-type]
    assert any(f.get("message") == "only rank 0 reaches barrier()" for f in tree.iter("failure"))
    clean = ElementTree.fromstring(render("junit", sample.report([])).encode())
    assert (clean.get("tests"), clean.get("failures")) == ("1", "0")
    assert clean.find("./testsuite/testcase").get("name") == "no findings"  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------------- HTML


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_loads_nothing_and_runs_no_foreign_script() -> None:
    hostile = "<script>alert(1)</script><img src=//x onerror=y>\"'"
    bad = Finding(
        "TV1", "x", ERROR, CERTAIN, Span(f"a{hostile}.py", 1, 1, 1, 8), Text("{t}", t=hostile),
        help=Text("{t}", t=hostile), notes=[Note(Span("b.py", 1), Text("{t}", t=hostile))],
    )  # fmt: skip
    page = Page(render("html", sample.report([*sample.findings(), bad], source=lambda path, line, cell: hostile)))
    assert page.open == []
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "style"}
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "svg")
        assert not loading & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert "href" not in attributes or tag == "a"
    assert [t for t, _ in page.tags].count("script") == 1
    policy = [a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy and policy[0].startswith("default-src 'none'")
    assert page.text.count(hostile) >= 3
    style_and_script = re.findall(r"<(?:style|script)>(.*?)</", render("html", sample.report()), re.S)
    assert len(style_and_script) == 2
    assert not re.search(r"url\(|@import|https?:|fetch|XMLHttpRequest", "".join(style_and_script))


def test_html_can_be_filtered() -> None:
    page = Page(render("html", sample.report(language="zh")))
    cards = [a for t, a in page.tags if t == "article"]
    assert [c["data-severity"] for c in cards] == ["error"] * 3 + ["warning"] * 2 + ["note"]
    assert {a["value"] for t, a in page.tags if t == "input" and a.get("type") == "checkbox"} == {
        "error",
        "warning",
        "note",
    }
    rules = {a["value"] for t, a in page.tags if t == "option"} - {""}
    assert rules == {c["data-rule"] for c in cards}
    assert next(a for t, a in page.tags if t == "html")["lang"] == "zh-CN"
    assert "form" not in [t for t, _ in Page(render("html", sample.report([]))).tags]


# ---------------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("root", "base", "path", "expected"),
    [
        ("", "", "a.py", "a.py"),
        ("/r", "/r", "a.py", "a.py"),
        ("/r", "/r/sub", "a.py", "sub/a.py"),
        ("/r", "/r/x/y", "../a.py", "x/a.py"),
        ("/r/sub", "/r", "sub/a.py", "sub/a.py"),
        ("/r", "/other", "a.py", "a.py"),
        ("/r", "/r/..hidden", "a.py", "..hidden/a.py"),
    ],
)
def test_paths_from_the_top_of_the_repository(root: str, base: str, path: str, expected: str) -> None:
    assert from_root(Report([], root=root, base=base), path) == expected
