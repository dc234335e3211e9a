"""Imports of torchvet's own modules straight from their compiled files.

A check of a small project imports 120 modules, and what Python's own finder does around reading each of them is a tenth
of all its time. The finder here reads `__pycache__/x.*.pyc` when it was compiled from the `x.py` beside it as that is
now, by the same rule as Python's; whatever else there is (packages, no or an old compiled file, another form of it) is
left to the finders behind it.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

OURS = __name__.partition(".")[0] + "."
HEADER = 16
"""Bytes before the code: magic number, flags, time of change and size of the source (PEP 552)."""


class Compiled:
    """Finder and loader of the modules of this package."""

    def __init__(self, magic: bytes, tag: str, spec: type[ModuleSpec]) -> None:
        self.spec: Any = spec
        self.begin = magic + b"\0\0\0\0"  # no flags: checked by time and size
        self.ending = f".{tag}.pyc"

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not path or not name.startswith(OURS):
            return None
        last = name[name.rindex(".") + 1 :]
        source = f"{path[0]}/{last}.py"
        compiled = f"{path[0]}/__pycache__/{last}{self.ending}"
        try:
            status = os.stat(source)
            file = os.open(compiled, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                data = os.read(file, os.fstat(file).st_size)
            finally:
                os.close(file)
        except OSError:
            return None
        made = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
        made += (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
        if data[:HEADER] != self.begin + made:
            return None
        spec = self.spec(name, self, origin=source, loader_state=data)
        spec.has_location = True
        spec.cached = compiled
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        data, spec.loader_state = spec.loader_state, None
        exec(marshal.loads(memoryview(data)[HEADER:]), module.__dict__)


def install() -> None:
    """Look here first, in a process of torchvet's own."""
    # these names are in every process; the public `importlib.util` has them too and costs 3 ms
    magic = getattr(sys.modules.get("_frozen_importlib_external"), "MAGIC_NUMBER", None)
    tag = sys.implementation.cache_tag
    if magic and tag and __spec__ and not sys.flags.optimize and not sys.pycache_prefix:
        sys.meta_path.insert(0, Compiled(magic, tag, type(__spec__)))  # type: ignore[arg-type]
