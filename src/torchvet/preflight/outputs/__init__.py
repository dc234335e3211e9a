"""What a report looks like: one file for each format, each a pure function of the report."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node import NodeReport

FORMATS = ("text", "json", "github", "junit", "prometheus")
BY_ENDING = {"json": "json", "xml": "junit", "prom": "prometheus", "txt": "text"}


class Style:
    """How a text is shown: language, columns, colour, whether all results are listed, whether `×` can be shown, and
    from which verdict on a result stops the job ("warn", "fail")."""

    __slots__ = ("color", "fail_on", "language", "unicode", "verbose", "width")

    def __init__(
        self,
        language: str = "en",
        *,
        width: int = 100,
        color: bool = False,
        verbose: bool = False,
        unicode: bool = True,
        fail_on: str = "fail",
    ) -> None:
        self.language = language
        self.width = width
        self.color = color
        self.verbose = verbose
        self.unicode = unicode
        self.fail_on = fail_on


def render(name: str, report: NodeReport, style: Style) -> str:
    """The report in a format."""
    from importlib import import_module

    text: str = import_module(f"{__name__}.{name}").render(report, style)
    return text
