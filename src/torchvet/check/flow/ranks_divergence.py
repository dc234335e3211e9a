"""One place where ranks part, as rules see it."""

from __future__ import annotations

from ...findings import CERTAIN, ERROR, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Function, Module
    from .ranks_values import Value
    from .traces import Op

STATE_WORDS = ("state", "checkpoint", "save", "full_tensor", "full_params", "load")


SOURCES = {
    "share": Text("each rank has its own share", "每个 rank 有自己的分片"),
    "set": Text("the order of a set differs between processes", "集合的顺序在各进程间不同"),
    "batch": Text("a batch of this rank", "本 rank 的一个批次"),
    "keys": Text("only some ranks have this key", "只有部分 rank 有这个键"),
    "reduced": Text("reduce() leaves the result on one rank", "reduce() 只在一个 rank 上留下结果"),
    "seed": Text("seeded by the rank", "随机种子取决于 rank"),
    "shard": Text("this rank's share of the data", "本 rank 的那一份数据"),
    "number": Text("a test of this rank's own numbers", "对本 rank 自己数值的判断"),
    "clock": Text("the clock of this rank", "本 rank 的时钟"),
    "signal": Text("set when this rank gets the signal", "本 rank 收到信号时设置"),
}


def came_from(name: str) -> Text:
    return Text("the rank comes from {name}", "rank 来自 {name}", name=name)


class Divergence:
    """One place where ranks part.

    `kind`: "guarded" (a collective under a guard), "exit" (after some ranks left), "order", "trips", "leaves" (a loop),
    "roots" (each rank names another source).
    `why` says what data of one rank decides ("number", "clock", "signal", "share", "set"), "" for a rank test;
    "caught": an exception among ranks that a rank test chose.
    `op` is the collective, at `module`, `pos`; `guard` is (module, pos of the test, Value); `exit` the position
    where ranks
    leave, in the guard's module, or None; `origin` (module path, pos, name) where the rank enters; `chain` the calls
    from the
    guard to the collective, (module, pos, name); `rows` who runs what."""

    __slots__ = (
        "chain", "confidence", "exit", "function", "guard", "kind", "leaver", "module", "op", "origin", "pos",
        "rows", "runner",
        "severity", "sure", "why",
    )  # fmt: skip

    def __init__(self, kind: str, op: Op, guard: tuple[Module, int, Value]) -> None:
        self.kind = kind
        self.op = op
        self.module = op.module
        self.pos = op.pos
        self.guard = guard
        self.exit: int | None = None
        self.origin: Any = None
        self.chain: list[tuple[Module, int, str]] = []
        self.rows: list[tuple[Text, Text]] = []
        self.runner: Text = Text("")
        self.leaver: Text = Text("")
        self.function: Function | None = None
        self.sure = True
        self.why = ""
        self.severity = ERROR
        self.confidence = CERTAIN

    @property
    def many(self) -> bool:
        """Whether `runner` is a plural."""
        return str(self.runner).startswith("other") or str(self.runner).endswith("nodes")

    @property
    def by_strategy(self) -> bool:
        """Whether the strategy chosen at run time decides that the call needs every rank: accelerate saves and gathers
        locally under plain DDP."""
        return self.op.family == "accelerate" and self.subject == "state"

    @property
    def place(self) -> Function | None:
        """The function that holds the finding."""
        best: Function | None = None
        line = self.pos >> 44
        for f in self.module.all_functions():
            if f.first_line <= line <= f.end_line and (best is None or f.first_line > best.first_line):
                best = f
        return best

    @property
    def fault(self) -> str:
        """The name of the rule that this is a case of."""
        if self.kind == "roots":
            return "wrong-source-rank"
        if self.kind == "leaves" and self.why == "share":
            return "uneven-loop"
        if self.kind == "trips":
            return "collective-order" if self.why == "set" else "uneven-loop"
        if self.subject == "group" and self.kind in ("guarded", "order"):
            return "group-made-by-some"
        if self.op.row is not None and self.op.row.kind == "stop_flag":
            return "local-stop-decision"
        if self.why == "caught":
            return "collective-after-rank-exit"
        if self.why in ("clock", "signal", "flag") or (self.why in ("shard", "seed") and self.kind == "leaves"):
            return "local-stop-decision"
        if self.why:
            return "local-skip"
        if self.kind == "leaves":
            return "local-stop-decision"
        if self.kind == "exit":
            return "rank-guarded-sharded-state" if self.by_strategy else "collective-after-rank-exit"
        if self.kind == "order":
            return "collective-order"
        names = {
            "group": "group-made-by-some",
            "state": "rank-guarded-sharded-state",
            "forward": "rank-guarded-forward",
        }
        return names.get(self.subject, "rank-guarded-collective")

    @property
    def subject(self) -> str:
        """What the collective is about: "group" (making one), "state" (saving, loading, gathering shards),
        "forward", or
        "collective"."""
        row = self.op.row
        if row is not None and row.kind == "group_create":
            return "group"
        if row is not None and row.kind in ("forward_collective", "backward_collective"):
            return "forward"
        name = self.op.name.lower()
        return "state" if any(w in name for w in STATE_WORDS) else "collective"

    def places(self) -> list[tuple[Module, int, Text]]:
        """The way to the collective: where the rank enters, the guard, where ranks leave, the calls in between."""
        out: list[tuple[Module, int, Text]] = []
        guard, pos, _ = self.guard
        if self.origin is not None and self.origin[1] != pos and self.origin[0] == guard.path:
            out.append((guard, self.origin[1], SOURCES.get(self.why) or came_from(self.origin[2])))
        out.append((guard, pos, Text("ranks part here", "各 rank 在此分开")))
        if self.exit is not None and self.exit != self.pos:
            out.append((guard, self.exit, Text("exit of {who}", "{who} 在此离开", who=self.leaver)))
        for module, at, label in self.chain:
            out.append((module, at, Text("calls {name}", "调用 {name}", name=label)))
        if (self.module, self.pos) != (self.op.module, self.op.pos):
            said = Text("the others call {name}()", "其他 rank 调用 {name}()", name=self.op.name)
            if self.kind == "guarded":
                said = Text("{who}: {name}()", "{who}：{name}()", who=self.runner, name=self.op.name)
            out.append((self.op.module, self.op.pos, said))
        return out

    @property
    def key(self) -> Any:
        """One finding for a guard and a kind of fault: the first collective on which the ranks part."""
        return (self.fault, self.guard[0].path, self.guard[1])
