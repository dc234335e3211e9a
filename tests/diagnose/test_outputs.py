"""What each format says: golden files for people's formats, the contract for json, safety of html, size at scale.

TORCHVET_UPDATE_GOLDEN=1 writes the files in tests/diagnose/golden anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import made
import pytest

from torchvet.cli.targets import targets
from torchvet.diagnose.model import CONFIDENCES, KINDS, Fact
from torchvet.diagnose.outputs import BY_ENDING, FORMATS, Style, render
from torchvet.diagnose.outputs.words import listed
from torchvet.findings import UserError
from torchvet.findings.columns import width

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "<script>alert(1)</script> `x` | [a](http://b) @root \x1b[31m\x07 \u202e ￿ " + "y" * 200


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["text", "verbose", "bare", "healthy", "markdown"])
def test_golden(name, lang):
    diagnosis = made.healthy() if name == "healthy" else made.hang()
    style = Style(lang, verbose=name == "verbose", paths=["runs/a"], code="proj",
                  places={} if name == "bare" else made.places())  # fmt: skip
    said = render("markdown" if name == "markdown" else "text", diagnosis, style)
    file = GOLDEN / f"{name}.{lang}.{'md' if name == 'markdown' else 'txt'}"
    if os.environ.get("TORCHVET_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(said, "utf-8")
    assert said == file.read_text("utf-8")
    if name != "markdown":
        assert max(width(line) for line in said.split("\n")) <= 100


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_text_keeps_to_the_terminal(columns):
    said = render("text", made.hang(text=HOSTILE), Style(width=columns, paths=["runs/a"], places=made.places()))
    longest = max(said.split("\n"), key=width)
    assert width(longest) <= max(columns, 80), longest  # commands are not broken
    assert "\x1b" not in said and "\x07" not in said and "\u202e" not in said


def test_the_first_screen_is_one_screen():
    said = render("text", made.hang(), Style(paths=["runs/a"], places=made.places()))
    assert said.count("\n") <= 24
    assert said.split("\n")[1].startswith("Verdict   rank 5 left the loop early (confirmed)")


def test_colour_is_only_colour():
    plain = render("text", made.hang(), Style(paths=["runs/a"]))
    painted = render("text", made.hang(), Style(paths=["runs/a"], color=True))
    assert painted != plain and re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_a_terminal_without_box_characters():
    said = render("text", made.hang(), Style(paths=["runs/a"], places=made.places(), unicode=False, verbose=True))
    assert said.isascii()


VERDICT = {
    "type": "object",
    "required": ["cause", "sub", "summary", "confidence", "ranks", "site", "supports", "contradicts", "missing", "next"],
    "properties": {
        "cause": {"enum": list(KINDS)},
        "sub": {"type": "string"},
        "summary": {"type": "string", "pattern": r"^[^\n]+$"},
        "confidence": {"enum": list(CONFIDENCES)},
        "ranks": {"type": "array", "items": {"type": "integer"}},
        "site": {
            "type": ["object", "null"], "required": ["path", "line"],
            "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
        },
        "supports": {"type": "array", "items": {"type": "object", "required": ["reason", "weight"]}},
        "contradicts": {"type": "array", "items": {"type": "object", "required": ["reason", "weight"]}},
        "missing": {"type": "array", "items": {"type": "string"}},
        "next": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["schema", "inventory", "verdicts", "side_findings"],
    "properties": {
        "schema": {"const": 1},
        "inventory": {"type": "object", "required": ["world", "files", "missing", "problems", "ranks"]},
        "verdicts": {"type": "array", "items": VERDICT},
        "side_findings": {"type": "array", "items": VERDICT},
    },
}


@pytest.mark.parametrize("diagnosis", [made.hang(), made.healthy(), made.hang(text=HOSTILE)])
def test_json_is_the_contract(diagnosis):
    said = json.loads(render("json", diagnosis, Style(places=made.places())))
    jsonschema.validate(said, SCHEMA)
    assert len(said["verdicts"]) == len(diagnosis.verdicts)


def test_json_tells_what_the_code_has():
    verdict = json.loads(render("json", made.hang(), Style(places=made.places())))["verdicts"][0]
    assert verdict["site"] == {"path": "/workspace/proj/train.py", "line": 51}
    assert verdict["code"]["path"] == "train.py" and verdict["code"]["findings"][0]["name"] == "local-skip"
    assert [x["source"] for x in verdict["supports"][:2]] == ["logs/5/stdout.log", "fr/rank_0"]


def test_facts_can_be_read_back():
    diagnosis = made.hang()
    rows = [json.loads(line) for line in render("facts", diagnosis, Style()).splitlines()]
    assert [Fact.from_plain(r).plain() for r in rows] == [f.plain() for f in diagnosis.case.facts]


class Page(HTMLParser):
    """Counts of elements; fails on anything that would load or run."""

    VOID = ("meta", "br", "input", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.words: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe", "object", "embed", "base"), tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "href", "style"), (tag, name)
            assert "url(" not in (value or "")
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in self.VOID or (tag == "rect" and not self.get_starttag_text().endswith("/>")):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("diagnosis", [made.hang(), made.healthy(), made.hang(text=HOSTILE)])
def test_html_loads_nothing_and_runs_nothing(diagnosis, lang):
    said = render("html", diagnosis, Style(lang, paths=["runs/a"], places=made.places()))
    page = Page(said)
    assert "http" not in said.replace("http://b", "").replace("http-equiv", "")
    assert "\x1b" not in said and "\x07" not in said
    if diagnosis.verdicts:
        assert page.seen["svg"] == 1
        text = "".join(page.words)
        assert "4,212" in text and ("rank 5" in text)


def test_the_drawing_shows_who_never_called():
    said = render("html", made.hang(), Style())
    drawing = said[said.index("<svg") : said.index("</svg>")]
    assert drawing.count('class="never root"') == 1
    assert len(re.findall(r'class="h\d open"', drawing)) == 1  # all that wait share a lane


def test_hostile_markdown_stays_text():
    said = render("markdown", made.hang(text=HOSTILE), Style())
    assert "<script>" not in said and "@root" not in said and "[a](http" not in said


def test_ten_thousand_ranks():
    diagnosis = made.hang(10_000, 777)
    start = time.process_time()
    said = {name: render(name, diagnosis, Style(paths=["runs/a"])) for name in FORMATS}
    assert time.process_time() - start < 20
    assert len(said["html"]) < 3_000_000
    assert len(said["markdown"]) < 10_000 and len(said["text"]) < 3_000
    assert "ranks 0, 1, 3-776, 778-9999" in said["text"]
    Page(said["html"])


def test_ranks_that_all_differ_stay_bounded():
    diagnosis = made.hang(3_000, 7)
    for n, rank in diagnosis.case.ranks.items():
        rank.step = n * 7
    assert len(render("html", diagnosis, Style())) < 3_000_000
    assert render("text", diagnosis, Style()).count("\n") < 40


def test_lists_of_ranks():
    assert listed([5]) == "5" and listed([0, 1]) == "0, 1" and listed([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7, 8"
    assert listed(range(0, 100, 2), 3) == "0, 2, 4, …"


def test_where_reports_go():
    assert targets([], [], FORMATS, BY_ENDING) == [("text", "")]
    assert targets([], ["r.html"], FORMATS, BY_ENDING) == [("html", "r.html")]
    assert targets(["json"], ["html=r.html"], FORMATS, BY_ENDING) == [("json", ""), ("html", "r.html")]
    assert targets(["json"], ["-"], FORMATS, BY_ENDING) == [("json", "")]
    with pytest.raises(UserError, match="unknown output format pdf"):
        targets([], ["pdf=x.pdf"], FORMATS, BY_ENDING)
