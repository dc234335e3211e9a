"""What earlier runs found out, kept in the user's cache folder: rows of modules, and whole results.

A cache is never trusted further than the user's own files: it is read only when the file and its folder belong to the
user and nobody else can write them, because `marshal` executes whatever it is given badly. Anything odd (another
version, a broken file, a full or read-only disk) means an empty cache, without a word. Runs at the same time do not
disturb each other: each writes a file of its own and renames it, the last one stays.
"""

from __future__ import annotations

import marshal
import os
import sys
from stat import S_ISREG

from torchvet import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    FileKey = tuple[str, int, int]

MAGIC = b"torchvet cache 1\n"
LIMIT = 256 << 20
"""A cache file of more bytes is neither read nor written."""
OLD = 20
"""Rows of files that so many saving runs have not asked for are dropped."""
RUNS = 8
"""Results of so many different command lines are kept for a folder."""


FACTS_COME_FROM = ("findings", "check/source", "check/program")
"""Parts of torchvet that a module's rows depend on; a result depends on all of it."""


class Gated:
    """The type of `GATED`: the file was read once and can hold no subject."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "GATED"


GATED = Gated()


class FactsCache:
    """Rows of the modules under `root`, by relative path.

    `cache_dir` is the folder asked for ("" for the user's own, see `folder`). With `enabled` false nothing is read
    or written. Rows are any values that `marshal` holds.
    """

    def __init__(self, root: str, cache_dir: str = "", enabled: bool = True) -> None:
        self._store = _Store(root, cache_dir, "facts", FACTS_COME_FROM) if enabled else None
        self._changed = False
        self._rows: dict[str, list[Any]] = {}
        """path: [size, mtime_ns, digest, row as bytes (b"" for GATED), saving runs since it was asked for]"""
        payload = self._store.load() if self._store else None
        if payload is not None:
            rows = _unmarshal(payload)
            if type(rows) is dict and all(_is_row(k, v) for k, v in rows.items()):
                self._rows = rows

    def lookup(self, path: str, size: int, mtime_ns: int) -> Any | Gated | None:
        """The row of a file that has this size and time of change; GATED; or None when it has to be read."""
        row = self._rows.get(path)
        if row is None or row[0] != size or row[1] != mtime_ns:
            return None
        row[4] = 0
        return self._value(path, row)

    def known(self, path: str, size: int) -> bool:
        """Whether `lookup_content` may succeed: a file of this name and size was read before."""
        row = self._rows.get(path)
        return row is not None and row[0] == size and bool(row[2])

    def lookup_content(self, path: str, data: bytes) -> Any | Gated | None:
        """The row of a file that has these bytes, whatever its time of change says (a fresh checkout); else None.

        A hit wants a `store` call with the new time, so that the next run need not read the file."""
        row = self._rows.get(path)
        if row is None or row[0] != len(data) or not row[2] or row[2] != digest(data):
            return None
        row[4] = 0
        return self._value(path, row)

    def _value(self, path: str, row: list[Any]) -> Any | Gated | None:
        if not row[3]:
            return GATED
        value = _unmarshal(row[3])
        if value is None:
            del self._rows[path]
        return value

    def store(self, path: str, size: int, mtime_ns: int, content: bytes, row: Any) -> None:
        """Keep what was made of a file. `content` is `digest(data)`, or b"" (GATED files: asking the words again is as
        cheap as a digest); `row` is not None."""
        if self._store is None:
            return
        if fresh(mtime_ns):
            mtime_ns = 0  # it may change again within the same tick of the clock: only its content counts
            if not content:
                return
        if row is GATED:
            packed = b""
        else:
            try:
                packed = marshal.dumps(row)
            except ValueError:
                return
        self._rows[path] = [size, mtime_ns, content, packed, 0]
        self._changed = True

    def touch(self, path: str, size: int, mtime_ns: int) -> None:
        """Note the present size and time of a file whose content was found by `lookup_content`."""
        row = self._rows.get(path)
        if row is not None and self._store is not None and not fresh(mtime_ns):
            row[0], row[1], row[4] = size, mtime_ns, 0
            self._changed = True

    def save(self) -> None:
        """Write the cache when something was stored. Never raises for what the disk or the rights forbid."""
        if self._store is None or not self._changed:
            return
        kept = {}
        for path, row in self._rows.items():
            if row[4] < OLD:
                kept[path] = [*row[:4], row[4] + 1]
        self._store.save(marshal.dumps(kept))
        self._changed = False


def _is_row(path: object, row: object) -> bool:
    return (
        type(path) is str
        and type(row) is list
        and len(row) == 5
        and type(row[0]) is int
        and type(row[1]) is int
        and type(row[2]) is bytes
        and type(row[3]) is bytes
        and type(row[4]) is int
    )


class RunCache:
    """Results of whole runs under `root`. A result is a tuple of values that `marshal` holds.

    The key is what was asked (`options`, any string that says all that matters: options, configuration, language of
    nothing - results hold both) and every file with its size and time. The version of torchvet and of Python and the
    state of torchvet's own files take part without being named.
    """

    def __init__(self, root: str, cache_dir: str = "", enabled: bool = True) -> None:
        self._store = _Store(root, cache_dir, "runs", ("",)) if enabled else None

    def lookup(self, options: str, files: Sequence[FileKey]) -> tuple[Any, ...] | None:
        """The result of a run with the same options on the same unchanged files, else None."""
        key = run_key(files)
        for known, files_key, result in self._runs():
            if known == options and files_key == key:
                value = _unmarshal(result)
                return value if isinstance(value, tuple) else None
        return None

    def store(self, options: str, files: Sequence[FileKey], result: tuple[Any, ...]) -> None:
        """Keep a result. Nothing is kept when a file changed so lately that it may change again unseen."""
        if self._store is None or any(fresh(mtime) for _, _, mtime in files):
            return
        try:
            packed = marshal.dumps(result)
        except ValueError:
            return
        runs = [(options, run_key(files), packed)]
        runs += [run for run in self._runs() if run[0] != options][: RUNS - 1]
        self._store.save(marshal.dumps(runs))

    def _runs(self) -> list[tuple[str, bytes, bytes]]:
        payload = self._store.load() if self._store else None
        runs = _unmarshal(payload) if payload is not None else None
        if not isinstance(runs, list):
            return []
        return [run for run in runs if type(run) is tuple and [type(x) for x in run] == [str, bytes, bytes]]


def run_key(files: Sequence[FileKey]) -> bytes:
    """The (path, size, mtime_ns) rows of a run as bytes that are equal when the rows are."""
    return repr(files if type(files) is list else list(files)).encode("utf-8", "surrogatepass")


def digest(data: bytes) -> bytes:
    """Content hash, 16 bytes. BLAKE2 from its own small module: importing `hashlib` loads OpenSSL."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=16).digest()


_now: list[int] = []


def fresh(mtime_ns: int) -> bool:
    """Whether a file was changed so lately that a further change could leave the same time on it.

    Clocks of file systems tick every 4 ms (ext4), every second (HFS+, NFS 2) or every 2 seconds (FAT)."""
    if not _now:
        from time import time_ns

        _now.append(time_ns())
    return mtime_ns > _now[0] - (2_000_000_000 if mtime_ns % 1_000_000_000 == 0 else 50_000_000)


def folder() -> str:
    """The user's cache folder for torchvet, not necessarily there; "" when the system names none."""
    env = os.environ
    if sys.platform == "win32":
        base = env.get("LOCALAPPDATA", "")
        return os.path.join(base, "torchvet", "Cache") if base else ""
    base = env.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return os.path.join(base, "torchvet")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return ""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "torchvet")
    return os.path.join(home, ".cache", "torchvet")


def own_state(parts: Sequence[str]) -> str:
    """Newest change and number of torchvet's own files below `parts`: an installation that was edited or replaced
    without a new version must not see rows of the old code."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    newest = count = size = 0
    stack = [os.path.join(top, *p.split("/")) for p in parts]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for e in entries:
                    name = e.name
                    if name.endswith((".py", ".toml")):
                        status = e.stat()
                        newest = max(newest, status.st_mtime_ns)
                        size += status.st_size
                        count += 1
                    elif "." not in name and name != "__pycache__" and e.is_dir():
                        stack.append(e.path)
        except OSError:
            continue
    return f"{count}-{size}-{newest}"


class _Store:
    """One cache file: magic, what it belongs to, checksum, payload."""

    def __init__(self, root: str, cache_dir: str, kind: str, own: Sequence[str]) -> None:
        root = os.path.abspath(root or ".")
        tag = sys.implementation.cache_tag or sys.implementation.name
        base = os.path.abspath(cache_dir) if cache_dir else folder()
        self.asked = cache_dir != ""
        self.folder = os.path.join(base, f"{__version__}-{tag}") if base else ""
        self.name = f"{kind}-{digest(os.fsencode(root)).hex()}"
        self.label = f"{kind}\n{__version__}\n{tag}\n{own_state(own)}\n{root!r}\n".encode("utf-8", "backslashreplace")

    def load(self) -> memoryview | None:
        """The payload, or None for every reason not to trust or have one."""
        if not self.folder:
            return None
        try:
            data = self._read()
        except (OSError, ValueError):
            return None
        head = MAGIC + self.label
        if data is None or not data.startswith(head):
            return None
        payload = memoryview(data)[len(head) + 4 :]
        from zlib import adler32

        if int.from_bytes(data[len(head) : len(head) + 4], "big") != adler32(payload):
            return None
        return payload

    def _read(self) -> bytes | None:
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if os.name != "posix":
            path = os.path.join(self.folder, self.name)
            if os.stat(path).st_size > LIMIT:
                return None
            with open(path, "rb") as f:
                return f.read()
        at = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not _own(os.fstat(at)):
                return None
            fd = os.open(self.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        finally:
            os.close(at)
        try:
            status = os.fstat(fd)
            if not S_ISREG(status.st_mode) or not _own(status) or status.st_size > LIMIT:
                return None
            data = os.read(fd, status.st_size + 1)
            return data if len(data) == status.st_size else None
        finally:
            os.close(fd)

    def save(self, payload: bytes) -> None:
        if not self.folder or len(payload) > LIMIT:
            return
        from zlib import adler32

        temporary = ""
        try:
            base = os.path.dirname(self.folder)
            if not os.path.isdir(base):
                os.makedirs(base, 0o700)
            if self.asked and not os.path.exists(os.path.join(base, ".gitignore")) and not os.listdir(base):
                # a cache inside a repository hides itself
                with open(os.path.join(base, ".gitignore"), "w", encoding="ascii") as f:
                    f.write("*\n")
            if not os.path.isdir(self.folder):
                os.mkdir(self.folder, 0o700)
            if os.name == "posix" and not _own(os.stat(self.folder)):
                return
            temporary = os.path.join(self.folder, f".{self.name}.{os.getpid()}.{os.urandom(4).hex()}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            fd = os.open(temporary, flags, 0o600)
            with open(fd, "wb") as out:
                out.write(MAGIC + self.label + adler32(payload).to_bytes(4, "big"))
                out.write(payload)
            os.replace(temporary, os.path.join(self.folder, self.name))
        except (OSError, ValueError):
            if temporary:
                try:
                    os.unlink(temporary)
                except OSError:
                    return


def _own(status: os.stat_result) -> bool:
    """The user's, and nobody else can write it."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _unmarshal(data: bytes | memoryview) -> Any:
    try:
        return marshal.loads(data)
    except (ValueError, EOFError, TypeError, MemoryError, RecursionError):
        return None
