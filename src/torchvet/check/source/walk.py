"""Which files there are to check: one pass with `os.scandir`, ignore files and excludes applied on the way.

Folders that are links are not entered: in training repositories they lead to data sets on network storage, and a loop
cannot arise. Nothing is opened here except ignore files.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISREG

from torchvet.findings import Text, UserError

from .ignore import Patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    FileEntry = tuple[str, str, int, int, str]

PYTHON = "python"
NOTEBOOK = "notebook"
NATIVE = "native"
DEPLOYMENT = "deployment"
KINDS = {
    "py": PYTHON, "ipynb": NOTEBOOK,
    **dict.fromkeys(("cu", "cuh", "cpp", "cc", "cxx", "c", "h", "hh", "hpp", "hxx", "hip"), NATIVE),
    **dict.fromkeys(
        ("yaml", "yml", "tpl", "tf", "sh", "bash", "sbatch", "slurm", "slrm", "mk", "Dockerfile", "dockerfile",
         "Containerfile", "Makefile", "makefile", "GNUmakefile"), DEPLOYMENT,
    ),
}  # fmt: skip
"""Kind of file by the last part of its name (a name without a dot is its own last part)."""
NAMED = dict.fromkeys(
    ("devcontainer.json", ".devcontainer.json", ".gitlab-ci.yml", "justfile", "Justfile", ".justfile", "Jenkinsfile"),
    DEPLOYMENT,
)
"""Kind of files that only their whole name tells."""
DOCKERFILES = ("Dockerfile", "Containerfile")
"""Beginnings of names such as Dockerfile.gpu."""
DEFINITIONS = ("taskdef", "task-def", "task_def", "jobdef", "job-def", "job_def", "batch-job", "batch_job", "batchjob")
"""Parts of the names of JSON files that define tasks or jobs of a service; other JSON files are data."""
DEFINING = ("batch", "ecs", "job-definitions", "job_definitions", "task-definitions", "task_definitions")
"""Folders of which all JSON files are such."""

TOO_LARGE = {PYTHON: 2 << 20, NOTEBOOK: 64 << 20, NATIVE: 2 << 20, DEPLOYMENT: 1 << 20}
"""Bytes from which on a file is taken for generated: parsing takes 300 times its size of memory. A notebook holds
pictures, of which nothing is parsed."""

EXCLUDED = (
    "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
    "*.egg-info",
)  # fmt: skip
"""Default of `exclude`. Hidden folders (.git, .tox, .venv ...) and virtual environments of any name count too."""

SHOWN = frozenset((".github", ".devcontainer", ".circleci"))
"""Hidden folders that hold what runs a training: they are walked."""

TESTS = frozenset(("tests", "unit_tests"))
"""Folders of tests."""

READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

MARKERS = frozenset((".git", "pyproject.toml", "setup.py", "setup.cfg"))


class Walk:
    """What a walk met.

    files     (relative path, absolute path, size in bytes, mtime in ns, kind) rows of Python and notebooks, sorted by
              relative path; paths are POSIX, relative to `root` ("../x.py" for what lies outside)
    others    the same rows for sources of other languages and for deployment files
    problems  (path, Text): what should have been checked and could not be read
    skipped   (path, Text): what is no file to read (a dead link, a FIFO, a device), and generated files of many MB
    roots     relative folders that hold .git, pyproject.toml, setup.py, setup.cfg or requirements*.txt ("" is `root`)
    """

    __slots__ = ("files", "others", "problems", "roots", "skipped")

    def __init__(self) -> None:
        self.files: list[FileEntry] = []
        self.others: list[FileEntry] = []
        self.problems: list[tuple[str, Text]] = []
        self.skipped: list[tuple[str, Text]] = []
        self.roots: set[str] = set()

    def project_root(self, path: str) -> str | None:
        """The nearest folder at or above the file `path` (relative) that is a project root, or None."""
        while path:
            path = path.rpartition("/")[0]
            if path in self.roots:
                return path
        return None


def walk(
    paths: Iterable[str],
    *,
    exclude: Sequence[str] = EXCLUDED,
    extend_exclude: Sequence[str] = (),
    respect_gitignore: bool = True,
    force_exclude: bool = False,
    root: str = "",
) -> Walk:
    """Find the files to check under `paths` (files or folders; relative ones start at the current folder).

    `exclude` and `extend_exclude` are patterns in the syntax of .gitignore, relative to `root` (default: the current
    folder). A path that is given is checked whatever the patterns say, unless `force_exclude`. Raises UserError for a
    given path that does not exist.
    """
    root = os.path.abspath(root or ".")
    walker = _Walker(root, Patterns([*exclude, *extend_exclude]), respect_gitignore)
    for path in paths:
        walker.given(os.path.abspath(path), path, force_exclude)
    return walker.finish()


class _Ignore:
    """Chain of ignore files that govern a folder, innermost first. `base` is the length of their folder's path."""

    __slots__ = ("base", "outer", "patterns")

    def __init__(self, patterns: Patterns, base: int, outer: _Ignore | None) -> None:
        self.patterns = patterns
        self.base = base
        self.outer = outer


def _ignored(ignore: _Ignore | None, path: str, name: str, directory: bool) -> bool:
    """`path` is absolute, with `/` as separator."""
    while ignore is not None:
        verdict = ignore.patterns.verdict(path[ignore.base :], name, directory)
        if verdict is not None:
            return verdict
        ignore = ignore.outer
    return False


class _Walker:
    def __init__(self, root: str, excluded: Patterns, respect_gitignore: bool) -> None:
        self.out = Walk()
        self.root = root
        self.excluded = excluded
        self.respect_gitignore = respect_gitignore
        self.rows: dict[str, FileEntry] = {}
        self.linked: list[FileEntry] = []
        self.walked: set[str] = set()
        self.climbed: set[str] = set()

    def finish(self) -> Walk:
        known = {os.path.realpath(path) for path in self.rows} if self.linked else set()
        for row in self.linked:
            # a link to a file that is checked anyway would say everything twice
            target = os.path.realpath(row[1])
            if target not in known and row[1] not in self.rows:
                known.add(target)
                self.rows[row[1]] = row
        out = self.out
        rows = sorted(self.rows.values())
        out.files = [row for row in rows if row[4] == PYTHON or row[4] == NOTEBOOK]
        out.others = [row for row in rows if row[4] == NATIVE or row[4] == DEPLOYMENT]
        out.problems.sort(key=_first)
        out.skipped.sort(key=_first)
        return out

    def relative(self, path: str) -> str:
        """POSIX path relative to the root; absolute when it is on another drive."""
        if path == self.root:
            return ""
        try:
            relative = os.path.relpath(path, self.root)
        except ValueError:
            relative = path
        return relative.replace(os.sep, "/") if os.sep != "/" else relative

    # ------------------------------------------------------------------------------------------------ given paths
    def given(self, path: str, asked: str, force_exclude: bool) -> None:
        try:
            status = os.stat(path)
        except OSError as e:
            if os.path.lexists(path):
                self.out.skipped.append((self.relative(path), _dead_link() if os.path.islink(path) else _unreadable(e)))
                return
            raise UserError(
                Text("{path} does not exist", "{path} 不存在", path=asked),
                Text("give files or folders that exist", "请给出存在的文件或文件夹"),
            ) from None
        directory = S_ISDIR(status.st_mode)
        name = os.path.basename(path)
        relative = self.relative(path)
        if force_exclude and self._excluded_somewhere(relative, directory):
            return
        self.climb(path if directory else os.path.dirname(path))
        if directory:
            # ignore files apply inside a given folder even when the folder itself is ignored
            self.tree(path, relative)
        elif not S_ISREG(status.st_mode):
            self.out.skipped.append((relative, _special()))
        else:
            kind = kind_of(name) or _kind_by_first_line(path) or PYTHON
            if status.st_size > TOO_LARGE[kind]:
                self.out.skipped.append((relative, _too_large()))
            else:
                self.rows[path] = (relative, path, status.st_size, status.st_mtime_ns, kind)

    def _excluded_somewhere(self, relative: str, directory: bool) -> bool:
        parts = relative.split("/")
        for i, name in enumerate(parts):
            folder = directory or i + 1 < len(parts)
            if self.excluded.verdict("/".join(parts[: i + 1]), name, folder):
                return True
            if folder and name[:1] == "." and name not in SHOWN and name not in (".", ".."):
                return True
        return False

    def climb(self, folder: str) -> None:
        """Project roots at and above a given path, up to the repository or the root of the run."""
        while folder not in self.climbed:
            self.climbed.add(folder)
            try:
                inside = os.listdir(folder)
            except OSError:
                inside = []
            if any(name in MARKERS or _requirements(name) for name in inside):
                self.out.roots.add(self.relative(folder))
            above = os.path.dirname(folder)
            if above == folder or folder == self.root or ".git" in inside:
                return
            folder = above

    # ------------------------------------------------------------------------------------------------------- trees
    def tree(self, top: str, relative: str) -> None:
        ignore = self.outer_ignore(top) if self.respect_gitignore else None
        prefix = relative + "/" if relative else ""
        stack = [(top, prefix, ignore)]
        excluded = self.excluded.verdict
        rows, roots, kinds, named, shown = self.rows, self.out.roots, KINDS, NAMED, SHOWN
        while stack:
            folder, prefix, ignore = stack.pop()
            if folder in self.walked:
                continue
            self.walked.add(folder)
            try:
                with os.scandir(folder) as found:
                    entries = list(found)
            except OSError as e:
                self.out.problems.append((prefix[:-1] or ".", _unreadable(e, folder=True)))
                continue
            base = folder if folder[-1] == os.sep else folder + os.sep
            wanted = []
            marked = environment = False
            definition = bool if prefix[:-1].rpartition("/")[2] in DEFINING else _definition
            ignore_file = None
            repository = None
            for entry in entries:
                name = entry.name
                kind = kinds.get(name.rpartition(".")[2]) or named.get(name)
                if kind is None and (name.startswith(DOCKERFILES) or (name[-5:] == ".json" and definition(name))):
                    kind = DEPLOYMENT
                if kind is not None:
                    wanted.append((entry, name, kind))
                    if name == "setup.py":
                        marked = True
                elif name in MARKERS:
                    marked = True
                    if name == ".git":
                        repository = entry.path
                elif name == ".gitignore":
                    ignore_file = entry.path
                elif name == "pyvenv.cfg" or name == "conda-meta":
                    environment = True
                elif _requirements(name):
                    marked = True
                elif entry.is_dir(follow_symlinks=False) and (name[0] != "." or name in shown):
                    wanted.append((entry, name, ""))
            if environment and folder != top:
                continue
            if marked:
                roots.add(prefix[:-1])
            if self.respect_gitignore and (ignore_file or repository):
                if repository and folder != top:
                    ignore = self.repository_ignore(folder, repository)
                if ignore_file:
                    ignore = self.read_ignore(ignore_file, folder, ignore)
            for entry, name, kind in wanted:
                path = prefix + name
                try:
                    directory = entry.is_dir(follow_symlinks=False)
                    if excluded(path, name, directory):
                        continue
                    if ignore is not None and _ignored(ignore, _posix(base + name), name, directory):
                        continue
                    if directory:
                        if name[0] != "." or name in shown:
                            stack.append((base + name, path + "/", ignore))
                    elif entry.is_file():
                        if name[:2] == "._":  # what macOS writes beside a file on foreign disks: not text
                            continue
                        status = entry.stat()
                        if status.st_size > TOO_LARGE[kind]:
                            if kind != DEPLOYMENT:  # a YAML file of that size is data
                                self.out.skipped.append((path, _too_large()))
                            continue
                        row = (path, base + name, status.st_size, status.st_mtime_ns, kind)
                        if entry.is_symlink():
                            self.linked.append(row)
                        else:
                            rows[base + name] = row
                    elif not entry.is_dir():
                        self.out.skipped.append((path, _dead_link() if entry.is_symlink() else _special()))
                except OSError as e:
                    # a circular link raises ELOOP
                    self.out.skipped.append((path, _dead_link() if entry.is_symlink() else _unreadable(e)))

    # ------------------------------------------------------------------------------------------------ ignore files
    def outer_ignore(self, top: str) -> _Ignore | None:
        """The ignore files above `top`, from the top of its git repository; none outside a repository."""
        folders = []
        folder = top
        while True:
            folders.append(folder)
            if os.path.exists(os.path.join(folder, ".git")):
                break
            above = os.path.dirname(folder)
            if above == folder:
                return None
            folder = above
        ignore = self.repository_ignore(folder, os.path.join(folder, ".git"))
        for folder in reversed(folders[1:]):
            path = os.path.join(folder, ".gitignore")
            if os.path.isfile(path):
                ignore = self.read_ignore(path, folder, ignore)
        return ignore

    def repository_ignore(self, folder: str, git: str) -> _Ignore | None:
        """info/exclude of a repository; `.git` may be a file that names the folder (worktrees, submodules)."""
        try:
            if os.path.isfile(git):
                with open(git, encoding="utf-8", errors="surrogateescape") as f:
                    first = f.readline()
                if not first.startswith("gitdir:"):
                    return None
                git = os.path.join(folder, first[7:].strip())
                common = os.path.join(git, "commondir")
                if os.path.isfile(common):
                    with open(common, encoding="utf-8", errors="surrogateescape") as f:
                        git = os.path.join(git, f.readline().strip())
            path = os.path.join(git, "info", "exclude")
            return self.read_ignore(path, folder, None) if os.path.isfile(path) else None
        except OSError:
            return None

    def read_ignore(self, path: str, folder: str, outer: _Ignore | None) -> _Ignore | None:
        try:
            if not os.path.isfile(path):
                return outer
            with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as f:
                patterns = Patterns(f)
        except OSError as e:
            self.out.problems.append((self.relative(path), _unreadable(e)))
            return outer
        if not patterns.groups:
            return outer
        return _Ignore(patterns, len(folder) if folder[-1] == os.sep else len(folder) + 1, outer)


def _first(row: tuple[str, Text]) -> str:
    return row[0]


def _requirements(name: str) -> bool:
    return name[:12] == "requirements" and name[-4:] == ".txt"


def _posix(path: str) -> str:
    return path if os.sep == "/" else path.replace(os.sep, "/")


def kind_of(name: str) -> str | None:
    """The kind of a file by its name (without folder), or None."""
    kind = KINDS.get(name.rpartition(".")[2]) or NAMED.get(name)
    if kind is None and (name.startswith(DOCKERFILES) or (name[-5:] == ".json" and _definition(name))):
        return DEPLOYMENT
    return kind


def _definition(name: str) -> bool:
    name = name.lower()
    return name.startswith("ecs") or any(part in name for part in DEFINITIONS)


def _kind_by_first_line(path: str) -> str | None:
    """A given file with no telling name: what its `#!` line says."""
    try:
        first = read(path, 128).partition(b"\n")[0]
    except OSError:
        return None
    if first[:2] != b"#!":
        return None
    return PYTHON if b"python" in first else DEPLOYMENT if b"sh" in first else None


def read(path: str, limit: int = -1) -> bytes:
    """The bytes of a file (at most `limit`). Raises OSError, also for what is no regular file (any more)."""
    # O_NONBLOCK: opening a FIFO that nobody writes would wait for ever
    fd = os.open(path, READING)
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            raise OSError(22, "not a regular file", path)
        size = status.st_size + 1 if limit < 0 else limit
        data = os.read(fd, size)
        if (limit < 0 and len(data) >= size) or (len(data) < status.st_size and limit < 0):
            # longer than it was, or /proc and network files that give less at a time
            parts = [data]
            while data := os.read(fd, 1 << 20):
                parts.append(data)
            data = b"".join(parts)
        return data
    finally:
        os.close(fd)


def _dead_link() -> Text:
    return Text("is a link that leads nowhere", "是指向不存在目标的链接")


def _too_large() -> Text:
    return Text("is too large to be written by hand", "文件过大，不像是手写的")


def _special() -> Text:
    return Text("is not a regular file", "不是普通文件")


def _unreadable(error: OSError, folder: bool = False) -> Text:
    reason = error.strerror or type(error).__name__
    if folder:
        return Text("folder cannot be read: {reason}", "无法读取文件夹：{reason}", reason=reason)
    return Text("file cannot be read: {reason}", "无法读取文件：{reason}", reason=reason)


def unreadable(error: OSError) -> Text:
    """What to say of a file that `read` could not read."""
    return _unreadable(error)


def is_test(path: str) -> bool:
    """Test code by pytest's conventions. It runs a few steps and ends: what grows or is slow there is worth a note."""
    return is_named_test(path) or in_tests(path) or "testing" in path.split("/")[:-1]


def is_named_test(path: str) -> bool:
    """Whether pytest collects tests from a file, by its name."""
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


def in_tests(path: str) -> bool:
    """Whether a file lies in a folder of tests. A name such as `test_net.py` alone says nothing: scripts that evaluate
    a model are called so."""
    return not TESTS.isdisjoint(path.split("/")[:-1])
