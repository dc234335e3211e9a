"""Shell scripts as the commands that they run, with their words and where each stands.

Understood: quotes, continuation lines, comments, pipes and lists, `if`/`for`/`while`/`case`, functions, here-documents,
substitutions, variables with defaults, arrays. Nothing is run: what is not known is marked as such (`traced.unknown`),
and a script that bash would refuse gives the commands up to where it makes sense. Bash manual, "Shell Syntax" and
"Shell Parameter Expansion".
"""

from __future__ import annotations

import re

from .traced import Traced, joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    Part = tuple[str, object, bool]  # (kind, value, quoted)

DEEP = 12
"""Substitutions in substitutions."""
MOST_COMMANDS = 5_000
MOST_OPEN = 200
"""Constructs inside each other; deeper ones are not told apart."""
FAR = 50_000
"""Characters between brackets that belong together."""
MOST_TEXT = 20_000
"""Characters of an expanded word: a variable that doubles itself stops there."""

OPENING = frozenset(("if", "for", "while", "until", "case", "select"))
CLOSING = frozenset(("fi", "done", "esac"))
PREFIXES = frozenset(("then", "else", "elif", "do", "!", "time", "if", "while", "until", "coproc"))
DECLARING = frozenset(("export", "declare", "local", "readonly", "typeset"))

_PLAIN = re.compile(r"[^\s\"'\\$`|&;()<>#{}]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?(\+?=)")
_BLANKS = re.compile(r"(?:[ \t\r\x0b\x0c]|\\\n)+")
_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([^\s;&|<>()'\"]+))")
_REDIRECT = re.compile(r"[0-9]*(?:>&|<&|&?>>?\|?|<>|<<<|<)(?:[0-9-](?![^\s;|&()]))?[ \t]*")
_NUMBERED = re.compile(r"[0-9]+[<>]")
_QUOTED = re.compile(r"[^\"\\$`]+")


class Word:
    """One word as written: parts that are put together when variables are known."""

    __slots__ = ("at", "parts")

    def __init__(self, at: int) -> None:
        self.at = at
        self.parts: list[Part] = []

    def literal(self) -> str:
        """Its text when nothing in it is a variable, else ""."""
        return "".join(p[1].text for p in self.parts) if all(p[0] == "text" for p in self.parts) else ""  # type: ignore[attr-defined]

    def bare(self) -> str:
        """Its text when it stands without quotes and variables: a keyword counts only so."""
        return self.literal() if not any(p[2] for p in self.parts) else ""


class Raw:
    """A command before variables are put in. `branch`: it may be skipped. `function`: that it stands in."""

    __slots__ = ("apart", "assigns", "at", "branch", "end", "function", "here", "loops", "target", "words")

    def __init__(self, at: int, branch: bool, function: str) -> None:
        self.at = self.end = at
        self.branch = branch
        self.function = function
        self.assigns: list[tuple[str, bool, Word | list[Word]]] = []  # (name, appended, value or array)
        self.words: list[Word] = []
        self.here: Traced | None = None
        self.target: Word | None = None
        self.apart = False  # in a shell of its own
        self.loops = ""


class Lexer:
    """Cuts a text into raw commands."""

    def __init__(self, source: Traced, depth: int = 0) -> None:
        self.left = 4 * len(source.text) + 100_000  # characters to look at for closing brackets
        self.source = source
        self.text = source.text
        self.depth = depth
        self.at = 0
        self.out: list[Raw] = []
        self.open: list[str] = []
        self.functions: list[tuple[int, str]] = []
        self.pending: list[tuple[Raw, str, bool, bool]] = []
        self.conditional = False
        self.word_start = 0

    # -------------------------------------------------------------------------------------------------- commands
    def run(self) -> list[Raw]:
        text, size = self.text, len(self.text)
        current = self.fresh()
        while self.at < size and len(self.out) < MOST_COMMANDS:
            before = self.at
            c = text[before]
            if c == "\\" and text[before + 1 : before + 2] == "\n":
                self.at += 2
            elif c in " \t\r\x0b\x0c":
                found = _BLANKS.match(text, before)
                self.at = found.end() if found else before + 1
            elif c == "\n":
                current = self.ended(current)
                self.at += 1
                self.conditional = False
                self.bodies()
            elif c == "#":
                end = text.find("\n", before)
                self.at = size if end < 0 else end
            elif c in ";&|":
                self.at += 1
                if c == "&" and text[self.at : self.at + 1] == ">":
                    self.redirect(current)
                    continue
                double = text[self.at : self.at + 1] == c
                if double or (c == "|" and text[self.at : self.at + 1] == "&"):
                    self.at += 1
                current = self.ended(current)
                self.conditional = double and c != ";"
            elif c == "(":
                current = self.parenthesis(current)
            elif c == ")":
                self.at += 1
                innermost = next((x for x in reversed(self.open) if x in ("(", "case")), "")
                if innermost == "(":
                    current = self.ended(current)
                    self.close("(")
                else:  # the pattern of a `case`
                    current = self.fresh()
            elif c in "<>" or (c in "0123456789" and _NUMBERED.match(text, before)):
                self.redirect(current)
            else:
                current = self.word(current)
            if self.at == before:  # nothing fits: go on behind it
                self.at += 1
        self.ended(current)
        return self.out

    def matching(self, text: str, at: int) -> int:
        """Behind the closing bracket; -1 when there is none, or when looking for it has taken too long already."""
        if self.left <= 0:
            return -1
        end = matching(text, at)
        self.left -= (end if end > 0 else min(len(text), at + FAR)) - at
        return end

    def fresh(self) -> Raw:
        at = self.at
        branch = self.conditional or any(x in ("if", "case", "for", "while", "until", "select") for x in self.open)
        raw = Raw(at, branch, self.functions[-1][1] if self.functions else "")
        raw.apart = "(" in self.open
        return raw

    def ended(self, current: Raw) -> Raw:
        current.end = self.at
        if current.words or current.assigns or current.target is not None:
            self.out.append(current)
        return self.fresh()

    def push(self, kind: str) -> None:
        if len(self.open) < MOST_OPEN:
            self.open.append(kind)

    def close(self, kind: str) -> None:
        """Take back to the innermost construct of this kind, and the functions whose bodies end with it."""
        while self.open:
            last = self.open.pop()
            while self.functions and self.functions[-1][0] > len(self.open):
                self.functions.pop()
            if last == kind or (kind == "block" and last in OPENING):
                return

    def word(self, current: Raw) -> Raw:
        start = self.at
        word = self.read_word()
        if not word.parts:
            return current
        bare = word.bare() if not current.words else ""
        if not current.words and not current.assigns:
            current.at = start
            if bare == "function":
                return self.named_function(current)
            if bare in OPENING:
                self.push(bare)
                fresh = self.fresh()
                if bare in ("for", "select"):
                    fresh.loops = bare
                    fresh.words.append(word)
                    return fresh
                if bare == "case":
                    self.skip_to_in()
                return fresh
            if bare in CLOSING:
                self.close("block")
                return self.fresh()
            if bare in PREFIXES or bare == "in":
                return self.fresh()
            if bare == "{":
                self.push("{")
                return self.fresh()
            if bare == "}":
                self.close("{")
                return self.fresh()
            if bare == "[[":
                end = self.text.find("]]", self.at)
                line = self.text.find("\n\n", self.at)
                self.at = end + 2 if end >= 0 and (line < 0 or end < line) else self.at
                return current
        if not current.words or (current.words[0].bare() in DECLARING):
            found = _ASSIGN.match(self.text, start)
            if found and found.end() <= self.at:
                self.assignment(current, word, found)
                return current
        current.words.append(word)
        return current

    def skip_to_in(self) -> None:
        found = re.compile(r"[^\n]*?\bin\b").match(self.text, self.at)
        if found:
            self.at = found.end()

    def named_function(self, current: Raw) -> Raw:
        found = re.compile(r"[ \t]*([\w.:-]+)[ \t]*(\([ \t]*\))?").match(self.text, self.at)
        if found:
            self.at = found.end()
            self.functions.append((len(self.open) + 1, found[1]))
            self.functions_body()
        return self.fresh()

    def functions_body(self) -> None:
        """Step over blanks to the `{` of a body; another form of body is read as it comes."""
        found = re.compile(r"[\s]*\{(?=\s)").match(self.text, self.at)
        if found:
            self.at = found.end()
            self.push("{")
        else:
            self.functions.pop()

    def parenthesis(self, current: Raw) -> Raw:
        text, at = self.text, self.at
        if text[at + 1 : at + 2] == "(" and (not current.words or current.loops):
            end = self.matching(text, at)
            self.at = end if end > 0 else at + 2
            return current
        found = re.compile(r"\([ \t]*\)").match(text, at)
        if found and len(current.words) == 1 and not current.assigns:
            self.at = found.end()
            self.functions.append((len(self.open) + 1, current.words[0].literal()))
            self.functions_body()
            return self.fresh()
        current = self.ended(current)
        self.at = at + 1
        self.push("(")
        return self.fresh()

    # ------------------------------------------------------------------------------------------------ assignments
    def assignment(self, current: Raw, word: Word, found: re.Match[str]) -> None:
        name, index, sign = found[1], found[2], found[3]
        inside = word.parts
        if found.end() == self.at and self.text[self.at : self.at + 1] == "(":
            end = self.matching(self.text, self.at)
            if end > 0:
                inner = Lexer(self.source.cut(self.at + 1, end - 1), self.depth + 1)
                current.assigns.append((name, sign == "+=", inner.list_words()))
                self.at = end
                return
        value = Word(self.source.offset(found.end()) if found.end() < len(self.text) else word.at)
        first = inside[0]
        length = found.end() - self.word_start
        if first[0] == "text":
            traced: Traced = first[1]  # type: ignore[assignment]
            rest = traced.cut(length, len(traced.text))
            value.parts = [("text", rest, first[2]), *inside[1:]]
        if index:
            value.parts = [("var", "array", False)]
        current.assigns.append((name, sign == "+=", value))

    def list_words(self) -> list[Word]:
        """The words of an array, comments and line ends left out."""
        out: list[Word] = []
        while self.at < len(self.text) and len(out) < 2000:
            before = self.at
            c = self.text[before]
            if c in " \t\r\n\x0b\x0c":
                self.at += 1
            elif c == "#":
                end = self.text.find("\n", before)
                self.at = len(self.text) if end < 0 else end
            elif c in "()|&;<>":
                self.at += 1
            else:
                word = self.read_word()
                if word.parts:
                    out.append(word)
                if self.at == before:
                    self.at += 1
        return out

    # ---------------------------------------------------------------------------------------------- redirections
    def redirect(self, current: Raw) -> None:
        text = self.text
        here = _HERE.match(text, self.at)
        if here and text[self.at : self.at + 3] != "<<<":
            end = next(x for x in (here[2], here[3], here[4]) if x is not None)
            self.pending.append((current, end, bool(here[1]), here[4] is not None and "\\" not in here[0]))
            self.at = here.end()
            return
        if text[self.at : self.at + 2] in ("<(", ">("):
            end_at = self.matching(text, self.at + 1)
            self.at = end_at if end_at > 0 else self.at + 2
            return
        found = _REDIRECT.match(text, self.at)
        if not found or found.end() == self.at:
            self.at += 1
            return
        writes = ">" in found[0] and "&" not in found[0].rstrip("-0123456789 \t")[1:]
        closes = found[0].rstrip(" \t")[-1:] in "0123456789-" and "&" in found[0]
        self.at = found.end()
        if closes or self.at >= len(text) or text[self.at] in "\n;|&)":
            return
        word = self.read_word()
        if writes:
            current.target = word

    def bodies(self) -> None:
        """The here-documents that begin on the line after their commands."""
        for raw, end, tabs, expands in self.pending:
            start = self.at
            while self.at < len(self.text):
                line_end = self.text.find("\n", self.at)
                line_end = len(self.text) if line_end < 0 else line_end
                line = self.text[self.at : line_end]
                if (line.lstrip("\t") if tabs else line).rstrip("\r") == end:
                    body = self.source.cut(start, self.at)
                    raw.here = without_doubled(body) if expands else body
                    self.at = min(line_end + 1, len(self.text))
                    break
                self.at = min(line_end + 1, len(self.text))
            else:
                raw.here = self.source.cut(start, len(self.text))
        self.pending = []

    # ---------------------------------------------------------------------------------------------------- words
    def read_word(self) -> Word:
        text, size = self.text, len(self.text)
        word = Word(self.source.offset(self.at))
        self.word_start = self.at
        while self.at < size:
            c = text[self.at]
            found = _PLAIN.match(text, self.at)
            if found:
                self.add(word, self.at, found.end(), False)
            elif c == "\\":
                if text[self.at + 1 : self.at + 2] == "\n":
                    if self.at + 2 < size and text[self.at + 2] in " \t":
                        break
                    self.at += 2
                else:
                    self.at += 1
                    self.add(word, self.at, min(self.at + 1, size), True)
            elif c == "'":
                end = text.find("'", self.at + 1)
                end = size if end < 0 else end
                self.add(word, self.at + 1, end, True)
                self.at = min(end + 1, size)
            elif c == '"':
                self.double(word)
            elif c == "$" or c == "`":
                self.dollar(word, False)
            elif c in "#{}":
                self.add(word, self.at, self.at + 1, False)
            else:
                break
        return word

    def add(self, word: Word, start: int, end: int, quoted: bool) -> None:
        word.parts.append(("text", self.source.cut(start, end), quoted))
        self.at = end

    def double(self, word: Word) -> None:
        text, size = self.text, len(self.text)
        self.at += 1
        empty = True
        while self.at < size:
            c = text[self.at]
            if c == '"':
                self.at += 1
                break
            empty = False
            found = _QUOTED.match(text, self.at)
            if found:
                self.add(word, self.at, found.end(), True)
            elif c == "\\":
                following = text[self.at + 1 : self.at + 2]
                if following == "\n":
                    self.at += 2
                elif following in ("$", "`", '"', "\\"):
                    self.at += 1
                    self.add(word, self.at, self.at + 1, True)
                else:
                    self.add(word, self.at, min(self.at + 2, size), True)
            else:
                self.dollar(word, True)
        if empty:
            word.parts.append(("text", self.source.cut(min(self.at, size), min(self.at, size)), True))

    def dollar(self, word: Word, quoted: bool) -> None:
        text, at = self.text, self.at
        where = self.source.offset(at)
        if text[at] == "`":
            end = text.find("`", at + 1)
            end = len(text) if end < 0 else end
            word.parts.append(("command", (self.source.cut(at + 1, end), where), quoted))
            self.at = min(end + 1, len(text))
            return
        following = text[at + 1 : at + 2]
        if following == "(":
            end = self.matching(text, at + 1)
            if end < 0:
                end = len(text)
            if text[at + 2 : at + 3] == "(":
                word.parts.append(("unknown", ("arithmetic", where), quoted))
            else:
                word.parts.append(("command", (self.source.cut(at + 2, max(end - 1, at + 2)), where), quoted))
            self.at = end
        elif following == "{":
            end = self.matching(text, at + 1)
            if end < 0:
                self.add(word, at, at + 2, quoted)
                return
            self.parameter(word, self.source.cut(at + 2, end - 1), where, quoted)
            self.at = end
        elif following == "'" and not quoted:
            end = text.find("'", at + 2)
            end = len(text) if end < 0 else end
            self.add(word, at + 2, end, True)
            self.at = min(end + 1, len(text))
        elif following == '"' and not quoted:
            self.at += 1
        else:
            found = _NAME.match(text, at + 1)
            if found:
                word.parts.append(("var", (found[0], None, "", where), quoted))
                self.at = found.end()
            elif following and following in "0123456789@*#?$!-":
                word.parts.append(("var", (following, None, "", where), quoted))
                self.at = at + 2
            else:
                self.add(word, at, at + 1, quoted)

    def parameter(self, word: Word, inner: Traced, where: int, quoted: bool) -> None:
        """`${NAME}`, `${NAME:-default}`, `${NAME[@]}`; other operations give something unknown."""
        found = re.compile(r"([A-Za-z_]\w*|[0-9@*#?$!-])(\[[@*]\])?(?:(:?[-=+?])|(.))?", re.DOTALL).match(inner.text)
        if not found or found[4] is not None:
            word.parts.append(("unknown", ("length" if inner.text[:1] == "#" else inner.text[:40], where), quoted))
            return
        default: Word | None = None
        if found[3] and found[3][-1] in "-=+" and self.depth < DEEP:
            lexer = Lexer(inner.cut(found.end(), len(inner.text)), self.depth + 1)
            default = lexer.all_of_it(quoted)
        kind = found[3][-1] if found[3] else ""
        word.parts.append(("var", (found[1] + ("[@]" if found[2] else ""), default, kind, where), quoted))

    def all_of_it(self, quoted: bool) -> Word:
        """The whole text as one word, blanks included (a default value)."""
        word = Word(self.source.offset(0))
        while self.at < len(self.text):
            before = self.at
            c = self.text[before]
            if c == '"':
                self.double(word)
            elif c == "'" and not quoted:
                end = self.text.find("'", before + 1)
                end = len(self.text) if end < 0 else end
                self.add(word, before + 1, end, True)
                self.at = min(end + 1, len(self.text))
            elif c in "$`":
                self.dollar(word, quoted)
            elif c == "\\":
                self.at += 1
                if self.at < len(self.text):
                    self.add(word, self.at, self.at + 1, True)
            else:
                self.add(word, before, before + 1, quoted)
            if self.at == before:
                self.at += 1
        return word


def matching(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`; -1 when none does. Quotes and escapes inside are stepped over."""
    opening = text[at]
    closing = ")" if opening == "(" else "}"
    depth, i, size = 0, at, min(len(text), at + FAR)
    while i < size:
        c = text[i]
        if c == "\\":
            i += 1
        elif c == "'":
            end = text.find("'", i + 1, size)
            i = end if end > 0 else i
        elif c == '"':
            end = i + 1
            while end < size and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            i = end if end < size else i
        elif c == "#" and opening == "(" and text[i - 1] in " \t\n":
            end = text.find("\n", i, size)
            i = end if end > 0 else i
        elif c == opening:
            depth += 1
        elif c == closing:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return -1


def without_doubled(body: Traced) -> Traced:
    """A here-document whose delimiter is not quoted: of a doubled backslash one is left for the shell that reads it."""
    if "\\\\" not in body.text:
        return body
    parts, at = [], 0
    while (found := body.text.find("\\\\", at)) >= 0:
        parts.append(body.cut(at, found + 1))
        at = found + 2
    return joined([*parts, body.cut(at, len(body.text))])
