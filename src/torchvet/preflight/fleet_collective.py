"""A small all_reduce over all ranks, in child processes that are killed when it hangs."""

from __future__ import annotations

import json
import os
import sys

from torchvet.findings import Text

from .command import execute
from .fleet_words import blocks_of
from .probe import FAIL, PASS, WARN, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 40.0
MIB = 64
"""Size of the all_reduce that the bandwidth is taken from."""

_CHILD = """
import datetime, json, os, sys, time
backend, address, port, rank, world, local, mib = sys.argv[1:8]
rank, world, local = int(rank), int(world), int(local)
import torch
import torch.distributed as dist
limit = datetime.timedelta(seconds=30)
store = dist.TCPStore(address, int(port), world, rank == 0, timeout=limit, wait_for_workers=False)
if backend == "nccl":
    torch.cuda.set_device(local % torch.cuda.device_count())
dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
device = "cuda" if backend == "nccl" else "cpu"
x = torch.full((8,), float(rank), device=device)
dist.all_reduce(x)
right = bool((x == world * (world - 1) / 2).all().item())
y = torch.ones(int(mib) * 262144, device=device)
times = []
for _ in range(4):
    if device == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(y)
    if device == "cuda":
        torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
best = min(times[1:])
print("RESULT " + json.dumps({"right": right, "gbs": 2 * (world - 1) / world * y.numel() * 4 / best / 1e9}), flush=True)
store.add("done", 1)
if rank == 0:
    end = time.monotonic() + 10
    while store.add("done", 0) < world and time.monotonic() < end:
        time.sleep(0.02)
os._exit(0)
"""


def run(backend: str, address: str, port: int, rank: int, world: int, local: int, mib: int) -> dict[str, Any]:
    """One rank's part: {"right", "gbs"} or {"error"}; at most SECONDS."""
    env = {**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"}
    words = [backend, address, str(port), str(rank), str(world), str(local), str(mib)]
    ran = execute([sys.executable, "-c", _CHILD, *words], SECONDS, env)
    for line in ran.out.splitlines():
        if line.startswith("RESULT "):
            said: dict[str, Any] = json.loads(line[7:])
            return said
    if ran.timed_out:
        return {"error": "no answer"}
    lines = [x.strip() for x in ran.err.splitlines() if x.strip()]
    return {"error": (lines[-1] if lines else f"exit {ran.code}")[:200]}


def judge(backend: str, said: dict[int, dict[str, Any]], world: int) -> list[Result]:
    """Results of all ranks together; ranks that are not in `said` did not answer."""
    name = "fleet-nccl-all-reduce" if backend == "nccl" else f"fleet-{backend}"
    bad = {r: said.get(r, {"error": "no answer"}).get("error", "") for r in range(world)}
    bad = {r: e for r, e in bad.items() if e}
    wrong = sorted(r for r, x in said.items() if x.get("right") is False)
    if bad:
        hung = sorted(r for r, e in bad.items() if e == "no answer")
        other = next((e for r, e in sorted(bad.items()) if e != "no answer"), "")
        why = Text(": {error}", "：{error}", error=other) if other else Text("")
        return [
            Result(name, FAIL, sorted(bad), world,
                   Text("all_reduce over {backend} did not end on rank {ranks}{why}",
                        "{backend} 的 all_reduce 在 rank {ranks} 上未完成{why}",
                        backend=backend, ranks=blocks_of(hung or sorted(bad)), why=why),
                   Text("NCCL_DEBUG=INFO on one more run shows the interface that each rank takes",
                        "再次运行并设置 NCCL_DEBUG=INFO，查看各 rank 选用的接口")
                   if backend == "nccl" else Text("GLOO_SOCKET_IFNAME names the interface that all nodes share",
                        "用 GLOO_SOCKET_IFNAME 指定所有节点共有的接口"))
        ]  # fmt: skip
    if wrong:
        return [
            Result(name, FAIL, wrong, world, Text("all_reduce over {backend} gives a wrong sum on rank {ranks}",
                 "{backend} 的 all_reduce 在 rank {ranks} 上结果错误", backend=backend, ranks=blocks_of(wrong)),
                   Text("look at peer-to-peer and ECC of the GPUs: torchvet preflight --only gpu",
                        "检查 GPU 的点对点与 ECC：torchvet preflight --only gpu"))
        ]  # fmt: skip
    speeds = [float(x.get("gbs", 0)) for x in said.values()]
    slow = min(speeds, default=0.0)
    verdict = WARN if backend == "nccl" and slow < 1.0 else PASS
    text = Text("all_reduce over {backend}, {world} ranks: {gbs} GB/s bus bandwidth",
         "{backend} all_reduce，{world} 个 rank：总线带宽 {gbs} GB/s",
                backend=backend, world=world, gbs=f"{slow:.2g}" if slow < 10 else f"{slow:.0f}")  # fmt: skip
    fix = (
        Text(
            "traffic may go through host memory or TCP: NCCL_DEBUG=INFO shows the way",
            "流量可能经主机内存或 TCP：用 NCCL_DEBUG=INFO 查看",
        )
        if verdict == WARN
        else None
    )
    return [Result(name, verdict, round(slow, 3), None, text, fix)]
