"""The rules: one folder per family, one `.py` and one `.md` per rule. Found by listing the folders.

`listed` knows from an index (`_index.py`, made by `scripts/build_docs.py`) what decides whether a rule has something to
say, so that a check imports the rules that do. A rule that the index does not know is imported at once.
"""

from __future__ import annotations

import os

from ._index import INDEX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...findings import Finding
    from ._api import Rule
    from .project import Project

FAMILIES = {"tool": 0, "graph": 1, "loader": 2, "wrap": 3, "collective": 4, "native": 5, "deploy": 6}
"""Family (folder) to the hundreds digit of its codes."""

_rules: dict[str, Rule] = {}
_names: dict[str, str] = {}


class Listed:
    """A rule that need not be imported yet: what `_api.Rule` says under the same names. `run` is None for the rules of
    the family `tool`, which describe findings that others make."""

    __slots__ = ("asks", "code", "family", "name", "run", "words")

    def __init__(
        self, name: str, family: str, code: str, words: Iterable[str], asks: tuple[str, str, tuple[str, ...]] | None
    ) -> None:
        self.name = name
        self.family = family
        self.code = code
        self.words = frozenset(words)
        self.asks = asks
        self.run: Callable[[Project], Iterable[Finding]] | None = None if asks is None else self._run

    def _run(self, project: Project) -> Iterable[Finding]:
        if self.asks and self.asks[0] and not project.answers(self.asks):
            return ()
        run = rule(self.name).run
        assert run is not None
        return run(project)


def rule_names() -> dict[str, str]:
    """{rule name: family} without importing a rule: the file name is the rule's name."""
    if _names:
        return dict(_names)
    here = os.path.dirname(__file__)
    for family in FAMILIES:
        folder = os.path.join(here, family)
        if os.path.isdir(folder):
            for entry in sorted(os.listdir(folder)):
                if entry.endswith(".py") and not entry.startswith("_"):
                    _names[entry[:-3].replace("_", "-")] = family
    return dict(_names)


def rule(name: str) -> Rule:
    """One rule by its name. KeyError when there is none."""
    if name not in _rules:
        family = rule_names()[name]
        module = f"{__name__}.{family}.{name.replace('-', '_')}"
        loaded: Rule = __import__(module, fromlist=["RULE"]).RULE
        loaded.family = family
        _rules[name] = loaded
    return _rules[name]


def all_rules() -> dict[str, Rule]:
    """Every rule by name, ordered by code."""
    found = [rule(name) for name in rule_names()]
    return {r.name: r for r in sorted(found, key=lambda r: r.code)}


def listed() -> dict[str, Listed]:
    """Every rule by name, ordered by code, none imported that the index knows."""
    found = [Listed(name, family, *(INDEX.get(name) or entry(rule(name)))) for name, family in rule_names().items()]
    return {r.name: r for r in sorted(found, key=lambda r: r.code)}


def entry(r: Rule) -> tuple[str, tuple[str, ...], tuple[str, str, tuple[str, ...]] | None]:
    """A rule's row of the index: (code, words, what it asks; None when it has nothing to run)."""
    return r.code, tuple(sorted(r.words)), None if r.run is None else r.asks
