"""What a probe is and what it answers."""

from __future__ import annotations

from torchvet.findings import Text

from .host import Host
from .plan import Loader, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = "Result | list[Result] | None"
    Check = Callable[[Host, Plan], "Result | list[Result] | None"]

__all__ = ["AREAS", "FAIL", "PASS", "UNKNOWN", "VERDICTS", "WARN", "Host", "Loader", "Plan", "Probe", "Result"]

PASS, UNKNOWN, WARN, FAIL = "pass", "unknown", "warn", "fail"
VERDICTS = (PASS, UNKNOWN, WARN, FAIL)
"""From good to bad; unknown is no pass."""

AREAS = ("memory", "limits", "cpu", "disk", "container", "gpu", "network", "nccl", "launch", "versions")


class Result:
    """The answer of one probe: `value` is what was seen, `limit` what it was held against (numbers or words; None where
    there is none)."""

    __slots__ = ("fix", "limit", "message", "probe", "value", "verdict")

    def __init__(
        self, probe: str, verdict: str, value: object, limit: object, message: Text, fix: Text | None = None
    ) -> None:
        self.probe = probe
        self.verdict = verdict
        self.value = value
        self.limit = limit
        self.message = message
        self.fix = fix

    def plain(self, language: str = "en") -> dict[str, object]:
        """The row of the json output."""
        return {
            "probe": self.probe,
            "verdict": self.verdict,
            "value": self.value,
            "limit": self.limit,
            "message": self.message.render(language),
            "fix": self.fix.render(language) if self.fix else "",
        }

    def pack(self) -> list[object]:
        """The result as JSON values in both languages, for another process."""
        fix = self.fix.plain() if self.fix else None
        return [self.probe, self.verdict, self.value, self.limit, self.message.plain(), fix]

    @classmethod
    def unpack(cls, row: list[Any]) -> Result:
        probe, verdict, value, limit, message, fix = row
        return cls(str(probe), str(verdict), value, limit, _text(message), _text(fix) if fix else None)

    def __repr__(self) -> str:
        return f"<{self.verdict} {self.probe}: {self.message}>"


class Probe:
    """What a probe is: name, area, one line about it, and its own time limit in seconds. One that only `informs` says
    what is there and has no fault to find.

    `@PROBE.check` registers `function(host, plan)`, which returns a result, several, or None: the probe does not apply
    to this machine or job."""

    def __init__(self, *, name: str, area: str, summary: Text, seconds: float = 8, informs: bool = False) -> None:
        self.name = name
        self.area = area
        self.summary = summary
        self.seconds = seconds
        self.informs = informs
        self.run: Check | None = None

    def check(self, function: Check) -> Check:
        self.run = function
        return function

    def ok(self, value: object, limit: object, message: Text) -> Result:
        return Result(self.name, PASS, value, limit, message)

    def warn(self, value: object, limit: object, message: Text, fix: Text) -> Result:
        return Result(self.name, WARN, value, limit, message, fix)

    def fail(self, value: object, limit: object, message: Text, fix: Text) -> Result:
        return Result(self.name, FAIL, value, limit, message, fix)

    def unknown(self, message: Text, fix: Text | None = None) -> Result:
        return Result(self.name, UNKNOWN, None, None, message, fix)

    def page(self) -> str:
        """The probe's documentation (Markdown)."""
        import os

        path = os.path.join(os.path.dirname(__file__), "probes", self.name.replace("-", "_") + ".md")
        with open(path, encoding="utf-8") as f:
            return f.read()


def probe_names() -> list[str]:
    """Names of all probes: the files of the folder."""
    import os

    folder = os.path.join(os.path.dirname(__file__), "probes")
    return sorted(n[:-3].replace("_", "-") for n in os.listdir(folder) if n.endswith(".py") and n[0] != "_")


def load(name: str) -> Probe:
    """The probe of a name. KeyError: there is none."""
    from importlib import import_module

    try:
        module = import_module("torchvet.preflight.probes." + name.replace("-", "_"))
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("torchvet.preflight.probes."):
            raise KeyError(name) from None
        raise
    probe = module.PROBE
    assert isinstance(probe, Probe)
    return probe


def _text(row: Any) -> Text:
    """A text that has been through JSON: tuples have become lists."""

    def tuples(x: Any) -> Any:
        if isinstance(x, list):
            return tuple(tuples(y) for y in x)
        return {str(k): tuples(v) for k, v in x.items()} if isinstance(x, dict) else x

    return Text.from_plain(tuples(row))
