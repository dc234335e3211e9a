"""Readers of YAML, JSON, Dockerfiles and Makefiles: places, forms, and that any text is read."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.check.rules._index import INDEX
from torchvet.check.source.dockerfile import pairs, reaching, stages
from torchvet.check.source.makefile import Makefile
from torchvet.check.source.traced import CLOSE, OPEN
from torchvet.check.source.yaml_tree import LIST, MAP, Template, documents, json_document, traced


def plain(node):
    """A tree as PyYAML's base loader gives it: everything is text."""
    if node.kind == MAP:
        return {k: plain(v) for k, (_, v) in node.entries().items()}
    return [plain(x) for x in node.items] if node.kind == LIST else node.text


VALUES = st.recursive(
    st.text(alphabet="abc :#-{}[]'\"\n|>&*!%@`,é", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="abc_", min_size=1, max_size=4), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(VALUES, st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"', "|", ">"]))
def test_yaml_agrees_with_pyyaml(value, flow, style):
    text = yaml.safe_dump(value, default_flow_style=flow, default_style=style, allow_unicode=True)
    found, wrong = documents(text)
    assert wrong is None
    assert [plain(x) for x in found] == [yaml.load(text, Loader=yaml.BaseLoader)]


@settings(max_examples=150, deadline=None)
@given(VALUES, st.sampled_from([None, 2]))
def test_json_agrees_with_json(value, indent):
    text = json.dumps(value, indent=indent)
    found, wrong = json_document(text)
    assert wrong is None and [plain(x) for x in found] == [value]


def test_json_with_comments():
    text = '{ // a\n "u": "http://x", /* b\n */ "l": [1, true,],\n}'
    (found,), wrong = json_document(text)
    assert wrong is None and plain(found) == {"u": "http://x", "l": ["1", "true"]}
    assert text[found.get("l").start :].startswith("[1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: |\n  one two\n  three\n", ["one", "two", "three"]),
        ("a: >-\n  one two\n\n  three\n", ["one", "two", "three"]),
        ('a: "one\\ttwo"\n', ["one\ttwo"]),
        ("a: 'it''s one'\n", ["one"]),
        ("a: one\n  two # three\n", ["one", "two"]),
        ("a: &x one\nb: *x\n", ["one"]),
    ],
)
def test_words_of_scalars_lead_back(text, words):
    (document,), _ = documents(text)
    node = document.get("b") or document.get("a")
    found = traced(node, text)
    for word in words:
        at = found.offset(found.text.index(word))
        assert text[at : at + len(word)] == word or "\t" in word


def test_merge_keys():
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  c: 3\n"
    (document,), _ = documents(text)
    assert plain(document.get("z")) == {"a": "1", "b": "1", "c": "3"}


TEMPLATE = """\
{{- if .Values.on }}
a: {{ .Values.a | quote }}
{{- end }}
b: {c: {{ .Values.c }}}
d:
  {{- toYaml .Values.d | nindent 2 }}
e: "x-{{ .Values.e }}-y"
{{/* a
comment */}}
f: ${{ github.sha }}
"""


def test_templates_keep_their_places():
    template = Template(TEMPLATE)
    assert len(template.text) == len(TEMPLATE)
    (document,), wrong = documents(template.text)
    assert wrong is None
    assert list(document.entries()) == ["a", "b", "d", "e", "f"]
    assert document.string("e").startswith("x-" + OPEN) and document.string("e").endswith(CLOSE + "-y")
    assert document.string("f") == "${{ github.sha }}"
    assert sorted(template.actions.values()) == [".Values.a | quote", ".Values.c", ".Values.e"]
    assert [TEMPLATE.count("\n", 0, at) + 1 for at in template.inserts] == [6]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nENV A=1 B=\"2 3\" C='4'\n", {"A": "1", "B": "2 3", "C": "4"}),
        ("FROM a\nENV A 1 2\nenv B=3\n", {"A": "1 2", "B": "3"}),
        ("FROM a\nENV A=1 \\\n  # no\n\n  B=2\n", {"A": "1", "B": "2"}),
        ("# escape=`\nFROM a\nENV A=1 `\n B=2\n", {"A": "1", "B": "2"}),
        ("FROM a AS x\nENV A=1\nFROM x\nENV B=2\n", {"A": "1", "B": "2"}),
        ("FROM a AS x\nENV A=1\nFROM b\nENV B=2\n", {"B": "2"}),
        ("FROM a\nRUN <<EOF\nENV A=1\nEOF\nENV B=2\n", {"B": "2"}),
        ("FROM a\nRUN <<A cat <<B\n1\nA\nENV X=1\nB\nENV Y=2\n", {"Y": "2"}),
        ("ENV A=1\n", {}),
    ],
)
def test_dockerfile(text, expected):
    found = [p for x in reaching(stages(text)) if x.name == "ENV" for p in pairs(x.body)]
    assert {name: value.text for name, value in found} == expected


def test_makefile():
    text = "A := \\\n  x \\\n  y\nB = $(A) $(C)\nC ?= z\nC ?= no\nA += w\n.PHONY: t\nt: ; @cmd $(B)\n\t-other ${C} $$X $(shell date) # $(B)\n"
    first, second = Makefile(text).recipes[-1].text.split("\n")[:2]
    assert first.split() == ["@cmd", "x", "y", "w", "z"]
    assert second.split()[:3] == ["other", "z", "$X"]


NAMES = ["compose.yaml", "job.yaml", "chart/templates/a.yaml", "Dockerfile", "Makefile", "run.sh", "taskdef.json", "a.tf",
         ".github/workflows/a.yml", ".devcontainer/devcontainer.json"]  # fmt: skip
PIECES = ["services:\n", "  a:\n", "    gpus: all\n", "    <<: *a\n", "    shm_size: 1\n", "    command: |\n", "      docker run --gpus all x\n",
          "kind: Pod\napiVersion: v1\n", "spec:\n", "  containers:\n", "  - name: x\n", "    image: &a x\n", "    resources: {limits: {nvidia.com/gpu: 1}}\n",
          "{{ if }}\n", "{{ .Values.x }}", "FROM x\n", "ENV A=1 \\\n", "RUN <<E\n", "E\n", "a: $(B)\n", "\tdocker run $(B) \\\n", "B = $(B) $(a)\n",
          "define B\n", "endef\n", "{\"containerDefinitions\": [", "{\"name\": 1, ", "]}", "\"runArgs\": [\"--gpus=all\"", "// x\n", "/* ", "*/",
          "srun torchrun \\\n", "#SBATCH --nodes=2\n", "export NCCL_DEBUG=INFO\n", "on: push\njobs:\n", "    steps:\n", "    - run: docker run --gpus all x\n",
          "---\n", "\t", "  ", "'", '"', "\\", "${X:-", "}", "$(", ")", "sharedMemorySize = 9\n", "\ue000", "é\n"]  # fmt: skip


@settings(max_examples=250, deadline=3000)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_file_is_read(name, pieces):
    """Every question has an answer, and every place lies in the file."""
    from torchvet.check.flow.deploy import Deploy
    from torchvet.check.program.program import Program
    from torchvet.check.source.walk import DEPLOYMENT

    text = "".join(pieces)
    program = Program("/nowhere", [], {name: text}.get)
    program.others = {name: DEPLOYMENT}
    deploy = Deploy(program)
    for code, _, asks in INDEX.values():
        if code.startswith("TV6"):
            question = deploy
            for part in asks[0].split(".")[1:]:
                question = getattr(question, part)
            for x in question():
                assert 0 < x.pos >> 44 <= text.count("\n") + 1
