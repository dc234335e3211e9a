"""Numbers that each rank draws for itself, from a generator that the rank has seeded.

An object that is handed `seed=base + rank` (a generator, an environment of reinforcement learning) is a batch of kind
"seed": what is drawn from it is this rank's own. The generators of `random`, `numpy` and `torch` count only when every
call of the program that seeds them does so by the rank: with one seed for all, or none in sight, nothing is known.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import dotted
from .ranks_values import UNKNOWN, depends_on_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...knowledge import Row
    from ..program.model import Expr
    from .ranks_frames import Frame
    from .ranks_machine import Machine
    from .ranks_values import Value

GENERATOR = "generator"
"""In place of `number` of a batch: it is what numbers are drawn from."""
SEED = "seed"
"""The keyword by which everything that draws numbers takes its seed."""


def generator(f: Frame, args: list[Value], keywords: dict[str, Value], e: Expr) -> Value:
    """`random.Random(seed + rank)`, `torch.Generator().manual_seed(rank)`"""
    given = args[0] if args else keywords.get(SEED, UNKNOWN)
    if not depends_on_rank(given):
        return UNKNOWN
    made = own(f, e)
    return seeded(f, made, e)


def handed(f: Frame, keywords: dict[str, Value], e: Expr) -> Value:
    """`gym.make(name, seed=seed + rank)`, `env.reset(seed=rank)`: a call that is not followed."""
    if SEED not in keywords or not depends_on_rank(keywords[SEED]):
        return UNKNOWN
    made = seeded(f, own(f, e), e)
    return called(made, e[2][-1]) if e[2][0] == "attr" else made


def seeded(f: Frame, made: Value, e: Expr) -> Value:
    """What a method that takes a seed is called on is seeded by it as well."""
    holder = dotted(e[2][2]) if e[2][0] == "attr" else None
    if holder is not None and f.eval(e[2][2])[0] in ("sym", "extinst", "bound"):
        f.put(holder, made)
    return made


def own(f: Frame, e: Expr) -> Value:
    return ("batch", (f.module.path, e[1], SEED), GENERATOR)


def is_seeded(v: Value) -> bool:
    return bool(v[0] == "batch" and v[1][2] == SEED)


def is_generator(v: Value) -> bool:
    return bool(v[0] == "batch" and v[2] is GENERATOR)


def matters(receiver: Value | None, bound: dict[str, Value]) -> bool:
    """Whether a function of the project makes a generator of the rank, or draws from one that its object holds."""
    if receiver is not None and receiver[0] == "inst" and any(is_seeded(v) for _, v in receiver[2]):
        return True
    return any(k.endswith(SEED) and depends_on_rank(v) for k, v in bound.items())


def called(base: Value, name: str) -> Value:
    """A method of what the rank has seeded: only those of generators and environments draw."""
    draws = any(r.kind == "draw" for r in knowledge.methods(name))
    return ("batch", base[1], True) if draws else UNKNOWN


def drawn(f: Frame, row: Row, keywords: dict[str, Value], e: Expr) -> Value:
    """`random.random()`, `torch.rand(1, generator=g)`"""
    given = keywords.get("generator")
    if given is not None:
        return ("batch", given[1], True) if is_seeded(given) else UNKNOWN
    origin = of_library(f.machine, row.family)
    return ("batch", origin, True) if origin is not None else UNKNOWN


def of_library(machine: Machine, family: str) -> Any:
    """Where the program seeds the generator of a library by the rank, and nowhere otherwise; or None."""
    known = machine.seeds
    if family not in known:
        known[family] = None
        known[family] = find(machine, family)
    return known[family]


def find(machine: Machine, family: str) -> Any:
    program = machine.program
    rows = [row for q in knowledge.names("seeds") if (row := knowledge.api(q)) is not None and row.family == family]
    lasts = {row.last for row in rows}
    found: Any = None
    for path, module in list(program.modules.items()):
        text = program.text(path) or ""
        if not any(f"{last}(" in text for last in lasts):
            continue
        for f in (program.main(module), *module.all_functions()):
            if not any(f"{last}(" in machine.suspects.text_of(f) for last in lasts):
                continue
            scope = program.scope(f)
            for call in program.calls(f):
                q = program.qualified(call[2], scope) if call[2][-1] in lasts and call[3] else None
                row = knowledge.api(q) if q else None
                if row is None or row.kind != "seeds" or row.family != family:
                    continue
                if not depends_on_rank(machine.pure(machine.pure_frame(f), call[3][0])):
                    return None
                found = found or (path, call[1], SEED)
    return found
