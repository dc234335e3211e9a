"""The words of one C++ expression: which calls stand in it, and what happens to a variable that it mentions."""

from __future__ import annotations

import re

from torchvet import knowledge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..source.cpp import Token

CREATE: dict[str, tuple[str, str, str]] = knowledge.native("create")
DESTROY: dict[str, str] = knowledge.native("destroy")
RELEASES: dict[str, str] = knowledge.native("releases")
EXITS: frozenset[str] = frozenset(knowledge.native("exits"))
CALLS: tuple[str, ...] = tuple(knowledge.native("calls"))
KEEPERS: frozenset[str] = frozenset(knowledge.native("keepers"))
USERS: frozenset[str] = frozenset(knowledge.native("users"))

API = re.compile(
    r"^(?:cu(?:da|blas|dnn|sparse|solver|fft|rand)?|hip|nccl|miopen|nvrtc)[A-Z_]|^CUDA?_|^CU[A-Z]+_STATUS"
    r"|[Ee]rr(?:or)?(?:_t)?$|[Ss]tatus"
)
"""Words that say: this is about the status of the runtime."""
CASTS = frozenset(
    ("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "void", "std::move", "std::addressof")
)
_PREFIXES = frozenset(
    ("(", ",", "=", "return", "==", "!=", "&&", "||", "!", "?", ":", "{", "[", "<<", "<", ">", "+", "-", "*", "&", ";",
     "+=", "-=", "throw", "delete", "<<<", ">>>", "case")
)  # fmt: skip
_OPEN = {"(": ")", "[": "]", "{": "}"}


class Call:
    """`name` as written without blanks; `at` the index of its word, `open` and `close` of its brackets; `method`:
    something stands before it with `.` or `->`; `launch`: (begin, end) of what stands between <<< and >>>, or None;
    `template`: the words between < and >; `made`: it is `Type name(...)`, and this is the type."""

    __slots__ = ("args", "at", "close", "launch", "made", "method", "name", "open", "template")

    def __init__(self, name: str, at: int, open_at: int) -> None:
        self.name = name
        self.at = at
        self.open = open_at
        self.close = open_at
        self.args: list[tuple[int, int]] = []
        self.method = False
        self.launch: tuple[int, int] | None = None
        self.template: list[str] = []
        self.made = ""

    @property
    def last(self) -> str:
        return self.name.rpartition("::")[2]


class Frame:
    """What encloses a word: kind is "call", "paren", "index", "brace", "lambda" or "launch"."""

    __slots__ = ("argument", "begin", "call", "end", "kind", "parent")

    def __init__(self, kind: str, begin: int, parent: Frame | None, call: Call | None = None) -> None:
        self.kind = kind
        self.begin = begin
        self.end = begin
        self.parent = parent
        self.call = call
        self.argument = 0


def is_word(text: str) -> bool:
    return text[0].isalpha() or text[0] in "_:~"


def plain_name(text: str) -> str:
    """A name without the blanks around `::`."""
    return "".join(text.split()) if not text.isalnum() else text


class Words:
    """The words of an expression statement with what encloses each of them."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.texts = [t[0] for t in tokens]
        self.calls: list[Call] = []
        self.frames: list[Frame | None] = []
        self.lambdas: list[Frame] = []
        self._read()

    def _read(self) -> None:
        texts = self.texts
        frame: Frame | None = None
        pending: Call | None = None  # a launch whose arguments follow
        at, n = 0, len(texts)
        while at < n:
            text = texts[at]
            self.frames.append(frame)
            if text == "<<<":
                frame = Frame("launch", at, frame)
                pending = self._named(at)
                if pending is not None:
                    pending.launch = (at + 1, at + 1)
                frame.call = pending
            elif text == ">>>" and frame is not None and frame.kind == "launch":
                if frame.call is not None:
                    frame.call.launch = (frame.begin + 1, at)
                frame.end = at
                frame = frame.parent
            elif text in _OPEN:
                frame = self._open(at, text, frame, pending)
                pending = None
            elif text in (")", "]", "}"):
                if frame is not None:
                    frame.end = at
                    if frame.call is not None and frame.kind == "call":
                        frame.call.close = at
                        if at > frame.begin + 1:
                            begin = frame.call.args[-1][1] + 1 if frame.call.args else frame.begin + 1
                            frame.call.args.append((begin, at))
                    frame = frame.parent
            elif text == "," and frame is not None and frame.kind == "call" and frame.call is not None:
                begin = frame.call.args[-1][1] + 1 if frame.call.args else frame.begin + 1
                frame.call.args.append((begin, at))
                frame.argument += 1
            at += 1

    def _open(self, at: int, text: str, frame: Frame | None, pending: Call | None) -> Frame:
        texts = self.texts
        before = texts[at - 1] if at else ""
        if text == "(":
            if before == ">>>" and pending is None:
                launched = next((c for c in reversed(self.calls) if c.launch and c.launch[1] == at - 1), None)
                if launched is not None:
                    launched.open = at
                    return Frame("call", at, frame, launched)
            call = self._named(at)
            return Frame("call", at, frame, call) if call is not None else Frame("paren", at, frame)
        if text == "[":
            if before and (is_word(before) or before in (")", "]", '""', '"')) and before not in ("return", "case"):
                return Frame("index", at, frame)
            return Frame("paren", at, frame)
        if before in ("]", "mutable", "noexcept") or (before == ")" and self._lambda_before(at)):
            made = Frame("lambda", at, frame)
            self.lambdas.append(made)
            return made
        return Frame("brace", at, frame)

    def _lambda_before(self, at: int) -> bool:
        """Whether the `)` before the index closes the parameters of a lambda."""
        depth = 0
        for i in range(at - 1, -1, -1):
            text = self.texts[i]
            if text == ")":
                depth += 1
            elif text == "(":
                depth -= 1
                if not depth:
                    return i > 0 and self.texts[i - 1] == "]"
        return False

    def _named(self, at: int) -> Call | None:
        """The call whose bracket (or <<<) stands at an index: its name stands before, maybe with template words."""
        texts = self.texts
        i = at - 1
        template: list[str] = []
        if i >= 0 and texts[i] in (">", ">>", ">>>"):
            depth = 0
            for j in range(i, max(-1, i - 80), -1):
                text = texts[j]
                depth += (text == ">") + 3 * (text == ">>>") - (text == "<")
                if text in (";", "=", "&&", "||", "{", "}"):
                    return None
                if depth <= 0:
                    template = texts[j + 1 : i]
                    i = j - 1
                    break
            else:
                return None
        if i < 0 or not is_word(texts[i]):
            return None
        name = plain_name(texts[i])
        if name in ("return", "case", "throw", "else", "new", "delete", "and", "or", "not", "in", "do"):
            return None
        begin = i
        if name.startswith("::") and i > 0 and is_word(texts[i - 1]):
            begin, name = i - 1, texts[i - 1] + name
        call = Call(name, i, at)
        call.template = template
        before = texts[begin - 1] if begin else ""
        if before in (".", "->"):
            call.method = True
        elif before == ">" or (
            before and is_word(before) and before not in ("return", "throw", "else", "case", "new", "do")
        ):
            call.made = before if before != ">" else self._type_before(begin - 1)
            if before == ">":
                call.template = self._inside(begin - 1)
        self.calls.append(call)
        return call

    def _type_before(self, at: int) -> str:
        depth = 0
        for j in range(at, -1, -1):
            depth += (self.texts[j] == ">") - (self.texts[j] == "<")
            if depth <= 0:
                return plain_name(self.texts[j - 1]) if j else ""
        return ""

    def _inside(self, at: int) -> list[str]:
        depth = 0
        for j in range(at, -1, -1):
            depth += (self.texts[j] == ">") - (self.texts[j] == "<")
            if depth <= 0:
                return self.texts[j + 1 : at]
        return []

    # ------------------------------------------------------------------------------------------------- questions
    def argument(self, call: Call, index: int) -> list[str]:
        if index >= len(call.args):
            return []
        begin, end = call.args[index]
        return self.texts[begin:end]

    def mentions(self, name: str) -> Iterator[int]:
        """Indices of a variable: `name` that is no field of something else and not the name of a call."""
        for i, text in enumerate(self.texts):
            if text != name:
                continue
            before = self.texts[i - 1] if i else ""
            if before in (".", "->") and not (i > 1 and self.texts[i - 2] == "this"):
                continue
            following = self.texts[i + 1] if i + 1 < len(self.texts) else ""
            if following == "(" and before not in ("&", "*"):
                continue
            yield i

    def use(self, i: int, elements: bool) -> tuple[str, Call | None, int, bool]:
        """What happens to a variable at an index: (role, call, argument, by address). Roles: "argument" of a call that
        is not known to be harmless, "kept" (assigned, captured, put into braces), "target" of an assignment, "read".
        `elements`: the variable is an array of the resources, so that `x[i]` is one too."""
        texts, n = self.texts, len(self.texts)
        before = texts[i - 1] if i else ""
        if before in (".", "->"):  # this->x
            before = texts[i - 3] if i > 2 else ""
            i_begin = i - 2
        else:
            i_begin = i
        end = i + 1
        following = texts[end] if end < n else ""
        if following == "[":
            if not elements:
                return "read", None, 0, False
            depth = 0
            while end < n:
                depth += (texts[end] == "[") - (texts[end] == "]")
                end += 1
                if not depth:
                    break
            following = texts[end] if end < n else ""
        if following in (".", "->", "++", "--", "+=", "-="):
            return "read", None, 0, False
        unary = i_begin < 2 or texts[i_begin - 2] in _PREFIXES
        if before == "*" and unary:
            return "read", None, 0, False
        address = before == "&" and unary
        if following in ("==", "!=", "<", ">", "<=", ">=", "?", "&&", "||") or before in (
            "==",
            "!=",
            "!",
            "&&",
            "||",
            "<=",
            ">=",
        ):
            return "read", None, 0, False
        frame = self.frames[i]
        inner = i
        while frame is not None:
            if frame.kind == "index" or frame.kind == "launch":
                return "read", None, 0, address
            if frame.kind in ("brace", "lambda"):
                return "kept", None, 0, address
            call = frame.call
            if frame.kind == "call" and call is not None and call.name not in CASTS:
                return "argument", call, self.position(call, inner), address
            inner = frame.begin
            after = texts[frame.end + 1] if frame.end + 1 < n else ""
            if after in ("==", "!=", "->", ".", "[") and frame.kind == "paren":
                return "read", None, 0, address
            frame = frame.parent
        for j in range(inner):
            if texts[j] == "=" and self.frames[j] is None:
                return "kept", None, 0, address
        if following == "=":
            return "target", None, 0, address
        return "read", None, 0, address

    def position(self, call: Call, i: int) -> int:
        for k, (begin, end) in enumerate(call.args):
            if begin <= i < end:
                return k
        return len(call.args)

    def target(self, call: Call, how: str) -> tuple[str, str, bool] | None:
        """What a creating call writes: (variable, full path, element of it?), None where that is not a plain name.

        `how` is a position, or "ret" for the variable that the result is assigned to."""
        if how == "ret":
            return self.assigned(call.at)
        if how.startswith("="):
            words = self.argument(call, int(how[1:]))
            return ("=" + "".join(words), "".join(words), False) if words else None
        if how.startswith("&"):  # a parameter that is a reference
            return path_of(self.argument(call, int(how[1:])))
        words = self.argument(call, int(how))
        if words[1:] == [".", "data", "(", ")"] and is_word(words[0]):  # the elements of a vector
            return words[0], words[0], True
        return address_of(words)

    def assigned(self, at: int) -> tuple[str, str, bool] | None:
        """The variable that gets the value at an index: `x = f()`, `T *x = (T *)f()`."""
        frame = self.frames[at]
        while frame is not None:
            if frame.kind != "paren" and not (
                frame.kind == "call" and frame.call is not None and frame.call.name in CASTS
            ):
                return None
            at, frame = frame.begin, frame.parent
        for j in range(at - 1, 0, -1):
            if self.frames[j] is not None:
                continue
            text = self.texts[j]
            if text == "=":
                return path_of(last_operand(self.texts[:j]))
            if text in ("+", "?", ":", "&&", "||", "==", ".", "->"):
                return None
        return None


def last_operand(words: list[str]) -> list[str]:
    """`float * x` gives `x`, `this -> x` and `a . b [ i ]` all of it."""
    at = len(words)
    while at > 0:
        text = words[at - 1]
        if text == "]":
            depth = 0
            while at > 0:
                at -= 1
                depth += (words[at] == "]") - (words[at] == "[")
                if not depth:
                    break
            continue
        if is_word(text) and (at == len(words) or words[at] in (".", "->", "[")):
            at -= 1
            continue
        if text in (".", "->"):
            at -= 1
            continue
        break
    return words[at:]


def address_of(words: list[str]) -> tuple[str, str, bool] | None:
    """The variable in `&x`, `(void **)&x`, `reinterpret_cast<void **>(&this->x)`, `&x[i]`."""
    for i, text in enumerate(words):
        if text == "&" and (i == 0 or words[i - 1] in ("(", ")", ",", "*", ">")) and i + 1 < len(words):
            rest = words[i + 1 :]
            while rest and rest[0] == "(" and ")" in rest:  # &(x)
                rest = rest[1 : rest.index(")")] if rest[-1] != ")" or len(rest) < 3 else rest[1:]
                while rest and rest[-1] == ")":
                    rest = rest[:-1]
            out: list[str] = []
            depth = 0
            for word in rest:
                if word in ("(",) or (word == ")" and not depth):
                    break
                depth += (word == "[") - (word == "]")
                out.append(word)
            return path_of(out)
    return None


def path_of(words: list[str]) -> tuple[str, str, bool] | None:
    """(variable, path, element?) of `x`, `this->x`, `x[i]`, `a->b`; the variable of a field of another object is ""."""
    if words[:2] == ["this", "->"]:
        words = words[2:]
    if not words or not is_word(words[0]):
        return None
    rest = words[1:]
    if not rest:
        return words[0], words[0], False
    path = "".join(words)
    if rest[0] == "[" and rest[-1] == "]" and "." not in rest and "->" not in rest:
        return words[0], path, True
    return "", path, False
