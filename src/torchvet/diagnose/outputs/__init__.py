"""What a diagnosis looks like: one file for each format, each a pure function of the diagnosis and a style."""

from __future__ import annotations

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..code import Place, Rule
    from ..model import Diagnosis

FORMATS = ("text", "json", "markdown", "html", "facts")
_BY_ENDING = {
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
