"""All native sources of a program: functions, classes and macros by name, and which of several is meant.

Sources are read lazily: those with a word of RESOURCES are read, and all others that name a class or function which is
asked for. Of several definitions of a name the one nearest by path is meant, as a project rarely uses a name twice.
"""

from __future__ import annotations

import re
from time import perf_counter

from ..program.model import Module, pack
from ..source.cpp import TOKEN, Class, Function, Unit, Unreadable, split, statements
from .native_words import API, CREATE, DESTROY, EXITS, Words, plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.program import Program
    from ..source.cpp import Stmt, Token

RESOURCES = ("<<<", "<< <", "cudaMemcpy", *(name for name, row in CREATE.items() if row[1] != "host"))
"""What a source holds that creates a resource or launches a kernel."""
RELEASING = re.compile(
    r"\b(?:cuda|hip|cu|cublas|cudnn|cusparse|cusolver|cufft|curand|nccl)\w*(?:Free|Destroy|Unload|Close|Unregister|destroy|Abort)\w*\s*\(|raw_delete"
)
TORCH = ("torch::", "<torch/", "<ATen/", "<c10/", "TORCH_CHECK", "at::Tensor", "c10::")
THROWS = re.compile(r"\bthrow\b|\b(?:TORCH_CHECK|AT_ERROR|AT_ASSERTM?|TORCH_INTERNAL_ASSERT|AT_CHECK)\b")
DEFINED = re.compile(r"\b([A-Za-z_]\w*)\s*\((?:[^(){};]|\([^(){};]*\))*\)[^;(){}=,]{0,60}(?::[^;{}]{0,300})?\{")
NAMED = re.compile(r"\b(?:class|struct)\s+(?:[A-Z_]+\s+)?([A-Za-z_]\w*)")
SECONDS = 2.0
"""For one file: a source that needs more is left out."""
DEEP = 4


class Source:
    """A source that was admitted. `shown` is the path that findings name, the Python file's for an embedded one."""

    __slots__ = ("_unit", "module", "path", "text", "torch")

    def __init__(self, path: str, text: str, module: Module) -> None:
        self.path = path
        self.text = text
        self.module = module
        self.torch = any(word in text for word in TORCH)
        self._unit: Unit | None = None

    @property
    def unit(self) -> Unit:
        if self._unit is None:
            self._unit = Unit(self.path, self.text)
        return self._unit

    def pos(self, offset: int, length: int = 1) -> int:
        line, column, end = self.unit.place(offset, length)
        return pack(line, column, line, end)


class Sources:
    def __init__(self, program: Program, embedded: list[tuple[str, str]]) -> None:
        """`embedded`: (path of the Python file, its text with everything but the native source blanked)."""
        self.program = program
        self.all: list[Source] = []
        for path, kind in sorted(program.others.items()):
            if kind == "native":
                text = program.text(path)
                if text is not None:
                    module = Module(path, (), frozenset())
                    module.program = program
                    self.all.append(Source(path, text, module))
        for path, text in embedded:
            module = program.modules.get(path) or Module(path, (), frozenset())
            module.program = program
            self.all.append(Source(path, text, module))
        self.active = [s for s in self.all if any(word in s.text for word in RESOURCES)]
        self.of_unit: dict[int, Source] = {}
        self._functions: dict[str, list[Function]] = {}
        self._classes: dict[str, list[Class]] = {}
        self._read: set[int] = set()
        self._named: set[str] = set()
        self._index: dict[str, list[Source]] = {}
        self._macros: dict[str, list[tuple[str, tuple[str, ...] | None, str]]] = {}
        self._throwing: dict[str, str] = {}
        self.given_up: list[tuple[str, str]] = []
        for source in self.active:
            self.read(source)

    def read(self, source: Source) -> None:
        """Enter a source's functions, classes and macros."""
        if id(source) in self._read:
            return
        self._read.add(id(source))
        begun = perf_counter()
        try:
            unit = source.unit
        except RecursionError:
            self.given_up.append((source.path, "nesting"))
            return
        if perf_counter() - begun > SECONDS or unit.broken:
            self.given_up.append((source.path, "braces that do not match" if unit.broken else "time"))
        self.of_unit[id(unit)] = source
        for name, (names, body) in unit.macros.items():
            self._macros.setdefault(name, []).append((source.path, names, body))
        if unit.broken:
            return
        for function in unit.functions:
            self._functions.setdefault(function.name, []).append(function)
        for cls in unit.classes:
            self._classes.setdefault(cls.name, []).append(cls)

    def source(self, unit: Unit) -> Source:
        return self.of_unit[id(unit)]

    def _look_for(self, name: str) -> None:
        """Read the sources that define something of this name, before saying that there is none."""
        if name in self._named:
            return
        self._named.add(name)
        for source in self._index.get(name, ()) if self._index else self._indexed().get(name, ()):
            if id(source) not in self._read:
                self.read(source)

    def _indexed(self) -> dict[str, list[Source]]:
        """The sources that are not read yet by the names of the functions and classes in them."""
        self._index[""] = []
        for source in self.all:
            if id(source) not in self._read:
                for word in {*DEFINED.findall(source.text), *NAMED.findall(source.text)}:
                    self._index.setdefault(word, []).append(source)
        return self._index

    def knows(self, name: str) -> bool:
        """Whether some source may have a function of this name."""
        if name in self._functions:
            return True
        self._look_for(name)
        return name in self._functions

    # --------------------------------------------------------------------------------------------------- by name
    def functions(self, name: str, near: str, count: int = -1) -> list[Function]:
        """Functions with bodies that a call may mean: the nearest ones, with `count` arguments where known."""
        last = plain_name(name).rpartition("::")[2]
        self._look_for(last)
        found = [f for f in self._functions.get(last, ()) if not f.on_device() or "__global__" in f.head]
        if count >= 0:
            found = [f for f in found if len(f.params) >= count] or found
        return nearest(found, near, lambda f: f.unit.path)

    def classes(self, name: str, near: str) -> list[Class]:
        self._look_for(name)
        return nearest(self._classes.get(name, []), near, lambda c: c.unit.path)

    def every_class(self) -> list[Class]:
        return [c for found in list(self._classes.values()) for c in found]

    def every_function(self) -> list[Function]:
        return [f for found in list(self._functions.values()) for f in found]

    def methods(self, cls: Class) -> list[Function]:
        """All methods of a class, also those defined outside of it in other files."""
        self._look_for(cls.name)
        path = cls.unit.path
        owned = [f for found in self._functions.values() for f in found if f.owner == cls.name]
        mine = [f for f in owned if cls.unit.path == f.unit.path and _within(f, cls)]
        for f in owned:
            if f in mine or any(_within(f, c) for c in self._classes.get(cls.name, ()) if c.unit is f.unit):
                continue
            if nearest(self._classes.get(cls.name, []), f.unit.path, lambda c: c.unit.path)[:1] == [cls] or (
                f.unit.path == path
            ):
                mine.append(f)
        return mine

    def constructor_of(self, function: Function) -> Class | None:
        found = self.classes(function.owner, function.unit.path) if function.owner else []
        return found[0] if found else None

    # ---------------------------------------------------------------------------------------------------- macros
    def macro(self, name: str, near: str) -> tuple[tuple[str, ...] | None, str] | None:
        found = self._macros.get(name)
        if not found:
            return None
        best = nearest(found, near, lambda m: m[0])
        return best[0][1], best[0][2]

    def leaves(self, name: str) -> str:
        """How a macro can leave the function: "throw", "return" or ""."""
        if name in EXITS:
            return "throw"
        if name not in self._throwing:
            self._throwing[name] = ""
            how = ""
            for _, _, body in self._macros.get(name, ()):
                if any(API.search(word) for word in re.findall(r"[A-Za-z_]\w+", body)):
                    continue  # a check of the runtime: after its failure nothing works
                if THROWS.search(body):
                    how = "throw"
                elif re.search(r"\breturn\b", body):
                    how = how or "return"
                else:
                    for word in re.findall(r"\b[A-Z][A-Z0-9_]{3,}\b", body):
                        how = how or (self.leaves(word) if word != name else "")
            self._throwing[name] = how
        return self._throwing[name]

    def expand(self, tokens: list[Token], near: str, depth: int = 0) -> list[Token]:
        """Uses of macros that create, release or launch, replaced by what they stand for, at the place of the use."""
        if depth > DEEP or not any(t in self._macros for t, _ in tokens):
            return tokens
        out: list[Token] = []
        at, n = 0, len(tokens)
        while at < n:
            text, offset = tokens[at]
            found = self.macro(text, near) if text in self._macros else None
            if found is None or not self._matters(text):
                out.append(tokens[at])
                at += 1
                continue
            names, body = found
            given: dict[str, list[Token]] = {}
            end = at
            if names is not None:
                if at + 1 >= n or tokens[at + 1][0] != "(":
                    out.append(tokens[at])
                    at += 1
                    continue
                parts, end = _arguments(tokens, at + 1)
                if end < 0:
                    raise Unreadable
                for i, name in enumerate(names):
                    if name == "...":
                        rest = parts[i:]
                        given["__VA_ARGS__"] = [
                            t for k, p in enumerate(rest) for t in ([(",", offset)] if k else []) + p
                        ]
                    else:
                        given[name] = parts[i] if i < len(parts) else []
            made: list[Token] = []
            for m in TOKEN.finditer(body):
                if m[0] in given:
                    made += given[m[0]]
                elif m[0] != "\\":
                    made.append((m[0], offset))
            out += self.expand(made, near, depth + 1)
            if len(out) > 200_000:
                raise Unreadable
            at = end + 1
        return out

    def _matters(self, name: str, depth: int = 0) -> bool:
        """Whether a macro creates, releases or launches something."""
        for _, _, body in self._macros.get(name, ()):
            if "<<<" in body or any(w in CREATE or w in DESTROY for w in re.findall(r"[A-Za-z_]\w+", body)):
                return True
            if depth < 2 and any(
                w in self._macros and w != name and self._matters(w, depth + 1)
                for w in re.findall(r"[A-Za-z_]\w+", body)
            ):
                return True
        return False

    # ------------------------------------------------------------------------------------------------ statements
    def statements(self, function: Function) -> list[Stmt]:
        """Raises Unreadable."""
        path = function.unit.path
        return statements(function, lambda tokens: self.expand(tokens, path))


def _within(function: Function, cls: Class) -> bool:
    return function.unit is cls.unit and cls.span[0] <= function.start < cls.span[1]


def _arguments(tokens: list[Token], at: int) -> tuple[list[list[Token]], int]:
    """The arguments of a macro whose bracket stands at `at`, and the index of the closing one (-1: none)."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for i in range(at, len(tokens)):
        text = tokens[i][0]
        if text in ("(", "[", "{"):
            depth += 1
            if depth == 1:
                continue
        elif text in (")", "]", "}"):
            depth -= 1
            if not depth:
                return parts, i
        if text == "," and depth == 1:
            parts.append([])
        else:
            parts[-1].append(tokens[i])
    return parts, -1


def nearest(found: list, near: str, path_of) -> list:  # type: ignore[no-untyped-def, type-arg]
    """Those with the longest common folder with the path `near`; the same file counts most."""
    if len(found) < 2:
        return list(found)
    best, out = -1, []
    parts = near.split("/")
    for x in found:
        other = path_of(x).split("/")
        score = 0
        while score < min(len(parts), len(other)) and parts[score] == other[score]:
            score += 1
        if score > best:
            best, out = score, [x]
        elif score == best:
            out.append(x)
    return out


__all__ = ["RELEASING", "RESOURCES", "Source", "Sources", "Words", "nearest", "split"]
