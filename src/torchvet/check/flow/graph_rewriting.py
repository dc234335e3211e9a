"""Methods that make an attribute's next value out of its value, told by their text: `self.h = self.rnn(x, self.h)`."""

from __future__ import annotations

import builtins

from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

    from ..program.model import Function

NEAR = 160
"""Characters behind `=` (and again behind a bracket) within which the attribute has to stand again."""
ATTRIBUTE = Later(
    r"self(?<=\bself)\.(\w+)(?=( ?[-+*]=\s|\.\w+_\(|\[[^\n=]*\] = )"  # changed in place
    r"|(?=[ \t]*[=,:)\]\[])[^=\n#]*(?<![=!<>])=(?!=)([^=#]{0,400}))"  # set, perhaps over a few lines
)
"""An attribute that a statement writes; what follows the `=`."""
CALLED_NAME = Later(r"(?<![\w.])\w+(?:\.\w+)*(?=\()")


def rewrites(found: Match[str], end: int) -> bool:
    """Does a match of `ATTRIBUTE` change an attribute by its own value, before `end`?"""
    if found[2] is not None:
        return True
    return "self." in found[3] and any(at <= NEAR for at in again(found, end))


def again(found: Match[str], end: int) -> Iterator[int]:
    """Where, behind the `=`, the attribute stands again."""
    word = "self." + found[1]
    tail = found[3][: max(0, end - found.start(3))]
    at = tail.find(word)
    while at >= 0:
        before, after = tail[at - 1 : at], tail[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            yield at
        at = tail.find(word, at + 1)


def recurrent(text: str) -> Iterator[tuple[str, str]]:
    """(attribute, text of the statement up to where it stands again) of `self.x = f(self.x)`."""
    for found in ATTRIBUTE.finditer(text):
        if found[2] is not None or "(" not in found[3]:
            continue
        for at in again(found, len(text)):
            bracket = found[3].rfind("(", 0, min(at, NEAR + 1))
            if bracket >= 0 and at - bracket - 1 <= NEAR:
                yield found[1], text[found.start() : found.start(3) + at + len(found[1]) + 5]
                break


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
