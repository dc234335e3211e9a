"""Reading diffs, and which findings touch them."""

from __future__ import annotations

import pytest

from torchvet.check.gate.changed import concerning, parse_diff, touching
from torchvet.findings import Finding, Note, Span, Text


def finding(line, path="a.py", end=0, notes=(), name="accumulated-graph", raw_line=0) -> Finding:
    places = [Note(Span(p, n), Text("here")) for p, n in notes]
    span = Span(path, line, 1, end or line, 2)
    return Finding(
        "TV101", name, "error", "likely", span, Text("m"), notes=places, raw_line=raw_line, cell=bool(raw_line)
    )


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        (b"", {}),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n", {"a.py": [(1, 1)]}),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +3,4 @@ def f():\n-a\n-b\n+a\n+b\n+c\n+d\n", {"a.py": [(3, 6)]}),
        (b"--- a/a.py\n+++ b/a.py\n@@ -5,2 +4,0 @@\n-a\n-b\n@@ -9 +7 @@\n-x\n+y\n", {"a.py": [(4, 5), (7, 7)]}),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1 +0,0 @@\n-a\n", {"a.py": [(1, 1)]}),
        (b"--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", {}),
        (b"--- /dev/null\n+++ b/a b.py\t\n@@ -0,0 +1,2 @@\n+a\n+b\n", {"a b.py": [(1, 2)]}),
        (b'--- a/x\n+++ "b/t\\303\\251\\t\\"x.py"\n@@ -1 +1 @@\n-a\n+b\n', {'té\t"x.py': [(1, 1)]}),
        # lines of the files that look like headers
        (b"--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n--- b/x.py\n+++ b/y.py\n+@@ -1 +1 @@\n", {"a.py": [(1, 2)]}),
        (b"diff --git a/a.bin b/a.bin\nBinary files a/a.bin and b/a.bin differ\n", {}),
    ],
)
def test_diffs(diff, expected):
    assert parse_diff(diff) == expected


CHANGED = {"a.py": [(4, 6), (9, 9)], "nb.ipynb": [(20, 20)]}


def touched(f, tmp_path) -> bool:
    return bool(touching([f], {str(tmp_path / k): v for k, v in CHANGED.items()}, str(tmp_path)))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (finding(3), False),
        (finding(4), True),
        (finding(6), True),
        (finding(7), False),
        (finding(2, end=4), True),
        (finding(7, end=8), False),
        (finding(1, path="b.py"), False),
        (finding(1, path="b.py", notes=[("a.py", 9)]), True),
        (finding(1, path="b.py", notes=[("a.py", 8)]), False),
        (finding(1, path="b.py", name="internal-error"), True),
        (finding(1, name="syntax-error"), True),
        (finding(1, path="b.py", name="syntax-error"), False),
        (finding(2, path="nb.ipynb", raw_line=20), True),
        (finding(20, path="nb.ipynb", raw_line=200), False),
        (finding(2, path="b.py", notes=[("nb.ipynb:cell 3", 20)]), False),
    ],
)
def test_touching(f, expected, tmp_path):
    assert touched(f, tmp_path) == expected


def test_paths_through_a_link(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert touching([finding(4)], {str(real / "a.py"): [(4, 4)]}, str(tmp_path / "link"))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.py"], True),
        (["helper.py"], True),
        (["pkg"], True),
        (["pk"], False),
        (["nb.ipynb"], True),
        ([""], True),
        (["other.py"], False),
    ],
)
def test_concerning(paths, expected):
    f = finding(1, notes=[("helper.py", 1), ("pkg/x.py", 2), ("nb.ipynb:cell 2", 3)])
    assert bool(concerning([f], paths)) == expected
    assert concerning([finding(1, name="internal-error")], ["other.py"])
