"""Which rules run, and which of their findings are shown.

A selector is a rule's name, its code, the beginning of a code (TV1, TV40), a family (graph), or `all`. Where several
fit one rule, the most specific decides: `select = ["TV101"], ignore = ["TV1"]` leaves TV101 on.
"""

from __future__ import annotations

from torchvet.findings import CONFIDENCES, SEVERITIES, Finding, Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from torchvet.check.config import Options

TOOL = "tool"
"""The family of findings about the check itself: they run whatever is selected, and only `ignore` takes them out."""

_ALL, _FAMILY, _EXACT = 1, 2, 100
"""How specific a selector is; the beginning of a code counts by its length (3 to 5)."""


class Catalogue:
    """The rules that there are: their families, and, when the first code is asked for, their codes."""

    def __init__(self, rules: Mapping[str, Any] | None = None) -> None:
        self._codes: dict[str, str] | None = None
        if rules is None:
            from torchvet.check.rules import rule_names

            self.families = rule_names()
        else:
            self.families = {name: rule.family for name, rule in rules.items()}
            self._codes = {name: rule.code for name, rule in rules.items()}

    @property
    def codes(self) -> dict[str, str]:
        if self._codes is None:
            self._codes = {name: _code(name, family) for name, family in self.families.items()}
        return self._codes

    def resolve(self, selector: str, setting: str, options: Options) -> tuple[list[str], int]:
        """The rules that a selector means, and how specific it is. Raises UserError when it means none."""
        word = selector.strip()
        low = word.lower().replace("_", "-")
        if low == "all":
            return list(self.families), _ALL
        if low in self.families:
            return [low], _EXACT
        members = [name for name, family in self.families.items() if family == low]
        if members:
            return members, _FAMILY
        code = word.upper()
        if code[:2] == "TV" and (code[2:].isdecimal() or code == "TV"):
            names = [name for name in self.families if self.codes[name].startswith(code)]
            if names:
                return names, _EXACT if self.codes[names[0]] == code else len(code)
        from torchvet.check.config import did_you_mean

        known = [*self.families, *dict.fromkeys(self.families.values()), *self.codes.values(), "all"]
        raise UserError(
            Text("unknown rule {name} in {where}", "{where} 中有未知的规则 {name}", name=word or "''",
                 where=options.where(setting, selector)),
            did_you_mean(word, known) or Text("torchvet rules lists all rules", "torchvet rules 列出所有规则"),
        )  # fmt: skip


def _code(name: str, family: str) -> str:
    from torchvet.check.rules import INDEX, rule

    return str(INDEX[name][0]) if name in INDEX else rule(name).code


def selected(options: Options, rules: Mapping[str, Any] | None = None) -> list[str]:
    """Names of the rules to run, in the order of their families. Raises UserError for a selector that fits no rule."""
    catalogue = Catalogue(rules)
    chosen: dict[str, int] = {}
    dropped: dict[str, int] = {}
    for setting, into in (("select", chosen), ("extend-select", chosen), ("ignore", dropped)):
        for selector in getattr(options, setting.replace("-", "_")):
            names, weight = catalogue.resolve(selector, setting, options)
            for name in names:
                into[name] = max(into.get(name, 0), weight)
    for selectors in options.per_file_ignores.values():  # a typing error there must not wait for a finding
        for selector in selectors:
            catalogue.resolve(selector, "per-file-ignores", options)
    return [
        name
        for name, family in catalogue.families.items()
        if chosen.get(name, 0 if options.select and family != TOOL else _ALL) > dropped.get(name, 0)
    ]


def shown(
    findings: Sequence[Finding], options: Options, base: str, rules: Mapping[str, Any] | None = None
) -> list[Finding]:
    """The findings that selection, severity, confidence and per-file-ignores let through. `base` is the folder that
    the findings' paths count from. What went wrong in torchvet itself is always shown."""
    grave = SEVERITIES.index(options.severity)
    sure = CONFIDENCES.index(options.confidence)
    running = frozenset(selected(options, rules))
    ignores = _PerFile(options, base, rules) if options.per_file_ignores else None
    return [
        f
        for f in findings
        if f.name == "internal-error"
        or (
            SEVERITIES.index(f.severity) >= grave
            and CONFIDENCES.index(f.confidence) >= sure
            and f.name in running
            and not (ignores and ignores.hides(f))
        )
    ]


class _PerFile:
    def __init__(self, options: Options, base: str, rules: Mapping[str, Any] | None) -> None:
        import os

        self.prefix = ""
        if options.config_dir and "per-file-ignores" not in options.given:
            way = os.path.relpath(base, options.config_dir).replace(os.sep, "/")
            self.prefix = "" if way == "." else way + "/"
        catalogue = Catalogue(rules)
        self.rows = [
            (pattern, {name for s in selectors for name in catalogue.resolve(s, "per-file-ignores", options)[0]})
            for pattern, selectors in options.per_file_ignores.items()
        ]
        self.known: dict[str, frozenset[str]] = {}

    def hides(self, finding: Finding) -> bool:
        path = finding.span.path
        if path not in self.known:
            self.known[path] = frozenset(
                name for pattern, names in self.rows if path_matches(self.prefix + path, pattern) for name in names
            )
        return finding.name in self.known[path]


def path_matches(path: str, pattern: str) -> bool:
    """Whether a relative POSIX path matches a pattern: the whole path, one of its folders, or (for a pattern without a
    slash) any part of it. `*` crosses folders, as in ruff's per-file-ignores; `!` in front negates."""
    if pattern.startswith("!"):
        return not path_matches(path, pattern[1:])
    import posixpath
    from fnmatch import fnmatchcase

    path = posixpath.normpath(path)
    pattern = posixpath.normpath(pattern)
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in path.split("/"))
    forms = {pattern, pattern.replace("**/", ""), pattern.replace("**/", "*/"), pattern.removesuffix("/**")}
    return any(fnmatchcase(path, form) or fnmatchcase(path, form + "/*") for form in forms)
