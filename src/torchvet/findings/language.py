"""Words for people, in English and Simplified Chinese."""

from __future__ import annotations

import os

LANGUAGES = ("en", "zh")


class Text:
    """A sentence in both languages with named fields, rendered late: the reader's language is known only at the report.

    Fields are the user's own names, numbers or other `Text` objects. English is the key: `str(text)` is English.
    """

    __slots__ = ("en", "fields", "zh")

    def __init__(self, en: str, zh: str = "", **fields: object) -> None:
        self.en = en
        self.zh = zh or en
        self.fields = fields

    def render(self, language: str = "en") -> str:
        template = self.zh if language == "zh" else self.en
        if not self.fields:
            return template
        filled = {k: v.render(language) if isinstance(v, Text) else v for k, v in self.fields.items()}
        return template.format(**filled)

    def __str__(self) -> str:
        return self.render("en")

    def __repr__(self) -> str:
        return f"Text({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(self.en)

    def plain(self) -> tuple[str, str, dict[str, object]]:
        """The text as values that `marshal` can hold (see `from_plain`)."""
        return (
            self.en,
            self.zh,
            {
                k: v.plain() if isinstance(v, Text) else v if isinstance(v, (int, float)) else str(v)
                for k, v in self.fields.items()
            },
        )

    @classmethod
    def from_plain(cls, row: tuple[str, str, dict[str, object]]) -> Text:
        text = cls(row[0], row[1])
        text.fields = {k: cls.from_plain(v) if isinstance(v, tuple) else v for k, v in row[2].items()}
        return text


def language(asked: str | None = None, environment: dict[str, str] | None = None) -> str:
    """The language to speak: `--lang`, then TORCHVET_LANG, LC_ALL, LC_MESSAGES, LANG; English otherwise."""
    if asked in LANGUAGES:
        return str(asked)
    env = os.environ if environment is None else environment
    for key in ("TORCHVET_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = env.get(key)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
