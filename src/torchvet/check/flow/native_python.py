"""Calls of the runtime from Python: ctypes (`lib.cudaMalloc(byref(p), n)`), cuda-python (`cudart.cudaMalloc(n)`)."""

from __future__ import annotations

import re

from ..program.model import Module, pack
from .native_words import CREATE, DESTROY, RELEASES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from ..program.program import Program
    from .native import Fault

LIBRARIES = re.compile(
    r"\bctypes\b|cuda\.bindings|cuda\s+import\s+(?:cudart|cuda|nvrtc|bindings)|\bcudart\b|\bhip\s+import\b|cupy_backends"
)
CREATING = re.compile(
    r"\.\s*(?:" + "|".join(sorted(n for n, row in CREATE.items() if row[1] != "host" and "::" not in n)) + r")\s*\("
)
NAMES = tuple(n for n, row in CREATE.items() if row[1] != "host" and "::" not in n)
HARMLESS = re.compile(
    r"(?:cuda|cublas|cudnn|nccl|hip|cu|nvrtc|hiprtc|cufft|curand|cusparse|cusolver(?:Dn|Sp)?)[A-Z]|(?:print|byref|len|int|float|c_void_p|cast|check\w*|ok|isinstance|hex|memset)$",
    re.IGNORECASE,
)
"""Functions that use a pointer and keep nothing."""
PARTS = re.compile(r"(?:cu|hip)(?:Module|Library)Get")
"""Functions that give a part of a loaded module: a kernel is valid only while its module is loaded."""
CONVERSIONS = ("int", "c_void_p", "c_uint64", "c_size_t", "cast", "UnownedMemory", "c_ulonglong", "c_longlong")
ADDRESSES = ("byref", "pointer", "addressof")
KEPT_UNTIL = ("finalize", "register", "callback", "push", "enter_context")
"""Functions of weakref, atexit and ExitStack that call back later."""
RULES = {"memory": "allocation-not-freed", "event": "event-or-stream-leaked"}


class Calls:
    def __init__(self, program: Program) -> None:
        self.program = program

    def faults(self) -> Iterator[Fault]:
        for path in sorted(self.program.modules):
            text = self.program.text(path)
            if text is not None and any(n in text for n in NAMES) and LIBRARIES.search(text) and CREATING.search(text):
                yield from self._of(path, text)

    def _of(self, path: str, text: str) -> Iterator[Fault]:
        import ast

        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        module = self.program.modules.get(path) or Module(path, (), frozenset())
        for scope, cls in scopes(tree):
            for call, statement in creating(scope):
                assert isinstance(call.func, ast.Attribute)
                name = call.func.attr
                family, rule, _ = CREATE[name]
                target = self.target(call, statement)
                if target is None:
                    continue
                where = cls if target.startswith("self.") else scope
                if where is None or target == "" or released(where, target, family):
                    continue
                if CREATE[name][2].startswith("=") and unlocked_elsewhere(tree):
                    continue
                if not target.startswith("self."):
                    parts = parts_of(scope, target) if "Load" in name else []
                    if any(handed_over(scope, x, call) for x in (target, *parts)):
                        continue
                if target.startswith("self.") and self.used_outside(tree, cls, target, family):
                    continue
                from .native import Fault

                pos = pack(call.lineno, call.col_offset, call.end_lineno or call.lineno, call.end_col_offset or 0)
                words = {"name": target, "call": name, "free": release_of(name, family), "family": family}
                words["cls"] = cls.name if cls is not None else ""
                kind = "member" if target.startswith("self.") else "local"
                severity = "warning" if rule == "event" and kind == "member" else "error"  # small, one for each object
                yield Fault(RULES.get(rule, "handle-not-destroyed"), module, pos, kind, severity, words)

    def target(self, call: ast.Call, statement: ast.AST) -> str | None:
        """The name that holds the resource: `byref(x)` of ctypes, else what the statement assigns; None: unknown."""
        import ast

        how = CREATE[call.func.attr][2] if isinstance(call.func, ast.Attribute) else ""
        if how.startswith("="):  # what is locked is what the address is of; the call gives a status
            at = int(how[1:])
            return holder(call.args[at]) if at < len(call.args) else None
        for a in call.args[:1]:
            if isinstance(a, ast.Call) and ast.unparse(a.func).rpartition(".")[2] in ADDRESSES and a.args:
                return plain(a.args[0])
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            t = statement.targets[0]
            if isinstance(t, ast.Tuple):
                return plain(t.elts[-1]) if len(t.elts) == 2 else None
            return plain(t)
        return None

    def used_outside(self, tree: ast.AST, cls: ast.ClassDef | None, target: str, family: str) -> bool:
        """Whether something outside of the class releases the attribute."""
        import ast

        attribute = target.partition(".")[2]
        frees = {n for n, f in DESTROY.items() if f == family}
        other = re.compile(rf"(?<!\bself)\.{re.escape(attribute)}\b")
        return any(
            other.search(ast.unparse(a)) is not None
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in frees
            for a in node.args
        )


def scopes(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.ClassDef | None]]:
    """Functions with the class around them."""
    import ast

    todo: list[tuple[ast.AST, ast.ClassDef | None]] = [(tree, None)]
    while todo:
        node, cls = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield child, cls
                todo.append((child, cls))
            else:
                todo.append((child, child if isinstance(child, ast.ClassDef) else cls))


def creating(scope: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """The creating calls of a function with their statements; nested functions have their own turn."""
    import ast

    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        simple = isinstance(node, (ast.Assign, ast.Expr, ast.AnnAssign, ast.Assert))
        tested = node.test if isinstance(node, (ast.If, ast.While)) else None
        if simple or tested is not None:
            for inner in ast.walk(node if tested is None else tested):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                    row = CREATE.get(inner.func.attr)
                    if row is not None and row[1] != "host":
                        yield inner, node
        if not simple:
            todo += list(ast.iter_child_nodes(node))


def plain(node: ast.AST) -> str | None:
    import ast

    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return None


def holder(node: ast.AST) -> str | None:
    """The name of the object whose address an expression gives: `c_void_p(t.data_ptr())`, `x.ctypes.data`."""
    import ast

    while plain(node) is None:
        if isinstance(node, ast.Call):
            if called(node) in (*CONVERSIONS, *ADDRESSES) and node.args:
                node = node.args[0]
            elif isinstance(node.func, ast.Attribute) and not node.args:
                node = node.func.value
            else:
                return None
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return None
    return plain(node)


def unlocked_elsewhere(tree: ast.AST) -> bool:
    """Whether a function that locks no pages itself unlocks some."""
    import ast

    for scope, _ in scopes(tree):
        names = {x.attr for x in ast.walk(scope) if isinstance(x, ast.Attribute)}
        if any("HostUnregister" in n for n in names) and not any("HostRegister" in n for n in names):
            return True
    return False


def released(where: ast.AST, target: str, family: str) -> bool:
    """Whether a releasing call of the family names the target."""
    import ast

    for node in ast.walk(where):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and DESTROY.get(node.func.attr):
            if any(_names(a, target) for a in node.args):
                return True
        elif isinstance(node, ast.Call) and called(node) in (
            "finalize",
            "register",
            "callback",
            "push",
            "enter_context",
        ):
            if any(_names(a, target) for a in node.args):  # weakref, atexit, ExitStack
                return True
        # handed as a callback: weakref.finalize(self, lib.cudaFree, p)
        elif (
            isinstance(node, ast.Attribute) and DESTROY.get(node.attr) == family and not isinstance(node.ctx, ast.Store)
        ):
            parent_call = any(isinstance(x, ast.Call) and node in x.args for x in ast.walk(where))
            if parent_call:
                return True
    return False


def parts_of(scope: ast.AST, target: str) -> list[str]:
    """Names of what is taken out of a loaded module, and lives as long as it."""
    import ast

    out = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and PARTS.match(called(node.value)):
            t = node.targets[0]
            name = plain(t.elts[-1] if isinstance(t, ast.Tuple) and t.elts else t)
            if name is not None and any(_is(a, target) for a in node.value.args):
                out.append(name)
    return out


def handed_over(scope: ast.AST, target: str, creation: ast.Call) -> bool:
    """Whether a local resource leaves the function: returned, yielded, stored, or given to something unknown."""
    import ast

    inside = {id(x) for x in ast.walk(creation)}
    for node in ast.walk(scope):
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Assign)):
            if node.value is not None and _direct(node.value, target):
                return True
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            if target in node.names:
                return True
        elif isinstance(node, ast.Call):
            if id(node) in inside or _inside(node, creation) or HARMLESS.match(called(node)):
                continue
            if any(_direct(a, target) for a in [*node.args, *(k.value for k in node.keywords)]):
                return True
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)) and node is not scope and _names(node, target):
            return True
    return False


def called(node: ast.Call) -> str:
    import ast

    f = node.func
    return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""


def _direct(node: ast.AST, target: str) -> bool:
    """Whether the target stands in an expression outside of the calls in it."""
    import ast

    if isinstance(node, ast.Call):
        return called(node) in CONVERSIONS and any(_direct(a, target) for a in node.args)
    if _is(node, target):
        return True
    return any(_direct(child, target) for child in ast.iter_child_nodes(node))


def _inside(node: ast.AST, inner: ast.AST) -> bool:
    import ast

    return any(x is inner for x in ast.walk(node))


def _names(node: ast.AST, target: str) -> bool:
    import ast

    return any(_is(x, target) for x in ast.walk(node))


def _is(x: ast.AST, target: str) -> bool:
    import ast

    return (isinstance(x, ast.Name) and x.id == target) or (
        isinstance(x, ast.Attribute) and isinstance(x.value, ast.Name) and f"{x.value.id}.{x.attr}" == target
    )


def release_of(create: str, family: str) -> str:
    guess = create.replace("Create", "Destroy").removesuffix("WithFlags").removesuffix("WithPriority")
    return guess if guess in DESTROY else RELEASES[family]
