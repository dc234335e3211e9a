"""Can /dev/shm be written?"""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..surroundings import pick

PROBE = Probe(
    name="shm-read-only",
    area="memory",
    summary=Text("/dev/shm can be written", "/dev/shm 可写"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    space, mount = host.space("/dev/shm"), host.mount_of("/dev/shm")
    if space is None and mount is None:
        return None
    ro = bool(space and space.read_only) or bool(mount and mount.place == "/dev/shm" and "ro" in mount.options)
    writable = host.writable("/dev/shm")
    if not ro and writable is not False:
        return PROBE.ok("rw", "rw", Text("/dev/shm can be written", "/dev/shm 可写"))
    why = (
        Text("it is mounted read-only", "以只读方式挂载")
        if ro
        else Text("this user may not write", "当前用户没有写权限")
    )
    return PROBE.fail(
        "ro" if ro else "denied", "rw",
        Text("/dev/shm cannot be written: {why}; no loader with workers starts",
             "/dev/shm 不可写：{why}；带 worker 的加载器无法启动", why=why),
        pick(
            host,
            Text("mount -o remount,rw /dev/shm") if ro else Text("chmod 1777 /dev/shm"),
            docker=Text("docker run --shm-size=8g …, without -v …:/dev/shm:ro",
                        "docker run --shm-size=8g …，不要使用 -v …:/dev/shm:ro"),
            kubernetes=Text("volumeMounts: readOnly: false at /dev/shm",
                            "将 /dev/shm 的 volumeMounts 设为 readOnly: false"),
        ),
    )  # fmt: skip
