"""Only what a change touches (`--diff BASE`, for pull requests), and only what given files have to do with (hooks).

A finding counts when its own place or one that belongs to it is on a changed line: a barrier that a new `if rank == 0`
hides is new, although the barrier itself is old.
"""

from __future__ import annotations

import os
import re

from torchvet.findings import Finding, Span, Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Lines = list[tuple[int, int]]

_WHOLE_FILE = [(1, 1 << 60)]
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def changed_lines(base: str, folder: str) -> dict[str, Lines]:
    """{absolute path: (first, last) changed lines} of the working tree against where it left `base`, files that git
    does not know yet included. Raises UserError outside a repository, for an unknown base, and without git."""
    top = _git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")
    root = os.fsdecode(top)
    _git(
        root, "rev-parse", "--verify", "--quiet", ("./" + base if base[:1] == "-" else base) + "^{commit}", unknown=base
    )
    fork = _git(root, "merge-base", base, "HEAD", fails=True).strip() or base.encode()  # unrelated histories
    diff = _git(
        root, "-c", "core.quotePath=true", "diff", "-U0", "--inter-hunk-context=0", "-M",
        "--no-color", "--no-ext-diff", "--no-textconv",
        "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules", os.fsdecode(fork), "--",
    )  # fmt: skip
    changed = {os.path.join(root, path): lines for path, lines in parse_diff(diff).items()}
    for name in _git(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0"):
        if name:
            changed[os.path.join(root, os.fsdecode(name))] = _WHOLE_FILE
    return changed


def parse_diff(diff: bytes) -> dict[str, Lines]:
    """{path: (first, last) lines of the new side} of a unified diff without context. Where lines were only taken away,
    their two neighbours count: a finding there may be what the deletion made."""
    out: dict[str, Lines] = {}
    here: Lines = []
    old = new = 0  # lines of the current hunk still to come: "+++ x" may be an added line, not a header
    for line in diff.split(b"\n"):
        if old > 0 and line[:1] == b"-":
            old -= 1
        elif new > 0 and line[:1] == b"+":
            new -= 1
        elif line.startswith(b"+++ "):
            here = []
            path = _unquoted(line[4:].rstrip(b"\r\t"))
            if path.startswith(b"b/"):
                out[os.fsdecode(path[2:])] = here
        elif line.startswith(b"@@ "):
            m = _HUNK.match(line)
            if m:
                old = int(m[1] or 1)
                first, new = int(m[2]), int(m[3] or 1)
                here.append((first, first + new - 1) if new else (max(first, 1), first + 1))
    return out


def _unquoted(name: bytes) -> bytes:
    """Git writes unusual names as C strings."""
    if name[:1] != b'"':
        return name
    known = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

    def one(m: re.Match[bytes]) -> bytes:
        code = m[1]
        return bytes([int(code, 8)]) if code.isdigit() else known.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", one, name[1:-1])


def _git(folder: str, *words: str, unknown: str = "", fails: bool = False) -> bytes:
    import subprocess

    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, env=environment, check=False)
    except FileNotFoundError:
        raise UserError(Text("--diff needs git, which is not installed", "--diff 需要 git，但未安装")) from None
    if done.returncode == 0 or fails:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip()
    if unknown:
        raise UserError(
            Text("--diff: git knows no commit {base}", "--diff：git 中没有提交 {base}", base=unknown),
            Text("in CI, fetch it first: git fetch origin {base}", "在 CI 中请先获取：git fetch origin {base}",
                 base=unknown.removeprefix("origin/")),
        )  # fmt: skip
    if "not a git repository" in said:
        raise UserError(
            Text("--diff needs a git repository; {folder} is in none", "--diff 需要 git 仓库；{folder} 不在仓库中",
                 folder=folder)
        )  # fmt: skip
    if "dubious ownership" in said:  # containers in CI run as another user than the one that checked out
        raise UserError(
            Text("--diff: git does not trust {folder}", "--diff：git 不信任 {folder}", folder=folder),
            Text("git config --global --add safe.directory {folder}", folder=os.path.abspath(folder)),
        )
    raise UserError(Text("--diff: {said}", said=(said.splitlines() or ["git failed"])[0].removeprefix("fatal: ")))


def touching(findings: Sequence[Finding], changed: dict[str, Lines], base: str) -> list[Finding]:
    """The findings with a place on a changed line; `base` is the folder that their paths count from. Failures of
    torchvet itself stay; a file that cannot be read or parsed counts when anything in it changed."""
    root = os.path.realpath(base)
    here = {
        os.path.relpath(os.path.realpath(path), root).replace(os.sep, "/"): lines for path, lines in changed.items()
    }

    def hit(span: Span, first: int) -> bool:
        return any(a <= first + span.end_line - span.line and b >= first for a, b in here.get(_file(span.path), ()))

    def counts(f: Finding) -> bool:
        if f.name == "internal-error":
            return True
        if f.name in ("syntax-error", "unreadable-file"):
            return f.span.path in here
        if hit(f.span, f.raw_line or f.span.line):
            return True
        # the places of notes in notebooks are lines of cells: of those git knows nothing
        return any(".ipynb" not in n.span.path and hit(n.span, n.span.line) for n in f.notes)

    return [f for f in findings if counts(f)]


def concerning(findings: Sequence[Finding], paths: Sequence[str]) -> list[Finding]:
    """The findings with a place (their own or a related one) in one of `paths`: files or folders, relative and POSIX as
    the findings' are, "" for everything. Failures of torchvet itself stay."""
    files = set(paths)
    if "" in files:
        return list(findings)
    folders = tuple(path + "/" for path in paths)

    def counts(f: Finding) -> bool:
        places = [_file(span.path) for span in (f.span, *(n.span for n in f.notes))]
        return f.name == "internal-error" or any(p in files or p.startswith(folders) for p in places)

    return [f for f in findings if counts(f)]


def _file(path: str) -> str:
    """The file of a place: `nb.ipynb:cell 3` is in nb.ipynb."""
    return path.partition(":cell ")[0] if ".ipynb:cell " in path else path
