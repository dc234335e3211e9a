"""Whatever bytes a native source holds: an answer, in time, and no crash."""

from __future__ import annotations

import contextlib
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_programs import findings
from test_native_paths import CLEAN, FAULTY

from torchvet.check.source.cpp import Unit, Unreadable, statements

SEEDS = [*FAULTY.values(), *CLEAN.values()]
PIECES = (
    "{", "}", "(", ")", "[", "]", "<", ">", "<<<", ">>>", ";", ",", ":", "::", '"', "'", "/*", "*/", "//", "\\\n", "\n",
    "#if X\n", "#else\n", "#endif\n", "#define M(a, b) a(b)\n", 'R"x(', ')x"', "if (", "else ", "for (", "do ", "switch (x) {",
    "case 1:", "return", "goto a;", "a:", "try {", "catch (...) {", "[&] {", "cudaMalloc(&p, n);", "cudaFree(p);", "delete[] p;",
    "= new float[3]", "template <", "class A : B {", "~A() {", "operator=", "M(", "static ", "\x00", "\x01", "\x02", "\x03", "é", "\ud800",
)  # fmt: skip


@st.composite
def mutated(draw):
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 40)))
        text = (
            text[:at] + draw(st.sampled_from(PIECES) | st.text(max_size=4)) + text[draw(st.sampled_from((at, end))) :]
        )
    return text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_unit_keeps_lengths_and_lines(text):
    unit = Unit("a.cu", text)
    assert len(unit.code) == len(text)
    assert [i for i, c in enumerate(unit.code) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]
    for function in unit.functions:
        begin, end = function.body
        assert 0 <= function.start <= function.at < begin <= end <= len(text)
        with contextlib.suppress(Unreadable):
            statements(function)


def test_lines_of_a_raw_string_that_never_ends():
    text = 'R"x(\nint f();\n'
    assert Unit("a.cu", text).code.count("\n") == 2


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_check_ends_without_an_internal_error(tmp_path_factory, text):
    os.environ.pop("TORCHVET_DEBUG", None)
    folder = tmp_path_factory.mktemp("fuzz")
    encoded = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    begun = time.monotonic()
    found = findings(folder, {"a.cu": encoded})
    assert not [f for f in found if f[3] == "internal-error"]
    assert time.monotonic() - begun < 20


HOSTILE = {
    "unclosed raw string": 'void f() { float *p; cudaMalloc(&p, 4); s = R"x(\n' + "x\n" * 1000,
    "deep braces": "void f() " + "{" * 5000 + "cudaMalloc(&p, 4);" + "}" * 5000,
    "deep brackets": "void f() { float *p; cudaMalloc(&p, " + "(" * 5000 + "4" + ")" * 5000 + "); }",
    "deep namespaces": "namespace a {" * 1500 + "void f() { float *p; cudaMalloc(&p, 4); }" + "}" * 1500,
    "an if chain": "void f(int x) { float *p; cudaMalloc(&p, 4); " + "if (x) {} else " * 3000 + "{} }",
    "a chain of conditions": "void f(int x) { float *p; cudaMalloc(&p, 4); " + "if (x) " * 3000 + "cudaFree(p); }",
    "macros that double": "".join(f"#define A{i} A{i - 1}, A{i - 1}\n" for i in range(1, 60))
    + "#define A0 cudaMalloc(&p, 4)\nvoid f() { float *p; A59; }\n",
    "a macro of itself": "#define A(x) A(x) A(x) cudaMalloc(&x, 4)\nvoid f() { float *p; A(p); }\n",
    "many variables": "void f() {\n" + "".join(f"float *p{i}; cudaMalloc(&p{i}, 4);\n" for i in range(3000)) + "}\n",
    "one long line": "void f() { float *p; cudaMalloc(&p, 4); x = " + "a + " * 50000 + "b; cudaFree(p); }",
    "unclosed string": 'void f() { float *p; cudaMalloc(&p, 4); s = "' + "x" * 100000,
    "unclosed comment": "void f() { float *p; cudaMalloc(&p, 4); }\n/*" + "* " * 100000,
    "functions that call each other": "".join(
        f"void f{i}(float *p) {{ f{(i * 7 + 1) % 400}(p); f{(i * 3 + 2) % 400}(p); }}\n" for i in range(400)
    )
    + "void g() { float *p; cudaMalloc(&p, 4); f1(p); }\n",
    "templates": "template <" * 3000 + "> void f() { float *p; cudaMalloc(&p, 4); }",
    "angles": "void f() { float *p; cudaMalloc(&p, 4); a" + "<b" * 20000 + "; }",
    "directives": "#if A\n#else\n" * 3000 + "void f() { cudaMalloc(&p, 4); }\n" + "#endif\n" * 3000,
    "nothing but semicolons": "cudaMalloc" + ";" * 300000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_sources_end_in_time(what, tmp_path):
    begun = time.process_time()
    found = findings(tmp_path, {"a.cu": HOSTILE[what]})
    assert not [f for f in found if f[3] == "internal-error"]
    assert time.process_time() - begun < 10
