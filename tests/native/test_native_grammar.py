"""The reader of native sources agrees with the grammar of tree-sitter wherever that grammar understands a source."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_native_paths import CLEAN, FAULTY

from torchvet.check.source.cpp import Unit, statements

tree_sitter = pytest.importorskip("tree_sitter")
grammar = pytest.importorskip("tree_sitter_cuda")
yaml = pytest.importorskip("yaml")
DATA = Path(__file__).resolve().parents[1] / "cases" / "data"


def sources() -> dict[str, str]:
    found = {**FAULTY, **CLEAN}
    for file in ("native.yaml", "native_clean.yaml"):
        for case in yaml.safe_load((DATA / file).read_text("utf-8")):
            if case["lang"] in ("cuda", "cpp"):
                for key in ("code", "fixed"):
                    if key in case:
                        found[f"{case['id']} {key}"] = case[key]
                for key in ("files", "fixed_files"):
                    for name, text in case.get(key, {}).items():
                        found[f"{case['id']} {key} {name}"] = text
    return found


SOURCES = sources()
PARSER = tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def walk(node):
    yield node
    for child in node.children:
        if node.type != "lambda_expression":
            yield from walk(child)


def bodies(text: str) -> set[tuple[int, int]] | None:
    """(begin, end) inside the braces of all functions; None where the grammar does not understand the text."""
    tree = PARSER.parse(text.encode())
    if tree.root_node.has_error:
        return None
    out = set()
    for node in walk(tree.root_node):
        if node.type == "function_definition":
            body = node.child_by_field_name("body")
            if body is not None:
                out.add((body.start_byte + 1, body.end_byte - 1))
    return out


@pytest.mark.parametrize("name", [n for n, t in SOURCES.items() if t.isascii()])
def test_same_functions(name):
    text = SOURCES[name]
    theirs = bodies(text)
    if theirs is None:
        pytest.skip("the grammar finds an error")
    unit = Unit("a.cu", text)
    assert not unit.broken
    mine = {f.body for f in unit.functions}
    assert mine == {b for b in theirs if not any(a < b[0] and b[1] < e for a, e in theirs)} or mine <= theirs
    assert len(theirs - mine) == sum("operator()" in text[b[0] - 60 : b[0]] or inner(b, theirs) for b in theirs - mine)
    for f in unit.functions:
        statements(f)


def inner(body: tuple[int, int], bodies: set[tuple[int, int]]) -> bool:
    return any(a < body[0] and body[1] < e for a, e in bodies)


def test_the_grammar_understands_most_of_them():
    assert sum(bodies(t) is not None for t in SOURCES.values() if t.isascii()) > 60
