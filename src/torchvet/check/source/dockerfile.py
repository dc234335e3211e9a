"""Dockerfiles as instructions: continuation lines, the escape directive, here-documents, stages.

https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import re

from .traced import Traced, joined

_HERE = re.compile(r"<<-?[ \t]*([\"']?)([A-Za-z_]\w*)\1")
_DIRECTIVE = re.compile(r"#[ \t]*(\w+)[ \t]*=[ \t]*(\S+)[ \t]*$")
_PAIR = re.compile(r"([A-Za-z_][\w.\-]*)=")


class Instruction:
    """`name` in capitals, `body` with continuation lines joined, `here` the text of its here-documents."""

    __slots__ = ("at", "body", "here", "name")

    def __init__(self, name: str, at: int, body: Traced) -> None:
        self.name = name
        self.at = at
        self.body = body
        self.here: list[Traced] = []


class Stage:
    """One `FROM`: its base (an image or the name of an earlier stage), its name, its instructions."""

    __slots__ = ("base", "instructions", "name")

    def __init__(self, base: str, name: str) -> None:
        self.base = base
        self.name = name
        self.instructions: list[Instruction] = []


def stages(text: str) -> list[Stage]:
    """The stages in order; what stands before the first `FROM` is left out."""
    out: list[Stage] = []
    for x in instructions(text):
        if x.name == "FROM":
            words = [w for w in x.body.text.split() if not w.startswith("--")]
            name = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else ""
            out.append(Stage(words[0] if words else "", name))
        elif out:
            out[-1].instructions.append(x)
    return out


def reaching(found: list[Stage]) -> list[Instruction]:
    """The instructions that make the last image: those of the last stage and of the stages that it is built on."""
    out: list[Instruction] = []
    at = len(found) - 1
    while at >= 0:
        out = [*found[at].instructions, *out]
        base = found[at].base.lower()
        at = next((i for i in range(at - 1, -1, -1) if base and found[i].name == base), -1)
    return out


def instructions(text: str) -> list[Instruction]:
    out: list[Instruction] = []
    escape = "\\"
    directives = True
    at, size = 0, len(text)
    while at < size:
        end = text.find("\n", at)
        end = size if end < 0 else end
        line = text[at:end]
        stripped = line.strip()
        if stripped.startswith("#"):
            found = _DIRECTIVE.match(stripped) if directives else None
            if found and found[1].lower() == "escape":
                escape = found[2]
            directives = directives and found is not None
            at = end + 1
            continue
        directives = False
        if not stripped:
            at = end + 1
            continue
        start = at + len(line) - len(line.lstrip())
        parts: list[Traced] = []
        while True:
            line = text[at:end]
            if parts and line.strip().startswith("#"):
                pass  # a comment between continued lines
            elif line.rstrip().endswith(escape):
                kept = line.rstrip()[: -len(escape)]
                parts += [Traced.at(kept, at), Traced.at(" ", at + len(kept))]
            else:
                parts.append(Traced.at(line, at))
                if line.strip() or not parts:
                    at = end + 1
                    break
            at = end + 1
            if at >= size:
                break
            end = text.find("\n", at)
            end = size if end < 0 else end
        whole = joined(parts)
        found = re.match(r"[ \t]*([A-Za-z]+)[ \t]*", whole.text)
        if not found:
            continue
        body = whole.cut(found.end(), len(whole.text))
        instruction = Instruction(found[1].upper(), start, body)
        if instruction.name in ("RUN", "COPY", "ADD"):
            for mark in _HERE.finditer(body.text):
                begin = at
                while at < size:
                    end = text.find("\n", at)
                    end = size if end < 0 else end
                    done = text[at:end].strip() == mark[2]
                    if done:
                        instruction.here.append(Traced.at(text[begin:at], begin))
                    at = end + 1
                    if done:
                        break
        if instruction.name == "ONBUILD":
            continue
        out.append(instruction)
    return out


def pairs(body: Traced) -> list[tuple[str, Traced]]:
    """(name, value) of `ENV A=1 B="2 3"` and of the old form `ENV A 1`."""
    text = body.text.strip()
    lead = len(body.text) - len(body.text.lstrip())
    if not _PAIR.match(text):
        name, _, value = text.partition(" ")
        start = lead + len(name) + 1
        start += len(value) - len(value.lstrip())
        return [(name, body.cut(start, start + len(value.strip())))] if name and value.strip() else []
    out: list[tuple[str, Traced]] = []
    at = 0
    while at < len(text):
        found = _PAIR.match(text, at)
        if not found:
            at += 1
            continue
        start = i = found.end()
        quote = ""
        while i < len(text) and (quote or not text[i].isspace()):
            if text[i] == "\\":
                i += 1
            elif quote:
                quote = "" if text[i] == quote else quote
            elif text[i] in "\"'":
                quote = text[i]
            i += 1
        i = min(i, len(text))
        value = text[start:i]
        if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            out.append((found[1], body.cut(lead + start + 1, lead + i - 1)))
        else:
            out.append((found[1], body.cut(lead + start, lead + i)))
        at = i + 1
    return out
