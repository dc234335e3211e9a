"""The files of an incident: walked, opened with limits, never executed, never unpacked to disk."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from stat import S_ISDIR, S_ISREG

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    Entry = tuple[str, Text]

HEAD = 4096
READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
MOST = 500_000
"""Files of one run of `diagnose`: 10,000 ranks leave some 50,000."""
SKIPPED = {".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".mypy_cache", ".ruff_cache"}
"""Folders that stand beside code and are no evidence."""
STDIN = "-"


class Unreadable(Exception):
    """A file, or the rest of it, cannot be read: `text` says why."""

    def __init__(self, text: Text) -> None:
        super().__init__(text.render("en"))
        self.text = text


@dataclass(slots=True)
class Item:
    """One file of the evidence.

    name    POSIX path within the evidence; "logs.tar.gz!0/stderr.log" inside an archive. The ending of a file that is
            compressed alone is left out: stderr.log.gz reads as stderr.log
    path    where it lies (the archive, for what is inside one)
    size    bytes that `open` gives
    head    the first 4 KiB
    time    last change, seconds since 1970
    offset  first byte within `path`, for what lies uncompressed inside an archive
    data    the content, for what had to be decompressed: at most `archives.HELD` bytes, so an item of an archive should
            be read before the next one is asked for
    """

    name: str
    path: str
    size: int
    head: bytes
    time: float
    offset: int = 0
    data: bytes | None = None

    def open(self) -> BinaryIO:
        """A buffered, seekable binary stream of `size` bytes. OSError as `open`."""
        if self.data is not None:
            return io.BufferedReader(io.BytesIO(self.data))
        if self.offset:
            return io.BufferedReader(Window(self.path, self.offset, self.size))
        return open(self.path, "rb")

    def whole(self, most: int) -> bytes:
        """The content of a file of at most `most` bytes. Unreadable: it is larger; OSError as `open`."""
        if self.size > most:
            raise Unreadable(too_large(self.size, most))
        with self.open() as f:
            data = f.read(most + 1)
        if len(data) > most:  # it grew
            raise Unreadable(too_large(len(data), most))
        return data

    @property
    def base(self) -> str:
        return self.name.replace("!", "/").rpartition("/")[2]


class Window(io.RawIOBase):
    """A stretch of a file, as a file."""

    def __init__(self, path: str, offset: int, size: int) -> None:
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        self.offset = offset
        self.size = size
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, to: int, whence: int = 0) -> int:
        self.at = max(0, to + (0, self.at, self.size)[whence])
        return self.at

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        wanted = min(len(buffer), max(0, self.size - self.at))
        self.file.seek(self.offset + self.at)
        data = self.file.read(wanted)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def too_large(size: int, most: int) -> Text:
    return Text(
        "has {size}, more than the {most} that are read of such a file",
        "大小为 {size}，超过此类文件可读取的 {most}",
        size=spoken_size(size),
        most=spoken_size(most),
    )


def spoken_size(size: float) -> str:
    """Bytes as people say them: "118 kB", "2.4 GB" (powers of 1000)."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def items(paths: list[str]) -> Iterator[Item | Entry]:
    """Every regular file under the paths and in the archives there, each once, or (name, why not).

    Names count from the folder that holds all paths, or from the one path that is a folder. `-` is standard input.
    UserError: a path does not exist.
    """
    paths = [p for given in paths for p in expanded(given)]
    return _walked(paths, _base(paths))


def expanded(path: str) -> list[str]:
    """The path, or what it stands for where the shell has not expanded it. UserError: nothing is there."""
    if path == STDIN or os.path.lexists(path):
        return [path]
    if any(c in path for c in "*?["):
        from glob import glob

        if found := sorted(glob(path, recursive=True)):
            return found
        raise UserError(Text("nothing fits {path}", "没有与 {path} 匹配的文件", path=path))
    raise UserError(
        Text("{path} does not exist", "{path} 不存在", path=path),
        Text("give a folder with logs and dumps, or files", "请给出含日志与转储的文件夹或文件"),
    )


def _base(paths: list[str]) -> str:
    real = [os.path.abspath(p) for p in paths if p != STDIN]
    if len(real) == 1 and os.path.isdir(real[0]):
        return real[0]
    try:
        return os.path.commonpath([os.path.dirname(p) for p in real]) if real else ""
    except ValueError:  # two drives
        return ""


def _walked(paths: list[str], base: str) -> Iterator[Item | Entry]:
    from .archives import ending_of, opened

    seen: set[tuple[int, int]] = set()
    count = 0
    for full in (f for p in paths for f in _files(p)):
        if isinstance(full, tuple):
            yield _named(full[0], base), full[1]
            continue
        count += 1
        if count > MOST:
            text = Text("more than {n} files: the rest is not read", "文件超过 {n} 个：其余未读取", n=f"{MOST:,}")
            yield _named(full, base), text
            return
        entry = _stdin() if full == STDIN else item(full, _named(full, base), seen)
        if entry is None:
            continue
        if isinstance(entry, Item) and entry.head[:2] in _WIDE:
            entry = narrowed(entry)
        if isinstance(entry, Item) and ending_of(entry):
            yield from opened(entry)
        else:
            yield entry


_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Byte order marks of UTF-16: PowerShell writes what `>` redirects in it."""
WIDEST = 256 << 20


def narrowed(wide: Item) -> Item:
    """A text in UTF-16 as UTF-8; the item itself when it is none, or larger than WIDEST."""
    encoding = _WIDE[wide.head[:2]]
    if wide.size > WIDEST or len(wide.head) < 4 or b"\0" not in wide.head[2:64]:
        return wide
    try:
        data = wide.whole(WIDEST)[2:].decode(encoding, "replace").encode("utf-8", "replace")
    except (OSError, Unreadable):
        return wide
    return Item(wide.name, wide.path, len(data), data[:HEAD], wide.time, data=data)


def _named(path: str, base: str) -> str:
    full = os.path.abspath(path)
    try:
        return os.path.relpath(full, base).replace(os.sep, "/") if base else os.path.basename(full)
    except ValueError:
        return full.replace(os.sep, "/")


def _files(path: str) -> Iterator[str | Entry]:
    """Paths of everything below a path that is no folder. Links to folders are followed only when they are given."""
    if path == STDIN or not os.path.isdir(path):
        yield path
        return
    refused: list[OSError] = []
    for folder, below, names in os.walk(path, onerror=refused.append):
        while refused:
            e = refused.pop()
            yield str(e.filename or folder), unreadable(e)
        kept = []
        earlier = _earlier(folder, below) if "run.json" in names else set()
        for name in sorted(below):
            full = os.path.join(folder, name)
            if name in earlier:
                yield full, Text("is an earlier attempt: give it as a path to have it read",
                                 "是较早的尝试：如需读取，请将其作为路径给出")  # fmt: skip
                continue
            if not os.path.islink(full):
                if name not in SKIPPED:
                    kept.append(name)
                continue
            there = os.path.realpath(full)
            if not _inside(there, os.path.realpath(path)) and not _inside(os.path.realpath(path), there):
                yield full, Text("is a link to a folder outside: give that folder as a path to have it read",
                                 "是指向外部文件夹的链接：如需读取，请将该文件夹作为路径给出")  # fmt: skip
        below[:] = kept
        for name in sorted(names):
            yield os.path.join(folder, name)
    while refused:
        e = refused.pop()
        yield str(e.filename or path), unreadable(e)


def _earlier(folder: str, names: list[str]) -> set[str]:
    """The attempts of a folder of `torchvet run` before its last one: what they left must not be mixed with it."""
    numbers = {int(n[8:]): n for n in names if n.startswith("attempt_") and n[8:].isdecimal()}
    return {name for number, name in numbers.items() if number < max(numbers)}


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def item(path: str, name: str, seen: set[tuple[int, int]] | None = None) -> Item | Entry | None:
    """The file at a path, or why it cannot be read; None when it was met before (`seen`: device and inode)."""
    try:
        # Asked before it is opened: opening a device can already do something.
        if not S_ISREG(mode := os.stat(path).st_mode):
            if S_ISDIR(mode):
                return None
            return name, Text("is not a regular file", "不是普通文件")
        fd = os.open(path, READING)
        try:
            status = os.fstat(fd)
            if seen is not None and status.st_ino:
                if (status.st_dev, status.st_ino) in seen:
                    return None
                seen.add((status.st_dev, status.st_ino))
            return Item(name, path, status.st_size, os.read(fd, HEAD), status.st_mtime)
        finally:
            os.close(fd)
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        if os.path.islink(path) and not os.path.exists(path):
            return name, Text("is a link to nothing", "是失效的链接")
        return name, unreadable(e)


def unreadable(error: Exception) -> Text:
    why = getattr(error, "strerror", "") or type(error).__name__
    return Text("cannot be read: {reason}", "无法读取：{reason}", reason=why)


def _stdin() -> Item | Entry:
    import sys

    from .archives import Source, ends

    data, size, cut = ends(Source(sys.stdin.buffer), 0)
    return Item("stdin", "", size if not cut else len(data), data[:HEAD], 0.0, data=data)
