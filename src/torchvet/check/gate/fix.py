"""Repairs: edits of findings applied to files, checked, and repeated until nothing is left to do.

A file keeps its newlines, encoding and byte order mark. Fixes that overlap wait for the next pass. A repaired Python
file must compile; a fix after which it would not is left out and named.
"""

from __future__ import annotations

import os
import re

from torchvet.findings import Edit, Finding, Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PASSES = 10
"""More means that two fixes undo each other."""


class Repaired:
    """What was done: `before` and `after` are bytes by path (as in the findings), `rules` counts fixes by rule name,
    `failed` are (path, reason) of fixes that were left out, `settled` is False when the passes ran out."""

    def __init__(self) -> None:
        self.before: dict[str, bytes] = {}
        self.after: dict[str, bytes] = {}
        self.rules: dict[str, int] = {}
        self.failed: list[tuple[str, object]] = []
        self.settled = True

    @property
    def count(self) -> int:
        return sum(self.rules.values())


def repair(
    find: Callable[[], Sequence[Finding]],
    read: Callable[[str], bytes],
    write: Callable[[str, bytes], None] | None,
    analysed: Callable[[str], str] | None = None,
    *,
    unsafe: bool = False,
) -> Repaired:
    """Fix what `find()` finds, look again, until no fix is left. `read` and `write` take the findings' paths; without
    `write` nothing is written and one pass is all that can be planned. `analysed(path)` is the text that `find` has
    seen: a file that has changed since then is left alone."""
    done = Repaired()
    refused: set[tuple[str, str]] = set()
    for _ in range(PASSES):
        todo: dict[str, list[Finding]] = {}
        for f in find():
            if f.fix and (unsafe or f.fix.safe) and (f.span.path, f.fingerprint) not in refused:
                todo.setdefault(f.span.path, []).append(f)
        progress = False
        for path in sorted(todo):
            try:
                data = read(path)
            except OSError as error:
                _refuse(done, refused, path, todo[path], Text(error.strerror or "cannot be read"))
                continue
            source = Source.of(path, data)
            if source is None or (analysed is not None and not source.is_what_was_seen(analysed(path))):
                why = Text("the file has changed meanwhile, or its encoding is unclear", "文件已被修改，或编码不明")
                _refuse(done, refused, path, todo[path], why)
                continue
            new, applied, broken = source.fixed(todo[path])
            if broken:
                why = Text("the fix would break the syntax", "修复后语法会出错")
                _refuse(done, refused, path, broken, why)
            if new != data:
                try:
                    if write is not None:
                        write(path, new)
                except UserError as error:  # a read-only file: the others can be repaired
                    _refuse(done, refused, path, todo[path], error.message)
                    continue
                done.before.setdefault(path, data)
                done.after[path] = new
                for f in applied:
                    done.rules[f.name] = done.rules.get(f.name, 0) + 1
                progress = True
        if not progress or write is None:
            return done
    done.settled = False
    return done


def _refuse(done: Repaired, refused: set[tuple[str, str]], path: str, findings: Iterable[Finding], why: object) -> None:
    for f in findings:
        refused.add((path, f.fingerprint))
    if (path, why) not in done.failed:
        done.failed.append((path, why))


class Source:
    """The bytes of a file as text that edits can count in, and the way back."""

    def __init__(self, path: str, data: bytes, text: str, encoding: str) -> None:
        self.path = path
        self.data = data
        self.text = text
        self.encoding = encoding
        self.starts = [0, *(m.end() for m in re.finditer(r"\r\n|\r|\n", text))]
        newline = re.search(r"\r\n|\r|\n", text)
        self.newline = newline[0] if newline else "\n"

    @classmethod
    def of(cls, path: str, data: bytes) -> Source | None:
        """None when the bytes do not survive the way to text and back, and for notebooks."""
        if path.endswith(".ipynb"):
            return None
        encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
        try:
            if path.endswith((".py", ".pyi", ".pyw")):
                from torchvet.check.source.text import encoding as declared

                encoding = declared(data)
            text = data.decode(encoding)
            if text.encode(encoding) != data:
                return None
        except (SyntaxError, UnicodeError, LookupError):
            return None
        return cls(path, data, text, encoding)

    def is_what_was_seen(self, text: str) -> bool:
        def plain(t: str) -> str:
            return t.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")

        return plain(text) == plain(self.text)

    def fixed(self, findings: Sequence[Finding]) -> tuple[bytes, list[Finding], list[Finding]]:
        """(new bytes, findings whose fixes are in it, findings whose fixes would break the file). Fixes that overlap
        an earlier one are in neither list."""
        accepted, invalid = self._compatible(findings)
        new = self._applied(accepted)
        if not accepted or self._sound(new):
            return new if accepted else self.data, accepted, invalid
        good: list[Finding] = []
        for f in accepted:  # one of them does harm: find out which
            if self._sound(self._applied([*good, f])):
                good.append(f)
            else:
                invalid.append(f)
        return self._applied(good) if good else self.data, good, invalid

    def _compatible(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        accepted: list[Finding] = []
        invalid: list[Finding] = []
        taken: dict[tuple[int, int, str], None] = {}
        for f in sorted(findings, key=Finding.sort_key):
            assert f.fix is not None
            rows = [self._row(e) for e in f.fix.edits]
            wanted = [r for r in rows if r]
            if not rows or len(wanted) < len(rows) or _cross(wanted):
                invalid.append(f)
                continue
            new = [r for r in wanted if r not in taken]
            if not any(_collide(a, b) for a in taken for b in new):
                taken.update(dict.fromkeys(new))
                accepted.append(f)
        return accepted, invalid

    def _row(self, e: Edit) -> tuple[int, int, str] | None:
        """(start, end, text) in characters of the file; None for a place that the file does not have."""
        start, end = self._offset(e.line, e.column), self._offset(e.end_line, e.end_column)
        if start is None or end is None or start > end:
            return None
        text = e.text if self.newline == "\n" else e.text.replace("\r\n", "\n").replace("\n", self.newline)
        return start, end, text

    def _offset(self, line: int, column: int) -> int | None:
        if line == len(self.starts) + 1 and column == 1:  # the end of a last line without newline
            return len(self.text)
        if not 0 < line <= len(self.starts) or column < 1:
            return None
        offset = self.starts[line - 1] + column - 1
        limit = self.starts[line] if line < len(self.starts) else len(self.text)
        return offset if offset <= limit else None

    def _applied(self, findings: Sequence[Finding]) -> bytes:
        rows = dict.fromkeys(r for f in findings if f.fix for e in f.fix.edits if (r := self._row(e)))
        out, at = [], 0
        for start, end, text in sorted(rows, key=_place):
            out += [self.text[at:start], text]
            at = end
        text = "".join(out) + self.text[at:]
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:  # a character that the file's encoding lacks
            return b"\0"

    def _sound(self, data: bytes) -> bool:
        if not self.path.endswith((".py", ".pyi", ".pyw")):
            return data != b"\0"
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compile(data, self.path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return False
        return True


def _place(row: tuple[int, int, str]) -> tuple[int, int]:
    return row[:2]


def _cross(rows: Iterable[tuple[int, int, str]]) -> bool:
    """Whether edits of one fix share a character. They may meet: they apply in their own order."""
    last = 0
    for start, end, _ in sorted(rows, key=_place):
        if start < last:
            return True
        last = end
    return False


def _collide(a: tuple[int, int, str], b: tuple[int, int, str]) -> bool:
    """Whether edits of two fixes share a character, or meet where one inserts: their order would be chance."""
    (first, end, _), (second, second_end, _) = sorted((a, b), key=_place)
    return second < end or (second == end and (first == end or second == second_end))


def unified_diff(path: str, before: bytes, after: bytes) -> str:
    """The change of one file as a diff that `git apply` reads."""
    from difflib import unified_diff as diff

    def lines(data: bytes) -> list[str]:
        source = Source.of(path, data)
        text = source.text if source else data.decode("utf-8", "replace")
        return [line for line in re.split(r"(?<=\n)", text) if line]

    out = []
    for line in diff(lines(before), lines(after), "a/" + path, "b/" + path):
        out.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(out)


def read_file(root: str) -> Callable[[str], bytes]:
    """Reads files by the paths of findings."""

    def read(path: str) -> bytes:
        with open(os.path.join(root, path), "rb") as f:
            return f.read()

    return read


def write_file(root: str) -> Callable[[str, bytes], None]:
    """Writes files by the paths of findings, whole or not at all."""
    from .files import replace_file

    def write(path: str, data: bytes) -> None:
        replace_file(os.path.join(root, path), data)

    return write
