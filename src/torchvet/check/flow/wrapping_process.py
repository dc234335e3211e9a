"""One process for each GPU: which device a process chooses, and what it loads onto which."""

from __future__ import annotations

from ... import knowledge
from ..program.model import blocks_of, expressions_of, target_names, walk_block, walk_expr
from ..program.program import callee_name
from .settings_origins import UNKNOWN_NAME, Frame, Origins, functions_on
from .settings_reach import contains
from .wrapping_models import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..program.model import Block, Expr, Function, Module
    from ..program.program import Program

RANK_WORDS = ("rank", "main_process", "is_main", "master", "is_primary")


class Site:
    """A call and where it stands; `other` is a second place that matters for it (with its function), or None. `late`:
    the device is set there, after this call has used another one."""

    __slots__ = ("call", "function", "late", "other", "other_function")

    def __init__(
        self, call: Expr, function: Function, other: Expr | None = None, other_function: Function | None = None
    ) -> None:
        self.call = call
        self.function = function
        self.late = False
        self.other = other
        self.other_function = other_function

    @property
    def module(self) -> Module:
        return self.function.module

    @property
    def pos(self) -> int:
        return self.call[1]  # type: ignore[no-any-return]


class Processes:
    def __init__(self, program: Program, origins: Origins) -> None:
        self.program = program
        self.origins = origins
        self._distributed: dict[str, bool] = {}

    def calls_of(self, names: set[str], modules: list[Module] | None = None) -> Iterator[tuple[Expr, Function, str]]:
        """Calls of these outside functions in the admitted modules (or in the given ones)."""
        lasts = {n.rpartition(".")[2] for n in names}
        for module in list(self.program.modules.values()) if modules is None else modules:
            text = self.program.text(module.path) or ""
            # a test starts its processes on one machine, on its own terms
            if modules is None and (module.path in self.program.loaded_on_demand or module.is_test):
                continue
            here = {n for n in lasts if n in text}
            if not here:
                continue
            here |= {k for k, b in module.names.items() if b[0] == "from" and b[2] in here}
            if names is LOAD and not any(w in text for w in OTHER_LOADS):
                rows = set(self.program.lines_with(module.path, "torch.load("))
            else:
                rows = {row for n in here for row in self.program.lines_with(module.path, n, called=True)}
            for f in functions_on(self.program, module, sorted(rows)):
                for call in self.program.calls(f):
                    if callee_name(call) in here:
                        name = self.name(call, f)
                        if name in names:
                            yield call, f, name

    def name(self, call: Expr, f: Function) -> str:
        for x in self.program.entities(call[2], self.program.scope(f)):
            while x and x[0] == "partial":
                x = x[1]
            if x and x[0] == "ext":
                return str(x[1])
        return ""

    # ------------------------------------------------------------------------------------------------- loading
    def loads(self) -> list[Site]:
        """`torch.load` without map_location whose result becomes the state of a model or optimizer, in a program of
        several processes: every rank restores the tensors on the GPU that they were saved from."""
        out = []
        for call, f, _ in self.calls_of(LOAD):
            if len(call[3]) > 1 or any(k is None or k == "map_location" for k, _ in call[4]):
                continue
            if any(a[0] == "star" for a in call[3]) or not (call[3] or call[4]):
                continue
            use = self.state_use(call, f)
            if use is None or self.on_cpu(f) or self.rank_guarded(f, call[1]):
                continue
            if self.own_file(call, f) or self.file_of_rank(call, f):
                continue
            if self.distributed(f):
                out.append(Site(call, f, use, f))
        return out

    def state_use(self, call: Expr, f: Function) -> Expr | None:
        """The `load_state_dict` call that the loaded value reaches, by names of the same function."""
        held: set[str] = set()
        for s in walk_block(self.program.body(f)):
            expressions = expressions_of(s)
            if not any(x is call or (x[0] == "name" and x[2] in held) for e in expressions for x in walk_expr(e)):
                continue
            for e in expressions:
                for x in walk_expr(e):
                    if self.restores(x) and self.takes(x[3][0], call, held):
                        return x
            if s[0] == "assign" and self.takes(s[3], call, held):
                for t in s[2]:
                    held.update(target_names(t))
        return None

    def own_file(self, call: Expr, f: Function) -> bool:
        """Loads what the same function has saved, or from memory: the tensors come back where they were."""
        if not call[3]:
            return False
        path = shape(call[3][0])
        for other in self.program.calls(f):
            if callee_name(other) == "save" and len(other[3]) > 1 and other[1] < call[1] and shape(other[3][1]) == path:
                return True
        return any(
            o.e[0] == "call" and callee_name(o.e) in ("BytesIO", "StringIO")
            for o in self.origins.of(call[3][0], Frame(f))
        )

    def file_of_rank(self, call: Expr, f: Function) -> bool:
        """Each rank reads a file whose name holds its rank: its own shard, saved on the GPU that it goes back to."""
        parts = [call[3][0] if call[3] else call[4][0][1]]
        for e in parts:
            words = {str(x[-1]) for x in walk_expr(e) if x[0] in ("name", "attr")}
            if any("rank" in word.lower() for word in words):
                return True
            if len(parts) < 12:
                names = {x[2] for x in walk_expr(e) if x[0] == "name"}
                parts += [
                    s[3]
                    for s in walk_block(self.program.body(f))
                    if s[0] == "assign" and s[3] not in parts and any(names & set(target_names(t)) for t in s[2])
                ]
        return False

    def restores(self, e: Expr) -> bool:
        """A `load_state_dict` of something with tensors: schedulers and scalers keep numbers."""
        if e[0] != "call" or callee_name(e) != "load_state_dict" or not e[3] or e[2][0] != "attr":
            return False
        receiver = str(e[2][2][-1]).lower() if e[2][2][0] in ("name", "attr") else ""
        return not any(w in receiver for w in ("sched", "scaler", "warmup"))

    def takes(self, e: Expr, call: Expr, held: set[str]) -> bool:
        """Is the expression the loaded value, an entry of it, or a dictionary made from it?"""
        while e[0] in ("sub", "attr") or (e[0] == "call" and e[2][0] == "attr" and e is not call):
            e = e[2] if e[0] != "call" else e[2][2]
        if e[0] == "comp":
            return any(self.takes(g[1], call, held) for g in e[4])
        return e is call or bool(e[0] == "name" and e[2] in held)

    def rank_guarded(self, f: Function, pos: int) -> bool:
        """Does a test of the rank stand around the position? (`local_rank != -1` only asks whether there are ranks.)"""
        for test in tests_around(self.program.body(f), pos):
            words = {str(x[-1]).lower() for x in walk_expr(test) if x[0] in ("name", "attr")}
            says = any(w in word for word in words for w in RANK_WORDS)
            constants = [x[2] for x in walk_expr(test) if x[0] == "const"]
            negative = -1 in constants or any(x[0] == "unary" and x[2] == "-" for x in walk_expr(test))
            if says and (not negative or 0 in constants):  # `local_rank in [-1, 0]`
                return True
            if any("gpu" in w or "device" in w for w in words) and None in constants:
                return True  # `if args.gpu is None`: the form for one process
        return False

    def on_cpu(self, f: Function) -> bool:
        """Nothing in the file names a GPU."""
        text = self.program.text(f.module.path) or ""
        return not any(w in text for w in ("cuda", "gpu", "device", "nccl"))

    def distributed(self, f: Function) -> bool:
        """Does the function's module, or a module that calls it, wrap with DDP or start a process group on GPUs?"""
        seen: list[Function] = [f]
        for g in seen:
            if len(seen) > 12:
                break
            if self.module_distributed(g.module):
                return not self.before_spawn(f, g)
            seen += [c for c, _ in self.program.callers(g)[:6] if c not in seen]
        return False

    def before_spawn(self, f: Function, g: Function) -> bool:
        """Where a module spawns its processes, only what they run is run by several: a function that wraps or joins the
        group itself, or is called by one."""
        if ".spawn(" not in (self.program.text(g.module.path) or ""):
            return False
        seen: list[Function] = [f]
        for h in seen:
            lines = self.program.lines(h.module.path)[h.first_line - 1 : h.end_line]
            if any("DistributedDataParallel(" in x or "DDP(" in x or "init_process_group(" in x for x in lines):
                return False
            if len(seen) < 12:
                seen += [c for c, _ in self.program.callers(h)[:6] if c not in seen]
        return True

    def module_distributed(self, module: Module) -> bool:
        if module.path not in self._distributed:
            wrappers = {
                n
                for n in knowledge.names("wraps_model")
                if (row := knowledge.api(n)) and row.family in ("ddp", "deepspeed") and row.result != "dp_module"
            }
            backends = [self.backend(call, f) for call, f, _ in self.calls_of(INIT, [module])]
            if backends:
                self._distributed[module.path] = any(b != "cpu" for b in backends)
            else:
                self._distributed[module.path] = any(True for _ in self.calls_of(wrappers, [module]))
        return self._distributed[module.path]

    def backend(self, call: Expr, f: Function) -> str:
        """ "gpu" or "cpu" of `init_process_group`; "" when it cannot be seen."""
        given = call[3][0] if call[3] else next((v for k, v in call[4] if k == "backend"), None)
        if given is None:
            return ""
        kinds = set()
        for o in self.origins.of(given, Frame(f)):
            if o.e[0] == "const" and isinstance(o.e[2], str):
                kinds.add("gpu" if any(b in o.e[2] for b in ("nccl", "xccl", "hccl")) else "cpu")
            else:
                kinds.add("")
        return kinds.pop() if len(kinds) == 1 else "gpu" if "gpu" in kinds else ""

    # ------------------------------------------------------------------------------------------ the own device
    def without_own_device(self) -> Iterator[tuple[Expr, Function, list[Module]]]:
        """(the start of NCCL, its function, the program's modules) of programs that nowhere make a GPU the current
        one."""
        for call, f, _ in self.calls_of(INIT):
            if self.backend(call, f) != "gpu" or any(k in ("device_id", None) for k, _ in call[4]):
                continue
            group = self.origins.options.group(f.module)
            texts = [self.program.text(m.path) or "" for m in group]
            texts += [self.program.text(path) or "" for path in self.imported_in(f)]
            if not any(w in t for t in texts for w in knowledge.loader("device_words")):
                yield call, f, group

    def imported_in(self, f: Function) -> Iterator[str]:
        """Files of the project that a function imports by itself: `from train import main` after the group is there."""
        for s in self.program.statements(f):
            for dotted in [s[2]] if s[0] == "from" else [name for name, _ in s[2]] if s[0] == "import" else ():
                path = self.program.find(f.module.path, dotted, s[4] if s[0] == "from" else 0)
                if path is not None:
                    yield path

    def unset_devices(self) -> list[Site]:
        """`init_process_group("nccl")` in a program that puts its model on the GPU of the local rank, never makes that
        GPU the current one, and uses the current one, or hands the model or its data to code that may; or that spawns
        its processes and lets each of them use the current GPU."""
        out = []
        for call, f, group in self.without_own_device():
            other = self.per_gpu(group)
            if other is not None and (self.uses_current(f, group) or self.is_open(*other)):
                out.append(Site(call, f, *other))
            elif other is None and f"spawn({f.name}," in (self.program.text(f.module.path) or ""):
                # all GPUs are there for each of the processes that the program starts itself
                moved = next(
                    (c for c in self.program.calls(f) if callee_name(c) == "cuda" and not (c[3] or c[4])), None
                )
                wrap = next((c for c, g, _ in self.calls_of(DDP, [f.module]) if g is f), None)
                if moved is not None and wrap is not None and (moved[1] < wrap[1] or inside(moved, wrap)):
                    out.append(Site(call, f, moved, f))
        return [*out, *self.set_late()]

    def set_late(self) -> list[Site]:
        """`net = Net().cuda()`, only then `set_device(local)`, then DDP around it: every rank's model is on GPU 0."""
        out = []
        for wrap, f, _ in self.calls_of(DDP):
            text = self.program.text(f.module.path) or ""
            if "set_device(" not in text or "VISIBLE_DEVICES" in text or not wrap[3] or wrap[3][0][0] != "name":
                continue
            body = self.program.body(f)
            setters = [s for s in body for c in statement_calls(s) if callee_name(c) == "set_device"]
            inits = [c for s in body for c in statement_calls(s) if self.name(c, f) in INIT]
            if len(setters) != 1 or not inits or any(k in ("device_id", None) for c in inits for k, _ in c[4]):
                continue
            for s in body:
                if (
                    s[0] != "assign"
                    or s[1] >= setters[0][1]
                    or wrap[1] < setters[0][1]
                    or wrap[3][0][2] not in [t[2] for t in s[2] if t[0] == "name"]
                ):
                    continue
                moved = s[3]
                if moved[0] == "call" and callee_name(moved) == "cuda" and not moved[3] and not moved[4]:
                    site = Site(moved, f, setters[0][2], f)
                    site.late = True
                    out.append(site)
        return out

    def on_first_gpu(self) -> list[Site]:
        """Collectives over the current device in a program that starts NCCL and never says which GPU is a rank's
        own: all ranks meet on GPU 0."""
        from .wrapping_device import on_current_device

        out: dict[tuple[str, int], Site] = {}
        for call, f, group in self.without_own_device():
            found = on_current_device(self, group)
            if found is not None:
                out.setdefault((found[1].module.path, found[0][1]), Site(*found, call, f))
        return list(out.values())

    def uses_current(self, f: Function, group: list[Module]) -> bool:
        """Does a line of the program's own folder use the current GPU: by naming no number (`.cuda()`, `"cuda"`), or
        because the call knows no other (pinned memory, a stream)? A program that names its GPU everywhere needs none;
        what a library could do is not what the program does."""
        words = knowledge.loader("current_device_words")
        folder = f.module.path.rpartition("/")[0]
        near = [m for m in group if not folder or m.path.startswith(folder + "/")]
        return any(w in (self.program.text(m.path) or "") for m in near for w in words)

    def is_open(self, wrap: Expr, f: Function) -> bool:
        """Does the wrapped model come from outside of all that can be seen?"""
        given = wrap[3][0] if wrap[3] else None
        while given is not None and given[0] == "call" and given[2][0] == "attr":
            given = given[2][2]  # `model.to(gpu)`
        return given is not None and all(o.e[0] == UNKNOWN_NAME for o in self.origins.of(given, Frame(f)))

    def per_gpu(self, group: list[Module]) -> tuple[Expr, Function] | None:
        """A DDP wrap with `device_ids` of one device."""
        for call, f, _ in self.calls_of(DDP, group):
            for k, v in call[4]:
                if k == "device_ids" and any(o.e[0] == "list" and o.e[2] for o in self.origins.of(v, Frame(f))):
                    return call, f
        return None

    def global_ranks(self) -> list[Site]:
        """A device chosen by the rank in the whole job instead of the rank on the node."""
        out = []
        setters = set(knowledge.loader("device_setters"))
        for call, f, name in self.calls_of(setters | {"torch.nn.parallel.DistributedDataParallel"}):
            if name in setters:
                given = call[3][:1]
            else:
                given = tuple(x for k, v in call[4] if k == "device_ids" and v[0] == "list" for x in v[2][:1])
            for e in given:
                source = self.global_rank(e, Frame(f))
                if source is not None and not self.one_node(f.module):
                    out.append(Site(call, f, source, f))
        return out

    def global_rank(self, e: Expr, frame: Frame, deep: bool = True) -> Expr | None:
        """The call or variable that gives the global rank, when the expression can be nothing else."""
        ends = self.origins.of(e, frame)
        if not ends:
            return None
        if deep and len(ends) == 1:
            number = self.index_of(ends[0].e, ends[0].frame)
            if number is not None:
                return self.global_rank(number, ends[0].frame, False)
        for o in ends:
            if o.e[0] != "call":
                return None
            name = self.origins.program.qualified(o.e[2], self.origins.scope(o.frame)) or ""
            if name == "builtins.int" and o.e[3]:
                name = "env:" + environment_of(o.e[3][0])
            elif o.e[3] or o.e[4]:
                return None  # the rank in a group
            if name not in knowledge.loader("global_ranks"):
                return None
        return ends[0].e if ends[0].frame.function is frame.function else e

    def index_of(self, e: Expr, frame: Frame) -> Expr | None:
        """The number in `torch.device("cuda", number)`, `torch.device(f"cuda:{number}")` and `f"cuda:{number}"`."""
        if e[0] == "call" and self.origins.program.qualified(e[2], self.origins.scope(frame)) == "torch.device":
            given: tuple[Expr, ...] = (*e[3], *(v for k, v in e[4] if k == "index"))
            if len(given) == 2:
                return given[1]
            e = given[0] if len(given) == 1 else e
        parts: tuple[Expr, ...] = e[2] if e[0] == "fstr" else ()
        return parts[0] if len(parts) == 1 else None

    def one_node(self, module: Module) -> bool:
        """Does the program say that it runs on one machine?"""
        for m in self.origins.options.group(module):
            text = self.program.text(m.path) or ""
            if "localhost" in text or "127.0.0.1" in text or "--standalone" in text:
                return True
        return False


DDP = {"torch.nn.parallel.DistributedDataParallel"}
INIT = {"torch.distributed.init_process_group"}
LOAD = {"torch.load"}
OTHER_LOADS = ("torch import ", "import torch as ", "serialization")
"""Where one of these stands, torch.load may be written in another way; `load(` alone stands in every third file."""


def statement_calls(s: Any) -> list[Expr]:
    return [x for e in expressions_of(s) for x in walk_expr(e) if x[0] == "call"]


def environment_of(e: Expr) -> str:
    """The variable that `os.environ["X"]`, `os.environ.get("X")` or `os.getenv("X")` reads."""
    if e[0] == "sub" and e[2][0] == "attr" and e[2][3] == "environ" and e[3][0] == "const":
        return str(e[3][2])
    if e[0] == "call" and callee_name(e) in ("get", "getenv") and e[3] and e[3][0][0] == "const":
        return str(e[3][0][2])
    return ""


def tests_around(block: Block, pos: int) -> list[Expr]:
    """Tests of the `if` and `while` statements around a position, outermost first."""
    for s in block:
        if contains(s[1], pos) and s[0] not in ("def", "class"):
            out: list[Any] = [s[2]] if s[0] in ("if", "while") else []
            for b in blocks_of(s):
                out += tests_around(b, pos)
            return out
    return []


__all__ = ["Processes", "Site"]


def inside(e: Expr, call: Expr) -> bool:
    """Whether an expression stands in the arguments of a call: `DDP(net.cuda())`."""
    return any(x is e for x in walk_expr(call))
