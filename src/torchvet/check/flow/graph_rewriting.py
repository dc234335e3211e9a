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

    Assignment = tuple[int, frozenset[str], str]

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
    above: list[Assignment] = []
    for found in ATTRIBUTE.finditer(text, start, end):
        if found[2] is not None or next(makers(text, found, start, end, above), None) is not None:
            return True
    return False


def recurrent(text: str) -> Iterator[tuple[str, str]]:
    """(attribute, statement that makes its next value out of it, as far as that matters) of a method that calls
    something with what an attribute holds."""
    above: list[Assignment] = []
    for found in ATTRIBUTE.finditer(text):
        for piece in makers(text, found, 0, len(text), above) if found[2] is None else ():
            if "(" in piece:
                yield found[1], piece


def recurrent_elements(text: str) -> Iterator[str]:
    """The statements of `recurrent` for elements: `self.h[i] = self.rnn(x, self.h[i])`."""
    above: list[Assignment] = []
    for found in ELEMENT.finditer(text):
        yield from (piece for piece in makers(text, found, 0, len(text), above) if "(" in piece)


def makers(text: str, found: Match[str], start: int, end: int, above: list[Assignment]) -> Iterator[str]:
    """The parts of statements, up to the attribute, by which a match of `ATTRIBUTE` may set it to what it makes.
    `above` takes the assignments of the method when they are needed."""
    word = "self." + found[1]
    begin = found.start(3)
    tail = found[3][: max(0, end - begin)]
    line = tail.find("\n")
    for at in places(tail, word):
        if at > line >= 0 and not goes_on(tail[:line]):
            break
        yield text[found.start() : begin + at + len(word)]
    if not is_used(text, word, start, found.start()):
        return
    if not above:
        above += assignments(text, start, end)
    names = set(WORD.findall(tail if line < 0 or goes_on(tail[:line]) else tail[:line]))
    below = ""
    own = text.rfind("\n", 0, found.start()) + 1
    for at, left, right in reversed(above):
        if at >= own or names.isdisjoint(left):
            continue
        last = max(places(right, word), default=-1)
        if last >= 0:
            yield right + below if below else right[: last + len(word)]
        names.update(WORD.findall(right))
        below = f"\n{right}{below}"


def is_used(text: str, word: str, start: int, end: int) -> bool:
    """Does a word stand on the right side of an assignment in a part of a text, or in a line that goes on with one?"""
    at = text.find(word, start, end)
    while at >= 0:
        begin = text.rfind("\n", start, at) + 1
        if text.find("=", begin, at) >= 0 or text[begin - 2 : begin - 1] in "([{,":
            return True
        at = text.find(word, at + 1, end)
    return False


def assignments(text: str, start: int, end: int) -> list[Assignment]:
    """(position, words on the left, text on the right) of the assignments in a part of a text."""
    out: list[Assignment] = []
    at = text.find(" = ", start, end)
    while at >= 0:
        begin = text.rfind("\n", start, at) + 1 or start
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        while stop < end and goes_on(text[at:stop]):
            more = text.find("\n", stop + 1, end)
            stop = end if more < 0 else more
        out.append((begin, frozenset(WORD.findall(text[begin:at])), text[at + 3 : stop]))
        at = text.find(" = ", stop, end)
    return out


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
