"""The trace of one function as rows that can be printed: what each abstract rank runs of it, in order.

    shown = Shown(ranks, function)
    shown.places      the abstract ranks that matter here, one column each
    shown.rows        the steps of the function and of what it calls, outer ones first
    shown.reported    the divergences that a check reports
    shown.silent      the differences that it does not: (rule or collective, path, line, why)
    shown.limits      what was not followed, and which budget says so

A guard that depends on the rank is folded for each place; one that is the same everywhere stays as a line, and what is
in it counts as run. A way out that only some ranks take ends their column until where they meet the others again.
"""

from __future__ import annotations

from ...findings import Text
from ..program.model import span_of, walk_block
from .ranks import CALLER_LEVELS, guard_leaves
from .ranks_values import (
    LAST,
    LEADER,
    NODE_LEADER,
    OTHER,
    PER_NODE,
    WORLD_SIZE,
    Place,
    at,
    is_local,
    leaves,
    truth,
    varies,
)
from .traces import HEAVY
from .traces_questions import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Function, Module
    from .ranks import Ranks
    from .ranks_divergence import Divergence
    from .ranks_values import Value
    from .traces import Item, Items, Trace

NO, PERHAPS, YES = 0, 1, 2
"""Whether a rank runs a row: it does not, its own data decides, it does (under the guards shown above the row)."""
MOST_ROWS = 600
LETTERS = "abc"
"""Axes of groups that are shown."""
DEEPEST = 40
SOURCES = {
    "number": Text("each rank decides by its own numbers", "各 rank 按自己的数值决定"),
    "batch": Text("each rank decides by its own batch", "各 rank 按自己的批次决定"),
    "clock": Text("each rank decides by its own clock", "各 rank 按自己的时钟决定"),
    "signal": Text("each rank decides by the signals it gets", "各 rank 按收到的信号决定"),
    "share": Text("each rank has its own share", "每个 rank 有自己的分片"),
    "set": Text("the order of a set differs between processes", "集合的顺序在各进程间不同"),
}
UNSAID = {
    "answered": Text("both ways of the guard run it, in a way that cannot be compared",
                     "分支两侧都会执行，但无法比较"),
    "earlier": Text("it follows from another difference", "由另一处差异引起"),
    "before": Text("who leaves does so before the process group is made", "离开发生在进程组创建之前"),
    "sharded": Text("the guard also asks for something that is the same on every rank, such as sharding",
                    "条件还包含各 rank 相同的判断（例如是否分片）"),
    "members": Text("who is in the group is not known", "组的成员未知"),
}  # fmt: skip
"""Why a difference is not reported (`ranks_explain.unsaid`)."""
OWN_DATA = Text("each rank decides by its own data", "各 rank 按自己的数据决定")


class Row:
    """One line of a trace. `kind`: "op" (a collective; `name`, `group`), "call", "if", "else", "loop", "while", "try",
    "except", "exit", "more". `text` is the source line, `runs` says for each place NO, PERHAPS or YES, `parts` whether
    ranks part here, `note` what is to be known of it."""

    __slots__ = ("depth", "group", "kind", "line", "name", "note", "parts", "path", "runs", "text")

    def __init__(self, kind: str, module: Module, line: int, depth: int, runs: tuple[int, ...]) -> None:
        self.kind = kind
        self.path = module.path
        self.line = line
        self.depth = depth
        self.runs = runs
        self.name = ""
        self.group: Text | None = None
        self.text = ""
        self.note: Text | None = None
        self.parts = False


class Level:
    """Where the ways out of the block that is walked lead: who came back by `return`, by `break`, by `continue`."""

    __slots__ = ("back", "left", "turned")

    def __init__(self, places: int) -> None:
        self.back = [NO] * places
        self.left = [NO] * places
        self.turned = [NO] * places


class Shown:
    def __init__(self, ranks: Ranks, function: Function) -> None:
        self.ranks = ranks
        self.program = ranks.program
        self.function = function
        ranks.suspects.find()  # its words decide what is asked of callers
        self.trace: Trace = ranks.machine.root(function)
        self.places = places_of(self.trace)
        self.rows: list[Row] = []
        self.limits: list[Text] = []
        self._done: dict[int, int] = {}
        self._parting: list[tuple[Row, Module, Value, list[bool | None]]] = []
        self._heads: dict[int, dict[int, Any]] = {}
        level = Level(len(self.places))
        self.walk(self.trace, self.trace.items, 0, (YES,) * len(self.places), level)
        self.fold_columns()
        self.reported: list[Divergence] = []
        self.silent: list[tuple[str, str, int, Text]] = []
        self.judge()
        self.find_limits()

    # ------------------------------------------------------------------------------------------------ rows
    def walk(self, trace: Trace, items: Items, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        """Adds the rows of a block; gives who reaches its end."""
        for item in items:
            if len(self.rows) >= MOST_ROWS:
                return runs
            runs = self.item(trace, item, depth, runs, level)
        return runs

    def row(self, kind: str, trace: Trace, line: int, depth: int, runs: tuple[int, ...]) -> Row:
        row = Row(kind, trace.module, line, depth, runs)
        row.text = self.program.source_line(trace.module, line).strip()
        self.rows.append(row)
        if len(self.rows) == MOST_ROWS:
            row.kind, row.text = "more", ""
            row.note = Text("the trace goes on; trace what is called by itself", "轨迹未完；请单独查看被调用的函数")
        return row

    def item(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        kind = item[0]
        if kind == "op":
            op = item[1]
            row = self.row("op", trace, op.pos >> 44, depth, runs)
            row.path, row.name, row.group = op.module.path, op.name, group_text(op.group)
            if op.doubted:
                row.note = Text("only if the model has buffers", "仅当模型有 buffer 时")
            return runs
        if kind == "call":
            return self.call(trace, item, depth, runs)
        if kind == "if":
            return self.choice(trace, item, depth, runs, level)
        if kind in ("loop", "while"):
            return self.loop(trace, item, depth, runs, level)
        if kind == "try":
            return self.attempt(trace, item, depth, runs, level)
        if kind == "exit":
            return self.leave(trace, item, depth, runs, level)
        return runs

    def leave(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        how = item[1]
        if how == "return" and item is trace.items[-1]:
            return runs  # the end of the function
        row = self.row("exit", trace, item[2] >> 44, depth, runs)
        row.name = how
        if how == "quit":
            row.note = Text("ends the program", "结束程序")
        kept = {"return": level.back, "break": level.left, "continue": level.turned}.get(how)
        for i, r in enumerate(runs):
            if kept is not None:
                kept[i] = max(kept[i], r)
        return (NO,) * len(runs)

    def call(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...]) -> tuple[int, ...]:
        callee: Trace = item[1]
        row = self.row("call", trace, item[2] >> 44, depth, runs)
        row.name = item[3]
        where = place_of(callee)
        if callee.busy:
            row.note = Text("calls itself", "递归调用")
            return runs
        first = self._done.get(id(callee))
        if first is not None and len(callee.items) > 1:
            row.note = Text("as in line {line}", "同第 {line} 行", line=first)
            return runs
        if depth >= DEEPEST:
            row.note = Text("not shown: deeper than {n} calls", "未显示：超过 {n} 层调用", n=DEEPEST)
            return runs
        row.note = where
        if callee.weight > HEAVY:
            row.note = Text(
                "{where}, {n} steps: compared by itself", "{where}，{n} 步：单独比较", where=where, n=callee.weight
            )
            return runs
        self._done[id(callee)] = row.line
        level = Level(len(runs))
        end = self.walk(callee, callee.items, depth + 1, runs, level)
        # an exception ends the job; who comes back goes on
        return tuple([max(e, b) for e, b in zip(end, level.back)])

    def choice(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        guard, then, other = item[1], item[2], item[3]
        if not varies(guard) and all(x[0] == "exit" and x[1] == "raise" for x in (*then, *other)):
            return runs
        own = is_local(guard)
        ways = [truth(at(guard, p)) for p in self.places]
        row = self.row("if", trace, item[5] >> 44, depth, runs)
        made = item[4] == item[5]  # a context manager, a decorator, a callee that is chosen: no `if` of its own
        if varies(guard):
            row.parts = True
            self._parting.append((row, trace.module, guard, ways))
        elif made:
            row.note = Text("not decided: it may not be called", "未确定：可能不会被调用")
        mine = tuple([self.share(r, w, own) for r, w in zip(runs, ways)])
        rest = tuple([self.share(r, None if w is None else not w, own) for r, w in zip(runs, ways)])
        end = self.walk(trace, then, depth + 1, mine, level)
        if other:
            chained = len(other) == 1 and other[0][0] == "if" and self.is_elif(trace, other[0])
            if chained:
                after = self.item(trace, other[0], depth, rest, level)
            else:
                line = item[5] >> 44 if made else self.else_line(trace, first_line(other) or item[5] >> 44)
                self.row("else", trace, line, depth, rest).text = "else:"
                after = self.walk(trace, other, depth + 1, rest, level)
        else:
            after = rest
        out = []
        for r, w, x, y in zip(runs, ways, end, after):
            if w is not None:
                out.append(x if w else y)
            elif own and x != y:
                out.append(min(r, PERHAPS))
            else:
                out.append(max(x, y))
        return tuple(out)

    def else_line(self, trace: Trace, line: int) -> int:
        """The line of the `else:` above a line of its block; that line itself when there is none."""
        for n in range(line, max(0, line - 40), -1):
            if self.program.source_line(trace.module, n).lstrip().startswith("else"):
                return n
        return line

    def is_elif(self, trace: Trace, item: Item) -> bool:
        return self.program.source_line(trace.module, item[5] >> 44).lstrip().startswith("elif")

    def share(self, runs: int, way: bool | None, own: bool) -> int:
        if way is None:
            return min(runs, PERHAPS) if own else runs
        return runs if way else NO

    def loop(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        endless = item[0] == "while"
        body, orelse = (item[2], item[3]) if endless else (item[3], item[4])
        row = self.row(item[0], trace, item[5 if not endless else 4] >> 44, depth, runs)
        if endless and body and body[0][0] == "if" and body[0][4] == item[4] and not varies(body[0][1]):
            body = body[1:]  # its test, which stands in its own line
        inner = Level(len(runs))
        inner.back = level.back
        if not endless:
            row.note, row.parts = self.turns(trace, item)
        before = len(self.rows)
        self.walk(trace, body, depth + 1, runs, inner)
        alone = self.left_alone(before, depth + 1)
        if alone:
            row.parts = True
            row.note = Text(
                "ranks can turn a different number of times: some leave in line {line}",
                "各 rank 的循环次数可能不同：部分 rank 在第 {line} 行离开", line=alone,
            )  # fmt: skip
        end = tuple(inner.left) if endless else runs
        return self.walk(trace, orelse, depth + 1, end, level) if orelse else end

    def turns(self, trace: Trace, item: Item) -> tuple[Text, bool]:
        """How often a `for` turns, and whether ranks differ in it."""
        trip: Value = item[2]
        if varies(trip):
            counts = [at(trip, p) for p in self.places]
            known = [str(c[1]) for c in counts if c[0] in ("rc", "const")]
            leaf = next(leaves(trip))
            if len(known) == len(counts) and len(set(known)) > 1:
                return Text("turns by rank: {counts}", "各 rank 的次数：{counts}", counts=", ".join(known)), True
            why = SOURCES.get(leaf[2], OWN_DATA) if leaf[0] == "local" else SOURCES["share"]
            return Text("the number of turns can differ: {why}", "循环次数可能不同：{why}", why=why), True
        n = self.written_turns(trace, item[5])
        if n is not None:
            return Text("{n} turns", "{n} 次", n=n), False
        return Text("as often on every rank", "各 rank 次数相同"), False

    def written_turns(self, trace: Trace, pos: int) -> int | None:
        """The number in `range(3)`."""
        if trace.function is None:
            return None
        key = id(trace.function)
        if key not in self._heads:
            body = self.program.body(trace.function)
            self._heads[key] = {s[1]: s[3] for s in walk_block(body) if s[0] == "for"}
        e = self._heads[key].get(pos)
        if e is None or e[0] != "call" or e[2][0] != "name" or e[2][2] != "range" or e[4]:
            return None
        numbers = [a[2] for a in e[3] if a[0] == "const" and isinstance(a[2], int)]
        try:
            return len(range(*numbers)) if len(numbers) == len(e[3]) else None
        except (TypeError, ValueError):
            return None

    def left_alone(self, first: int, depth: int) -> int:
        """The line in which some ranks leave a loop that others stay in, else 0."""
        inside = 0  # depth of a loop in the loop, whose breaks are its own
        for row in self.rows[first:]:
            if inside and row.depth <= inside:
                inside = 0
            if row.kind in ("loop", "while") and not inside:
                inside = row.depth
            differ = len(set(row.runs)) > 1 or PERHAPS in row.runs
            if row.kind == "exit" and row.name == "break" and not inside and differ:
                return row.line
        return 0

    def attempt(self, trace: Trace, item: Item, depth: int, runs: tuple[int, ...], level: Level) -> tuple[int, ...]:
        _, body, handlers, orelse, final, pos = item
        held = [h for h in handlers if h[0]]
        if not held:
            end = self.walk(trace, body, depth, runs, level)
        else:
            row = self.row("try", trace, pos >> 44, depth, runs)
            if not row.text.startswith("try"):
                row.text = "try:"
            end = self.walk(trace, body, depth + 1, runs, level)
            for items, at_pos, reraises, _ in held:
                row = self.row("except", trace, at_pos >> 44, depth, tuple([min(r, PERHAPS) for r in runs]))
                row.parts = not reraises
                row.note = (
                    Text("raised again", "重新抛出") if reraises
                    else Text("on a rank that meets the exception alone", "仅在遇到异常的 rank 上执行")
                )  # fmt: skip
                self.walk(trace, items, depth + 1, row.runs, level)
        end = self.walk(trace, orelse, depth + 1 if held else depth, end, level)
        return self.walk(trace, final, depth, end if any(end) else runs, level) if final else end

    def fold_columns(self) -> None:
        """Places that run the same rows as rank 1, or the first of a node, are left out."""
        keep = [0]
        columns = [tuple(r.runs[i] for r in self.rows) for i in range(len(self.places))]
        for i in range(1, len(columns)):
            if all(columns[i] != columns[k] for k in keep[1:]) or "world" not in self.places[i].axes:
                keep.append(i)
        if len(keep) < len(self.places):
            self.places = [self.places[i] for i in keep]
            for r in self.rows:
                r.runs = tuple([r.runs[i] for i in keep])
        for row, module, guard, ways in self._parting:
            row.note = parted(module, guard, self.places, [ways[i] for i in keep])

    # --------------------------------------------------------------------------------------------- judgement
    def judge(self) -> None:
        """Which divergences of this function a check reports, and why not the others."""
        ranks, function = self.ranks, self.function
        found = ranks.of(function)
        kept = ranks.confirmed(function)
        self.reported = [d for d in found if d in kept]
        if self.reported and function not in ranks.suspects.functions():
            passed = Text(
                "a check passes over this function: by its words it does not part ranks, or reaches no collective",
                "检查会跳过此函数：从文字看，它不按 rank 作决定，或不会到达集合通信",
            )
            self.silent = [(d.fault, d.module.path, d.pos >> 44, passed) for d in self.reported]
            self.reported = []
        rest = [d for d in found if d not in kept]
        callers = sorted({f"{c.module.path}:{c.qualname}" for c, _ in ranks.program.callers(function)[:8]})
        made_up = Text(
            "its callers make up for it ({names}; looked at over {n} levels)",
            "其调用者已补足（{names}；向上查看 {n} 层）", names=", ".join(callers), n=CALLER_LEVELS,
        )  # fmt: skip
        for d in rest:
            home = f"{d.guard[0].path}:{d.guard[1] >> 44}"
            elsewhere = Text("reported where the ranks part, {where}", "在各 rank 分开处报告：{where}", where=home)
            why = made_up if self.trace.parts_here else elsewhere
            self.silent.append((d.fault, d.module.path, d.pos >> 44, why))
        said = {(d.op.pos, d.guard[1]) for d in found}
        for why_not, _, pos, op in ranks.unsaid.get(id(function), ()):
            row = (f"{op.name}()", op.module.path, op.pos >> 44, UNSAID[why_not])
            if (op.pos, pos) not in said and row not in self.silent:
                self.silent.append(row)

    def find_limits(self) -> None:
        """What was not followed."""
        ranks, function = self.ranks, self.function
        place = f"{function.module.path}:{function.line} {function.qualname}"
        if place in ranks.machine.over_budget:
            self.limits.append(Text("more functions than are interpreted for one root: later calls are not followed",
                                    "超出单个入口可解释的函数数量：之后的调用未跟踪"))  # fmt: skip
        if place in ranks.gave_up:
            self.limits.append(Text("more ways than are compared: differences behind them are not seen",
                                    "路径过多，未全部比较：其后的差异不可见"))  # fmt: skip
        heavy = {}
        for trace in reached(self.trace):
            if trace.weight > HEAVY and trace.function is not None and trace.function is not function:
                heavy[f"{trace.module.path}:{trace.function.qualname}"] = trace.weight
        for name, weight in sorted(heavy.items()):
            self.limits.append(
                Text("{name} ({n} steps, more than {most}) is compared by itself, as one step here",
                     "{name}（{n} 步，超过 {most}）单独比较，在此处算作一步", name=name, n=weight, most=HEAVY)
            )  # fmt: skip
        if self.trace.weight > HEAVY:
            self.limits.append(
                Text("{n} steps, more than {most}: not looked at inside of its callers",
                     "共 {n} 步，超过 {most}：不在调用者内部查看", n=self.trace.weight, most=HEAVY)
            )  # fmt: skip


def places_of(trace: Trace) -> list[Place]:
    """The abstract ranks that a trace can part."""
    axes = guard_leaves(trace)[0]
    places = []
    if axes & {"world", "local", "node"} or not axes:
        places += [LEADER, OTHER]
    if axes & {"local", "node"}:
        places.append(NODE_LEADER)
    if axes & {"world", "local", "node"}:
        places.append(LAST)
    for letter, axis in zip(LETTERS, other_axes(trace)):
        places += [Place(f"{letter}0", {axis: 0}), Place(f"{letter}1", {axis: 1})]
    return places


def other_axes(trace: Trace) -> list[Any]:
    """The axes of groups on which guards depend, those of the world left out."""
    return sorted(guard_leaves(trace)[0] - {"world", "local", "node"}, key=repr)


def place_name(place: Place) -> str:
    """The head of a column: the number of the rank."""
    world = place.axes.get("world")
    return str(world) if world is not None else place.name


def group_text(group: Any) -> Text:
    """A process group in words."""
    if group == "world":
        return Text("world", "全部 rank")
    if group == "mesh":
        return Text("a device mesh", "某个 device mesh")
    if isinstance(group, str):
        return Text("group {name}", "{name} 组", name=group)
    kind = group[0] if isinstance(group, tuple) and group else ""
    if kind == "ranks":
        return Text("ranks {list}", "rank {list}", list=", ".join(str(r) for r in group[1]))
    if kind in ("copy", "made") and len(group) == 3:
        return Text("the group made in line {line}", "第 {line} 行创建的组", line=group[2] >> 44)
    last = group[-1] if kind in ("named", "mesh") else None
    while isinstance(last, tuple) and last:
        last = last[-1]  # the name of a parameter
    if isinstance(last, str) and last:
        return Text("group {name}", "{name} 组", name=last)
    return Text("a group that is not known", "未知的组")


def parted(module: Module, guard: Value, places: list[Place], ways: list[bool | None]) -> Text:
    """Why ranks take different ways here."""
    leaf = next(iter(leaves(guard)))
    if leaf[0] == "local":
        return SOURCES.get(leaf[2], OWN_DATA)
    yes = [place_name(p) for p, w in zip(places, ways) if w]
    origin = leaf[3]
    source = Text("")
    if origin is not None and origin[0] == module.path:
        source = Text(", the rank of line {line}", "，rank 来自第 {line} 行", line=origin[1] >> 44)
    elif origin is not None:
        source = Text(", the rank of {where}", "，rank 来自 {where}", where=f"{origin[0]}:{origin[1] >> 44}")
    if not yes:
        return Text("ranks may part here{source}", "各 rank 可能在此分开{source}", source=source)
    if len(yes) == len(ways):
        return Text("true on each of these ranks{source}", "在这些 rank 上都为真{source}", source=source)
    return Text("ranks part here: true on {who}{source}", "各 rank 在此分开：在 {who} 上为真{source}",
                who=", ".join(yes), source=source)  # fmt: skip


def place_of(trace: Trace) -> Text:
    f = trace.function
    return Text(f"{trace.module.path}:{f.line}") if f is not None else Text(trace.module.path)


def first_line(items: Items) -> int:
    """The line of the first item of a block."""
    for item in items:
        pos = (
            item[1].pos
            if item[0] == "op"
            else item[2]
            if item[0] in ("call", "exit")
            else item[5]
            if len(item) > 5
            else 0
        )
        if isinstance(pos, int) and pos:
            return span_of(pos)[0]
    return 0


def legend(places: list[Place]) -> Text:
    """What the columns stand for."""
    said = {
        0: Text("0 is the first", "0 为第一个"),
        1: Text("1 another", "1 为另一个"),
        PER_NODE: Text("{n} the first of the next node", "{n} 为下一节点的第一个", n=PER_NODE),
        WORLD_SIZE - 1: Text("{n} the last", "{n} 为最后一个", n=WORLD_SIZE - 1),
    }
    parts = [said[p.axes["world"]] for p in places if "world" in p.axes]
    if parts:
        head = Text("{n} ranks on 2 nodes stand for all", "以 2 个节点上的 {n} 个 rank 代表全部", n=WORLD_SIZE)
        parts[0] = Text("{a}: {b}", "{a}：{b}", a=head, b=parts[0])
    for p in places:
        if "world" not in p.axes and p.name.endswith("0"):
            (axis,) = p.axes
            group = group_text(axis[1] if isinstance(axis, tuple) and axis[0] == "group" else axis)
            parts.append(
                Text("{a}0 and {a}1 are ranks of {group}", "{a}0 和 {a}1 属于{group}", a=p.name[:-1], group=group)
            )
    out = Text("")
    for i, part in enumerate(parts):
        out = Text("{a}, {b}", "{a}，{b}", a=out, b=part) if i else part
    return out
