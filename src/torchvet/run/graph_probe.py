"""Which lines make autograd graphs that stay alive: a token in the graph of each backward root and each output.

The token's end tells that the graph ended. A step's graph normally ends with the step: the number of live tokens of a
line is 1, or the depth of accumulation. A number that only rises names the line whose graphs somebody keeps - also
where memory shows nothing yet (a node takes about 0.8 kB). It names the line that made the graph, not the keeper.

Cost: 5 us for a mark in a loop of nothing else and 40 us between steps of training, where none of it is in the caches;
so no more than `MARKS` of backward a second: of a fast loop a sample is marked, each mark for as many. Outputs of
forwards are marked in windows of a few: a hook on every module call costs (160 us a step of a model of 14 modules).
"""

from __future__ import annotations

import functools
import os
import sys
from random import Random
from time import monotonic

from .untraced import skipped, untraced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    Site = tuple[str, int, str]

KEY = "torchvet"
MOST_SITES = 200
FLOOR = 8
"""Live graphs of one line up to which nothing is said: pipeline stages, accumulation and windows of kept losses."""
STATE_LOOKS = 3
"""Forwards of a window after which the state of all modules is looked at."""
RISES = 4
"""Looks in a row that must find more live graphs than the one before."""
MANY = 200
"""Live graphs of one line that are enough after two rises, where at least every second step's graph is still alive: a
job of a few seconds gives no more looks."""
MARKS = 10
"""Backwards marked in a second; of more, a sample."""
WINDOW = 32
"""Outputs of top-level modules marked in one window."""
EARLY_LOOKS = 10
"""Looks at a training up to which each opens a window, later each third: a short job on a busy machine has few."""
FIRST_LOOKS = (0.25, 0.25, 0.5, 0.5, 1.0)
"""Seconds between the first looks at a training, where they are shorter than the usual interval."""


class _Token:
    """Lives as long as the node that holds it."""

    __slots__ = ("live", "low", "site", "weight")

    def __init__(self, site: Site, live: dict[Site, int], low: dict[Site, int], weight: int) -> None:
        self.site = site
        self.live = live
        self.low = low
        self.weight = weight
        live[site] = live.get(site, 0) + weight

    def __del__(self) -> None:
        live, site = self.live, self.site
        if site in live:
            live[site] = n = live[site] - self.weight
            if n < self.low.get(site, n + 1):
                self.low[site] = n


class GraphProbe:
    """Counts live graphs by the line that made them. `folders`: code that is not the user's (torch, site-packages)."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.live: dict[Site, int] = {}
        self.low: dict[Site, int] = {}  # the fewest since the last look
        self.backwards = 0
        self.every = 1  # one of so many backwards is marked
        self.next = 0  # the number of the next one
        self.random = Random(0).random
        self.looked = 0.0
        self.progress = (0, 0)
        self.own = tuple(
            {os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, os.path.dirname(__file__) + os.sep}
        )
        self.hooks: list[Any] = []
        self.depth = 0
        self.history: dict[Site, list[int]] = {}
        self.steps = 0  # at the last look
        self.said: set[Site] = set()
        self.state_looks = 0
        self.outputs = 0  # how many more a window marks
        self.compiling = False  # torch.compile was asked for: no window any more
        self.failed = 0  # marks that did not work: the job goes on without them

    def install(self, first: Callable[[], None] = lambda: None) -> None:
        """Look at all backwards from now on. `first` is called before the first one."""
        autograd = self.torch.autograd
        original = autograd.backward

        def look(tensors: Any) -> None:
            if self.backwards == 1:
                first()
            # not each n-th: what keeps each n-th loss would be seen always, or never
            self.next = self.backwards + 1 + int(self.random() * (2 * self.every - 1))
            try:
                self.mark_root(tensors)
            except Exception:
                self.failed += 1

        mark = untraced(self.torch, look)

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            self.backwards = n = self.backwards + 1
            if n >= self.next:
                mark(tensors)
            return original(tensors, *args, **kwargs)

        backward.__wrapped__ = original  # type: ignore[attr-defined]
        backward.__doc__ = original.__doc__
        autograd.backward = skipped(self.torch, backward)
        compile_ = getattr(self.torch, "compile", None)
        if compile_ is None:
            return

        @functools.wraps(compile_)
        def compile(*args: Any, **kwargs: Any) -> Any:
            self.compiling = True
            self.close_window()
            return compile_(*args, **kwargs)

        self.torch.compile = compile

    # ------------------------------------------------------------------------------------------------- marks
    def mark_root(self, tensors: Any) -> None:
        node = getattr(tensors, "grad_fn", None)
        if node is None:
            if not isinstance(tensors, (list, tuple)) or not tensors:
                return
            node = getattr(tensors[0], "grad_fn", None)
            if node is None:
                return
        self.mark(node, sys._getframe(4), self.every)

    def mark(self, node: Any, frame: FrameType | None, weight: int = 1) -> None:
        metadata = node.metadata
        if KEY not in metadata:
            site = self.site(frame)
            if site in self.live or len(self.live) < MOST_SITES:
                metadata[KEY] = _Token(site, self.live, self.low, weight)

    def site(self, frame: FrameType | None) -> Site:
        """The innermost frame of the user's code; of a library's when there is no other."""
        library: Site | None = None
        while frame is not None:
            path = frame.f_code.co_filename
            if not path.startswith(self.own) and path[:1] != "<":
                here = (path, frame.f_lineno, frame.f_code.co_name)
                if "site-packages" not in path and "dist-packages" not in path:
                    return here
                library = library or here
            frame = frame.f_back
        return library or ("", 0, "")

    # ------------------------------------------------------------------------------------------------- outputs
    def open_window(self) -> None:
        """Begin to mark what top-level modules give. Not in a process that compiles: hooks make it compile again."""
        if self.hooks or self.compiling or self.compiles():
            return
        module = self.torch.nn.modules.module
        self.depth = 0
        self.state_looks = STATE_LOOKS
        self.outputs = WINDOW
        self.hooks = [
            module.register_module_forward_pre_hook(untraced(self.torch, self.entered)),
            module.register_module_forward_hook(untraced(self.torch, self.left), always_call=True),
        ]

    def compiles(self) -> bool:
        """Whether torch.compile has compiled a frame here. (Optimizers alone import torch._dynamo.)"""
        module = sys.modules.get("torch._dynamo.convert_frame")
        return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0

    def close_window(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def entered(self, module: Any, given: Any) -> None:
        self.depth += 1

    def left(self, module: Any, given: Any, output: Any) -> None:
        self.depth -= 1
        if self.depth > 0:
            return
        self.depth = 0
        self.outputs -= 1
        if self.outputs <= 0:
            self.close_window()
        try:
            if self.torch.is_grad_enabled():
                self.mark_output(output, sys._getframe(2), 0)
                if self.state_looks > 0:
                    self.state_looks -= 1
                    self.mark_state(module)
        except Exception:
            self.failed += 1

    def mark_state(self, module: Any) -> None:
        """Mark what modules carry from step to step: running statistics and recurrent states that never were detached
        hold every step's graph. One that is replaced each step stays at one live graph."""
        tensor = self.torch.Tensor
        for part in module.modules():
            for name, value in [*part._buffers.items(), *vars(part).items()]:
                for x in value if isinstance(value, tuple) else (value,):
                    if isinstance(x, tensor) and x.grad_fn is not None and KEY not in x.grad_fn.metadata:
                        code = type(part).forward.__code__
                        site = (code.co_filename, code.co_firstlineno, f"{type(part).__name__}.{name}")
                        x.grad_fn.metadata[KEY] = _Token(site, self.live, self.low, 1)

    def mark_output(self, output: Any, frame: FrameType | None, nested: int) -> None:
        if isinstance(output, self.torch.Tensor):
            if output.grad_fn is not None:
                self.mark(output.grad_fn, frame)
        elif nested < 3:
            if isinstance(output, dict):
                output = tuple(output.values())
            if isinstance(output, (list, tuple)):
                for part in output[:4]:
                    self.mark_output(part, frame, nested + 1)

    # ------------------------------------------------------------------------------------------------- looks
    def look(self, steps: int) -> list[tuple[Site, int]]:
        """The lines with more than one live graph, most first; keeps count of which only rise. `steps`: done so far.

        What counts is the fewest since the last look: an episode or an accumulation lets go of all at its end. While no
        step and no backward is done nothing counts: an episode of many forwards is under way."""
        now = sorted(((s, n) for s, n in list(self.live.items()) if n > 1), key=lambda x: -x[1])[:20]
        progress = (steps, self.backwards)
        if progress == self.progress:
            return now
        seconds, self.looked = monotonic() - self.looked, monotonic()
        self.every = max(1, round((self.backwards - self.progress[1]) / seconds / MARKS))
        self.steps, self.progress = steps, progress
        low = dict(self.low)
        self.low.clear()
        for site in {*self.history, *(s for s, _ in now)}:
            live = self.live.get(site, 0)
            n = min(live, low.get(site, live))
            seen = self.history.setdefault(site, [])
            if seen and n < seen[-1]:
                seen.clear()  # somebody let go: a window, an epoch's end
            if n and (not seen or n > seen[-1]):
                seen.append(n)
                del seen[: -2 * RISES]
        return now

    def forget(self) -> None:
        """Begin anew (in a forked child): tokens of before count for nobody."""
        self.live, self.low, self.history = {}, {}, {}
        self.said.clear()
        self.steps = self.backwards = self.next = 0
        self.every = 1
        self.progress = (0, 0)

    def growing(self) -> list[tuple[Site, int]]:
        """Lines whose live graphs rose at each of the last looks and are more than any accumulation; each once."""
        out = []
        for site, seen in self.history.items():
            if site in self.said or len(seen) < 3 or seen[-1] <= FLOOR:
                continue
            slow = len(seen) > RISES and seen[-1] >= 2 * seen[0]
            fast = seen[-1] >= MANY and 2 * seen[-1] >= self.steps > 0
            if slow or fast:
                self.said.add(site)
                out.append((site, seen[-1]))
        return out
