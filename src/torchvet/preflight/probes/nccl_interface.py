"""NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME against the interfaces that exist."""

from __future__ import annotations

from torchvet.findings import Text

from ..network import Interface, interfaces, selected
from ..probe import Host, Plan, Probe, Result
from ..variables import Setting, settings

PROBE = Probe(
    name="nccl-interface", area="nccl",
    summary=Text("the named network interfaces exist and are up", "指定的网络接口存在且已启用"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    found, known = interfaces(host), settings(host)
    out: list[Result] = []
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        setting = known.get(name)
        if setting is not None and len(setting.value) > 1 and found:  # NCCL ignores a single character
            out += [r] if (r := _one(setting, found, (plan.node_count(host) or 1) > 1)) else []
    if out:
        return out
    shown = [known[n].shown for n in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") if n in known]
    return PROBE.ok(shown, None, Text("{shown}", shown=", ".join(shown))) if shown and found else None


def _one(setting: Setting, found: list[Interface], several: bool) -> Result | None:
    names = [i.name for i in found]
    if setting.name.startswith("GLOO"):  # gloo takes a list of whole names (ProcessGroupGloo.cpp)
        parts = [w.strip() for w in setting.value.split(",") if w.strip()]
        chosen = [i for i in found if i.name in parts]
        absent = [w for w in parts if w not in names]
    else:
        hit = selected(setting.value, names)
        chosen = [i for i in found if i.name in hit]
        absent = [] if setting.value[0] == "^" else [
            w for w in setting.value.lstrip("=").split(",")
            if w and not selected(("=" if setting.value[0] == "=" else "") + w, names)
        ]  # fmt: skip
    usable = [i for i in chosen if i.up and i.addressed is not False]
    here = ", ".join(i.name for i in found if i.up and not i.loopback) or "lo"
    fix = Text("name one of: {here}", "改为其中之一：{here}", here=here)
    if not chosen:
        said = Text(
            "{shown} fits no interface of this machine", "{shown} 与本机任何网络接口都不匹配", shown=setting.shown
        )
        return PROBE.fail(setting.value, here, said, fix)
    if not usable:
        down = ", ".join(i.name for i in chosen)
        said = Text(
            "{shown}: {down} is down or has no address",
            "{shown}：{down} 未启用或没有地址",
            shown=setting.shown,
            down=down,
        )
        return PROBE.fail(setting.value, here, said, fix)
    if several and all(i.loopback or i.name.startswith(("docker", "virbr")) for i in usable):
        said = Text("{shown} with several nodes: {names} reaches this machine only",
             "{shown} 用于多节点：{names} 只能访问本机",
                    shown=setting.shown, names=", ".join(i.name for i in usable))  # fmt: skip
        return PROBE.fail(setting.value, here, said, fix)
    if absent:
        said = Text(
            "{shown}: there is no {absent} here",
            "{shown}：本机没有 {absent}",
            shown=setting.shown,
            absent=", ".join(absent),
        )
        return PROBE.warn(setting.value, here, said, fix)
    return _prefix(setting, chosen)


def _prefix(setting: Setting, chosen: list[Interface]) -> Result | None:
    """A full name is a prefix for NCCL: eth1 is eth10 too."""
    value = setting.value
    if setting.name.startswith("GLOO") or value[0] in "^=":
        return None
    words = value.split(",")
    exact = [i.name for i in chosen if i.name in words]
    more = [i.name for i in chosen if i.name not in words and i.up and any(i.name.startswith(w) for w in exact)]
    if not more:
        return None
    return PROBE.warn(
        value, None,
        Text("{shown} is a prefix: it selects {more} too", "{shown} 按前缀匹配：还会选中 {more}",
             shown=setting.shown, more=", ".join(more)),
        Text("NCCL_SOCKET_IFNAME=={value}", value=value),
    )  # fmt: skip
