"""What a report looks like: one file for each format, each a pure function of the report."""

from __future__ import annotations

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..node import NodeReport

FORMATS = ("text", "json", "github", "junit", "prometheus")
_BY_ENDING = {"json": "json", "xml": "junit", "prom": "prometheus", "txt": "text"}


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


def targets(formats: Sequence[str], outputs: Sequence[str]) -> list[tuple[str, str]]:
    """(format, path) of everything to write; path "" is standard output. An output is FORMAT=PATH or PATH, whose format
    is that of --output-format or of its ending. UserError: no such format."""
    main = list(formats) or ["text"]
    pairs: list[tuple[str, str]] = []
    taken = False
    for word in outputs:
        name, equals, path = word.partition("=")
        if equals and name in FORMATS and path:
            pairs.append((name, "" if path == "-" else path))
        elif equals and name.isalnum():
            raise UserError(
                Text("unknown output format {name} in --output", "--output 中有未知的输出格式 {name}", name=name),
                Text("one of: {names}", "可选：{names}", names=", ".join(FORMATS)),
            )
        elif word == "-":
            pairs.append((main[0], ""))
        else:
            taken = True
            ending = word.rpartition(".")[2].lower()
            pairs.append((main[0] if formats else _BY_ENDING.get(ending, main[0]), word))
    if not taken:
        pairs = [*((name, "") for name in main if (name, "") not in pairs), *pairs]
    return pairs
