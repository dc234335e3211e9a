"""Can compilers and hubs write their caches?"""

from __future__ import annotations

from torchvet.findings import Text

from ..host import MAY_HANG
from ..probe import Host, Plan, Probe, Result

COMPILERS = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_HOME")
OTHERS = ("HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR")

PROBE = Probe(
    name="cache-folder",
    area="disk",
    summary=Text("compilers and hubs can write their caches", "编译器与模型库的缓存目录可写"),
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    home = host.env.get("HOME", "")
    out = []
    for name in (*COMPILERS, *OTHERS):
        folder = host.env.get(name, "")
        if not folder.startswith("/"):
            continue
        if denied(host, folder):
            text = Text("{name}={folder} cannot be written", "{name}={folder} 不可写", name=name, folder=folder)
            out.append(PROBE.warn(folder, None, text, Text("export {name}=/tmp/cache", name=name)))
        mount = host.mount_of(folder)
        if (
            name in COMPILERS
            and mount is not None
            and mount.kind.startswith(MAY_HANG)
            and (plan.node_count(host) or 1) > 1
        ):
            text = Text("{name} is on {kind}: all nodes compile into one folder and wait for its locks",
                        "{name} 位于 {kind}：所有节点共用该目录并等待其锁",
                        name=name, kind=mount.kind)  # fmt: skip
            out.append(PROBE.warn(folder, None, text, Text("export {name}=/tmp/$USER/cache", name=name)))
    covered = host.env.get("TRITON_CACHE_DIR") and (host.env.get("HF_HOME") or host.env.get("XDG_CACHE_HOME"))
    if host.env and not covered and (not home.startswith("/") or denied(host, home)):
        text = (
            Text("HOME={home} cannot be written: Triton, Hugging Face and torch.hub keep their caches there",
                 "HOME={home} 不可写：Triton、Hugging Face 与 torch.hub 的缓存都在其中", home=home)
            if home else Text("HOME is not set: Triton and others do not know where to keep their caches",
                              "未设置 HOME：Triton 等不知道缓存目录")
        )  # fmt: skip
        out.append(
            PROBE.warn(home, None, text, Text("export HOME=/tmp/home TRITON_CACHE_DIR=/tmp/triton HF_HOME=/tmp/hf"))
        )
    if out:
        return out
    return PROBE.ok(home, None, Text("caches can be written", "缓存目录可写")) if host.writable(home) else None


def denied(host: Host, folder: str) -> bool:
    """May this user surely not create the folder or write into it?"""
    while folder and folder != "/" and not host.exists(folder):
        folder = folder.rpartition("/")[0]
    return host.writable(folder or "/") is False
