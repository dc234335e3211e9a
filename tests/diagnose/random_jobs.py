"""Jobs of many shapes with one fault in each, made from a number: what is true of them is known."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from simulated import Sim, batch, call, end, p2p, say, stay, sync

LOADER = (
    ("_try_get_data", 1131, "/opt/conda/lib/python3.10/site-packages/torch/utils/data/dataloader.py"),
    ("train", 44, "/workspace/train.py"),
)
TOKENS = (("tokenize", 3, "/workspace/data.py"),)
VERSIONS = [f"2.{n}" for n in range(11)]
FAULTS = ("stall", "stall", "exit", "raise", "skip", "op", "size", "device", "extra", "none", "all")
KINDS = {
    "stall": ("host-stall", "rank-absent", "p2p-partner-missing"),
    "exit": ("rank-absent", "uneven-inputs", "host-stall"),
    "raise": ("rank-absent", "uneven-inputs", "host-stall"),
    # a call that is left out may show as whatever then meets
    "skip": ("uneven-inputs", "collective-mismatch", "group-order-cycle", "shape-mismatch", "p2p-partner-missing",
             "rank-absent", "host-stall"),
    "op": ("collective-mismatch",), "size": ("shape-mismatch", "uneven-inputs"),
    "extra": ("collective-mismatch", "group-order-cycle", "p2p-partner-missing"),
    "device": ("device-stuck",), "all": ("unknown", "fabric", "device-stuck"), "none": (),
}  # fmt: skip


@dataclass
class Made:
    fault: str
    sim: Sim
    bad: list[int]
    hung: bool
    errors: dict[int, str] = field(default_factory=dict)


def grid(kind: str, rng: random.Random):
    """(world, groups, program of one step for a rank)."""
    groups: dict = {}
    layers, ops = (
        rng.choice([1, 2, 3]),
        [rng.choice(["all_reduce", "_all_gather_base", "_reduce_scatter_base"]) for _ in "ab"],
    )
    with_world = rng.random() < 0.7
    world = {"pp": 4, "pptp": 6, "hsdp": 8, "3d": 8}.get(kind) or rng.choice([3, 4, 5, 8])
    if kind in ("tpdp", "hsdp"):
        width = 4 if kind == "hsdp" else rng.choice([2, 4])
        world = width * 2
        words = ("mesh_shard", "mesh_replicate") if kind == "hsdp" else ("tp", "dp")
        groups |= {f"tp{i}": (str(10 + i), words[0], list(range(i * width, (i + 1) * width))) for i in range(2)}
        groups |= {f"dp{i}": (str(30 + i), words[1], list(range(i, world, width))) for i in range(width)}
    elif kind == "pp":
        groups["pp"] = ("9", "pp", list(range(world)))
    elif kind == "pptp":
        groups |= {f"tp{i}": (str(10 + i), "tp", [2 * i, 2 * i + 1]) for i in range(3)}
        groups |= {f"pp{i}": (str(30 + i), "pp", list(range(i, 6, 2))) for i in range(2)}
    elif kind == "3d":
        groups |= {f"tp{i}": (str(10 + i), "tp", [2 * i, 2 * i + 1]) for i in range(4)}
        groups |= {f"dp{s}{k}": (str(20 + 2 * s + k), "dp", [4 * s + k, 4 * s + 2 + k]) for s in (0, 1) for k in (0, 1)}
        groups |= {f"pp{i}": (str(40 + i), "pp", [i, 4 + i]) for i in range(4)}

    def step(r: int) -> list:
        out: list = []
        if kind == "ddp":
            return [call("world", "all_reduce", 4096 >> i, line=50 + i) for i in range(layers)]
        if kind == "fsdp":
            out = [call("world", "_all_gather_base", 100 + i, line=20) for i in range(layers)]
            return out + [call("world", "_reduce_scatter_base", 200 + i, line=30) for i in range(layers)]
        if kind == "ring":
            out = [batch("world", [("send", (r + 1) % world), ("recv", (r - 1) % world)]) for _ in range(layers)]
            return [*out, call("world", "all_reduce", 9, line=60)]
        if kind in ("tpdp", "hsdp"):
            width = len(groups["tp0"][2])
            out = [call(f"tp{r // width}", ops[0], 64, line=31 + i) for i in range(layers)]
            out.append(call(f"dp{r % width}", ops[1], 640, line=80))
        else:
            jump = {"pp": 1, "pptp": 2, "3d": 4}[kind]
            pp = {"pp": "pp", "pptp": f"pp{r % 2}", "3d": f"pp{r % 4}"}[kind]
            stage, last = r // jump, r + jump >= world
            if stage:
                out.append(p2p(pp, "recv", r - jump, line=85))
            if kind != "pp":
                count = layers * (1 + stage) if kind == "pptp" else layers
                out += [call(f"tp{r // 2}", "all_reduce", 64, line=31 + i) for i in range(count)]
            if not last:
                out += [p2p(pp, "send", r + jump, line=91), p2p(pp, "recv", r + jump, line=97)]
            if stage:
                out.append(p2p(pp, "send", r - jump, line=99))
            if kind == "3d":
                out.append(call(f"dp{stage}{r % 2}", "_reduce_scatter_base", 512, line=80))
        return [*out, call("world", "all_reduce", 1, line=90, fn="clip")] if with_world else out

    return world, groups, step


def job(number: int) -> Made:
    rng = random.Random(number)
    world, groups, step = grid(rng.choice(["ddp", "ddp", "fsdp", "tpdp", "hsdp", "pp", "pptp", "ring", "3d"]), rng)
    count, bad = rng.randint(4, 12), rng.randrange(world)
    at, fault = rng.randint(2, count - 1), rng.choice(FAULTS)
    rows = [[[*step(r), sync(), say(f"step {s} loss {2 - s * 0.01:.3f}")] for s in range(count)] for r in range(world)]
    mine = rows[bad][at]
    calls = [i for i, x in enumerate(mine) if x["do"] == "call"]
    fault = "stall" if fault in ("skip", "op", "size", "extra") and not calls else fault
    stuck, errors, ranks = set(), {}, [bad]
    place = rng.randint(0, len(mine) - 2)
    i = rng.choice(calls) if calls else 0
    if fault in ("stall", "exit", "raise"):
        last = {
            "stall": [stay(*rng.choice([LOADER, TOKENS]))],
            "exit": [say("training finished"), end(0)],
            "raise": [end(1)],
        }
        rows[bad] = [*rows[bad][:at], mine[:place] + last[fault]]
        if fault == "raise":
            errors[bad] = (f"[rank{bad}]: Traceback (most recent call last):\n"
                           f'[rank{bad}]:   File "/workspace/train.py", line 44, in train\n[rank{bad}]:     tok(x)\n'
                           f"[rank{bad}]: KeyError: 'image'\n")  # fmt: skip
    elif fault == "skip":
        rows[bad][at] = mine[:i] + mine[i + 1 :]
    elif fault == "op":
        other = {**mine[i], "op": "broadcast", "at": [("odd", 7, "/workspace/odd.py"), *mine[i]["at"]]}
        rows[bad][at] = [*mine[:i], other, *mine[i + 1 :]]
    elif fault == "size":
        rows[bad][at] = [*mine[:i], {**mine[i], "n": mine[i]["n"] + 1}, *mine[i + 1 :]]
    elif fault == "extra":
        more = {**mine[i], "op": "barrier", "n": 1, "at": [("save", 222, "/workspace/train.py")]}
        rows[bad][at] = [*mine[:i], more, *mine[i:]]
    elif fault in ("device", "all"):
        group = mine[i]["group"] if calls else "world"
        which = [bad] if fault == "device" else range(world)
        stuck = {(r, group, rng.randint(2, at + 1) if fault == "device" else at) for r in which}
        ranks = ranks if fault == "device" else []
    else:
        ranks = []
    sim = Sim(world, groups, [[x for s in row for x in s] for row in rows], stuck=stuck)
    return Made(fault, sim, ranks, any(sim.queue) or any(c is None for c in sim.code), errors)


def leave(made: Made, number: int, folder: Path) -> None:
    """What is collected of it: dumps of all or most ranks in some version, logs, stacks; at least one of these."""
    rng = random.Random(-1 - number)
    sim = made.sim
    ranks = [r for r in range(sim.world) if not (made.hung and made.fault in ("exit", "raise") and r in made.bad)]
    if rng.random() < 0.25 and len(ranks) > 2:
        ranks.remove(rng.choice(ranks))
    logs, dumps = rng.random() < 0.6, rng.random() < 0.85
    if dumps:
        sim.dumps(folder / "fr", ranks, rng.choice(["json", "pickle"]), version=rng.choice(VERSIONS), active=rng.random() < 0.3,
                  ring=rng.choice([2000, 2000, 40, 12]), waited=600 if made.hung else 20)  # fmt: skip
    if logs or not dumps:
        sim.logs(folder, made.errors)
    if made.hung and rng.random() < 0.3:
        sim.stacks(folder / "stacks", kind=rng.choice(["py-spy", "faulthandler"]))
