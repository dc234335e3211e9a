"""Can the stacks of a rank that hangs be looked at?"""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole
from ..surroundings import pick

SYS_PTRACE = 1 << 19
"""CAP_SYS_PTRACE (include/uapi/linux/capability.h)."""

PROBE = Probe(
    name="ptrace",
    area="container",
    summary=Text("the stacks of a rank that hangs can be looked at", "可查看挂起 rank 的调用栈"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    status = host.read("/proc/self/status") or ""
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    capable = bool(int(found[1], 16) & SYS_PTRACE) if found else None
    scope = whole(host.read("/proc/sys/kernel/yama/ptrace_scope"))
    if capable and scope != 3:
        return PROBE.ok(scope, None, Text("py-spy and gdb can look into any process (CAP_SYS_PTRACE)",
                                          "py-spy 与 gdb 可查看任何进程（CAP_SYS_PTRACE）"))  # fmt: skip
    if capable is None and scope is None:
        return None
    if scope in (None, 0) and host.why("/proc/sys/kernel/yama/ptrace_scope") in ("", "absent"):
        return PROBE.ok(
            scope, 1, Text("py-spy and gdb can look into processes of this user", "py-spy 与 gdb 可查看该用户的进程")
        )
    if scope == 1:
        return PROBE.ok(1, 1,
                        Text("py-spy sees only what it started (ptrace_scope 1); torchvet run keeps stacks",
                                   "py-spy 只能查看由其启动的进程（ptrace_scope 1）；可用 torchvet run"))  # fmt: skip
    if scope is None:
        return PROBE.unknown(Text("whether stacks can be read cannot be told", "无法判断能否读取调用栈"))
    text = Text("kernel.yama.ptrace_scope is {n}: py-spy and gdb cannot look into a rank that hangs",
                "kernel.yama.ptrace_scope 为 {n}：py-spy 与 gdb 无法查看挂起的 rank", n=scope)  # fmt: skip
    fix = pick(
        host,
        Text("sysctl -w kernel.yama.ptrace_scope=1; torchvet run takes stacks without it",
             "sysctl -w kernel.yama.ptrace_scope=1；torchvet run 不依赖它即可保存调用栈"),
        docker=Text("docker run --cap-add=SYS_PTRACE …; torchvet run takes stacks without it",
                    "docker run --cap-add=SYS_PTRACE …；torchvet run 不依赖它即可保存调用栈"),
        kubernetes=Text("securityContext.capabilities.add: [SYS_PTRACE]; torchvet run takes stacks without it",
                        "securityContext.capabilities.add: [SYS_PTRACE]；torchvet run 不依赖它即可保存调用栈"),
    )  # fmt: skip
    return PROBE.warn(scope, 1, text, fix)
