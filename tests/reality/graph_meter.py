"""How much of an autograd graph is alive, counted from the tensors that the garbage collector can see.

Runs in the process that ran the case, never in torchvet or pytest.
"""

from __future__ import annotations

import contextlib
import gc

import torch


def live_tensors() -> list[torch.Tensor]:
    gc.collect()
    found = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
    # a gradient that nobody has read has no Python object of its own yet
    return found + [t.grad for t in found if t.is_leaf and t.grad is not None]


def live_nodes(tensors: list[torch.Tensor]) -> list:
    """Backward nodes reachable from these tensors. AccumulateGrad is left out: it belongs to the parameter."""
    seen: dict = {}
    todo = [t.grad_fn for t in tensors if t.grad_fn is not None]
    while todo:
        node = todo.pop()
        # the Python object of a node is the same one for as long as somebody holds it, so a dict may stand for a set
        if node in seen:
            continue
        seen[node] = None
        todo.extend(n for n, _ in node.next_functions if n is not None)
    return [n for n in seen if n.name() != "torch::autograd::AccumulateGrad"]


def saved_bytes(nodes: list, tensors: list[torch.Tensor]) -> int:
    """Bytes of the activations that these nodes still hold; backward without retain_graph frees them, parameters aside."""
    own = {t.untyped_storage().data_ptr() for t in tensors if isinstance(t, torch.nn.Parameter)}
    sizes: dict[int, int] = {}
    for node in nodes:
        for name in dir(node):
            if not name.startswith("_saved_"):
                continue
            try:
                value = getattr(node, name)
            except RuntimeError:  # "... after they have already been freed"
                continue
            for t in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in own:
                    sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
    return sum(sizes.values())


class Unused:
    """Bytes saved for a backward that never came."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.read: set[int] = set()

    def pack(self, tensor: torch.Tensor) -> tuple[int, torch.Tensor]:
        self.sizes.append(tensor.nbytes)
        return len(self.sizes) - 1, tensor

    def unpack(self, saved: tuple[int, torch.Tensor]) -> torch.Tensor:
        self.read.add(saved[0])
        return saved[1]

    def watch(self) -> contextlib.AbstractContextManager:
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    @property
    def bytes(self) -> int:
        return sum(size for i, size in enumerate(self.sizes) if i not in self.read)
