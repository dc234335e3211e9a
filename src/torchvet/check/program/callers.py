"""Which calls can run a function, told by text and names before anything is resolved: most calls of a common name
(`train`, `update`) are of something else."""

from __future__ import annotations

NO_USE, OWN_USE, USE = 0, 1, 2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Expr, Function
    from .names import Scope


def may_mean(function: Function, call: Expr, scope: Scope) -> bool:
    """Can a call of this name run the function, before anything is resolved: `model.train()` of a local value is no
    call of a module's function (unless the file puts functions into attributes of that name), `self.m()` in a class
    that has its own m none of another's m."""
    base = call[2][2] if call[2][0] == "attr" else None
    if base is None or base[0] != "name":
        return True
    caller = scope.function
    own = caller.owner
    if own is not None and caller.params and base[2] == caller.params[0][0]:
        mine = own.methods.get(function.name)
        return mine is None or mine is function
    if function.owner is not None or function.parent is not None:
        return True
    at: Scope | None = scope
    while at is not None:
        bound = at.bindings().get(base[2])
        if bound is not None:
            if any(b[0] in ("import", "from", "class", "def") for b in bound):
                return True
            return f".{function.name} = " in (scope.program.text(scope.module.path) or "")
        at = at.parent
    return True


def called_names(text: str) -> frozenset[str]:
    """All names before an opening bracket: ten times as fast when the text is read backwards, from the brackets on."""
    from re import findall

    return frozenset([found[:0:-1] for found in findall(r"\(\w+", text[::-1])])


def call_at(text: str, name: str, start: int) -> int:
    """Where `name(` stands from `start` on as a whole word and is not being defined; -1: nowhere."""
    word = name + "("
    at = text.find(word, start)
    while at >= 0:
        before = text[at - 1 : at]
        if not (before.isalnum() or before == "_" or text.endswith(("def ", "class "), 0, at)):
            return at
        at = text.find(word, at + 1)
    return -1


def use_of(text: str, name: str) -> int:
    """Whether a file calls something of this name; OWN_USE: by the plain name only, and has a function so named."""
    if call_at(text, name, 0) < 0:
        return NO_USE
    return OWN_USE if f"\ndef {name}(" in text and "." + name not in text else USE


def callee_name(call: Expr) -> str:
    """The last name of what is called: `a.b.c()` gives "c"."""
    f = call[2]
    return f[-1] if f[0] in ("name", "attr") else ""
