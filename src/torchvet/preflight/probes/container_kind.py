"""Which container and launcher this is."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..surroundings import BARE, NOT_KNOWN, surroundings

PROBE = Probe(
    name="container-kind",
    area="container",
    summary=Text("which container and launcher this is", "所处的容器与启动器"),
    informs=True,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    where = surroundings(host)
    if where.container == NOT_KNOWN:
        return PROBE.unknown(Text("whether this is a container cannot be told", "无法判断是否在容器中"))
    said = where.name
    if where.launcher:
        said = Text("{x}, started by {launcher}", "{x}，由 {launcher} 启动", x=said, launcher=where.launcher)
    if where.container != BARE:
        said = Text("{x} (seen by {signs})", "{x}（依据：{signs}）", x=said, signs=", ".join(where.signs))
    return PROBE.ok(where.container, None, said)
