"""May the container have as many processes and threads as the job has?"""

from __future__ import annotations

from torchvet.findings import Text

from ..cgroup import cgroups
from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="pids-limit",
    area="limits",
    summary=Text("the container can have enough processes and threads", "容器可拥有足够多的进程与线程"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    group = cgroups(host).pids()
    if group is None:
        return None
    limit, used = group
    left = limit - (used or 0)
    ranks, workers = plan.ranks(host)[0], plan.workers if plan.workers is not None else 4
    need = plan.threads(host)
    said = Text("the container can have {n} more processes and threads ({limit} in all)",
                "容器还可有 {n} 个进程与线程（共 {limit}）", n=f"{left:,}", limit=f"{limit:,}")  # fmt: skip
    if left >= need:
        return PROBE.ok(left, need, said)
    text = Text("{x}; this job has about {need}", "{x}；本作业约需 {need} 个", x=said, need=f"{need:,}")
    fix = pick(
        host,
        Text("TasksMax=infinity in the systemd unit", "在 systemd 单元中设置 TasksMax=infinity"),
        docker=Text("docker run --pids-limit=-1 …"),
        compose=Text("pids_limit: -1 in the service", "在 service 中设置 pids_limit: -1"),
        podman=Text("podman run --pids-limit=-1 …"),
        kubernetes=Text("podPidsLimit of the kubelet", "kubelet 的 podPidsLimit"),
    )
    if left < ranks * (workers + 2):  # not even the processes fit
        return PROBE.fail(left, need, text, fix)
    return PROBE.warn(left, need, text, fix)
