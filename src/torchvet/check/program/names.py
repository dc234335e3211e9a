"""What an expression denotes: aliases, imports, methods through bases, attributes assigned from constructors, partials,
simple factory returns.

The answer is flow-insensitive: all bindings of a name in its scope count, and where they disagree every one is given.
An empty answer means unknown. Rules must be silent on unknown.
"""

from __future__ import annotations

from ... import knowledge
from .model import expressions_of, walk_block, walk_expr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .model import Class, Expr, Function, Module, Stmt
    from .program import Program

    Entity = tuple[Any, ...]

MOST = 6
"""More possible meanings than this are no knowledge."""
DEPTH = 24
STARS = 40
"""A module with more star imports is a table of contents (transformers has one of 400): it is not searched."""
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
NONE: tuple[Any, ...] = ()


class Scope:
    """The names of one function (or of a module's own code): parameters, assignments, imports, definitions."""

    __slots__ = (
        "_above", "_bindings", "_busy", "_cache", "_outside", "declared", "function", "is_module", "module", "program",
    )  # fmt: skip

    def __init__(self, program: Program, module: Module, function: Function) -> None:
        self.program = program
        self.module = module
        self.function = function
        self.is_module: bool = function.name == "<module>"
        self._above: Scope | None = None
        self._bindings: dict[str, list[tuple[Any, ...]]] | None = None
        self._cache: dict[int, tuple[Expr, tuple[Entity, ...]]] = {}
        self._busy: set[Any] = set()
        self._outside: dict[str, list[Entity]] = {}
        """What the names of a module that it imports from outside the project denote."""
        self.declared: set[str] = set()

    @property
    def parent(self) -> Scope | None:
        """The scope in which a free name is looked up next; None for a module."""
        if self._above is None and not self.is_module:
            f = self.function
            if f.parent is not None:
                self._above = self.program.scope(f.parent)
            elif f.owner is not None and f.owner.parent is not None:
                self._above = self.program.scope(f.owner.parent)
            else:
                self._above = self.program.module_scope(self.module)
        return self._above

    def bindings(self) -> dict[str, list[tuple[Any, ...]]]:
        """{local name: [binding]}; a binding is ("value", E), ("element", E of what is iterated), ("import", dotted),
        ("from", module, name, level), ("def", Function), ("class", Class), ("param", parameter), ("enter", E),
        ("item", E, index), ("annotated", E) or ("opaque",)."""
        if self._bindings is None:
            out: dict[str, list[tuple[Any, ...]]] = {}
            self._bindings = out
            f = self.function
            if not self.is_module:
                for p in f.params:
                    out.setdefault(p[0], []).append(("param", p))
            body = self.program.body(f)
            statements = walk_block(body)
            for s in statements:
                if s[0] == "global" or s[0] == "nonlocal":
                    self.declared.update(s[2])
            walrus = self.program.has_walrus(self.module)
            for s in statements:
                self._bind(s, out)
                if walrus:
                    self._bind_walrus(s, out)
            for name in self.declared:
                out.pop(name, None)
        return self._bindings

    def _bind(self, s: Stmt, out: dict[str, list[tuple[Any, ...]]]) -> None:
        kind = s[0]
        if kind == "assign":
            for t in s[2]:
                bind_target(t, s[3], out)
        elif kind == "ann":
            if s[4]:
                bind_target(s[2], s[4], out)
            elif s[2][0] == "name":
                out.setdefault(s[2][2], []).append(("annotated", s[3]))
        elif kind == "aug":
            if s[3][0] == "name":
                out.setdefault(s[3][2], []).append(("opaque",))
        elif kind == "for":
            bind_target(s[2], s[3], out, "element")
        elif kind == "with":
            for context, target in s[2]:
                if target:
                    bind_target(target, context, out, "enter")
        elif kind == "try":
            for h in s[3]:
                if h[1]:
                    out.setdefault(h[1], []).append(("opaque",))
        elif kind == "match":
            for names, _, _ in s[3]:
                for n in names:
                    out.setdefault(n, []).append(("opaque",))
        elif kind == "import":
            for name, asname in s[2]:
                if asname:
                    out.setdefault(asname, []).append(("import", name))
                else:
                    out.setdefault(name.partition(".")[0], []).append(("import", name.partition(".")[0]))
        elif kind == "from":
            for name, asname in s[3]:
                if name != "*":
                    out.setdefault(asname or name, []).append(("from", s[2], name, s[4]))
        elif kind == "def":
            if not self.is_module:
                f = self.program.nested(self.function, s[1], s[2])
                out.setdefault(f.name, []).append(("def", f))
        elif kind == "class" and not self.is_module:
            c = self.module.class_at(s[1], s[2], None, self.function)
            out.setdefault(c.name, []).append(("class", c))

    def _bind_walrus(self, s: Stmt, out: dict[str, list[tuple[Any, ...]]]) -> None:
        if s[0] in ("expr", "if", "while", "assign", "return"):
            for e in expressions_of(s):
                for x in walk_expr(e):
                    if x[0] == "walrus":
                        bind_target(x[2], x[3], out)


def bind_target(t: Expr, value: Expr, out: dict[str, list[tuple[Any, ...]]], how: str = "value") -> None:
    if t[0] == "name":
        out.setdefault(t[2], []).append((how, value))
    elif t[0] in ("tuple", "list"):
        same = how == "value" and value[0] in ("tuple", "list") and len(value[2]) == len(t[2])
        for i, x in enumerate(t[2]):
            if same:
                bind_target(x, value[2][i], out)
            elif x[0] == "name":
                out.setdefault(x[2], []).append(("item", value, i) if how == "value" else ("opaque",))
            else:
                bind_target(x, value, out, "opaque")
    elif t[0] == "star":
        bind_target(t[2], value, out, "opaque")


# ---------------------------------------------------------------------------------------------------- the answer
def entities_of(e: Expr, scope: Scope, depth: int = 0) -> tuple[Entity, ...]:
    found: tuple[Entity, ...]
    make = EVALUATE.get(e[0])
    if make is None:
        return NONE
    key = id(e)
    known = scope._cache.get(key)
    if known is not None:
        return known[1]
    busy = scope._busy
    if depth > DEPTH or key in busy:
        return NONE
    busy.add(key)
    try:
        found = make(e, scope, depth + 1)
    finally:
        busy.discard(key)
    found = distinct(found) if len(found) > 1 else tuple(found)
    if found or not busy:  # an empty answer found inside a cycle may only be a cut one
        scope._cache[key] = (e, found)  # holding the expression keeps its id from being used again
    return found


def distinct(found: Any) -> tuple[Entity, ...]:
    out: list[Entity] = []
    for x in found:
        if x not in out:
            out.append(x)
            if len(out) > MOST:
                return NONE
    return tuple(out)


def of_name(e: Expr, scope: Scope, depth: int) -> Any:
    return lookup(e[2], scope, depth)


def lookup(name: str, scope: Scope, depth: int) -> Any:
    at: Scope | None = scope
    while at is not None:
        if at.is_module:
            return module_member(scope.program, at.module, name, depth) or (
                [("ext", "builtins." + name)] if name in BUILTINS and name not in at.module.names else NONE
            )
        known = at._bindings
        bound = (at.bindings() if known is None else known).get(name)
        if bound is not None:
            if name in at._busy:
                return NONE
            at._busy.add(name)
            try:
                if len(bound) == 1:
                    return of_binding(bound[0], at, depth)
                return [x for b in bound for x in of_binding(b, at, depth)]
            finally:
                at._busy.discard(name)
        at = at.parent
    return NONE


def of_binding(b: tuple[Any, ...], scope: Scope, depth: int) -> Any:
    kind = b[0]
    if kind == "value":
        return entities_of(b[1], scope, depth)
    if kind == "param":
        return of_param(b[1], scope, depth)
    if kind == "annotated":
        return instances_of(entities_of(b[1], scope, depth))
    if kind == "import":
        return imported(scope.program, scope.module, b[1], depth)
    if kind == "from":
        return imported_member(scope.program, scope.module, b[1], b[2], b[3], depth)
    if kind == "def":
        return [("func", b[1])]
    if kind == "class":
        return [("class", b[1])]
    if kind == "enter":
        return of_entered(b[1], scope, depth)
    if kind == "item":
        return of_item(b[1], b[2], scope, depth)
    if kind == "element" and b[1][0] in ("tuple", "list"):
        return [x for item in b[1][2] for x in entities_of(item, scope, depth)]
    return NONE


def of_param(p: tuple[Any, ...], scope: Scope, depth: int) -> Any:
    f = scope.function
    if f.owner is not None and f.params and f.params[0] is p and f.is_method:
        is_class = any(n == "classmethod" for n in f.decorator_names()) or f.name == "__new__"
        return [("class" if is_class else "inst", f.owner)]
    if p[3] is not None and p[1] in ("pos", "kw"):
        a = p[3]
        if a[0] == "const" and isinstance(a[2], str) and a[2].isidentifier():
            return instances_of(lookup(a[2], scope.parent or scope, depth))
        return instances_of(entities_of(annotated_class(a), scope.parent or scope, depth))
    return NONE


def annotated_class(a: Expr) -> Expr:
    """`Optional[X]`, `X | None`, `"X"` and `X` name the class X."""
    inner: Expr = a
    if (a[0] == "sub" and a[2][-1] == "Optional") or (a[0] == "bin" and a[2] == "|" and a[4][0] == "const"):
        inner = a[3]
    return inner


def instances_of(found: Any) -> Any:
    out = []
    for x in found:
        if x[0] == "class":
            out.append(("inst", x[1]))
        elif x[0] == "ext" and not x[1].startswith(("builtins.", "typing.")):
            out.append(("extinst", x[1]))
    return out


def of_entered(e: Expr, scope: Scope, depth: int) -> Any:
    """What `with e as x` binds: the object itself for most context managers."""
    out = []
    for x in entities_of(e, scope, depth):
        if x[0] == "inst":
            enter = scope.program.method(x[1], "__enter__")
            if enter is None or returns_self(enter, scope.program):
                out.append(x)
        elif x[0] == "extinst":
            out.append(x)
    return out


def returns_self(f: Function, program: Program) -> bool:
    return any(
        s[0] == "return" and s[2] and s[2][0] == "name" and f.params and s[2][2] == f.params[0][0]
        for s in walk_block(program.body(f))
    )


def of_item(value: Expr, index: int, scope: Scope, depth: int) -> Any:
    """One element of an unpacked call: of the tuple that a project function returns, or of `prepare`'s arguments."""
    if value[0] != "call":
        return NONE
    out: list[Entity] = []
    for f in call_targets(value, scope, depth):
        inner = scope.program.scope(f)
        for s in walk_block(scope.program.body(f)):
            if s[0] == "return" and s[2] and s[2][0] == "tuple" and index < len(s[2][2]):
                out += entities_of(s[2][2][index], inner, depth + 2)
    if not out and value[2][0] == "attr" and index < len(value[3]):
        for x in entities_of(value[2], scope, depth):
            if x[0] == "extmethod" and f"{x[1]}.{x[2]}" in knowledge.graph("returns_arguments"):
                out += entities_of(value[3][index], scope, depth)
    return out


def imported(program: Program, module: Module, dotted: str, depth: int) -> Any:
    path = program.find(module.path, dotted)
    if path is not None:
        target = program.module(path)
        return [("module", target)] if target else NONE
    if "." not in dotted and is_namespace(program, module, dotted):
        return [("namespace", module.path, dotted)]
    return [("ext", knowledge.canonical(dotted))]


def is_namespace(program: Program, module: Module, name: str) -> bool:
    """A folder without `__init__.py` on the import path, with code in it or one level below."""
    key = (module.path.rpartition("/")[0], name)
    known = program.namespaces.get(key)
    if known is None:
        known = program.namespaces[key] = holds_code(program, *key)
    return known


def holds_code(program: Program, importer: str, name: str) -> bool:
    from posixpath import join

    for place in program.search_path(importer):
        if name in program.entries(place):
            folder = join(place, name) if place else name
            inside = program.entries(folder)
            if any(x.endswith(".py") or "__init__.py" in program.entries(join(folder, x)) for x in inside):
                return True
            if any(y.endswith(".py") for x in inside if "." not in x for y in program.entries(join(folder, x))):
                return True
    return False


def imported_member(program: Program, module: Module, dotted: str, name: str, level: int, depth: int) -> Any:
    path = program.find(module.path, dotted, level)
    if path is not None:
        target = program.module(path)
        if target is None:
            return NONE
        if target is not module:
            found = module_member(program, target, name, depth + 1)
            if found:
                return found
    sub = program.find(module.path, f"{dotted}.{name}" if dotted else name, level)
    if sub is not None:
        target = program.module(sub)
        return [("module", target)] if target else NONE
    if path is not None or level:
        return NONE
    return [("ext", knowledge.canonical(f"{dotted}.{name}"))]


def module_member(program: Program, module: Module, name: str, depth: int) -> Any:
    if depth > DEPTH:
        return NONE
    scope = program.module_scope(module)
    known = scope._outside.get(name)
    if known is not None:
        return known
    bound = module.names.get(name)
    if bound is None:
        for dotted, level in module.stars if len(module.stars) <= STARS else ():
            path = program.find(module.path, dotted, level)
            text = (program.text(path) or "") if path else ""
            if path is None or not may_give(text, name):
                continue  # not parsed for nothing: a package may star-import hundreds of modules
            target = program.module(path)
            if target and target is not module:
                found = module_member(program, target, name, depth + 1)
                if found:
                    return found
        if not module.path.endswith("__init__.py"):
            return NONE
        path = program.find(module.path, name, 1)
        target = program.module(path) if path else None
        return [("module", target)] if target else NONE
    if bound[0] == "import" or bound[0] == "from":
        if bound[0] == "import":
            found = imported(program, module, bound[1], depth)
        else:
            found = imported_member(program, module, bound[1], bound[2], bound[3], depth)
        if len(found) == 1 and found[0][0] == "ext":
            scope._outside[name] = found
        return found
    if bound[0] == "def":
        return [("func", bound[1])]
    if bound[0] == "class":
        return [("class", bound[1])]
    all_bound = scope.bindings().get(name, ())
    if name in scope._busy:
        return NONE
    scope._busy.add(name)
    try:
        return [x for b in all_bound for x in of_binding(b, scope, depth)]
    finally:
        scope._busy.discard(name)


def may_give(text: str, name: str) -> bool:
    """Can `import *` from a module with this text bind the name? Its `__all__` decides where it has one."""
    if "import *" in text:
        return True
    if "\n__all__ = [" in text:
        return f'"{name}"' in text or f"'{name}'" in text
    return name in text


def of_attr(e: Expr, scope: Scope, depth: int) -> Any:
    out: list[Entity] = []
    for x in entities_of(e[2], scope, depth):
        out += member(x, e[3], scope, depth)
    return out


def member(x: Entity, name: str, scope: Scope, depth: int) -> Any:
    program = scope.program
    kind = x[0]
    if kind == "ext":
        return [("ext", knowledge.canonical(f"{x[1]}.{name}"))]
    if kind == "module":
        found = module_member(program, x[1], name, depth)
        if not found:
            path = program.find(x[1].path, name, 1) if x[1].path.endswith("__init__.py") else None
            target = program.module(path) if path else None
            return [("module", target)] if target else NONE
        return found
    if kind == "namespace":
        path = program.find(x[1], f"{x[2]}.{name}")
        target = program.module(path) if path else None
        return [("module", target)] if target else [("namespace", x[1], f"{x[2]}.{name}")]
    if kind in ("inst", "class", "super"):
        return class_member(x, name, scope, depth)
    if kind == "extinst":
        return [("extmethod", x[1], name)]
    return NONE


def class_member(x: Entity, name: str, scope: Scope, depth: int) -> Any:
    program = scope.program
    cls: Class = x[1]
    inside, outside = program.bases(cls)
    if kind_is_super := x[0] == "super":
        order = inside
    else:
        order = [cls, *inside]
    for c in order:
        f = c.methods.get(name)
        if f is not None:
            names = f.decorator_names()
            if "property" in names or "cached_property" in names:
                return [y for r in returned(f, program) for y in entities_of(r, program.scope(f), depth + 2)]
            return [("method", f, ("inst", cls) if x[0] == "super" else x)]
        if name in c.inner:
            pos, row = c.inner[name]
            return [("class", c.module.class_at(pos, row, c, None))]
    if not kind_is_super:
        values = program.attribute(cls, name)
        found = [y for v, f in values for y in entities_of(v, program.scope(f), depth + 1)]
        if found or values:
            return found
        for c in order:
            for s in c.block:
                if s[0] == "ann" and not s[4] and s[2][0] == "name" and s[2][2] == name:
                    return instances_of(entities_of(annotated_class(s[3]), program.module_scope(c.module), depth))
        for sub in program.subclasses(cls, name):
            found.append(("method", sub.methods[name], ("inst", sub)))
        if found:
            return found
    return [("extmethod", o, name) for o in outside[:1]]


def returned(f: Function, program: Program) -> list[Expr]:
    return [s[2] for s in walk_block(program.body(f)) if s[0] == "return" and s[2]]


def of_call(e: Expr, scope: Scope, depth: int) -> Any:
    callee = e[2]
    if callee[0] == "name" and callee[2] == "super" and scope.function.owner is not None:
        return [("super", scope.function.owner)]
    out: list[Entity] = []
    for x in entities_of(callee, scope, depth):
        out += result_of(x, e, scope, depth)
    return out


def result_of(x: Entity, call: Expr, scope: Scope, depth: int) -> Any:
    kind = x[0]
    program = scope.program
    if kind == "class":
        return [("inst", x[1])]
    if kind == "ext":
        if x[1] in knowledge.graph("partials"):
            if call[3]:
                inner = entities_of(call[3][0], scope, depth)
                return [("partial", i, call[3][1:], call[4]) for i in inner]
            return NONE
        if x[1] in knowledge.graph("returns_arguments") and call[3]:
            return entities_of(call[3][0], scope, depth)
        last = x[1].rpartition(".")[2]
        return [("extinst", x[1])] if last[:1].isupper() and not x[1].startswith("builtins.") else NONE
    if kind in ("func", "method"):
        f: Function = x[1]
        if f.is_generator:
            return NONE
        inner_scope = program.scope(f)
        out: list[Entity] = []
        for r in returned(f, program):
            if kind == "method" and r[0] == "name" and f.params and r[2] == f.params[0][0]:
                out.append(x[2] if x[2][0] != "class" else ("inst", x[2][1]))
                continue
            if r[0] == "name" and any(p[0] == r[2] for p in f.params):
                # returns its argument: follow what this call passes
                argument = program.bind(f, call).get(r[2])
                if argument is not None:
                    out += entities_of(argument, scope, depth)
                    bound = inner_scope.bindings().get(r[2], ())
                    out += [y for b in bound if b[0] == "value" for y in entities_of(b[1], inner_scope, depth + 2)]
                    continue
            out += entities_of(r, inner_scope, depth + 2)
        return out
    if kind == "partial":
        return result_of(x[1], call, scope, depth) if x[1] else NONE
    if kind == "extmethod":
        if x[2] in knowledge.graph("returns_self"):
            return entities_of(call[2][2], scope, depth) if call[2][0] == "attr" else [("extinst", x[1])]
        if f"{x[1]}.{x[2]}" in knowledge.graph("returns_arguments") and call[3]:
            return entities_of(call[3][0], scope, depth)
    return NONE


def of_const(e: Expr, scope: Scope, depth: int) -> Any:
    return [("const", e[2])] if e[2] is not None else NONE


def of_ifexp(e: Expr, scope: Scope, depth: int) -> Any:
    return (*entities_of(e[3], scope, depth), *entities_of(e[4], scope, depth))


def of_bool(e: Expr, scope: Scope, depth: int) -> Any:
    return [x for v in e[3] for x in entities_of(v, scope, depth)]


def of_inner(e: Expr, scope: Scope, depth: int) -> Any:
    return entities_of(e[2], scope, depth) if e[2] else NONE


def of_walrus(e: Expr, scope: Scope, depth: int) -> Any:
    return entities_of(e[3], scope, depth)


EVALUATE: dict[str, Any] = {
    "name": of_name, "attr": of_attr, "call": of_call, "const": of_const, "ifexp": of_ifexp, "bool": of_bool,
    "await": of_inner, "walrus": of_walrus,
}  # fmt: skip


def call_targets(call: Expr, scope: Scope, depth: int = 0) -> list[Function]:
    """Project functions that a call may run: the function, the method, `__init__` of a class, `__call__` or `forward`
    of an instance, the target of a partial."""
    out: list[Function] = []
    program = scope.program
    for x in entities_of(call[2], scope, depth):
        while x and x[0] == "partial":
            x = x[1]
        if not x:
            continue
        f: Function | None = None
        if x[0] in ("func", "method"):
            f = x[1]
        elif x[0] == "class":
            f = program.method(x[1], "__init__")
        elif x[0] == "inst":
            f = program.method(x[1], "__call__") or program.method(x[1], "forward")
        if f is not None and f not in out:
            out.append(f)
    return out
