"""The small YAML reader: what it gives is what PyYAML gives, or unknown."""

from __future__ import annotations

import pytest
import yaml

from torchvet.check.flow.settings_yaml import documents

UNKNOWN = "<unknown>"


def plain(node):
    kind = node[0]
    if kind == "map":
        return {k: plain(v) for k, v in node[2].items()}
    if kind == "list":
        return [plain(v) for v in node[2]]
    return node[2] if kind == "const" else UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: text\nc: 2.5\nd: true\ne: null\nf:\n",
        "a:\n  b:\n    c: -3\n  d: 'x: y'\ne: \"#no comment\"  # comment\n",
        "a:\n- 1\n- b: 2\n  c: 3\n-\n  d: 4\n",
        "- x\n- [1, 2]\n- {a: 1, b: two}\n- - 1\n  - 2\n",
        "---\na: 1\n---\nb: 2\n",
        "'quoted key': 1\nurl: http://host:80/x\n",
        "# only\n\na:   4   # four\n",
    ],
)
def test_same_as_pyyaml(text):
    assert [plain(d) for d in documents(text)] == [d for d in yaml.safe_load_all(text) if d is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x 1\nb: *x\n", {"a": UNKNOWN, "b": UNKNOWN}),
        ("a: |\n  several\n  lines: 1\nb: 2\n", {"a": UNKNOWN, "b": 2}),
        ("a: ${oc.env:HOME}\nb: !!int 3\nc: yes\n", {"a": UNKNOWN, "b": UNKNOWN, "c": UNKNOWN}),
        ("a: plain text\n  that goes on\nb: 1\n", {"a": UNKNOWN, "b": 1}),
        ("a: 1\na: 2\n", {"a": UNKNOWN}),
        ("a: 1\n b: 2\n", {"a": UNKNOWN}),
        ("a: 0755\nb: 1e3\nc: [1, {x: 2}]\n", {"a": UNKNOWN, "b": 1000.0, "c": UNKNOWN}),
    ],
)
def test_unknown_stays_unknown(text, expected):
    assert [plain(d) for d in documents(text)] == [expected]


@pytest.mark.parametrize("text", ["{{- if .Values.x }}\na: 1\n{{- end }}\n", "a: 1\nnot a pair\n", "\ta: 1\n"])
def test_unclear_form_gives_nothing(text):
    assert documents(text) == []


def test_positions_are_those_of_the_values():
    node = documents("a:\n  workers: 32  # many\n")[0][2]["a"][2]["workers"]
    line, column = node[1] >> 44, node[1] >> 32 & 0xFFF
    assert (node[2], line, column) == (32, 2, 11)
