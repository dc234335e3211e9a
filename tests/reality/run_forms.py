"""Runs cases, each run in a process of its own: JSON jobs on standard input, JSON results on standard output.

A job is {"key", "id", "path"}; a result is {"key", "measure", "few", "many", "state"} or {"key", "error"}.
`few` and `many` are what the measure says after FEW and MANY steps, `state` a digest of all parameters after FEW.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import os
import random
import select
import signal
import sys
import time
import traceback

import torch
from drivers import GROWS, HELD, LEFT, MEASURE, UNUSED, drive
from graph_meter import Unused, live_nodes, live_tensors, saved_bytes
from stand_ins import Bench, NoStandIn

from torchvet.run.graph_probe import GraphProbe

FEW, MANY = 5, 9
LIMIT_S = 15


def load(path: str):
    spec = importlib.util.spec_from_file_location("train", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["train"] = module
    spec.loader.exec_module(module)
    return module


def run(job: dict, steps: int) -> dict:
    torch.manual_seed(0)
    random.seed(0)
    os.chdir(os.path.dirname(job["path"]))
    module = load(job["path"])
    bench = Bench(steps)
    measure = job["measure"]
    unused = Unused()
    probe = GraphProbe(torch)
    probe.install()
    probe.open_window()
    probe.state_looks = steps  # a window of a real job takes samples
    if measure == UNUSED:
        with unused.watch():
            kept = drive(job["id"], module, bench)
    else:
        kept = drive(job["id"], module, bench)
    probe.close_window()
    gc.collect()
    made = {f"{os.path.basename(path)}:{line}": n for (path, line, _), n in probe.live.items() if n > 0}
    if measure == LEFT:
        kept = None
    tensors = live_tensors()
    nodes = live_nodes(tensors)
    result = {"nodes": len(nodes), "bytes": saved_bytes(nodes, tensors), "unused": unused.bytes, "held": bench.held}
    digest = hashlib.sha256()
    for t in bench.state():
        digest.update(t.contiguous().numpy().tobytes())
    del kept
    return {**result, "made": made, "state": digest.hexdigest()}


def alone(job: dict, steps: int) -> dict:
    """`run` in a fork, so that nothing left over from one run is counted in the next."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(2, 1)  # what a case prints is no result
            try:
                result = run(job, steps)
            except NoStandIn as e:
                result = {"error": f"no stand-in: {e}"}
            except ModuleNotFoundError as e:
                result = {"missing": e.name}
            except BaseException as e:
                traceback.print_exc()
                result = {"error": f"{type(e).__name__}: {e}"}
            os.write(into, json.dumps(result).encode())
        finally:
            os._exit(0)
    os.close(into)
    data, end = b"", time.monotonic() + LIMIT_S
    while select.select([out], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(out, 65536)
        if not part:
            break
        data += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(out)
    os.waitpid(child, 0)
    return json.loads(data) if data else {"error": f"no result within {LIMIT_S} s"}


def measured(job: dict) -> dict:
    name = MEASURE.get(job["id"], GROWS)
    job = {**job, "measure": name}
    runs = {steps: alone(job, steps) for steps in (FEW, MANY)}
    for r in runs.values():
        if "state" not in r:
            return {"key": job["key"], **r}
    field = name if name in (UNUSED, HELD) else GROWS
    few, many = runs[FEW][field], runs[MANY][field]
    return {
        "key": job["key"],
        "measure": name,
        "few": few,
        "many": many,
        "keeps": many > 0 if name in (LEFT, HELD) else many > few,
        "bytes": [runs[FEW]["bytes"], runs[MANY]["bytes"]],
        "state": runs[FEW]["state"],
        # lines that the probe of `torchvet run` names: what they made is alive, and more of it with more steps
        "made": sorted(k for k, n in runs[MANY]["made"].items() if n > runs[FEW]["made"].get(k, 0)),
        "most": max(runs[MANY]["made"].values(), default=0),
    }


def main() -> None:
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # seconds, and the first optimizer of every fork would import it
    gc.collect()
    gc.freeze()  # what is here is in no fork's count, and the forks share its memory
    for job in json.load(sys.stdin):
        print(json.dumps(measured(job)), flush=True)


if __name__ == "__main__":
    main()
