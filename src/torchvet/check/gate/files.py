"""Writing files so that nobody ever sees half of one: beside the place first, then moved there."""

from __future__ import annotations

import errno
import os

from torchvet.findings import Text, UserError


def replace_file(path: str, data: bytes) -> None:
    """Write a whole file or nothing. One that exists keeps its permissions; a link stays a link, its target is
    replaced. Raises UserError when it cannot be written."""
    shown = path
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UserError(
            Text("cannot write {path}: there is no folder {folder}", "无法写入 {path}：文件夹 {folder} 不存在",
                 path=shown, folder=os.path.dirname(shown) or folder),
        )  # fmt: skip
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stderr or a FIFO: nothing can be moved there
            with open(path, "wb") as f:
                f.write(data)
        else:
            _replace(path, folder, data)
    except OSError as error:
        raise UserError(
            Text("cannot write {path}: {reason}", "无法写入 {path}：{reason}", path=shown,
                 reason=error.strerror or type(error).__name__)
        ) from None  # fmt: skip


def _replace(path: str, folder: str, data: bytes) -> None:
    beside = os.path.join(folder, f".{os.path.basename(path)[:100]}.{os.getpid()}.torchvet")
    try:
        with open(beside, "wb") as f:
            f.write(data)
        if os.path.exists(path):
            if not os.access(path, os.W_OK):  # moving over it would work, but somebody has protected it
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            os.chmod(beside, os.stat(path).st_mode & 0o7777)
        os.replace(beside, path)
    except BaseException:  # Ctrl-C too: what lies beside must not stay
        if os.path.exists(beside):
            os.unlink(beside)
        raise
