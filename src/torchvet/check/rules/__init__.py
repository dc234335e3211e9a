"""The rules: one folder per family, one `.py` and one `.md` per rule. Found by listing the folders: no registry."""

from __future__ import annotations

import os
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._api import Rule

FAMILIES = {"tool": 0, "graph": 1, "loader": 2, "wrap": 3, "collective": 4, "native": 5, "deploy": 6}
"""Family (folder) to the hundreds digit of its codes."""

_rules: dict[str, Rule] = {}
_names: dict[str, str] = {}


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
        loaded: Rule = import_module(f"{__name__}.{family}.{name.replace('-', '_')}").RULE
        loaded.family = family
        _rules[name] = loaded
    return _rules[name]


def all_rules() -> dict[str, Rule]:
    """Every rule by name, ordered by code."""
    found = [rule(name) for name in rule_names()]
    return {r.name: r for r in sorted(found, key=lambda r: r.code)}
