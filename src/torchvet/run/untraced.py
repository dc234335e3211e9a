"""Hooks that torch.compile neither compiles nor minds.

Where it traces, a hook must leave nothing: a broken graph is an error under fullgraph=True, and a number that changes
is a reason to compile again. Where code of the job runs uncompiled inside a compiled region, the compiler looks at
every Python function that is called there: not at ours.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def untraced(torch: Any, action: Callable[..., None]) -> Callable[..., None]:
    """`action` as a hook."""
    # torch.compile takes this function for True (torch 2.3)
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    switch = getattr(native(torch), "set_eval_frame", None)

    def hook(*args: Any) -> None:
        if compiling is not None and compiling():
            return
        if switch is None:
            return action(*args)
        before = switch(None)
        try:
            action(*args)
        finally:
            switch(before)

    skip(torch, hook)
    return hook


def skipped(torch: Any, function: Any) -> Any:
    """`function`, which the compiler does not look at; what it calls, it does."""
    skip(torch, function)
    function._torchdynamo_disable = True
    return function


def skip(torch: Any, function: Any) -> None:
    """Tell the compiler's hook in the interpreter (torch._dynamo.eval_frame.skip_code, whose import takes seconds)."""
    there = native(torch)
    if hasattr(there, "skip_code"):
        there.skip_code(function.__code__)
    elif hasattr(there, "set_code_exec_strategy"):  # torch 2.8
        action = there._FrameAction
        there.set_code_exec_strategy(function.__code__, there._FrameExecStrategy(action.SKIP, action.DEFAULT))


def native(torch: Any) -> Any:
    return getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
