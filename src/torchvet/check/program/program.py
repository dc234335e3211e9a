"""All modules of a check, and what can be asked about them: imports, bodies on demand, callers, positions.

A tree may hold many independent programs whose modules share names. An import is looked up in the importing file's own
folder, in the folder above its outermost package, and in the folders between the file and its nearest project root
(.git, pyproject.toml, setup.py, setup.cfg, requirements.txt) and that root's `src`; never by bare name across the tree.
"""

from __future__ import annotations

import os
from posixpath import join

from ..source.search import searchable
from .callers import Sites, call_at, called_names, callee_name, defines
from .collect import lower, lower_function
from .folders import above, below, is_top
from .guard import Guard
from .model import Class, Function, Module, characters, collect_expr, definitions, expressions_of, span_of, walk_block
from .names import Scope, call_targets, entities_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .attributes import Attributes
    from .heirs import Heirs
    from .model import Block, Expr, Stmt
    from .names import Entity

__all__ = ("Program", "call_at", "called_names", "callee_name")

MARKERS = frozenset((".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"))
NOTHING: frozenset[str] = frozenset()
SPLIT_FILES = 32
"""So many files are kept as lists of lines: for all files of a large project those take four times their texts."""
MOST_ON_DEMAND = 100_000
"""A file of the walk that holds no subject word and is larger than this (characters) is not opened because a call leads
there: it is a table or a model, parsing costs 10 ms and more, and what it gives stays unknown."""


class Program(Sites):
    """The modules of one check. `root` is absolute; module paths are relative to it, in POSIX form."""

    def __init__(self, root: str, files: Iterable[str], read: Callable[[str], str | None]) -> None:
        super().__init__()
        self.root = root
        self.files = list(files)
        self._walked = frozenset(self.files)
        self.modules: dict[str, Module] = {}
        self.loaded_on_demand: set[str] = set()
        self.others: dict[str, str] = {}  # path to kind: admitted files that are no Python (`source.walk`)
        self.consulted: set[str] = set()  # other files that the answer depends on, there or not
        self.crashes: list[tuple[str, str]] = []
        self.given_up: list[tuple[str, str]] = []
        self._read = read
        self._texts: dict[str, str | None] = {}
        self._lines: dict[str, list[str]] = {}
        self._listing: dict[str, frozenset[str]] = {}
        self._search: dict[str, tuple[str, ...]] = {}
        self._roots: dict[str, str | None] = {}
        self._scopes: dict[int, Scope] = {}
        self._mains: dict[str, Function] = {}
        self._heirs: Heirs | None = None
        self._bases: dict[int, tuple[list[Class], list[str]]] = {}
        self._attributes: Attributes | None = None
        self._found: dict[tuple[str, str, int], str | None] = {}
        self._defined: dict[tuple[str, str], str] = {}
        self.namespaces: dict[tuple[str, str], bool] = {}  # whether a folder's files import a folder by that name
        self._statements: dict[int, tuple[Stmt, ...]] = {}
        self._expressions: dict[int, tuple[Expr, ...]] = {}
        self._calls: dict[int, tuple[Expr, ...]] = {}

    def guard(self, module: Module) -> Guard:
        """`with program.guard(module):` a failure of torchvet inside becomes an internal-error finding of that file,
        and the check goes on. With TORCHVET_DEBUG set it is raised."""
        return Guard(self, module.path)

    def give_up(self, function: Function, why: str) -> None:
        """Note that an analysis did not finish a function (its budget ran out): shown under --timing, never silent."""
        self.given_up.append((f"{function.module.path}:{function.qualname}", why))

    # ------------------------------------------------------------------------------------------------ modules
    def add(self, path: str, block: Block, words: frozenset[str] = NOTHING) -> Module:
        module = self.modules[path] = Module(path, block, words)
        module.program = self
        return module

    def module(self, path: str) -> Module | None:
        """The module in this file, parsed now if it was not; None when it cannot be parsed."""
        if path in self.modules:
            return self.modules[path]
        text = self.text(path)
        if text is None or (len(text) > MOST_ON_DEMAND and path in self._walked):
            return None
        try:
            block = lower(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        self.loaded_on_demand.add(path)
        return self.add(path, block)

    def text(self, path: str) -> str | None:
        if path not in self._texts:
            text = self._read(path)
            self._texts[path] = text and searchable(text)
        return self._texts[path]

    def lines(self, path: str) -> list[str]:
        """The lines of a file; those of a part of it: `lines_of`."""
        known = self._lines.get(path)
        if known is None:
            if len(self._lines) >= SPLIT_FILES:
                del self._lines[next(iter(self._lines))]
            known = self._lines[path] = self.indexed(path)[0].split("\n")
        return known

    def source_line(self, module: Module | str, line: int) -> str:
        text, starts = self.indexed(module if isinstance(module, str) else module.path)
        if not 0 < line <= len(starts):
            return ""
        return text[starts[line - 1] : starts[line] - 1 if line < len(starts) else len(text)]

    def entries(self, folder: str) -> frozenset[str]:
        """Names in a folder ("" is the root)."""
        if folder not in self._listing:
            try:
                self._listing[folder] = frozenset(os.listdir(os.path.join(self.root, folder)))
            except OSError:
                self._listing[folder] = NOTHING
        return self._listing[folder]

    def project_root(self, folder: str) -> str | None:
        """The nearest folder at or above this one that holds a project's marker, or None."""
        if folder not in self._roots:
            if self.has_marker(folder):
                self._roots[folder] = folder
            else:
                up = above(folder)
                climb = up is not None and os.path.isdir(os.path.join(self.root, up))
                if climb and up is not None and up.count("..") <= 8 and not is_top(os.path.join(self.root, folder)):
                    self._roots[folder] = self.project_root(up)
                else:
                    self._roots[folder] = None
        return self._roots[folder]

    def has_marker(self, folder: str) -> bool:
        """A folder above the root is not listed: what lies beside a project may be a million files."""
        if folder[:2] == "..":
            return any(os.path.lexists(os.path.join(self.root, folder, name)) for name in MARKERS)
        return bool(self.entries(folder) & MARKERS)

    def search_path(self, folder: str) -> tuple[str, ...]:
        """Folders in which an absolute import of a file in `folder` is looked up, in order."""
        if folder not in self._search:
            out = [folder]
            package = folder
            while "__init__.py" in self.entries(package):
                up = above(package)
                if up is None:
                    break
                package = up
            out.append(package)
            root = self.project_root(folder)
            if root is not None:
                at: str | None = folder
                while at is not None and at != root:
                    out.append(at)
                    at = above(at)
                out.append(root)
                out.append(join(root, "src") if root else "src")
            self._search[folder] = tuple(dict.fromkeys(out))
        return self._search[folder]

    def find(self, importer: str, dotted: str, level: int = 0) -> str | None:
        """The file of module `dotted` as imported (`level` dots) by the file `importer`; None: none here."""
        key = (importer.rpartition("/")[0], dotted, level)
        if key in self._found:
            return self._found[key]
        folder = key[0]
        self._found[key] = None
        if level:
            base: str | None = folder
            for _ in range(level - 1):
                base = above(base) if base is not None else None
            found = self._file(base, dotted) if base is not None else None
        else:
            found = None
            for place in self.search_path(folder):
                found = self._file(place, dotted)
                if found and found != importer:
                    break
                found = None
        self._found[key] = found
        return found

    def _file(self, folder: str, dotted: str) -> str | None:
        parts = dotted.split(".") if dotted else []
        for part in parts[:-1]:
            if part not in self.entries(folder):
                return None
            folder = below(self.root, folder, part)
        if parts:
            entries = self.entries(folder)
            if parts[-1] in entries:
                inner = below(self.root, folder, parts[-1])
                if "__init__.py" in self.entries(inner):
                    return join(inner, "__init__.py")
            if parts[-1] + ".py" in entries:
                return join(folder, parts[-1] + ".py") if folder else parts[-1] + ".py"
            return None
        return join(folder, "__init__.py") if "__init__.py" in self.entries(folder) else None

    def defined_as(self, path: str, name: str, depth: int = 0) -> str:
        """ "def" or "class" when the file defines the name at its top, or imports it from a file that does; "" when the
        text alone does not say so. Parses nothing but packages' own `__init__.py`."""
        known = self._defined.get((path, name))
        if known is None:
            known = self._defined[(path, name)] = ""
            known = self._defined[(path, name)] = self._defined_as(path, name, depth)
        return known

    def _defined_as(self, path: str, name: str, depth: int) -> str:
        text = self.text(path) or ""
        if f"\ndef {name}(" in text:
            return "def"
        if f"\nclass {name}(" in text or f"\nclass {name}:" in text:
            return "class"
        if depth > 4 or (path not in self.modules and not path.endswith("__init__.py")):
            return ""
        module = self.module(path)
        bound = module.names.get(name) if module is not None else None
        if bound is None or bound[0] != "from":
            return ""
        found = self.find(path, bound[1], bound[3])
        return self.defined_as(found, bound[2], depth + 1) if found and found != path else ""

    # ---------------------------------------------------------------------------------------------- functions
    def body(self, function: Function) -> Block:
        """The statements of a function; lowered from its own lines when it was left out before."""
        if function._body is None:
            function._body = ()
            try:
                row = lower_function(self.text_of(function), function.first_line)
                function._body, function.flags = row[2][7], row[2][6]
            except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError, AttributeError):
                pass  # the module itself parsed: lines out of step (a form feed, a lone \r) stay unknown
        body: Block = function._body
        return body

    def lower_if(self, function: Function, word: str) -> None:
        """Lower a body that was left out, if its text holds a word."""
        if word in self.text_of(function):
            self.body(function)

    def main(self, module: Module) -> Function:
        """The module-level code as a function named `<module>`."""
        if module.path not in self._mains:
            text = self.text(module.path) or ""
            end = len(self.indexed(module.path)[1]) if "\r" in text else text.count("\n") + 1
            row = ("<module>", (), (), None, 1, end, 0, module.block, module.words)
            self._mains[module.path] = Function(module, 1 << 44, row, None, None)
        return self._mains[module.path]

    def scope(self, function: Function) -> Scope:
        key = id(function)
        if key not in self._scopes:
            self._scopes[key] = Scope(self, function.module, function)
        return self._scopes[key]

    def module_scope(self, module: Module) -> Scope:
        return self.scope(self._mains.get(module.path) or self.main(module))

    def has_walrus(self, module: Module) -> bool:
        """Whether `:=` stands in a module: most hold none, and none of their expressions is looked into for it."""
        if module.walrus is None:
            module.walrus = ":=" in (self.text(module.path) or ":=")
        return module.walrus

    def nested(self, function: Function, pos: int, row: Any) -> Function:
        """The function defined by a ("def", pos, row) statement inside `function`."""
        return function.module.function_at(pos, row, None, None if function.name == "<module>" else function)

    def functions(self) -> Iterator[Function]:
        """Every function and method of the admitted modules, and each module's own code."""
        for path in list(self.modules):
            if path not in self.loaded_on_demand:
                module = self.modules[path]
                yield self.main(module)
                yield from module.all_functions()

    def functions_with(self, words: Iterable[str]) -> Iterator[Function]:
        wanted = frozenset(words)
        for path in list(self.modules):
            module = self.modules[path]
            if path not in self.loaded_on_demand and module.words & wanted:
                for f in (self.main(module), *module.all_functions()):
                    if f.words & wanted:
                        yield f

    # --------------------------------------------------------------------------------------- names and calls
    def entities(self, e: Expr, scope: Scope) -> tuple[Entity, ...]:
        """All that an expression may denote, as far as is known; empty = unknown."""
        found: tuple[Entity, ...] = entities_of(e, scope)
        return found

    def entity(self, e: Expr, scope: Scope) -> Entity | None:
        found = entities_of(e, scope)
        return found[0] if len(found) == 1 else None

    def qualified(self, e: Expr, scope: Scope) -> str | None:
        """The canonical dotted name outside the project that an expression denotes: a function, class, or method of an
        instance of such a class (also through a project subclass), or None."""
        for x in entities_of(e, scope):
            if x[0] == "ext":
                return str(x[1])
            if x[0] == "extmethod":
                return f"{x[1]}.{x[2]}"
            if x[0] == "extinst":
                return str(x[1])
            if x[0] == "partial" and x[1] and x[1][0] == "ext":
                return str(x[1][1])
        return None

    def targets(self, call: Expr, scope: Scope) -> list[Function]:
        """Project functions that a call may run."""
        return call_targets(call, scope)

    def bind(self, function: Function, call: Expr, receiver: bool | None = None) -> dict[str, Expr]:
        """Which argument of `call` goes to which parameter. `receiver`: does the call supply the first parameter
        (self) by itself; by default true for methods. Star arguments end the positional matching."""
        skip = function.is_method if receiver is None else receiver
        params = function.params[1:] if skip else function.params
        out: dict[str, Expr] = {}
        positional = [p for p in params if p[1] == "pos"]
        for i, a in enumerate(call[3]):
            if a[0] == "star":
                break
            if i < len(positional):
                out[positional[i][0]] = a
        names = {p[0] for p in params if p[1] in ("pos", "kw")}
        for name, value in call[4]:
            if name in names:
                out[name] = value
        return out

    def with_nested(self, function: Function) -> Iterator[Function]:
        """A function and the functions and local classes' methods defined inside it."""
        yield function
        if function.name == "<module>" or not self.may_define(function):
            return
        for kind, pos, row in definitions(self.body(function)):
            if kind == "def":
                yield from self.with_nested(self.nested(function, pos, row))
            else:
                for method in function.module.class_at(pos, row, None, function).methods.values():
                    yield from self.with_nested(method)

    def may_define(self, function: Function) -> bool:
        """Whether a definition can stand inside the function, by its text: most hold none and need not be lowered."""
        if function._body is not None:
            return True
        text, starts = self.indexed(function.module.path)
        begin, end = function.line, function.end_line
        if begin >= end or begin >= len(starts):
            return False
        return defines(text[starts[begin] : starts[end] if end < len(starts) else len(text)])

    # ------------------------------------------------------------------------------------------------ classes
    def bases(self, cls: Class) -> tuple[list[Class], list[str]]:
        """All ancestors: those in the project (nearest first), and the names of those outside."""
        key = id(cls)
        if key not in self._bases:
            self._bases[key] = ([], [])
            inside: list[Class] = []
            outside: list[str] = []
            scope = self.scope(cls.parent) if cls.parent else self.module_scope(cls.module)
            for b in cls.bases:
                if b[0] == "sub":  # Generic[T], Base[int]
                    b = b[2]
                for x in entities_of(b, scope):
                    if x[0] == "class" and x[1] is not cls:
                        more_in, more_out = self.bases(x[1])
                        inside += [c for c in (x[1], *more_in) if c not in inside]
                        outside += [o for o in more_out if o not in outside]
                    elif x[0] == "ext":
                        outside.append(x[1])
            self._bases[key] = (inside, outside)
        return self._bases[key]

    def method(self, cls: Class, name: str) -> Function | None:
        own = cls.methods.get(name)
        return own or next((c.methods[name] for c in self.bases(cls)[0] if name in c.methods), None)

    def subclasses(self, cls: Class, method: str) -> list[Class]:
        """Direct and indirect subclasses among the admitted modules that define a method. The bases of a class are
        resolved, which may parse the modules they come from, only when by their names they can lead to `cls`."""
        if self._heirs is None:
            from .heirs import Heirs

            self._heirs = Heirs(self.modules.values())
        return [c for c in self._heirs.defining(method) if self._heirs.may_be(c, cls) and cls in self.bases(c)[0]]

    def attribute(self, cls: Class, name: str) -> list[tuple[Expr, Function]]:
        """What the class and its ancestors in the project assign to `self.<name>` (also at class level)."""
        return self.attributes.of(cls, name)

    def own_attributes(self, cls: Class) -> dict[str, list[tuple[Expr, Function]]]:
        """{attribute: [(assigned expression, function)]} of one class; class-level ones count with the module."""
        return self.attributes.own(cls)

    @property
    def attributes(self) -> Attributes:
        if self._attributes is None:
            from .attributes import Attributes

            self._attributes = Attributes(self)
        return self._attributes

    # ---------------------------------------------------------------------------------------------- positions
    def span(self, module: Module, pos: int) -> tuple[int, int, int, int]:
        """(line, column, end line, end column), all from 1, columns in characters, end exclusive."""
        line, column, end_line, end_column = span_of(pos)
        return (
            line,
            characters(self.source_line(module, line), column) + 1,
            end_line,
            characters(self.source_line(module, end_line), end_column) + 1,
        )

    def statements(self, function: Function) -> tuple[Stmt, ...]:
        """Every statement of a function's body, nested blocks included, nested definitions given but not entered."""
        key = id(function)
        if key not in self._statements:
            self._statements[key] = tuple(walk_block(self.body(function)))
        return self._statements[key]

    def expressions(self, function: Function) -> tuple[Expr, ...]:
        """Every expression of a function's body, in order of the statements, nested definitions not entered."""
        key = id(function)
        if key not in self._expressions:
            out: list[Expr] = []
            for s in self.statements(function):
                for e in expressions_of(s):
                    collect_expr(e, out)
            self._expressions[key] = tuple(out)
        return self._expressions[key]

    def calls(self, function: Function) -> tuple[Expr, ...]:
        """Every call of a function's body, nested definitions not entered."""
        key = id(function)
        if key not in self._calls:
            self._calls[key] = tuple([e for e in self.expressions(function) if e[0] == "call"])
        return self._calls[key]
