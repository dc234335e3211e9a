"""C++, CUDA and HIP sources as far as ownership needs them: functions with their statements, classes, macros.

No compiler runs before this, so macros are unknown, branches of `#if` are all there, and templates stay as they are.
The reader therefore works with brackets and statements and not with a grammar: what it does not understand is a
statement of unknown words. A quarter of the CUDA files of real repositories break the public grammars (macros that open
a block, dispatch macros with lambdas); here they are read like all others. A source whose braces do not match is
`broken`.

Offsets are characters of the source; every blanked text has the length of the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Stmt = tuple[Any, ...]
    Token = tuple[str, int]

_QUIET = re.compile(
    r"//(?:[^\n\\]|\\\n|\\.)*|/\*.*?(?:\*/|\Z)|R\"([^()\s\\]{0,16})\(.*?(?:\)\1\"|\Z)|\"(?:[^\"\\\n]|\\.)*\"?"
    r"|(?<![\w'])'(?:[^'\\\n]|\\.){1,8}'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE)
_DEFINE = re.compile(r"\s+(\w+)(\(([^)]*)\))?(.*)", re.DOTALL)
TOKEN = re.compile(
    r"~?[A-Za-z_]\w*(?:\s*::\s*~?[A-Za-z_]\w*)*|::\s*[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*|\d[\w.']*|<<<|>>>|->|\+\+|--"
    r"|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|<<|\"\"?|[^\s\w]"
)
IF, ELSE, ENDIF = "\x01", "\x02", "\x03"
"""What stands in the place of the signs of `#if`, `#else` (and `#elif`) and `#endif`."""

MOST_TOKENS = 60_000
"""Of one function: more are generated tables."""
DEEPEST = 200
LONGEST = 20_000
"""Characters of a head or a declaration."""


class Unreadable(Exception):
    """A function that cannot be read; nothing is said of it."""


class Function:
    """`body`: offsets inside the braces. `owner`: the class as written (`A::B`), "" for a free function. `start` is
    where its head begins, `at` the offset of its name. `initials`: offsets of a constructor's initializers."""

    __slots__ = (
        "_statements",
        "at",
        "body",
        "head",
        "initials",
        "name",
        "owner",
        "params",
        "start",
        "unit",
    )

    def __init__(
        self, unit: Unit, name: str, owner: str, head: str, start: int, at: int, body: tuple[int, int]
    ) -> None:
        self.unit = unit
        self.name = name
        self.owner = owner
        self.head = head
        self.start = start
        self.at = at
        self.body = body
        self.initials = (0, 0)
        self.params: list[tuple[str, str]] = []
        self._statements: list[Stmt] | None = None

    @property
    def text(self) -> str:
        return self.unit.code[self.body[0] : self.body[1]]

    def on_device(self) -> bool:
        return "__global__" in self.head or ("__device__" in self.head and "__host__" not in self.head)


class Class:
    """`members`: {name: type as text}; `declared`: heads of methods that stand in the class, defined or not."""

    __slots__ = ("at", "bases", "declared", "members", "methods", "name", "span", "unit")

    def __init__(self, unit: Unit, name: str, bases: str, at: int, span: tuple[int, int]) -> None:
        self.unit = unit
        self.name = name
        self.bases = bases
        self.at = at
        self.span = span
        self.members: dict[str, str] = {}
        self.declared: list[tuple[str, int]] = []
        self.methods: list[Function] = []


class Unit:
    """One source. `code` is its text without comments, contents of strings and directives."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.functions: list[Function] = []
        self.classes: list[Class] = []
        self.globals: dict[str, str] = {}
        self.macros: dict[str, tuple[tuple[str, ...] | None, str]] = {}
        self.includes: list[str] = []
        self.broken = False
        self._lines: list[int] = []
        self.code = self._directives(_QUIET.sub(_quiet, text))
        if "<< <" in self.code:  # what some formatters make of a launch
            self.code = self.code.replace("<< <", "<<< ").replace(">> >", ">>> ")
        self._structure()

    # ------------------------------------------------------------------------------------------------- positions
    def line(self, offset: int) -> int:
        """From 1."""
        if not self._lines:
            self._lines = [0]
            self._lines += [m.end() for m in re.finditer("\n", self.text)]
        return bisect_right(self._lines, offset)

    def place(self, offset: int, length: int) -> tuple[int, int, int]:
        """(line from 1, byte column, end byte column) of something on one line."""
        line = self.line(offset)
        begin = self._lines[line - 1]
        column = len(self.text[begin:offset].encode("utf-8", "surrogatepass"))
        return line, column, column + len(self.text[offset : offset + length].encode("utf-8", "surrogatepass"))

    # ------------------------------------------------------------------------------------------------ directives
    def _directives(self, code: str) -> str:
        if "#" not in code:
            return code
        out: list[str] = []
        last = 0
        # per open #if: [begins dropped, braces at its start, where its first branch ends, is dropped now]
        stack: list[list[Any]] = []
        dropped: list[tuple[int, int]] = []
        for m in _DIRECTIVE.finditer(code):
            word, rest = m[1], m[2]
            sign = " "
            if word in ("if", "ifdef", "ifndef"):
                never = word == "if" and rest.strip() == "0"
                stack.append([m.end() if never else -1, m.end(), never])
                sign = IF
            elif word in ("else", "elif") and stack:
                top = stack[-1]
                if top[0] >= 0:
                    dropped.append((top[0], m.start()))
                    top[0] = -1
                uneven = not _even(code, top[1], m.start())
                if (uneven or top[2] == "uneven") and top[2] is not True:
                    top[0] = m.end()
                    top[2] = "uneven"
                sign = ELSE
            elif word == "endif" and stack:
                top = stack.pop()
                if top[0] >= 0:
                    dropped.append((top[0], m.start()))
                sign = ENDIF
            elif word == "define":
                made = _DEFINE.match(rest)
                if made:
                    names = tuple(x.strip() for x in made[3].split(",")) if made[2] else None
                    self.macros[made[1]] = (names, made[4].replace("\\\n", " ").replace("\\\r\n", " "))
            elif word == "include":
                name = re.search(r"[\"<]([^\">]+)", self.text[m.start() : m.end()])
                if name:
                    self.includes.append(name[1])
            out.append(code[last : m.start()])
            out.append(sign + _blank(m[0])[1:] if m[0] else "")
            last = m.end()
        out.append(code[last:])
        text = "".join(out)
        for begin, end in dropped:
            text = text[:begin] + _blank(text[begin:end]) + text[end:]
        return text

    # ------------------------------------------------------------------------------------------------- structure
    def _structure(self) -> None:
        code = self.code
        match: dict[int, int] = {}
        stack: list[int] = []
        for m in re.finditer(r"[{}]", code):
            if m[0] == "{":
                stack.append(m.start())
            elif stack:
                match[stack.pop()] = m.start()
            else:
                self.broken = True
        if stack:
            self.broken = True
        self.match = match
        if not self.broken:
            self._scope(0, len(code), None, "", 0)

    def _scope(self, begin: int, end: int, cls: Class | None, prefix: str, depth: int) -> None:
        """The declarations between two offsets of a file, a namespace or a class."""
        code = self.code
        if depth > DEEPEST:
            self.broken = True
            return
        start = at = begin
        while True:
            m = _MARK.search(code, at, end)
            if m is None:
                return
            sign = m[0]
            at = m.end()
            if sign == ";":
                self._declaration(code[start : m.start()], start, cls)
                start = at
                continue
            if sign == "}":
                start = at
                continue
            closing = self.match[m.start()]
            head = code[start : m.start()]
            plain = _clean(head) if len(head) < LONGEST else ""
            if _NAMESPACE.search(plain):
                self._scope(at, closing, None, prefix, depth + 1)
                start = at = closing + 1
            elif (named := _CLASS.search(plain)) and "(" not in plain[named.end() :].split(":")[0]:
                name = named[2].rpartition("::")[2]
                made = Class(self, name, named[3] or "", start + plain.find(named[2], named.start(2)), (at, closing))
                self.classes.append(made)
                self._scope(at, closing, made, prefix + name + "::", depth + 1)
                start = at = closing + 1
            elif _ENUM.search(plain) or plain.rstrip().endswith(("=", ",", "(", "return")):
                at = closing + 1
            elif (function := self._function(head, plain, start, (at, closing), cls)) is not None:
                self.functions.append(function)
                if cls is not None:
                    cls.declared.append((plain, start))
                start = at = closing + 1
            else:  # an initializer, or something unknown: skip what is inside
                at = closing + 1
                if "(" in plain and not _GOES_ON.match(code, at):
                    start = at

    def _function(self, head: str, plain: str, start: int, body: tuple[int, int], cls: Class | None) -> Function | None:
        for m in _ATTRIBUTE.finditer(plain):
            end = matching(plain, m.end() - 1) + 1
            if end:
                plain = plain[: m.start()] + " " * (end - m.start()) + plain[end:]
        found = _HEAD.search(plain)
        if found is None:
            return None
        open_at = found.end() - 1
        close = matching(plain, open_at)
        if close < 0:
            return None
        name = re.sub(r"\s", "", found[1])
        if name.rpartition("::")[2] in _NOT_NAMES:
            return None
        rest = plain[close + 1 :]
        if name.endswith("operator()") or name == "operator":
            return None
        tail = rest.strip()
        initials = (0, 0)
        colon = _COLON.search(rest)
        if colon is not None and "?" not in rest and "(" not in rest[: colon.start()].replace("noexcept(", ""):
            if re.search(r"[\w>]\s*$", tail) and not tail.endswith("noexcept"):
                return None  # `: member{`: the brace opens an initializer
            initials = (start + close + 1 + colon.end(), body[0] - 1)
            tail = rest[: colon.start()].strip()
        if tail and not trailing(tail):
            return None
        owner, _, last = name.rpartition("::")
        if cls is not None and not owner:
            owner = cls.name
        made = Function(self, last, owner.rpartition("::")[2], plain, start, start + found.start(1), body)
        made.initials = initials
        made.params = parameters(plain[open_at + 1 : close])
        return made

    def _declaration(self, text: str, start: int, cls: Class | None) -> None:
        if len(text) > LONGEST:
            return
        plain = _clean(text)
        words = plain.strip()
        if not words or words.startswith(("using ", "typedef ", "friend ", "template", "return", 'extern "')):
            return
        if cls is not None and _METHOD.search(plain):
            cls.declared.append((plain, start))
            return
        found = declared(plain)
        names = cls.members if cls is not None else self.globals
        for name, kind in found:
            names[name] = kind


_MARK = re.compile(r"[;{}]")
_GOES_ON = re.compile(r"\s*[;,{(:)=]")
_ATTRIBUTE = re.compile(r"\b(?:__launch_bounds__|__attribute__|__declspec|alignas|__align__|explicit)\s*\(")
_NAMESPACE = re.compile(r"(?:\bnamespace\b[^()=]*|\bextern\s*\"\"?)\s*$")
_CLASS = re.compile(
    r"\b(class|struct|union)\s+(?:alignas\s*\([^)]*\)\s*|__align__\s*\([^)]*\)\s*|__attribute__\s*\(\(.*?\)\)\s*|[A-Z][A-Z0-9_]+\s+)*"
    r"([A-Za-z_][\w:]*)\s*(?:<[^{}]*>)?\s*(?:final\s*)?(?::\s*([^{]*))?$",
    re.DOTALL,
)
_ENUM = re.compile(r"\benum\b[^()]*$")
_HEAD = re.compile(
    r"((?:[A-Za-z_]\w*\s*(?:<[^<>()]*>)?\s*::\s*)*(?:~\s*[A-Za-z_]\w*|operator\s*\(\s*\)|operator\s*[^\s\w(]{1,3}|operator\s+\w[\w:]*|[A-Za-z_]\w*))\s*\("
)
_TRAILERS = frozenset(("const", "noexcept", "override", "final", "volatile", "try", "mutable", "&", "&&"))
_COLON = re.compile(r"(?<!:):(?!:)")
_METHOD = re.compile(r"\)(?:\s*(?:const|noexcept|override|final|=\s*(?:delete|default|0)))*\s*$")
_NOT_NAMES = frozenset(
    ("if", "for", "while", "switch", "catch", "return", "sizeof", "defined", "do", "else", "new", "delete", "decltype",
     "alignas", "noexcept", "__attribute__", "static_assert", "requires")
)  # fmt: skip
_KEYWORDS = frozenset(
    ("return", "delete", "new", "throw", "goto", "else", "case", "using", "typedef", "if", "for", "while", "do",
     "switch", "break", "continue", "template", "operator", "public", "private", "protected", "sizeof", "friend",
     "co_return", "default", "namespace", "this", "static_cast", "reinterpret_cast")
)  # fmt: skip
_SPECIFIERS = frozenset(
    ("static", "const", "constexpr", "thread_local", "volatile", "inline", "extern", "mutable", "struct", "class",
     "enum", "typename", "register", "unsigned", "signed", "long", "short", "__shared__", "__constant__", "__device__",
     "__managed__", "__restrict__", "virtual", "explicit")
)  # fmt: skip
_NUMERIC = frozenset(("unsigned", "signed", "long", "short"))


def _quiet(m: re.Match[str]) -> str:
    found = m[0]
    if found[0] == "/":
        return _blank(found)
    if len(found) < 2:
        return found
    return '"' + _blank(found[1:-1]) + ("\n" if found[-1] == "\n" else '"')  # a raw string that never ends


def _blank(text: str) -> str:
    return " " * len(text) if "\n" not in text else re.sub(r"[^\n]", " ", text)


def _clean(head: str) -> str:
    """A head without the marks of `#if` and without `public:`."""
    for sign in (IF, ELSE, ENDIF):
        if sign in head:
            head = head.replace(sign, " ")
    if ":" in head:
        head = re.sub(
            r"^(\s*)((?:public|private|protected)\s*(?:slots\s*)?:(?!:))", lambda m: m[1] + " " * len(m[2]), head
        )
    return head


def _even(code: str, begin: int, end: int) -> bool:
    """Whether the braces of a part match: none closes what was not opened in it."""
    depth = 0
    for m in re.finditer(r"[{}]", code[begin:end]):
        depth += 1 if m[0] == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def trailing(text: str) -> bool:
    """Whether this may stand between a parameter list and a body: `const noexcept -> T`, macros in capitals."""
    for m in TOKEN.finditer(text.partition("->")[0]):
        word = m[0]
        if word in _TRAILERS:
            continue
        if word == "(":  # noexcept(...), MACRO(...)
            return True
        if not (word.isupper() or word.startswith("__")):
            return False
    return True


def matching(text: str, at: int) -> int:
    """The offset of the bracket that closes the round one at `at`, or -1."""
    depth = 0
    for m in re.compile(r"[()]").finditer(text, at):
        depth += 1 if m[0] == "(" else -1
        if not depth:
            return m.start()
    return -1


def parameters(text: str) -> list[tuple[str, str]]:
    """[(type, name)] of a parameter list; the name is "" where there is none."""
    out = []
    for part in split(text):
        part = part.split("=")[0].strip()
        if not part or part == "void":
            continue
        m = re.search(r"([A-Za-z_]\w*)\s*(\[[^\]]*\]\s*)*$", part)
        name = m[1] if m and m.start() > 0 else ""
        out.append((part[: m.start()].strip() if m and name else part, name))
    return out


def split(text: str) -> list[str]:
    """Parts between the commas outside of all brackets. `<` counts as a bracket where it closes again."""
    out, depth, begin = [], 0, 0
    for m in re.finditer(r"->|<=|>=|[()\[\]{}<>,]", text):
        c = m[0]
        if c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth = max(0, depth - 1)
        elif c == "," and not depth:
            out.append(text[begin : m.start()])
            begin = m.end()
    out.append(text[begin:])
    return out


def declared(text: str) -> list[tuple[str, str]]:
    """[(name, type as text)] that a declaration without bodies declares: `float *a = nullptr, *b;`."""
    tokens = [(m[0], m.start()) for m in TOKEN.finditer(text)]
    return declarations(tokens)


def declarations(tokens: list[Token]) -> list[tuple[str, str]]:
    """[(name, type)] of a statement that is a declaration, else []."""
    at, n = 0, len(tokens)
    words: list[str] = []
    plain = False
    while at < n:
        text = tokens[at][0]
        if text in _SPECIFIERS:
            words.append(text)
            plain = plain or text in _NUMERIC
            at += 1
        else:
            break
    if at >= n:
        return []
    first = tokens[at][0]
    if not (first[0].isalpha() or first[0] in "_:") or first in _KEYWORDS:
        return []
    if plain and at + 1 < n and not (tokens[at + 1][0][0].isalpha() or tokens[at + 1][0][0] in "_*&"):
        pass  # `unsigned x`: the word is the name
    else:
        words.append(first)
        at += 1
        if at < n and tokens[at][0] == "<":
            depth = 0
            while at < n:
                text = tokens[at][0]
                depth += (text == "<") - (text == ">") - 2 * (text == ">>") - 3 * (text == ">>>")
                if text in (";", "{", "=", "&&", "||"):
                    return []
                words.append(text)
                at += 1
                if depth <= 0:
                    break
        while at < n and tokens[at][0].startswith("::"):
            words.append(tokens[at][0])
            at += 1
    out: list[tuple[str, str]] = []
    kind = " ".join(words)
    while at < n:
        stars = ""
        while at < n and tokens[at][0] in ("*", "&", "&&", "const", "__restrict__", "__restrict", "volatile"):
            stars += tokens[at][0]
            at += 1
        if at >= n:
            break
        name = tokens[at][0]
        if not (name[0].isalpha() or name[0] == "_") or "::" in name or name in _KEYWORDS:
            return out
        following = tokens[at + 1][0] if at + 1 < n else ";"
        if following not in ("=", ";", ",", "(", "{", "[", ":", ")"):
            return out
        if following == "[":
            stars += "[]"
        out.append((name, kind + " " + stars if stars else kind))
        depth = 0
        at += 1
        while at < n:
            text = tokens[at][0]
            if text in ("(", "[", "{"):
                depth += 1
            elif text in (")", "]", "}"):
                depth -= 1
            elif text == "," and not depth:
                break
            at += 1
        at += 1
    return out


def statements(function: Function, expand: Any = None) -> list[Stmt]:
    """The statements of a body:

    ("expr", tokens)   ("return", tokens)   ("throw", tokens)   ("break", tokens)   ("continue", tokens)
    ("goto", tokens)   ("label", tokens)   ("case", tokens)   ("block", [S])   ("if", tokens, [S], [S])
    ("pp", [[S]...], has else)   ("loop", tokens, [S], runs at least once)   ("switch", tokens, [S])
    ("try", [S], [[S]...])

    Tokens are (text, offset). `expand(tokens)` may replace uses of macros."""
    if function._statements is None:
        begin, end = function.body
        tokens: list[Token] = [(m[0], m.start()) for m in TOKEN.finditer(function.unit.code, begin, end)]
        if expand is not None:
            tokens = expand(tokens)
        if len(tokens) > MOST_TOKENS:
            raise Unreadable
        try:
            function._statements = read_statements(tokens)
        except Unreadable:  # branches of #if that only together with their #if make sense: the first ones
            function._statements = read_statements(first_branches(tokens))
    return function._statements


def first_branches(tokens: list[Token]) -> list[Token]:
    """The words without the marks of `#if` and without what stands behind `#else`."""
    out: list[Token] = []
    stack: list[bool] = []  # per #if: is its first branch over?
    for token in tokens:
        if token[0] == IF:
            stack.append(False)
        elif token[0] == ELSE:
            if stack:
                stack[-1] = True
        elif token[0] == ENDIF:
            if stack:
                stack.pop()
        elif True not in stack:
            out.append(token)
    return out


def read_statements(tokens: list[Token]) -> list[Stmt]:
    from .cpp_statements import Reader

    return Reader(tokens).all()
