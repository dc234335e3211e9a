"""Flags that one rank sets by itself: a field written under a rank test (`if trainer.is_main: trainer.should_stop =
True`)
or in a signal handler, and read where all ranks decide.

A field counts only when nothing ever agrees on it: no assignment holds a reduced or broadcast value, and no line
that names
it communicates.
"""

from __future__ import annotations

from ..program.model import blocks_of, dotted
from ..source.patterns import Later, of_names
from .ranks_batches import of_this_rank
from .ranks_values import REDUCED, UNKNOWN, depends_on_rank, op, truth, varies
from .traces import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Function, Module
    from .ranks_frames import Frame
    from .ranks_names import Names
    from .ranks_values import Value
    from .traces import Item, Trace

AGREES = Later(r"reduce|broadcast|gather|sync|any_rank|all_rank|agree|check_trigger")


class Flags:
    def __init__(self, names: Names) -> None:
        self.names = names
        self._known: dict[Any, Value | None] = {}

    def value(self, module: Module, name: str) -> Value | None:
        """What is known of a field beyond its assignments in the class: a value that depends on the rank or on this
        rank's
        own signals, or None."""
        from posixpath import dirname

        key = (dirname(module.path), name)
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self.find(module, name)
        return self._known[key]

    def find(self, module: Module, name: str) -> Value | None:
        program = self.names.program
        needle = f".{name}"
        written = of_names(rf"\.{name}\s*(?:=(?!=)|[-+]=)")
        found: Value | None = None
        for path in dict.fromkeys((module.path, *self.names.near(module.path))):
            text = program.text(path) or ""
            if needle not in text:
                continue
            other = program.modules.get(path)
            if other is None:
                continue
            for row in program.lines_with(path, needle):
                if AGREES.search(program.source_line(path, row).replace(name, "")):
                    return None
            if not written.search(text):
                continue
            for f in other.all_functions():
                if written.search(self.names.suspects.text_of(f)):
                    v = self.written(f, name, text)
                    if v == REDUCED:
                        return None
                    found = found or v
        return found

    def shared(self, module: Module, name: str, functions: list[Function]) -> Value | None:
        """A name of a module that a signal handler among its writers sets, and on which nothing agrees."""
        program = self.names.program
        text = program.text(module.path) or ""
        if "signal.signal(" not in text:
            return None
        found = next((v for f in functions if (v := set_by_signal(f, name, text))), None)
        if found is None:
            return None
        for row in program.lines_with(module.path, name):
            if AGREES.search(program.source_line(module.path, row).replace(name, "")):
                return None
        return found

    def written(self, f: Function, name: str, text: str) -> Value | None:
        """What a function's writes to a field make it depend on; REDUCED when one of them is an agreed value."""
        program = self.names.program
        if "signal.signal(" in text and (told := set_by_signal(f, name, text)):
            return told
        if not self.names.suspects.is_ranked(f):
            return None
        frame = self.names.pure_frame(f)
        found: Value | None = None
        todo: list[tuple[Block, tuple[Value, ...]]] = [(program.body(f), ())]
        while todo:
            block, guards = todo.pop()
            for s in block:
                written = s[0] == "assign" and any(t[0] == "attr" and t[3] == name for t in s[2])
                if written and self.names.pure(frame, s[3]) == REDUCED:
                    return REDUCED
                if s[0] in ("assign", "aug"):
                    targets = s[2] if s[0] == "assign" else (s[3],)
                    plain = s[0] == "aug" or (s[3][0] == "const" and s[3][2] is not None)
                    if plain and any(t[0] == "attr" and t[3] == name for t in targets):
                        ranked = [g for g in guards if depends_on_rank(g)]
                        if ranked:
                            key = ("flag", f.module.path, s[1])
                            found = op("sel", ranked[0], ("sym", (*key, "set")), ("sym", (*key, "unset")))
                elif s[0] == "if":
                    test = self.names.pure(frame, s[2])
                    todo.append((s[3], (*guards, test) if varies(test) else guards))
                    todo.append((s[4], (*guards, op("not", test)) if varies(test) else guards))
                else:
                    todo += [(b, guards) for b in blocks_of(s)]
        return found


def asked_to_stop(f: Frame, t: Expr, value: Value) -> None:
    """`control.should_training_stop = True`: the loop of a framework ends on this rank, and the others wait in the next
    step of training. Nothing is said where some line of the module agrees on the field."""
    row = f.machine.suspects.stops.get(t[3])
    if row is None or row.family not in f.machine.hosts(f.module) or truth(value) is False:
        return
    if not varies(value) and not any(map(varies, f.path)):
        return  # all of them end
    holder = str(t[2][-1]).lower() if t[2][0] in ("name", "attr") else ""
    if holder not in row.name.lower().split(".")[-2]:
        return
    program = f.machine.program
    for number in program.lines_with(f.module.path, f".{t[3]}"):
        if AGREES.search(program.source_line(f.module.path, number).replace(t[3], "")):
            return
    stop: Item = ("op", Op(STEP, f"stop:{t[3]}", "world", f.module, t[1], row, False, row.family))
    f.items.append(("if", value, (stop,), (), t[1], t[1]) if varies(value) else stop)


STEP = "training_step"
"""What the ranks that go on run next."""


def set_by_signal(f: Function, name: str, text: str) -> Value | None:
    """What `name` is when `f`, which writes it, is registered as a signal handler in the text of its module."""
    if of_names(rf"signal\.signal\([^)]*\b{f.name}\b").search(text) is None:
        return None
    return ("local", ("signal", f.module.path, name), "signal", (f.module.path, f.pos, name))


def set_by_some(f: Frame, function: Function, e: Expr) -> None:
    """A method that only some ranks call leaves its object's plain fields as they were on the others: `if rank == 0:
    stopper(loss)`, then `if stopper.stop` on all."""
    ranked = next((g for g in f.path if depends_on_rank(g)), None)
    held = e[2][2] if e[2][0] == "attr" and e[2][3] == function.name else e[2]
    whole = dotted(held) if function.is_method and function.name != "__init__" else None
    me = function.params[0][0] if whole and function.params else ""
    if ranked is None or not me or whole == me:
        return
    for s in f.machine.program.statements(function):
        if s[0] != "assign" or s[3][0] != "const" or not isinstance(s[3][2], bool):
            continue
        for t in s[2]:
            if t[0] == "attr" and t[2][0] == "name" and t[2][2] == me:
                key = ("some", f.module.path, e[1], t[3])
                f.put(f"{whole}.{t[3]}", op("sel", ranked, ("sym", (*key, "set")), ("sym", (*key, "unset"))))


def told(f: Frame, trace: Trace, function: Function, bound: dict[str, Value], e: Expr, given: bool) -> None:
    """A method that is given data of this rank alone leaves it, and decisions on it, in its object: `stopper(loss)`,
    then `if stopper.stop`. One that is not may agree on what is there: `meter.all_reduce()`."""
    held = e[2][2] if e[2][0] == "attr" and e[2][3] == function.name else e[2]
    whole = dotted(held) if function.is_method and function.params else None
    if whole is None or not (given or whole.partition(".")[0] in f.dots):
        return
    for field, v in f.machine.left_in(trace, function.params[0][0]).items():
        name = f"{whole}.{field}"
        if "." in field:
            continue
        if given and of_this_rank(v):
            f.put(name, f.machine.substituted(v, function, bound))
        elif not of_this_rank(v) and of_this_rank(f.env.get(name, UNKNOWN)):
            f.put(name, REDUCED if v == REDUCED else f.sym(e[1], name))
