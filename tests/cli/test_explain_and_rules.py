"""`torchvet explain` and `torchvet rules`."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    "word", ["rank-guarded-collective", "TV401", "tv401", "rank", "TV4", "Rank_Guarded_Collective"]
)
def test_explain_by_name_code_and_unique_beginning(fake, torchvet, word):
    outcome = torchvet("explain", word)
    assert outcome.code == 0
    assert outcome.out.startswith("# rank-guarded-collective (TV401)\n")


def test_explain_in_chinese_puts_the_chinese_section_first(fake, torchvet):
    english, chinese = torchvet("explain", "TV401").out, torchvet("explain", "TV401", "--lang", "zh").out
    assert chinese.index("## 中文") < chinese.index("## Why") < english.index("## 中文")
    assert sorted(chinese.split()) == sorted(english.split())
    assert chinese.startswith("# rank-guarded-collective (TV401)\n\n## 中文\n\n一句话。\n\nOne line.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "TV10"], "fits several rules (accumulated-graph, stored-graph)"),
        (["explain", "rank-gaurded-collective"], "did you mean rank-guarded-collective?"),
        (["explain", "TV409"], "did you mean TV4"),
        (["explain", "zzz"], "torchvet rules lists them"),
        (["explain"], "needs the name or code of a rule"),
        (["rules", "TV401"], "rules takes no names (torchvet explain TV401)"),
        (["rules", "--output-format", "xml"], "must be one of text, json, markdown"),
    ],
)
def test_wrong_use(fake, torchvet, words, said):
    outcome = torchvet(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_explain_as_json(fake, torchvet):
    row = json.loads(torchvet("explain", "TV101", "--output-format", "json").out)
    assert (row["code"], row["name"], row["severity"], row["fix"]) == ("TV101", "accumulated-graph", "error", "safe")
    assert row["page"].startswith("# accumulated-graph")
    assert len(json.loads(torchvet("explain", "TV101", "TV102", "--output-format", "json").out)) == 2


def test_the_table_of_rules(fake, torchvet):
    lines = torchvet("rules").out.splitlines()
    assert lines[0].split() == ["code", "name", "severity", "confidence", "fix", "summary"]
    assert len(lines) == 10
    row = next(line for line in lines if line.startswith("TV101"))
    assert row.split()[:5] == ["TV101", "accumulated-graph", "error", "likely", "safe"]
    assert "accumulated-graph 是什么" in torchvet("rules", "--lang", "zh").out


def test_rules_as_json_and_markdown(fake, torchvet):
    rows = json.loads(torchvet("rules", "--output-format", "json").out)
    assert [r["code"] for r in rows][-1] == "TV401"
    assert all(set(rows[0]) == set(r) for r in rows)
    text = torchvet("rules", "--output-format", "markdown").out
    assert "| TV101 | [accumulated-graph](https://" in text


def test_the_real_rules_can_be_listed_and_explained(torchvet):
    for row in json.loads(torchvet("rules", "--output-format", "json").out):
        assert torchvet("explain", row["code"]).out.startswith(f"# {row['name']}")


def test_probes_and_causes_have_pages_too(torchvet, monkeypatch):
    assert torchvet("explain", "clock-source").out.startswith("# clock-source\n")
    row = json.loads(torchvet("explain", "clock_source", "--output-format", "json").out)
    assert row["area"] == "cpu" and row["page"].startswith("# clock-source")
    assert torchvet("explain", "clock-s").out.startswith("# clock-source\n")
    assert "did you mean clock-source?" in torchvet("explain", "clock-sorce").err

    class Cause:
        name, kind, summary = "left-early", "made-up-kind", None

        def page(self):
            return "# left-early\n"

    monkeypatch.setattr("torchvet.diagnose.model.all_causes", lambda: {"left-early": Cause()})
    for word in ("left-early", "made-up-kind", "left-e"):
        assert torchvet("explain", word).out == "# left-early\n"
