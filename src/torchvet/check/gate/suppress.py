"""Suppressions: comments with which a person says that a finding is known and meant.

    total += loss  # torchvet: ignore[accumulated-graph] backward runs on the sum
    # torchvet: ignore[TV401, TV402] the launcher starts one rank     (on a line of its own: the statement below)
    # torchvet: file-ignore[too-many-workers] generated              (anywhere: the whole file)
    barrier()  # noqa: TV401

A suppression names its rules: without names it would hide what nobody has looked at.
"""

from __future__ import annotations

from torchvet.findings import NOTE, Finding, Fix, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torchvet.check.config import Options

    from .pragmas import Suppression

UNUSED = "unused-suppression"
_NEVER = frozenset(("bad-suppression", "internal-error"))
"""What no comment can hide."""


def apply(
    findings: list[Finding],
    read_text: Callable[[str], str],
    options: Options,
    *,
    files: Iterable[str] | None = None,
    only: Iterable[str] | None = None,
    rules: Mapping[str, object] | None = None,
) -> tuple[list[Finding], int]:
    """Take away what comments suppress: (the findings that stay, how many were taken away).

    `read_text(path)` is the text that was analysed. Suppressions without effect and broken ones come back as findings
    of their own. They are looked for in `files` (those analysed; default: the files of the findings), and only names
    in `only` (the rules that ran; default: all) can be without effect. `rules` is name -> rule, default all rules.
    """
    by_path: dict[str, list[Finding]] = {}
    for f in findings:
        by_path.setdefault(f.span.path, []).append(f)
    ran = None if only is None else frozenset(only)
    kept: list[Finding] = []
    count = 0
    for path in sorted({*by_path, *(files or ())}):
        here = by_path.get(path, [])
        try:
            text = read_text(path)
        except (OSError, LookupError, ValueError):  # unreadable or undecodable: a finding says so already
            text = ""
        if not _relevant(text):
            kept += here
            continue
        from .pragmas import read

        if rules is None:
            from torchvet.check.rules import listed

            rules = listed()
        suppressions, problems = read(path, text, rules, options.require_reason)
        for f in here:
            hit = [s for s in suppressions if s.covers(f)] if f.name not in _NEVER else []
            for s in hit:
                s.used.add(f.name)
            if hit:
                count += 1
            else:
                kept.append(f)
        kept += problems
        if options.unused_suppressions:
            for f in [f for s in suppressions for f in _unused(s, ran)]:
                if any(s.covers(f) for s in suppressions):
                    count += 1
                else:
                    kept.append(f)
    return kept, count


def _relevant(text: str) -> bool:
    """Whether a file may hold a suppression of ours: most do not, and nothing more is loaded for them."""
    if "torchvet:" in text:
        return True
    if "noqa" not in text and "NOQA" not in text:
        return False
    from .pragmas import relevant

    return relevant(text)


def _unused(s: Suppression, ran: frozenset[str] | None) -> list[Finding]:
    idle = [w for w, name in s.names if name not in s.used and name != UNUSED and (ran is None or name in ran)]
    if not idle:
        return []
    said = Text("nothing to suppress here: {names}", "此处没有可抑制的问题：{names}", names=", ".join(idle))
    help = Text("remove it", "请删除")
    from .pragmas import finding

    fix = None
    if s.removal and len(idle) == len(s.names) and not s.span.path.endswith(".ipynb"):
        fix = Fix(Text("remove the suppression", "删除该抑制注释"), [s.removal], safe=True)
    return [finding(UNUSED, NOTE, s.span, ", ".join(w for w, _ in s.names), said, help, fix)]
