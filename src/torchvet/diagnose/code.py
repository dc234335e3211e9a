"""From the places that evidence names to the code at hand: by the end of the path, the longer the surer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .sites import is_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchvet.findings import Text

    from .model import Diagnosis, Hypothesis

SKIPPED = {".git", "__pycache__", "node_modules", ".venv", "venv", "site-packages", ".mypy_cache", ".tox"}
MOST = 100_000
AROUND = 2
"""Lines of code shown before and after the one that is meant."""
LARGEST = 4_000_000


@dataclass(slots=True)
class Rule:
    """What `check` finds at a place: `text` is that line, `fix` the repaired line or what to do; `notes`: (path, line,
    text of that line, what happens there) of further places."""

    name: str
    code: str
    severity: str
    message: Text
    fix: Text | str = ""
    line: int = 0
    path: str = ""
    text: str = ""
    notes: list[tuple[str, int, str, Text]] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    """A place of the code at hand. `path` as it is shown; `lines`: (number, text) around it; `same`: other files that
    fit the path as well (then none is chosen and `lines` is empty); `rules`: what `check` finds there."""

    path: str
    line: int
    full: str = ""
    lines: list[tuple[int, str]] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    @property
    def text(self) -> str:
        return next((text.strip() for number, text in self.lines if number == self.line), "")


class Code:
    """The files below a folder, found by the end of a path that some other machine had."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.by_name: dict[str, list[str]] = {}
        count = 0
        for here, below, names in os.walk(folder):
            below[:] = sorted(b for b in below if b not in SKIPPED and not os.path.islink(os.path.join(here, b)))
            way = os.path.relpath(here, folder).replace(os.sep, "/")
            for name in names:
                if name.endswith((".py", ".pyx", ".cu", ".cpp", ".ipynb")):
                    self.by_name.setdefault(name, []).append(name if way == "." else f"{way}/{name}")
                    count += 1
            if count > MOST:
                break

    def find(self, path: str) -> list[str]:
        """The files whose paths end most like this one: one when it is clear, several when it is not."""
        parts = [p for p in path.replace("\\", "/").split("/") if p]
        if not parts:
            return []
        fitting: dict[int, list[str]] = {}
        above = os.path.basename(os.path.abspath(self.folder))
        for known in self.by_name.get(parts[-1], ()):
            mine = [above, *known.split("/")]
            same = 0
            while same < min(len(mine), len(parts)) and mine[-1 - same] == parts[-1 - same]:
                same += 1
            fitting.setdefault(same, []).append(known)
        return sorted(fitting[max(fitting)]) if fitting else []

    def place(self, path: str, line: int) -> Place | None:
        """That place here; None when no file fits."""
        there = os.path.join(self.folder, *path.split("/"))
        if not os.path.isabs(path) and ".." not in path.split("/") and os.path.isfile(there):
            return Place(path, line, there, excerpt(there, line))  # a file of the evidence itself
        found = self.find(path)
        if not found:
            return None
        if len(found) > 1:
            return Place(found[0], line, same=found)
        full = os.path.join(self.folder, *found[0].split("/"))
        return Place(found[0], line, full, excerpt(full, line))


def excerpt(path: str, line: int, around: int = AROUND) -> list[tuple[int, str]]:
    """(number, text) of the lines around one; empty when there is no such line or the file cannot be read."""
    try:
        with open(path, "rb") as f:
            lines = f.read(LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    if not 0 < line <= len(lines):
        return []
    return [(n, lines[n - 1]) for n in range(max(1, line - around), min(len(lines), line + around) + 1)]


def standing(diagnosis: Diagnosis) -> list[tuple[str, int]]:
    """Where ranks stood in the user's code, by stacks and tracebacks."""
    out: dict[tuple[str, int], None] = {}
    for fact in diagnosis.case.of("stack", "exception"):
        if place := own_place(fact.values.get("main") or fact.values.get("frames")):
            out[place] = None
    return list(out)


def sites(diagnosis: Diagnosis) -> list[tuple[str, int]]:
    """Every place that a verdict or side finding points at, the most telling first."""
    out: dict[tuple[str, int], None] = {}
    for hypothesis in [*diagnosis.verdicts, *diagnosis.side_findings]:
        for site in places_of(hypothesis):
            out[site] = None
    return list(out)


def places_of(hypothesis: Hypothesis) -> list[tuple[str, int]]:
    """The site of a hypothesis, then the innermost places of the user's code in what supports it."""
    out: dict[tuple[str, int], None] = {}
    if hypothesis.site is not None:
        out[(hypothesis.site[0], hypothesis.site[1])] = None
    for link in hypothesis.supports:
        if link.fact is not None:
            values = link.fact.values
            for frames in (values.get("main"), values.get("frames")):
                if place := own_place(frames):
                    out[place] = None
    return list(out)


def own_place(frames: object) -> tuple[str, int] | None:
    """The innermost frame of the user's own code; frames are [path, line, function], innermost first."""
    if not isinstance(frames, (list, tuple)):
        return None
    for frame in frames:
        if isinstance(frame, (list, tuple)) and len(frame) >= 2 and isinstance(frame[0], str):
            path, line = frame[0], frame[1]
            if isinstance(line, int) and line > 0 and is_user(path):
                return path, line
    return None


def located(
    diagnosis: Diagnosis, folders: Iterable[str], also: Iterable[tuple[str, int]] = ()
) -> dict[tuple[str, int], Place]:
    """Every place of the diagnosis, and those of `also`, in the code of the first folder that has it."""
    out: dict[tuple[str, int], Place] = {}
    wanted = [*sites(diagnosis), *also]
    for folder in folders if wanted else ():
        code = Code(folder)
        for site in wanted:
            if site not in out and (place := code.place(*site)) is not None:
                out[site] = place
    return out
