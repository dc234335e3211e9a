"""Suppression comments: every form, what they cover, what is wrong with them."""

from __future__ import annotations

import pytest

from torchvet.check.config import Options
from torchvet.check.gate import fix
from torchvet.check.gate.suppress import apply
from torchvet.findings import Finding, Note, Span, Text


class Rule:
    def __init__(self, code):
        self.code = code


RULES = {
    "accumulated-graph": Rule("TV101"),
    "rank-guarded-collective": Rule("TV401"),
    "unused-suppression": Rule("TV001"),
    "bad-suppression": Rule("TV002"),
    "internal-error": Rule("TV009"),
}


def at(line, end=0, name="accumulated-graph", path="a.py", notes=()):
    places = [Note(Span(p, n), Text("here")) for p, n in notes]
    return Finding(
        RULES[name].code, name, "error", "certain", Span(path, line, 1, end or line, 2), Text("m"), notes=places
    )


def gate(text, *findings, path="a.py", only=None, **options):
    return apply([*findings], lambda p: text, Options(**options), files=[path], only=only, rules=RULES)


def suppressed(text, *findings, path="a.py", **options) -> bool:
    count = gate(text, *findings, path=path, **options)[1]
    assert count in (0, len(findings))
    return count == len(findings)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("total += loss  # torchvet: ignore[accumulated-graph] the sum is used\n", 1),
        ("total += loss  # torchvet: ignore[TV101]\n", 1),
        ("total += loss  # torchvet: ignore[tv101]\n", 1),
        ("total += loss  #torchvet:ignore[TV101]\n", 1),
        ("total += loss  # Torchvet: Ignore[TV101]\n".replace("T", "t", 1), 1),
        ("total += loss  # torchvet: ignore [ TV401 , TV101 ] both\n", 1),
        ("total += loss  # type: ignore # torchvet: ignore[TV101] why # noqa: E501\n", 1),
        ("total += loss  # noqa: TV101\n", 1),
        ("total += loss  # NOQA: TV101\n", 1),
        ("total += loss  # noqa: E501, TV101\n", 1),
        ("total += loss  # noqa: E501 TV101 the sum is used\n", 1),
        ("total += loss  # noqa:TV101,TV401\n", 1),
        ("# torchvet: ignore[TV101] why\ntotal += loss\n", 2),
        ("# torchvet: ignore[TV101] why\n\n# more words\ntotal += loss\n", 4),
        ("if x:\n    # torchvet: ignore[TV101] why\n    total += (\n        loss)\n", 4),
        ("x = 1\n# torchvet: file-ignore[TV101] generated\ny = 1\ntotal += loss\n", 4),
        ("total += loss\n# torchvet: file-ignore[accumulated-graph] generated", 1),
        ("call(  # torchvet: ignore[TV101] why\n    a,\n    b,\n)\n", 3),
        ("call(\n    a,\n    b,\n)  # torchvet: ignore[TV101] why\n", 2),
        ("call(\n    # torchvet: ignore[TV101] why\n    a,\n)\n", 3),
        ("call({\n    'a': [1],\n}, [\n    2,\n])  # torchvet: ignore[TV101] why\n", 4),
        ("x = '''\n'''  # torchvet: ignore[TV101] why\n", 2),
        ("total += loss  # torchvet: ignore[TV101] why\r\nx = 1\r\n", 1),
        ("\u2028 = 1\n".replace("\u2028", "a") + "total += loss  # torchvet: ignore[TV101]\f\n", 2),
        ("x = '\u2028'\ntotal += loss  # torchvet: ignore[TV101]\n", 2),
        ("total += loss  # torchvet: ignore[TV101] why\ndef broken(:\n", 1),
    ],
)
def test_what_a_comment_covers(text, line):
    assert suppressed(text, at(line))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("total += loss  # noqa\n", 1),
        ("total += loss  # noqa: E501\n", 1),
        ("total += loss  # torchvet: ignore[TV401]\n", 1),
        ("text = '# torchvet: ignore[TV101]'; total += loss\n", 1),
        ("text = '''\n# torchvet: ignore[TV101]\n'''\ntotal += loss\n", 4),
        ("total += loss  # torchvet: ignore[TV101]\ntotal += loss\n", 2),
        ("total += loss\nx = 1  # torchvet: ignore[TV101]\n", 1),
        ("# torchvet: ignore[TV101]\nx = 1\ntotal += loss\n", 3),
        ("call(\n    a,  # torchvet: ignore[TV101]\n    b,\n)\n", 3),
        ("call(\n    # torchvet: ignore[TV101]\n    a,\n    b,\n)\n", 4),
        ("# torchvet: ignore[TV101]\nfor x in y:\n    total += loss\n", 3),
        ("total += loss  # torchvet: ignore\n", 1),
        ("total += loss  # torchvet: ignore[]\n", 1),
        ("total += loss  # torchvet: ignore[TV101\n", 1),
    ],
)
def test_what_a_comment_does_not_cover(text, line):
    assert not suppressed(text, at(line))


def test_any_line_of_the_finding_or_of_a_related_place_in_the_file_will_do():
    text = "a\nb\nc  # torchvet: ignore[TV101] why\nd\n"
    assert suppressed(text, at(2, 4))
    assert not suppressed(text, at(4))
    assert suppressed(text, at(1, notes=[("a.py", 3)]))
    assert not suppressed(text, at(1, notes=[("b.py", 3)]))


def test_one_comment_may_cover_several_findings():
    assert suppressed("x  # torchvet: ignore[TV101, TV401] why\n", at(1), at(1, name="rank-guarded-collective"))


def test_what_went_wrong_in_torchvet_cannot_be_hidden():
    assert not suppressed("x  # torchvet: ignore[internal-error] why\n", at(1, name="internal-error"))


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("k.cu", "launch();  // torchvet: ignore[TV101] why\n", [1]),
        ("k.cpp", "/* torchvet: ignore[TV101] why */ launch();\n", [1]),
        ("k.cpp", "// torchvet: ignore[TV101] why\n\nlaunch();\n", [3]),
        ("k.h", "/*\n * torchvet: ignore[TV101] why\n */\nlaunch();\n", [4]),
        ("k.h", "// torchvet: file-ignore[TV101] why\na();\nb();\n", [2, 3]),
        ("Dockerfile", "# torchvet: ignore[TV101] why\nRUN x\n", [2]),
        ("job.sbatch", "srun x  # noqa: TV101\n", [1]),
        ("a.yaml", "shm: 64m  # torchvet: ignore[TV101] why\n", [1]),
        ("a.yaml", "name: don't  # torchvet: ignore[TV101] why\n", [1]),
    ],
)
def test_other_languages(path, text, lines):
    assert suppressed(text, *(at(n, path=path) for n in lines), path=path)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("k.cu", 'f("// torchvet: ignore[TV101]");\n', 1),
        ("k.cu", 'f("\\"// torchvet: ignore[TV101]");\n', 1),
        ("k.cu", 'R"(\n// torchvet: ignore[TV101]\n)"; x();\n', 3),
        ("run.sh", "echo 'a # torchvet: ignore[TV101]'\n", 1),
        ("run.sh", "echo a#torchvet: ignore[TV101]\n", 1),
    ],
)
def test_strings_of_other_languages_are_no_comments(path, text, line):
    assert not suppressed(text, at(line, path=path), path=path)


# --------------------------------------------------------------------------------------------------------------- unused
def said(text, *findings, **options) -> list[tuple[str, int, str]]:
    return [(f.name, f.span.line, str(f.message)) for f in gate(text, *findings, **options)[0]]


def test_unused_suppressions_are_reported():
    text = "x = 1  # torchvet: ignore[TV101, TV401] why\ny = 1  # noqa: E501,TV401\n"
    assert said(text, at(1)) == [
        ("unused-suppression", 1, "nothing to suppress here: TV401"),
        ("unused-suppression", 2, "nothing to suppress here: TV401"),
    ]
    assert said(text, at(1), unused_suppressions=False) == []


def test_rules_that_did_not_run_leave_nothing_unused():
    text = "x = 1  # torchvet: ignore[TV101] why\n"
    assert said(text, only={"rank-guarded-collective"}) == []
    assert len(said(text, only={"accumulated-graph"})) == 1


def test_a_file_without_findings_is_looked_at_too():
    assert len(said("# torchvet: file-ignore[TV101] why\n")) == 1


def test_unused_suppressions_can_be_suppressed():
    assert said("# torchvet: file-ignore[unused-suppression] kept on purpose\nx  # torchvet: ignore[TV101]\n") == []
    assert said("x  # torchvet: ignore[TV101, unused-suppression] flaky\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # torchvet: ignore[TV101] why\n", "x = 1\n"),
        ("x = 1  # noqa: TV101\n", "x = 1\n"),
        ("# torchvet: ignore[TV101] why\nx = 1\n", "x = 1\n"),
        ("x = 1\n    # torchvet: file-ignore[TV101]", "x = 1\n"),
        ("x = 1  # type: ignore  # torchvet: ignore[TV101] why\n", None),
        ("x = 1  # torchvet: ignore[TV101] why  # type: ignore\n", None),
        ("x = 1  # noqa: E501, TV101\n", None),
        ("x = 1  # noqa: TV101 because of this\n", None),
    ],
)
def test_the_fix_takes_a_comment_away_that_says_nothing_else(before, after):
    (finding,) = gate(before)[0]
    if after is None:
        assert finding.fix is None
    else:
        assert fix.Source.of("a.py", before.encode()).fixed([finding])[0].decode() == after


# ------------------------------------------------------------------------------------------------------------------ bad
@pytest.mark.parametrize(
    ("comment", "message", "help"),
    [
        ("# torchvet: ignore", "ignore names no rule and suppresses nothing", "write # torchvet: ignore[rule-name]"),
        ("# torchvet: ignore because", "ignore names no rule and suppresses nothing", "write # torchvet: ignore[rule-name]"),
        ("# torchvet: ignore[ ]", "ignore names no rule and suppresses nothing", "write # torchvet: ignore[rule-name]"),
        ("# torchvet: file-ignore", "file-ignore names no rule and suppresses nothing",
         "write # torchvet: file-ignore[rule-name]"),
        ("# torchvet: ignroe[TV101]", "torchvet: ignroe is no instruction", "write # torchvet: ignore[rule-name]"),
        ("# torchvet: ignore-file[TV101]", "torchvet: ignore-file is no instruction",
         "write # torchvet: file-ignore[rule-name]"),
        ("# torchvet: ignore[acumulated-graph]", "no rule is called acumulated-graph", "did you mean accumulated-graph?"),
        ("# noqa: TV999", "no rule is called TV999", "did you mean"),
        ("# torchvet: ignore[qqqqqqq]", "no rule is called qqqqqqq", "torchvet rules lists all rules"),
    ],
)  # fmt: skip
def test_bad_suppressions(comment, message, help):
    (finding,) = gate(f"x = 1  {comment}\n")[0]
    assert (finding.name, finding.code, finding.severity) == ("bad-suppression", "TV002", "error")
    assert str(finding.message) == message
    assert str(finding.help).startswith(help)
    assert finding.message.render("zh") != message
    assert finding.span.column == 10


@pytest.mark.parametrize(
    "prose", ["# torchvet: see the docs", "# checked by torchvet: yes", "# noqa: E501", "# noqa TV101"]
)
def test_prose_is_no_suppression(prose):
    assert gate(f"x = 1  {prose}\n")[0] == []


def test_reasons_can_be_required():
    for comment in ("# torchvet: ignore[TV101]", "# torchvet: ignore[TV101] -", "# noqa: TV101"):
        kept, count = gate(f"x = 1  {comment}\n", at(1), require_reason=True)
        assert [(f.name, str(f.message)) for f in kept] == [("bad-suppression", "the suppression gives no reason")]
        assert count == 1
    for comment in ("# torchvet: ignore[TV101] why", "# torchvet: ignore[TV101]: 原因", "# noqa: TV101 why"):
        assert gate(f"x = 1  {comment}\n", at(1), require_reason=True) == ([], 1)


def test_a_file_that_cannot_be_read_keeps_its_findings():
    def unreadable(path):
        raise OSError(path)

    kept, count = apply([at(1)], unreadable, Options(), rules=RULES)
    assert (len(kept), count) == (1, 0)


def test_no_rule_is_loaded_where_nobody_suppresses():
    assert apply([at(1)], lambda p: "x = 1\n", Options(), rules=None)[1] == 0
