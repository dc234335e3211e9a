"""RANK, WORLD_SIZE, LOCAL_RANK and the like against each other."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole
from ..ranks import launch

PROBE = Probe(
    name="rank-variables", area="launch",
    summary=Text("RANK, WORLD_SIZE and LOCAL_RANK fit together", "RANK、WORLD_SIZE 与 LOCAL_RANK 相互一致"),
)  # fmt: skip

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    env = host.env
    words = {n: env[n] for n in NAMES if n in env}
    if "RANK" not in words and "LOCAL_RANK" not in words:
        return None  # WORLD_SIZE alone is often the number of nodes, in containers of a training operator
    out: list[Result] = []
    for name, word in words.items():
        if whole(word) is None:
            out.append(PROBE.fail(
                word, "a number", Text("{name}={word} is no number", "{name}={word} 不是数字",
                     name=name, word=repr(word)),
                Text("let the launcher set it: torchrun", "由启动器设置：torchrun"),
            ))  # fmt: skip
    if out:
        return out
    number = {n: whole(w) for n, w in words.items()}
    pairs = (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    for small, large in pairs:
        a, b = number.get(small), number.get(large)
        if a is None or b is None:
            continue
        if a < 0 or (a > b if small == "LOCAL_WORLD_SIZE" else a >= b):
            out.append(PROBE.fail(
                a, b, Text("{small}={a} does not fit {large}={b}", "{small}={a} 与 {large}={b} 不一致",
                     small=small, a=a, large=large, b=b),
                Text("ranks count from 0 to world size - 1; unset what an earlier launch left",
                     "rank 取值为 0 到 world size - 1；清除先前启动残留的变量"),
            ))  # fmt: skip
    if "RANK" in number and "WORLD_SIZE" not in number:
        out.append(PROBE.fail(
            words["RANK"], None,
            Text("RANK={rank} is set and WORLD_SIZE is not: init_process_group stops",
                 "设置了 RANK={rank} 而未设置 WORLD_SIZE：init_process_group 会报错",
                 rank=words["RANK"]),
            Text("set WORLD_SIZE, or start with torchrun", "设置 WORLD_SIZE，或用 torchrun 启动"),
        ))  # fmt: skip
    if out:
        return out
    place = launch(env)
    if place is None:
        return None
    return PROBE.ok(
        place.rank,
        place.world,
        Text("rank {rank} of {world}", "rank {rank}，共 {world}", rank=place.rank, world=place.world),
    )
