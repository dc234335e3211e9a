"""What differs between nodes that should be the same."""

from __future__ import annotations

from torchvet.findings import Text

from .fleet_words import blocks_of, hosts_text
from .probe import FAIL, PASS, UNKNOWN, WARN, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLOCK_WARN, CLOCK_FAIL = 1.0, 30.0
"""Seconds between two clocks. AMD's Primus warns at 30 s; from 1 s on, logs of two ranks cannot be put in order."""

_NODE = (
    # key, verdict, what it is
    ("torch", FAIL, Text("torch", "torch")),
    ("torch_git", FAIL, Text("the commit of torch", "torch 的提交")),
    ("torch_cuda", FAIL, Text("torch's CUDA", "torch 的 CUDA")),
    ("nccl", FAIL, Text("NCCL", "NCCL")),
    ("code", FAIL, Text("the job's code", "作业代码")),
    ("driver", WARN, Text("the GPU driver", "GPU 驱动")),
    ("python", WARN, Text("Python", "Python")),
    ("kernel", WARN, Text("the kernel", "内核")),
    ("gpus", WARN, Text("the GPUs", "GPU")),
)


def drift(ranks: list[dict[str, Any]], nodes: list[dict[str, Any]], labels: dict[int, str]) -> list[Result]:
    """Results about versions, code, GPUs, environment and clocks."""
    out: list[Result] = []
    same = 0
    for key, verdict, what in _NODE:
        values = {labels[m["rank"]]: _value(m, key) for m in nodes}
        known = {n: v for n, v in values.items() if v}
        if key == "torch_git" and any(r.probe == "fleet-torch" for r in out):
            continue
        if len(set(known.values())) > 1:
            out.append(Result(
                "fleet-" + key.replace("_", "-"), verdict, known, None, _differ(what, known),
                Text("the same image, environment and commit on every node", "所有节点使用相同的镜像、环境与提交"),
            ))  # fmt: skip
        elif len(known) > 1:
            same += 1
    if same and len(nodes) > 1:
        out.append(
            Result(
                "fleet-versions",
                PASS,
                same,
                None,
                Text("{n} properties are the same on all nodes", "{n} 项属性在所有节点一致", n=same),
            )
        )
    return out + _environment(ranks) + _clocks(nodes, labels)


def _value(message: dict[str, Any], key: str) -> str:
    if key == "gpus":
        names = message["gpus"]
        return (
            f"{len(names)} × {names[0]}"
            if names
            else (f"{message['gpu_count']} GPUs" if message.get("gpu_count") else "")
        )
    if key in ("code", "driver"):
        return str(message.get(key) or "")
    return str(message["report"]["node"].get(key, ""))


def _groups(values: dict[Any, str]) -> list[tuple[str, list[Any]]]:
    """(value, who has it), the most frequent first."""
    groups: dict[str, list[Any]] = {}
    for who, value in values.items():
        groups.setdefault(value, []).append(who)
    return sorted(groups.items(), key=lambda g: (-len(g[1]), g[1]))


def _differ(what: Text, values: dict[str, str]) -> Text:
    groups = _groups(values)
    usual, many = groups[0]
    few = groups[1:]
    said = Text("{hosts}: {value}", "{hosts}：{value}", hosts=hosts_text(few[0][1]), value=few[0][0])
    for value, who in few[1:4]:
        said = Text(
            "{said}; {hosts}: {value}", "{said}；{hosts}：{value}", said=said, hosts=hosts_text(who), value=value
        )
    if len(many) > 1:
        return Text("{what} differs: {said}; the other {n} nodes: {usual}",
             "{what}不一致：{said}；其余 {n} 个节点：{usual}",
                    what=what, said=said, n=len(many), usual=usual)  # fmt: skip
    return Text(
        "{what} differs: {said}; {host}: {usual}",
        "{what}不一致：{said}；{host}：{usual}",
        what=what,
        said=said,
        host=many[0],
        usual=usual,
    )


def _environment(ranks: list[dict[str, Any]]) -> list[Result]:
    names = sorted({n for m in ranks for n in m["env"]})
    out = []
    for name in names:
        if len({m["env"].get(name, "") for m in ranks}) < 2:
            continue
        values = {m["rank"]: m["env"].get(name, "") for m in ranks}
        groups = _groups(values)
        # a value of its own for most ranks is meant so: a file for each rank
        if len(groups[0][1]) * 2 <= len(values):
            continue
        usual = groups[0][0]
        rare, who = groups[1]
        out.append(Result(
            "fleet-environment", WARN, {str(k): v for k, v in values.items() if v != usual}, usual,
            Text("{name} differs: {rare} on rank {ranks}, {usual} on the others",
                 "{name} 不一致：rank {ranks} 为 {rare}，其余为 {usual}",
                 name=name, rare=_word(rare), ranks=blocks_of(sorted(who)), usual=_word(usual)),
            Text("set it once, in the launcher or the image", "在启动器或镜像中统一设置"),
        ))  # fmt: skip
    if len(ranks) > 1 and not out:
        out.append(
            Result(
                "fleet-environment",
                PASS,
                len(names),
                None,
                Text("{n} variables are the same on all ranks", "{n} 个变量在所有 rank 一致", n=len(names)),
            )
        )
    return out


def _word(value: str) -> Text:
    shown = value if len(value) <= 60 else value[:57] + "..."
    return Text("{value}", value=repr(shown)) if value else Text("not set", "未设置")


def _clocks(nodes: list[dict[str, Any]], labels: dict[int, str]) -> list[Result]:
    """Offsets against rank 0 by Cristian's method: half of the round trip is the error."""
    out = []
    known = 0
    for m in nodes:
        if not m.get("clock"):
            continue
        known += 1
        offset, error = m["clock"]
        off = abs(offset) - error
        if off <= CLOCK_WARN:
            continue
        said = Text(
            "the clock of {host} is {n} s {way} that of rank 0",
            "{host} 的时钟比 rank 0 {way} {n} 秒",
            host=labels[m["rank"]],
            n=f"{abs(offset):.1f}",
            way=Text("ahead of", "快") if offset > 0 else Text("behind", "慢"),
        )
        fix = Text(
            "start chronyd or systemd-timesyncd on it: chronyc makestep",
            "在其上启动 chronyd 或 systemd-timesyncd：chronyc makestep",
        )
        out.append(Result("fleet-clock", FAIL if off > CLOCK_FAIL else WARN, round(offset, 3), CLOCK_WARN, said, fix))
    if known < len(nodes) and len(nodes) > 1:
        out.append(
            Result(
                "fleet-clock",
                UNKNOWN,
                None,
                None,
                Text("the clocks of {n} nodes were not compared", "有 {n} 个节点的时钟未比较", n=len(nodes) - known),
            )
        )
    elif known > 1 and not out:
        out.append(Result("fleet-clock", PASS, known, CLOCK_WARN, Text("{n} clocks agree", "{n} 个时钟一致", n=known)))
    return out
