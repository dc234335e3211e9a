"""The layout for people: marks stand under what they mean, nothing is wider than asked, nothing steers the terminal."""

from __future__ import annotations

import re
import unicodedata

import pytest
import report_sample as sample
from hypothesis import given
from hypothesis import strategies as st

from torchvet.findings import CERTAIN, ERROR, NOTE, WARNING, Edit, Finding, Note, Span, Text, UserError
from torchvet.findings.columns import wrap
from torchvet.report import RuleInfo, render


def columns(text: str) -> int:
    """Terminal columns, by the rules of Unicode and not by the code under test."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in text)


def show(finding: Finding, lines: dict[str, list[str]], **settings: object) -> list[str]:
    def source(path: str, line: int, cell: int = 0) -> str | None:
        text = lines.get(path, [])
        return text[line - 1] if 0 < line <= len(text) else None

    return render("full", sample.report([finding], source=source, **settings)).splitlines()


def finding(span: Span, *notes: Note, severity: str = ERROR) -> Finding:
    return Finding("TV999", "some-fault", severity, CERTAIN, span, Text("something is wrong"), notes=list(notes))


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("    total += loss", "total += loss"),
        ("\ttotal += loss", "total"),
        ("a\t\ttotal\t= 1", "total"),
        ('print("训练集"); total += loss', "total"),
        ("总损失 = 0; 总损失 += loss", "总损失 += loss"),
        ("x = '𝒙'; y = '👍'; total += loss", "total"),
        ("e\u0301 = 'e\u0301'; total += loss", "total"),
        ("ｆｕｌｌ = 1; total += loss", "total"),
    ],
)
def test_mark_stands_under_its_text(line: str, marked: str) -> None:
    start = line.rindex(marked) + 1
    rows = show(finding(Span("a.py", 1, start, 1, start + len(marked))), {"a.py": [line]})
    source, underline = rows[2], rows[3]
    before = underline[: underline.index("━")]
    length = underline.count("━")
    assert length == columns(marked.expandtabs(4))
    at = 0  # the character of the source row in the column where the underline begins
    while columns(source[:at]) < columns(before):
        at += 1
    assert columns(source[:at]) == columns(before)
    # Combining marks of the character before take no column of their own.
    assert source[at:].lstrip("\u0301").startswith(marked)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_nothing_is_wider_than_asked(language: str, width: int) -> None:
    rows = render("full", sample.report(language=language, width=width)).splitlines()
    assert max(map(columns, rows)) <= width


@given(st.text(), st.integers(1, 12), st.integers(1, 300), st.integers(0, 40), st.text(max_size=200))
def test_any_source_line_can_be_shown(line: str, number: int, start: int, length: int, label: str) -> None:
    line = line.replace("\n", " ")
    span = Span("a.py", number, start, number, start + length)
    rows = show(finding(span, Note(span, Text("{x}", x=label))), {"a.py": [line] * 12})
    text = "\n".join(rows)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert max(map(columns, rows)) <= 100
    assert "━" in text or not line.strip()


@given(st.text(alphabet="ab 计，。\t", max_size=120), st.integers(4, 30))
def test_wrapping_loses_nothing(text: str, room: int) -> None:
    rows = wrap(text, room)
    assert "".join("".join(rows).split()) == "".join(text.split())
    if len(rows) > 1:
        assert max(map(columns, rows)) <= room


def test_terminal_is_not_steered_by_names() -> None:
    bad = Finding("TV999", "some-fault", ERROR, CERTAIN, Span("a\x1b[31m\nb.py", 1), Text("{x}", x="\x1b]0;x\x07"))
    for format in ("full", "concise"):
        text = render(format, sample.report([bad]))
        assert "\x1b" not in text
        assert "\x07" not in text
    assert len(render("concise", sample.report([bad])).splitlines()) == 1


def test_long_line_is_cut_around_the_mark() -> None:
    line = "x = [" + ", ".join(str(i) for i in range(400)) + "]; total += loss; " + "y" * 400
    start = line.index("total") + 1
    rows = show(finding(Span("a.py", 1, start, 1, start + 13)), {"a.py": [line]})
    source, underline = rows[2], rows[3]
    at = underline.index("━")
    assert source[at : at + 13] == "total += loss"
    assert source.endswith("…")
    assert source[4] == "…"


def test_chain_that_leads_back_opens_a_block_and_keeps_its_order() -> None:
    lines = {"a.py": [f"line{i}()" for i in range(1, 31)]}
    notes = [
        Note(Span("a.py", 20, 1, 20, 9), Text("calls helper"), chain=True),
        Note(Span("a.py", 3, 1, 3, 8), Text("leaves early"), chain=True),
        Note(Span("b.py", 1, 1), Text("made here"), chain=False),
    ]
    rows = show(finding(Span("a.py", 5, 1, 5, 8), *notes), lines)
    headings = [r.split()[1] for r in rows if r.lstrip().startswith(("┌─", "├─"))]
    assert headings == ["a.py:20:1", "a.py:5:1", "b.py:1:1"]
    numbers = [int(r.split("│")[0]) for r in rows if re.match(r" *\d+│", r)]
    assert numbers == [20, 3, 5, 1]


def test_place_of_the_finding_is_marked_once_when_a_note_is_about_a_part_of_it() -> None:
    lines = {"a.py": ["if rank == 0:", "    dist.barrier()"]}
    condition = Note(Span("a.py", 1, 4, 1, 13), Text("ranks part here"))
    rows = show(finding(Span("a.py", 1, 1, 2, 19), condition), lines)
    assert rows[1] == "  ┌─ a.py:1:1"
    assert sum("━" in r for r in rows) == 1
    assert any("━━━━━━━━━ ranks part here" in r for r in rows)


def test_worst_first_then_by_place() -> None:
    spans = [(NOTE, "a.py", 1), (ERROR, "b.py", 9), (ERROR, "b.py", 2), (WARNING, "a.py", 3), (ERROR, "c.py", 1)]
    report = sample.report([finding(Span(path, line), severity=s) for s, path, line in spans])
    places = [row.split(": ")[0] for row in render("concise", report).splitlines()]
    assert places == ["b.py:2:1", "b.py:9:1", "c.py:1:1", "a.py:3:1", "a.py:1:1"]


def test_summary_counts() -> None:
    one = sample.report([sample.BARRIER], files=1, parsed=1, seconds=123.4)
    assert render("full", one).splitlines()[-1] == "1 error · 1 file read, 1 parsed, 123 s"
    failed = render("full", sample.report([sample.ACCUMULATED], complete=False)).splitlines()[-2:]
    assert failed == [
        "1 warning · 2,140 files read, 37 parsed, 0.24 s · 1 can be fixed with --fix",
        "torchvet failed on some files",
    ]
    unsafe = render("full", sample.report([sample.WORKERS])).splitlines()[-1]
    assert unsafe.endswith("1 can be fixed with --fix --unsafe-fixes")


def test_rule_is_explained_once() -> None:
    again = Finding.from_plain(sample.ACCUMULATED.plain())
    text = render("full", sample.report([sample.ACCUMULATED, again]))
    assert text.count("torchvet explain accumulated-graph") == 1


def test_fix_is_shown_as_the_code_it_leaves_or_by_its_title() -> None:
    rows = render("full", sample.report()).splitlines()
    assert any(r.startswith("  = fix: total_loss += loss.detach()  ") and r.endswith("[--fix]") for r in rows)
    assert any(
        r.startswith("  = fix: num_workers=min(8, len(os.sched_getaffinity(0)) // local_world_size), which")
        for r in rows
    )
    two = Finding.from_plain(sample.ACCUMULATED.plain())
    assert two.fix is not None
    two.fix.edits = [Edit(13, 9, 13, 9, "("), Edit(13, 27, 13, 27, ")")]
    assert "fix: (total_loss += loss)" in render("full", sample.report([two]))
    two.fix.edits = [Edit(12, 1, 12, 1, "# first"), Edit(13, 27, 13, 27, ".detach()")]
    assert "fix: detach what is added" in render("full", sample.report([two]))


def test_colour_changes_no_word() -> None:
    colourless = re.sub(r"\x1b\[[0-9;]*m", "", render("full", sample.report(color=True)))
    assert colourless == render("full", sample.report())


def test_unknown_format_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="unknown output format tap") as caught:
        render("tap", sample.report())
    assert "sarif" in str(caught.value.hint)


def test_finding_without_a_rule_speaks_for_itself() -> None:
    rule = sample.report().rule(sample.SYNTAX)
    assert isinstance(rule, RuleInfo)
    assert (rule.code, rule.family, rule.severity) == ("TV003", "check", ERROR)
