"""Recipes of a justfile as shell text, with its variables put in (just's manual, "Recipes")."""

from __future__ import annotations

import re

from .traced import Traced, joined, unknown

_SETS = re.compile(r"(?:export[ ]+)?([A-Za-z_][\w-]*)[ \t]*:=[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\")[ \t]*$")
_HEAD = re.compile(r"@?[A-Za-z_][\w-]*(?:[ \t][^\n:]*)?:(?!=)")
_PUT_IN = re.compile(r"\{\{(.*?)\}\}")


def recipes(text: str) -> list[Traced]:
    """The body of each recipe."""
    values: dict[str, Traced] = {}
    found: list[list[Traced]] = []
    inside = False
    at = 0
    for line in text.split("\n"):
        start, at = at, at + len(line) + 1
        if line[:1] in (" ", "\t"):
            if inside and line.strip():
                begin = len(line) - len(line.lstrip(" \t@-"))
                found[-1] += [Traced.at(line[begin:], start + begin), Traced.at("\n", start + len(line))]
            continue
        m = _SETS.match(line)
        if m:
            group = 2 if m[2] is not None else 3
            values[m[1]] = Traced.at(m[group], start + m.start(group))
        elif line.strip() and line[0] not in "#[":
            inside = _HEAD.match(line) is not None
            if inside:
                found.append([])
    return [filled(joined(parts), values) for parts in found if parts]


def filled(part: Traced, values: dict[str, Traced]) -> Traced:
    """`{{name}}` is the variable's value; any other expression is unknown."""
    out: list[Traced] = []
    at = 0
    for m in _PUT_IN.finditer(part.text):
        name = m[1].strip()
        out += [part.cut(at, m.start()), values.get(name) or unknown(name, part.offset(m.start()))]
        at = m.end()
    out.append(part.cut(at, len(part.text)))
    return joined(out)
