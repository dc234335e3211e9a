"""What the graph analysis computes with: nodes of a value-flow graph, one graph per function.

A node is a value as far as it can matter for an autograd graph: a parameter, the result of a call, an element of
something, a merge of two branches. Edges (`inputs`) lead from a value to what it was made of; where a graph is cut
(`.detach()`, `.item()`, a comparison, no_grad) there is no edge, and what holds no graph is the one node `NOTHING`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Class, Expr, Function

    Path = tuple[str, ...]
    Guards = tuple[tuple[str, bool], ...]

INHERIT, OFF, ON, MAYBE = 0, 1, 2, 3
"""Gradient mode of a place: that of the caller, off, on, decided by a value that is not known."""

NO_GRAPH, FREED, ALIVE = 0, 1, 2
"""States of a value. FREED: a backward in the same step has released what its nodes had saved, the nodes stay. ALIVE:
the activations stay as well. (torch/csrc/autograd/saved_variable.cpp: `release_variables` resets what is saved.)"""


class Loop:
    """A loop of a function: `kind` is "for", "while" or "comp"; `resets` are the paths that some way through the body
    binds to a value without a graph, to a fresh container, or empties."""

    __slots__ = ("graph", "guards", "iterated", "kind", "left", "parent", "pos", "resets", "roots")

    def __init__(self, graph: Any, pos: int, kind: str, parent: Loop | None, guards: Guards = ()) -> None:
        self.graph = graph
        self.guards = guards
        self.pos = pos
        self.kind = kind
        self.parent = parent
        self.iterated: Node = NOTHING
        self.resets: set[Path] = set()
        self.left: dict[Path, list[Node]] = {}
        """What a turn leaves in elements and attributes."""
        self.roots: dict[str, Node] = {}
        """The values that they belong to."""

    def nest(self) -> list[Loop]:
        """This loop and those around it, innermost first."""
        out: list[Loop] = []
        at: Loop | None = self
        while at is not None:
            out.append(at)
            at = at.parent
        return out


def nest_of(loop: Loop | None) -> list[Loop]:
    return loop.nest() if loop else []


PLAIN = frozenset(("bool", "str", "int", "float", "bytes", "complex", "None", None, ...))
"""Annotations of results that hold no tensor."""
HOLDING = frozenset(("dict", "tuple", "list", "set", "frozenset", "Dict", "Tuple", "List", "Set", "Optional", "Union"))
"""Those that hold what stands in their brackets."""


class Node:
    """`kind` and what `data` holds then:

    param    name                      self is a param too
    free     name                      of an enclosing function or of the module
    call     Call
    op       what made it: an operator, "copy", "slice", a tensor method; has a graph when an input has one
    elem     key: ".loss", "[0]", '["loss"]', "[self.metric]", "[*]" (any)
    iter     None                      one element of inputs[0]
    tuple    None                      inputs are the items
    box      Box                       a list, dict, set or deque made here
    tensor   None                      a tensor made here without a graph; may be written into
    object   Class or qualified name   an instance made here; inputs are the arguments
    func     Function
    lambda   Node                      the value of its body
    snap     {key: Node}               inputs[0] with some elements replaced
    phi      Loop                      inputs: before the loop, from the iteration before
    join     None
    acc      Store                     inputs: what was there, what is added
    context  mode                      a context manager that switches gradients
    nothing  None
    """

    __slots__ = ("data", "graph", "guards", "inputs", "kind", "loop", "mode", "pos")

    def __init__(
        self,
        graph: Any,
        kind: str,
        pos: int,
        inputs: tuple[Node, ...] = (),
        data: Any = None,
        mode: int = INHERIT,
        loop: Loop | None = None,
        guards: Guards = (),
    ) -> None:
        self.graph = graph
        self.kind = kind
        self.pos = pos
        self.inputs = inputs
        self.data = data
        self.mode = mode
        self.loop = loop
        self.guards = guards
        if graph is not None:
            graph.nodes.append(self)

    def __repr__(self) -> str:
        what = self.data if isinstance(self.data, str) else ""
        return f"<{self.kind} {what} line {self.pos >> 44}>"


class Made(Node):
    """An instance of a class of the project. `data` may be given as a function: the module of the class is parsed when
    somebody asks for it."""

    __slots__ = ("made",)
    made: Any

    @property
    def data(self) -> Any:
        if callable(self.made):
            self.made = self.made()
        return self.made

    @data.setter
    def data(self, value: Any) -> None:
        self.made = value


NOTHING = Node(None, "nothing", 0)


class Call:
    """A call: `method` and `receiver` for `x.m(...)`, `callee` for any other called value."""

    __slots__ = ("arguments", "callee", "evals", "expr", "external", "keywords", "method", "receiver")

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.callee: Node = NOTHING
        self.method = ""
        self.receiver: Node = NOTHING
        self.external: str | None = None
        self.arguments: list[Node] = []
        self.keywords: dict[str, Node] = {}
        self.evals: dict[Any, tuple[tuple[Guards, bool, int], ...]] = {}


class Box:
    """A container made in this function. `entries` are those of a literal; `Graph.contents` has what comes later."""

    __slots__ = ("bounded", "entries", "kind")

    def __init__(self, kind: str, entries: dict[str, Node] | None = None, bounded: bool = False) -> None:
        self.kind = kind
        self.entries = entries or {}
        self.bounded = bounded


class Store:
    """A statement that keeps a value.

    `how`: "add" (`x += v`, `x = a * x + v`), "inplace" (`x.add_(v)`), "append" (container methods), "comp" (a
    comprehension), "item" (`x[k] = v`), "cat" (`x = torch.cat([x, v])`). `place` is the container, or what `x` was
    before; `path` names it; `call` is the call to look into instead when the receiver is an object of the project.
    """

    __slots__ = ("acc", "call", "expr", "graph", "guards", "how", "key", "loop", "path", "place", "pos", "value")

    def __init__(
        self, graph: Graph, how: str, pos: int, place: Node, path: Path, value: Node, expr: Expr | None,
        loop: Loop | None, guards: Guards,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.how = how
        self.pos = pos
        self.place = place
        self.path = path
        self.value = value
        self.expr = expr
        self.loop = loop
        self.guards = guards
        self.key: Expr | None = None
        self.call: Node | None = None
        self.acc = Node(graph, "acc", pos, (place, value), self, INHERIT, loop, guards)


class Backward:
    """A call that runs backward on `node`; `keeps`: with retain_graph or create_graph, `creates`: with create_graph."""

    __slots__ = ("call", "creates", "guards", "keeps", "loop", "node", "pos", "via")

    def __init__(
        self, pos: int, node: Node, loop: Loop | None, guards: Guards, keeps: bool, creates: bool, via: str
    ) -> None:
        self.pos = pos
        self.node = node
        self.loop = loop
        self.guards = guards
        self.keeps = keeps
        self.creates = creates
        self.via = via
        self.call: Expr = ()


class Graph:
    """The value flow of one function."""

    __slots__ = (
        "attributes", "backwards", "bindings", "calls", "carried", "contents", "elements", "evals", "free", "frozen",
        "function", "loops", "makers", "module_uses", "nested", "nodes", "params", "removed", "renewed", "returns",
        "self_name", "steps", "stores", "switches", "unpacked", "yields",
    )  # fmt: skip

    def __init__(self, function: Function) -> None:
        self.function = function
        self.nodes: list[Node] = []
        self.module_uses: dict[Node, bool] | None = None
        """Values on which a method of modules is called; filled by `Summaries`."""
        self.unpacked: set[Node] = set()
        """Calls whose result is unpacked into several names."""
        self.params: dict[str, Node] = {}
        self.self_name = ""
        self.returns: list[Node] = []
        self.yields: list[tuple[Node, int]] = []
        """What is yielded, and the gradient mode at that place."""
        self.backwards: list[Backward] = []
        self.stores: list[Store] = []
        self.frozen: set[Node] = set()
        """Modules whose parameters are told to need no gradients."""
        self.carried: dict[Node, str] = {}
        """The name that a `phi` carries over the turns of a loop."""
        self.makers: dict[Node, Call] = {}
        """How objects were made."""
        self.calls: dict[int, Node] = {}
        """Call nodes by position."""
        self.steps: list[tuple[int, Loop | None]] = []
        self.evals: list[tuple[int, Node, bool]] = []
        """(position, module, whether it goes to evaluation mode)."""
        self.loops: dict[int, Loop] = {}
        self.free: dict[str, Node] = {}
        self.bindings: dict[str, list[Node]] = {}
        """All values that a local name ever has, for nested functions."""
        self.elements: dict[tuple[int, str], Node] = {}
        self.contents: dict[Node, list[Node]] = {}
        """What was put into a container after it was made: `acc` nodes."""
        self.attributes: dict[str, list[Node]] = {}
        """What the function leaves in the attributes of `self`."""
        self.nested: list[Function] = []
        self.removed: list[tuple[int, Node]] = []
        self.renewed: list[Node] = []  # what `detach_()` itself takes from the graph; `detach()` leaves it as it is
        """(position, value) where `.detach()` and its like cut a graph."""
        self.switches: list[tuple[int, int]] = []
        """(position, mode) of statements and contexts that switch gradients."""


def contradict(a: Guards, b: Guards) -> bool:
    """Can two places not be on one way through the function: one needs a test true, the other false."""
    return any((text, not truth) in b for text, truth in a)


def is_fresh(node: Node) -> bool:
    """Binding this starts anew: no graph, or a container made here."""
    return node.kind in ("nothing", "box", "tensor") or (node.kind == "object" and not node.inputs)


def render(e: Expr) -> str:
    """The text of a simple expression (names, attributes, constant or simple indices), for paths; "" for others."""
    kind = e[0]
    if kind == "name":
        return str(e[2])
    if kind == "const":
        return repr(e[2])
    if kind == "attr":
        base = render(e[2])
        return f"{base}.{e[3]}" if base else ""
    if kind == "sub":
        base, index = render(e[2]), render(e[3])
        return f"{base}[{index}]" if base and index else ""
    if kind == "unary" and e[2] == "-":
        inner = render(e[3])
        return "-" + inner if inner else ""
    if kind == "bin":
        left, right = render(e[3]), render(e[4])
        return f"{left}{e[2]}{right}" if left and right else ""
    if kind == "fstr":
        parts = [render(x) for x in e[2]]
        return f"f{e[1]}{parts}" if all(parts) else ""
    return ""


def key_of(index: Expr) -> str:
    """The key under which an element is known: constants as they are, simple expressions as text, else any."""
    if index[0] == "slice":
        return "[:]"
    text = render(index)
    return f"[{text}]" if text else "[*]"


def path_of(e: Expr) -> Path | None:
    """("self", ".stats", "['loss']") for `self.stats["loss"]`; None for what is no place."""
    if e[0] == "name":
        return (e[2],)
    if e[0] == "attr":
        base = path_of(e[2])
        return (*base, "." + e[3]) if base else None
    if e[0] == "sub":
        base = path_of(e[2])
        key = key_of(e[3])
        return (*base, key) if base and key not in ("[*]", "[:]") else None
    return None


def is_plain_type(annotation: Expr) -> bool:
    """Does an annotation name nothing but plain types and containers of them: `tuple[bool, str] | None`?"""
    kind = annotation[0]
    if kind in ("name", "const"):
        return annotation[2] in PLAIN
    if kind == "bin":
        return is_plain_type(annotation[3]) and is_plain_type(annotation[4])
    if kind == "tuple":
        return all(map(is_plain_type, annotation[2]))
    return kind == "sub" and annotation[2][-1] in HOLDING and is_plain_type(annotation[3])


def text_of_test(e: Expr) -> str:
    """A text by which two tests are the same; "" when the test is not simple."""
    if e[0] == "cmp" and len(e[2]) == 1:
        left, right = render(e[3][0]), render(e[3][1])
        return f"{left} {e[2][0]} {right}" if left and right else ""
    if e[0] == "call":
        parts = [render(e[2]), *(render(a) for a in e[3])]
        return f"{parts[0]}({parts[1:]})" if all(parts) and not e[4] else ""
    return render(e)


class Method:
    """A function together with the class whose instance it is called on, as far as known."""

    __slots__ = ("cls", "function")

    def __init__(self, function: Function, cls: Class | None) -> None:
        self.function = function
        self.cls = cls
