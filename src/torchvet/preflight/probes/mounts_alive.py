"""Do the servers of all network file systems answer?"""

from __future__ import annotations

from torchvet.findings import Text

from ..host import ANSWER, MAY_HANG
from ..probe import Host, Plan, Probe, Result

MOST = 12
"""So many mounts are asked at most; automounters can have thousands."""

PROBE = Probe(
    name="mounts-alive",
    area="disk",
    summary=Text("servers of network file systems answer", "网络文件系统的服务器有响应"),
    seconds=20,
)


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    own = [host.cwd(), host.env.get("HOME"), plan.data_dir, plan.checkpoint_dir]
    used = [m.place for m in (host.mount_of(p) for p in own if p) if m is not None]
    places = [m.place for m in host.mounts() if m.kind.startswith(MAY_HANG) and m.kind != "autofs"]
    asked = sorted(dict.fromkeys(places), key=lambda p: p not in used)[:MOST]  # those of the job first
    answers = {p: host.alive(p) for p in asked}
    dead = [p for p, alive in answers.items() if alive is False]
    out = []
    for place in dead:
        said = Text("{place} gave no answer in {n} s", "{place} 在 {n} 秒内没有响应", place=place, n=int(ANSWER))
        fix = Text("look for its server; umount -f -l {place} frees what waits",
                   "检查其服务器；umount -f -l {place} 可释放等待者",
                   place=place)  # fmt: skip
        if place in used:
            text = Text(
                "{x}; the job starts or reads there and will wait for ever",
                "{x}；作业在此启动或读取，会一直等待",
                x=said,
            )
            out.append(PROBE.fail(place, ANSWER, text, fix))
        else:
            out.append(PROBE.warn(place, ANSWER, said, fix))
    if out:
        return out
    answered = sum(alive is True for alive in answers.values())
    if not answered:
        return None
    return PROBE.ok(
        answered, len(asked), Text("{n} network file systems answer", "{n} 个网络文件系统有响应", n=answered)
    )
