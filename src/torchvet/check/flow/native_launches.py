"""Kernel launches: on which stream and device they run; calls of the runtime whose status nobody reads."""

from __future__ import annotations

import re

from torchvet import knowledge

from ..source.cpp import TOKEN, Unreadable
from .native_words import CREATE, USERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..source.cpp import Function
    from .native import Fault, Native

GUARDS: tuple[str, ...] = tuple(knowledge.native("guards"))
DEFAULTS = frozenset(knowledge.native("default_streams"))
TENSOR = re.compile(r"\bTensor\b|\bTensorList\b")
BINDING = re.compile(
    r"PYBIND11_MODULE|TORCH_LIBRARY|TORCH_LIBRARY_IMPL|TORCH_LIBRARY_FRAGMENT|NB_MODULE|STABLE_TORCH_LIBRARY"
)
BINDINGS = ("PYBIND11_MODULE", "TORCH_LIBRARY", "NB_MODULE")
BOUND = re.compile(r"&\s*([A-Za-z_][\w:]*)|\bTORCH_(?:FN|BOX)\(\s*&?([\w:]+)|,\s*([A-Za-z_][\w:]*)\s*[,)]")
CALLED = re.compile(r"\b([A-Za-z_][\w:]*)\s*(?:<[^;(){}<]{0,200}>)?\s*\(")
PYTHON_GUARDS = ("cuda.device(", "cuda.device_of(")
PROGRAM = re.compile(r"\bint\s+main\s*\(")
CHECKED = re.compile(
    r"^(?:cuda|hip)(?:Memcpy|Memset|DeviceSynchronize|StreamSynchronize|EventRecord|EventSynchronize|Func)"
)
DEEPEST = 4


class Launches:
    def __init__(self, native: Native) -> None:
        self.native = native
        self.sources = native.sources
        self._of_torch: dict[str, bool] = {}
        self._alone: dict[int, bool] = {}
        self._launches: dict[int, list[tuple[int, str, list[str]]]] = {}
        self._launching: dict[int, int | None] = {}

    def faults(self) -> Iterator[Fault]:
        yield from once_per_file(self.streams())
        yield from once_per_file(self.guards())
        yield from self.allocations()
        yield from self.statuses()

    # --------------------------------------------------------------------------------------------------- streams
    def streams(self) -> Iterator[Fault]:
        for function in self.native.interesting:
            if "<<<" not in function.text or not self.of_torch(function) or self.stands_alone(function):
                continue
            for offset, name, stream in self.launches(function):
                if self.is_default(stream, function):
                    kernel = name.rpartition("::")[2]
                    yield self.native.fault(
                        "wrong-stream", function, offset, "launch", None, severity="warning", name=kernel
                    )

    def launches(self, function: Function) -> list[tuple[int, str, list[str]]]:
        """(offset, kernel, words of the stream) of the launches in a function; without a stream the words are ["0"]."""
        key = id(function)
        if key not in self._launches:
            self._launches[key] = list(self._launches_of(function)) if "<<<" in function.text else []
        return self._launches[key]

    def _launches_of(self, function: Function) -> Iterator[tuple[int, str, list[str]]]:
        code = function.unit.code
        tokens = [(m[0], m.start()) for m in TOKEN.finditer(code, *function.body)]
        for i, (text, _) in enumerate(tokens):
            if text != "<<<":
                continue
            parts: list[list[str]] = [[]]
            depth = 0
            for word, _ in tokens[i + 1 : i + 400]:
                if word == ">>>" and depth <= 0:
                    break
                depth += word in ("(", "[", "{")
                depth -= word in (")", "]", "}")
                if word == "," and not depth:
                    parts.append([])
                else:
                    parts[-1].append(word)
            else:
                return
            at = i - 1
            if at >= 0 and tokens[at][0] in (">", ">>>"):
                angles = 0
                while at >= 0:
                    word = tokens[at][0]
                    angles += (word == ">") + 3 * (word == ">>>") - (word == "<")
                    at -= 1
                    if angles <= 0:
                        break
            at = max(at, 0)
            joined = " ".join(parts[-1])
            if len(parts) < 4 and (joined.isupper() or "..." in joined or "VA_ARGS" in joined):
                continue  # a macro that holds several
            yield tokens[at][1], tokens[at][0], parts[3] if len(parts) > 3 else ["0"]

    def is_default(self, stream: list[str], function: Function) -> bool:
        words = [w.rpartition("::")[2] for w in stream if w not in ("(", ")")]
        if any(w in DEFAULTS for w in words) and len(words) <= 3:
            return True
        if len(words) == 1:
            made = re.search(
                rf"\b(?:cuda|hip)?[Ss]tream_t\s+{re.escape(words[0])}\s*(?:=\s*|\{{)(?:0|nullptr|NULL|cudaStreamDefault|cudaStreamLegacy)\s*[;}}]",
                function.text,
            )
            return made is not None and not re.search(rf"\b{re.escape(words[0])}\s*=(?!=)", function.text[made.end() :])
        return False

    def of_torch(self, function: Function) -> bool:
        """Whether the function is of an extension of PyTorch: its file or a file beside it knows torch."""
        source = self.sources.source(function.unit)
        if source.torch:
            return True
        folder = source.path.rpartition("/")[0]
        if folder not in self._of_torch:
            self._of_torch[folder] = any(s.torch and _near(s.path, source.path) for s in self.sources.all)
        return self._of_torch[folder]

    def stands_alone(self, function: Function) -> bool:
        """A program of its own (a benchmark, a test): its streams are its affair."""
        key = id(function.unit)
        if key not in self._alone:
            code = function.unit.code
            self._alone[key] = ("main" in code and bool(PROGRAM.search(code))) or _is_test(function.unit.path)
        return self._alone[key]

    # ---------------------------------------------------------------------------------------------------- guards
    def guards(self) -> Iterator[Fault]:
        for path in self.native.program.modules:
            text = self.native.program.text(path) or ""
            if any(word in text for word in PYTHON_GUARDS):
                return
        for function in self.entries():
            if self.stands_alone(function) or self.guarded(function):
                continue
            found = self.launching(function)
            if found is not None:
                yield self.native.fault(
                    "device-guard-missing", function, found, "entry", None, severity="warning", name=function.name,
                    argument=next((n for k, n in function.params if TENSOR.search(k)), ""),
                )  # fmt: skip

    def entries(self) -> Iterator[Function]:
        """Functions that take tensors and are bound to Python."""
        seen: set[int] = set()
        embedded = {s.path for s in self.sources.all if s.path.endswith((".py", ".ipynb"))}
        for source in self.sources.all:
            if source.path in embedded:
                for f in source.unit.functions:
                    if "static" not in f.head and not f.owner and any(TENSOR.search(k) for k, _ in f.params):
                        self.sources.read(source)
                        yield f
                continue
            if not any(word in source.text for word in BINDINGS):
                continue
            self.sources.read(source)
            code = source.unit.code
            names: list[str] = []
            for m in BINDING.finditer(code):
                open_at = code.find("{", m.end())
                close = source.unit.match.get(open_at, -1) if open_at >= 0 else -1
                if close > 0:
                    names += [next(x for x in found if x) for found in BOUND.findall(code, open_at, close)]
            for name in dict.fromkeys(names):
                found = self.sources.functions(name, source.path)
                near = [f for f in found if any(TENSOR.search(k) for k, _ in f.params) and not f.owner]
                for f in near:
                    if id(f) not in seen:
                        seen.add(id(f))
                        yield f

    def guarded(self, function: Function) -> bool:
        text = function.text
        if any(word in text for word in GUARDS):
            return True
        for word in set(re.findall(r"\b[A-Z][A-Z0-9_]{4,}\b", text)):
            found = self.sources.macro(word, function.unit.path)
            if found is not None and any(word in found[1] for word in GUARDS):
                return True
        return False

    def launching(self, function: Function, depth: int = 0) -> int | None:
        """The offset in a function where a launch begins that no guard on the way precedes, or None."""
        key = id(function)
        if key not in self._launching:
            self._launching[key] = None  # a recursion launches nothing
            self._launching[key] = self._first_launch(function, depth)
        return self._launching[key]

    def _first_launch(self, function: Function, depth: int) -> int | None:
        for offset, _, _ in self.launches(function):
            return offset
        if depth > DEEPEST:
            return None
        seen: set[str] = set()
        for m in CALLED.finditer(function.unit.code, *function.body):
            name = m[1].rpartition("::")[2]
            if name in seen or name in USERS or not self.sources.knows(name):
                continue
            seen.add(name)
            found = [f for f in self.sources.functions(name, function.unit.path) if not f.owner and f is not function]
            if not found or any(self.guarded(f) for f in found):
                continue
            if all(self.launching(f, depth + 1) is not None for f in found):
                return m.start(1)
        return None

    # ----------------------------------------------------------------------------------- allocations and statuses
    def allocations(self) -> Iterator[Fault]:
        """Device memory that a function of tensors allocates and frees on each call."""
        for function in self.native.interesting:
            if not any(TENSOR.search(k) for k, _ in function.params) or self.stands_alone(function):
                continue
            p = self.native.paths(function, self.sources.constructor_of(function))
            if p.trouble:
                continue
            for held in p.created:
                if (
                    held.family not in ("device memory", "HIP memory")
                    or held.member
                    or held.static
                    or held.via
                    or "Async" in held.call
                ):
                    continue
                if held.name in p.released and held.name not in p.kept:
                    yield self.native.fault(
                        "raw-allocation-per-call",
                        function,
                        held.offset,
                        "call",
                        held,
                        severity="note",  # right, only slower
                        function_name=function.name,
                    )
                    break

    def statuses(self) -> Iterator[Fault]:
        """Calls as statements of their own: one finding for each file."""
        first: dict[int, tuple[Function, int, str]] = {}
        count: dict[int, int] = {}
        from .native_calls import expressions

        for function in self.native.interesting:
            if not self.of_torch(function) or self.stands_alone(function) or function.name.startswith("~"):
                continue
            try:
                for tokens, _ in expressions(self.sources.statements(function)):
                    name = tokens[0][0] if tokens else ""
                    if (
                        len(tokens) > 2
                        and tokens[1][0] == "("
                        and (CHECKED.match(name) or (name in CREATE and name[:3] in ("cud", "hip")))
                    ):
                        key = id(function.unit)
                        count[key] = count.get(key, 0) + 1
                        first.setdefault(key, (function, tokens[0][1], name))
            except (Unreadable, RecursionError):
                continue
        for key, (function, offset, name) in first.items():
            yield self.native.fault(
                "unchecked-cuda-call",
                function,
                offset,
                "status",
                None,
                severity="note",
                call=name,
                count=str(count[key]),
            )


def once_per_file(faults: Iterator[Fault]) -> Iterator[Fault]:
    """The first fault of each file, the others as further places of it."""
    first: dict[str, Fault] = {}
    for fault in faults:
        known = first.setdefault(fault.module.path, fault)
        if known is not fault:
            known.notes.append((fault.module, fault.pos, "more"))
    yield from first.values()


def _near(a: str, b: str) -> bool:
    """Whether two files lie in the same folder, one below the other, or side by side."""
    x, y = a.split("/")[:-1], b.split("/")[:-1]
    same = 0
    while same < min(len(x), len(y)) and x[same] == y[same]:
        same += 1
    return len(x) - same <= 1 and len(y) - same <= 1


def _is_test(path: str) -> bool:
    parts = path.lower().split("/")
    return any(
        p in ("test", "tests", "benchmark", "benchmarks", "examples", "third_party") for p in parts[:-1]
    ) or bool(re.search(r"(?:^|_)(?:test|bench|benchmark)s?(?:_|\.)", parts[-1]))
