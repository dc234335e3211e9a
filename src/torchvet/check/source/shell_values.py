"""The commands of a shell script with their variables put in, and what the script exports.

Values are followed in order; bodies of functions come last, when all is set. A variable that several branches set has
several values: when they are options ("--gpus all" or nothing) all of them count, else it is unknown.
"""

from __future__ import annotations

import re

from .shell import DECLARING, DEEP, MOST_TEXT, Lexer, Raw, Word
from .traced import CLOSE, OPEN, Traced, joined, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_VALUES = 4
MOST_WORDS = 4000
_SPACE = re.compile(r"\s+")


class Values:
    """What the variables of a script are: each with its possible values, arrays with their words."""

    __slots__ = ("arrays", "exported", "loops", "open", "single")

    def __init__(self) -> None:
        self.single: dict[str, list[Traced]] = {}
        self.arrays: dict[str, list[Traced]] = {}
        self.exported: set[str] = set()
        self.loops: frozenset[str] = frozenset()
        self.open: Callable[[str], str | None] | None = None
        """The text of a script that this one reads in with `source`, by the path as written."""


class Setting:
    """`name` is set to `value` at an offset. `exported`: programs that the script starts see it."""

    __slots__ = ("at", "branch", "exported", "name", "value")

    def __init__(self, name: str, value: Traced, at: int, branch: bool, exported: bool) -> None:
        self.name = name
        self.value = value
        self.at = at
        self.branch = branch
        self.exported = exported


class Command:
    """A command: `words` (never empty), `env` set for it alone, file offsets `at` and `end` of its text. `here`: the
    text of its here-document; `target`: the file that its output goes to."""

    __slots__ = ("at", "branch", "end", "env", "function", "here", "target", "words")

    def __init__(self, raw: Raw, words: list[Traced], env: list[Setting], at: int, end: int) -> None:
        self.words = words
        self.env = env
        self.at = at
        self.end = end
        self.branch = raw.branch
        self.function = raw.function
        self.here = raw.here
        self.target = ""


class Script:
    """`commands` and `settings` of a script, in order."""

    __slots__ = ("commands", "settings", "values")

    def __init__(self, values: Values) -> None:
        self.commands: list[Command] = []
        self.settings: list[Setting] = []
        self.values = values


def script(source: Traced, values: Values | None = None, depth: int = 0) -> Script:
    """Read a script, or a part of one with the variables that it sees."""
    out = Script(values or Values())
    reader = _Reader(out, depth)
    raws = Lexer(source, depth).run()
    for raw in raws:
        if not raw.function:
            reader.command(raw, source)
    for raw in raws:
        if raw.function:
            reader.command(raw, source)
    for setting in out.settings:
        setting.exported = setting.exported or setting.name in out.values.exported
    return out


class _Reader:
    def __init__(self, out: Script, depth: int) -> None:
        self.out = out
        self.values = out.values
        self.depth = depth
        self.words = 0

    def command(self, raw: Raw, source: Traced) -> None:
        at = source.offset(min(raw.at, len(source.text)))
        end = source.offset(max(min(raw.end, len(source.text)) - 1, 0)) + 1
        head = raw.words[0].bare() if raw.words else ""
        if raw.loops:
            if len(raw.words) > 1:
                self.values.loops |= {raw.words[1].literal()}
                self.values.single.pop(raw.words[1].literal(), None)
                for w in raw.words[2:]:
                    self.expand(w)
            return
        words: list[Traced] = []
        for w in raw.words:
            words += self.expand(w)
        declaring = head in DECLARING
        exports = head == "export" or (declaring and any(w.text.startswith("-") and "x" in w.text for w in words[1:3]))
        settings = []
        for name, appended, given in raw.assigns:
            if isinstance(given, list):
                items = [x for w in given for x in self.expand(w)]
                kept = self.values.arrays.get(name, []) if appended or raw.branch else []
                self.values.arrays[name] = (kept + items)[:MOST_WORDS]
                continue
            parts = self.expand(given, whole=True)
            value = parts[0] if parts else Traced.at("", given.at)
            value = (
                self.assign(name, value, appended, raw.branch and not raw.words)
                if not raw.words or declaring
                else value
            )
            alone = not raw.words or declaring
            settings.append(Setting(name, value, given.at, raw.branch and alone, exports and not raw.apart))
        if exports and not raw.apart:
            self.values.exported |= {w.text for w in words[1:]}
        if not raw.words or declaring:
            self.out.settings += settings
        elif words:
            if head == "set" and any(w.text.startswith("-") and "a" in w.text for w in words[1:]):
                self.values.exported |= set(self.values.single)
            if head == "read" and raw.here is not None and any(w.text.startswith("-") and "d" in w.text for w in words):
                self.assign(words[-1].text, raw.here, False, raw.branch)  # a text of several lines in a variable
            if head in ("source", ".") and len(words) > 1:
                self.read_in(words[1])
            if head == "unset":
                gone = {w.text for w in words[1:]}
                self.values.exported -= gone
                for name in gone:
                    self.values.single.pop(name, None)
                for s in self.out.settings:
                    s.exported = s.exported and s.name not in gone
            command = Command(raw, words, settings, at, end)
            if raw.target is not None:
                command.target = "".join(x.text for x in self.expand(raw.target))
            self.out.commands.append(command)

    def read_in(self, path: Traced) -> None:
        """`source path`: its variables, all of them where the command stands."""
        text = self.values.open(path.text) if self.values.open is not None and self.depth < DEEP else None
        if text is None:
            return
        theirs = Values()
        theirs.single.update(self.values.single)
        theirs.open = self.values.open
        script(Traced.at(text, 0), theirs, self.depth + 1)
        place = path.offset(0)
        for name, several in theirs.single.items():
            if several is not self.values.single.get(name):
                self.values.single[name] = [standing(v.text, place) for v in several]
        for name, several in theirs.arrays.items():
            self.values.arrays[name] = [standing(v.text, place) for v in several]

    def assign(self, name: str, value: Traced, appended: bool, branch: bool) -> Traced:
        known = self.values.single
        before = known.get(name, [])
        if appended and before:
            known[name] = [joined((b, value)) for b in before if len(b.text) + len(value.text) < MOST_TEXT]
        elif branch and before:
            if all(b.text != value.text for b in before) and len(before) < MOST_VALUES:
                known[name] = [*before, value]
        else:
            known[name] = [value]
        return value

    # -------------------------------------------------------------------------------------------------- expansion
    def expand(self, word: Word, whole: bool = False, depth: int = 0) -> list[Traced]:
        """The words that a word becomes; `whole`: one word, as in an assignment."""
        out: list[list[Traced]] = []
        current: list[Traced] = []
        there = False
        for kind, value, quoted in word.parts:
            pieces: list[Traced]
            if kind == "text":
                current.append(value)  # type: ignore[arg-type]
                there = True
                continue
            if kind == "command":
                pieces = [self.substituted(*value)]  # type: ignore[misc]
            elif kind == "unknown":
                pieces = [unknown(*value)]  # type: ignore[misc]
            elif kind == "var" and isinstance(value, tuple):
                pieces = self.variable(value, depth)
            else:
                pieces = [unknown("array", word.at)]
            several = (kind == "var" and isinstance(value, tuple) and value[0] in ("@",)) or len(pieces) != 1
            for i, piece in enumerate(pieces):
                if i and several and not whole:
                    out.append(current)
                    current = []
                elif i:
                    current.append(Traced.at(" ", piece.offset(0)))
                if quoted or whole or several:
                    current.append(piece)
                    there = True
                    continue
                for j, (start, end) in enumerate(spans(piece.text)):
                    if j or (start and current):
                        if current or there:
                            out.append(current)
                        current = []
                    current.append(piece.cut(start, end))
                    there = True
                if piece.text[-1:].isspace() and current:
                    out.append(current)
                    current, there = [], False
        if current or (there and not out):
            out.append(current)
        self.words += len(out)
        if self.words > MOST_WORDS * 10:
            return [unknown("too much", word.at)]
        return [joined(x) for x in out if x or there]

    def variable(self, value: tuple[object, ...], depth: int) -> list[Traced]:
        name, default, kind, where = value
        assert isinstance(name, str) and isinstance(where, int)
        base = name.removesuffix("[@]")
        if name != base or (base in self.values.arrays and base not in self.values.single):
            items = self.values.arrays.get(base)
            if items is not None:
                return items if name != base else items[:1]
        known = self.values.single.get(base)
        if isinstance(default, Word) and depth < DEEP and (known is None or kind == "+"):
            found = self.expand(default, whole=True, depth=depth + 1)
            text = found[0] if found else Traced.at("", where)
            if kind == "=":
                self.values.single[base] = [text]
                self.out.settings.append(Setting(base, text, where, True, False))
            return [text]
        if known is None:
            return [unknown(base, where)]
        if len(known) == 1:
            return [known[0] if len(known[0].text) < MOST_TEXT else unknown(base, where)]
        if all(not k.text.strip() or k.text.lstrip().startswith("-") for k in known):
            return [joined([p for k in known for p in (k, Traced.at(" ", k.offset(0)))])]
        return [unknown(base, where)]

    def substituted(self, inner: Traced, where: int) -> Traced:
        said = self.inside(inner) if self.depth < DEEP else None
        return said if said is not None else unknown("$(" + inner.text.strip()[:200], where)

    def inside(self, text: Traced) -> Traced | None:
        """Commands of a substitution run too. Its text where that is a here-document."""
        inner = script(text, self.values, self.depth + 1)
        self.out.commands += inner.commands
        self.words += len(inner.commands)
        only = inner.commands[0] if len(inner.commands) == 1 else None
        return only.here if only is not None and len(only.words) == 1 and only.words[0].text == "cat" else None


def standing(text: str, place: int) -> Traced:
    """Text of another file, every character of it at one place of this one."""
    return Traced(text, list(range(max(len(text), 1))), [place] * max(len(text), 1))


def spans(text: str) -> list[tuple[int, int]]:
    """Start and end of the parts between blanks; what stands between the marks of an unknown part stays together."""
    if OPEN not in text:
        return [(m.start(), m.end()) for m in re.finditer(r"\S+", text)]
    return [(m.start(), m.end()) for m in re.finditer(rf"(?:{OPEN}[^{CLOSE}]*{CLOSE}|[^\s{OPEN}])+", text)]
