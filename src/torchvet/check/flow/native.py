"""Ownership of CUDA and C++ resources in the native code of a training repository.

`native_sources` finds functions, classes and macros; `native_words` reads one expression, `native_paths` one function
path by path, `native_calls` says what functions do with what they are given, `native_classes` compares what a class
creates with what its destructor releases, `native_launches` looks at streams and devices, `native_python` at calls of
the runtime from Python.
"""

from __future__ import annotations

import re
from time import perf_counter

from torchvet.findings import ERROR, WARNING

from ..program.model import Module
from ..source.cpp import Function, Unit
from .native_classes import Classes, _rule, grows
from .native_fields import Fields
from .native_held import Held, Leak
from .native_launches import Launches
from .native_paths import Paths
from .native_python import Calls
from .native_sources import RESOURCES, Sources
from .native_words import RELEASES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Options
    from ..program.program import Program
    from ..source.cpp import Class

SECONDS = 10.0
"""For all functions of one file; those after it are left out."""
MOST = 4000
"""Functions that are looked at."""


class Fault:
    """One fault: the rule that says it, where, what (`kind`), and the words of its message."""

    __slots__ = ("confidence", "kind", "module", "notes", "pos", "rule", "severity", "words")

    def __init__(self, rule: str, module: Module, pos: int, kind: str, severity: str, words: dict[str, str]) -> None:
        self.rule = rule
        self.module = module
        self.pos = pos
        self.kind = kind
        self.severity = severity
        self.words = words
        self.notes: list[tuple[Module, int, str]] = []


class Native:
    def __init__(self, program: Program, options: Options) -> None:
        from ..source.embedded import masks

        self.program = program
        self.options = options
        self.sources = Sources(program, masks(program))
        self._paths: dict[tuple[int, int], Paths] = {}
        self._faults: list[Fault] | None = None
        self._spent: dict[str, float] = {}
        self.interesting = self._interesting()
        program.given_up += self.sources.given_up

    def _interesting(self) -> list[Function]:
        """Functions that create, release or launch, also through macros and functions that hand out their creation."""
        sources = self.sources
        macros = [m for m in sources._macros if sources._matters(m)]
        words = (*RESOURCES, *macros, "delete", "free(")
        found: list[Function] = []
        seen: set[int] = set()
        present: dict[int, list[str]] = {}
        for f in sources.every_function():
            if f.on_device():
                continue
            here = present.get(id(f.unit))
            if here is None:
                here = present[id(f.unit)] = [w for w in words if w in f.unit.code]
            text = f.text
            if any(w in text for w in here) or (
                f.initials[1] and any(w in f.unit.code[slice(*f.initials)] for w in here)
            ):
                seen.add(id(f))
                found.append(f)
        from .native_calls import summaries

        made = [f.name for f in found if not f.owner and summaries(sources)._creates(f, 0) is not None]
        if made:
            users = re.compile("|".join(rf"\b{re.escape(n)}\s*\(" for n in sorted(set(made))))
            for source in sources.all:
                if users.search(source.text):
                    sources.read(source)
            for f in sources.every_function():
                if id(f) not in seen and not f.on_device() and users.search(f.text):
                    found.append(f)
        return found[:MOST]

    def paths(self, function: Function, cls: Class | None) -> Paths:
        key = (id(function), id(cls))
        if key not in self._paths:
            path = function.unit.path
            over = self._spent.get(path, 0.0) > SECONDS
            begun = perf_counter()
            self._paths[key] = made = Paths(self.sources, function, cls, 0, [] if over else None)
            self._spent[path] = self._spent.get(path, 0.0) + perf_counter() - begun
            made.trouble = made.trouble or over
            if self._paths[key].trouble:
                self.program.given_up.append((function.unit.path, function.name))
        return self._paths[key]

    # ----------------------------------------------------------------------------------------------------- faults
    def fault(
        self, rule: str, function: Function, offset: int, kind: str, held: Held | None, *, severity: str = ERROR,
        notes: list[tuple[Function, int, str]] | None = None, **words: str,
    ) -> Fault:  # fmt: skip
        if held is not None:
            words = {**about(held), **words}
        made = self.place(rule, function.unit, offset, kind, severity=severity, function=function.name, **words)
        for f, at, what in notes or ():
            source = self.sources.source(f.unit)
            made.notes.append((source.module, source.pos(at), what))
        return made

    def place(self, rule: str, unit: Unit, offset: int, kind: str, *, severity: str, **words: str) -> Fault:
        source = self.sources.source(unit)
        length = len((re.compile(r"[~\w:]+").match(unit.code, offset) or [""])[0]) or 1
        return Fault(rule, source.module, source.pos(offset, length), kind, severity, words)

    def of(self, rule: str) -> list[Fault]:
        if self._faults is None:
            self._faults = []
            for f in self.interesting:
                cls = self.sources.constructor_of(f)
                self._of_paths(self.paths(f, cls))
            classes = Classes(self)
            self._faults += classes.faults()
            for p, held, cls in Fields(self, classes).leaks():
                self._faults.append(self.fault(_rule(held), p.function, held.offset, "member", held, cls=cls.name))
            self._faults += Launches(self).faults()
            self._faults += Calls(self.program).faults()
        return [x for x in self._faults if x.rule == rule]

    def _of_paths(self, p: Paths) -> None:
        assert self._faults is not None
        for inner in p.inner:
            self._of_paths(inner)
        if p.trouble or p.function.name == "main":  # what main holds goes with the process
            return
        for held, offset, by in p.mismatches:
            words = {**about(held), "by": by}
            made = self.place("free-mismatch", p.function.unit, offset, "mismatch", severity=ERROR, **words)
            made.notes.append(self._note(p, held))
            self._faults.append(made)
        for held, offset, by in p.twice:
            words = {**about(held), "by": by}
            made = self.place("free-mismatch", p.function.unit, offset, "twice", severity=ERROR, **words)
            made.notes.append(self._note(p, held))
            self._faults.append(made)
        mismatched = {id(h) for h, _, _ in p.mismatches}
        for held, offset, kind in p.overwrites:
            if held.rule != "host" and not held.static:
                mismatched.add(id(held))
                made = self.fault(_rule(held), p.function, offset, kind, held)
                made.notes.append(self._note(p, held))
                self._faults.append(made)
        never: set[int] = set()
        for held in p.created:
            if held.member or held.static or id(held) in mismatched or held.via.startswith("~"):
                continue
            if held.rule == "host" and held.family not in ("new[]", "malloc"):
                continue  # an object may enter itself somewhere
            if held.name in p.released or held.name in p.kept:
                continue
            if held.name.startswith("=") and self._unregistered(p):
                continue
            if id(held) not in never:
                never.add(id(held))
                severity = WARNING if held.rule == "host" else ERROR
                self._faults.append(self.fault(_rule(held), p.function, held.offset, "local", held, severity=severity))
        gone = {h.name for h in p.created if id(h) in never}
        by_exit: dict[int, list[Leak]] = {}
        for leak in p.leaks:
            held = leak.held
            if held.member or held.static or id(held) in never or held.name in gone or id(held) in mismatched:
                continue
            if leak.kind == "end" and held.name not in p.released:
                continue
            if held.name.startswith("=") and held.name not in p.released:
                continue
            if held.rule == "host" and held.name not in p.released:
                continue
            by_exit.setdefault(held.offset if leak.kind in ("scope", "end") else leak.offset, []).append(leak)
        said: dict[int, Fault] = {}
        for offset, leaks in sorted(by_exit.items()):
            held = leaks[0].held
            if id(held) in said:  # one finding for each resource, further exits below it
                source = self.sources.source(p.function.unit)
                said[id(held)].notes.append((source.module, source.pos(offset), "more"))
                continue
            names = ", ".join(dict.fromkeys(x.held.path for x in leaks))
            severity = WARNING if all(x.held.rule == "host" for x in leaks) else ERROR
            made = self.fault(
                "leak-on-path",
                p.function,
                offset,
                leaks[0].kind,
                held,
                severity=severity,
                exit=leaks[0].name or leaks[0].kind,
            )
            said[id(held)] = made
            made.words["name"] = names
            made.notes.append(self._note(p, held))
            self._faults.append(made)
        for held, conditions, _ in p.refills:
            before = any(at < held.offset for _, at in p.released.get(held.name, ()))
            if held.static and not held.element and not before and grows(conditions, held.name, p.function.text):
                self._faults.append(self.fault(_rule(held), p.function, held.offset, "overwritten", held))

    def _note(self, p: Paths, held: Held) -> tuple[Module, int, str]:
        source = self.sources.source(p.function.unit)
        return source.module, source.pos(held.offset, len(held.call)), "created"

    def _unregistered(self, p: Paths) -> bool:
        """Whether pages that a function locks are unlocked somewhere else: not by what locks others itself."""
        for s in self.sources.all:
            if s.path.rpartition("/")[0] != p.near.rpartition("/")[0] or "HostUnregister" not in s.text:
                continue
            own = [f for f in s.unit.functions if "HostRegister" in f.text and f.owner == ""]
            for m in re.finditer("HostUnregister", s.unit.code):
                if not any(f.body[0] <= m.start() <= f.body[1] for f in own):
                    return True
        return False

    # -------------------------------------------------------------------------------------------------- questions
    def allocations(self) -> list[Fault]:
        """Memory that nothing frees."""
        return self.of("allocation-not-freed")

    def exits(self) -> list[Fault]:
        """Places where a function leaves with something that it releases on other paths."""
        return self.of("leak-on-path")

    def handles(self) -> list[Fault]:
        """Handles, descriptors, plans, communicators, graphs that nothing destroys."""
        return self.of("handle-not-destroyed")

    def events(self) -> list[Fault]:
        """Events and streams that nothing destroys."""
        return self.of("event-or-stream-leaked")

    def unguarded(self) -> list[Fault]:
        """Entry points that launch on the device that happens to be current."""
        return self.of("device-guard-missing")

    def default_streams(self) -> list[Fault]:
        """Launches on the default stream."""
        return self.of("wrong-stream")

    def per_call(self) -> list[Fault]:
        """Device memory that every call allocates and frees."""
        return self.of("raw-allocation-per-call")

    def unchecked(self) -> list[Fault]:
        """Calls whose status is dropped."""
        return self.of("unchecked-cuda-call")

    def copies(self) -> list[Fault]:
        """Classes whose copies release the same thing twice."""
        return self.of("owner-copied")

    def mismatches(self) -> list[Fault]:
        """Memory of one allocator that another frees."""
        return self.of("free-mismatch")


def about(held: Held) -> dict[str, str]:
    """The words of a message about a resource."""
    from .native_words import DESTROY

    create = held.call.rpartition("::")[2]
    guesses = [create.replace("Create", "Destroy").removesuffix("WithFlags").removesuffix("WithPriority")]
    if "MallocAsync" in create:
        guesses.insert(0, create.replace("MallocAsync", "FreeAsync"))
    free = next((g for g in guesses if g in DESTROY and g != create), RELEASES.get(held.family, "delete"))
    return {"name": held.path.lstrip("="), "call": create, "free": free, "family": held.family}
