"""Command-line options and their defaults: argparse, click, typer, fire-like entry points.

Options are found by module; `args.num_workers` of unknown `args` takes the option of the same module, or of the modules
that import it, when exactly one fits.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function, Module
    from ..program.program import Program
    from .settings_origins import Frame

PARSES = frozenset(("parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args"))

RELEVANT = ("add_argument", "set_epoch", "backward(", "DataLoader(", "set_device", ".option(")
NEAR = 60
"""So many modules of one program are looked at."""


class Option:
    """One option: its destination, the expression of its default (None: not given) and where it is declared."""

    __slots__ = ("default", "dest", "function", "pos")

    def __init__(self, dest: str, default: Expr | None, function: Function, pos: int) -> None:
        self.dest = dest
        self.default = default
        self.function = function
        self.pos = pos

    def frame(self, program: Program) -> Frame:
        from .settings_origins import Frame

        return Frame(self.function)


class Options:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._modules: dict[str, dict[str, list[Option]]] = {}
        self._changed: dict[str, frozenset[tuple[str, str]]] = {}
        self._importers: dict[str, list[Module]] = {}
        self._named: dict[str, list[tuple[int, Module]]] | None = None
        self._imported: dict[str, list[Module]] = {}
        self._groups: dict[str, list[Module]] = {}

    def of_module(self, module: Module) -> dict[str, list[Option]]:
        """{destination: options} declared in a module."""
        if module.path not in self._modules:
            out: dict[str, list[Option]] = {}
            self._modules[module.path] = out
            text = self.program.text(module.path) or ""
            if "add_argument" in text or "option(" in text:
                for f in self.declaring(module):
                    for option in self.in_function(f):
                        out.setdefault(option.dest, []).append(option)
        return self._modules[module.path]

    def declaring(self, module: Module) -> list[Function]:
        """The module's own code and the functions that declare options."""
        rows = [
            i
            for i, line in enumerate(self.program.lines(module.path), 1)
            if "add_arg" in line or "option(" in line or "set_defaults" in line
        ]
        found = self.program.functions_on(module, rows)
        return list(dict.fromkeys([self.program.main(module), *found]))

    def in_function(self, f: Function) -> list[Option]:
        out = []
        for call in self.program.calls(f):
            name = call[2][-1] if call[2][0] == "attr" else ""
            if name in ("add_argument", "add_arg"):
                option = declared(call, f)
                if option:
                    out.append(option)
            elif name == "set_defaults":
                out += [Option(key, value, f, call[1]) for key, value in call[4] if key]
        for d in f.decorators:
            if d[0] == "call" and d[2][-1] == "option":
                option = declared(d, self.program.main(f.module))
                if option:
                    out.append(option)
        return out

    def of_call(self, call: Expr, last: str, name: str, frame: Frame) -> Option | None:
        """The option behind `<call>.name` where the call parses the command line."""
        if last not in PARSES:
            return None
        return self.near(frame.module, name)

    def of_parameter(self, f: Function, name: str) -> Option | None:
        """`@click.option("--workers", default=4)` above a function gives its parameter `workers`."""
        if not f.decorators:
            return None
        for d in f.decorators:
            if d[0] == "call" and d[2][-1] == "option":
                option = declared(d, self.program.main(f.module))
                if option is not None and option.dest == name and option.default is not None:
                    return option
        return None

    def near(self, module: Module, name: str) -> Option | None:
        """The one option of this destination in the module, in the modules that it imports, or in its importers."""
        for group in ((module,), self.imported(module), self.importers(module)):
            found = [o for m in group for o in self.of_module(m).get(name, ())]
            if len(found) == 1:
                return found[0]
            if found:
                return None
        return None

    def group(self, module: Module) -> list[Module]:
        """The modules of the programs that this module is part of: those that import it, and what those import."""
        if module.path not in self._groups:
            up = [module]
            for m in up:
                if len(up) > NEAR:
                    break
                up += [x for x in self.importers(m) if x not in up]
            out = list(up)
            for m in out:
                if len(out) > NEAR:
                    break
                out += [x for x in self.imported(m) if x not in out]
            self._groups[module.path] = out[: 2 * NEAR]
        return self._groups[module.path]

    def imported(self, module: Module) -> list[Module]:
        """Modules of the project that a module imports at its top level, as far as they can matter here: those under
        check, and those in which one of `RELEVANT` stands."""
        if module.path not in self._imported:
            paths = [p for p in dict.fromkeys(self.imported_paths(module)) if self.relevant(p)]
            targets = [self.program.module(p) for p in paths[:20]]
            self._imported[module.path] = [m for m in targets if m is not None and m is not module]
        return self._imported[module.path]

    def relevant(self, path: str) -> bool:
        if path in self.program.modules:
            return True
        text = self.program.text(path) or ""
        return any(w in text for w in RELEVANT)

    def imported_paths(self, module: Module, lasts: tuple[str, ...] = ()) -> Iterator[str]:
        """Files of the project that a module imports. `lasts`: only those imported under one of these names."""
        for bound in module.names.values():
            if bound[0] in ("from", "import"):
                own = bound[1].rpartition(".")[2]
                if lasts and own not in lasts and (bound[0] == "import" or bound[2] not in lasts):
                    continue
                path = self.program.find(module.path, bound[1], bound[3] if bound[0] == "from" else 0)
                if bound[0] == "from" and (path is None or path.endswith("__init__.py")):
                    dotted = f"{bound[1]}.{bound[2]}" if bound[1] else bound[2]
                    path = self.program.find(module.path, dotted, bound[3]) or path
                if path is not None:
                    yield path
        for dotted, level in module.stars:
            if lasts and dotted.rpartition(".")[2] not in lasts:
                continue
            path = self.program.find(module.path, dotted, level)
            if path is not None:
                yield path

    def importers(self, module: Module) -> list[Module]:
        """Modules under check that import a module at their top level."""
        known = self._importers.get(module.path)
        if known is None:
            if self._named is None:
                self._named = {}
                for number, m in enumerate(self.program.modules.values()):
                    for last in imported_names(m):
                        self._named.setdefault(last, []).append((number, m))
            folder, _, name = module.path.rpartition("/")
            # a package is imported by its own name, or from inside it as `from . import name`
            stems = (folder.rpartition("/")[2], "") if name == "__init__.py" else (name.rpartition(".")[0],)
            near = dict(row for stem in stems for row in self._named.get(stem, ()))
            known = self._importers[module.path] = [
                m for _, m in sorted(near.items())
                if m is not module and any(path == module.path for path in self.imported_paths(m, stems))
            ]  # fmt: skip
        return known

    def changed_attributes(self, module: Module) -> frozenset[tuple[str, str]]:
        """{(name, attribute)} of all `name.attribute = ...` statements of a module, `self.x = ...` left out."""
        if module.path not in self._changed:
            import re

            found = re.findall(
                r"^[ \t]*(\w+)\.(\w+)\s*(?:[-+*/]|//)?=(?!=)", self.program.text(module.path) or "", re.M
            )
            self._changed[module.path] = frozenset(pair for pair in found if pair[0] != "self")
        return self._changed[module.path]


def imported_names(module: Module) -> set[str]:
    """The last parts of what a module imports: a module or package is imported under none but its own name."""
    out = {dotted.rpartition(".")[2] for dotted, _ in module.stars}
    for bound in module.names.values():
        if bound[0] in ("from", "import"):
            out.add(bound[1].rpartition(".")[2])
            if bound[0] == "from":
                out.add(bound[2])
    return out


def declared(call: Expr, f: Function) -> Option | None:
    """The option that an `add_argument(...)` or `@click.option(...)` call declares."""
    flags = [a[2] for a in call[3] if a[0] == "const" and isinstance(a[2], str)]
    keywords = {k: v for k, v in call[4] if k}
    dest = keywords.get("dest")
    if dest is not None and dest[0] == "const":
        name = str(dest[2])
    else:
        plain = [x for x in flags if not x.startswith("-")]
        long = [x for x in flags if x.startswith("--")]
        chosen = (plain or long or flags or [""])[0]
        name = chosen.lstrip("-").partition("/")[0].replace("-", "_")
    if not name:
        return None
    default = keywords.get("default")
    action = keywords.get("action")
    kind = action[2] if action and action[0] == "const" else ""
    if default is None and kind in ("store_true", "store_false"):
        default = ("const", call[1], kind == "store_false")
    return Option(name, default, f, call[1])
