"""May this user start as many processes and threads as the job has?"""

from __future__ import annotations

from torchvet.findings import Text

from ..fixes import ulimit
from ..probe import Host, Plan, Probe, Result

PROBE = Probe(
    name="nproc",
    area="limits",
    summary=Text("enough processes and threads can be started", "可启动足够多的进程与线程"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    limit = host.limit("NPROC")
    if limit is None or host.versions().get("user") == "0":  # root is not bound by it
        return None
    soft = limit[0]
    need = plan.threads(host)
    said = Text(
        "this user can have {n} processes and threads",
        "该用户可有 {n} 个进程与线程",
        n="unlimited" if soft < 0 else f"{soft:,}",
    )
    if soft < 0 or soft >= need:
        return PROBE.ok(soft, need, said)
    text = Text("{x}; this job has about {need}", "{x}；本作业约需 {need} 个", x=said, need=f"{need:,}")
    return PROBE.warn(soft, need, text, ulimit(host, "nproc", "-1"))
