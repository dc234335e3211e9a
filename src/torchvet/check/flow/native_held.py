"""What a path holds (`Held`), where it leaves with it (`Leak`), and questions about single conditions and arguments."""

from __future__ import annotations

import re

from .native_words import API, CREATE, DESTROY, Call, Words, is_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..source.cpp import Stmt, Token

    State = dict[str, "Held"]


class Held:
    """A resource: the variable that holds it, what made it, and where (offset of the creating word)."""

    __slots__ = ("call", "element", "family", "member", "name", "offset", "path", "rule", "static", "via")

    def __init__(self, name: str, path: str, family: str, rule: str, offset: int, call: str) -> None:
        self.name = name
        self.path = path
        self.family = family
        self.rule = rule
        self.offset = offset
        self.call = call
        self.element = False
        self.member = False
        self.static = False
        self.via = ""


class Leak:
    """`kind`: return, throw, break, continue, goto, scope (the variable goes), end (the function does)."""

    __slots__ = ("held", "kind", "name", "offset")

    def __init__(self, held: Held, kind: str, offset: int, name: str = "") -> None:
        self.held = held
        self.kind = kind
        self.offset = offset
        self.name = name


def tested(texts: list[str], i: int) -> bool:
    """Whether the variable at an index of a condition is itself tested: `if (p)`, `!p`, `p == nullptr`."""
    before = texts[i - 1] if i else "("
    following = texts[i + 1] if i + 1 < len(texts) else ")"
    if following not in (")", "&&", "||", "==", "!="):
        return False
    if before == "(":
        outer = texts[i - 2] if i > 1 else "if"
        return not is_word(outer) or outer in ("if", "while")
    return before in ("!", "&&", "||", "==", "!=")


def succeeds(texts: list[str]) -> bool:
    """Whether a condition about a status holds on success: `f() == cudaSuccess`, `!f()`, `status == 0`."""
    if "==" in texts:
        return any(t.lower().endswith("success") or t == "0" for t in texts)
    return "!" in texts


def leaves(block: list[Stmt]) -> bool:
    """Whether a branch ends by leaving."""
    if not block:
        return False
    last = block[-1]
    if last[0] in ("return", "throw", "goto", "break", "continue"):
        return True
    if last[0] == "block":
        return leaves(last[1])
    if last[0] == "expr" and last[1]:
        name = last[1][0][0]
        return name.rpartition("::")[2] in ("exit", "abort", "_exit", "terminate", "AT_ERROR", "assert", "Py_Exit") or (
            name in ("TORCH_CHECK", "TORCH_INTERNAL_ASSERT") and any(t[0] == "false" for t in last[1][:4])
        )
    return False


def hopeless(conditions: list[list[str]], constructs: bool) -> bool:
    """Whether the innermost condition is about a status of the runtime: then nothing works any more. Memory that a
    constructor does not get is another thing: its caller catches that and asks for less."""
    for texts in conditions[-1:]:
        made = constructs and any(is_memory(CREATE[n][0]) for t in texts if (n := t.rpartition("::")[2]) in CREATE)
        return not made and any(API.search(t) for t in texts)
    return False


def handed_back(words: Words, i: int) -> bool:
    """`return p`, `return cast(p)`: the value itself."""
    texts = words.texts
    following = texts[i + 1] if i + 1 < len(texts) else ""
    before = texts[i - 1] if i else ""
    return following not in ("[", ".", "->", "==", "!=", "?") and before not in ("*", "!", "==", "!=", ".")


def may_own(kind: str) -> bool:
    """Whether a variable of this type can be what a creating call fills: no tensor, vector element aside."""
    return "unique_ptr" not in kind and "shared_ptr" not in kind and not re.search(r"\bTensor\b", kind)


def both_memory(a: str, b: str) -> bool:
    return is_memory(a) and is_memory(b)


def is_memory(family: str) -> bool:
    if family in ("new", "new[]", "malloc"):
        return True
    return any(row[0] == family and row[1] == "memory" for row in CREATE.values())


def released_names(args: list[str]) -> list[str]:
    """The variables in the argument of a releasing call: `p`, `this->p`, `*p`, `(void *)p[i]`, `a.b` gives b."""
    out = []
    for i, text in enumerate(args):
        if is_word(text) and text not in (
            "this",
            "void",
            "float",
            "char",
            "int",
            "const",
            "static_cast",
            "reinterpret_cast",
        ):
            if i + 1 < len(args) and args[i + 1] in (".", "->") and text != "this":
                continue
            out.append(text)
    return out


def no_deleter(words: Words, call: Call, locals_: dict[str, str]) -> bool:
    """`from_blob(p, sizes, options)`: a view that frees nothing."""
    for begin, end in call.args[2:]:
        texts = words.texts[begin:end]
        if "[" in texts and "{" in texts:
            return False  # a lambda
        if len(texts) == 1 and is_word(texts[0]) and "ptions" not in texts[0] and "opt" not in texts[0]:
            return False
        if "bind" in texts or "deleter" in "".join(texts).lower():
            return False
    return True


def foreign_deleter(words: Words, call: Call, family: str) -> str:
    """The function by which the lambda of `shared_ptr<T>(p, [](T *q) { free(q); })` deletes, when it is of another
    allocator; "" else."""
    if len(call.args) != 2 or words.texts[call.args[1][0]] != "[":
        return ""
    found = {t for t in words.texts[slice(*call.args[1])] if t in DESTROY or t == "delete"}
    by = found.pop() if len(found) == 1 else ""
    other = "new" if by == "delete" else DESTROY.get(by, family)
    return by if other != family and is_memory(other) else ""


def by_reference(head: list[Token]) -> dict[str, str]:
    """{variable: what the loop goes over} of `for (auto &e : all)`."""
    texts = [t[0] for t in head]
    if ":" in texts and ";" not in texts and "&" in texts and len(texts) - texts.index(":") == 3:
        return {texts[texts.index(":") - 1]: texts[-2]}
    return {}


def after_label(text: str, label: str) -> str:
    """The text of a function after a label."""
    m = re.search(rf"\b{re.escape(label)}\s*:(?!:)", text) if label else None
    return text[m.end() :] if m else text


def join(states: list[State | None]) -> State | None:
    """What is held on all paths that meet."""
    live = [s for s in states if s is not None]
    if not live:
        return None
    out = dict(live[0])
    for other in live[1:]:
        for name in [n for n in out if n not in other]:
            del out[name]
    return out
