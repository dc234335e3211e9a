"""Methods that make an attribute's next value out of its value, told by their text: `self.h = self.rnn(x, self.h)`, or
`out, h = self.rnn(x, self.h)` with `self.h = h` below it."""

from __future__ import annotations

import builtins

from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

    from ..program.model import Function

ATTRIBUTE = Later(
    r"self(?<=\bself)\.(\w+)(?=( ?[-+*]=\s|\.\w+_\(|\[[^\n=]*\] = )"  # changed in place
    r"|(?=[ \t]*[=,:)\]\[])[^=\n#]*(?<![=!<>])=(?!=)([^=#]{0,400}))"  # set, perhaps over a few lines
)
"""An attribute that a statement writes; what follows the `=`."""
ELEMENT = Later(r"self(?<=\bself)\.(\w+)\[([^\n=]*)\] = ([^=#]{0,400})")
"""An element of an attribute that a statement sets; what follows the `=`."""
CALLED_NAME = Later(r"(?<![\w.])\w+(?:\.\w+)*(?=\()")
WORD = Later(r"[A-Za-z_]\w*")


def rewrites(text: str, start: int, end: int) -> bool:
    """Does a method, the lines from `start` to `end`, change an attribute by its own value?"""
    for found in ATTRIBUTE.finditer(text, start, end):
        if found[2] is not None or next(makers(text, found, start, end), None) is not None:
            return True
    return False


def recurrent(text: str) -> Iterator[tuple[str, str]]:
    """(attribute, statement that makes its next value out of it, as far as that matters) of a method that calls
    something with what an attribute holds."""
    for found in ATTRIBUTE.finditer(text):
        for piece in makers(text, found, 0, len(text)) if found[2] is None else ():
            if "(" in piece:
                yield found[1], piece


def recurrent_elements(text: str) -> Iterator[str]:
    """The statements of `recurrent` for elements: `self.h[i] = self.rnn(x, self.h[i])`."""
    for found in ELEMENT.finditer(text):
        yield from (piece for piece in makers(text, found, 0, len(text)) if "(" in piece)


def makers(text: str, found: Match[str], start: int, end: int) -> Iterator[str]:
    """The parts of statements, up to the attribute, by which a match of `ATTRIBUTE` may set it to what it makes."""
    word = "self." + found[1]
    begin = found.start(3)
    tail = found[3][: max(0, end - begin)]
    line = tail.find("\n")
    for at in places(tail, word):
        if at > line >= 0 and not goes_on(tail[:line]):
            break
        yield text[found.start() : begin + at + len(word)]
    if text.find(word, start, found.start()) < 0:
        return
    names = set(WORD.findall(tail if line < 0 or goes_on(tail[:line]) else tail[:line]))
    above = text[start : found.start()]
    for at in places(above, word):
        begin = above.rfind("\n", 0, at) + 1
        left, equals, _ = above[begin:at].partition("=")
        into = set(WORD.findall(left))
        if equals and not names.isdisjoint(into):
            yield above[begin:at] + word
        if equals and leads_to(above[begin:], into, names):
            yield above[begin:]


def leads_to(text: str, known: set[str], names: set[str]) -> bool:
    """Does what some names hold go, by the assignments of a text, into one of these names?"""
    for line in text.splitlines()[1:]:
        left, equals, right = line.partition(" = ")
        if equals and not known.isdisjoint(WORD.findall(right)):
            bound = set(WORD.findall(left))
            if not names.isdisjoint(bound):
                return True
            known |= bound
    return False


def places(text: str, word: str) -> Iterator[int]:
    """Where a word stands as a whole."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            yield at
        at = text.find(word, at + 1)


def goes_on(line: str) -> bool:
    """Does a statement go on in the next line: is a bracket open?"""
    opened = line.count("(") + line.count("[") + line.count("{")
    return opened > line.count(")") + line.count("]") + line.count("}") or line.endswith("\\")


def calls_object(f: Function, text: str) -> bool:
    """May one of the calls in a piece of a method's text be that of an object: of a local value or an attribute, not of
    a method of the class, a builtin, anything that the module imports or defines?"""
    assert f.owner is not None
    names = f.module.names
    for called in CALLED_NAME.findall(text):
        root, _, rest = called.partition(".")
        if root == f.params[0][0] and rest:
            if rest not in f.owner.methods:
                return True
        elif names[root][0] == "value" if root in names else not hasattr(builtins, root):
            return True
    return False
