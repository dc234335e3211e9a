"""What is written where: standard output, standard error, files. Nobody else in the command line prints."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def say(text: str, *, machine: bool = False) -> None:
    """Write to standard output and flush. `machine`: formats for programs are UTF-8 whatever the terminal speaks. A
    reader that has gone away (`| head`) is no error: the exit code stays that of the findings."""
    encoding = "utf-8" if machine else getattr(sys.stdout, "encoding", None) or "utf-8"
    data = _encode(text, encoding, names_as_bytes=not machine)
    if not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(data.decode(encoding, "replace"))
    else:
        say_bytes(data if os.linesep == "\n" or machine else data.replace(b"\n", os.linesep.encode()))


def say_bytes(data: bytes) -> None:
    """Write to standard output as it is."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        drop_stdout()


def _encode(text: str, encoding: str, names_as_bytes: bool = False) -> bytes:
    """Lone surrogates stand for file names that are not UTF-8: a terminal gets their bytes, a program valid UTF-8."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        pass
    if encoding.lower().replace("-", "") == "utf8":
        try:
            return text.encode(encoding, "surrogateescape" if names_as_bytes else "backslashreplace")
        except UnicodeEncodeError:
            return text.encode(encoding, "backslashreplace")
    return text.encode(encoding, "replace")


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
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns or 100)  # 0: it does not know
    except (OSError, ValueError):
        return 100


def show_progress() -> bool:
    """A line that comes and goes is for a person in front of a terminal, not for logs."""
    return is_terminal(sys.stderr) and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


def write_file(path: str, text: str) -> None:
    """Write a report's file, whole or not at all. Raises UserError when that cannot be."""
    from torchvet.check.gate.files import replace_file

    replace_file(path, _encode(text, "utf-8"))
