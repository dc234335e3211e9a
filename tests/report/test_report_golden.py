"""What each format prints for the sample project, word for word.

TORCHVET_UPDATE_GOLDEN=1 writes the files in tests/report/golden anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import report_sample as sample

from torchvet.report import FORMATS, render, step_summary

GOLDEN = Path(__file__).parent / "golden"
FOR_PEOPLE = ("full", "concise", "markdown", "html", "github", "summary")
CASES = [(f, "en") for f in (*FORMATS, "summary")] + [(f, "zh") for f in FOR_PEOPLE]


def compare(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("TORCHVET_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    assert file.is_file(), f"no golden file {name}; TORCHVET_UPDATE_GOLDEN=1 writes it"
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(("format", "language"), CASES)
def test_findings(format: str, language: str) -> None:
    report = sample.report(language=language)
    text = step_summary(report) if format == "summary" else render(format, report)
    assert text.endswith("\n")
    compare(f"{format}.{language}.txt", text)


@pytest.mark.parametrize("format", FORMATS)
def test_clean_run(format: str) -> None:
    compare(f"{format}.clean.txt", render(format, sample.report([], families={}, baselined=2, suppressed=1)))


def test_colour() -> None:
    compare("full.colour.txt", render("full", sample.report([sample.BARRIER, sample.ACCUMULATED], color=True)))


def test_plain_terminal() -> None:
    text = render("full", sample.report([sample.BARRIER, sample.ACCUMULATED], unicode=False))
    compare("full.ascii.txt", text)


def test_narrow_terminal() -> None:
    compare("full.narrow.txt", render("full", sample.report(width=60)))
