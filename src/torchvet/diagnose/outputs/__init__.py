"""What a diagnosis looks like: one file for each format, each a pure function of the diagnosis and a style."""

from __future__ import annotations

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..code import Place, Rule
    from ..model import Diagnosis

FORMATS = ("text", "json", "markdown", "html", "facts")
BY_ENDING = {
    "json": "json", "md": "markdown", "html": "html", "htm": "html", "jsonl": "facts", "ndjson": "facts", "txt": "text",
}  # fmt: skip


class Style:
    """How a diagnosis is shown.

    language, width, color, unicode, verbose   as for every text
    paths    what the user gave, for the commands that are proposed
    places   (path, line) as the evidence has them -> that place in the code at hand
    candidates   (cause, sub) -> what `check` finds in the code that can be its place, where the evidence names none
    code     the folder given with --code, "" without it
    """

    __slots__ = ("candidates", "code", "color", "language", "paths", "places", "unicode", "verbose", "width")

    def __init__(
        self,
        language: str = "en",
        *,
        width: int = 100,
        color: bool = False,
        unicode: bool = True,
        verbose: bool = False,
        paths: Sequence[str] = (),
        places: Mapping[tuple[str, int], Place] | None = None,
        candidates: Mapping[tuple[str, str], list[Rule]] | None = None,
        code: str = "",
    ) -> None:
        self.language = language
        self.width = width
        self.color = color
        self.unicode = unicode
        self.verbose = verbose
        self.paths = list(paths)
        self.places = places or {}
        self.candidates = candidates or {}
        self.code = code

    def say(self, text: Text | str) -> str:
        return text if isinstance(text, str) else text.render(self.language)


def render(name: str, diagnosis: Diagnosis, style: Style) -> str:
    """The diagnosis in one of `FORMATS`, ending in a newline unless empty."""
    from importlib import import_module

    text: str = import_module(f"{__name__}.{name}").render(diagnosis, style)
    return text
