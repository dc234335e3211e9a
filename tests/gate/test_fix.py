"""Repairs: bytes are preserved, overlaps wait, broken results are refused, passes end."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.check.gate import fix
from torchvet.check.gate.files import replace_file
from torchvet.findings import Edit, Finding, Fix, Span, Text, UserError, fingerprints


def finding(*edits: tuple[int, int, int, int, str], path="a.py", safe=True, name="rule") -> Finding:
    line, column = edits[0][:2] if edits else (1, 1)
    made = Fix(Text("t"), [Edit(*e) for e in edits], safe)
    return Finding("TV101", name, "error", "likely", Span(path, line, column), Text("m"), fix=made)


def fixed(data: bytes, *findings: Finding, path="a.py") -> bytes:
    return fix.Source.of(path, data).fixed(list(findings))[0]


def insert(line, column, text):
    return finding((line, column, line, column, text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb += l\nc\n", b"a\nb += l.d()\nc\n"),
        (b"a\r\nb += l\r\nc\r\n", b"a\r\nb += l.d()\r\nc\r\n"),
        (b"a\rb += l\rc\r", b"a\rb += l.d()\rc\r"),
        (b"a\r\nb += l\nc", b"a\r\nb += l.d()\nc"),
        (b"\xef\xbb\xbfa\nb += l\n", b"\xef\xbb\xbfa\nb += l.d()\n"),
        (b"# coding: latin-1 \xe9\nb += l\n", b"# coding: latin-1 \xe9\nb += l.d()\n"),
        ("# ü 中文\nb += l\n".encode(), "# ü 中文\nb += l.d()\n".encode()),
        (b"a\x0c\nb += l\n", b"a\x0c\nb += l.d()\n"),
        ("a = '\u2028'\nb += l".encode(), "a = '\u2028'\nb += l.d()".encode()),
    ],
)
def test_bytes_around_an_edit_stay(before, after):
    assert fixed(before, insert(2, 7, ".d()")) == after


def test_columns_count_characters():
    assert (
        fixed("中文 += l; x = '😀'; y += l\n".encode(), insert(1, 24, "")) == "中文 += l; x = '😀'; y += l\n".encode()
    )
    assert fixed("中 += l\n".encode(), insert(1, 7, "2")) == "中 += l2\n".encode()


def test_inserted_lines_take_the_newline_of_the_file():
    assert fixed(b"a\r\nb\r\n", insert(2, 1, "with c:\n    ")) == b"a\r\nwith c:\r\n    b\r\n"


def test_edits_that_overlap_wait():
    source = fix.Source.of("a.py", b"abcdef\n")
    first, second = finding((1, 1, 1, 4, "x")), finding((1, 3, 1, 5, "y"))
    assert source.fixed([second, first]) == (b"xdef\n", [first], [])


def test_edits_that_touch_wait_when_one_inserts():
    source = fix.Source.of("a.py", b"abcdef\n")
    new, applied, broken = source.fixed([finding((1, 1, 1, 4, "x")), insert(1, 4, "y")])
    assert (new, len(applied), broken) == (b"xdef\n", 1, [])
    new, applied, _ = source.fixed([insert(1, 4, "y"), insert(1, 4, "z")])
    assert (new, len(applied)) == (b"abcydef\n", 1)


def test_the_same_edit_of_two_findings_is_made_once():
    new, applied, _ = fix.Source.of("a.py", b"abc\n").fixed([insert(1, 4, "x"), insert(1, 4, "x")])
    assert (new, len(applied)) == (b"abcx\n", 2)


def test_the_edits_of_one_fix_may_meet():
    assert fixed(b"a + b\n", finding((1, 1, 1, 1, "("), (1, 6, 1, 6, ")"), (1, 6, 1, 6, ".d()"))) == b"(a + b).d()\n"
    assert fixed(b"abc\n", finding((1, 1, 1, 3, "x"), (1, 3, 1, 3, "y"))) == b"xyc\n"


def test_a_fix_that_would_break_the_file_is_refused_and_the_others_are_made():
    source = fix.Source.of("a.py", b"a = 1\nb = 2\n")
    bad, good = finding((1, 5, 1, 6, "(")), finding((2, 5, 2, 6, "3"))
    assert source.fixed([bad, good]) == (b"a = 1\nb = 3\n", [good], [bad])


@pytest.mark.parametrize(
    "edit", [(9, 1, 9, 1, "x"), (1, 99, 1, 99, "x"), (1, 0, 1, 1, "x"), (1, 3, 1, 1, "x"), (0, 1, 1, 1, "x")]
)
def test_a_place_that_the_file_does_not_have(edit):
    wrong = finding(edit)
    assert fix.Source.of("a.py", b"a = 1\n").fixed([wrong]) == (b"a = 1\n", [], [wrong])


def test_a_character_that_the_encoding_lacks():
    data = b"# coding: latin-1\na = 1\n"
    wrong = insert(2, 6, "  # 中")
    assert fix.Source.of("a.py", data).fixed([wrong]) == (data, [], [wrong])


@pytest.mark.parametrize("data", [b"# coding: nonsense\n", b"\xff\xfe\n"])
def test_bytes_that_do_not_decode_are_left_alone(data):
    assert fix.Source.of("a.py", data) is None


def test_notebooks_are_not_fixed():
    assert fix.Source.of("a.ipynb", b"{}") is None


def test_other_languages_are_not_compiled():
    assert fixed(b"int a(\n", insert(1, 7, ")"), path="k.cu") == b"int a()\n"


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60),
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(0, 5), st.text("ab\n", max_size=3)), max_size=6
    ),
)
def test_whatever_the_edits_only_their_places_change(text, rows):
    """Kept characters of the file appear in the result in their order, and nothing raises."""
    data = text.encode()
    source = fix.Source.of("k.cu", data)
    if source is None:
        return
    findings = [finding((line, column, line, column + length, new), path="k.cu") for line, column, length, new in rows]
    result, applied, broken = source.fixed(findings)
    assert len(applied) + len(broken) <= len(findings)
    spans = {source._row(e) for f in applied for e in f.fix.edits}
    kept, at = [], 0
    for start, end, _ in sorted(spans):
        kept.append(source.text[at:start])
        at = max(at, end)
    kept.append(source.text[at:])
    position, after = 0, result.decode(source.encoding)
    for part in kept:
        position = after.index(part, position) + len(part)


# ------------------------------------------------------------------------------------------------------------- the loop
class Disk:
    """Files in memory and a finder that is asked anew on each pass."""

    def __init__(self, text: str, find):
        self.files = {"a.py": text.encode()}
        self.find_in = find
        self.passes = 0

    def find(self):
        self.passes += 1
        found = self.find_in(self.files["a.py"].decode())
        fingerprints(found)
        return found

    def repair(self, **options):
        return fix.repair(self.find, self.files.__getitem__, self.files.__setitem__, **options)


def test_passes_go_on_until_nothing_is_left():
    def find(text):  # two fixes that overlap: the second is possible after the first only
        at = text.find("aa")
        return [finding((1, at + 1, 1, at + 3, "a")), finding((1, at + 2, 1, at + 3, ""))] if at >= 0 else []

    disk = Disk("aaaaaa = 1\n", find)
    done = disk.repair()
    assert disk.files["a.py"] == b"a = 1\n"
    assert (done.settled, done.rules, done.before["a.py"]) == (True, {"rule": 5}, b"aaaaaa = 1\n")


def test_fixes_that_undo_each_other_end():
    def find(text):
        return [finding((1, 1, 1, 2, "b" if text[0] == "a" else "a"))]

    disk = Disk("a = 1\n", find)
    assert disk.repair().settled is False
    assert disk.passes == fix.PASSES


def test_unsafe_fixes_need_to_be_asked_for():
    def find(text):
        return [finding((1, 1, 1, 2, "b"), safe=False)] if text[0] == "a" else []

    disk = Disk("a = 1\n", find)
    assert disk.repair().count == 0
    assert disk.repair(unsafe=True).count == 1


def test_a_fix_that_breaks_the_file_is_tried_once_and_named():
    def find(text):
        return [finding((1, 5, 1, 6, "(")), *([finding((1, 1, 1, 2, "b"))] if text[0] == "a" else [])]

    disk = Disk("a = 1\n", find)
    done = disk.repair()
    assert disk.files["a.py"] == b"b = 1\n"
    assert [(path, str(why)) for path, why in done.failed] == [("a.py", "the fix would break the syntax")]


def test_a_file_that_changed_since_it_was_analysed_is_left_alone():
    disk = Disk("a = 1\n", lambda text: [finding((1, 1, 1, 2, "b"))])
    done = disk.repair(analysed=lambda path: "z = 1\n")
    assert disk.files["a.py"] == b"a = 1\n"
    assert "changed meanwhile" in str(done.failed[0][1])


def test_a_file_that_cannot_be_written_does_not_stop_the_others():
    def find():
        found = [finding((1, 1, 1, 2, "b"), path=p) for p in ("a.py", "c.py") if files[p] == b"a = 1\n"]
        fingerprints(found)
        return found

    def write(path, data):
        if path == "a.py":
            raise UserError("cannot write a.py: Permission denied")
        files[path] = data

    files = {"a.py": b"a = 1\n", "c.py": b"a = 1\n"}
    done = fix.repair(find, files.__getitem__, write)
    assert files == {"a.py": b"a = 1\n", "c.py": b"b = 1\n"}
    assert done.failed == [("a.py", "cannot write a.py: Permission denied")]
    assert done.settled


def test_newlines_do_not_make_a_file_look_changed():
    assert fix.Source.of("a.py", b"\xef\xbb\xbfa\r\nb\r\n").is_what_was_seen("a\nb\n")


def test_a_diff_without_newline_at_the_end():
    assert fix.unified_diff("a.py", b"a", b"b") == (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )


# ---------------------------------------------------------------------------------------------------------------- files
def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o754)
    replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.py").write_bytes(b"old")
    os.symlink("real.py", tmp_path / "link.py")
    replace_file(str(tmp_path / "link.py"), b"new")
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").read_bytes() == b"new"


def test_an_interruption_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_respected(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(UserError, match="Permission denied"):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]


def test_what_cannot_be_written_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        replace_file(str(tmp_path / "none" / "a.py"), b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        replace_file(str(tmp_path / "folder"), b"x")
