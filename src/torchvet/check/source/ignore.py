"""Patterns of `.gitignore` files and of `exclude`: what they say about one path.

Most lines of real ignore files are a plain name, `*.ext` or a plain path; these become set look-ups, and only the rest
costs a regular expression (compiling one takes 0.1 ms, a typical file has a hundred lines).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

SPECIAL = frozenset("*?[\\")


class Patterns:
    """The patterns of one ignore file, for paths relative to the folder that holds it."""

    __slots__ = ("groups",)

    def __init__(self, lines: Iterable[str]) -> None:
        self.groups: list[Group] = []
        """Runs of patterns that are all negated or all not; the last run with a match decides."""
        for line in lines:
            found = pattern_of(line)
            if found is None:
                continue
            negated, directory, anchored, pattern = found
            if not self.groups or self.groups[-1].negated != negated:
                self.groups.append(Group(negated))
            self.groups[-1].add(pattern, directory, anchored)
        self.groups.reverse()

    def verdict(self, path: str, name: str, directory: bool) -> bool | None:
        """True: ignored; False: taken back by a `!` pattern; None: these patterns say nothing.

        `path` is relative to the folder of the ignore file, with `/`; `name` is its last part."""
        for group in self.groups:
            if group.matches(path, name, directory):
                return not group.negated
        return None


class Group:
    __slots__ = (
        "anchored", "compiled", "dir_anchored", "dir_names", "dir_sources", "dir_suffixes", "names", "negated",
        "sources", "suffixes",
    )  # fmt: skip

    def __init__(self, negated: bool) -> None:
        self.negated = negated
        self.names: set[str] = set()
        self.dir_names: set[str] = set()
        self.anchored: set[str] = set()
        self.dir_anchored: set[str] = set()
        self.suffixes: tuple[str, ...] = ()
        self.dir_suffixes: tuple[str, ...] = ()
        self.sources: list[str] = []
        self.dir_sources: list[str] = []
        self.compiled: dict[bool, re.Pattern[str]] = {}

    def add(self, pattern: str, directory: bool, anchored: bool) -> None:
        if not SPECIAL.intersection(pattern):
            if anchored:
                (self.dir_anchored if directory else self.anchored).add(pattern)
            else:
                (self.dir_names if directory else self.names).add(pattern)
        elif not anchored and pattern[0] == "*" and len(pattern) > 1 and not SPECIAL.intersection(pattern[1:]):
            if directory:
                self.dir_suffixes += (pattern[1:],)
            else:
                self.suffixes += (pattern[1:],)
        else:
            (self.dir_sources if directory else self.sources).append(
                translate(pattern, literal(pattern)) if anchored else "(?:.*/)?" + translate(pattern)
            )

    def matches(self, path: str, name: str, directory: bool) -> bool:
        if name in self.names or path in self.anchored or name.endswith(self.suffixes):
            return True
        if directory and (name in self.dir_names or path in self.dir_anchored or name.endswith(self.dir_suffixes)):
            return True
        if not self.sources and not (directory and self.dir_sources):
            return False
        regex = self.compiled.get(directory)
        if regex is None:
            import re

            sources = self.sources + self.dir_sources if directory else self.sources
            regex = self.compiled[directory] = re.compile("(?s:" + "|".join(sources) + r")\Z")
        return regex.match(path) is not None


def pattern_of(line: str) -> tuple[bool, bool, bool, str] | None:
    """(negated, directories only, anchored, pattern) of one line of an ignore file; None for blanks and comments."""
    line = line.rstrip("\r\n")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line[0] == "#":
        return None
    negated = line[0] == "!"
    if negated or line[:2] in ("\\!", "\\#"):
        line = line[1:]
    directory = line.endswith("/")
    if directory:
        line = line[:-1]
    anchored = "/" in line
    if line.startswith("/"):
        line = line[1:]
    if not line or (line.endswith("\\") and not line.endswith("\\\\")):
        return None  # git: a pattern that ends in a lone backslash never matches
    return negated, directory, anchored, line


def literal(pattern: str) -> int:
    """Characters before the first special one."""
    return next((i for i, c in enumerate(pattern) if c in SPECIAL), len(pattern))


def translate(pattern: str, begin: int = 0) -> str:
    """The regular expression of a glob as git reads it: `*` and `?` stay inside one folder, `**` crosses folders.

    `begin`: characters that git compares by themselves; to what follows them it is as if the pattern began there, so
    that in `/a**` the stars cross folders, too (dir.c, match_pathname)."""
    from re import escape

    out = []
    i, n = 0, len(pattern)
    while i < n:
        c = pattern[i]
        i += 1
        if c == "*":
            start = i - 1
            while i < n and pattern[i] == "*":
                i += 1
            first = start in (0, begin)
            if i - start >= 2 and (first or pattern[start - 1] == "/") and (i == n or pattern[i] == "/"):
                if i == n:
                    out.append(".*" if first else ".+")
                else:
                    i += 1
                    out.append("(?:.*/)?")
            else:
                out.append("[^/]*")
        elif c == "?":
            out.append("[^/]")
        elif c == "[":
            end, expression = bracket(pattern, i)
            if end < 0:
                return "(?!)"  # git: an unclosed bracket never matches
            i = end
            out.append(expression)
        elif c == "\\":
            if i < n:
                out.append(escape(pattern[i]))
                i += 1
        else:
            out.append(escape(c))
    return "".join(out)


CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


def bracket(pattern: str, i: int) -> tuple[int, str]:
    """(index after the bracket expression that starts before `i`, its regular expression); index -1 when unclosed."""
    n = len(pattern)
    negated = i < n and pattern[i] in "!^"
    if negated:
        i += 1
    items: list[str] = []
    first = True
    while True:
        if i >= n:
            return -1, ""
        c = pattern[i]
        if c == "]" and not first:
            break
        first = False
        if c == "[" and pattern.startswith("[:", i):
            end = pattern.find(":]", i + 2)
            if end >= 0:
                items.append(CLASSES.get(pattern[i + 2 : end], ""))
                if not items[-1]:
                    return -1, ""
                i = end + 2
                continue
        c, i = _char(pattern, i)
        if i + 1 < n and pattern[i] == "-" and pattern[i + 1] != "]":
            last, i = _char(pattern, i + 1)
            if c <= last:
                items.append(f"\\U{ord(c):08x}-\\U{ord(last):08x}")
        elif c:
            items.append(f"\\U{ord(c):08x}")
    inside = "".join(items)
    if negated:
        return i + 1, f"[^/{inside}]"
    return i + 1, f"(?!/)[{inside}]" if inside else "(?!)"


def _char(pattern: str, i: int) -> tuple[str, int]:
    if pattern[i] == "\\" and i + 1 < len(pattern):
        return pattern[i + 1], i + 2
    return pattern[i], i + 1
