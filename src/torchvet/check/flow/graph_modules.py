"""In which gradient mode a function runs, and which values are modules."""

from __future__ import annotations

from ... import knowledge
from .graph_build import mentions_switch
from .graph_library import USED
from .graph_summaries import DEEPEST, Summaries
from .graph_values import INHERIT, MAYBE, NOTHING, OFF, ON, Graph, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Function
    from ..program.program import Program


class Modules(Summaries):
    """Adds to the summaries gradient modes and the question `is_module`."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._modes: dict[int, int] = {}
        self._own_modes: dict[int, int] = {}
        self._modules: dict[int, bool] = {}

    def mode(self, f: Function) -> int:
        """In which gradient mode a function runs: OFF when its decorators, its framework or all its callers say so."""
        known = self._modes.get(id(f))
        if known is None:
            self._modes[id(f)] = ON  # recursion
            known = self._modes[id(f)] = self.find_mode(f)
        return known

    def own_mode(self, f: Function) -> int:
        """What decorators and frameworks say; INHERIT when they say nothing."""
        known = self._own_modes.get(id(f))
        if known is None:
            known = self._own_modes[id(f)] = self.find_own_mode(f)
        return known

    def find_own_mode(self, f: Function) -> int:
        no_grad = knowledge.graph("no_grad_contexts")
        setters = knowledge.graph("grad_mode_setters")
        scope = self.program.scope(f)
        outer = scope.parent or scope
        for d in f.decorators:
            e = d[2] if d[0] == "call" else d
            for x in self.program.entities(e, outer):
                if x[0] == "ext" and x[1] in no_grad:
                    return OFF
                if x[0] == "ext" and x[1] in setters:
                    first = d[3][0] if d[0] == "call" and d[3] else None
                    return OFF if first and first[0] == "const" and not first[2] else MAYBE
                if x[0] == "ext" and x[1] in knowledge.graph("enable_grad_contexts"):
                    return ON
                if x[0] == "func" and any(mentions_switch(self.program, g) for g in self.program.with_nested(x[1])):
                    return OFF
        if f.owner is not None:
            hooks = knowledge.graph("no_grad_hooks")
            outside = self.program.bases(f.owner)[1]
            if any(f"{base}.{f.name}" in hooks for base in outside):
                return OFF
            if (
                f.name in knowledge.graph("evaluation_hooks")
                and (outside or not self.program.callers(f, first=1, tests=f.module.in_tests))
                and (set(outside) - {"torch.nn.Module", "abc.ABC"})
            ):
                return OFF
        return INHERIT

    def find_mode(self, f: Function) -> int:
        own = self.own_mode(f)
        if own != INHERIT or f.name == "<module>":
            return own or ON
        found = set()
        for call in self.calls_of(f):
            if call.mode != INHERIT:
                found.add(call.mode)
            else:
                found.add(self.mode(call.graph.function))
        if f.parent is not None and not found:
            return self.mode(f.parent)
        if not found or ON in found:
            return ON
        return OFF if found == {OFF} else MAYBE

    def mode_at(self, node: Node) -> int:
        """The gradient mode in which a node is made."""
        return node.mode if node.mode != INHERIT else self.mode(node.graph.function)

    def is_module(self, node: Node, depth: int = 0) -> bool:
        """Is a value known to be a module: by its class, by what is called on it, by what callers pass."""
        if node is NOTHING or depth > DEEPEST:
            return False
        known = self._modules.get(id(node))
        if known is not None:
            return known
        key = ("module", id(node))
        if key in self._busy:
            return False
        self._busy.add(key)
        try:
            found = self._is_module(node, depth)
        finally:
            self._busy.discard(key)
        if found or depth == 0:
            self._modules[id(node)] = found
        return found

    def is_module_class(self, cls: Class) -> bool:
        bases = knowledge.graph("module_bases")
        return any(o in bases or is_factory(o) for o in self.program.bases(cls)[1])

    def _is_module(self, node: Node, depth: int) -> bool:
        kind = node.kind
        if kind == "object":
            if isinstance(node.data, str):
                return is_module_name(node.data)
            return self.is_module_class(node.data)
        if kind == "call" and node.data.external is not None:
            # `torch.compile(step)` is a function
            given = node.data.arguments if node.data.external in knowledge.graph("returns_arguments") else ()
            return is_factory(node.data.external) and not any(self.functions(n) for n in given)
        if kind == "call" and node.data.method in knowledge.graph("model_factory_methods"):
            return True
        if self.treated_as_module(node):
            return True
        if kind in ("join", "phi"):
            return any(self.is_module(n, depth + 1) for n in node.inputs)
        if kind == "call":
            return any(self.is_module(r, depth + 1) for f, _ in self.targets(node)[:2] for r in self.returned(f)[:4])
        if kind == "free":
            return any(self.is_module(n, depth + 1) for n in self.bound(node)[:4])
        if kind == "param":
            if node.data == node.graph.self_name and node.graph.function.owner:
                return self.is_module_class(node.graph.function.owner)
            scope = self.program.scope(node.graph.function)
            for x in self.program.entities(("name", node.pos, node.data), scope):
                if (x[0] == "inst" and self.is_module_class(x[1])) or (x[0] == "extinst" and is_module_name(x[1])):
                    return True
            return depth < 3 and any(self.is_module(n, depth + 1) for n, _ in self.passed(node)[:4])
        if kind in ("elem", "iter"):
            if node.data == ".module" and self.is_module(node.inputs[0], depth + 1):
                return True
            return any(
                n is not node and self.is_module(n, depth + 1) for n, _ in self.parts_of(node, (), depth + 1)[:8]
            )
        return False

    def treated_as_module(self, node: Node) -> bool:
        """Is a method of modules called on the value here, or on the same attribute elsewhere in the class?"""
        if self.module_uses(node.graph).get(node):
            return True
        me = node.graph.params.get(node.graph.self_name) if node.graph else None
        if node.kind == "elem" and me is not None and node.inputs[0] is me and node.graph.function.owner:
            for method in self.holders(node.graph.function.owner, node.data, USED):
                graph = self.graph(method)
                other = graph.params.get(graph.self_name)
                if other is not None:
                    twin = graph.elements.get((id(other), node.data))
                    if twin is not None and self.module_uses(graph).get(twin):
                        return True
        return False

    def module_uses(self, graph: Graph) -> dict[Node, bool]:
        if graph.module_uses is None:
            uses = graph.module_uses = {}
            methods = knowledge.graph("module_methods")
            for _, node, _ in graph.evals:
                uses[node] = True
            for node in graph.calls.values():
                if node.kind == "call" and node.data.method in methods and node.data.external is None:
                    uses[node.data.receiver] = True
        found: dict[Node, bool] = graph.module_uses
        return found


def is_factory(name: str) -> bool:
    """Does calling this name make a module?"""
    if name in knowledge.graph("model_factories"):
        return True
    return name.startswith(tuple(knowledge.graph("model_factory_prefixes")))


def is_module_name(name: str) -> bool:
    """Is an instance of this outside class a module whose result has a graph of its own?"""
    return (
        name in knowledge.graph("parametric_modules")
        or name in knowledge.graph("module_bases")
        or name in knowledge.graph("engine_classes")
        or name in knowledge.graph("container_modules")
        or is_factory(name)
    )
