"""Where a verb writes its reports: pairs of format and path, from --output-format and --output."""

from __future__ import annotations

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def targets(
    formats: Sequence[str], outputs: Sequence[str], known: Sequence[str], by_ending: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(format, path) of everything to write; path "" is standard output. An output is FORMAT=PATH or PATH, whose format
    is that of --output-format or of its ending. UserError: no such format."""
    main = list(formats) or ["text"]
    pairs: list[tuple[str, str]] = []
    taken = False
    for word in outputs:
        name, equals, path = word.partition("=")
        if equals and name in known and path:
            pairs.append((name, "" if path == "-" else path))
        elif equals and name.isalnum():
            raise UserError(
                Text("unknown output format {name} in --output", "--output 中有未知的输出格式 {name}", name=name),
                Text("one of: {names}", "可选：{names}", names=", ".join(known)),
            )
        elif word == "-":
            pairs.append((main[0], ""))
        else:
            taken = True
            ending = word.rpartition(".")[2].lower()
            pairs.append((main[0] if formats else by_ending.get(ending, main[0]), word))
    if not taken:
        pairs = [*((name, "") for name in main if (name, "") not in pairs), *pairs]
    return pairs
