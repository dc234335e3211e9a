"""Will a crash in native code show the Python line?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="fault-handler",
    area="launch",
    summary=Text("a crash in native code shows the Python line", "原生代码崩溃时显示 Python 行号"),
    informs=True,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    text = host.env.get("PYTHONFAULTHANDLER")
    if text:
        return PROBE.ok(text, None, Text("PYTHONFAULTHANDLER is set", "已设置 PYTHONFAULTHANDLER"))
    return PROBE.ok(None, None, Text("PYTHONFAULTHANDLER=1 would show the Python line of a crash in native code",
                                     "设置 PYTHONFAULTHANDLER=1 可在原生代码崩溃时显示 Python 行号"))  # fmt: skip
