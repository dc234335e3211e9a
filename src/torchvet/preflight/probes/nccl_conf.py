"""Files that set NCCL variables without anyone seeing it."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import conf_files, settings

PROBE = Probe(
    name="nccl-conf", area="nccl",
    summary=Text("files that set NCCL variables", "设置 NCCL 变量的文件"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | None:
    named = host.env.get("NCCL_CONF_FILE")
    out: list[Result] = []
    if named and host.read(named) is None:
        why = host.why(named)
        out.append(PROBE.warn(
            named, None,
            Text("NCCL_CONF_FILE={path} {why}: NCCL goes on without it", "NCCL_CONF_FILE={path} {why}：NCCL 会忽略它",
                 path=named,
                 why=Text("does not exist", "不存在") if why == "absent" else Text("cannot be read", "无法读取")),
            Text("correct the path, or unset NCCL_CONF_FILE", "改正路径，或取消设置 NCCL_CONF_FILE"),
        ))  # fmt: skip
    known = settings(host)
    for path in conf_files(host):
        names = [s.shown.rpartition(" (")[0] for s in known.values() if s.origin == path]
        if names:
            out.append(
                PROBE.ok(
                    names, None, Text("{path} sets {names}", "{path} 设置了 {names}", path=path, names=", ".join(names))
                )
            )
        broken = [
            line for line in (host.read(path) or "").splitlines()
            if line.strip() and not line.startswith("#") and (line.startswith((" ", "export ")) or "=" not in line)
        ]  # fmt: skip
        if broken:
            out.append(PROBE.warn(
                broken[0][:80], None,
                Text("{path}: NCCL does not understand the line {line}", "{path}：NCCL 无法解析这一行 {line}",
                     path=path, line=repr(broken[0][:80])),
                Text("NAME=value at the start of the line, without export", "行首直接写 NAME=value，不带 export"),
            ))  # fmt: skip
    return out or None
