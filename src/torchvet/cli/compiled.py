"""Imports of torchvet's own modules straight from their compiled files, and from the start file that gathers them.

A check of a small project imports 120 modules, and what Python's own finder does around reading each of them is a tenth
of all its time. The finder here reads `__pycache__/x.*.pyc` when it was compiled from the `x.py` beside it as that is
now, by the same rule as Python's; whatever else there is (no or an old compiled file, another form of it) is left to
the finders behind it.

What a process took from such files it leaves in the start file, `__pycache__/start.*` of the package, where Python may
write its own compiled files too: the next process takes it from there in one read each, and with it what `re` made of
our regular expressions (`check/source/patterns.py`). An entry holds for the source of its time and size; the whole file
for this interpreter and this folder.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    Entry = tuple[int, int, bool, str]
    """Of a module in the start file: time of change (ns) and size of its source, is it a package, its group."""
    Expression = tuple[str | bytes, int]

OURS = __name__.partition(".")[0] + "."
HEADER = 16
"""Bytes before the code: magic number, flags, time of change and size of the source (PEP 552)."""
SIGN = b"torchvet"
HEAD = len(SIGN) + 4
"""Bytes at the begin of the start file: its sign, and the length of its table."""


class Compiled:
    """Finder and loader of the modules of this package."""

    def __init__(self, magic: bytes, tag: str, spec: type[ModuleSpec], start: Start | None = None) -> None:
        self.spec: Any = spec
        self.begin = magic + b"\0\0\0\0"  # no flags: checked by time and size
        self.ending = f".{tag}.pyc"
        self.start = start
        self.entries: dict[str, Entry] = start.entries if start else {}
        self.fresh: dict[str, tuple[Entry, CodeType]] = {}
        """Modules that were not in the start file."""
        self.outermost = ""
        """The module whose import is going on, and makes others be imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not path or not name.startswith(OURS):
            return None
        stem = f"{path[0]}/{name[name.rindex('.') + 1 :]}"
        entry = self.entries.get(name)
        package = entry[2] if entry else False
        try:
            try:
                source = f"{stem}/__init__.py" if package else f"{stem}.py"
                status = os.stat(source)
            except FileNotFoundError:
                package = not package
                source = f"{stem}/__init__.py" if package else f"{stem}.py"
                status = os.stat(source)
            folder, last = (stem, "__init__") if package else (path[0], stem[len(path[0]) + 1 :])
            compiled = f"{folder}/__pycache__/{last}{self.ending}"
            code = None
            if entry and entry[:3] == (status.st_mtime_ns, status.st_size, package):
                assert self.start is not None
                code = self.start.code(name)
            if code is None:
                code = self.code_in(compiled, status)
                if code is None:
                    return None
                if self.start:
                    group = self.outermost or name
                    self.fresh[name] = (status.st_mtime_ns, status.st_size, package, group), code
        except OSError:
            return None
        if entry and not self.outermost and entry[3] == name:
            self.bring(name)
        spec = self.spec(name, self, origin=source, loader_state=code, is_package=package)
        if package:
            spec.submodule_search_locations.append(folder)
        spec.has_location = True
        spec.cached = compiled
        return spec

    def code_in(self, compiled: str, status: os.stat_result) -> CodeType | None:
        """The code in a compiled file, None when it was not made from this source."""
        file = os.open(compiled, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            data = os.read(file, os.fstat(file).st_size)
        finally:
            os.close(file)
        made = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
        made += (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
        if data[:HEADER] != self.begin + made:
            return None
        code: CodeType = marshal.loads(memoryview(data)[HEADER:])
        return code

    def bring(self, name: str) -> None:
        """Import what the import of a module brings with it, the innermost first, as it was the last time: half of the
        time of an import is spent on the way through Python's machinery and back."""
        assert self.start is not None
        self.outermost = name
        try:
            for member in self.start.members(name):
                parent, _, last = member.rpartition(".")
                if member == name or member in sys.modules or parent not in sys.modules:
                    continue
                spec = self.find_spec(member, sys.modules[parent].__path__)
                if spec is None or spec.loader is not self:
                    continue
                module = type(sys)(member)
                module.__spec__, module.__loader__, module.__package__ = spec, self, spec.parent
                module.__file__, module.__cached__ = spec.origin, spec.cached
                if spec.submodule_search_locations is not None:
                    module.__path__ = spec.submodule_search_locations
                sys.modules[member] = module
                try:
                    self.exec_module(module)
                except BaseException:
                    del sys.modules[member]
                    raise
                setattr(sys.modules[parent], last, module)
        finally:
            self.outermost = ""

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        code, spec.loader_state = spec.loader_state, None
        if self.outermost:
            exec(code, module.__dict__)
        else:
            self.outermost = spec.name
            try:
                exec(code, module.__dict__)
            finally:
                self.outermost = ""
        if spec.name in self.fresh:  # in the order in which they end
            self.fresh[spec.name] = self.fresh.pop(spec.name)


class Start:
    """The start file at `path`: the code of modules, and programs of regular expressions. `made_by`: what it must have
    been written by. A file that is none, or another's, counts as empty.

    Modules that one import brings with it are a group: their code is read as a whole, which takes two thirds of the
    time, because a name that they share is made once."""

    def __init__(self, path: str, made_by: tuple[str, ...]) -> None:
        self.path = path
        self.made_by = made_by
        self.entries: dict[str, Entry] = {}
        self.patterns: dict[Expression, bytes] = {}
        self.groups: dict[str, tuple[int, int]] = {}
        self.read: dict[str, dict[str, CodeType]] = {}
        self.file = -1
        try:
            self.file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            head = os.read(self.file, HEAD)
            length = int.from_bytes(head[len(SIGN) :], "little")
            self.base = HEAD + length
            if head[: len(SIGN)] != SIGN:
                return
            made_by, rest, groups, entries, patterns = marshal.loads(os.read(self.file, length))
            if made_by == self.made_by and os.fstat(self.file).st_size == self.base + rest:
                self.groups, self.entries, self.patterns = groups, entries, patterns
        except (OSError, EOFError, OverflowError, TypeError, ValueError):
            pass

    def members(self, group: str) -> list[str]:
        """The modules of a group, those that others need before these."""
        return list(self.read.get(group, ()))

    def code(self, name: str) -> CodeType | None:
        """The code of a module that has an entry."""
        group = self.entries[name][3]
        if group not in self.read:
            place, length = self.groups[group]
            if hasattr(os, "pread"):
                data = os.pread(self.file, length, self.base + place)
            else:
                os.lseek(self.file, self.base + place, 0)
                data = os.read(self.file, length)
            try:
                self.read[group] = marshal.loads(data)
            except (EOFError, OverflowError, TypeError, ValueError):  # damaged on the disk: as if it were not there
                self.read[group] = {}
        return self.read[group].get(name)

    def write(self, fresh: dict[str, tuple[Entry, CodeType]], patterns: dict[Expression, bytes]) -> None:
        """Write the file anew with more in it. OSError where that is not possible."""
        entries = {**self.entries, **{name: entry for name, (entry, _) in fresh.items()}}
        codes: dict[str, dict[str, CodeType]] = {}
        for name, entry in entries.items():
            code = fresh[name][1] if name in fresh else self.code(name)
            if code is not None:
                codes.setdefault(entry[3], {})[name] = code
        groups, body = {}, bytearray()
        for group, members in codes.items():
            # what other things of this process refer to would be marked as shared: slower to read
            data = marshal.dumps(marshal.loads(marshal.dumps(members)))
            groups[group] = len(body), len(data)
            body += data
        entries = {name: entry for name, entry in entries.items() if name in codes.get(entry[3], ())}
        table = marshal.dumps((self.made_by, len(body), groups, entries, {**self.patterns, **patterns}))
        name = f"{self.path}.{os.getpid()}"
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(file, "wb") as f:
                f.write(SIGN + len(table).to_bytes(HEAD - len(SIGN), "little") + table + body)
            os.replace(name, self.path)
        except OSError:
            os.unlink(name)
            raise


_installed: list[Compiled] = []


def install() -> None:
    """Look here first, in a process of torchvet's own."""
    # these names are in every process; the public `importlib.util` has them too and costs 3 ms
    magic = getattr(sys.modules.get("_frozen_importlib_external"), "MAGIC_NUMBER", None)
    tag = sys.implementation.cache_tag
    if not (magic and tag and __spec__) or sys.flags.optimize or sys.pycache_prefix:
        return
    from torchvet import __version__

    folder = os.path.dirname(os.path.dirname(__file__))
    made_by = (__version__, sys.version, sys.implementation.name, folder)
    start = Start(f"{folder}/__pycache__/start.{tag}", made_by)
    _installed.append(Compiled(magic, tag, type(__spec__), start))  # type: ignore[arg-type]
    sys.meta_path.insert(0, _installed[0])  # type: ignore[arg-type]
    from torchvet.check.source import patterns

    patterns.kept = start.patterns


def keep() -> None:
    """Leave what this process had to take from elsewhere in the start file."""
    from torchvet.check.source import patterns

    if not _installed or sys.dont_write_bytecode or not (_installed[0].fresh or patterns.made):
        return
    start = _installed[0].start
    assert start is not None
    if os.access(os.path.dirname(start.path), os.W_OK):
        try:
            start.write(_installed[0].fresh, patterns.programs(patterns.made))
        except Exception:  # a full disk, another process, an interpreter that keeps its programs otherwise
            return  # what only helps the next process must not fail this one
