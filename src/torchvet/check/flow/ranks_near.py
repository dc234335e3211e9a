"""Which functions beside a wrapped model can run its forward or backward, though they name no collective.

Asked in large projects only, where most functions of such a folder never touch the model: one that can holds a call of
a value (a parameter, a field), or hands on something that is called like a model.
"""

from __future__ import annotations

import builtins

from ..source.patterns import Later
from .ranks_pages import PLAIN_METHODS, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from .ranks_suspects import Suspects

CALLED = Later(r"\(\w+\.?")
"""A name that is called, with the dot before it, in a text that is read backwards (ten times as fast)."""
FIELD = Later(r"\.(\w+)")
HANDED = Later(
    r"[(,=*\s][\w.]*(?:model|net|module|engine|ddp|fsdp|wrapped|critic|actor|policy|coder|student|teacher)\w*\s*[,)]"
)
"""An argument that is called like a model."""
KEYWORDS = "and as assert await del elif except for from if import in is lambda not or raise return while with yield"
NO_VALUES = {*KEYWORDS.split(), *dir(builtins), "cls", "super", "self"}


class Near:
    def __init__(self, suspects: Suspects) -> None:
        self.suspects = suspects
        self.wraps = suspects.wraps | {"prepare"}
        self.plain = PLAIN_METHODS | suspects.words
        self._fields: set[str] = set()

    def may_run(self, f: Function) -> bool:
        """Whether the function can run a wrapped model, by its text."""
        text = self.suspects.text_of(f)
        if "backward(" in text or ")(" in text or "](" in text or not words_of(text).isdisjoint(self.wraps):
            return True
        behind: list[str] = []
        names = f.module.names
        for found in set(CALLED.findall(text[::-1])):
            name = found[:0:-1]
            if name[0] == ".":
                behind.append(name[1:])
            elif name not in NO_VALUES:
                bound = names.get(name)
                if (
                    (bound is None or bound[0] == "value")
                    and f"def {name}" not in text
                    and f"import {name}" not in text
                ):
                    return True
        head = 0 if f.name == "<module>" else text.find(":\n")
        if HANDED.search(text, max(head, 0)):
            return True
        called = set(behind) - self.plain
        return "forward" in called or "module" in called or not called.isdisjoint(self.fields())

    def fields(self) -> set[str]:
        """Names under which something is kept in an object, and some others of those lines."""
        if not self._fields:
            for page in self.suspects.pages.values():
                for before in page.text.split(" = ")[:-1]:
                    line = before[before.rfind("\n") + 1 :]
                    if "." in line:
                        self._fields.update(FIELD.findall(line))
        return self._fields
