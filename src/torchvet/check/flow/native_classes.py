"""Classes that hold resources: what their destructors release, what creations overwrite, and what copies share."""

from __future__ import annotations

import re

from .native_fields import Fields
from .native_held import both_memory
from .native_sources import RELEASING, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..source.cpp import Class, Function
    from .native import Fault, Native
    from .native_held import Held
    from .native_paths import Paths

NO_COPY = re.compile(
    r"unique_ptr|\bmutex\b|\batomic\b|\bthread\b|\bfuture\b|noncopyable|NonCopyable|[Nn]o[Cc]opy|Uncopyable"
)


class Classes:
    def __init__(self, native: Native) -> None:
        self.native = native
        self.sources = native.sources

    def faults(self) -> Iterator[Fault]:
        owners = {f.owner for f in self.native.interesting if f.owner}
        seen: set[int] = set()
        for function in self.native.interesting:
            if not function.owner:
                continue
            found = self.sources.classes(function.owner, function.unit.path)
            for cls in found[:1]:
                if id(cls) not in seen:
                    seen.add(id(cls))
                    yield from self._of(cls)
        del owners

    def _of(self, cls: Class) -> Iterator[Fault]:
        methods = self.sources.methods(cls)
        paths = [self.native.paths(f, cls) for f in methods]
        if any(p.trouble for p in paths):
            return
        if self.lives_on(cls):
            return
        destructor = next((f for f in methods if f.name == "~" + cls.name), None)
        declared = next((h for h, _ in cls.declared if re.search(rf"~\s*{cls.name}\b", h)), "")
        if declared and destructor is None and "default" not in declared:
            return  # its body is not here
        closure = self.closure(destructor, methods) if destructor is not None else []
        freed = {n for f in closure for n in self.native.paths(f, cls).released}
        freed |= self.of_relatives(cls)
        reported: set[str] = set()
        for p in paths:
            for held in p.created:
                if not held.member or held.name not in cls.members or held.name in reported:
                    continue
                if held.name not in freed:
                    if held.name in p.released and not any(leak.held is held for leak in p.leaks):
                        continue  # the method that makes it releases it again
                    if self.by_protocol(cls, p, held.name, methods):
                        continue
                    if self.freed_elsewhere(cls, held.name, methods, closure) or any(
                        held.name in q.kept and not _only_returned(q, held.name) for q in paths
                    ):
                        continue
                    reported.add(held.name)
                    yield self.native.fault(_rule(held), p.function, held.offset, "member", held, cls=cls.name)
        for p, held in Fields(self.native, self).contained(cls, methods):
            yield self.native.fault(_rule(held), p.function, held.offset, "member", held, cls=cls.name)
        yield from self.mismatched(cls, paths, closure)
        for p in paths:
            yield from self.overwritten(cls, p, methods, freed, reported)
            if p.function.name == cls.name:
                yield from self.thrown(cls, p, freed)
        if destructor is not None and freed & {h.name for p in paths for h in p.created if h.member}:
            yield from self.copied(cls, destructor, methods, freed)
            yield from self.never_reached(cls)

    # --------------------------------------------------------------------------------------------------- release
    def closure(self, begin: Function, methods: list[Function]) -> list[Function]:
        """A method and the methods of the same class that it calls, directly or not."""
        out, todo = [], [begin]
        while todo:
            f = todo.pop()
            if f in out:
                continue
            out.append(f)
            todo += [m for m in methods if m not in out and m.name[0] != "~" and re.search(rf"\b{m.name}\s*\(", f.text)]
        return out

    def of_relatives(self, cls: Class) -> set[str]:
        """Members that destructors of bases and derived classes release."""
        out: set[str] = set()
        for other in self.sources.every_class():
            if other is cls or not (
                re.search(rf"\b{other.name}\b", cls.bases) or re.search(rf"\b{cls.name}\b", other.bases)
            ):
                continue
            methods = self.sources.methods(other)
            for f in methods:
                out |= set(self.native.paths(f, other).released)
        return out

    def freed_elsewhere(self, cls: Class, member: str, methods: list[Function], closure: list[Function]) -> bool:
        """Whether something outside of the destructor releases the member and may well be called."""
        near = [s for s in self.sources.all if _together(s.path, cls.unit.path) or cls.name in s.text]
        accessors = [f.name for f in methods if re.search(rf"\breturn\s+(?:\(\w[\w\s*]*\)\s*)?{member}\s*;", f.text)]
        for f in methods:
            if member not in self.native.paths(f, cls).released or f in closure:
                continue
            if f.name == cls.name:
                continue  # on the way out of a constructor
            for s in near:
                text = s.unit.code
                for m in re.finditer(rf"\b{f.name}\b", text):
                    if s.unit is f.unit and f.start <= m.start() <= f.body[0]:
                        continue
                    if any(s.unit is x.unit and x.start <= m.start() <= x.body[1] for x in methods):
                        user = next(x for x in methods if s.unit is x.unit and x.start <= m.start() <= x.body[1])
                        if m.start() < user.body[0] or user.name == cls.name or user is f:
                            continue
                        if member in self.native.paths(user, cls).released or self._creates(user, member, cls):
                            continue
                    elif any(m.start() in range(a, a + len(h) + 1) for h, a in cls.declared if s.unit is cls.unit):
                        continue
                    return True
        pattern = rf"(?:\.|->)\s*(?:{'|'.join(map(re.escape, [member, *accessors]))})\b"
        for s in near:
            if not RELEASING.search(s.text):
                continue
            for m in re.finditer(rf"{RELEASING.pattern}", s.unit.code):
                tail = s.unit.code[m.end() : m.end() + 160].split(";")[0]
                if re.search(pattern, tail) and not any(
                    s.unit is x.unit and x.body[0] <= m.start() <= x.body[1] for x in methods
                ):
                    return True
        # a member that a smart pointer or scope guard of the class takes
        return False

    def by_protocol(self, cls: Class, p: Paths, member: str, methods: list[Function]) -> bool:
        """One method creates, another releases, and no constructor calls the first: who calls one calls the other."""
        name = p.function.name
        if name == cls.name or any(f.name == cls.name and re.search(rf"\b{name}\s*\(", f.text) for f in methods):
            return False
        return any(f is not p.function and member in self.native.paths(f, cls).released for f in methods)

    def _creates(self, user: Function, member: str, cls: Class) -> bool:
        return any(h.name == member for h in self.native.paths(user, cls).created)

    def lives_on(self, cls: Class) -> bool:
        """An object of the class lives as long as the process."""
        pattern = re.compile(
            rf"\bstatic\b[^;{{}}()]*\b{cls.name}\b(?!\s*::|\s*\*\s*\w+\s*\()|\bextern\s+{cls.name}\b|\bthread_local\b[^;{{}}()]*\b{cls.name}\b|[Ss]ingleton\s*<[^>]*\b{cls.name}\b"
        )
        for s in self.sources.all:
            if cls.name in s.text and (
                _together(s.path, cls.unit.path)
                or s.unit is cls.unit
                or nearest([cls, *self.sources.classes(cls.name, s.path)], s.path, lambda c: c.unit.path)[0] is cls
            ):
                if pattern.search(s.unit.code):
                    return True
                kinds = [kind for kind in s.unit.globals.values() if re.search(rf"\b{cls.name}\b", kind)]
                if kinds and re.search(r"\bdelete\s+\w", s.unit.code):  # a list of objects that somebody deletes
                    kinds = [kind for kind in kinds if not re.search(rf"\b{cls.name}\s*\*", kind)]
                if kinds:
                    return True
        return False

    # ------------------------------------------------------------------------------------------------- overwrite
    def overwritten(
        self, cls: Class, p: Paths, methods: list[Function], freed: set[str], reported: set[str]
    ) -> Iterator[Fault]:
        """A method that can run again creates anew into a member that still holds the old one."""
        if p.function.name in (cls.name, "~" + cls.name):
            return
        for held, conditions, _ in p.refills:
            if not held.member or held.name in reported or held.name not in freed or held.element:
                continue
            if self.released_before(p, held, methods, cls):
                continue
            graph = held.family in ("graph", "executable graph") and not any(held.name in c for c in conditions)
            called_by_constructor = any(
                f.name == cls.name and re.search(rf"\b{p.function.name}\s*\(", f.text) for f in methods
            )
            if grows(conditions, held.name, p.function.text, cls.members) or (
                graph and not called_by_constructor and not conditions
            ):
                reported.add(held.name)
                yield self.native.fault(_rule(held), p.function, held.offset, "overwritten", held, cls=cls.name)

    def released_before(self, p: Paths, held: Held, methods: list[Function], cls: Class) -> bool:
        if any(at < held.offset for _, at in p.released.get(held.name, ())):
            return True
        before = p.function.unit.code[p.function.body[0] : held.offset]
        for m in methods:
            if m is not p.function and re.search(rf"\b{re.escape(m.name)}\s*\(", before):
                for f in self.closure(m, methods):
                    if held.name in self.native.paths(f, cls).released:
                        return True
        return False

    def thrown(self, cls: Class, p: Paths, freed: set[str]) -> Iterator[Fault]:
        """A constructor that throws after a creation: its destructor does not run."""
        done: set[int] = set()
        for leak in p.leaks:
            if leak.kind == "throw" and leak.held.member and leak.held.name in freed and leak.offset not in done:
                done.add(leak.offset)
                yield self.native.fault(
                    "leak-on-path", p.function, leak.offset, "constructor", leak.held, severity="warning",
                    cls=cls.name, exit=leak.name or "throw",
                )  # fmt: skip

    def mismatched(self, cls: Class, paths: list[Paths], closure: list[Function]) -> Iterator[Fault]:
        """A member of one allocator that the destructor gives to another's function."""
        created: dict[str, list[Held]] = {}
        for p in paths:
            for held in p.created:
                if held.member and not held.via:
                    created.setdefault(held.name, []).append(held)
        for name, made in created.items():
            releases = [
                (f, family, at) for f in closure for family, at in self.native.paths(f, cls).released.get(name, ())
            ]
            families = {family for _, family, _ in releases}
            if not families or families & {h.family for h in made}:
                continue
            if all(both_memory(h.family, family) for h in made for family in families):
                f, _, at = releases[0]
                by = re.match(r"[\w:]+", f.unit.code[at:])
                yield self.native.fault(
                    "free-mismatch", f, at, "mismatch", made[0], by=by[0].rpartition("::")[2] if by else "delete"
                )

    # ---------------------------------------------------------------------------------------------------- copies
    def copied(self, cls: Class, destructor: Function, methods: list[Function], freed: set[str]) -> Iterator[Fault]:
        name = re.escape(cls.name)
        heads = [h for h, _ in cls.declared]
        moved = [h for h in heads if re.search(rf"\({name}\s*&&|\(\s*{name}\s*(?:<[^>]*>)?\s*&&", h)]
        for f in methods:
            if re.search(rf"\(\s*{name}\s*&&\s*(\w+)", f.head):
                other = re.search(rf"\(\s*{name}\s*&&\s*(\w+)", f.head)
                assert other is not None
                whole = f.unit.code[f.initials[0] : f.initials[1]] + f.text
                for member in sorted(freed):
                    taken = re.search(rf"\b{member}\s*[({{=]\s*{other[1]}\s*\.\s*{member}\b", whole)
                    emptied = re.search(
                        rf"\b{other[1]}\s*\.\s*{member}\s*=|swap|exchange|{other[1]}\s*\.\s*\w+\(", whole
                    )
                    if taken and not emptied:
                        yield self.native.fault(
                            "owner-copied", f, f.at, "moved", None, severity="error", name=member, cls=cls.name
                        )
                        break
        copies = [h for h in heads if re.search(rf"\(\s*(?:const\s+)?{name}\s*(?:<[^>]*>)?\s*(?:const\s*)?&(?!&)", h)]
        # an assignment of one's own leaves the copy constructor that the compiler writes
        if moved or any("operator" not in h or "delete" in h or "default" in h for h in copies):
            return
        if NO_COPY.search(cls.bases) or any(NO_COPY.search(k) or k.endswith("&") for k in cls.members.values()):
            return
        if any(re.search(r"DISALLOW|NO_?COPY|NONCOPYABLE", h) for h in heads):
            return
        code = cls.unit.code[cls.span[0] : cls.span[1]]
        if re.search(r"DISALLOW|NO_?COPY|NONCOPYABLE|DELETE_COPY|\bprivate\s*:[^:]*~", code):
            return
        where = self.copy_of(cls)
        released = sorted(freed & set(cls.members))[:1]
        if not released:
            return
        yield self.native.fault(
            "owner-copied", destructor, destructor.at, "copied" if where else "copyable", None,
            severity="error" if where else "note", name=released[0], cls=cls.name, notes=[where] if where else [],
        )  # fmt: skip

    def copy_of(self, cls: Class) -> tuple[Function, int, str] | None:
        """A place where an object of the class is copied."""
        name = re.escape(cls.name)
        pattern = re.compile(
            rf"\bvector\s*<\s*{name}\s*>\s*\w+|\bpush_back\(\s*{name}\s*[({{]|\b{name}\s+\w+\s*=\s*\*?\w+\s*;|\bmake_pair\([^;]*{name}\("
        )
        for function in self.sources.every_function():
            if cls.name not in function.text and cls.name not in function.head:
                continue
            if self.sources.classes(cls.name, function.unit.path)[:1] != [cls]:
                continue
            found = pattern.search(function.text)
            if found and "reserve" not in found[0] and "emplace" not in function.text:
                return function, function.body[0] + found.start(), "copy"
            for kind, _ in function.params:
                if re.fullmatch(rf"(?:const\s+)?(?:\w+::)*{name}(?:\s*<[^<>]*>)?", kind) and function.owner != cls.name:
                    return function, function.at, "copy"
        return None

    def never_reached(self, cls: Class) -> Iterator[Fault]:
        """A base without a virtual destructor, deleted through a pointer to it."""
        for word in re.findall(r"[A-Za-z_]\w*", cls.bases):
            if word in ("public", "private", "protected", "virtual", "std"):
                continue
            for base in self.sources.classes(word, cls.unit.path)[:1]:
                heads = [(h, at) for h, at in base.declared if re.search(rf"~\s*{base.name}\b", h)]
                code = base.unit.code[base.span[0] : base.span[1]]
                if (
                    base.bases
                    or not re.search(r"\bvirtual\b", code)
                    or any("virtual" in h or "override" in h or "protected" in h for h, _ in heads)
                ):
                    continue
                if re.search(rf"virtual\s+~|protected\s*:[^:]*~\s*{base.name}", code):
                    continue
                used = any(
                    re.search(rf"unique_ptr\s*<\s*(?:\w+::)*{base.name}\b", s.unit.code)
                    for s in self.sources.all if _together(s.path, cls.unit.path) and base.name in s.text
                )  # fmt: skip
                if used:
                    at = heads[0][1] + re.search(r"~", heads[0][0]).start() if heads else base.at  # type: ignore[union-attr]
                    yield self.native.place(
                        "allocation-not-freed", base.unit, at, "base", severity="error", name=base.name, cls=cls.name
                    )


def _rule(held: Held) -> str:
    rules = {"memory": "allocation-not-freed", "host": "allocation-not-freed", "event": "event-or-stream-leaked"}
    return rules.get(held.rule, "handle-not-destroyed")


def _together(a: str, b: str) -> bool:
    return a.rpartition("/")[0] == b.rpartition("/")[0]


def _only_returned(p: Paths, name: str) -> bool:
    """An accessor hands out the pointer and stays its owner."""
    return (
        bool(re.fullmatch(rf"\s*return\s+[^;]*\b{re.escape(name)}\b[^;]*;\s*", p.function.text)) or name in p.returned
    )


def grows(conditions: list[list[str]], name: str, text: str, members: Iterable[str] = ()) -> bool:
    """Whether a creation is under a comparison of sizes (`if (need > have)`) of which one is set afterwards, or under
    one with a member that remembers them (`if (n != n_)`)."""
    for condition in conditions:
        if name in condition and any(x in condition for x in ("!", "nullptr", "NULL")):
            return False
        ordered = any(x in ("<", ">", "<=", ">=") for x in condition)
        if ordered or "!=" in condition:
            for word in condition:
                set_later = (word[0].isalpha() or word[0] == "_") and re.search(rf"\b{re.escape(word)}\s*=(?!=)", text)
                if set_later and (ordered or word in members):
                    return True
    return False
