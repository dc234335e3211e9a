"""What functions of the project do with a resource that they are given, and which of them hand out a new one."""

from __future__ import annotations

import re

from ..source.cpp import Unreadable
from .native_words import CALLS, CREATE, DESTROY, KEEPERS, USERS, Words, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..source.cpp import Function, Stmt, Token
    from .native_sources import Sources
    from .native_words import Call

DEEPEST = 3


def summaries(sources: Sources) -> Summaries:
    """The one of these sources."""
    found: Summaries | None = getattr(sources, "summaries", None)
    if found is None:
        found = sources.summaries = Summaries(sources)  # type: ignore[attr-defined]
    return found


def creation(sources: Sources, call: Call, near: str, depth: int) -> tuple[str, str, str] | None:
    """(family, rule, how) of a call that creates a resource, or of a function of the project that hands one out."""
    if call.launch is not None:
        return None
    found = CREATE.get(call.last) or CREATE.get(call.name)
    if found is None and "::" in call.name:
        found = CREATE.get("::".join(call.name.split("::")[-2:]))
    if found is not None:
        return None if call.method and call.last in ("malloc", "calloc") else found
    if depth > 2 or call.method or call.made or call.last in USERS or call.name.startswith(CALLS):
        return None
    return summaries(sources).created(call.name, near, len(call.args), depth)


class Summaries:
    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._uses: dict[tuple[int, int], str] = {}
        self._created: dict[tuple[str, str, int], tuple[str, str, str] | None] = {}
        self._words: dict[int, list[tuple[Words, bool]] | None] = {}

    def use(self, call: Call, near: str, argument: int, depth: int = 0) -> str:
        """What a call does with an argument: "free", "keep" or "" (uses it). Unknown functions keep it."""
        if call.method and not call.name[0].isalpha():
            return "keep"
        if call.last in KEEPERS:
            return "keep"
        found = self.sources.functions(call.last, near, len(call.args))
        if not found or depth > DEEPEST:
            return "keep"
        said = {self.parameter(f, argument, depth + 1) for f in found[:6]}
        return "free" if "free" in said else "keep" if "keep" in said else ""

    def parameter(self, function: Function, index: int, depth: int) -> str:
        key = (id(function), index)
        if key not in self._uses:
            self._uses[key] = ""  # a recursion uses it
            self._uses[key] = self._parameter(function, index, depth)
        return self._uses[key]

    def _parameter(self, function: Function, index: int, depth: int) -> str:
        if "__global__" in function.head:
            return ""
        if index >= len(function.params) or function.initials[1]:
            return "keep"
        name = function.params[index][1]
        if not name:
            return ""
        if depth > DEEPEST:
            return "keep"
        said = ""
        words_of = self.words(function)
        if words_of is None:
            return "keep"
        for words, returning in words_of:
            if name not in words.texts:
                continue
            for i in words.mentions(name):
                role, call, argument, _ = words.use(i, True)
                if role == "kept" or (
                    returning and role == "read" and words.frames[i] is None and "==" not in words.texts
                ):
                    said = said or "keep"
                elif role == "argument" and call is not None:
                    if call.last in DESTROY or "::".join(call.name.split("::")[-2:]) in DESTROY:
                        return "free"
                    if (
                        call.launch is not None
                        or call.last in USERS
                        or call.name.startswith(CALLS)
                        or call.last.isupper()
                    ):
                        continue
                    if call.last in CREATE:
                        continue
                    if call.last == "from_blob":
                        continue
                    inner = self.use(call, function.unit.path, argument, depth + 1) if not call.made else "keep"
                    if inner == "free":
                        return "free"
                    said = said or inner
            if "delete" in words.texts:
                return "free"
        return said

    def created(self, name: str, near: str, count: int, depth: int) -> tuple[str, str, str] | None:
        """(family, rule, how) when a function of the project creates a resource and hands it out."""
        found = self.sources.functions(name, near, count)
        if len(found) != 1 or depth > 1:
            return None
        function = found[0]
        key = (name, function.unit.path, function.start)
        if key not in self._created:
            self._created[key] = None
            self._created[key] = self._creates(function, depth)
        return self._created[key]

    def _creates(self, function: Function, depth: int) -> tuple[str, str, str] | None:
        text = function.text
        if "static" in text or not any(
            w in text for w in ("Create", "alloc", "Alloc", "Capture", "Instantiate", "Plan", "Init")
        ):
            return None
        if function.initials[1] or function.owner or function.on_device():
            return None
        from .native_paths import Paths

        words_of = self.words(function)
        if words_of is None:
            return None
        params = {name: (i, kind) for i, (kind, name) in enumerate(function.params) if name}
        for words, _ in words_of:
            for call in words.calls:
                found = CREATE.get(call.last)
                if found is None or not found[2].isdigit():
                    continue
                argument = [
                    t
                    for t in words.argument(call, int(found[2]))
                    if t not in ("void", "*", "(", ")", "static_cast", "reinterpret_cast", "<", ">")
                ]
                path = path_of(argument)
                if path and path[0] in params and "**" in params[path[0]][1].replace(" ", ""):
                    return found[0], found[1], str(params[path[0]][0])
                if argument[:1] == ["&"] and len(argument) == 2 and argument[1] in params:
                    kind = params[argument[1]][1]
                    if kind.endswith("&"):
                        return found[0], found[1], "&" + str(params[argument[1]][0])
        paths = Paths(self.sources, function, None, depth + 1)
        if paths.trouble or len(paths.returned) != 1:
            return None
        held = next(iter(paths.returned.values()))
        if held.member or held.static or held.element or held.rule == "host" or function.head.find("_ptr") >= 0:
            return None
        head = function.head[: function.head.find("(")]
        if re.search(r"\bTensor\b|\bauto\b|capsule", head):
            return None
        return held.family, held.rule, "ret"

    def words(self, function: Function) -> list[tuple[Words, bool]] | None:
        """The expressions of a function, with whether each is returned; None when it cannot be read."""
        key = id(function)
        if key not in self._words:
            try:
                self._words[key] = [(Words(t), r) for t, r in expressions(self.sources.statements(function))]
            except (Unreadable, RecursionError):
                self._words[key] = None
        return self._words[key]


def expressions(block: list[Stmt]) -> Iterator[tuple[list[Token], bool]]:
    """All expressions of a block and of the blocks in it."""
    for s in block:
        kind = s[0]
        if kind == "block":
            yield from expressions(s[1])
        elif kind == "pp":
            for branch in s[1]:
                yield from expressions(branch)
        elif kind == "try":
            yield from expressions(s[1])
            for handler in s[2]:
                yield from expressions(handler)
        else:
            yield s[1], kind == "return"
            if kind in ("if", "loop", "switch"):
                yield from expressions(s[2])
                if kind == "if":
                    yield from expressions(s[3])
