"""Forced algorithms and protocols."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import Setting, removal, settings, table, tuned

PROBE = Probe(
    name="nccl-algo", area="nccl", summary=Text("NCCL chooses algorithm and protocol itself", "NCCL 自行选择算法与协议")
)

STRICT = (2, 24)
"""Since NCCL 2.24 an unknown word is an error, and without ring nothing falls back to it (env.rst, NCCL_ALGO)."""


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    known = settings(host)
    out = []
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        if name in known and known[name].value.strip():
            out.append(_judge(known[name], host.versions().get("nccl", ""), tuned(host)))
    return out or PROBE.ok(None, None, Text("neither is forced", "均未强制指定"))


def _judge(setting: Setting, version: str, meant: bool) -> Result:
    found = re.match(r"(\d+)\.(\d+)", version)
    strict = found is None or (int(found[1]), int(found[2])) >= STRICT
    words = table("words")[setting.name]
    groups = [g.rpartition(":")[2] for g in setting.value.lower().split(";")]
    unknown = sorted({w.strip() for g in groups for w in g.lstrip("^").split(",")} - set(words) - {""})
    if unknown and strict:
        return PROBE.fail(
            setting.value, ", ".join(words),
            Text("{shown}: NCCL does not know {unknown} and stops", "{shown}：NCCL 不识别 {unknown}，会直接报错",
                 shown=setting.shown, unknown=", ".join(unknown)),
            Text("words are: {words}", "可用值：{words}", words=", ".join(words)),
        )  # fmt: skip
    listed = [g for g in groups if g and not g.startswith("^")]
    if setting.name == "NCCL_ALGO" and strict and any("ring" not in g.split(",") for g in listed):
        return PROBE.warn(
            setting.value, "ring",
            Text("{shown} without ring: since NCCL 2.24 a call that has no other algorithm fails",
                 "{shown} 不含 ring：自 NCCL 2.24 起，没有可用算法的调用会失败", shown=setting.shown),
            removal(setting),
        )  # fmt: skip
    if setting.name == "NCCL_PROTO" and any("ll128" in g.split(",") for g in listed):
        return PROBE.warn(
            setting.value, None,
            Text("{shown} forces LL128: where the platform does not support it, data are corrupted",
                 "{shown} 强制使用 LL128：在不支持的平台上会损坏数据", shown=setting.shown),
            removal(setting),
        )  # fmt: skip
    if meant:
        return PROBE.ok(setting.value, None, Text("{shown}", shown=setting.shown))
    return PROBE.warn(
        setting.value, None,
        Text("{shown} is set (debugging aid): it takes the choice from NCCL",
             "设置了 {shown}（调试用）：NCCL 无法自行选择", shown=setting.shown),
        removal(setting),
    )  # fmt: skip
