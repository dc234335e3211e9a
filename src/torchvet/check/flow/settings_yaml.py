"""A small reader for the YAML that people write by hand: block mappings and lists, plain and quoted scalars, flow
collections on one line, each with its position. What it does not know (aliases, tags, block scalars, interpolations)
becomes an unknown value; where the form of a document is not understood, the document is left out.

Nodes: ("map", pos, {key: node}, {key: pos of the key}), ("list", pos, [node]), ("const", pos, value), ("unknown", pos).
A position is that of a value in the file, packed as everywhere (`check.program.model.pack`).
"""

from __future__ import annotations

from ..program.model import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Node = tuple[Any, ...]
    Line = tuple[int, str, int]  # indentation, content without comment, number

MOST = 200_000
"""A file of more characters is data, not settings."""
DEEP = 40
LEVELS = {"true": True, "True": True, "false": False, "False": False, "null": None, "~": None, "Null": None, "": None}


class Unclear(Exception):
    """The form of a document is not understood."""


def documents(text: str) -> list[Node]:
    """The documents of a file, as far as they are understood."""
    out: list[Node] = []
    if len(text) > MOST:
        return out
    current: list[Line] = []
    for number, raw in enumerate([*text.split("\n"), "---"], 1):
        if raw.startswith(("---", "...")):
            if current:
                try:
                    node, end = block(current, 0, 0)
                    if end == len(current):
                        out.append(node)
                except Unclear:
                    pass
            current = []
            continue
        content = without_comment(raw).rstrip()
        body = content.lstrip(" ")
        if body:
            current.append((len(content) - len(body), body, number))
    return out


def without_comment(line: str) -> str:
    if "#" not in line:
        return line
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'" and (i == 0 or line[i - 1] in " :[{,-"):
            quote = c
        elif c == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i]
    return line


def block(lines: list[Line], at: int, depth: int) -> tuple[Node, int]:
    """The node that begins at a line, and the line after it."""
    indent, body, number = lines[at]
    if depth > DEEP or body[0] == "\t" or body.startswith(("{{", "%", "? ")):
        raise Unclear
    if body == "-" or body.startswith("- "):
        return sequence(lines, at, depth)
    if split_key(body) is None:
        end = after(lines, at, indent)
        return (scalar(body, number, indent) if end == at + 1 else ("unknown", place(number, indent, body))), end
    return mapping(lines, at, depth)


def mapping(lines: list[Line], at: int, depth: int) -> tuple[Node, int]:
    indent, _, first = lines[at]
    found: dict[str, Node] = {}
    keys: dict[str, int] = {}
    while at < len(lines) and lines[at][0] == indent:
        _, body, number = lines[at]
        parts = split_key(body)
        if parts is None or body.startswith(("{{", "- ")):
            raise Unclear
        key, rest, column = parts
        value: Node
        if not rest or (rest.startswith("&") and " " not in rest):
            value = ("const", place(number, indent, body), None)
            below = lines[at + 1][0] if at + 1 < len(lines) else -1
            if below > indent or (below == indent and lines[at + 1][1].startswith("-")):
                value, at = block(lines, at + 1, depth + 1)
            else:
                at += 1
        else:
            end = after(lines, at, indent)
            value = (
                scalar(rest, number, indent + column)
                if end == at + 1
                else ("unknown", place(number, indent + column, rest))
            )
            at = end
        if key in found:
            value = ("unknown", value[1])
        found[key] = value
        keys[key] = place(number, indent, body)
    if at < len(lines) and lines[at][0] > indent:
        raise Unclear
    return ("map", pack(first, indent, first, indent), found, keys), at


def sequence(lines: list[Line], at: int, depth: int) -> tuple[Node, int]:
    indent, _, first = lines[at]
    items: list[Node] = []
    while at < len(lines) and lines[at][0] == indent and (lines[at][1] == "-" or lines[at][1].startswith("- ")):
        _, body, number = lines[at]
        inner = body[1:].lstrip(" ")
        if not inner:
            if at + 1 < len(lines) and lines[at + 1][0] > indent:
                value, at = block(lines, at + 1, depth + 1)
            else:
                value, at = ("const", place(number, indent, body), None), at + 1
        else:
            deeper = indent + len(body) - len(inner)
            if split_key(inner) is None and not inner.startswith("- "):
                end = after(lines, at, indent)
                value = scalar(inner, number, deeper) if end == at + 1 else ("unknown", place(number, deeper, inner))
                at = end
            else:
                lines[at] = (deeper, inner, number)
                value, at = block(lines, at, depth + 1)
        items.append(value)
    return ("list", pack(first, indent, first, indent), items), at


def after(lines: list[Line], at: int, indent: int) -> int:
    """The next line that is not indented deeper: what lies between continues a scalar."""
    at += 1
    while at < len(lines) and lines[at][0] > indent:
        at += 1
    return at


def split_key(body: str) -> tuple[str, str, int] | None:
    """(key, rest, column of the rest) of `key: rest`; None when the line is no entry of a mapping."""
    if body[0] in "{[|>*!&@`":
        return None
    if body[0] in "\"'":
        end = body.find(body[0], 1)
        if end < 0 or body[end + 1 : end + 2] != ":":
            return None
        key, colon = body[1:end], end + 1
    else:
        colon = body.find(": ")
        if colon < 0:
            if not body.endswith(":"):
                return None
            colon = len(body) - 1
        key = body[:colon]
    rest = body[colon + 1 :]
    return key.strip(), rest.strip(), len(body) - len(rest.lstrip())


def place(number: int, column: int, body: str) -> int:
    return pack(number, column, number, column + len(body))


def scalar(body: str, number: int, column: int) -> Node:
    """A value that stands on one line."""
    pos = place(number, column, body)
    first = body[0]
    if first in "{[":
        return flow(body, number, column)
    if first in "\"'":
        if len(body) > 1 and body[-1] == first and first not in body[1:-1] and "\\" not in body and "${" not in body:
            return ("const", pos, body[1:-1])
        return ("unknown", pos)
    if first in "|>*!&@`%" or "${" in body or "{{" in body:
        return ("unknown", pos)
    if body in LEVELS:
        return ("const", pos, LEVELS[body])
    if body.lower() in ("yes", "no", "on", "off"):
        return ("unknown", pos)  # true or false for PyYAML, a word for others
    digits = body.lstrip("+-")
    if digits.isdecimal() and (digits == "0" or digits[0] != "0") and len(body) - len(digits) < 2:
        return ("const", pos, int(body))
    if digits.isdecimal() or body.lower().strip("+-") in (".inf", ".nan"):
        return ("unknown", pos)  # octal for some
    if digits[:1].isdecimal() or digits[:1] == ".":
        try:
            return ("const", pos, float(body))
        except ValueError:
            pass
    return ("const", pos, body)


def flow(body: str, number: int, column: int) -> Node:
    """`{a: b}` or `[a, b]` whose parts are scalars."""
    pos = place(number, column, body)
    inner = body[1:-1]
    if body[-1] != {"{": "}", "[": "]"}[body[0]] or any(c in inner for c in "{}[]\"'"):
        return ("unknown", pos)
    parts, offset = [], column + 1
    for part in inner.split(","):
        if part.strip():
            parts.append((part.strip(), offset + len(part) - len(part.lstrip())))
        offset += len(part) + 1
    if body[0] == "[":
        return ("list", pos, [scalar(p, number, c) for p, c in parts])
    found: dict[str, Node] = {}
    keys: dict[str, int] = {}
    for p, c in parts:
        entry = split_key(p)
        if entry is None:
            return ("unknown", pos)
        key, rest, at = entry
        found[key] = scalar(rest, number, c + at) if rest else ("const", pos, None)
        keys[key] = place(number, c, p)
    return ("map", pos, found, keys)
