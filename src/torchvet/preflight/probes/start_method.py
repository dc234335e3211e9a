"""How workers are started by this Python."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole

PROBE = Probe(
    name="start-method",
    area="versions",
    summary=Text("how this Python starts workers", "此 Python 启动 worker 的方式"),
    informs=True,
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    version = host.versions().get("python", "")
    parts = [whole(x) for x in version.split(".")[:2]]
    if len(parts) < 2 or parts[0] is None or parts[1] is None:
        return None
    if (parts[0], parts[1]) >= (3, 14):
        return PROBE.ok("forkserver", None, Text(
            "Python {v} starts workers by forkserver: data set and collate function must pickle, no memory is shared",
            "Python {v} 以 forkserver 启动 worker：数据集与 collate 函数须可 pickle，且不与 rank 共享内存", v=version,
        ))  # fmt: skip
    return PROBE.ok("fork", None, Text("Python {v} forks workers", "Python {v} 以 fork 启动 worker", v=version))
