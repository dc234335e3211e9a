"""Ground floor: the language of findings."""

from .errors import UserError
from .finding import (
    CERTAIN,
    CONFIDENCES,
    ERROR,
    LIKELY,
    NOTE,
    POSSIBLE,
    SEVERITIES,
    WARNING,
    Edit,
    Finding,
    Fix,
    Note,
    Span,
    fingerprints,
    rule_url,
)
from .language import LANGUAGES, Text, language

__all__ = [
    "CERTAIN", "CONFIDENCES", "ERROR", "LANGUAGES", "LIKELY", "NOTE", "POSSIBLE", "SEVERITIES", "WARNING", "Edit",
    "Finding", "Fix", "Note", "Span", "Text", "UserError", "fingerprints", "language", "rule_url",
]  # fmt: skip
