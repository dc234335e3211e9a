"""What a person sees of the trials: a table, the arguments to paste, JSON, and a plot."""

from __future__ import annotations

import json
from html import escape

from torchvet.findings import Text
from torchvet.findings.columns import width

from .plan import Batch, Room, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .search import Trial

HEAD = (
    Text("workers", "工作进程"), Text("prefetch", "预取"), Text("pin", "锁页"), Text("persistent", "常驻"),
    Text("waiting", "等待"), Text("batches/s", "批/秒"), Text("/dev/shm", "/dev/shm"), Text("memory", "内存"),
)  # fmt: skip
NOISY = 0.1
"""Relative error of one measurement from which on a person is told."""
YES, NO = Text("yes", "是"), Text("no", "否")


def row(trial: Trial, spoken: str) -> list[str]:
    s = trial.setting
    settings = [str(s.workers), str(s.prefetch) if s.workers else "-", (YES if s.pin else NO).render(spoken)]
    settings.append((YES if s.persistent else NO).render(spoken) if s.workers else "-")
    if s.context:
        settings[0] += f" ({s.context})"
    if trial.failed is not None:
        return [*settings, trial.failed.render(spoken)]
    share = 100 * trial.waiting
    return [
        *settings, f"{share:.1f} %" if share < 10 else f"{share:.0f} %",
        f"{trial.rate:.1f}" if trial.rate < 1000 else f"{trial.rate:.0f}",
        size(trial.shm) if s.workers else "-", size(trial.resident),
    ]  # fmt: skip


def table(trials: list[Trial], chosen: Trial | None, spoken: str) -> str:
    """The trials by setting, the chosen one marked. Columns count as wide as a terminal shows them."""
    rows = [[t.render(spoken) for t in HEAD]]
    ordered = sorted(trials, key=lambda t: (t.setting.context, t.setting.weight))
    rows += [row(t, spoken) for t in ordered]
    wide = [max(width(r[i]) for r in rows if i < len(r) and len(r) == len(HEAD)) for i in range(len(HEAD))]
    lines = []
    for i, r in enumerate(rows):
        mark = "→" if i and ordered[i - 1] is chosen else " "
        cells = [" " * (wide[j] - width(c)) + c for j, c in enumerate(r)] if len(r) == len(HEAD) else [
            *(" " * (wide[j] - width(c)) + c for j, c in enumerate(r[:4])), r[4]]  # fmt: skip
        lines.append(f" {mark} " + "  ".join(cells))
    return "\n".join(lines)


def summary(chosen: Trial | None, batch: Batch, free: Room, spoken: str, step: bool, noise: float = 0.0) -> str:
    """Bounds, the verdict, and what to write. `noise`: relative error of one measurement."""
    lines = [bounds(batch, free).render(spoken)]
    if chosen is None:
        return "\n".join([*lines, Text("no setting worked here", "这里没有可用的设置").render(spoken)])
    if chosen.waiting > 0.1 and step:
        share = round(100 * chosen.waiting)
        if chosen.busy > 0.8 * free.cpus_per_rank:
            said = Text(
                "the step still waits {share} % of the time: the CPUs are busy, so cache, resize or decode less",
                "训练步仍有 {share} % 的时间在等待：CPU 已满负荷，请缓存、缩小或减少解码", share=share,
            )  # fmt: skip
        else:
            said = Text(
                "the step still waits {share} % of the time: the data is slow, not the CPUs",
                "训练步仍有 {share} % 的时间在等待：瓶颈是数据而非 CPU", share=share,
            )  # fmt: skip
        lines.append(said.render(spoken))
    if chosen.spread > 5 and chosen.setting.workers and step:
        said = Text(
            "some batches take {n} times as long as others: in_order=False (torch 2.6) lets the others pass",
            "有些批次的耗时是其他批次的 {n} 倍：in_order=False（torch 2.6）可让其他批次先行", n=round(chosen.spread),
        )  # fmt: skip
        lines.append(said.render(spoken))
    if noise > NOISY:
        said = Text(
            "one measurement varies by {n} % here: other work on this machine can decide between close settings",
            "此处单次测量波动 {n} %：相近设置的优劣可能由本机上的其他任务决定", n=round(100 * noise),
        )  # fmt: skip
        lines.append(said.render(spoken))
    given = ", ".join(f"{k}={v!r}" for k, v in chosen.setting.arguments().items())
    lines.append(f"DataLoader(…, {given})")
    return "\n".join(lines)


def bounds(batch: Batch, free: Room) -> Text:
    unknown = Text("unknown", "未知")
    return Text(
        "Bounds: {cpus} CPUs for this rank ({all} for {ranks}), a batch of {bytes}, /dev/shm {shm} free, "
        "{memory} of memory free",
        "限制：本 rank 可用 {cpus} 个 CPU（{ranks} 个 rank 共 {all} 个），每批 {bytes}，/dev/shm 空闲 {shm}，"
        "空闲内存 {memory}",
        cpus=f"{free.cpus_per_rank:g}", all=f"{free.cpus:g}", ranks=free.ranks, bytes=size(batch.bytes),
        shm=size(free.shm) if free.shm is not None else unknown, memory=size(free.memory) if free.memory else unknown,
    )  # fmt: skip


def as_json(trials: list[Trial], chosen: Trial | None, batch: Batch, free: Room, noise: float | None = None) -> str:
    def plain(t: Trial) -> dict[str, object]:
        out: dict[str, object] = dict(t.setting.arguments())
        if t.failed is not None:
            return {**out, "failed": t.failed.render("en")}
        return {**out, "waiting": round(t.waiting, 4), "rate": round(t.rate, 3), "shm": t.shm, "resident": t.resident,
                "started": round(t.started, 3), "spread": round(t.spread, 2), "busy": round(t.busy, 2),
                "measured": len(t.rates)}  # fmt: skip

    found = {
        "schema": 1, "chosen": plain(chosen) if chosen else None, "trials": [plain(t) for t in trials],
        "noise": round(noise, 4) if noise is not None else None,
        "batch": {"bytes": batch.bytes, "storages": batch.storages, "seconds": batch.seconds},
        "room": {"cpus": free.cpus, "ranks": free.ranks, "shm": free.shm, "memory": free.memory, "files": free.files},
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def plot_page(trials: list[Trial], chosen: Trial | None, spoken: str, *, html: bool) -> str:
    """The plot as a file: SVG, or one HTML page with the table."""
    drawing = plot(trials, chosen, spoken)
    if not html:
        return drawing
    shown = escape(table(trials, chosen, spoken))
    return (
        f'<!doctype html><html lang="{spoken}"><meta charset="utf-8"><title>torchvet tune</title>'
        f"<body>{drawing}<pre>{shown}</pre></body></html>\n"
    )


def plot(trials: list[Trial], chosen: Trial | None, spoken: str) -> str:
    """Share of waiting and batches a second over the number of workers, as SVG (640 x 360)."""
    good = sorted((t for t in trials if t.failed is None), key=lambda t: t.setting.weight)
    most = max((t.setting.workers for t in good), default=0) or 1
    fastest = max((t.rate for t in good), default=0.0) or 1.0
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" font-size="12">',
        '<rect width="640" height="360" fill="#fff"/><path d="M60 20V310H600" fill="none" stroke="#555"/>',
    ]
    for share in range(0, 101, 25):
        y = 310 - 2.8 * share
        out.append(f'<text x="52" y="{y + 4:.0f}" text-anchor="end">{share} %</text>')
        out.append(f'<path d="M60 {y:.0f}H600" stroke="#ddd"/>')
    for workers in sorted({t.setting.workers for t in good}):
        out.append(f'<text x="{60 + 540 * workers / most:.0f}" y="328" text-anchor="middle">{workers}</text>')
    names: tuple[tuple[Text, str, Callable[[Trial], float]], ...] = (
        (Text("waiting", "等待"), "#c0392b", lambda t: t.waiting),
        (
            Text("batches/s ({n} at most)", "批/秒（最高 {n}）", n=f"{fastest:.1f}"),
            "#2471a3",
            lambda t: t.rate / fastest,
        ),
    )
    for k, (name, colour, value) in enumerate(names):
        best: dict[int, Trial] = {}
        for t in good:
            if t.setting.workers not in best or t.rate > best[t.setting.workers].rate:
                best[t.setting.workers] = t
        points = " ".join(f"{60 + 540 * w / most:.1f},{310 - 280 * value(t):.1f}" for w, t in sorted(best.items()))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for t in good:
            mark = 7 if t is chosen else 3
            x, y = 60 + 540 * t.setting.workers / most, 310 - 280 * value(t)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark}" fill="{colour}"/>')
        out.append(f'<text x="{80 + 160 * k}" y="14" fill="{colour}">{escape(name.render(spoken))}</text>')
    label = escape(HEAD[0].render(spoken))
    out.append(f'<text x="330" y="350" text-anchor="middle">{label}</text></svg>')
    return "\n".join(out) + "\n"
