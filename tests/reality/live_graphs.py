"""Measures what an object keeps alive: graph nodes that can be reached from it, bytes that the graph has saved."""

from __future__ import annotations

import gc

import torch


class Saved:
    """Counts the bytes of saved tensors that are alive, and their peak, while it is entered."""

    def __init__(self) -> None:
        self.live = self.peak = 0
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda held: held.tensor)

    def pack(self, tensor):
        held = Held(tensor, self)
        self.live += held.size
        self.peak = max(self.peak, self.live)
        return held

    def __enter__(self):
        self.hooks.__enter__()
        return self

    def __exit__(self, *exc):
        self.hooks.__exit__(*exc)


class Held:
    def __init__(self, tensor, counter) -> None:
        self.tensor, self.counter = tensor.detach(), counter  # the tensor itself would be a cycle through its node
        self.size = tensor.numel() * tensor.element_size()

    def __del__(self) -> None:
        self.counter.live -= self.size


def tensors_in(root) -> list:
    """Every tensor that an object holds: through containers, attributes and modules."""
    out, stack, seen = [], [root], set()
    while stack:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, torch.Tensor):
            out.append(x)
        elif isinstance(x, dict):
            stack += x.values()
        elif isinstance(x, (list, tuple, set)):
            stack += x
        elif hasattr(x, "__dict__") and not isinstance(x, type):
            stack += vars(x).values()
    return out


def nodes_of(root) -> int:
    """How many autograd nodes can be reached from the tensors of an object."""
    stack = [t.grad_fn for t in tensors_in(root) if t.grad_fn is not None]
    seen = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += [n for n, _ in node.next_functions if n is not None]
    return len(seen)


def measure(run, steps: int) -> dict[str, int]:
    """Runs `run(steps)` and measures what its result keeps."""
    torch.manual_seed(0)
    with Saved() as saved:
        held = run(steps)
        gc.collect()
        return {"nodes": nodes_of(held), "saved": saved.live, "peak": saved.peak}
