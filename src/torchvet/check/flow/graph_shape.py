"""Does `.detach()` fit a value: is it a tensor, or a dict, a tuple, an output object that holds tensors?"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph_summaries import Summaries
    from .graph_values import Node

CONTAINERS = ("box", "tuple", "snap", "object", "nothing", "iter", "func", "lambda", "context")
LEVELS = 6


def holds_tensors(flow: Summaries, value: Node, depth: int = 0) -> bool:
    """Whether a value is seen to be more than one tensor: a container, something read by a string key or by an
    attribute that no tensor has, the result of a project function that gives such a thing."""
    if depth > LEVELS:
        return False
    kind = value.kind
    if kind in CONTAINERS:
        return True
    if kind in ("join", "phi"):
        return any(n is not value and n.kind != "nothing" and holds_tensors(flow, n, depth + 1) for n in value.inputs)
    if kind == "op":
        return value.data in ("copy", "items", "values")
    if any(n.kind == "elem" and n.inputs[0] is value and is_key(n.data) for n in value.graph.nodes):
        return True
    if kind == "call":
        return any(
            holds_tensors(flow, r, depth + 1)
            for f, _ in flow.targets(value)
            for r in flow.returned(f)
            if r.kind != "nothing"
        )
    if kind == "elem" and value.inputs[0].kind == "call":
        return any(
            holds_tensors(flow, item, depth + 1)
            for f, _ in flow.targets(value.inputs[0])
            for r in flow.returned(f)
            if r.kind == "tuple"
            for i, item in enumerate(r.inputs)
            if value.data == f"[{i}]"
        )
    return False


def is_key(element: str) -> bool:
    """An element that no tensor has: `["loss"]`, `.loss`."""
    return element.startswith(('["', "['", ".loss", ".logits"))
