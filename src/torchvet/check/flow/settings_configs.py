"""Settings that stand in YAML files of the project: Hydra's configuration of a function, `OmegaConf.load`, PyYAML.

A file counts only when the code names it and it can be one file alone. Its entries become origins like any other, with
the file as their module; what a command line or a later merge may replace stays a replaceable value.
"""

from __future__ import annotations

import os

from ... import knowledge
from ..program.model import Module, pack
from ..program.program import callee_name
from .settings_origins import CONFIG, Frame, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr, Function
    from .settings_origins import Origins
    from .settings_yaml import Node

    Layer = tuple[Node, Frame]

DEEP = 4
"""Defaults lists of Hydra are followed this far."""


class Configs:
    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.program = origins.program
        self._files: dict[str, Layer | None] = {}
        self._functions: dict[int, Origin | None] = {}
        self._kept: list[Expr] = []

    # ------------------------------------------------------------------------------------------------- entries
    def origin(self, layers: tuple[Layer, ...]) -> Origin:
        """The end that one or more nodes are. Several: mappings of which each may hold an entry."""
        node, frame = layers[0]
        if node[0] == "const":
            return Origin(node, frame, CONFIG)
        if node[0] == "list":
            return Origin(("list", node[1], tuple(x for x in node[2])), frame, CONFIG)
        if node[0] != "map":
            return Origin(("unknown", node[1]), frame)
        e = ("config", node[1], layers)
        self._kept.append(e)
        return Origin(e, frame, CONFIG)

    def part(self, o: Origin, name: str) -> Origin | None:
        """The entry of a mapping; None when it has none, or two files set it to different things."""
        found = tuple((node[2][name], frame) for node, frame in o.e[2] if node[0] == "map" and name in node[2])
        if not found or (len(found) > 1 and any(node[0] != "map" for node, _ in found)):
            return None
        if any(node[0] == "const" and node[2] == "???" for node, _ in found):
            return None  # OmegaConf: must be given
        return self.origin(found)

    # ------------------------------------------------------------------------------------------------- calls
    def of_call(self, call: Expr, frame: Frame, name: str) -> list[Origin] | None:
        """The entry `name` of what a call loads from a file, merges or wraps; None when that is not known."""
        kind = knowledge.loader("config_readers").get(self.program.qualified(call[2], self.origins.scope(frame)) or "")
        if kind is None or not call[3]:
            return None
        if kind == "merge":
            for a in reversed(call[3]):  # the last one that has the entry wins
                found = self.origins.entry(a, name, frame)
                if found is not None:
                    return found
            return None
        if kind == "same":
            return self.origins.entry(call[3][0], name, frame)
        layer = self.loaded(call[3][0], frame)
        part = self.part(self.origin((layer,)), name) if layer is not None and layer[0][0] == "map" else None
        return [part] if part is not None else None

    def loaded(self, e: Expr, frame: Frame) -> Layer | None:
        """The document of the one file that the expression names or has opened."""
        ends = self.origins.of(e, frame)
        if len(ends) != 1:
            return None
        o = ends[0]
        if o.e[0] == "call" and callee_name(o.e) == "open" and o.e[3]:
            name = self.program.qualified(o.e[2], self.origins.scope(o.frame)) or ""
            return self.loaded(o.e[3][0], o.frame) if name.rpartition(".")[2] == "open" else None
        path = self.path_of(o)
        return self.file(path) if path else None

    def path_of(self, o: Origin) -> str | None:
        """The file that a plain text, or a path built beside `__file__`, means."""
        folder = o.frame.module.path.rpartition("/")[0]
        beside = self.beside(o.e, o.frame, 0)
        if beside is not None:
            return beside if self.is_file(beside) else None
        if o.e[0] != "const" or not isinstance(o.e[2], str) or os.path.isabs(o.e[2]):
            return None
        root = self.program.project_root(folder)
        near = {os.path.normpath(os.path.join(x, o.e[2])) for x in (folder, root, "") if x is not None}
        found = [x for x in sorted(near) if self.is_file(x)]
        return found[0].replace(os.sep, "/") if len(found) == 1 else None

    def beside(self, e: Expr, frame: Frame, depth: int) -> str | None:
        """`os.path.join(os.path.dirname(__file__), "a", "b.yaml")`, `Path(__file__).parent / "b.yaml"`."""
        if depth > 6:
            return None
        if e[0] == "name":
            if e[2] == "__file__":
                return frame.module.path
            o = self.origins.one(e, frame)
            return self.beside(o.e, o.frame, depth + 1) if o is not None and o.e[0] in ("call", "attr", "bin") else None
        if e[0] == "attr" and e[3] == "parent":
            inner = self.beside(e[2], frame, depth + 1)
            return None if inner is None else inner.rpartition("/")[0]
        parts: tuple[Expr, ...] = ()
        if e[0] == "bin" and e[2] == "/":
            base, parts = e[3], (e[4],)
        elif e[0] == "call" and callee_name(e) == "join" and len(e[3]) > 1:
            base, parts = e[3][0], e[3][1:]
        elif e[0] == "call" and callee_name(e) in ("abspath", "realpath", "Path") and len(e[3]) == 1:
            base = e[3][0]
        elif e[0] == "call" and callee_name(e) in ("resolve", "absolute") and e[2][0] == "attr":
            base = e[2][2]
        elif e[0] == "call" and callee_name(e) == "dirname" and len(e[3]) == 1:
            base = ("attr", e[1], e[3][0], "parent")
        else:
            return None
        start = self.beside(base, frame, depth + 1)
        if start is None or not all(p[0] == "const" and isinstance(p[2], str) for p in parts):
            return None
        return os.path.normpath("/".join([start or ".", *(p[2] for p in parts)])).replace(os.sep, "/")

    # ------------------------------------------------------------------------------------------------- files
    def is_file(self, path: str) -> bool:
        self.program.consulted.add(path)
        return path.endswith((".yaml", ".yml")) and os.path.isfile(os.path.join(self.program.root, path))

    def file(self, path: str) -> Layer | None:
        """The one document of a YAML file that exists, with the frame that places it."""
        if path not in self._files:
            from .settings_yaml import documents

            found = documents(self.program.text(path) or "")
            module = Module(path, (), frozenset())
            module.program = self.program
            self._files[path] = (found[0], Frame(self.program.main(module))) if len(found) == 1 else None
        return self._files[path]

    # ------------------------------------------------------------------------------------------------- Hydra
    def of_function(self, f: Function) -> Origin | None:
        """The configuration that `@hydra.main(config_path=..., config_name=...)` passes to the function."""
        if id(f) not in self._functions:
            self._functions[id(f)] = None
            for d in f.decorators:
                if d[0] == "call" and self.program.qualified(d[2], self.program.module_scope(f.module)) == "hydra.main":
                    self._functions[id(f)] = self.of_main(d, f)
        return self._functions[id(f)]

    def of_main(self, call: Expr, f: Function) -> Origin | None:
        given: dict[str, Any] = dict(zip(("config_path", "config_name"), call[3]))
        given.update((k, v) for k, v in call[4] if k)
        texts = []
        for name in ("config_path", "config_name"):
            e = given.get(name)
            if e is None or e[0] != "const" or not isinstance(e[2], str):
                return None
            texts.append(e[2])
        folder = os.path.normpath(os.path.join(f.module.path.rpartition("/")[0], texts[0])).replace(os.sep, "/")
        layers = self.composed(folder, texts[1], (), 0)
        return self.origin(tuple(layers)) if layers else None

    def composed(self, folder: str, name: str, package: tuple[str, ...], depth: int) -> list[Layer]:
        """A Hydra configuration and those of its defaults list, each at its place."""
        name = name.removesuffix(".yaml").removesuffix(".yml")
        path = next((p for p in (f"{folder}/{name}.yaml", f"{folder}/{name}.yml") if self.is_file(p)), None)
        layer = self.file(path) if path is not None else None
        if path is None or layer is None or layer[0][0] != "map":
            return []
        node, frame = layer
        head = (self.program.text(path) or "").lstrip().partition("\n")[0]
        if "@package" in head:
            package = () if "_global_" in head else package
            if "_global_" not in head and "_group_" not in head:
                return []
        out: list[Layer] = [(placed(node, package), frame)]
        defaults = node[2].get("defaults")
        for item in defaults[2] if defaults is not None and defaults[0] == "list" and depth < DEEP else ():
            if item[0] == "const" and isinstance(item[2], str) and item[2] != "_self_":
                out += self.composed(folder, item[2], package, depth + 1)
            elif item[0] == "map" and len(item[2]) == 1:
                ((group, option),) = item[2].items()
                group = group.removeprefix("optional ").strip()
                if " " in group or "@" in group or group.startswith("/") or option[0] != "const":
                    continue
                if isinstance(option[2], str):
                    out += self.composed(f"{folder}/{group}", option[2], (*package, *group.split("/")), depth + 1)
        return out


def placed(node: Node, package: tuple[str, ...]) -> Node:
    """The mapping at its place in the whole: `{package: {...}}`."""
    for name in reversed(package):
        at = pack(node[1] >> 44, 0, node[1] >> 44, 0)
        node = ("map", at, {name: node}, {name: at})
    return node
