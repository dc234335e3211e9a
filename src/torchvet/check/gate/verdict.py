"""Findings to exit code: the same for every output format."""

from __future__ import annotations

from torchvet.findings import NOTE, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CLEAN, BLOCKED, FAILED = 0, 1, 2


def exit_code(
    findings: Iterable[Finding], *, strict: bool = False, exit_zero: bool = False, internal_errors: bool = False
) -> int:
    """2 when torchvet itself failed somewhere, else 1 when a shown finding blocks (errors, warnings; notes when
    `strict`), else 0. `exit_zero` lets findings pass, never a failure of the tool."""
    findings = list(findings)
    if internal_errors or any(f.name == "internal-error" for f in findings):
        return FAILED
    if exit_zero:
        return CLEAN
    return BLOCKED if any(strict or f.severity != NOTE for f in findings) else CLEAN
