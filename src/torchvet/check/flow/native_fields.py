"""Resources in fields of structures (`cudaMalloc(&plan->perm, n)`) and in containers of a class, which nothing of the
project ever releases.

No path is followed: a field is reported when no releasing call anywhere names it, nothing takes it over, and the
structure is known to come and go.
"""

from __future__ import annotations

import re

from .native_containers import GROWS, HOLDS
from .native_words import DESTROY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..source.cpp import Class, Function
    from .native import Native
    from .native_classes import Classes
    from .native_held import Held
    from .native_paths import Paths

RELEASES = re.compile(
    r"\w*(?:[Ff]ree|FREE|[Rr]elease|RELEASE|[Dd]estroy|DESTROY|[Dd]elete|[Cc]lose|[Rr]eset|[Uu]n\w+)\w*"
)
"""Names of functions and macros that may release what they are given."""
PUT = re.compile(rf"\b(\w+)\s*\.\s*(?:{'|'.join(sorted(GROWS))})\s*\(\s*(?:std\s*::\s*move\s*\(\s*)?(\w+)\s*\)")


class Fields:
    def __init__(self, native: Native, classes: Classes) -> None:
        self.native = native
        self.sources = native.sources
        self.classes = classes
        self._texts: dict[str, str] = {}

    def leaks(self) -> Iterator[tuple[Paths, Held, Class]]:
        """(paths of the function, resource, class that holds it)."""
        done: set[tuple[int, str]] = set()
        for function in self.native.interesting:
            if function.name == "main":
                continue
            p = self.native.paths(function, self.sources.constructor_of(function))
            for held in p.fields if not p.trouble else ():
                root, _, field = re.sub(r"\[[^]]*\]", "", held.path).replace("->", ".").rpartition(".")
                cls = self.owner(p, root, field)
                if cls is None or (id(cls), field) in done or self.classes.lives_on(cls):
                    continue
                text = self.near(function, cls)
                if not self.named_by_release(text, field) and not self.taken(text, field):
                    done.add((id(cls), field))
                    held.name = held.path = field
                    yield p, held, cls

    # ------------------------------------------------------------------------------------------------- structures
    def owner(self, p: Paths, root: str, field: str) -> Class | None:
        """The structure that a variable is, when it comes and goes: made here, or taken apart somewhere."""
        if not re.fullmatch(r"\w+", root):
            return None
        kind = p.locals.get(root, p.params.get(root, ""))
        if not kind or "static" in kind or root in p.members:
            return None
        made = re.search(
            rf"\b{root}\s*(?:=|\()\s*(?:std\s*::\s*)?(?:make_unique|make_shared|new)\b\s*<?\s*(\w+)", p.function.text
        )
        words = [made[1]] if made else re.findall(r"[A-Za-z_]\w*", kind)
        for word in words:
            for cls in self.sources.classes(word, p.near)[:1]:
                if field not in cls.members or "unique_ptr" in cls.members[field] or "shared_ptr" in cls.members[field]:
                    return None
                here = made is not None or (root in p.locals and not kind.rstrip().endswith(("*", "&")))
                return cls if here or self.taken_apart(p.function, cls, field) else None
        return None

    def taken_apart(self, function: Function, cls: Class, field: str) -> bool:
        """Does something release another field of the structure?"""
        others = [m for m in cls.members if m != field]
        return bool(others) and re.search(
            rf"\b(?:{'|'.join(sorted(DESTROY))})\s*\([^;]*?(?:\.|->)\s*(?:{'|'.join(map(re.escape, others))})\b",
            self.near(function, cls),
        ) is not None  # fmt: skip

    def near(self, function: Function, cls: Class) -> str:
        """The code of the sources below the same top folder, and of all that name the class."""
        top = function.unit.path.partition("/")[0]
        key = f"{top}:{cls.name}"
        if key not in self._texts:
            found = [s for s in self.sources.all if s.path.partition("/")[0] == top or cls.name in s.text]
            self._texts[key] = "\n".join(s.unit.code for s in found)
        return self._texts[key]

    def named_by_release(self, text: str, field: str) -> bool:
        return re.search(rf"\b{RELEASES.pattern}\s*(?:<[^;<>]*>)?\([^;]*\b{field}\b", text) is not None

    def taken(self, text: str, field: str) -> bool:
        """Does anything copy the field elsewhere, return it, or give it to what is no call of the runtime?"""
        for m in re.finditer(rf"(?:\.|->)\s*{field}\b(?!\s*\()", text):
            begin = max(text.rfind(c, 0, m.start()) for c in ";{}") + 1
            before = text[begin : m.start()]
            if re.search(r"(?<![=!<>])=(?!=)|\breturn\b|\bswap\b|\bmove\b|\bdelete\b", before):
                return True
            call = re.search(r"(\w+)\s*(?:<[^;<>]*>)?\([^;()]*(?:\([^;()]*\)[^;()]*)*$", before)
            known = call is None or re.match(r"(?:cuda|hip|cu|nccl|if|while|switch|CHECK|CUDA|[A-Z_]+$)", call[1])
            if not known and "<<<" not in before:
                return True
        return False

    # ------------------------------------------------------------------------------------------------- containers
    def contained(self, cls: Class, methods: list[Function]) -> Iterator[tuple[Paths, Held]]:
        """Resources that methods put into a container of the class, when no source near it ever releases their like."""
        holders = {n for n, kind in cls.members.items() if HOLDS.search(kind) and "_ptr" not in kind}
        for f in methods if holders else ():
            p = self.native.paths(f, cls)
            for container, name in PUT.findall(f.text):
                held = next((h for h in p.created if h.name == name and not h.member and not h.element), None)
                if container not in holders or held is None or held.rule == "host":
                    continue
                destroys = [n for n, family in DESTROY.items() if family == held.family]
                if destroys and not re.search(rf"\b(?:{'|'.join(destroys)})\b", self.near(f, cls)):
                    held.name = held.path = container
                    yield p, held
                    holders.discard(container)
