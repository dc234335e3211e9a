"""Regular expressions that are compiled when first used, or come compiled from an earlier process.

Importing `re` takes 5 ms and compiling an expression 0.1 to 1 ms; a check of a small project needs twenty. What `re`
makes of an expression is a list of numbers: the start file (`cli/compiled.py`) keeps it, and the interpreter's matching
engine takes it as it is, after looking it through as it does with every program.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Any

kept: dict[tuple[str | bytes, int], bytes] = {}
"""(expression, flags) -> what the engine is given for it, as `marshal` holds it. Of this very interpreter."""
made: list[tuple[str | bytes, int]] = []
"""What was compiled in this process because it was not kept."""


def compiled(text: str | bytes, flags: int = 0) -> Pattern[Any]:
    """`re.compile` for expressions of our own source; those with names of the checked code in them: `of_names`."""
    program = kept.get((text, flags))
    if program is not None:
        from marshal import loads

        try:
            from _sre import compile as engine

            found: Pattern[Any] = engine(*loads(program))
            return found
        except (ImportError, TypeError, ValueError, RuntimeError, EOFError, OverflowError):
            del kept[text, flags]
    from re import compile

    made.append((text, flags))
    return compile(text, flags)


def of_names(text: str) -> Pattern[str]:
    """`re.compile` for expressions with names of the checked code in them: not kept."""
    from re import compile

    return compile(text)


class Later:
    """An expression of our source that is compiled when it is first used: of a hundred, a small project needs a few."""

    def __init__(self, text: str | bytes, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        pattern = compiled(self._text, self._flags)
        for method in ("findall", "finditer", "match", "search", "sub"):
            setattr(self, method, getattr(pattern, method))
        return getattr(pattern, name)


def programs(expressions: list[tuple[str | bytes, int]]) -> dict[tuple[str | bytes, int], bytes]:
    """What the engine is given for expressions, to be kept; without those for which that cannot be told. Compiles each
    once more: meant for the end of a process."""
    import re
    from marshal import dumps
    from types import SimpleNamespace

    try:
        compiler: Any = __import__("re._compiler" if hasattr(re, "_compiler") else "sre_compile", fromlist=["compile"])
        engine = compiler._sre
    except (ImportError, AttributeError):
        return {}
    given: list[tuple[Any, ...]] = []

    def note(text: Any, flags: int, code: list[int], groups: int, names: dict[str, int], group_names: Any) -> Any:
        plain = [int(x) for x in code]  # `re` names some of its numbers
        given.append((text, int(flags), plain, groups, dict(names), tuple(group_names)))
        return engine.compile(*given[-1])

    out = {}
    compiler._sre = SimpleNamespace(**{**vars(engine), "compile": note})
    try:
        for text, flags in expressions:
            compiler.compile(text, flags)
            if len(given) == 1:
                out[text, flags] = dumps(given[0])
            given.clear()
    except (TypeError, ValueError):
        pass
    finally:
        compiler._sre = engine
    return out
