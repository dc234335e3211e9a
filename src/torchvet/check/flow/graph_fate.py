"""What becomes of a value later: does backward ever run over it, or does it go where nobody can see? And where does
what a method is handed come from: a layer behind others gets activations, the first one gets the batch of the loader.
"""

from __future__ import annotations

from ... import knowledge
from .graph_carry import Carrying
from .graph_library import CALLED
from .graph_summaries import DEEPEST
from .graph_values import MAYBE, NOTHING, OFF, Graph, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Class, Function
    from ..program.program import Program
    from .graph_summaries import Sites

REACH = 600
"""Nodes visited for one question."""


LEVELS = 4
"""Callers of callers asked for what they hand on."""
STEPS = 240
"""Values followed for one question."""
MOST_NAMES = 60
"""Values followed to find the calls of a module."""
INSIDE = 3
"""Calls into calls followed for what they give."""
HOLDING = ("Sequential(", "ModuleList(", "ModuleDict(")
"""What holds modules that are called out of sight."""


class Fate:
    __slots__ = ("trained", "unknown")

    def __init__(self) -> None:
        self.trained = False
        self.unknown = False


class Fates(Carrying):
    """Adds to `Carrying` the question `fate`."""

    def fate(self, start: Node, beyond: Graph | None = None) -> Fate:
        """Follows a value forward, through calls, returns and attributes; backward calls in `beyond` do not count."""
        fate = Fate()
        seen: set[tuple[int, int]] = set()
        stack: list[tuple[Node, Sites]] = [(start, ())]
        while stack and not fate.trained:
            node, sites = stack.pop()
            mark = (id(node), id(sites[-1]) if sites else 0)
            if mark in seen or node is NOTHING or node.graph is None:
                continue
            seen.add(mark)
            if len(seen) > REACH:
                fate.unknown = True
                break
            graph = node.graph
            if graph is not beyond and any(node in e.nodes or node in e.accs for e in self.events(graph, not sites)):
                fate.trained = True
                break
            if node.kind == "acc" and node.data.how in ("append", "comp", "item"):
                at: Node | None = node.data.place
                while at is not None:
                    stack.append((at, sites))
                    if at.kind == "elem" and at.data[0] == "." and at.inputs[0].kind == "param":
                        self.follow_holder(at.inputs[0], sites, stack, fate)
                        break
                    at = at.inputs[0] if at.kind in ("elem", "phi", "join", "acc") and at.inputs else None
            if node.kind == "free":  # a container of the function around
                stack += [
                    (n, ()) for n in self.bound(node) if n.kind in ("box", "object", "phi", "join", "elem", "param")
                ]
            for user in self.users(graph).get(node, ()):
                self.follow(node, user, sites, stack, fate)
            if node in graph.returns or any(node is y for y, _ in graph.yields):
                self.leave(graph.function, sites, stack, fate)
            for key, left in graph.attributes.items():
                if node in left:
                    self.readers(graph, key, stack)
            if node.kind == "elem" and node.data[:1] == "." and node.inputs[0].kind == "param":
                self.readers(graph, node.data, stack)
        return fate

    def follow_holder(self, holder: Node, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        """Follows an object of which one attribute holds the value: where it goes as a whole, not its other parts."""
        for user in self.users(holder.graph).get(holder, ()):
            if user.kind != "elem" or user.data[0] != ".":
                self.follow(holder, user, sites, stack, fate)

    def follow(self, node: Node, user: Node, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        if user.kind == "acc" and user.data.place is node and user.data.how in ("append", "comp", "item"):
            return  # something else is put into the same container
        if user.kind not in ("call", "object"):
            stack.append((user, sites))
            return
        stack.append((user, sites))
        found = self.targets(user)
        if found:
            for f, _ in found[:3]:
                if len(sites) >= DEEPEST:
                    fate.unknown = True
                    continue
                graph = self.graph(f)
                for name, param in graph.params.items():
                    if self.argument(user, f, name) is node:
                        stack.append((param, (*sites, user)))
            return
        if user.kind == "object" or (user.data.receiver is node and node.kind in ("param", "free", "elem")):
            return
        call = user.data
        if call.external in knowledge.graph("sanitising_calls"):
            return
        if self.is_loss(self.callee(user)):
            return
        fate.unknown = True

    def leave(self, f: Function, sites: Sites, stack: list[tuple[Node, Sites]], fate: Fate) -> None:
        if sites:
            stack.append((sites[-1], sites[:-1]))
            return
        calls = self.calls_of(f)
        stack += [(call, ()) for call in calls]
        if not calls and f.owner is not None and self.is_module_class(f.owner):
            fate.unknown = True  # whoever runs the module trains what it returns

    def readers(self, graph: Graph, key: str, stack: list[tuple[Node, Sites]]) -> None:
        """Where an attribute is read: in the methods of its class, and by that name in the same module."""
        f = graph.function
        others = list(self.holders(f.owner, key)) if f.owner is not None else []
        for g in (self.program.main(f.module), *self.functions_in(f.module)):
            if g not in others and key in self.text(g):
                others.append(g)
        for g in others[:24]:
            for (_, k), element in list(self.graph(g).elements.items()):
                if k == key and element.inputs[0].kind in ("param", "free", "object", "call", "phi", "join"):
                    stack.append((element, ()))


class Inputs(Fates):
    """Adds the questions `may_take_graph` and `is_activation`."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._runs: dict[int, list[Node]] = {}
        self._makers: dict[int, list[tuple[str, int]]] = {}

    def may_take_graph(self, graph: Graph, used: set[Node]) -> bool:
        """May what a method gets for some of its parameters carry a graph? Where no call of it is known: is it that of
        a layer, which returns something made of them and is not itself the outermost module?"""
        f = graph.function
        calls = self.runs_of(f)
        if calls:
            return any(self.is_given_activation(param, LEVELS, True) for param in used)
        me = graph.params.get(graph.self_name)
        if not self.gives_input(graph, {n for n in graph.params.values() if n is not me}):
            return False
        return f.owner is None or not self.makers_of(f.owner) or self.is_part(f.owner)

    def runs_of(self, f: Function) -> list[Node]:
        """The known calls of a function; of the forward of a module, those of its instances."""
        if f.name not in ("forward", "__call__") or f.owner is None:
            return self.calls_of(f)
        known = self._runs.get(id(f))
        if known is None:
            known = self._runs[id(f)] = self.calls_of_instances(f.owner)
        return known

    def is_trained_through(self, f: Function) -> bool:
        """Does backward run over what a call of a method gives, or over what its caller gives to whoever calls that?"""
        level = [f]
        for _ in range(LEVELS):
            calls = [call for g in level for call in self.runs_of(g)]
            if any(call in e.reached for call in calls for e in self.events(call.graph)):
                return True
            level = [call.graph.function for call in calls]
        return False

    def calls_of_instances(self, cls: Class) -> list[Node]:
        """The calls of instances of a class, followed from where they are made: under local names, in attributes,
        through parameters and results."""
        stack: list[Node] = []
        for path, row in self.makers_of(cls):
            module = self.program.module(path)
            for f in self.program.functions_on(module, [row]) if module is not None else ():
                nodes = self.graph(f).nodes
                stack += [n for n in nodes if n.kind == "object" and n.pos >> 44 == row and n.data is cls]
        for method in cls.methods.values():
            if method.is_method and method.params and f"{method.params[0][0]}(" in self.text(method):
                stack.append(self.graph(method).params[method.params[0][0]])  # `self(x)`
        out: list[Node] = []
        seen: set[Node] = set()
        while stack and len(seen) < MOST_NAMES:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            out += [n for n in node.graph.calls.values() if n.kind == "call" and self.callee(n) is node]
            stack += self.names_of(node)
        return out

    def names_of(self, node: Node) -> list[Node]:
        """What else an instance is known by: where it goes from one value."""
        graph, f = node.graph, node.graph.function
        out: list[Node] = []
        for user in self.users(graph).get(node, ()):
            if self.stands_for(node, user):
                out.append(user)
            elif user.kind == "call":
                out += self.handed_back(node, user)
                for g, _ in self.targets(user)[:3]:
                    out += [p for name, p in self.graph(g).params.items() if self.argument(user, g, name) is node]
            elif user.kind == "object":
                for g, _ in self.targets(user)[:1]:
                    out += [p for name, p in self.graph(g).params.items() if self.argument(user, g, name) is node]
        if node in graph.returns:
            out += self.calls_of(f)
        for key, left in graph.attributes.items():
            if node in left and f.owner is not None:
                for method in self.holders(f.owner, key, CALLED):
                    inner = self.graph(method)
                    me = inner.params.get(inner.self_name)
                    if me is not None:
                        out.append(self.element_of(me, key))
        return out

    def stands_for(self, module: Node, user: Node) -> bool:
        """Is a value made of a module called in its place: a merge, what wraps it, a `Sequential` that it begins?"""
        if user.kind == "op":
            return user.data in knowledge.graph("returns_self")
        if user.kind != "object":
            return user.kind in ("phi", "join")
        if user.data in knowledge.graph("chaining_modules"):
            return user.inputs[:1] == (module,)
        return user.data in knowledge.graph("engine_classes")

    def handed_back(self, node: Node, call: Node) -> list[Node]:
        """What a call gives back for an argument, where it gives back its arguments: `prepare(model, loader)`."""
        names = {name.rpartition(".")[2] for name in knowledge.graph("returns_arguments")}
        given = call.data.arguments
        if (call.data.method or (call.data.external or "").rpartition(".")[2]) not in names or node not in given:
            return []
        part: Node | None = call.graph.elements.get((id(call), f"[{given.index(node)}]"))
        return [part] if part is not None else [call]

    def makers_of(self, cls: Class) -> list[tuple[str, int]]:
        """(file, line) of the calls that by their text make an instance of a class."""
        known = self._makers.get(id(cls))
        if known is None:
            paths = [p for p in sorted(self.program.files_naming((cls.name,))) if self.names_class(p, cls)]
            known = [(path, row) for path in paths for row in self.program.rows_calling(path, cls.name)]
            self._makers[id(cls)] = known
        return known

    def names_class(self, path: str, cls: Class) -> bool:
        """Is it this class, not another one of its name, that a file calls so, as far as its imports tell?"""
        module = self.program.module(path)
        if module is None or path == cls.module.path or cls.name not in module.names:
            return module is not None
        found = self.program.entity(("name", 0, cls.name), self.program.module_scope(module))
        return found is None or (found[0] == "class" and found[1] is cls)

    def is_activation(self, value: Node, levels: int, parts: bool = False) -> bool:
        """Is a value computed from what a module gave with gradients on, here, in what is called here, or in a caller
        that passes it? `parts`: what a module gets that only stands in another one may be."""
        stack: list[tuple[Node, Sites]] = [(value, ())]
        seen: set[tuple[Node, Sites]] = set()
        while stack and len(seen) < STEPS:
            node, sites = stack.pop()
            if (node, sites) in seen or (node.kind in ("op", "call") and self.mode_at(node) in (OFF, MAYBE)):
                continue
            seen.add((node, sites))
            if node.kind == "call":
                found = self.targets(node) if node.data.external is None and len(sites) < INSIDE else []
                if self.made_by_object(node) and not found and not self.is_loss(self.callee(node)):
                    if self.callee(node).kind == "iter" or self.may_be_frozen(node):
                        continue
                    return True
                for f, _ in found[:2]:
                    stack += [(r, (*sites, node)) for r in self.returned(f)]
                if not found:
                    given = node.data.arguments if node.data.receiver.kind in ("param", "free") else node.inputs
                    stack += [(n, sites) for n in given]
            elif node.kind in ("op", "elem", "iter", "join", "phi", "tuple", "acc"):
                if node.kind == "elem" and self.is_weight(node):
                    return True
                stack += [(n, sites) for n in node.inputs]
            elif node.kind == "param" and node.data != node.graph.self_name:
                f = node.graph.function
                if sites and any(g is f for g, _ in self.targets(sites[-1])):
                    stack.append((self.argument(sites[-1], f, node.data), sites[:-1]))
                elif levels and self.is_given_activation(node, levels - 1, parts):
                    return True
        return False

    def is_given_activation(self, param: Node, levels: int, parts: bool) -> bool:
        """Do callers pass an activation for a parameter? A module that only stands in another one is called there."""
        f = param.graph.function
        calls = self.runs_of(f)
        for call in calls:
            given = NOTHING if self.mode_at(call) in (OFF, MAYBE) else self.argument(call, f, param.data)
            if given is not NOTHING and self.is_activation(given, levels, parts):
                return True
        if calls or not parts or f.owner is None:
            return False
        return self.is_module_class(f.owner) and self.is_part(f.owner)

    def may_be_frozen(self, call: Node) -> bool:
        """Is what is called a part of the class whose parameters it tells to need no gradients?"""
        callee, owner = self.callee(call), call.graph.function.owner
        if owner is None or callee.kind != "elem":
            return False
        return any("requires_grad" in self.text(m) for m in self.holders(owner, callee.data))

    def is_weight(self, node: Node) -> bool:
        """Is an attribute of a module one of its parameters?"""
        owner = node.graph.function.owner
        if owner is None or node.inputs[0] is not node.graph.params.get(node.graph.self_name):
            return False
        held = self.heap(owner, node.data) if any("Parameter(" in self.text(m) for m in owner.methods.values()) else []
        return any(n.kind == "object" and n.data in knowledge.graph("parameter_classes") for n in held)

    def is_part(self, cls: Class) -> bool:
        """Is a module made where another one is put together, by the texts around the places that make it?"""
        for path, row in self.makers_of(cls):
            first, _ = self.lines_around(path, row)
            text = self.text_around(path, row)
            if "def __init__(" in self.program.source_line(path, first) or any(word in text for word in HOLDING):
                return True
        return False

    def gives_input(self, graph: Graph, inputs: set[Node]) -> bool:
        """Does the result of the function depend on its inputs by arithmetic: are they activations?"""
        return any(n in inputs for r in graph.returns for n in self.leaves(r, ()))

    def leaves(self, node: Node, sites: Sites) -> set[Node]:
        """Parameters and attributes of the function from which a value is computed, through project calls."""
        out: set[Node] = set()
        stack: list[tuple[Node, Sites]] = [(node, sites)]
        seen: set[tuple[int, int]] = set()
        while stack and len(seen) < STEPS:
            at, open_sites = stack.pop()
            mark = (id(at), len(open_sites))
            if mark in seen or at is NOTHING or (at.mode == OFF and at.kind in ("op", "call")):
                continue
            seen.add(mark)
            if at.kind == "param":
                if open_sites and any(g is at.graph.function for g, _ in self.targets(open_sites[-1])):
                    stack.append((self.argument(open_sites[-1], at.graph.function, at.data), open_sites[:-1]))
                else:
                    out.add(at)
            elif at.kind == "elem":
                base = at.inputs[0]
                if base.kind == "param" and not open_sites:
                    out.add(at)
                else:
                    stack += [(n, s) for n, s in self.parts_of(at, open_sites, 6) if n is not at]
            elif at.kind == "call":
                found = self.targets(at) if len(open_sites) < 3 else []
                for g, _ in found[:2]:
                    stack += [(r, (*open_sites, at)) for r in self.returned(g)]
                if not found:
                    stack += [(n, open_sites) for n in at.inputs]
            else:
                stack += [(n, open_sites) for n in self.sources(at)]
        return out
