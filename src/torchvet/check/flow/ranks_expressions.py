"""Values of expressions. Calls inside them leave items in the frame, in the order of evaluation."""

from __future__ import annotations

from ... import knowledge
from ..program.model import children, dotted
from . import ranks_agreement, ranks_batches, ranks_calls, ranks_loops, ranks_models, ranks_tables
from .ranks_values import (
    REDUCED,
    UNKNOWN,
    const,
    depends_on_rank,
    derived_local,
    is_local,
    leader_test,
    leaves,
    one_of,
    op,
    truth,
    varies,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value

MOST_ITEMS = 12
"""Displays of more items than this are not followed item by item."""


def evaluate(f: Frame, e: Expr) -> Value:
    return KINDS[e[0]](f, e)  # type: ignore[no-any-return]


def others(f: Frame, e: Expr) -> Value:
    for x in children(e):
        KINDS[x[0]](f, x)
    return UNKNOWN


def of_const(f: Frame, e: Expr) -> Value:
    return ("const", e[2])  # constants of a source are hashable


def of_name(f: Frame, e: Expr) -> Value:
    name = e[2]
    if f.outer is None:
        v = f.env.get(name)
        return v if v is not None and name not in f.declared else f.machine.outer_name(f, e)
    at: Frame | None = f
    while at is not None:
        if name not in at.declared:
            v = at.env.get(name)
            if v is not None:
                return v
        at = at.outer
    return f.machine.outer_name(f, e)


def of_attr(f: Frame, e: Expr) -> Value:
    at: Frame | None = f
    whole: str | None = ""
    while at is not None:
        if at.dotted:
            whole = whole or dotted(e)
            if whole is None:
                break
            v = at.env.get(whole)
            if v is not None:
                return v
        at = at.outer
    base = e[2]
    return attribute(f, KINDS[base[0]](f, base), e[3], e)


def attribute(f: Frame, base: Value, name: str, e: Expr) -> Value:
    """`base.name`; a property runs."""
    machine = f.machine
    kind = base[0]
    if kind == "ext":
        return external(f, knowledge.canonical(f"{base[1]}.{name}"), e)
    if kind == "module":
        return machine.member(f, base[1], name, e)
    if kind == "inst":
        method = machine.program.method(base[1], name)
        if method is not None:
            decorators = method.decorator_names()
            if "property" in decorators or "cached_property" in decorators:
                return ranks_calls.project(f, method, base, [], {}, e, name)
            return ("func", method, base)
        found = machine.field(base, name)
        return found if found is not None else by_name(f, base, name, e)
    if kind == "class":
        method = machine.program.method(base[1], name)
        if method is not None:
            return ("func", method, base if "classmethod" in method.decorator_names() else None)
        found = machine.field(("inst", base[1], ()), name)
        return found if found is not None else UNKNOWN
    if kind == "super":
        for c in machine.program.bases(base[1])[0]:
            if name in c.methods:
                return ("func", c.methods[name], base[2])
        outside = machine.program.bases(base[1])[1]
        return ("bound", ("extinst", outside[0], None), name) if outside else UNKNOWN
    if kind == "extinst":
        return external_attribute(f, base, name, e)
    if kind == "wrapped":
        if name == "module":
            return base[2]  # type: ignore[no-any-return]
        hinted = hint(f, name, e) if knowledge.identifier(name) is not None else None
        return hinted or ("bound", base, name)
    if kind == "op" and name == "module" and base[1] == "sel" and "wrapped" in (base[3][0], base[4][0]):
        return op("sel", base[2], attribute(f, base[3], name, e), attribute(f, base[4], name, e))
    if kind == "bar" and name == "n" and varies(base[2]):
        # a progress bar that is disabled counts nothing
        return op("sel", base[2], const(0), f.sym(e[1], "n"))
    if kind in ("list", "dict", "tuple", "const", "group", "bar", "loader", "set"):
        return ("bound", base, name)
    if base == REDUCED:
        return REDUCED
    if kind == "batch":
        return ranks_batches.attribute(base, name) or UNKNOWN
    return by_name(f, base, name, e)


def by_name(f: Frame, base: Value, name: str, e: Expr) -> Value:
    """An attribute of something unknown. Names of frameworks' own rank attributes are known; other names are hints."""
    known = rank_attribute(f, name, e)
    if known is not None:
        return known
    if knowledge.identifier(name) is not None:
        if base[0] == "sym" and base[1] is not None:
            assigned = f.machine.assigned_anywhere(f, name)
            if assigned is not None:
                return assigned
        hinted = hint(f, name, e)
        if hinted is not None:
            return hinted
    if base[0] == "sym":
        return ("bound", base if base[1] is not None else UNKNOWN, name)
    return ("bound", base, name) if is_local(base) or not varies(base) else UNKNOWN


def rank_attribute(f: Frame, name: str, e: Expr) -> Value | None:
    """`accelerator.is_main_process`, `trainer.is_global_zero`: names that only the tables' rank predicates carry."""
    known = _predicates.get(name)
    if known is None:
        known = _predicates[name] = is_predicate(name)
    if not known:
        return None
    if (e[0] == "attr" and "control" in str(e[2][-1]).lower()) or (
        e[0] == "call" and "control" in (dotted(e[2]) or "").lower()
    ):
        return None  # the trainer's control flags are the same on every rank
    return predicate(f, name, e, True)


_predicates: dict[str, bool] = {}


def is_predicate(name: str) -> bool:
    """Whether only methods and attributes of the tables that are rank predicates have this name."""
    rows = knowledge.methods(name)
    if "_" not in name or not rows or any(r.kind != "rank_predicate" for r in rows):
        return False
    # functions of modules: a call, not an attribute
    return not all(r.name.rpartition(".")[0].rpartition(".")[2][:1].islower() for r in rows)


def hint(f: Frame, name: str, e: Expr) -> Value | None:
    found = knowledge.identifier(name)
    if found is None or (e[0] == "attr" and "control" in str(e[2][-1]).lower()):
        return None
    if found[0] == "rank_source" or found[0] == "local_rank_source":
        return ("rank", axis_of(name), False, f.machine.origin(f, e, name))
    if found[0] == "rank_predicate":
        return predicate(f, name, e, False)
    return None


def predicate(f: Frame, name: str, e: Expr, sure: bool) -> Value:
    axis = "local" if "local" in name else "world"
    if "last" in name:
        return op("==", ("rank", axis, sure, f.machine.origin(f, e, name)), op("-", ("size", axis), const(1)))
    return leader_test(axis, sure, f.machine.origin(f, e, name))


def axis_of(name: str) -> Any:
    """The axis on which a name of a rank counts: `tp_rank`, `get_tensor_model_parallel_rank`, `local_rank`."""
    for word in ("local", "node"):
        if word in name:
            return word
    if "process_index" in name or "proc_id" in name or "process_id" in name:
        return "world"
    name = name.removeprefix("get_").removesuffix("_rank").removesuffix("_src")
    for word, axis in AXES:
        if name == word or name.startswith(word + "_"):
            return axis
    return "world"


AXES = (
    ("dp", "dp"), ("tp", "tp"), ("pp", "pp"), ("ep", "ep"), ("cp", "cp"), ("sp", "sp"), ("mp", "mp"),
    ("data_parallel", "dp"), ("tensor", "tp"), ("tensor_model_parallel", "tp"), ("pipeline", "pp"),
    ("pipeline_model_parallel", "pp"), ("expert", "ep"), ("context", "cp"), ("sequence", "sp"), ("model_parallel",
    "mp"),
    ("slice_parallel", "mp"), ("virtual_pipeline", "vpp"),
)  # fmt: skip


def external(f: Frame, q: str, e: Expr) -> Value:
    """A name outside the project, read (not called)."""
    row = knowledge.api(q)
    if row is not None and row.kind == "rank_predicate" and row.last == "rank_zero_only":
        return ("ext", q)
    return ("ext", q)


def external_attribute(f: Frame, base: Value, name: str, e: Expr) -> Value:
    row = knowledge.api(f"{base[1]}.{name}")
    if row is not None and row.kind in ranks_tables.VALUE_KINDS and base[1][-2:] != "()":
        return ranks_tables.value_of_row(f, row, e, [], {})
    if row is None:
        known = rank_attribute(f, name, e)
        if known is not None:
            return known
    return ("bound", base, name)


def of_sub(f: Frame, e: Expr) -> Value:
    base = evaluate(f, e[2])
    index = evaluate(f, e[3])
    if base[0] == "ext" and base[1] == "os.environ" and index[0] == "const":
        return ranks_tables.environment(f, index[1], e)
    own = ranks_loops.picked(f, base, index, e)
    if own is not None:
        return own
    if base[0] in ("list", "tuple") and index[0] == "const" and isinstance(index[1], int):
        return base[1][index[1]] if -len(base[1]) <= index[1] < len(base[1]) else UNKNOWN
    if base[0] == "dict" and index[0] == "const":
        for k, v in base[1]:
            if k == index[1]:
                return v  # type: ignore[no-any-return]
    if base == REDUCED or (base[0] == "list" and base[1] and all(x == REDUCED for x in base[1])):
        return REDUCED
    if ranks_models.is_graph(base):
        return ranks_models.graph_of(base)
    if base[0] == "batch":
        return ranks_batches.indexed(base, index)
    if base[0] == "local" and base[2] == "reduced":
        return base
    if e[3][0] == "slice":
        bounds = [evaluate(f, x) for x in e[3][2:5] if x]
        if any(varies(b) for b in bounds):
            # `files[rank::world]`: a share of this rank alone
            kind = "even" if ranks_loops.even_share(f, e[3], bounds) else "share"
            return ("local", (kind, f.module.path, e[1]), "share", f.machine.origin(f, e, "share"))
        return base if varies(base) else UNKNOWN
    if index[0] == "const" and isinstance(index[1], str) and base[0] in ("sym", "bound"):
        return by_name(f, base, index[1], e)
    return UNKNOWN


def of_bin(f: Frame, e: Expr) -> Value:
    a, b = evaluate(f, e[3]), evaluate(f, e[4])
    return combined(f, e[2], a, b, e)


def combined(f: Frame, name: str, a: Value, b: Value, e: Expr) -> Value:
    if ranks_models.is_graph(a) or ranks_models.is_graph(b):
        graph = ranks_models.graph_of(a if ranks_models.is_graph(a) else b)
        if name not in ("==", "!=", "is", "is not", "<", "<=", ">", ">=", "in", "not in"):
            return graph
        if len(graph) > 2 and name in ("==", "!="):
            return ("batch", graph[2], False)
        read = ranks_batches.of_output(f, e, graph) if name in ("<", "<=", ">", ">=") else UNKNOWN
        return ranks_batches.decision(f, read, e) if read != UNKNOWN else UNKNOWN
    if REDUCED in (a, b) and not varies(a) and not varies(b):
        return REDUCED
    if "batch" in (a[0], b[0]) and not varies(a) and not varies(b):
        return ranks_batches.compared(f, a, b, e) or UNKNOWN
    if name in ("is", "is not") and (is_local(a) or is_local(b)):
        return UNKNOWN
    if name in ("in", "not in", "==", "!=") and any(
        x[2] == "share" for x in (*leaves(a), *leaves(b)) if x[0] == "local"
    ):
        return UNKNOWN  # which share it is is no decision
    rest = ranks_loops.has_rest(a) or ranks_loops.has_rest(b)
    if rest and name in ("<", "<=", ">", ">="):
        return ranks_loops.own_share(f, e)  # `while i < n:` where one rank has more of them
    if is_local(a) or is_local(b):
        known = ranks_agreement.is_set(name, a, b) if name in ORDERS else None
        if known is not None:
            return known
        if depends_on_rank(a) or depends_on_rank(b):
            return UNKNOWN
        return derived_local(op(name, a, b), f.machine.origin(f, e, ""), "")
    if varies(a) or varies(b) or (a[0] == "const" and b[0] == "const") or "size" in (a[0], b[0]):
        return folded(op(name, a, b))
    if b == ("ext", "os.environ") and name in ("in", "not in") and a[0] == "const" and a[1] in LAUNCHED:
        return const(name == "in")  # what is checked is a distributed run
    if name in ("==", "!=", "is", "is not", "<", "<=", ">", ">=", "in", "not in"):
        return folded(op(name, a, b))
    if name in NUMERIC and f.by_some() and a[0] in COUNTABLE and b[0] in COUNTABLE:
        return op(name, a, b)
    return UNKNOWN


ORDERS = frozenset(("<", "<=", ">", ">="))
NUMERIC = frozenset(("+", "-", "*", "//", "%"))
COUNTABLE = frozenset(("const", "sym", "op", "size"))
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""What torchrun sets for every process."""


def folded(v: Value) -> Value:
    """An expression of constants is a constant."""
    if v[0] == "op" and all(x[0] == "const" for x in v[2:]):
        from .ranks_values import compute

        return compute(v[1], list(v[2:]))
    if v[0] == "op" and v[1] in ("is", "is not") and v[3] == ("const", None) and truth(v[2]) is True:
        return const(v[1] == "is not")
    if (
        v[0] == "op"
        and v[1] in ("==", "!=")
        and v[3][0] == "const"
        and v[2][0] in ("func", "closure", "class", "module")
    ):
        return const(v[1] == "!=")
    return v


def of_unary(f: Frame, e: Expr) -> Value:
    v = evaluate(f, e[3])
    if e[2] == "not":
        v = ranks_batches.asked(f, v, e[3])
        return op("not", v) if v != UNKNOWN else UNKNOWN
    return v if v == REDUCED or v[0] in ("graph", "batch") else UNKNOWN


def of_bool(f: Frame, e: Expr) -> Value:
    """`a and b()`: what stands right runs only when the left one is true."""
    name = e[2]
    values: list[Value] = []
    items = f.items
    depth: list[Any] = []
    for x in e[3]:
        v = ranks_batches.asked(f, evaluate(f, x), x)
        if v == UNKNOWN:
            v = f.sym(x[1], "bool")
        values.append(v)
        known = truth(v)
        if known is (name == "or"):
            break
        if x is not e[3][-1]:
            depth.append((f.items, v))
            f.items = []
    for outer, v in reversed(depth):
        if f.items:
            guard = v if name == "and" else op("not", v)
            outer.append(("if", guard, tuple(f.items), (), e[1], e[1]))
        f.items = outer
    f.items = items
    return op(name, *values)


def of_cmp(f: Frame, e: Expr) -> Value:
    operands = [KINDS[x[0]](f, x) for x in e[3]]
    if len(e[2]) == 1:
        note_comparison(f, e, operands)
        return combined(f, e[2][0], operands[0], operands[1], e)
    return op("and", *[combined(f, o, operands[i], operands[i + 1], e) for i, o in enumerate(e[2])])


def note_comparison(f: Frame, e: Expr, operands: list[Value]) -> None:
    """`dist.get_rank(group) == src`: the name holds a rank counted inside that group."""
    for one, other in ((0, 1), (1, 0)):
        leaf = operands[one]
        name = dotted(e[3][other])
        if leaf[0] == "rank" and isinstance(leaf[1], tuple) and leaf[1][0] == "group" and name is not None:
            f.machine.compared.add((id(f.function), name, leaf[1][1]))


def of_ifexp(f: Frame, e: Expr) -> Value:
    test = evaluate(f, e[2])
    known = truth(test)
    if known is not None:
        return evaluate(f, e[3] if known else e[4])
    guard = test if test != UNKNOWN else f.sym(e[1], "ifexp")
    then, then_items = f.beside(e[3], guard)
    other, other_items = f.beside(e[4], op("not", guard))
    if then_items or other_items:
        f.items.append(("if", guard, then_items, other_items, e[1], e[2][1]))
    return one_of(guard, then, other)


def of_list(f: Frame, e: Expr) -> Value:
    values = [KINDS[x[0]](f, x) for x in e[2]]
    if len(values) > MOST_ITEMS or any(x[0] == "star" for x in e[2]):
        return UNKNOWN
    return ("tuple" if e[0] == "tuple" else "list", tuple(values))


def of_dict(f: Frame, e: Expr) -> Value:
    pairs = []
    for k, v in zip(e[2], e[3]):
        if k is not None:
            evaluate(f, k)
        value = evaluate(f, v)
        if k is not None and k[0] == "const" and isinstance(k[2], (str, int)):
            pairs.append((k[2], value))
    return ("dict", tuple(pairs)) if len(pairs) <= MOST_ITEMS and len(pairs) == len(e[2]) else UNKNOWN


def of_lambda(f: Frame, e: Expr) -> Value:
    return f.machine.closure(e, f)


def of_comp(f: Frame, e: Expr) -> Value:
    """A comprehension is a loop; its names do not leave it."""
    items, env = f.items, f.env
    f.items, f.env = [], dict(env)
    iterated = UNKNOWN
    each = listed(f, e)
    if each is not None:
        f.items, f.env = items, env
        return each
    asked: list[Value] = []
    for number, (target, source, tests) in enumerate(e[4]):
        value = evaluate(f, source)
        if number == 0:
            iterated = value
            items.extend(f.items)
            f.items = []
        batch = ranks_batches.element(f, source, value, e[1])
        f.assign(target, batch or f.machine.element(f, value, ("for", e[1], target, source)), e[1])
        asked += [evaluate(f, t) for t in tests]
    made = evaluate(f, e[3])
    body = tuple(f.items)
    f.items, f.env = items, env
    if body:
        f.items.append(("loop", e[1], ranks_loops.trip(f, iterated, e[1]), body, (), e[1]))
    if iterated[0] == "batch":
        if e[2] == "dict":
            made = made[1][1] if made[0] == "tuple" and len(made[1]) == 2 else UNKNOWN
        if made[0] == "batch" or (made[:2] == ("op", "sel") and "batch" in (made[3][0], made[4][0])):
            return iterated  # `{k: v.to(device) for k, v in batch.items()}`
    if iterated == made == REDUCED and e[2] != "dict":
        return REDUCED
    return ranks_loops.kept(f, asked, e) or ranks_batches.collected(made) or UNKNOWN


def listed(f: Frame, e: Expr) -> Value | None:
    """`(int(os.environ[k]) for k in ("RANK", "WORLD_SIZE"))`, one by one; None for other comprehensions."""
    target, source, tests = e[4][0]
    plain = e[2] in ("gen", "list") and len(e[4]) == 1 and not tests and target[0] == "name"
    if not plain or source[0] not in ("tuple", "list") or not all(x[0] == "const" for x in source[2][: MOST_ITEMS + 1]):
        return None
    values: list[Value] = []
    for x in source[2] if len(source[2]) <= MOST_ITEMS else ():
        f.env[target[2]] = of_const(f, x)
        values.append(evaluate(f, e[3]))
    if f.items:
        f.items.clear()  # what runs collectives is a loop
        return None
    return ("list", tuple(values)) if values else None


def of_walrus(f: Frame, e: Expr) -> Value:
    v = evaluate(f, e[3])
    if v == UNKNOWN:
        v = f.sym(e[1])
    f.assign(e[2], v, e[1])
    return v


def of_await(f: Frame, e: Expr) -> Value:
    return evaluate(f, e[2]) if e[2] else UNKNOWN


def of_yield(f: Frame, e: Expr) -> Value:
    if e[2]:
        evaluate(f, e[2])
    f.items.append(("hole",))
    return UNKNOWN


def of_call(f: Frame, e: Expr) -> Value:
    return ranks_calls.call(f, e)


KINDS: dict[str, Any] = {
    "const": of_const, "name": of_name, "attr": of_attr, "sub": of_sub, "bin": of_bin, "unary": of_unary, "bool":
    of_bool,
    "cmp": of_cmp, "ifexp": of_ifexp, "tuple": of_list, "list": of_list, "set": of_list, "dict": of_dict,
    "lambda": of_lambda, "comp": of_comp, "walrus": of_walrus, "await": of_await, "yield": of_yield,
    "yieldfrom": of_yield, "call": of_call, "star": others, "slice": others, "fstr": others, "big": others,
}  # fmt: skip
__all__ = ["attribute", "axis_of", "evaluate", "hint", "predicate"]
