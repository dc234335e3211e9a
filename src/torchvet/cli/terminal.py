"""What is written where: standard output, standard error, files. Nobody else in the command line prints."""

from __future__ import annotations

import os
import sys

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def say(text: str, *, machine: bool = False) -> None:
    """Write to standard output and flush. `machine`: formats for programs are UTF-8 whatever the terminal speaks. A
    reader that has gone away (`| head`) is no error: the exit code stays that of the findings."""
    out = sys.stdout
    try:
        encoding = "utf-8" if machine else getattr(out, "encoding", None) or "utf-8"
        data = _encode(text, encoding)
        buffer = getattr(out, "buffer", None)
        if buffer is None:
            out.write(data.decode(encoding))
        else:
            out.flush()
            buffer.write(data if os.linesep == "\n" or machine else data.replace(b"\n", os.linesep.encode()))
        out.flush()
    except BrokenPipeError:
        drop_stdout()


def _encode(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        if encoding.lower().replace("-", "") == "utf8":  # lone surrogates: file names that are not UTF-8
            return text.encode(encoding, "surrogateescape" if _only_escapes(text) else "backslashreplace")
        return text.encode(encoding, "replace")


def _only_escapes(text: str) -> bool:
    return all(0xDC80 <= ord(c) <= 0xDCFF for c in text if 0xD800 <= ord(c) <= 0xDFFF)


def complain(text: str) -> None:
    """Write to standard error; nothing can be done when that fails."""
    try:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def drop_stdout() -> None:
    """After a broken pipe: what is still buffered must not raise again when Python shuts down."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def use_color(asked: str) -> bool:
    """Whether to colour what goes to standard output (no-color.org; FORCE_COLOR as in most CI systems)."""
    if asked != "auto":
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def can_draw() -> bool:
    """Whether standard output can show box-drawing characters."""
    try:
        "┌─│━·".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        return True
    except (UnicodeEncodeError, LookupError):
        return False


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    if not is_terminal(sys.stdout):
        return 100
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return 100


def show_progress() -> bool:
    """A line that comes and goes is for a person in front of a terminal, not for logs."""
    return is_terminal(sys.stderr) and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


def write_file(path: str, text: str) -> None:
    """Write a whole file or nothing: beside it first, then moved into place. Raises UserError when that cannot be."""
    replace_file(path, _encode(text, "utf-8"))


def replace_file(path: str, data: bytes) -> None:
    """As `write_file`, for bytes; a file that exists keeps its permissions, a link its target's place."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UserError(
            Text("cannot write {path}: there is no folder {folder}", "无法写入 {path}：文件夹 {folder} 不存在",
                 path=os.path.basename(path), folder=folder)
        )  # fmt: skip
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, a FIFO: there is nothing to move into place
        _write_plain(path, data)
        return
    beside = os.path.join(folder, f".{os.path.basename(path)[:100]}.{os.getpid()}.torchvet")
    try:
        with open(beside, "xb") as f:
            f.write(data)
            try:
                os.fchmod(f.fileno(), os.stat(path).st_mode & 0o7777)
            except (FileNotFoundError, AttributeError):
                pass
        os.replace(beside, path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        try:
            os.unlink(beside)
        except OSError:
            pass


def _write_plain(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as f:
            f.write(data)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: str, error: OSError) -> UserError:
    return UserError(
        Text(
            "cannot write {path}: {reason}", "无法写入 {path}：{reason}", path=path, reason=error.strerror or str(error)
        )
    )
