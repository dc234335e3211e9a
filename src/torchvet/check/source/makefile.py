"""Makefiles as the shell text of their recipes, variables put in.

Variables keep the value that they have at the end (as `=` means it); `$(shell ...)` and other functions are unknown.
GNU make manual, "How make Reads a Makefile".
"""

from __future__ import annotations

import re

from .traced import Traced, joined, unknown

DEEP = 10
MOST_TEXT = 50_000
MOST_STEPS = 20_000
"""Values put in: variables that name each other many times stop there."""
_VARIABLE = re.compile(r"[ ]*(?:export[ ]+|override[ ]+)*([\w.\-]+)[ \t]*(\?=|:{0,3}=|\+=|!=)[ \t]*")
_DEFINE = re.compile(r"[ ]*define[ \t]+([\w.\-]+)")


class Makefile:
    """`variables` {name: value}, `exported` (name, value, offset), `recipes`: the lines of each rule as shell text."""

    __slots__ = ("exported", "recipes", "steps", "variables")

    def __init__(self, text: str) -> None:
        self.steps = 0
        self.variables: dict[str, Traced] = {}
        self.exported: list[tuple[str, Traced, int]] = []
        self.recipes: list[Traced] = []
        recipes: list[list[Traced]] = []
        at = 0
        defining = ""
        body: list[Traced] = []
        while at < len(text):
            start = at
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            while end < len(text) and text[at:end].endswith("\\") and text[end - 1] == "\\":
                following = text.find("\n", end + 1)
                end = len(text) if following < 0 else following
                if end == len(text):
                    break
            line = Traced.at(text[start:end], start)
            at = end + 1
            if defining:
                if line.text.strip() == "endef":
                    self.variables[defining] = joined(body)
                    defining = ""
                else:
                    body += [line, Traced.at("\n", end)]
                continue
            if line.text.startswith("\t"):
                if not recipes:
                    recipes.append([])
                recipes[-1] += [self.command(line), Traced.at("\n", end)]
                continue
            found = _DEFINE.match(line.text)
            if found:
                defining, body = found[1], []
                continue
            found = _VARIABLE.match(line.text)
            if found:
                self.variable(found, line)
            elif line.text.strip() and not line.text.lstrip().startswith("#"):
                recipes.append([])
                target, sign, _ = line.text.partition(";")
                if sign and ":" in target:
                    recipes[-1] += [line.cut(len(target) + 1, len(line.text)), Traced.at("\n", end)]
        self.recipes = [joined(self.expanded(part, 0) for part in r) for r in recipes if r]

    def command(self, line: Traced) -> Traced:
        """A recipe line without its tab and the signs that make takes for itself."""
        at = 1
        while at < len(line.text) and line.text[at] in "@-+ \t":
            at += 1
        return line.cut(at, len(line.text))

    def variable(self, found: re.Match[str], line: Traced) -> None:
        name, sign = found[1], found[2]
        comment = re.search(r"(?<!\\)[ \t]#.*", line.text)
        value = line.cut(found.end(), comment.start() if comment and comment.start() > found.end() else len(line.text))
        if sign == "!=":
            value = unknown("shell", line.places[0])
        if sign == "+=" and name in self.variables:
            value = joined((self.variables[name], Traced.at(" ", value.places[0]), value))
        if sign != "?=" or name not in self.variables:
            self.variables[name] = value
        if "export" in line.text[: found.start(1)]:
            self.exported.append((name, value, line.offset(found.start(1))))

    def expanded(self, part: Traced, depth: int) -> Traced:
        """Variables put in; `$$` becomes `$`; a line end inside a value becomes a blank."""
        text = part.text
        self.steps += 1
        if "$" not in text:
            return part
        out: list[Traced] = []
        at = size = 0
        while at < len(text) and size < MOST_TEXT:
            sign = text.find("$", at)
            if sign < 0 or sign + 1 >= len(text):
                out.append(part.cut(at, len(text)))
                break
            out.append(part.cut(at, sign))
            following = text[sign + 1]
            where = part.offset(sign)
            if following == "$":
                out.append(Traced.at("$", where))
                at = sign + 2
                continue
            if following not in "({":
                out.append(unknown(following, where))
                at = sign + 2
                continue
            end = closing(text, sign + 1)
            if end < 0:
                out.append(part.cut(sign, len(text)))
                break
            name = text[sign + 2 : end]
            if name.startswith("call ") and depth < DEEP and self.steps <= MOST_STEPS:
                out.append(self.called(part.cut(sign + 7, end), depth))
                at = end + 1
                continue
            value = self.variables.get(name.strip())
            if value is None or depth >= DEEP or self.steps > MOST_STEPS:
                function = name.partition(" ")[0]
                out.append(unknown("$(shell" if function == "shell" else name, where))
            else:
                inner = self.expanded(value, depth + 1)
                out.append(Traced(inner.text.replace("\\\n", " \n").replace("\n", " "), inner.starts, inner.places))
                size += len(inner.text)
            at = end + 1
        return joined(out) if out else part

    def called(self, inner: Traced, depth: int) -> Traced:
        """`$(call NAME,one,two)`: the variable with `$(1)`, `$(2)` put in."""
        ends = [i for i, c in enumerate(inner.text) if c == ","]
        name = inner.text[: ends[0] if ends else len(inner.text)].strip()
        value = self.variables.get(name)
        if value is None or any(c in inner.text for c in "()"):
            return unknown(name, inner.offset(0))
        own = {str(i + 1): inner.cut(a + 1, b) for i, (a, b) in enumerate(zip(ends, [*ends[1:], len(inner.text)]))}
        before = {key: self.variables.get(key) for key in own}
        self.variables.update({key: self.expanded(given, depth + 1) for key, given in own.items()})
        made = self.expanded(value, depth + 1)
        for key, old in before.items():
            if old is None:
                del self.variables[key]
            else:
                self.variables[key] = old
        return Traced(made.text.replace("\\\n", " \n").replace("\n", " "), made.starts, made.places)


def closing(text: str, at: int) -> int:
    """The bracket that closes the one at `at`, or -1."""
    pair = {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for i in range(at, min(len(text), at + 5000)):
        if text[i] == text[at]:
            depth += 1
        elif text[i] == pair:
            depth -= 1
            if depth == 0:
                return i
    return -1
