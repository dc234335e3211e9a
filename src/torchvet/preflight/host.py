"""Every read of the outside world goes through one `Host`; a fixture folder can stand in for it (`recorded.py`).

Unknown is None, never a guess. Nothing here can hang: commands run in a process group of their own that is killed at
its limit, questions about file systems that may hang (NFS and its like) are asked in such a command too, names are
looked up in a thread that is left behind.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time

from .command import Ran, execute, find_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")
    Strings = list[str]  # `list` means a method inside the class
    Mounts = list["Mount"]
    Answers = list[list[str]]

READ_BYTES = 1 << 20
"""At most this much of a file is read."""

MAY_HANG = (
    "nfs", "cifs", "smb", "lustre", "gpfs", "fuse", "ceph", "9p", "afs", "beegfs", "glusterfs", "pvfs", "wekafs",
    "virtiofs", "autofs",
)  # fmt: skip
"""Beginnings of file system types whose server can go away: a question about them may never be answered."""

ANSWER = 5.0
"""Seconds that a file system has for an answer."""

SMALL = ("-I", "-S")
"""A child interpreter that imports nothing: 15 ms."""

_STAT = """
import os, sys
s = os.statvfs(sys.argv[1])
print(s.f_frsize * s.f_blocks, s.f_frsize * s.f_bavail, s.f_files, s.f_favail, s.f_flag & 1)
"""
_READ = f"import sys;sys.stdout.buffer.write(open(sys.argv[1],'rb').read({READ_BYTES}))"
_LIST = "import os,sys;print(*sorted(os.listdir(sys.argv[1])),sep='\\0')"
_ACCESS = "import os,sys;print(int(os.path.exists(sys.argv[1])),int(os.access(sys.argv[1],os.W_OK)))"
_WRITE = """
import os, sys, time
path, size = sys.argv[1], int(sys.argv[2])
block = os.urandom(min(size, 1 << 20)) if size else b""
start = time.perf_counter()
fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
try:
    left = size
    while left > 0:
        left -= os.write(fd, block[:left])
    os.fsync(fd)
finally:
    os.close(fd)
    os.unlink(path)
print(time.perf_counter() - start)
"""


class Space:
    """What a file system has: `size` and `free` bytes (free to this user), `inodes` and `inodes_free` (0 and 0: it does
    not count them), `read_only`."""

    __slots__ = ("free", "inodes", "inodes_free", "read_only", "size")

    def __init__(self, size: int, free: int, inodes: int = 0, inodes_free: int = 0, read_only: bool = False) -> None:
        self.size = size
        self.free = free
        self.inodes = inodes
        self.inodes_free = inodes_free
        self.read_only = read_only


class Written:
    """How the writing of a temporary file went: `error` ("" or the system's words), `seconds` of write and fsync."""

    __slots__ = ("error", "seconds", "timed_out")

    def __init__(self, error: str = "", seconds: float = 0.0, timed_out: bool = False) -> None:
        self.error = error
        self.seconds = seconds
        self.timed_out = timed_out


class Host:
    """The machine as this process sees it. `root` is put before every path; `env` replaces the environment.

    `deadline` (of time.monotonic) bounds every command, whatever its own limit is."""

    def __init__(self, root: str = "/", env: dict[str, str] | None = None) -> None:
        self.root = root.rstrip("/")
        self.env: dict[str, str] = dict(os.environ if env is None else env)
        self.deadline: float | None = None
        self.hung: set[str] = set()
        """Commands and mounts that gave no answer: they are not asked again in this run."""
        self.stuck: dict[str, threading.Thread] = {}
        """Threads of probes, by name; one may never end (`node.examine`)."""
        self._locks: dict[object, threading.Lock] = {}
        self._guard = threading.Lock()
        self._known: dict[object, Any] = {}

    def fresh(self) -> None:
        """Forget what was answered: a later look shall see changes."""
        self._known.clear()
        self.hung.clear()

    # ------------------------------------------------------------------------------------------------------- files
    def read(self, path: str) -> str | None:
        """The text of a file, at most 1 MiB of it; None when it is absent or cannot be read (`why` says which). Devices
        and pipes are read as far as they have something now."""
        return self.once(("read", path), lambda: self._read(path))[0]

    def why(self, path: str) -> str:
        """Why `read` gave None: "absent", "denied" or "error"; "" when it gave text."""
        return self.once(("read", path), lambda: self._read(path))[1]

    def list(self, path: str) -> Strings:
        """Names in a folder, sorted; empty when it is absent or cannot be read."""
        if self.may_hang(path):
            ran = self._ask(_LIST, path)
            return [n for n in ran.out.rstrip("\n").split("\0") if n] if ran.ok else []
        try:
            return sorted(os.listdir(self.root + path))
        except (OSError, ValueError):
            return []

    def exists(self, path: str) -> bool:
        if self.may_hang(path):
            return self._ask(_ACCESS, path).out.startswith("1")
        return os.path.exists(self.root + path)

    def missing(self, path: str) -> bool:
        """Is it certain that there is no such file or folder? A recorded machine may only not have been asked."""
        return not self.exists(path)

    def writable(self, path: str) -> bool | None:
        """May this user create files in a folder? Nothing is written. None: unknown, or no such folder."""
        if self.may_hang(path):
            words = self._ask(_ACCESS, path).out.split()
            return words[1] == "1" if len(words) == 2 and words[0] == "1" else None
        try:
            return os.access(self.root + path, os.W_OK | os.X_OK) if os.path.isdir(self.root + path) else None
        except OSError:
            return None

    def link(self, path: str) -> str | None:
        """Where a symbolic link points, as written."""
        try:
            return os.readlink(self.root + path)
        except (OSError, ValueError):
            return None

    def space(self, path: str) -> Space | None:
        """The file system of `path`. None: absent, denied, or no answer in 5 s."""
        return self.once(("space", path), lambda: self._space(path))

    def try_write(self, folder: str, size: int, seconds: float = 8) -> Written | None:
        """Write a temporary file of `size` bytes with fsync and remove it again. Only for folders that the user named.
        None where a recorded machine has no answer."""
        name = f"{self.root}{folder}/.torchvet-{os.getpid()}-{time.monotonic_ns()}"
        ran = self.python(_WRITE, seconds, name, str(size))
        if ran.timed_out:
            try:
                if not self.may_hang(folder):
                    os.unlink(name)
            except OSError:
                pass
            return Written("", ran.seconds, True)
        if ran.ok:
            return Written("", float(ran.out))
        lines = ran.err.strip().splitlines() or [f"exit {ran.code}"]
        return Written(lines[-1].partition("]")[2].partition(":")[0].strip() or lines[-1], ran.seconds)

    def mounts(self) -> Mounts:
        """Rows of /proc/self/mountinfo, in their order: of several on one place the last one is seen."""
        return self.once("mounts", lambda: _mounts(self.read("/proc/self/mountinfo")))

    def mount_of(self, path: str) -> Mount | None:
        """The mount that a path lies on, links followed."""
        return self._mount_at(self.real(path))

    def _mount_at(self, path: str) -> Mount | None:
        best = None
        for m in self.mounts():
            inside = m.place == "/" or path == m.place or path.startswith(m.place + "/")
            if inside and (best is None or len(m.place) >= len(best.place)):
                best = m
        return best

    def real(self, path: str) -> str:
        """The path with its links followed, as far as that asks no file system that may hang."""
        return self.once(("real", path), lambda: self._real(path))

    def alive(self, path: str) -> bool | None:
        """Does the file system of a path answer within 5 s? None: it is not there, or denies it."""
        if self.space(path) is not None:
            return True
        mount = self.mount_of(path)
        return False if mount is not None and mount.place in self.hung else None

    def may_hang(self, path: str) -> bool:
        """Does the path lie on a file system whose server can go away?"""
        if path.startswith(("/proc/", "/sys/", "/dev/")):
            return False
        return _server(self.mount_of(path))

    # ------------------------------------------------------------------------------------------- limits and CPUs
    def limit(self, name: str) -> tuple[int, int] | None:
        """(soft, hard) of a resource limit of this process, "MEMLOCK" or "NOFILE"; -1 is unlimited."""
        import resource

        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            return None
        try:
            soft, hard = resource.getrlimit(number)
        except (OSError, ValueError):
            return None
        return (-1 if soft == resource.RLIM_INFINITY else soft, -1 if hard == resource.RLIM_INFINITY else hard)

    def cpus(self) -> frozenset[int] | None:
        """CPUs that this process may run on."""
        try:
            return frozenset(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            return None

    # ---------------------------------------------------------------------------------------------------- commands
    def run(self, argv: Sequence[str], seconds: float = 8) -> Ran | None:
        """Run a command: its own process group, killed at the limit, nothing on its standard input, LANG=C. None: there
        is no such command. The same words are run once; a command that gave no answer is not tried again."""
        key = ("run", *argv)
        with self._lock(("command", argv[0])):
            if key not in self._known:
                if argv[0] in self.hung:
                    return Ran(-9, "", "", True, 0.0)
                ran = self._run(argv, seconds)
                self._known[key] = ran
                if ran is not None and ran.timed_out:
                    self.hung.add(argv[0])
            return self._known[key]  # type: ignore[no-any-return]

    def answered(self, command: str) -> bool:
        """Was a command run already, and gave an answer? Asking it again then costs nothing."""
        return command not in self.hung and any(
            isinstance(k, tuple) and k[:2] == ("run", command) for k in [*self._known]
        )

    def python(self, code: str, seconds: float, *words: str) -> Ran:
        """Run code in a child interpreter; `words` are its sys.argv[1:]. Code that says `# packages` on its first line
        gets the installed packages, other code the bare standard library."""
        own = () if code.startswith("# packages") else SMALL
        return execute([sys.executable, *own, "-c", code, *words], self._left(seconds), self.env)

    # ----------------------------------------------------------------------------------------------------- network
    def resolve(self, name: str, seconds: float = 5) -> Strings | None:
        """Addresses of a name, [] when it has none; None when the name service gave no answer in time."""
        return self.once(("resolve", name), lambda: self._resolve(name, self._left(seconds)))

    def connect(self, address: str, port: int, seconds: float = 3) -> str:
        """ "" when a TCP connection comes about, else the reason in the system's words."""
        import socket

        try:
            with socket.create_connection((address, port), timeout=self._left(seconds)):
                return ""
        except OSError as error:
            return "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)

    def listening(self, port: int) -> bool | None:
        """Does some process of this network namespace listen on a TCP port?"""
        known = None
        for path in ("/proc/net/tcp", "/proc/net/tcp6"):
            text = self.read(path)
            if text is None:
                continue
            known = bool(known)
            for line in text.splitlines()[1:]:
                words = line.split()
                if len(words) > 3 and words[3] == "0A" and words[1].rpartition(":")[2] == f"{port:04X}":
                    return True
        return known

    # -------------------------------------------------------------------------------------------------------- self
    def cwd(self) -> str:
        """The current folder; "" when it is gone. A recorded machine says it as PWD."""
        try:
            return os.getcwd()
        except OSError:
            return ""

    def versions(self) -> dict[str, str]:
        """python, kernel, hostname, boot_id, user (its number), and, when installed, torch, torch_cuda, torch_hip,
        torch_git, nccl: read from files, torch is not imported."""
        return self.once("versions", self._versions)

    def clock_synchronised(self) -> bool | None:
        """Does a daemon keep the system clock right, as the kernel was told by it (adjtimex, STA_UNSYNC)? It holds for
        the whole machine, so containers see it too."""
        return self.once("clock", self._clock)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    # --------------------------------------------------------------------------------------------- how it is done
    def once(self, key: object, answer: Callable[[], T]) -> T:
        """The answer of the first time; two who ask at the same time wait for the same answer."""
        if key not in self._known:
            with self._lock(key):
                if key not in self._known:
                    self._known[key] = answer()
        return self._known[key]  # type: ignore[no-any-return]

    def _lock(self, key: object) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(key, threading.Lock())

    def _ask(self, code: str, path: str) -> Ran:
        """What a child finds out about a path; of a mount that gave no answer once nothing is asked again."""
        mount = self.mount_of(path)
        place = mount.place if mount is not None else "/"
        key = ("ask", code, path)
        with self._lock(("mount", place)):
            if key not in self._known:
                if place in self.hung:
                    return Ran(-9, "", "", True, 0.0)
                ran = self.python(code, ANSWER, self.root + path)
                if ran.timed_out:
                    self.hung.add(place)
                self._known[key] = ran
            return self._known[key]  # type: ignore[no-any-return]

    def _real(self, path: str) -> str:
        parts = [p for p in path.split("/") if p]
        parts.reverse()
        done, links = "", 0
        while parts:
            part = parts.pop()
            if part == "..":
                done = done.rpartition("/")[0]
            elif part != ".":
                target = None if _server(self._mount_at(f"{done}/{part}")) else self.link(f"{done}/{part}")
                links += target is not None
                if target is None or links > 40:
                    done += "/" + part
                else:
                    done = "" if target.startswith("/") else done
                    parts += [p for p in reversed(target.split("/")) if p]
        return done or "/"

    def _left(self, seconds: float) -> float:
        return seconds if self.deadline is None else max(0.05, min(seconds, self.deadline - time.monotonic()))

    def _run(self, argv: Sequence[str], seconds: float) -> Ran | None:
        path = find_command(argv[0], self.env)
        return execute([path, *argv[1:]], self._left(seconds), self.env) if path else None

    def _read(self, path: str) -> tuple[str | None, str]:
        if path != "/proc/self/mountinfo" and self.may_hang(path):
            ran = self._ask(_READ, path)
            denied = "denied" if "PermissionError" in ran.err else "absent" if "FileNotFound" in ran.err else "error"
            return (ran.out, "") if ran.ok else (None, denied)
        try:
            fd = os.open(self.root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None, "absent"
        except PermissionError:
            return None, "denied"
        except (OSError, ValueError):
            return None, "error"
        parts: list[bytes] = []
        held = 0
        try:
            while held < READ_BYTES:
                try:
                    part = os.read(fd, min(65536, READ_BYTES - held))
                except BlockingIOError:  # the end of /dev/kmsg
                    break
                except BrokenPipeError:  # a record of /dev/kmsg was overwritten before it was read
                    continue
                if not part:
                    break
                parts.append(part)
                held += len(part)
        except OSError as error:
            if not parts:
                return None, "denied" if error.errno in (errno.EPERM, errno.EACCES) else "error"
        finally:
            os.close(fd)
        return b"".join(parts).decode("utf-8", "replace"), ""

    def _space(self, path: str) -> Space | None:
        if self.may_hang(path):
            words = self._ask(_STAT, path).out.split()
            numbers = [int(w) for w in words] if len(words) == 5 and all(w.isdigit() for w in words) else None
            return Space(numbers[0], numbers[1], numbers[2], numbers[3], bool(numbers[4])) if numbers else None
        try:
            s = os.statvfs(self.root + path)
        except (OSError, ValueError):
            return None
        free = s.f_frsize * s.f_bavail
        return Space(s.f_frsize * s.f_blocks, free, s.f_files, s.f_favail, bool(s.f_flag & os.ST_RDONLY))

    def _resolve(self, name: str, seconds: float) -> Strings | None:
        import socket

        out: Answers = []

        def ask() -> None:
            try:
                rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                out.append(list(dict.fromkeys(str(row[4][0]) for row in rows)))
            except socket.gaierror as error:
                if error.errno != socket.EAI_AGAIN:
                    out.append([])
            except (OSError, UnicodeError):
                out.append([])

        thread = threading.Thread(target=ask, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads may be started
            return None
        thread.join(seconds)
        return out[0] if out else None

    def _clock(self) -> bool | None:
        import ctypes

        class Timex(ctypes.Structure):  # adjtimex(2); only `modes` and `status` matter here
            _fields_ = (("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
                        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
                        ("rest", ctypes.c_char * 256))  # fmt: skip

        try:
            state = Timex()
            if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0:
                return None
        except (OSError, AttributeError):
            return None
        return not state.status & 0x40  # STA_UNSYNC

    def _versions(self) -> dict[str, str]:
        from .installed import environments, torch_versions

        name = os.uname()
        out = {
            "python": sys.version.split()[0],
            "kernel": name.release,
            "hostname": name.nodename,
            "user": str(os.getuid()),
            "machine": name.machine,
        }
        boot = self.read("/proc/sys/kernel/random/boot_id")
        if boot:
            out["boot_id"] = boot.strip()
        return {**out, **torch_versions([*sys.path, *environments(self.env)])}


class Mount:
    """A row of mountinfo: `place`, file system `kind`, `source`, `options` (of the mount and of the file system),
    `device` (MAJOR:MINOR), `part` of the file system that is mounted ("/" for the whole)."""

    __slots__ = ("device", "kind", "options", "part", "place", "source")

    def __init__(
        self, place: str, kind: str, source: str, options: frozenset[str], device: str = "", part: str = "/"
    ) -> None:
        self.place = place
        self.kind = kind
        self.source = source
        self.options = options
        self.device = device
        self.part = part


def _server(mount: Mount | None) -> bool:
    return mount is not None and mount.kind.startswith(MAY_HANG)


def _mounts(text: str | None) -> list[Mount]:
    """proc_pid_mountinfo(5): `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`."""
    out = []
    for line in (text or "").splitlines():
        before, _, after = line.partition(" - ")
        words, rest = before.split(), after.split()
        if len(words) < 6 or len(rest) < 2:
            continue
        options = frozenset([*words[5].split(","), *(rest[2].split(",") if len(rest) > 2 else ())])
        out.append(Mount(_plain(words[4]), rest[0], _plain(rest[1]), options, words[2], _plain(words[3])))
    return out


def _plain(word: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, char)
    return word
