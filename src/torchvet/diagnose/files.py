"""The files of an incident: walked, opened with limits, never executed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from stat import S_ISREG

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

HEAD = 4096
READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Unreadable(Exception):
    """A file, or the rest of it, cannot be read: `text` says why."""

    def __init__(self, text: Text) -> None:
        super().__init__(text.render("en"))
        self.text = text


@dataclass(slots=True)
class Item:
    """One file of the evidence. `name`: POSIX path within the evidence; `head`: its first 4 KiB; `size` in bytes."""

    name: str
    path: str
    size: int
    head: bytes
    time: float

    def open(self) -> BinaryIO:
        """A buffered binary stream. OSError as `open`."""
        return open(self.path, "rb")

    @property
    def base(self) -> str:
        return self.name.rpartition("/")[2]


def items(paths: list[str]) -> Iterator[Item | tuple[str, Text]]:
    """Every regular file under the paths, or (name, why not). UserError: a path does not exist."""
    for path in paths:
        if not os.path.lexists(path):
            raise UserError(
                Text("{path} does not exist", "{path} 不存在", path=path),
                Text("give a folder with logs and dumps, or files", "请给出含日志与转储的文件夹或文件"),
            )
        if not os.path.isdir(path):
            yield item(path, os.path.basename(path))
            continue
        for folder, below, names in os.walk(path):
            below.sort()
            for name in sorted(names):
                full = os.path.join(folder, name)
                yield item(full, os.path.relpath(full, path).replace(os.sep, "/"))


def item(path: str, name: str) -> Item | tuple[str, Text]:
    try:
        fd = os.open(path, READING)
        try:
            status = os.fstat(fd)
            if not S_ISREG(status.st_mode):
                return name, Text("is not a regular file", "不是普通文件")
            return Item(name, path, status.st_size, os.read(fd, HEAD), status.st_mtime)
        finally:
            os.close(fd)
    except OSError as e:
        return name, Text("cannot be read: {reason}", "无法读取：{reason}", reason=e.strerror or type(e).__name__)
