"""Forward passes in evaluation that record a graph nobody uses.

A forward counts as evaluation when the module was put into evaluation mode before it, on the same way through the
function or by the caller that passes the module. It is a fault when gradients are on for every known caller and no
backward runs over its result on that way.
"""

from __future__ import annotations

from .graph_marks import Marks
from .graph_preparing import may_repeat_in
from .graph_values import INHERIT, NOTHING, OFF, ON, Graph, Node, contradict, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Function, Module
    from .graph_values import Guards

WANTS_GRADIENTS = (
    "requires_grad_(",
    "requires_grad = True",
    "requires_grad=True",
    "autograd.grad(",
    ".retain_grad(",
    "enable_grad(",
)
"""Words by which a function says that it needs gradients of what it evaluates: attacks, attributions, meta-learning."""

PLAIN_BASES = {"torch.nn.Module", "abc.ABC", "builtins.object", "typing.Generic", "torch.nn.Sequential"}


class Unguarded:
    """A forward in evaluation with gradients on. `pos` of the call in `function`; `eval_at` where evaluation begins."""

    __slots__ = ("call", "eval_at", "function", "module", "name", "pos")

    def __init__(self, function: Function, node: Node, name: str, eval_at: tuple[Module, int]) -> None:
        self.function = function
        self.module: Module = function.module
        self.call = node
        self.pos = node.pos
        self.name = name
        self.eval_at = eval_at


class Evaluations(Marks):
    """Adds the question `unguarded_in`."""

    def unguarded_in(self, f: Function) -> Iterator[Unguarded]:
        text = self.text(f)
        if ".eval()" not in text and ".train(False)" not in text:
            return
        if f.name == "__init__" or self.wants_gradients(f):
            return
        graph = self.graph(f)
        if not graph.evals:
            return
        for node in sorted(graph.calls.values(), key=lambda n: n.pos):
            if node.kind != "call" or not node.data.evals or node.mode not in (INHERIT, ON):
                continue
            entry = self.evaluated(node, self.callee(node))
            if entry is None and node.data.receiver is not NOTHING:
                entry = self.evaluated(node, node.data.receiver)
                if entry is not None and not (self.targets(node) and self.carry(node)):
                    entry = None
            if entry is not None and self.is_forward(node):
                if self.is_idle(graph, node, entry) and self.mode_at(node) == ON and not self.is_handed_on(f):
                    yield Unguarded(f, node, self.name_of_callee(node), (f.module, entry[1]))
                    return
                continue
            yield from self.in_callee(graph, node)

    def evaluated(self, node: Node, module: Node) -> tuple[Guards, int] | None:
        """(tests under which, position where) the module was put into evaluation mode on the way to a call."""
        for key in (module, module.inputs[0] if module.kind == "elem" and module.data == ".module" else None):
            if key is None:
                continue
            for guards, evaluates, pos in node.data.evals.get(key, ()):
                if evaluates and not contradict(guards, node.guards):
                    return guards, pos
        return None

    def is_forward(self, node: Node) -> bool:
        """Is the module itself called, with something that is no string or number?"""
        call = node.data
        return bool(call.expr[3] or call.expr[4]) and not call.external

    def is_idle(self, graph: Graph, node: Node, entry: tuple[Guards, int]) -> bool:
        """No backward goes over the result, and the forward is run again and again."""
        guards, eval_pos = entry
        nest = nest_of(node.loop)
        for event in self.events(graph):
            if contradict(event.guards, guards):
                continue
            if node in event.reached or (event.consumes and event.loop is node.loop):
                return False
            # a frozen network inside a training loop: its result is a target
            if nest and nest[0] in nest_of(event.loop) and not self.lies_in(eval_pos, nest[0].pos):
                return False
        switches = any(mode == OFF for _, mode in graph.switches)
        if not nest and (switches or not any(c.loop for c in self.calls_of(graph.function))):
            return False
        if self.is_run_by_framework(graph.function):
            return False
        return not self.fate(node, graph).trained

    def is_run_by_framework(self, f: Function) -> bool:
        """A method of a class with a base outside the project that nobody in the project calls: its framework does."""
        if f.owner is None or self.calls_of(f):
            return False
        return bool(set(self.program.bases(f.owner)[1]) - PLAIN_BASES)

    def lies_in(self, pos: int, loop: int) -> bool:
        """Does a position lie in the lines of a loop?"""
        line = pos >> 44
        first = loop >> 44
        return first <= line <= first + (loop >> 12 & 0xFFFFF)

    def in_callee(self, graph: Graph, node: Node) -> Iterator[Unguarded]:
        """A call that hands an evaluated module to a function which runs it."""
        if not self.hands_module(node):
            return
        for f, _ in self.targets(node)[:2]:
            if f is graph.function or self.own_mode(f) == OFF or self.wants_gradients(f):
                continue
            if not self.may_forward(f, node.loop is not None):
                continue
            inner = self.graph(f)
            for called in sorted(inner.calls.values(), key=lambda n: n.pos):
                if called.kind != "call" or called.mode not in (INHERIT, ON) or called.data.evals:
                    continue
                outer = self.as_seen(inner, self.callee(called), node)
                entry = self.evaluated(node, outer) if outer is not NOTHING else None
                if entry is None or not self.is_forward(called):
                    continue
                repeated = called.loop is not None or node.loop is not None
                trained = any(called in e.reached for e in self.events(inner)) or any(
                    node in e.reached and not contradict(e.guards, entry[0]) for e in self.events(graph)
                )
                if not repeated or trained or self.mode_at(node) != ON or self.mode_at(called) != ON:
                    continue
                handed_on = self.is_handed_on(f) or self.is_handed_on(graph.function)
                if not self.fate(called).trained and not handed_on:
                    yield Unguarded(f, called, self.name_of_callee(called), (graph.function.module, entry[1]))
                    return

    def hands_module(self, node: Node) -> bool:
        """Does a call hand on an evaluated module, by itself, in a container or as an attribute of its receiver?"""
        call = node.data
        given = {*call.arguments, *call.keywords.values()}
        bases = {call.receiver, call.callee, self.callee(node), node}
        for module in call.evals:
            while module is not NOTHING:
                if module in given or (module.kind == "elem" and module.inputs[0] in bases):
                    return True
                module = module.inputs[0] if module.kind == "elem" and module.data == ".module" else NOTHING
        return any(n.kind in ("box", "tuple", "op", "snap") for n in given)

    def may_forward(self, f: Function, looping: bool) -> bool:
        """May a function call what it is given again and again, by its text (`looping`: it is called so itself)? One
        that trains is looked at by itself."""
        text = self.text(f)
        if ".backward(" in text or not (looping or may_repeat_in(text)):
            return False
        return any(f"{p[0]}{'.' if f.is_method and i == 0 else '('}" in text for i, p in enumerate(f.params))

    def as_seen(self, inner: Graph, callee: Node, site: Node) -> Node:
        """A callee's module as the caller names it."""
        if callee.kind == "param" and callee.data != inner.self_name:
            return self.argument(site, inner.function, callee.data)
        if callee.kind == "elem" and callee.inputs[0].kind == "param" and callee.inputs[0].data == inner.self_name:
            receiver = self.argument(site, inner.function, inner.self_name)
            found: Node = site.graph.elements.get((id(receiver), callee.data), NOTHING)
            return found
        return NOTHING

    def wants_gradients(self, f: Function) -> bool:
        text = self.text(f)
        return any(word in text for word in WANTS_GRADIENTS)

    def is_handed_on(self, f: Function) -> bool:
        """Is the function passed on as a value (a callback of a framework, which may switch gradients off)?"""
        name = f.name
        for g in (self.program.main(f.module), *self.functions_in(f.module)):
            if g.name != "<module>" and name not in self.text(g):
                continue
            called = {
                id(e[2]) for h in self.program.with_nested(g) for e in self.program.expressions(h) if e[0] == "call"
            }
            for h in self.program.with_nested(g):
                for e in self.program.expressions(h):
                    if (
                        e[0] in ("name", "attr")
                        and e[-1] == name
                        and id(e) not in called
                        and (e[0] == "attr") == (f.owner is not None)
                    ):
                        return True
        return False

    def name_of_callee(self, node: Node) -> str:
        expr = node.data.expr[2]
        return self.text_at(node.graph, expr)
