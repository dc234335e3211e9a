"""Which releases of a framework a project allows, by the files that name its dependencies.

A row of the tables with `since` says what a call does from that release on. A project that is pinned below it runs
another call of the same name. What is not pinned is taken for the newest.
"""

from __future__ import annotations

from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.program import Program

DISTRIBUTIONS = {"lightning": r"(?:pytorch[-_])?lightning"}
"""By family: the names under which it is installed."""
NAMED = r"""(?im)^[\s"'\-]*%s(?![\w-])(?:\[[^\]\n]*\])?([^\n#;]*)"""
BOUND = Later(r"(===?|~=|<=?)\s*v?(\d+(?:\.\d+)*)")
FOLDERS = ("", "requirements")
FILES = Later(
    r"(?:requirements[\w.-]*\.txt|environment[\w.-]*\.ya?ml|conda[\w.-]*\.ya?ml|setup\.py|setup\.cfg|pyproject\.toml)$"
)
LISTED = Later(r"[\w.-]+\.txt$")


class Releases:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._bounds: dict[tuple[str, str], tuple[tuple[int, ...], bool] | None] = {}

    def before(self, family: str, since: str, path: str) -> bool:
        """Whether the project of a file allows only releases of a framework that are older than `since`."""
        if family not in DISTRIBUTIONS:
            return False
        root = self.program.project_root(path.rpartition("/")[0]) or ""
        key = (root, family)
        if key not in self._bounds:
            self._bounds[key] = self.bound(root, family)
        known = self._bounds[key]
        if known is None:
            return False
        most, itself = known
        first = numbers(since)
        return most < first or (most == first and not itself)

    def bound(self, root: str, family: str) -> tuple[tuple[int, ...], bool] | None:
        """(the highest release, whether that one is allowed) over all files; None when no file names the framework or
        one of them sets no upper bound."""
        named = Later(NAMED % DISTRIBUTIONS[family])
        found: list[tuple[tuple[int, ...], bool]] = []
        for folder in FOLDERS:
            base = "/".join(x for x in (root, folder) if x)
            for name in sorted(self.program.entries(base)):
                if not (LISTED if folder else FILES).search(name):
                    continue
                path = f"{base}/{name}" if base else name
                self.program.consulted.add(path)
                for asked in named.findall(self.program.text(path) or ""):
                    bounds = [upper(*x) for x in BOUND.findall(asked)]
                    if not bounds:
                        return None
                    found.append(min(bounds))
        return max(found) if found else None


def upper(sign: str, release: str) -> tuple[tuple[int, ...], bool]:
    """`~=1.9.2` allows what is below 1.10."""
    most = numbers(release)
    if sign == "~=":
        parts = [int(x) for x in release.split(".")][:-1] or [most[0]]
        return (*parts[:-1], parts[-1] + 1), False
    return most, sign != "<"


def numbers(release: str) -> tuple[int, ...]:
    """(2, 1) of "2.1.0": zeros at the end say nothing."""
    out = [int(x) for x in release.split(".")]
    while len(out) > 1 and not out[-1]:
        out.pop()
    return tuple(out)
