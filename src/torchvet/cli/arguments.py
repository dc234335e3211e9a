"""The command line: a table of arguments in, values or help out, in the user's language.

argparse would cost a seventh of the time that a small check may take, and speaks English only.
"""

from __future__ import annotations

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FLAG, VALUE, NUMBER, LIST = "flag", "value", "number", "list"


class Argument:
    """One option. A flag has no value (`negatable`: `--no-` turns it off); a list may be repeated and is split at
    commas unless `whole`. The key under which `parse` returns it is its long name without dashes."""

    __slots__ = ("choices", "group", "help", "kind", "metavar", "name", "negatable", "short", "whole")

    def __init__(
        self,
        name: str,
        kind: str,
        help: Text,
        *,
        group: str = "",
        short: str = "",
        metavar: str = "",
        choices: Sequence[str] = (),
        negatable: bool = False,
        whole: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.group = group
        self.short = short
        self.metavar = metavar
        self.choices = tuple(choices)
        self.negatable = negatable
        self.whole = whole


def parse(argv: Sequence[str], arguments: Sequence[Argument]) -> tuple[dict[str, Any], list[str]]:
    """(values of the options that were given, the other words). Raises UserError for what is not in the table."""
    long = {"--" + a.name: a for a in arguments}
    off = {"--no-" + a.name: a for a in arguments if a.negatable}
    short = {"-" + a.short: a for a in arguments if a.short}
    values: dict[str, Any] = {}
    words: list[str] = []
    rest = list(argv)
    rest.reverse()
    while rest:
        word = rest.pop()
        if word == "--":
            words += reversed(rest)
            break
        if word == "-" or not word.startswith("-"):
            words.append(word)
            continue
        attached: str | None = None
        if word.startswith("--"):
            word, equals, text = word.partition("=")
            attached = text if equals else None
            argument = long.get(word)
            if argument is None and word in off and attached is None:
                values[off[word].name] = False
                continue
        else:
            argument = short.get(word[:2])
            if argument and len(word) > 2:
                if argument.kind == FLAG:  # -qe is -q -e
                    rest.append("-" + word[2:])
                else:
                    attached = word[3:] if word[2] == "=" else word[2:]
                word = word[:2]
        if argument is None:
            raise _unknown(word, [*long, *off])
        if argument.kind == FLAG:
            if attached is not None:
                raise UserError(Text("{option} takes no value", "{option} 不接受值", option=word))
            values[argument.name] = True
            continue
        if attached is None:
            if not rest or (rest[-1].startswith("-") and rest[-1] != "-" and _is_option(rest[-1], long, off, short)):
                raise UserError(
                    Text("{option} needs a value", "{option} 需要一个值", option=word),
                    Text("{option} {metavar}", option=word, metavar=_metavar(argument)),
                )
            attached = rest.pop()
        _store(values, argument, word, attached)
    return values, words


def _is_option(word: str, *tables: dict[str, Argument]) -> bool:
    return any(word.partition("=")[0] in table for table in tables)


def _store(values: dict[str, Any], argument: Argument, word: str, text: str) -> None:
    value: Any = text
    if argument.kind == NUMBER:
        if not text.isascii() or not text.isdigit():
            raise UserError(
                Text(
                    "{option} needs a whole number, not {text}",
                    "{option} 需要整数，而不是 {text}",
                    option=word,
                    text=text,
                )
            )
        value = int(text)
    elif argument.kind == LIST:
        parts = [text] if argument.whole else [p.strip() for p in text.split(",") if p.strip()]
        value = [*values.get(argument.name, ()), *parts]
    choices = argument.choices
    if choices:
        for part in value if argument.kind == LIST else [value]:
            if part not in choices:
                from torchvet.check.config import did_you_mean

                raise UserError(
                    Text("{option} must be one of {choices}, not {text}",
                         "{option} 必须是以下之一：{choices}，而不是 {text}",
                         option=word, choices=", ".join(choices), text=part),
                    did_you_mean(part, choices),
                )  # fmt: skip
    values[argument.name] = value


def _unknown(word: str, known: Sequence[str]) -> UserError:
    from torchvet.check.config import did_you_mean

    hint = did_you_mean(word, known) if word.startswith("--") else ""
    return UserError(
        Text("unknown option {option}", "未知的选项 {option}", option=word),
        hint or Text("--help lists all options", "--help 列出所有选项"),
    )


def _metavar(argument: Argument) -> str:
    if argument.choices and len(argument.choices) < 5:
        return "|".join(argument.choices)
    return argument.metavar or "FORMAT" if argument.choices else argument.metavar or "VALUE"


def help_text(usage: str, purpose: Text, arguments: Sequence[Argument], groups: dict[str, Text], language: str) -> str:
    """The page that `--help` prints, 100 columns wide."""
    zh = language == "zh"
    lines = [purpose.render(language), "", ("用法：" if zh else "Usage: ") + usage]
    for group, title in groups.items():
        rows = [(_spelling(a), a) for a in arguments if a.group == group]
        if not rows:
            continue
        lines += ["", title.render(language) + ("：" if zh else ":")]
        for spelling, a in rows:
            said = a.help.render(language)
            if len(a.choices) >= 5:
                said += (": " if not zh else "：") + ", ".join(a.choices)
            lines += _row(spelling, said)
    return "\n".join(lines) + "\n"


def _spelling(a: Argument) -> str:
    name = f"--[no-]{a.name}" if a.negatable else "--" + a.name
    start = f"-{a.short}, " if a.short else "    "
    return start + name + ("" if a.kind == FLAG else " " + _metavar(a))


def _row(spelling: str, said: str, left: int = 36, width: int = 100) -> list[str]:
    lines = []
    head = f"  {spelling:<{left - 2}}"
    if len(head) > left:
        lines.append(head.rstrip())
        head = " " * left
    room = width - left
    for part in _wrap(said, room):
        lines.append(head + part)
        head = " " * left
    return lines


def _wrap(text: str, room: int) -> list[str]:
    """Break at blanks; a Chinese character takes two columns."""
    lines, line, used = [], "", 0
    for word in text.split(" "):
        size = sum(2 if ord(c) > 0x2E7F else 1 for c in word)
        if line and used + 1 + size > room:
            lines.append(line)
            line, used = word, size
        else:
            line = line + " " + word if line else word
            used += size + (1 if used else 0)
    return [*lines, line]
