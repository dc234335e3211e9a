"""A machine that was written down: a folder with the files that were read (`root/`) and the other answers
(`host.toml`). What the folder lacks is unknown.

    [env]                      NCCL_DEBUG = "INFO"
    [limits]                   MEMLOCK = [65536, 65536]          (-1: unlimited)
    [space."/dev/shm"]         size, free, inodes, inodes_free (numbers, or "64MiB"), read_only = true
                               hangs = true: its server gives no answer
    [cpus]                     affinity = "0-7"
    [links]                    "/proc/self/ns/ipc" = "ipc:[4026531839]"
    [lists]                    "/dev" = ["nvidia0"]              (added to what lies in root/)
    [why]                      "/dev/kmsg" = "denied"
    [writable]                 "/data" = true
    [writes."/ckpt"]           error = "", seconds = 0.1, timed_out = true
    [commands."nvidia-smi -L"] code = 0, out = "...", err = "...", seconds = 0.1, hangs = true
                               (the words may hold * as in a file name pattern; of several that fit the longest counts)
    [python]                   code that is in the child's code -> its output
    [names]                    "node-1" = ["10.0.0.1"]
    [ports]                    listening = [29500]; "10.0.0.1:29500" = "" (connects) or "Connection refused"
    [clock]                    synchronised = true
    [versions]                 hostname, kernel, python, torch ...; now = 1790000000.0
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from shlex import join

from torchvet.findings import Text, UserError

from .command import Ran
from .host import READ_BYTES, Host, Space, Written
from .quantity import cpu_list, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Strings = list[str]  # `list` means a method inside the classes

HANGING = 8.0


class Recorded(Host):
    """The answers of a fixture folder. UserError: no such folder, or its host.toml cannot be read."""

    def __init__(self, folder: str) -> None:
        super().__init__(os.path.join(folder, "root"), {})
        self.folder = folder
        self.table = _table(folder)
        self.env = {k: str(v) for k, v in self._part("env").items()}

    def _part(self, name: str) -> dict[str, Any]:
        part = self.table.get(name, {})
        return part if isinstance(part, dict) else {}

    # files: those of the base class, below root/
    def why(self, path: str) -> str:
        said = self._part("why").get(path)
        return str(said) if said else super().why(path)

    def _read(self, path: str) -> tuple[str | None, str]:
        said = self._part("why").get(path)
        if said:
            return None, str(said)
        try:
            with open(self.root + path, "rb") as f:
                return f.read(READ_BYTES).decode("utf-8", "replace"), ""
        except (FileNotFoundError, NotADirectoryError):
            return None, "absent"
        except (OSError, ValueError):
            return None, "error"

    def may_hang(self, path: str) -> bool:
        return False

    def alive(self, path: str) -> bool | None:
        row = self._part("space").get(path)
        if isinstance(row, dict) and row.get("hangs"):
            return False
        return True if self.space(path) is not None else None

    def list(self, path: str) -> Strings:
        return sorted({*super().list(path), *(str(x) for x in self._part("lists").get(path, ()))})

    def exists(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        return (
            os.path.lexists(self.root + path)
            or path in self._part("links")
            or path in self._part("lists")
            or path in self._part("why")
            or path in self._part("space")
            or name in self._part("lists").get(parent or "/", ())
        )

    def missing(self, path: str) -> bool:
        parent = path.rstrip("/").rpartition("/")[0]
        while parent and not self.exists(parent):
            parent = parent.rpartition("/")[0]
        return not self.exists(path) and bool(self.list(parent or "/")) and bool(self.table)

    def writable(self, path: str) -> bool | None:
        said = self._part("writable").get(path)
        return said if isinstance(said, bool) else None

    def link(self, path: str) -> str | None:
        said = self._part("links").get(path)
        return str(said) if said is not None else super().link(path)

    def _space(self, path: str) -> Space | None:
        part = self._part("space")
        best = max((p for p in part if p == path or p == "/" or path.startswith(p + "/")), key=len, default=None)
        if best is None or part[best].get("hangs"):
            return None
        row = part[best]
        size, free, inodes, left = (_bytes(row.get(k, 0)) for k in ("size", "free", "inodes", "inodes_free"))
        return Space(size, free, inodes, left, bool(row.get("read_only", False)))

    def try_write(self, folder: str, size: int, seconds: float = 8) -> Written | None:
        row = self._part("writes").get(folder)
        if not isinstance(row, dict):
            return None
        return Written(str(row.get("error", "")), float(row.get("seconds", 0)), bool(row.get("timed_out", False)))

    # limits, commands, network
    def limit(self, name: str) -> tuple[int, int] | None:
        row = self._part("limits").get(name)
        return (int(row[0]), int(row[1])) if isinstance(row, list) and len(row) == 2 else None

    def cpus(self) -> frozenset[int] | None:
        said = self._part("cpus").get("affinity")
        return cpu_list(str(said)) if said is not None else None

    def _run(self, argv: Sequence[str], seconds: float) -> Ran | None:
        part = self._part("commands")
        words = join(argv)
        fitting = [k for k in part if k == words or fnmatchcase(words, k)]
        if fitting:
            return _ran(part[max(fitting, key=lambda k: (k == words, len(k)))], seconds)
        if any(k.split()[:1] == [argv[0]] for k in part):
            return Ran(125, "", "this answer was not recorded")
        return None

    def python(self, code: str, seconds: float, *words: str) -> Ran:
        for part, said in self._part("python").items():
            if part in code:
                return Ran(0, str(said), "")
        return Ran(125, "", "this answer was not recorded")

    def _resolve(self, name: str, seconds: float) -> Strings | None:
        said = self._part("names").get(name)
        return [str(x) for x in said] if isinstance(said, list) else None

    def connect(self, address: str, port: int, seconds: float = 3) -> str:
        return str(self._part("ports").get(f"{address}:{port}", "this answer was not recorded"))

    def listening(self, port: int) -> bool | None:
        said = self._part("ports").get("listening")
        return port in said if isinstance(said, list) else None

    def cwd(self) -> str:
        return self.env.get("PWD", "")

    def _versions(self) -> dict[str, str]:
        return {k: str(v) for k, v in self._part("versions").items() if k != "now"}

    def _clock(self) -> bool | None:
        said = self._part("clock").get("synchronised")
        return said if isinstance(said, bool) else None

    def now(self) -> float:
        return float(self._part("versions").get("now", 0.0))


def _ran(row: dict[str, Any], seconds: float) -> Ran:
    took = float(row.get("seconds", 0))
    if row.get("hangs") or took > seconds:
        return Ran(-9, str(row.get("out", "")), str(row.get("err", "")), True, seconds)
    return Ran(int(row.get("code", 0)), str(row.get("out", "")), str(row.get("err", "")), False, took)


def _bytes(value: object) -> int:
    return parse_size(value) or 0 if isinstance(value, str) else int(value) if isinstance(value, (int, float)) else 0


def _table(folder: str) -> dict[str, Any]:
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found,no-redef,unused-ignore]

    path = os.path.join(folder, "host.toml")
    try:
        with open(path, "rb") as f:
            table: dict[str, Any] = tomllib.load(f)
            return table
    except OSError as error:
        raise UserError(
            Text(
                "cannot read {path}: {reason}", "无法读取 {path}：{reason}", path=path, reason=error.strerror or "error"
            ),
            Text("torchvet preflight --record FOLDER writes one", "torchvet preflight --record FOLDER 会生成它"),
        ) from None
    except ValueError as error:
        raise UserError(
            Text("{path} is not TOML: {reason}", "{path} 不是合法的 TOML：{reason}", path=path, reason=str(error))
        ) from None


# ---------------------------------------------------------------------------------------------------- recording
KEPT = (
    "ACCELERATE", "APPTAINER_NAME", "APPTAINER_CONTAINER", "AWS_OFI", "COMPOSE_", "CUDA", "DS_", "ENROOT",
    "FI_", "GLOO", "GOMP", "GPU", "GROUP_", "HF_HOME", "HIP_", "HOME", "HOSTNAME", "HSA_", "KMP",
    "KUBERNETES_SERVICE_HOST", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_", "MASTER_", "MIOPEN", "MKL", "MPI",
    "NCCL", "NNODES", "NODE_RANK", "NUMEXPR", "NVIDIA", "OMP", "OPENBLAS", "PATH", "PET_", "PMI", "PYTHON",
    "PYTORCH", "RANK", "RCCL", "ROCR", "ROLE_", "SINGULARITY", "SLURM_", "TMPDIR", "TORCH", "TRITON", "UCX",
    "WORLD_SIZE", "XDG_CACHE", "container",
)  # fmt: skip
"""Beginnings of variables that are written down; no other one leaves the machine."""
SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH")


class Recorder(Host):
    """The real machine; everything that is read is remembered, `save` writes it to a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self.tables: dict[str, dict[str, Any]] = {"versions": {"now": self.now()}}

    def _note(self, table: str, key: str, value: Any) -> None:
        if value is not None:
            self.tables.setdefault(table, {})[key] = value

    def _read(self, path: str) -> tuple[str | None, str]:
        text, why = super()._read(path)
        if text is not None:
            self.files[path] = text
        elif why != "absent":
            self._note("why", path, why)
        return text, why

    def list(self, path: str) -> Strings:
        names = super().list(path)
        if names:
            self._note("lists", path, names)
        return names

    def exists(self, path: str) -> bool:
        found = super().exists(path)
        if found:
            self.tables.setdefault("lists", {}).setdefault(path, [])
        else:  # that the folder around it was seen makes it absent, not unknown
            parent = path.rstrip("/").rpartition("/")[0] or "/"
            if parent != path and os.path.isdir(parent):
                self.tables.setdefault("lists", {}).setdefault(parent, os.listdir(parent)[:200])
        return found

    def writable(self, path: str) -> bool | None:
        said = super().writable(path)
        self._note("writable", path, said)
        return said

    def link(self, path: str) -> str | None:
        said = super().link(path)
        self._note("links", path, said)
        return said

    def alive(self, path: str) -> bool | None:
        said = super().alive(path)
        if said is False:
            self._note("space", path, {"hangs": True})
        return said

    def _space(self, path: str) -> Space | None:
        s = super()._space(path)
        if s is not None:
            row = {"size": s.size, "free": s.free, "inodes": s.inodes, "inodes_free": s.inodes_free}
            self._note("space", path, {**row, "read_only": s.read_only})
        return s

    def try_write(self, folder: str, size: int, seconds: float = 8) -> Written | None:
        w = super().try_write(folder, size, seconds)
        if w is not None:
            self._note("writes", folder, {"error": w.error, "seconds": w.seconds, "timed_out": w.timed_out})
        return w

    def limit(self, name: str) -> tuple[int, int] | None:
        said = super().limit(name)
        self._note("limits", name, list(said) if said else None)
        return said

    def cpus(self) -> frozenset[int] | None:
        from .quantity import cpu_text

        said = super().cpus()
        self._note("cpus", "affinity", cpu_text(said) if said else None)
        return said

    def _run(self, argv: Sequence[str], seconds: float) -> Ran | None:
        ran = super()._run(argv, seconds)
        if ran is not None:
            row = {"code": ran.code, "out": ran.out, "err": ran.err, "seconds": round(ran.seconds, 3)}
            self._note("commands", join(argv).replace("[", "[[]"), {**row, "hangs": True} if ran.timed_out else row)
        return ran

    def _resolve(self, name: str, seconds: float) -> Strings | None:
        said = super()._resolve(name, seconds)
        self._note("names", name, said)
        return said

    def connect(self, address: str, port: int, seconds: float = 3) -> str:
        said = super().connect(address, port, seconds)
        self._note("ports", f"{address}:{port}", said)
        return said

    def listening(self, port: int) -> bool | None:
        said = super().listening(port)
        if said is not None:
            ports = self.tables.setdefault("ports", {}).setdefault("listening", [])
            if said and port not in ports:
                ports.append(port)
        return said

    def _clock(self) -> bool | None:
        said = super()._clock()
        self._note("clock", "synchronised", said)
        return said

    def _versions(self) -> dict[str, str]:
        said = super()._versions()
        self.tables["versions"].update(said)
        return said

    def save(self, folder: str) -> None:
        """Write the folder; it must not exist, or be empty. UserError: it cannot be written."""
        env = {"PWD": self.cwd()} | {
            k: v for k, v in self.env.items() if k.startswith(KEPT) and not any(part in k.upper() for part in SECRET)
        }
        try:
            os.makedirs(folder, exist_ok=True)
            if os.listdir(folder):
                raise UserError(
                    Text("{folder} is not empty", "{folder} 不是空目录", folder=folder),
                    Text("name a folder that does not exist yet", "请指定尚不存在的目录"),
                )
            for path, text in self.files.items():
                target = os.path.join(folder, "root", path.lstrip("/"))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8", newline="") as f:
                    f.write(text)
            with open(os.path.join(folder, "host.toml"), "w", encoding="utf-8") as f:
                f.write(to_toml({"env": env, **self.tables}))
        except OSError as error:
            raise UserError(
                Text(
                    "cannot write {folder}: {reason}", "无法写入 {folder}：{reason}",
                    folder=folder, reason=error.strerror or str(error),
                )
            ) from None  # fmt: skip


def to_toml(tables: dict[str, dict[str, Any]]) -> str:
    """Tables of plain values, lists and one more level of tables as TOML."""
    lines = []
    for name, table in tables.items():
        flat = {k: v for k, v in table.items() if not isinstance(v, dict)}
        if flat:
            lines += [f"[{name}]", *(f"{_word(k)} = {_value(v)}" for k, v in sorted(flat.items())), ""]
        for key, row in sorted((k, v) for k, v in table.items() if isinstance(v, dict)):
            lines += [f"[{name}.{_word(key)}]", *(f"{_word(k)} = {_value(v)}" for k, v in row.items()), ""]
    return "\n".join(lines)


def _word(text: str) -> str:
    # JSON strings are TOML strings, but for DEL and halves of surrogate pairs
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(x) for x in value) + "]"
    return _word(str(value))
