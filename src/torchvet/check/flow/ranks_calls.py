"""Calls: project functions are followed, calls that the tables know become collectives or values, the rest does nothing."""

from __future__ import annotations

from re import compile

from ... import knowledge
from ..program.model import Function, dotted, walk_expr
from . import ranks_expressions, ranks_models
from .ranks_values import (
    NONE,
    REDUCED,
    TRUE,
    UNKNOWN,
    const,
    depends_on_rank,
    derived_local,
    is_local,
    op,
    parts,
    truth,
    varies,
)
from .traces import Op, Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value
    from .traces import Items

COLLECTIVE_KINDS = frozenset(("collective", "method_collective", "group_create", "init"))
VALUE_KINDS = frozenset(
    ("rank_source", "local_rank_source", "rank_predicate", "uniform_source", "group_source", "rank_local_data_source")
)
PASSED = frozenset(
    "int bool float str abs round list tuple sorted reversed iter enumerate zip set dict len max min sum any all next".split()
)
"""Builtins whose result is as uniform or as local as what they are given."""
WORDS = compile(r"[A-Za-z_]\w*")


def call(f: Frame, e: Expr) -> Value:
    func = e[2]
    if func[0] == "name" and func[2] == "super" and f.function.owner is not None:
        return ("super", f.function.owner, f.receiver or ("inst", f.function.owner, ()))
    callee = ranks_expressions.evaluate(f, func)
    args, keywords, whole = arguments(f, e)
    if callee[0] in ("sym", "bound") and func[0] in ("name", "attr"):
        denoted = f.machine.denoted(func, f.scope)
        if denoted is not None and denoted[0] != "const":
            callee = denoted
    if not whole:
        args = [*args, UNKNOWN]
    result = dispatch(f, callee, args, keywords, e)
    return ranks_models.follows(f, callee, args, e) if result == UNKNOWN else result


def arguments(f: Frame, e: Expr) -> tuple[list[Value], dict[str, Value], bool]:
    """(positional, by keyword, whether all of them are known one by one)."""
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    whole = True
    for a in e[3]:
        if a[0] == "star":
            v = ranks_expressions.evaluate(f, a[2])
            if v[0] == "packed":
                args += v[1]
                keywords.update(v[2])
            elif v[0] in ("list", "tuple"):
                args += v[1]
            else:
                whole = False
        else:
            args.append(ranks_expressions.evaluate(f, a))
    for name, x in e[4]:
        v = ranks_expressions.evaluate(f, x)
        if name is not None:
            keywords[name] = v
        elif v[0] == "packed":
            keywords.update(v[2])
        elif v[0] == "dict":
            keywords.update((k, y) for k, y in v[1] if isinstance(k, str))
    return args, keywords, whole


def dispatch(f: Frame, callee: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    kind = callee[0]
    machine = f.machine
    if kind == "func":
        return project(f, callee[1], callee[2], args, keywords, e, callee[1].name)
    if kind == "class":
        return construct(f, callee[1], args, keywords, e)
    if kind == "closure":
        return machine.run_closure(f, callee, args, keywords, e)
    if kind == "ext":
        return outside(f, callee[1], None, args, keywords, e)
    if kind == "bound":
        base, name = callee[1], callee[2]
        if base[0] == "extinst":
            return outside(f, f"{base[1]}.{name}", base, args, keywords, e)
        if base[0] == "wrapped":
            return ranks_models.method(f, base, name, args, keywords, e)
        return unknown_method(f, base, name, args, keywords, e)
    if kind == "wrapped":
        return ranks_models.forward(f, callee, args, keywords, e)
    if kind == "inst":
        for name in ("__call__", "forward"):
            method = machine.program.method(callee[1], name)
            if method is not None:
                return project(f, method, callee, args, keywords, e, f"{callee[1].name}.{name}")
        return UNKNOWN
    if kind == "extinst":
        return ranks_models.call_instance(f, callee, args, keywords, e)
    if kind == "raw":
        function = callee[1]
        receiver = args[0] if args and function.is_method else None
        return followed(f, function, receiver, args[1:] if receiver is not None else args, keywords, e, function.name)
    if kind == "partial":
        return dispatch(f, callee[1], [*callee[2], *args], {**dict(callee[3]), **keywords}, e)
    if kind == "op" and callee[1] == "sel" and "wrapped" in (callee[3][0], callee[4][0]):
        # `DDP(net) if distributed else net`, `if hasattr(net, "module"): net = net.module`: the first is what happens
        return dispatch(f, callee[3], args, keywords, e)
    if kind == "op" and callee[1] == "sel":
        outer = f.items
        f.items = []
        then = dispatch(f, callee[3], args, keywords, e)
        then_items = tuple(f.items)
        f.items = []
        other = dispatch(f, callee[4], args, keywords, e)
        other_items = tuple(f.items)
        f.items = outer
        if then_items or other_items:
            f.items.append(("if", callee[2], then_items, other_items, e[1], e[1]))
        return op("sel", callee[2], then, other)
    if callee == REDUCED:
        return REDUCED
    if e[2][0] == "name":
        return hinted_call(f, e[2][2], e)
    return UNKNOWN


# ------------------------------------------------------------------------------------------- project functions
def project(
    f: Frame,
    function: Function,
    receiver: Value | None,
    args: list[Value],
    keywords: dict[str, Value],
    e: Expr,
    label: str,
) -> Value:
    """Follows a call of a project function: its trace becomes an item, its result the value."""
    machine = f.machine
    wrapper = machine.wrapper(function)
    if wrapper is not None:
        first = [receiver] if receiver is not None and function.is_method else []
        return (
            dispatch(f, wrapper, [*first, *args], keywords, e)
            if wrapper[0] != "guarded"
            else guarded(f, wrapper, function, receiver, args, keywords, e, label)
        )
    return followed(f, function, receiver, args, keywords, e, label)


def guarded(
    f: Frame,
    wrapper: Value,
    function: Function,
    receiver: Value | None,
    args: list[Value],
    keywords: dict[str, Value],
    e: Expr,
    label: str,
) -> Value:
    """A function under `@rank_zero_only` and its like runs on some ranks and gives None on the others."""
    outer = f.items
    f.items = []
    value = followed(f, function, receiver, args, keywords, e, label)
    items = tuple(f.items)
    f.items = outer
    if items:
        f.items.append(("if", wrapper[1], items, (), e[1], e[1]))
    return op("sel", wrapper[1], value, NONE)


def followed(
    f: Frame,
    function: Function,
    receiver: Value | None,
    args: list[Value],
    keywords: dict[str, Value],
    e: Expr,
    label: str,
) -> Value:
    machine = f.machine
    bound = machine.bound(f, function, receiver, args, keywords)
    trace = machine.called(function, receiver, bound, None)
    if trace is None:
        return ranks_models.follows(f, UNKNOWN, args, e)
    if trace.matters or trace.busy:
        f.items.append(("call", trace, e[1], label))
    f.called_elsewhere()
    for name in trace.outs:
        argument = machine.argument(function, receiver, name, e)
        whole = dotted(argument) if argument is not None else None
        if whole:
            f.put(whole, REDUCED)
    return machine.substituted(trace.value, function, bound)


def construct(f: Frame, cls: Any, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    machine = f.machine
    init = machine.program.method(cls, "__init__")
    made: Value = ("inst", cls, ())
    if init is not None:
        bound = machine.bound(f, init, made, args, keywords)
        trace = machine.called(init, made, bound, None)
        if trace is not None:
            if trace.matters:
                f.items.append(("call", trace, e[1], cls.name))
            return ("inst", cls, machine.fields_after(trace))
        return made
    names = machine.dataclass_fields(cls)
    if names:
        values = {**dict(zip(names, args)), **{k: v for k, v in keywords.items() if k in names}}
        return ("inst", cls, tuple([(k, v) for k, v in values.items() if machine.interesting(v)]))
    return made


# ---------------------------------------------------------------------------------------- outside the project
def outside(f: Frame, q: str, base: Value | None, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """A call of a function or method that is not the project's."""
    row = knowledge.api(q)
    if row is not None:
        kind = row.kind
        if kind in COLLECTIVE_KINDS:
            return collective(f, row, args, keywords, e, not row.inferred, base)
        if kind in VALUE_KINDS:
            return value_of_row(f, row, e, args, keywords)
        if kind in ("wraps_model", "unwrap", "forward_collective", "backward_collective"):
            return ranks_models.wrap(f, row, base, args, keywords, e)
        if kind == "local_exit":
            return leave(f, args, e)
        if kind == "higher_order":
            return args[0] if args and q == "torch.compile" else UNKNOWN
    if q.startswith("torch.distributed.is_"):
        return TRUE
    if q in ("os.environ.get", "os.getenv") and args and args[0][0] == "const":
        return environment(f, args[0][1], e)
    if q.startswith("builtins."):
        return builtin(f, q[9:], args, keywords, e)
    if q in knowledge.graph("partials") and args:
        return ("partial", args[0], tuple(args[1:]), tuple(keywords.items()))
    if base is None:
        last = q.rpartition(".")[2]
        if last[:1].isupper():
            if q.startswith("torch.nn."):
                return ("extinst", q, ranks_models.made_module(q, args))
            return ("extinst", q, keywords.get("sync_on_compute") == const(False) or unsynchronised(args) or None)
        return hinted_call(f, last, e)
    if args == [] and ranks_expressions.rank_attribute(f, q.rpartition(".")[2], e) is not None:
        return ranks_expressions.rank_attribute(f, q.rpartition(".")[2], e) or UNKNOWN
    name = q.rpartition(".")[2]
    if base[1].startswith("torch.nn.") and name in knowledge.graph("returns_self"):
        return base
    if row is None:
        return unknown_method(f, base, name, args, keywords, e)
    return UNKNOWN


def unsynchronised(args: list[Value]) -> bool:
    """`MetricCollection({"a": MeanMetric(sync_on_compute=False)})`: nothing in it communicates."""
    inner = [x for a in args for x in parts(a)]
    return bool(inner) and all(x[0] == "extinst" and x[2] is True for x in inner)


def hinted_call(f: Frame, name: str, e: Expr) -> Value:
    """A function that is not found: `get_rank()` and `is_main_process()` say by their names what they give."""
    known = ranks_expressions.rank_attribute(f, name, e)
    if known is not None:
        return op("==", ("rank", known[2][1], False, known[2][3]), known[3]) if known[0] == "op" else known
    found = ranks_expressions.hint(f, name.removeprefix("get_"), e)
    return found if found is not None else UNKNOWN


def unknown_method(f: Frame, base: Value, name: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """A method of an object of unknown class: only names that a framework in use here makes its own."""
    if base[0] == "inst" and name in knowledge.graph("returns_self"):
        return base
    if ranks_models.is_graph(base) and name not in NUMBER_TESTS:
        return ranks_models.unknown_receiver(f, base, name, args, keywords, e)
    if name in ("item", "tolist", "any", "all", "bool", "cpu", "detach", "clone", "float", "get") and base == REDUCED:
        return REDUCED
    if name in NUMBER_TESTS and not args and base[0] in ("sym", "bound", "const", "extinst", "graph"):
        return number_test(f, base, e)
    if is_local(base) and name in ("any", "all", "item", "sum", "bool"):
        return base
    if name == "get" and args and args[0][0] == "const":
        if base[0] == "dict":
            for k, v in base[1]:
                if k == args[0][1]:
                    return v  # type: ignore[no-any-return]
        if isinstance(args[0][1], str) and knowledge.environment(args[0][1]) and "environ" in (dotted(e[2]) or ""):
            return environment(f, args[0][1], e)
    row = f.machine.method_row(f, name, e)
    if row is not None:
        if row.kind in COLLECTIVE_KINDS:
            return collective(f, row, args, keywords, e, False, None)
        if row.kind in ("wraps_model", "unwrap"):
            return ranks_models.wrap(f, row, None, args, keywords, e)
        if row.kind in VALUE_KINDS:
            return value_of_row(f, row, e, args, keywords)
    known = ranks_expressions.rank_attribute(f, name, e)
    if known is not None:
        return known
    return ranks_models.unknown_receiver(f, base, name, args, keywords, e)


NUMBER_TESTS = frozenset(("isnan", "isinf", "isfinite"))


def number_test(f: Frame, v: Value, e: Expr) -> Value:
    """`torch.isnan(loss)`: a decision on this rank's own numbers, unless they were reduced before."""
    if v == REDUCED or v[0] == "const":
        return v if v == REDUCED else UNKNOWN
    if is_local(v):
        return v
    written = e[3][0] if e[3] else e[2][2] if e[2][0] == "attr" else None
    if written is not None and any("grad" in str(x[-1]) for x in walk_expr(written) if x[0] in ("name", "attr")):
        return UNKNOWN  # gradients are reduced by the time they can be tested
    return ("local", ("test", f.module.path, e[1]), "number", f.machine.origin(f, e, "number"))


def leave(f: Frame, args: list[Value], e: Expr) -> Value:
    code = args[0] if args else NONE
    bad = code[0] == "const" and code[1] not in (None, 0, False)
    f.items.append(("exit", "raise" if bad else "quit", e[1]))
    return UNKNOWN


def builtin(f: Frame, name: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    if name in ("exit", "quit"):
        return leave(f, args, e)
    if name == "getattr" and len(args) >= 2 and args[1][0] == "const" and isinstance(args[1][1], str):
        return ranks_expressions.attribute(f, args[0], args[1][1], e)
    if name == "hasattr" and len(args) == 2:
        return ranks_models.tested(args[0], args[1])
    if name == "isinstance" and len(args) == 2:
        return ranks_models.instance_of(args[0], args[1])
    if name == "range":
        if any(depends_on_rank(a) for a in args) and len(args) > 1:
            return ("local", ("share", f.module.path, e[1]), "share", f.machine.origin(f, e, "share"))
        return next((a for a in args if varies(a)), UNKNOWN)
    if name in PASSED and args:
        v = args[0]
        if name in ("len", "sum", "max", "min", "any", "all", "next"):
            if is_local(v):
                return derived_local(v, f.machine.origin(f, e, ""), "")
            return REDUCED if v == REDUCED else UNKNOWN
        if name in ("list", "tuple", "set", "dict", "sorted", "iter", "enumerate", "zip", "reversed"):
            return next(
                (a for a in args if varies(a)),
                v if v[0] in ("list", "tuple") and name in ("list", "tuple") else UNKNOWN,
            )
        if v[0] == "const" and name in ("int", "str", "bool", "float"):
            try:
                return const({"int": int, "str": str, "bool": bool, "float": float}[name](v[1]))
            except (TypeError, ValueError):
                return UNKNOWN
        return v if varies(v) or v == REDUCED or v[0] == "sym" or v[0] == "op" else UNKNOWN
    if name == "super":
        return UNKNOWN
    return UNKNOWN


def environment(f: Frame, name: Any, e: Expr) -> Value:
    row = knowledge.environment(name) if isinstance(name, str) else None
    if row is None:
        return ("sym", ("env", name))
    if row.kind in ("rank_source", "local_rank_source"):
        axis = "local" if "LOCAL" in name else "node" if "NODE" in name or name.startswith("GROUP") else "world"
        return ("rank", axis, True, f.machine.origin(f, e, name))
    if row.kind == "uniform_source" and name.endswith("WORLD_SIZE"):
        return ("size", "local" if name.startswith("LOCAL") else "world")
    return ("sym", ("env", name))


# ------------------------------------------------------------------------------------------------ table rows
def value_of_row(f: Frame, row: Row, e: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
    """What a call or an attribute of the tables gives."""
    kind = row.kind
    last = row.last
    if kind in ("rank_source", "local_rank_source"):
        axis = ranks_expressions.axis_of(last)
        if row.group_arg and row.group_arg != "(world)":
            group = group_of(f, row, args, keywords, e)
            if group != "world":
                axis = ("group", group)
        if last == "get_local_rank" and row.family == "device_mesh":
            axis = ("group", ("mesh", dotted(e[2]) if e[0] == "call" else None))
        leaf: Value = ("rank", axis, True, f.machine.origin(f, e, last))
        if row.result and row.result.startswith("tuple("):
            parts = row.result[6:-1].split(",")
            varying = parts.count("varying")
            out: list[Value] = []
            for p in parts:
                if p != "varying":
                    out.append(("size", "world"))
                elif varying == 2 and not out:
                    out.append(("rank", "local", True, f.machine.origin(f, e, last)))
                else:
                    out.append(("rank", "world", True, f.machine.origin(f, e, last)))
            return ("tuple", tuple(out))
        return leaf
    if kind == "rank_predicate":
        if "_in_" in last:
            return UNKNOWN  # membership of a group
        if "stage" in last or "pipeline" in last:
            return op("==", ("rank", "pp", True, f.machine.origin(f, e, last)), const(0))
        return ranks_expressions.predicate(f, last, e, not row.inferred)
    if kind == "uniform_source":
        if last.startswith("is_"):
            return TRUE  # what is checked is a distributed run
        if last in ("size", "num_processes", "process_count") or (
            last.endswith("world_size") and "parallel" not in last
        ):
            if "local" in last:
                return ("size", "local")
            group = group_of(f, row, args, keywords, e) if row.group_arg or args else "world"
            return ("size", "world") if group == "world" else ("sym", ("size", group))
        return ("sym", ("of", row.name))
    if kind == "group_source":
        if row.family == "device_mesh":
            return ("group", ("mesh", dotted(e[2]) if e[0] == "call" else None))
        return ("group", ranks_expressions.axis_of(last.removesuffix("_gloo").removesuffix("_group")))
    if last in NUMBER_TESTS and args:
        return number_test(f, args[0], e)
    if row.name.startswith("time."):
        return ("local", ("clock", f.module.path, e[1]), "clock", f.machine.origin(f, e, "clock"))
    return UNKNOWN


def group_of(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> Any:
    """The key of the process group that a call runs on: "world", an axis, ("ranks", ...), ("mesh", ...); what is not known is
    told apart by the expression that names it."""
    if row.family == "dtensor":
        return "mesh"
    if row.group_arg is None and row.family == "c10d":
        v = keywords.get("group", args[0] if args and row.kind == "uniform_source" else NONE)
    elif row.group_arg is None or row.group_arg == "(world)":
        return "world"
    else:
        v = keywords.get(row.group_arg, NONE)
        if v == NONE and isinstance(row.group_pos, int) and row.group_pos < len(args):
            v = args[row.group_pos]
    known = group_key(v)
    if known is not None or e[0] != "call":
        return known if known is not None else ("unknown", v)
    name = row.group_arg or "group"
    written = next((x for k, x in e[4] if k == name), None)
    if written is None and isinstance(row.group_pos, int) and row.group_pos < len(e[3]):
        written = e[3][row.group_pos]
    whole = dotted(written) if written is not None else None
    if whole is None:
        return ("unknown", f.module.path, e[1])
    if v[0] == "sym" and v[1] is not None:
        return ("named", v[1])
    owner = (
        f.function.owner.qualname if f.function.owner is not None and whole.startswith("self.") else f.function.qualname
    )
    return ("named", f.module.path, owner, whole)


def group_key(v: Value) -> Any:
    if v == NONE:
        return "world"
    if v[0] == "group":
        return v[1]
    if v[0] == "ext" and v[1].endswith((".WORLD", ".group.WORLD")):
        return "world"
    if v[0] == "op" and v[1] == "sel":
        a, b = group_key(v[3]), group_key(v[4])
        return a if a == b else None
    return None


def collective(
    f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr, sure: bool, base: Value | None
) -> Value:
    """A collective call: an item, and what it makes uniform."""
    if "grad_norm" in row.last and row.blocking == "maybe":
        return REDUCED
    if row.last.endswith("Store") or row.blocking == "maybe" or (row.kind == "init" and "world_size" in keywords):
        return UNKNOWN
    switched = switched_off(row, args, keywords, base)
    if switched is None:
        return UNKNOWN
    group = "world" if row.kind in ("group_create", "init") else group_of(f, row, args, keywords, e)
    name = row.last
    f.items.append(("op", Op(name, name, group, f.module, e[1], row, sure and switched, row.family)))
    if row.kind == "group_create":
        return made_group(f, row, args, keywords, e)
    if row.result != "uniform":
        return UNKNOWN
    if name.startswith("broadcast"):
        first = args[0] if args else next(iter(keywords.values()), UNKNOWN)
        shared = from_leader(first)
        if e[3] and e[3][0][0] != "star":
            whole = dotted(e[3][0])
            if whole and row.group_arg != "(world)":
                f.assign(e[3][0], shared, e[1])
        return shared
    if (
        row.kind == "collective"
        and e[3]
        and row.family in ("c10d", "deepspeed", "functional", "composer", "mmengine", "horovod")
    ):
        whole = dotted(e[3][0])
        if whole is not None:
            f.assign(e[3][0], REDUCED, e[1])
    return REDUCED


def from_leader(v: Value) -> Value:
    """What a broadcast leaves in a value: what the source rank had."""
    if v[0] in ("list", "tuple"):
        return (v[0], tuple([from_leader(x) for x in v[1]]))
    if varies(v):
        return ("leader", v)
    if v[0] in ("const", "leader"):
        return REDUCED if v == NONE else v
    return REDUCED


def switched_off(row: Row, args: list[Value], keywords: dict[str, Value], base: Value | None) -> bool | None:
    """None: the call does not communicate here. False: it does under a condition that is not known."""
    if row.when is None:
        return True
    words = row.when.split()
    if words[0] == "wrapped":  # local for a plain module; what is not known to be wrapped is taken for plain
        return True if args and args[0][0] == "wrapped" else None
    if len(words) == 2 and words[0] == "not":
        value = keywords.get(words[1])
        if value is None:
            return True
        return None if truth(value) is True else truth(value) is False
    if row.when.startswith("sync_on_compute"):
        return None if base is not None and base[0] == "extinst" and base[2] else True
    if "(default" in row.when or row.when.endswith("is not None"):
        return True
    word = words[0].partition("=")[0]
    if "=" in words[0]:
        value = keywords.get(word)
        return None if value is None or truth(value) is False else truth(value) is True
    return False


def made_group(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    ranks = keywords.get("ranks", args[0] if args else NONE)
    if row.result == "mesh":
        return ("extinst", "torch.distributed.device_mesh.DeviceMesh", None)
    if ranks == NONE and row.last == "new_group":
        return ("group", ("copy", f.module.path, e[1]))
    if ranks[0] in ("list", "tuple") and all(x[0] == "const" for x in ranks[1]):
        return ("group", ("ranks", tuple([x[1] for x in ranks[1]])))
    key: Value = ("group", ("made", f.module.path, e[1]))
    return ("tuple", (key, UNKNOWN)) if row.result == "group_pair" else key


# ---------------------------------------------------------------------------------------------- with statements
def enter(f: Frame, context: Expr, pos: int) -> tuple[Value, Items, Items, bool]:
    """(what `as` binds, items before the body, items after it, whether exceptions of the body are swallowed)."""
    outer = f.items
    f.items = []
    before: Items = ()
    after: Items = ()
    mild = False
    value: Value = UNKNOWN
    if context[0] == "call":
        callee = ranks_expressions.evaluate(f, context[2])
        if callee[0] in ("sym", "bound") and context[2][0] in ("name", "attr"):
            callee = f.machine.denoted(context[2], f.scope) or callee
        q = qualified(callee)
        row = (
            knowledge.api(q)
            if q
            else f.machine.method_row(f, context[2][-1], context)
            if callee[0] == "bound"
            else None
        )
        if row is not None and row.kind == "first_context":
            args, keywords, _ = arguments(f, context)
            before, after = first_context(f, row, args, keywords, context)
        elif q == "contextlib.suppress":
            mild = True
        elif callee[0] == "func" and "contextmanager" in callee[1].decorator_names():
            args, keywords, _ = arguments(f, context)
            bound = f.machine.bound(f, callee[1], callee[2], args, keywords)
            trace = f.machine.called(callee[1], callee[2], bound, None)
            if trace is not None and trace.matters:
                before, after = around(trace, context[1])
        else:
            args, keywords, _ = arguments(f, context)
            value = dispatch(f, callee, args, keywords, context)
    else:
        value = ranks_expressions.evaluate(f, context)
    if value[0] == "inst":
        entered = f.machine.program.method(value[1], "__enter__")
        left = f.machine.program.method(value[1], "__exit__")
        whole = value
        if entered is not None:
            value = project(f, entered, whole, [], {}, context, "__enter__")
        if left is not None:
            kept = f.items
            f.items = []
            project(f, left, whole, [NONE, NONE, NONE], {}, context, "__exit__")
            after = tuple(f.items)
            f.items = kept
    before = (*f.items, *before)
    f.items = outer
    return value, before, after, mild


def qualified(callee: Value) -> str | None:
    if callee[0] == "ext":
        return str(callee[1])
    if callee[0] == "bound" and callee[1][0] == "extinst":
        return f"{callee[1][1]}.{callee[2]}"
    return None


def first_context(f: Frame, row: Row, args: list[Value], keywords: dict[str, Value], e: Expr) -> tuple[Items, Items]:
    """One rank runs the body, the others wait at a barrier before it and it waits for them behind: a paired barrier."""
    axis = "local" if "local" in row.name or keywords.get("local") == TRUE else "world"
    leader = ranks_expressions.predicate(f, axis, e, True)
    barrier = Op("barrier", "barrier", "world", f.module, e[1], row, True, row.family)
    before = ("if", op("not", leader), (("op", barrier),), (), e[1], e[1])
    after = ("if", leader, (("op", barrier),), (), e[1], e[1])
    return (before,), (after,)


def around(trace: Trace, pos: int) -> tuple[Items, Items]:
    """The parts of a generator-based context manager before and after its `yield`."""
    found = split_hole(trace.items)
    if found is None:
        return (), ()
    out = []
    for items in found:
        half = Trace(trace.function, trace.module)
        half.finish(items)
        out.append((("call", half, pos, trace.function.name if trace.function else ""),) if half.matters else ())
    return out[0], out[1]


def split_hole(items: Items) -> tuple[Items, Items] | None:
    for i, item in enumerate(items):
        if item[0] == "hole":
            return items[:i], items[i + 1 :]
        if item[0] == "try":
            inner = split_hole(item[1])
            if inner is not None:
                return (*items[:i], *inner[0]), (*inner[1], *item[3], *item[4], *items[i + 1 :])
        if item[0] == "if":
            for n in (2, 3):
                inner = split_hole(item[n])
                if inner is not None:
                    first = (*item[:n], inner[0], *item[n + 1 :])
                    second = (*item[:n], inner[1], *item[n + 1 :])
                    rest: Items = ()
                    other = split_hole(item[3]) if n == 2 else None
                    if other is not None:
                        first = (*first[:3], other[0], *first[4:])
                        second = (*second[:3], other[1], *second[4:])
                    return (*items[:i], first, *rest), (second, *items[i + 1 :])
    return None
