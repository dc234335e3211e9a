"""Calls: project functions are followed, calls that the tables know become collectives or values, the rest does
nothing."""

from __future__ import annotations

from ... import knowledge
from ..program.model import Function, dotted
from ..source.patterns import Later
from . import (
    ranks_agreement,
    ranks_batches,
    ranks_expressions,
    ranks_flags,
    ranks_loops,
    ranks_models,
    ranks_seeds,
    ranks_tables,
)
from .ranks_values import (
    NONE,
    REDUCED,
    TRUE,
    UNKNOWN,
    carries,
    const,
    depends_on_rank,
    derived_local,
    has_leaf,
    holds_unknown,
    is_local,
    op,
    parts,
    varies,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_values import Value
    from .traces import Item, Items

PASSED = frozenset(
    [
        "int",
        "bool",
        "float",
        "str",
        "abs",
        "round",
        "list",
        "tuple",
        "sorted",
        "reversed",
        "iter",
        "enumerate",
        "zip",
        "set",
        "dict",
        "len",
        "max",
        "min",
        "sum",
        "any",
        "all",
        "next",
    ]
)
"""Builtins whose result is as uniform or as local as what they are given."""
STABLE = ("is_", "has_", "use_", "should_use")
"""Questions about the program that have one answer, however often they are asked."""
MEMOISED = frozenset(("cache", "lru_cache"))
DECIDED_BY = frozenset(("any", "all", "sum", "max", "min", "logical_or", "logical_and", "logical_not", "item", "bool"))
"""Functions whose result is as much a decision of one rank as what they are given."""
MADE_OF_LISTS = frozenset(("torch.tensor", "torch.as_tensor", "torch.stack", "torch.cat", "numpy.array", "numpy.mean"))
WORDS = Later(r"[A-Za-z_]\w*")


def call(f: Frame, e: Expr) -> Value:
    func = e[2]
    if func[0] == "name" and func[2] == "super" and f.function.owner is not None:
        return ("super", f.function.owner, f.receiver or ("inst", f.function.owner, ()))
    callee = ranks_expressions.KINDS[func[0]](f, func)
    args, keywords, whole = arguments(f, e)
    # `nn.Linear(2, 2).cuda`, `Net().cuda`: with what is in it; `model.state_dict` after `model = FSDP(model)`
    known = callee[0] == "bound" and (
        callee[1][0] in ("extinst", "wrapped", "graph")
        or (callee[1][0] == "inst" and callee[2] in knowledge.graph("returns_self"))
        or is_choice(callee[1])
    )
    if callee[0] in ("sym", "bound") and func[0] in ("name", "attr") and not known:
        carrying = any(map(carries, args)) or any(map(carries, keywords.values()))
        denoted = f.machine.denoted_callee(func, f.scope, carrying)
        if denoted is not None and denoted[0] != "const":
            callee = denoted
    if not whole:
        args = [*args, UNKNOWN]
    result = dispatch(f, callee, args, keywords, e)
    if result == UNKNOWN:
        if callee[0] in ("sym", "bound", "ext", "extinst"):
            perhaps_called(f, [*args, *keywords.values()], e)
        result = ranks_models.follows(f, callee, args, e)
    elif callee[0] == "ext" and callee[1] in knowledge.graph("on_threads"):
        perhaps_called(f, [*args, *keywords.values()], e)
    if result == UNKNOWN and callee[0] == "ext":
        result = ranks_agreement.computed(f, callee[1], args, keywords, e)
    if result == UNKNOWN and keywords:
        result = ranks_seeds.handed(f, keywords, e)
    question = not e[3] and not e[4] and func[0] in ("name", "attr") and func[-1].startswith(STABLE)
    if question and holds_unknown(result) and not varies(result):
        return ("sym", ("stable", dotted(func)))
    return result


def is_choice(v: Value) -> bool:
    """Whether a value is one of two that the program chose alike on every rank, one of them a wrapped model."""
    if v[0] != "op" or v[1] != "sel" or varies(v[2]):
        return False
    return any(x[0] == "wrapped" or is_choice(x) for x in v[3:5])


def perhaps_called(f: Frame, args: list[Value], e: Expr) -> None:
    """A function that is handed to something unknown may run there: its collectives count as not decided."""
    for a in args:
        if a[0] in ("closure", "func") and (a[0] == "closure" or f.machine.suspects.matters(a[1])):
            outer, f.items = f.items, []
            unknown = [UNKNOWN] * 3
            if a[0] == "func":
                project(f, a[1], a[2], unknown, {}, e, a[1].name)
            else:
                f.machine.run_closure(f, a, unknown, {}, e)
            items = tuple(f.items)
            f.items = outer
            if items:
                f.items.append(undecided(f, items, e[1]))


def undecided(f: Frame, items: Items, pos: int) -> Item:
    """What runs only where two things hold that are not known."""
    return ("if", f.sym(pos, "called"), (("if", f.sym(pos, "perhaps"), items, (), pos, pos),), (), pos, pos)


def follow(f: Frame, function: Function, item: Item) -> None:
    """A call becomes a step. A function with `@cache` that all ranks have called may have its result at hand when some
    of them call it again: nothing of it runs there."""
    if function.decorators and not MEMOISED.isdisjoint(function.decorator_names()):
        if not any(map(varies, f.path)):
            f.machine.remembered.add(id(function))
        elif id(function) in f.machine.remembered:
            item = undecided(f, (item,), item[2])
    f.items.append(item)


def arguments(f: Frame, e: Expr) -> tuple[list[Value], dict[str, Value], bool]:
    """(positional, by keyword, whether all of them are known one by one)."""
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    whole = True
    kinds = ranks_expressions.KINDS
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
            args.append(kinds[a[0]](f, a))
    for name, x in e[4]:
        v = kinds[x[0]](f, x)
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
    if kind == "sym":
        if callee == REDUCED:
            return REDUCED
        return hinted_call(f, e[2][2], e) if e[2][0] == "name" else UNKNOWN
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
        if is_choice(base):
            # only the wrapped one of two ways communicates: `FSDP(net) if sharded else net`
            ways = [x for x in base[3:5] if x[0] == "wrapped" or is_choice(x)]
            chosen = ways[0] if len(ways) == 1 else op("sel", base[2], *[("bound", x, name) for x in ways])
            return dispatch(f, ("bound", chosen, name) if len(ways) == 1 else chosen, args, keywords, e)
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
    if kind == "op" and callee[1] == "sel" and op("not", callee[2]) in f.path:
        return dispatch(f, callee[4], args, keywords, e)  # behind `if hasattr(net, "module"): ... else:`
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
    if kind == "batch":
        return ranks_batches.called(f, callee, e) or UNKNOWN
    if kind == "op" and e[2][0] == "attr" and not e[3] and not e[4] and varies(callee):
        return callee  # `trainer.is_world_process_zero()`: a predicate that is a method
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
    row = ranks_models.row_of(function) if function.name in machine.suspects.wraps else None
    if row is not None:
        return ranks_models.wrap(f, row, None, args, keywords, e)
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
    share = ranks_loops.generated(f, function, e)
    if share is not None:
        return share
    if f.path and receiver is not None:
        ranks_flags.set_by_some(f, function, e)
        receiver = ranks_agreement.behind_first(f, function, receiver)
    bound = machine.bound(f, function, receiver, args, keywords)
    trace = machine.called(function, receiver, bound, None)
    if trace is None:
        return ranks_models.follows(f, UNKNOWN, args, e)
    if trace.matters or trace.busy:
        follow(f, function, ("call", trace, e[1], label))
    f.called_elsewhere()
    if trace.has_ops:
        ranks_batches.agreed(f, e)
    given = any(map(ranks_batches.of_this_rank, bound.values()))
    if receiver is not None and (given or f.dots):
        ranks_flags.told(f, trace, function, bound, e, given)
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
        if kind in ranks_tables.COLLECTIVE_KINDS:
            return ranks_tables.collective(f, row, args, keywords, e, not row.inferred, base)
        if kind in ranks_tables.VALUE_KINDS:
            return ranks_tables.value_of_row(f, row, e, args, keywords)
        if kind in ("wraps_model", "unwrap", "forward_collective", "backward_collective"):
            return ranks_models.wrap(f, row, base, args, keywords, e)
        if kind == "local_exit":
            return leave(f, args, e)
        if kind == "generator":
            return ranks_seeds.generator(f, args, keywords, e)
        if kind == "draw":
            return ranks_seeds.drawn(f, row, keywords, e)
        if kind == "higher_order":
            return args[0] if args and q == "torch.compile" else UNKNOWN
        if kind == "wraps_loader":
            return ranks_batches.divided(args)
    if args and args[0][0] == "batch" and q.startswith("torch.") and q.rpartition(".")[2] in ranks_batches.READS:
        return ranks_batches.decision(f, args[0], e)
    if args and args[0][0] == "list" and q in MADE_OF_LISTS:
        held = next((x for x in map(ranks_batches.collected, args[0][1]) if x is not None), None)
        if held is not None:
            return held
    if args and is_local(args[0]) and q.rpartition(".")[2] in DECIDED_BY:
        return args[0]
    if q.startswith("torch.distributed.is_"):
        return TRUE
    if q in ("os.environ.get", "os.getenv") and args and args[0][0] == "const":
        return ranks_tables.environment(f, args[0][1], e)
    if q.startswith("builtins."):
        return builtin(f, q[9:], args, keywords, e)
    if q in knowledge.graph("partials") and args:
        return ("partial", args[0], tuple(args[1:]), tuple(keywords.items()))
    if base is None:
        last = q.rpartition(".")[2]
        if last in ("tqdm", "trange"):
            return ("bar", args[0] if args else UNKNOWN, keywords.get("disable", UNKNOWN))
        if q == "torch.utils.data.DataLoader":
            return ranks_batches.loader(args, keywords, e)
        if q == "torch.utils.data.Subset" and len(args) > 1 and args[1][0] == "local" and args[1][2] == "share":
            return args[1]
        if last.endswith(("Loader", "Dataset", "Subset")) and q != "torch.utils.data.DataLoader":
            share = next((a for a in (*args, *keywords.values()) if a[0] == "local" and a[2] == "share"), None)
            if share is not None and keywords.get("drop_last") != TRUE:
                return share
        if knowledge.made_by_call(q):
            return ("extinst", q + "()", None)
        if last[:1].isupper():
            if q.startswith("torch.distributions."):  # `Categorical(logits=policy(obs))`: its log_prob has a graph
                given = (*args, *keywords.values())
                graph = next((a for a in given if ranks_models.is_graph(a)), None)
                if graph is not None:
                    return ranks_models.graph_of(graph)
                data = next((a for a in given if ranks_batches.own(a)), None)
                if data is not None:
                    return ("batch", data[1], False)
            if q.startswith("torch.nn."):
                return ("extinst", q, ranks_models.made_module(q, args))
            return ("extinst", q, keywords.get("sync_on_compute") == const(False) or unsynchronised(args) or None)
        if q.startswith("torchvision.models.") and ranks_models.normalised(q):
            return ("extinst", q, "buffers")
        return hinted_call(f, last, e)
    if args == [] and ranks_expressions.rank_attribute(f, q.rpartition(".")[2], e) is not None:
        return ranks_expressions.rank_attribute(f, q.rpartition(".")[2], e) or UNKNOWN
    name = q.rpartition(".")[2]
    own = base[1].startswith(("torch.nn.", "torchvision.models.", "torchmetrics."))
    if own and name in knowledge.graph("returns_self"):
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
    if ranks_models.is_graph(base) and name not in ranks_tables.NUMBER_TESTS:
        return ranks_models.unknown_receiver(f, base, name, args, keywords, e)
    if name in ("item", "tolist", "any", "all", "bool", "cpu", "detach", "clone", "float", "get") and base == REDUCED:
        return REDUCED
    if name in ranks_tables.NUMBER_TESTS and not args and base[0] in ("sym", "bound", "const", "extinst", "graph"):
        return ranks_tables.number_test(f, base, e)
    if base[0] == "dict" and name in ("items", "values") and not args:
        return ("list", tuple([v if name == "values" else ("tuple", (UNKNOWN, v)) for _, v in base[1]]))
    if base[0] == "op" and name in ("items", "keys", "values") and varies(base):
        return base  # `if y.any(): losses["mask"] = ...`: which keys there are
    if is_local(base) and name in ("any", "all", "item", "sum", "bool"):
        return base
    if name == "get" and args and args[0][0] == "const":
        if base[0] == "dict":
            for k, v in base[1]:
                if k == args[0][1]:
                    return v  # type: ignore[no-any-return]
        if isinstance(args[0][1], str) and knowledge.environment(args[0][1]) and "environ" in (dotted(e[2]) or ""):
            return ranks_tables.environment(f, args[0][1], e)
    if name in ("append", "extend") and len(args) == 1:
        ranks_batches.put_into(f, args[0], e)
    row = f.machine.method_row(f, name, e)
    if row is not None:
        if row.kind in ranks_tables.COLLECTIVE_KINDS:
            return ranks_tables.collective(f, row, args, keywords, e, False, None)
        if row.kind in ("wraps_model", "unwrap"):
            return ranks_models.wrap(f, row, None, args, keywords, e)
        if row.kind in ranks_tables.VALUE_KINDS:
            return ranks_tables.value_of_row(f, row, e, args, keywords)
    known = ranks_expressions.rank_attribute(f, name, e)
    if known is not None:
        return known
    return ranks_models.unknown_receiver(f, base, name, args, keywords, e)


def leave(f: Frame, args: list[Value], e: Expr) -> Value:
    code = args[0] if args else NONE
    bad = code[0] != "const" or code[1] not in (None, 0, False)  # a message or a number: the launcher ends the job
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
    if name == "enumerate" and args and args[0][0] in ("loader", "inst"):
        return args[0]
    if name == "set":
        return ("set", f.machine.origin(f, e, "set"))
    if args and args[0][0] == "set" and name in ("list", "tuple", "iter", "enumerate", "reversed"):
        return args[0]
    if name == "range":
        if 1 < len(args) < 4 and ranks_loops.is_even(args[0], args[1]):
            return UNKNOWN
        share = [a for a in args if depends_on_rank(a) and (a[:2] != ("op", "sel") or ranks_loops.has_rest(a))]
        # `range(rank + 1)` is compared by its numbers; of `range(n // world + (rank < n % world))` they are not known
        if share and (len(args) > 1 or has_leaf(share[0], "sym") or has_leaf(share[0], "unknown")):
            return ("local", ("share", f.module.path, e[1]), "share", f.machine.origin(f, e, "share"))
        return next((a for a in args if varies(a)), ("range", args[0]) if len(args) == 1 else UNKNOWN)
    if name in PASSED and args:
        v = args[0]
        if v[0] == "batch" and name in ("int", "bool", "float"):
            return ranks_batches.number(f, v, e) or UNKNOWN
        if name == "next":
            batch = ranks_batches.following(f, e)
            if batch is not None:
                return batch
        if name in ("len", "sum", "max", "min", "any", "all", "next"):
            if is_local(v):
                return derived_local(v, f.machine.origin(f, e, ""), "")
            if ranks_batches.own(v) and name in ("sum", "max", "min"):
                return ("batch", v[1], True)
            if ranks_batches.own(v) and name in ("any", "all"):
                return ranks_batches.decision(f, v, e)
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
        return v if varies(v) or v == REDUCED or v[0] in ("sym", "op", "size") else UNKNOWN
    if name == "super":
        return UNKNOWN
    return UNKNOWN
