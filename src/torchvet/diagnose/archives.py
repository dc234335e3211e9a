"""Archives and compressed files, read where they are: nothing is written, and what they claim is not believed.

A member is held in memory while it is read; an uncompressed one is read from its place in the archive. Limits hold for
what really comes out, not for what a header says (https://www.bamsoftware.com/hacks/zipbomb/).
"""

from __future__ import annotations

import io

from torchvet.findings import Text

from .files import HEAD, Item, Unreadable, spoken_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

HELD = 128 * 1024 * 1024
"""Bytes of one member that are held; of a larger one, the first and the last half of this."""
TOTAL = 16 * 1024**3
"""Bytes that come out of one archive."""
RATIO, RATIO_FROM = 400, 256 * 1024 * 1024
"""Bytes out for a byte in, looked at from this much output on: logs reach 200, bombs 1,000 and more."""
MEMBERS = 300_000
STEP = 1024 * 1024
HEADER = 8 * 1024 * 1024
"""Bytes of one header of a tar file (names, attributes)."""
DIRECTORY = 128 * 1024 * 1024
"""Bytes of the list of members of a zip file: about 100 for a member."""

TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar.zst", ".tzst")
ALONE = (".gz", ".xz", ".bz2", ".zst")
MAGIC = {b"\x1f\x8b": "gz", b"\xfd7zXZ\x00": "xz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}


class Bomb(Exception):
    """More comes out than any honest file holds."""


class Source(io.RawIOBase):
    """A stream that can only be read forward, in steps, with a limit on what comes out in all.

    tarfile asks it for headers; a header never needs more than `HEADER`, so a larger wish is refused before memory is
    taken for it.
    """

    def __init__(self, stream: Any, compressed: int = 0) -> None:
        self.stream = stream
        self.compressed = compressed
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, to: int, whence: int = 0) -> int:
        if whence != 0 or to < self.at:
            raise OSError("a compressed archive is read forward only")
        while self.at < to:
            if not self.take(min(STEP, to - self.at)):
                break
        return self.at

    def read(self, size: int = -1) -> bytes:
        if size > HEADER:
            raise Bomb
        return self.take(size if size >= 0 else HEADER)

    def take(self, size: int) -> bytes:
        parts: list[bytes] = []
        read = getattr(self.stream, "read1", self.stream.read)  # `read` loses what it has when the stream breaks off
        while size > 0:
            try:
                part = read(min(size, STEP))
            except Exception:  # zlib.error and LZMAError are plain ones
                if parts:
                    break  # the next call meets it again
                raise
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self.at += len(part)
            if self.at > TOTAL or (self.compressed and self.at > max(RATIO_FROM, RATIO * self.compressed)):
                raise Bomb
        return b"".join(parts)


def ending_of(item: Item) -> str:
    """ "zip", "tar", or the compression of a file that has one; "" for everything else. By name and first bytes: a
    checkpoint is a zip file too, and no archive of evidence."""
    name = item.base.lower()
    if name.endswith(".zip"):
        return "zip" if item.head[:2] == b"PK" else ""
    if name.endswith(".tar"):
        return "tar" if item.head[257:262] == b"ustar" or _old_tar(item.head) else ""
    if name.endswith(TAR) or name.endswith(ALONE):
        return next((way for magic, way in MAGIC.items() if item.head.startswith(magic)), "")
    return ""


def _old_tar(head: bytes) -> bool:
    """Before ustar: a NUL-terminated name, and the octal checksum of the header."""
    if len(head) < 512:
        return False
    try:
        claimed = int(head[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    return claimed == sum(head[:148]) + 8 * 32 + sum(head[156:512])


def opened(item: Item, inside: bool = False) -> Iterator[Item | tuple[str, Text]]:
    """The members of an archive, or the content of a compressed file; (name, why) for what is refused or broken."""
    way = ending_of(item)
    refused = Refusals(item.name)
    try:
        if way == "zip":
            yield from _zip(item, refused, inside)
        elif way == "tar":
            yield from _tar(item, None, refused, inside)
        else:
            with item.open() as f:
                source = Source(decompressor(way, f), item.size)
                base = item.base.lower()
                if base.endswith(TAR):
                    yield from _tar(item, source, refused, inside)
                else:
                    yield from _alone(item, source, inside)
    except Bomb:
        yield (
            item.name,
            Text(
                "decompresses to far more than any log: the rest is not read",
                "解压后的大小远超正常日志：其余部分未读取",
            ),
        )
    except Unreadable as e:
        yield item.name, e.text
    except Exception as e:  # whatever broken bytes make the decompressors raise
        why = f"{type(e).__name__}: {e}"[:120]
        yield item.name, Text("is broken or cut off: {reason}", "已损坏或被截断：{reason}", reason=why)
    yield from refused.said()


class Refusals:
    """Members that are not read, one line for each reason."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_reason: dict[Text, list[str]] = {}

    def add(self, member: str, why: Text) -> None:
        self.by_reason.setdefault(why, []).append(member)

    def said(self) -> Iterator[tuple[str, Text]]:
        for why, members in self.by_reason.items():
            where = f"{self.name}!{members[0]}"
            if len(members) == 1:
                yield where, why
            else:
                yield where, Text("{why} (and {n} more)", "{why}（另有 {n} 个）", why=why, n=len(members) - 1)


_LINK = Text("is a link inside an archive: not followed", "是归档中的链接：不跟随")
_ENCRYPTED = Text("is encrypted: not read", "已加密：未读取")
_SPECIAL = Text("is a device or pipe inside an archive: not read", "是归档中的设备或管道：未读取")
_OUTSIDE = Text("has a name that leads out of the archive: not read", "名称指向归档之外：未读取")
_NESTED = Text("is an archive in an archive in an archive: unpack it first", "是归档中的归档中的归档：请先解包")


def safe_name(name: str) -> str:
    """A member's name as a path within its archive, "" when it leads outside."""
    name = name.replace("\\", "/").replace("\0", "")
    parts = [p for p in name.split("/") if p not in ("", ".")]
    if name.startswith("/") or ".." in parts or (parts and parts[0][1:2] == ":"):
        return ""
    return "/".join(parts)


def _tar(item: Item, source: Source | None, refused: Refusals, inside: bool) -> Iterator[Item | tuple[str, Text]]:
    import tarfile

    stream: BinaryIO = item.open() if source is None else source  # type: ignore[assignment]
    headers: Any = _Headers(stream) if source is None else stream
    try:
        with tarfile.open(fileobj=headers, mode="r:", errorlevel=0) as tar:
            for number in range(MEMBERS + 1):
                member = tar.next()
                tar.members = []  # type: ignore[attr-defined]  # it keeps every header
                if member is None:
                    break
                if number == MEMBERS:
                    yield item.name, Text("more than {n} members: the rest is not read",
                                          "成员超过 {n} 个：其余未读取", n=f"{MEMBERS:,}")  # fmt: skip
                    break
                if member.isdir():
                    continue
                if member.islnk() or member.issym():
                    refused.add(member.name, _LINK)
                    continue
                if not member.isreg():
                    refused.add(member.name, _SPECIAL)
                    continue
                name = safe_name(member.name)
                if not name:
                    refused.add(member.name, _OUTSIDE)
                    continue
                full = f"{item.name}!{name}"
                if member.issparse():
                    with tar.extractfile(member) as f:  # type: ignore[union-attr]
                        yield from _held(item, full, Source(f, item.size), member.size, member.mtime, refused, inside)
                elif source is None and item.data is None:
                    at = item.offset + member.offset_data
                    if member.offset_data + member.size > item.size:
                        yield full, Text("is cut off", "被截断")
                        break
                    stream.seek(member.offset_data)
                    head = stream.read(min(HEAD, member.size))
                    lying = Item(full, item.path, member.size, head, member.mtime, offset=at)
                    yield from _nested(lying, refused, inside)
                else:
                    stream.seek(member.offset_data)
                    limited = _Limited(stream, member.size)
                    yield from _held(item, full, limited, member.size, member.mtime, refused, inside)
    finally:
        if source is None:
            stream.close()


class _Headers(io.RawIOBase):
    """What tarfile and zipfile see of a file: reads of more than a header are refused."""

    def __init__(self, stream: BinaryIO, most: int = HEADER) -> None:
        self.stream = stream
        self.most = most

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, to: int, whence: int = 0) -> int:
        return self.stream.seek(to, whence)

    def read(self, size: int = -1) -> bytes:
        if size > self.most:
            raise Bomb
        data = self.stream.read(self.most + 1 if size < 0 else size)
        if len(data) > self.most:
            raise Bomb
        return data


class _Limited:
    """The next `left` bytes of a stream."""

    def __init__(self, stream: Any, left: int) -> None:
        self.stream = stream
        self.left = left

    def read(self, size: int) -> bytes:
        wanted = min(size, self.left, STEP)
        take = getattr(self.stream, "take", self.stream.read)
        data: bytes = take(wanted) if wanted else b""
        self.left -= len(data)
        return data


def _zip(item: Item, refused: Refusals, inside: bool) -> Iterator[Item | tuple[str, Text]]:
    import time
    import zipfile

    budget = Source(io.BytesIO(), item.size)
    with item.open() as f, zipfile.ZipFile(_Headers(f, DIRECTORY)) as archive:
        for number, member in enumerate(archive.infolist()):
            if number == MEMBERS:
                yield item.name, Text("more than {n} members: the rest is not read",
                                      "成员超过 {n} 个：其余未读取", n=f"{MEMBERS:,}")  # fmt: skip
                return
            if member.is_dir():
                continue
            mode = member.external_attr >> 16 & 0o170000
            if mode == 0o120000:
                refused.add(member.filename, _LINK)
                continue
            if mode not in (0, 0o100000):
                refused.add(member.filename, _SPECIAL)
                continue
            name = safe_name(member.filename)
            if not name:
                refused.add(member.filename, _OUTSIDE)
                continue
            if member.flag_bits & 1:
                refused.add(member.filename, _ENCRYPTED)
                continue
            full = f"{item.name}!{name}"
            try:
                when = time.mktime((*member.date_time, 0, 0, -1))
            except (ValueError, OverflowError):
                when = 0.0
            with archive.open(member) as stream:
                budget.stream = stream
                yield from _held(item, full, budget, member.file_size, when, refused, inside)


def _alone(item: Item, source: Source, inside: bool) -> Iterator[Item | tuple[str, Text]]:
    name = item.name[: -len(next(e for e in ALONE if item.base.lower().endswith(e)))]
    start = source.take(512)
    if start[257:262] == b"ustar":  # logs.gz that holds a tar file
        refused = Refusals(item.name)
        yield from _tar(item, Source(_Again(start, source), 0), refused, inside)
        yield from refused.said()
        return
    yield from _content(item, name, _Again(start, source), item.time)


class _Again:
    """A stream whose beginning was read already."""

    def __init__(self, start: bytes, source: Source) -> None:
        self.start = start
        self.source = source

    def read(self, size: int) -> bytes:
        if self.start:
            out, self.start = self.start[:size], self.start[size:]
            return out
        return self.source.take(size)


def _held(
    item: Item, name: str, stream: Any, size: int, when: float, refused: Refusals, inside: bool
) -> Iterator[Item | tuple[str, Text]]:
    for entry in _content(item, name, stream, when):
        if isinstance(entry, Item):
            yield from _nested(entry, refused, inside)
        else:
            yield entry


def _nested(item: Item, refused: Refusals, inside: bool) -> Iterator[Item | tuple[str, Text]]:
    if not ending_of(item):
        yield item
    elif inside:
        refused.add(item.name.rpartition("!")[2], _NESTED)
    else:
        yield from opened(item, inside=True)


def _content(item: Item, name: str, stream: Any, when: float) -> Iterator[Item | tuple[str, Text]]:
    problem: Text | None = None
    try:
        data, size, cut = ends(stream, HELD)
    except Truncated as e:
        data, size, cut = e.data, len(e.data), False
        problem = Text("is broken or cut off: {reason}", "已损坏或被截断：{reason}", reason=e.reason)
    if data or problem is None:
        yield Item(name, item.path, len(data), data[:HEAD], when, data=data)
    if problem is not None:
        yield name, problem
    if cut:
        yield name, Text(
            "has {size} when decompressed: the first and last {half} are read (line numbers of the last part count on "
            "from the first)", "解压后为 {size}：只读取开头与结尾各 {half}（结尾部分的行号接着开头计数）",
            size=spoken_size(size), half=spoken_size(HELD // 2),
        )  # fmt: skip


class Truncated(Exception):
    def __init__(self, data: bytes, reason: str) -> None:
        super().__init__(reason)
        self.data = data
        self.reason = reason


def ends(stream: Any, held: int = HELD) -> tuple[bytes, int, bool]:
    """(content, its size, is the middle left out): of a long stream the beginning and the end, cut at lines. Bomb as
    the stream; Truncated with what was read when it breaks off."""
    held = held or HELD
    half = held // 2
    first = bytearray()
    last = bytearray()
    size = 0
    while True:
        try:
            part = stream.read(STEP)
        except Bomb:
            raise
        except Exception as e:
            raise Truncated(bytes(first + last), f"{type(e).__name__}: {e}"[:120]) from None
        if not part:
            break
        size += len(part)
        room = half - len(first)
        first += part[:room]
        last += part[room:] if room < len(part) else b""
        if len(last) > 2 * half:
            del last[: len(last) - half]
    if size <= held:
        return bytes(first + last), size, False
    last = last[-half:]
    head_end = first.rfind(b"\n") + 1 or len(first)
    return bytes(first[:head_end] + last[last.find(b"\n") + 1 :]), size, True


def decompressor(way: str, stream: BinaryIO) -> Any:
    """A readable stream of what `stream` holds compressed. Unreadable: this Python cannot."""
    if way == "gz":
        import gzip

        return gzip.GzipFile(fileobj=stream, mode="rb")
    if way == "bz2":
        import bz2

        return bz2.BZ2File(stream)
    if way == "xz":
        import lzma

        return lzma.LZMAFile(stream)
    if way == "zst":
        return _zstd(stream)
    raise Unreadable(Text("does not hold what its name says", "内容与文件名不符"))


def _zstd(stream: BinaryIO) -> Any:
    tries: list[tuple[str, Callable[[Any], Any]]] = [
        ("compression.zstd", lambda m: m.ZstdFile(stream)),  # Python 3.14
        ("zstandard", lambda m: m.ZstdDecompressor().stream_reader(stream)),
        ("pyzstd", lambda m: m.ZstdFile(stream)),
    ]
    for name, make in tries:
        try:
            module = __import__(name, fromlist=["x"])
        except ImportError:
            continue
        return make(module)
    raise Unreadable(
        Text(
            "needs Python 3.14 or the package zstandard to be read; or decompress it with zstd -d",
            "读取它需要 Python 3.14 或 zstandard 包；也可先用 zstd -d 解压",
        )
    )
