"""Wrapped models: what DDP, FSDP, DeepSpeed and accelerate turn into collectives.

A wrapped model is ("wrapped", class, inner, buffers): the class whose methods it has, what was wrapped, and whether
the inner module holds buffers ("buffers", "plain", "maybe": made under a condition only, or None: not known). What its
forward returns is ("graph", class): `backward()` on a value that follows from it reduces gradients on all ranks.

DDP's forward communicates only when the module has buffers (measured with torch 2.13: BatchNorm in any grad mode
hangs when one rank runs it alone; without buffers the forward ends), FSDP's always.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import dotted
from ..source.patterns import Later
from . import ranks_batches, ranks_calls, ranks_seeds, ranks_tables
from .ranks_values import FALSE, NONE, REDUCED, TRUE, UNKNOWN, op, truth
from .traces import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Class, Expr, Function
    from .ranks_frames import Frame
    from .ranks_machine import Machine
    from .ranks_values import Value

PREPARED = ranks_batches.PREPARED
NORMS = Later(r"BatchNorm|InstanceNorm")
PLAIN_BUFFER = Later(r"(?m)^ {0,8}self\.register_buffer\(|^ {0,8}self\.\w+ = (?:\w+\.)*Buffer\(")
BUFFERED = Later(r"register_buffer|nn\.Buffer|spectral_norm|SpectralNorm")
MADE_BUFFER = Later(r"register_buffer\(|nn\.Buffer\(")
CONDITION = Later(r"(?:if|elif|else|try|except)\b")
STAGE_3 = Later(
    r"(?i)[\"']stage[\"']\s*:\s*3|zero_?-?3\b|stage_?3|zero_stage\s*==?\s*3|zero\.Init\(|GatheredParameters"
)
FOREIGN = Later(r"from_pretrained|torchvision|timm|create_model|models\.|AutoModel|hub\.load|build_model")


def wrap(f: Frame, row: Row, base: Value | None, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """`DDP(model)`, `accelerator.prepare(a, b)`, `fully_shard(model)`, `engine.backward(loss)`."""
    if row.kind == "unwrap":
        return base[2] if base is not None and base[0] == "wrapped" else UNKNOWN
    if row.kind == "backward_collective":
        step(f, "backward", e, row, not row.inferred)
        return UNKNOWN
    if row.kind == "forward_collective":
        step(f, "forward", e, row, not row.inferred and row.when is None)
        return ("graph", row.name.rpartition(".")[0])
    given = args or [keywords[k] for k in ("module", "model") if k in keywords]
    if not given:
        return UNKNOWN
    if row.result in ("dp_module", "syncbn_module", "tp_module"):
        return given[0]
    cls = class_of(row)
    if cls == PREPARED:
        made = [wrapped(f.machine, cls, v, keywords) for v in given]
        return made[0] if len(made) == 1 else ("tuple", tuple(made))
    whole = wrapped(f.machine, cls, given[0], keywords)
    if row.result == "engine_tuple":
        return ("tuple", (whole, UNKNOWN, UNKNOWN, UNKNOWN))
    if row.result == "fsdp2_module" and e[3]:  # in place
        target = dotted(e[3][0])
        if target is not None:
            f.put(target, whole)
    step(f, row.last, e, row, not row.inferred, group=group_of(keywords.get("process_group", NONE)))
    return whole


def group_of(v: Value) -> Any:
    """The group that a wrapper is given, where it is seen to be made for some of the ranks; "world" otherwise."""
    if v[0] == "group" and isinstance(v[1], tuple) and v[1][0] in ("made", "ranks"):
        return v[1]
    if v[0] == "op" and v[1] == "sel":  # `group = new_group(range(n)) if n else None`
        return next((g for g in map(group_of, v[3:5]) if g != "world"), "world")
    return "world"


def row_of(function: Function) -> Row | None:
    """The table's row of a wrapper whose source is part of the program: `deepspeed.initialize` in DeepSpeed itself."""
    parts = function.module.path.removesuffix(".py").removesuffix("/__init__").split("/")
    for n in range(len(parts)):
        row = knowledge.api(".".join([*parts[n:], function.qualname]))
        if row is not None and row.kind == "wraps_model":
            return row
    return None


def class_of(row: Row) -> str:
    """The class whose methods the result of a wrapper has."""
    if knowledge.api(f"{row.name}.backward(loss)") is not None:
        return row.name
    wanted = {"ddp_module": "ddp", "fsdp_module": row.family, "fsdp2_module": "fsdp2", "engine_tuple": "deepspeed"}
    family = wanted.get(row.result or "")
    for q in sorted(knowledge.names("forward_collective")):
        found = knowledge.api(q)
        if found is not None and found.family == family:
            return q.rpartition(".")[0]
    return PREPARED


def class_of_sharded() -> str:
    row = knowledge.api(next(q for q in sorted(knowledge.names("wraps_model")) if q.endswith(".fully_shard")))
    return class_of(row) if row is not None else PREPARED


def wrapped(machine: Machine, cls: str, inner: Value, keywords: dict[str, Value]) -> Value:
    if (inner[0] == "extinst" and inner[1].startswith(("torch.optim.", "torch.utils.data."))) or inner[0] in (
        "const",
        "wrapped",
    ):
        return inner
    buffers = buffers_of(machine, inner)
    if cls != PREPARED and knowledge.api(f"{cls}.forward") is None:
        buffers = "plain"  # its forward communicates nothing
    if any(truth(keywords.get(k, TRUE)) is False for k in ("broadcast_buffers", "forward_sync_buffers")):
        buffers = "plain"
    return ("wrapped", cls, inner, buffers)


def buffers_of(machine: Machine, inner: Value) -> str | None:
    if inner[0] == "extinst":
        return inner[2] if inner[2] in ("buffers", "plain", "maybe") else None
    if inner[0] == "inst":
        return class_buffers(machine, inner[1], set())
    return None


def class_buffers(machine: Machine, cls: Class, seen: set[int]) -> str | None:
    """Whether a model class of the project makes buffers, itself or through the project's classes that it names."""
    seen.add(id(cls))
    inside, outside = machine.program.bases(cls)
    lines = [line for c in (cls, *inside) for line in own_lines(machine, c)]
    text = "\n".join(lines) + "\n"
    if NORMS.search(text) or PLAIN_BUFFER.search(text):
        return "buffers"
    held = "plain"
    if BUFFERED.search(text):
        if not under_condition(lines):
            return None
        held = "maybe"
    if FOREIGN.search(text) or any(not o.startswith(("torch.nn.", "builtins.")) for o in outside):
        return None
    for name in sorted(set(ranks_calls.WORDS.findall(text))):
        bound = cls.module.names.get(name)
        if bound is None or bound[0] == "value":
            continue
        asked: Expr = ("name", 0, name)
        v = machine.global_value(cls.module, name, asked)
        if v[0] == "sym":
            v = machine.denoted(asked, machine.program.module_scope(cls.module), True) or v
        if v[0] == "class" and id(v[1]) not in seen and len(seen) < 12:
            found = class_buffers(machine, v[1], seen)
            if found == "maybe":
                held = found
            elif found != "plain":
                return found
    return held


def own_lines(machine: Machine, cls: Class) -> list[str]:
    """The lines of a class without its class and static methods: what those load is copied into a model, not made a
    part of it (`from_pretrained` of nanoGPT)."""
    lines = machine.program.lines(cls.module.path)
    apart = {
        n
        for m in cls.methods.values()
        if not {"classmethod", "staticmethod"}.isdisjoint(m.decorator_names())
        for n in range(m.first_line, m.end_line + 1)
    }
    return [lines[n - 1] for n in range(cls.first_line, min(cls.end_line, len(lines)) + 1) if n not in apart]


def under_condition(lines: list[str]) -> bool:
    """Whether every buffer of a class is made under an `if` (or in a `try`): a run may well have none."""
    for n, line in enumerate(lines):
        if not BUFFERED.search(line):
            continue
        if not MADE_BUFFER.search(line):
            return False
        indent = len(line) - len(line.lstrip())
        for before in reversed(lines[:n]):
            stripped = before.lstrip()
            if stripped and len(before) - len(stripped) < indent:
                indent = len(before) - len(stripped)
                if CONDITION.match(stripped):
                    break
                if stripped.startswith(("def ", "async def ", "class ")):
                    return False
        else:
            return False
    return True


def made_module(q: str, args: list[Value]) -> str | None:
    """ "buffers" or "plain" for a module of torch.nn that is made here."""
    if not q.startswith("torch.nn."):
        return None
    last = q.rpartition(".")[2]
    if "BatchNorm" in last or "InstanceNorm" in last:
        return "buffers"
    if q in knowledge.graph("container_modules"):
        known = [a[2] if a[0] == "extinst" else None for a in args]
        if "buffers" in known:
            return "buffers"
        return "plain" if known and all(k == "plain" for k in known) else None
    return "plain"


def normalised(q: str) -> bool:
    """Whether a constructor makes a model with BatchNorm: `torchvision.models.resnet50`."""
    return q.startswith(tuple(knowledge.graph("batch_norm_models")))


def forward(f: Frame, model: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    cls = model[1]
    ddp = cls == PREPARED or "DistributedDataParallel" in cls
    if not ddp or model[3] != "plain":
        row = knowledge.api(f"{cls}.forward") or knowledge.api(f"{class_like_ddp()}.forward")
        if ddp:
            sure = model[3] == "buffers" and cls != PREPARED
        else:
            sure = row is not None and (row.when is None or shards_parameters(f))
        step(f, "forward", e, row, sure, ddp and model[3] == "maybe")
        if cls == PREPARED:
            f.items[-1][1].family = ""  # it may as well be FSDP
    own = next((a for a in (*args, *keywords.values()) if a[0] == "batch" and a[1][2] == "shard"), None)
    return ("graph", cls) if own is None else ("graph", cls, own[1])


def shards_parameters(f: Frame) -> bool:
    """Whether the program's folder speaks of ZeRO-3, under which each forward gathers the parameters."""
    folder = f.module.path.rpartition("/")[0]
    near = [p for p in f.machine.suspects.pages.values() if p.module.path.startswith(folder)]
    return any(STAGE_3.search(page.text) for page in near)


def class_like_ddp() -> str:
    return next(q for q in knowledge.names("forward_collective") if "DistributedDataParallel" in q).rpartition(".")[0]


def step(
    f: Frame, name: str, e: Expr, row: Row | None, sure: bool, doubted: bool = False, group: Any = "world"
) -> None:
    family = row.family if row is not None else ""
    f.items.append(("op", Op(name, name, group, f.module, e[1], row, sure, family, doubted)))
    f.machine.doubts = f.machine.doubts or doubted


def method(f: Frame, model: Value, name: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """A method of a wrapped model."""
    if name == "forward":
        return forward(f, model, args, keywords, e)
    if name in knowledge.graph("returns_self") or name == "train":
        return model
    row = knowledge.api(f"{model[1]}.{name}")
    if row is not None and row.kind in ranks_tables.COLLECTIVE_KINDS:
        return ranks_tables.collective(f, row, args, keywords, e, not row.inferred, model)
    if row is not None and row.kind == "backward_collective":
        step(f, "backward", e, row, not row.inferred)
    return UNKNOWN


def call_instance(f: Frame, instance: Value, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    return UNKNOWN


def is_graph(v: Value) -> bool:
    while v[0] == "bound":
        v = v[1]
    return bool(v[0] == "graph")


def graph_of(v: Value) -> Value:
    """("graph", class), with the origin of the data where each rank is known to have its own."""
    while v[0] == "bound":
        v = v[1]
    return v


def graph_class(v: Value) -> str:
    return str(graph_of(v)[1])


REDUCING = ("reduce", "gather", "broadcast", "sync", "grad_norm", "all_rank", "any_rank")
_reducing: dict[str, bool] = {}


def reduces(name: str) -> bool:
    """Whether the name of a function says that its result is the same on every rank."""
    known = _reducing.get(name)
    if known is None:
        lowered = name.lower()
        known = _reducing[name] = any(w in lowered for w in REDUCING)
    return known


def follows(f: Frame, callee: Value, args: list[Value], e: Expr) -> Value:
    """The result of a call that is not followed: a graph passes through it unless the call takes it off."""
    name = e[2][-1] if e[2][0] in ("name", "attr") else ""
    if reduces(name):
        ranks_batches.agreed(f, e)
        return REDUCED
    removes = name in knowledge.graph("remover_methods") or name in knowledge.graph("remover_builtins")
    graph = next((graph_of(a) for a in args if is_graph(a)), None)
    if graph is not None:
        if not removes:
            return graph
        if name == "float":
            return ranks_batches.of_output(f, e, graph)
        return ("batch", graph[2], False) if len(graph) > 2 else UNKNOWN
    for a in args:
        if ranks_batches.own(a) and not ranks_seeds.is_generator(a):
            external = str(callee[1]) if callee[0] in ("ext", "extinst") else ""
            return ranks_batches.passed(name, external, a, len(args) == 1 and not e[4])
    return UNKNOWN


def unknown_receiver(f: Frame, base: Value, name: str, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """A method of something without a known class: `backward()` of a loss, an operation on it."""
    if not is_graph(base):
        return UNKNOWN
    if name in knowledge.graph("backward_methods"):
        row = knowledge.api(f"{graph_class(base)}.backward(loss)") or knowledge.api(
            f"{class_like_ddp()}.backward(loss)"
        )
        step(f, "backward", e, row, True)
        return NONE
    graph = graph_of(base)
    if name in knowledge.graph("remover_methods"):
        if name in ("item", "detach"):
            return ranks_batches.of_output(f, e, graph)
        return ("batch", graph[2], False) if len(graph) > 2 else UNKNOWN
    return graph


def tested(v: Value, name: Value) -> Value:
    """`hasattr(model, "module")`: true of a wrapped model, false of a module that is not."""
    if name != ("const", "module"):
        return UNKNOWN
    if v[:2] == ("op", "sel"):
        return either(v, tested(v[3], name), tested(v[4], name))
    if v[0] == "wrapped":
        return TRUE
    return FALSE if v[0] == "inst" or (v[0] == "extinst" and v[1].startswith("torch.nn.")) else UNKNOWN


def instance_of(v: Value, cls: Value) -> Value:
    """`isinstance(model, DDP)`."""
    classes = cls[1] if cls[0] == "tuple" else (cls,)
    names = [c[1] for c in classes if c[0] == "ext"]
    if not names:
        return UNKNOWN
    if v[:2] == ("op", "sel"):
        return either(v, instance_of(v[3], cls), instance_of(v[4], cls))
    if v[0] == "wrapped":
        return TRUE if v[1] in names else UNKNOWN
    if (v[0] == "inst" or (v[0] == "extinst" and v[1].startswith("torch.nn."))) and all("Parallel" in n for n in names):
        return FALSE
    return UNKNOWN


def either(v: Value, then: Value, other: Value) -> Value:
    """The answer to a question about one of two values: the condition itself, where it tells them apart."""
    if then == other:
        return then
    if truth(then) is None or truth(other) is None:
        return UNKNOWN
    return v[2] if then == TRUE else op("not", v[2])


__all__ = ["REDUCED", "follows", "forward", "method", "wrap"]
