"""Is /dev/shm free, or do files of dead processes fill it?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..fixes import more_shm
from ..probe import Host, Plan, Probe, Result
from ..quantity import size
from ..surroundings import surroundings

USED = 0.25
"""Own threshold: share that may be used before a job starts."""
OWNED = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)(?:_|$)")
"""torch_<pid>_<random>_<n> (torch/csrc/../RefcountedMapAllocator), __KMP_REGISTERED_LIB_<pid>_<uid> (LLVM OpenMP)."""
WITHOUT_OWNER = ("nccl-", "psm_", "sem.mp-")
HOST_PIDS = "pid:[4026531836]"
"""The initial process namespace (PROC_PID_INIT_INO)."""

PROBE = Probe(
    name="shm-free",
    area="memory",
    summary=Text("/dev/shm is free; no files of dead processes lie in it", "/dev/shm 有空闲，没有死进程留下的文件"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | list[Result] | None:
    space = host.space("/dev/shm")
    if space is None or not space.size:
        return None
    names = host.list("/dev/shm")
    out = []
    stale = (
        [n for n in names if (m := OWNED.match(n)) and not host.exists(f"/proc/{m[1]}")] if sees_owners(host) else []
    )
    if stale:
        prefix = "torch_" if any(n.startswith("torch_") for n in stale) else "__KMP"
        out.append(
            PROBE.warn(
                len(stale), 0,
                Text("{n} file in /dev/shm is left of ended processes: {name}" if len(stale) == 1
                     else "{n} files in /dev/shm are left of ended processes, such as {name}",
                     "/dev/shm 中有 {n} 个文件属于已结束的进程，例如 {name}", n=len(stale), name=stale[0]),
                Text("rm /dev/shm/{prefix}* while no job runs here", "没有作业运行时执行 rm /dev/shm/{prefix}*",
                     prefix=prefix),
            )
        )  # fmt: skip
    used = space.size - space.free
    demand = plan.demand(host)
    left = Text("{free} of {size} are free", "{size} 中有 {free} 空闲", free=size(space.free), size=size(space.size))
    others = sum(n.startswith(WITHOUT_OWNER) for n in names)
    fix = Text("look who uses it: ls -l /dev/shm; lsof /dev/shm", "查看占用者：ls -l /dev/shm；lsof /dev/shm")
    if others:
        left = Text(
            "{x}; {n} segments of NCCL and Python lie there", "{x}；其中有 {n} 个 NCCL 与 Python 的段", x=left, n=others
        )
    if demand and space.free < demand <= space.size:
        said = Text(
            "/dev/shm: {x}, this job asks for up to {need}",
            "/dev/shm：{x}，本作业最多需要 {need}",
            x=left,
            need=size(demand),
        )
        out.append(PROBE.fail(space.free, demand, said, more_shm(host, used + demand) if not others else fix))
    elif used > USED * space.size and not (demand and space.free > 2 * demand):
        said = Text("/dev/shm is in use before the job starts: {x}", "作业启动前 /dev/shm 已被占用：{x}", x=left)
        out.append(PROBE.warn(used, int(USED * space.size), said, fix))
    return out or PROBE.ok(space.free, demand, Text("/dev/shm: {x}", "/dev/shm：{x}", x=left))


def sees_owners(host: Host) -> bool:
    """Can processes that own files in /dev/shm be seen? Not when it is the machine's and the processes are not."""
    if surroundings(host).private_shm:
        return True
    return host.link("/proc/self/ns/pid") == HOST_PIDS
