"""From the words of a C++ function's body to its statements (see `cpp.statements`)."""

from __future__ import annotations

from .cpp import DEEPEST, ELSE, ENDIF, IF, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .cpp import Stmt, Token

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
_MARKS = (IF, ELSE, ENDIF)
_JUMPS = frozenset(("return", "throw", "break", "continue", "goto", "co_return"))


def closings(tokens: list[Token]) -> dict[int, int]:
    """{index of an opening bracket: index of the one that closes it}. Raises Unreadable when they do not match."""
    out: dict[int, int] = {}
    stack: list[int] = []
    for i, (text, _) in enumerate(tokens):
        if text in _OPEN:
            stack.append(i)
        elif text in _CLOSE:
            if not stack or _OPEN[tokens[stack[-1]][0]] != text:
                raise Unreadable
            out[stack.pop()] = i
    if stack:
        raise Unreadable
    return out


class Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.close = closings(tokens)
        self.at = 0
        self.depth = 0

    def all(self) -> list[Stmt]:
        out = self.block(len(self.tokens), False)
        if self.at < len(self.tokens):
            raise Unreadable
        return out

    def block(self, end: int, conditional: bool) -> list[Stmt]:
        """Statements up to the index `end`, or, inside `#if`, up to the mark that ends the branch."""
        out: list[Stmt] = []
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable
        while self.at < end:
            text = self.tokens[self.at][0]
            if text in (ELSE, ENDIF):
                if conditional:
                    break
                self.at += 1  # its #if stood inside an expression
                continue
            made = self.one(end)
            if made is not None:
                out.append(made)
        self.depth -= 1
        return out

    def one(self, end: int) -> Stmt | None:
        tokens = self.tokens
        text, _ = tokens[self.at]
        following = tokens[self.at + 1][0] if self.at + 1 < end else ""
        if text == ";":
            self.at += 1
            return None
        if text == IF:
            return self.conditional(end)
        if text == "{":
            closing = self.close[self.at]
            self.at += 1
            inside = self.block(closing, False)
            self.at = closing + 1
            return ("block", inside)
        if text == "if":
            return self.branch(end)
        if text in ("for", "while", "switch") and following == "(":
            closing = self.close[self.at + 1]
            head = tokens[self.at : closing + 1]
            self.at = closing + 1
            body = self.body(end)
            return ("switch", head, body) if text == "switch" else ("loop", head, body, False)
        if text == "do":
            head = tokens[self.at : self.at + 1]
            self.at += 1
            body = self.body(end)
            tail = self.expression(end) if self.at < end and tokens[self.at][0] == "while" else []
            return ("loop", head + tail, body, True)
        if text == "try":
            self.at += 1
            body = self.body(end)
            handlers = []
            while self.at < end and tokens[self.at][0] == "catch" and self.at + 1 < end:
                self.at = self.close.get(self.at + 1, self.at + 1) + 1
                handlers.append(self.body(end))
            return ("try", body, handlers)
        if text in _JUMPS:
            word = "return" if text == "co_return" else text
            return (word, self.expression(end))
        if text in ("case", "default"):
            begin = self.at
            while self.at < end and tokens[self.at][0] not in (":", ";", "{"):
                self.at += 1
            head = tokens[begin : self.at]
            if self.at < end and tokens[self.at][0] == ":":
                self.at += 1
            return ("case", head)
        if following == ":" and (text[0].isalpha() or text[0] == "_") and text not in ("public", "private"):
            self.at += 2
            return ("label", [tokens[self.at - 2]])
        if text == "else":
            raise Unreadable
        return self.plain(end)

    def conditional(self, end: int) -> Stmt:
        """The branches between `#if` and `#endif`."""
        branches: list[list[Stmt]] = []
        has_else = False
        self.at += 1
        while True:
            branches.append(self.block(end, True))
            if self.at >= end:
                raise Unreadable
            mark = self.tokens[self.at][0]
            self.at += 1
            if mark == ENDIF:
                break
            has_else = True
        return ("pp", branches, has_else)

    def branch(self, end: int) -> Stmt | None:
        tokens = self.tokens
        at = self.at + 1
        while at < end and tokens[at][0] in ("constexpr", "consteval"):
            at += 1
        if at >= end or tokens[at][0] != "(":
            return self.plain(end)
        closing = self.close[at]
        head = tokens[self.at : closing + 1]
        self.at = closing + 1
        then = self.body(end)
        mark = self.at
        while self.at < end and tokens[self.at][0] in _MARKS:
            self.at += 1
        if self.at < end and tokens[self.at][0] == "else":
            self.at += 1
            return ("if", head, then, self.body(end))
        self.at = mark
        return ("if", head, then, [])

    def body(self, end: int) -> list[Stmt]:
        """The statement that a head governs, as a list."""
        if self.at >= end:
            raise Unreadable
        while self.at < end and self.tokens[self.at][0] in _MARKS:
            self.at += 1  # `if (x) #ifdef ...`: all branches in a row
        if self.at >= end:
            raise Unreadable
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable
        made = self.one(end)
        self.depth -= 1
        if made is None:
            return []
        return made[1] if made[0] == "block" else [made]

    def expression(self, end: int) -> list[Token]:
        """Words up to the next `;` outside of brackets, without it."""
        tokens = self.tokens
        begin = self.at
        at = begin
        while at < end:
            text = tokens[at][0]
            if text == ";":
                break
            at = self.close[at] + 1 if text in _OPEN else at + 1
        self.at = at + 1
        return [t for t in tokens[begin : min(at, end)] if t[0] not in _MARKS]

    def plain(self, end: int) -> Stmt | None:
        """An expression or a declaration. A macro without `;` ends where its line's call ends: `CHECK_INPUT(x)` before
        a word that begins a statement; a macro or local function with a block of its own is an expression too."""
        tokens = self.tokens
        begin = self.at
        at = begin
        while at < end:
            text = tokens[at][0]
            if text == ";":
                break
            if text == "(" and at == begin + 1:
                closing = self.close[at]
                after = tokens[closing + 1][0] if closing + 1 < end else ""
                name = tokens[begin][0]
                if after and _begins_statement(after) and name.isupper():
                    self.at = closing + 1
                    return ("expr", tokens[begin : closing + 1])
                if after == "{" and name.isupper():  # a macro that opens a loop
                    self.at = closing + 1
                    return ("loop", tokens[begin : closing + 1], self.body(end), False)
            if text in _MARKS and at > begin and text == IF and tokens[at - 1][0] in (")", "}"):
                break
            if text in _OPEN:
                at = self.close[at] + 1
                if text == "{" and at < end and _begins_statement(tokens[at][0]) and _local_type(tokens, begin):
                    break
            else:
                at += 1
        found: list[Any] = [t for t in tokens[begin : min(at, end)] if t[0] not in _MARKS]
        self.at = at + 1 if at < end and tokens[at][0] == ";" else max(at, begin + 1)
        return ("expr", found) if found else None


def _begins_statement(text: str) -> bool:
    return text[0].isalpha() or text[0] in "_}" or text in (IF, ENDIF, ELSE)


def _local_type(tokens: list[Token], begin: int) -> bool:
    return tokens[begin][0] in ("struct", "class", "union", "enum", "template")
