# ruff: noqa: E501
"""The surroundings of a job as tools print them: environment variables, processes, nvidia-smi, ibstat, package logs."""

from __future__ import annotations

import json
import re

from ..model import Fact
from .lines import words
from .pair_calls import pair_calls
from .patterns import BY_LITERAL, size_of, values_of
from .places import place_of
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..files import Item

MOST = 8 << 20
_ENV_NAMES = re.compile(
    r"^(?:RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT|CUDA_|NVIDIA_|NCCL_|GLOO_|TORCH|PYTORCH_|SLURM_|OMP_|UCX_|FI_|rank$)"
)
_ENV_LINE = re.compile(r"^(?:export )?([A-Z_][A-Z0-9_]*)=(.*)$")
_SECRET = re.compile(r"(?i)token|secret|passw|key|credential")
_PROCS_HEAD = re.compile(r"^\s*rank\s+pid\s+state\b")
_PROCS_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(?:([A-Za-z])(?: \(([^)]*)\))?|\(gone\))\s*(\S+)?(?:\s+VmRSS=(\d+) kB)?(?:\s+Threads=(\d+))?"
)
_PS_HEAD = re.compile(r"^\s*(?:USER|UID|PID|F)\b.*\b(?:COMMAND|CMD)\b")
_SMI_PROCESS = re.compile(r"^\|\s+(\d+)\s+(?:N/A|\S+)\s+(?:N/A|\S+)\s+(\d+)\s+([CG+M]+)\s+(.*?)\s+(\d+)MiB\s*\|")
_SMI_OLD = re.compile(r"^\|\s+(\d+)\s+(\d+)\s+([CG+]+)\s+(.*?)\s+(\d+)MiB\s*\|")
_SMI_DEVICE = re.compile(
    r"^\|\s+(\d+)\s+(.+?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)
_SMI_MEMORY = re.compile(r"(\d+)MiB\s*/\s*(\d+)MiB")
_SMI_LIST = re.compile(r"^GPU (\d+): (.+?) \(UUID: (GPU-[\w\-]+)\)")
_SMI_VERSION = re.compile(r"Driver Version: ([\d.]+)\s+CUDA Version: ([\d.]+)")
_NVML = re.compile(r"^(NVML library version|NVML version|DRIVER version|KMD version): ?([\d.]+)")
_IB_CA = re.compile(r"^\s*(?:CA '(\w+)'|Infiniband device '(\w+)' port (\d+) status:)")
_IB_FIELD = re.compile(r"^\s*(State|state|Physical state|phys state|Rate|rate|Port (\d+)):?\s*(.*)$")
_DPKG = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (upgrade|install|remove) (\S+?)(?::\w+)? (\S+) (\S+)")
_APT = re.compile(r"^(Upgrade|Install|Remove): (.*)$")
_DOCKER = re.compile(r"\b(?:docker|podman|nerdctl) run\b")
_GPU_PACKAGE = re.compile(r"nvidia|cuda|nccl|torch|mlnx|ofed|linux-(?:image|modules)")


def lines_of(item: Item) -> list[str]:
    return item.whole(MOST).decode("utf-8", "replace").split("\n")[:200_000]


def fact(item: Item, kind: str, number: int, line: str, values: dict[str, Any], rank: int | None = None) -> Fact:
    node = place_of(item.name).node
    if node and "node" not in values:
        values = {**values, "node": node}
    return Fact(kind, item.name, number, rank, words(line.encode()), None, number, values)


def _env(item: Item) -> Iterator[Fact]:
    """env.json (one object, or one for each rank and line) and the output of `env`."""
    text = item.whole(MOST).decode("utf-8", "replace")
    rows: list[tuple[int, Any]] = []
    try:
        rows = [(1, json.loads(text))]
    except (ValueError, RecursionError):
        for number, line in enumerate(text.split("\n")[:100_000], 1):
            if line.strip()[:1] == "{":
                try:
                    rows.append((number, json.loads(line)))
                except (ValueError, RecursionError):
                    continue
    if rows and isinstance(rows[0][1], list):
        rows = list(enumerate(rows[0][1], 1))
    if not rows:
        found = {m.group(1): m.group(2) for line in text.split("\n")[:20_000] if (m := _ENV_LINE.match(line))}
        rows = [(1, found)]
    for number, row in rows:
        if not isinstance(row, dict):
            continue
        nested = [(k, v) for k, v in row.items() if str(k).isdigit() and isinstance(v, dict)]
        for key, values in nested or [("", row)]:
            kept = {
                str(k): str(v)[:200]
                for k, v in list(values.items())[:2000]
                if _ENV_NAMES.match(str(k)) and not _SECRET.search(str(k))
            }
            rank = next(
                (
                    int(str(x))
                    for x in (values.get("rank"), values.get("RANK"), key)
                    if x is not None and re.fullmatch(r"\d{1,6}", str(x))
                ),
                None,
            )
            if kept:
                yield fact(item, "env", number, " ".join(f"{k}={v}" for k, v in kept.items())[:300], kept, rank)


def _processes(item: Item) -> Iterator[Fact]:
    for number, line in enumerate(lines_of(item), 1):
        row = _PROCS_ROW.match(line)
        if row:
            rank, pid, state, word, wchan, rss, threads = row.groups()
            values = {"pid": int(pid), "state": state or "gone", "state_name": word or "", "wchan": wchan or "",
                      "rss": int(rss) * 1024 if rss else None, "threads": int(threads) if threads else None}  # fmt: skip
            yield fact(item, "process", number, line, values, int(rank))


def _ps(item: Item) -> Iterator[Fact]:
    names: list[str] = []
    for number, line in enumerate(lines_of(item), 1):
        if _PS_HEAD.match(line):
            names = line.split()
            continue
        cells = line.split(None, max(0, len(names) - 1))
        if len(cells) != len(names) or not names:
            continue
        row = dict(zip(names, cells, strict=True))
        pid = row.get("PID", "")
        command = row.get("COMMAND") or row.get("CMD") or ""
        if pid.isdigit() and (
            "python" in command or "torchrun" in command or row.get("STAT", row.get("S", "S"))[:1] in "DTZ"
        ):
            rss = row.get("RSS", "")
            yield fact(item, "process", number, line, {
                "pid": int(pid), "state": row.get("STAT", row.get("S", ""))[:1], "wchan": row.get("WCHAN", ""), "command": command[:200],
                "rss": int(rss) * 1024 if rss.isdigit() else None, "job": False,
            })  # fmt: skip


def _smi(item: Item) -> Iterator[Fact]:
    device: dict[str, Any] | None = None
    devices: list[tuple[int, str, dict[str, Any]]] = []
    others: dict[int, list[list[Any]]] = {}
    for number, line in enumerate(lines_of(item), 1):
        if found := _SMI_DEVICE.match(line):
            device = {
                "gpu": int(found.group(1)),
                "name": found.group(2).strip(),
                "bus": found.group(3),
                "by": "nvidia-smi",
            }
            devices.append((number, line, device))
        elif device is not None and "total" not in device and (found := _SMI_MEMORY.search(line)):
            device["used"], device["total"] = int(found.group(1)) << 20, int(found.group(2)) << 20
        elif found := _SMI_PROCESS.match(line) or _SMI_OLD.match(line):
            others.setdefault(int(found.group(1)), []).append(
                [int(found.group(2)), found.group(4)[:200], int(found.group(5)) << 20]
            )
        elif found := _SMI_LIST.match(line):
            devices.append(
                (
                    number,
                    line,
                    {"gpu": int(found.group(1)), "name": found.group(2), "uuid": found.group(3), "by": "nvidia-smi"},
                )
            )
        elif found := _SMI_VERSION.search(line):
            yield fact(item, "version", number, line, {"driver": found.group(1), "driver_cuda": found.group(2)})
        elif found := _NVML.match(line):
            name = "kernel_driver" if found.group(1)[:3] in ("DRI", "KMD") else "driver"
            yield fact(item, "version", number, line, {name: found.group(2)})
        else:
            raw = line.encode()
            for literal, patterns in BY_LITERAL.items():
                if (
                    literal in raw
                    and patterns[0].kind in ("config", "device-error")
                    and (match := patterns[0].regex.search(raw))
                ):
                    yield fact(item, patterns[0].kind, number, line, {**patterns[0].values, **values_of(match)})
                    break
    for number, line, row in devices:
        row["processes"] = others.pop(row["gpu"], [])[:256]
        yield fact(item, "device", number, line, row)
    for gpu, rows in others.items():
        yield fact(item, "device", 1, f"GPU {gpu}", {"gpu": gpu, "processes": rows[:256], "by": "nvidia-smi"})


def _ib(item: Item) -> Iterator[Fact]:
    name, port = "", ""
    for number, line in enumerate(lines_of(item), 1):
        if found := _IB_CA.match(line):
            name, port = found.group(1) or found.group(2), found.group(3) or "1"
        elif name and (found := _IB_FIELD.match(line)):
            if found.group(2):
                port = found.group(2)
            elif found.group(1).lower() == "state":
                state = found.group(3).strip().split(": ")[-1].lower()
                yield fact(item, "link", number, f"{name} port {port}: {line.strip()}", {
                    "device": name, "port": int(port) if port.isdigit() else 1, "state": "up" if state in ("active", "up") else "down", "by": "ibstat",
                })  # fmt: skip


def _packages(item: Item) -> Iterator[Fact]:
    for number, line in enumerate(lines_of(item), 1):
        found = _DPKG.match(line)
        if found and _GPU_PACKAGE.search(found.group(3)):
            yield fact(
                item,
                "package",
                number,
                line,
                {
                    "action": found.group(2),
                    "name": found.group(3),
                    "old": found.group(4),
                    "new": found.group(5),
                    "at": found.group(1),
                },
            )
        elif (found := _APT.match(line)) and _GPU_PACKAGE.search(line):
            for name, old, new in re.findall(r"([\w.+\-]+):\w+ \(([^,()]+), ([^()]+)\)", found.group(2))[:200]:
                if _GPU_PACKAGE.search(name):
                    yield fact(
                        item,
                        "package",
                        number,
                        f"{name} {old} {new}",
                        {"action": found.group(1).lower(), "name": name, "old": old, "new": new},
                    )


def _container(item: Item) -> Iterator[Fact]:
    text = item.whole(MOST).decode("utf-8", "replace").replace("\\\n", " ")
    for number, line in enumerate(text.split("\n")[:20_000], 1):
        if _DOCKER.search(line) and not line.lstrip().startswith("#"):
            size = re.search(r"--shm-size[= ]([\d.]+\w*)", line)
            values: dict[str, Any] = {
                "command": line.strip()[:300], "shm_size": size_of(size.group(1)) if size else None, "memory_limit": None,
                "ipc": m.group(1) if (m := re.search(r"--ipc[= ](\S+)", line)) else "", "by": "docker run",
                "workers": int(w.group(1)) if (w := re.search(r"--(?:num[-_])?workers[= ](\d{1,4})", line)) else None,
            }  # fmt: skip
            yield fact(item, "container", number, line, values)


_SOURCES = {
    ".py": "python", ".ipynb": "notebook", ".sh": "shell", ".sbatch": "shell", ".slurm": "shell", ".bash": "shell", ".yaml": "yaml",
    ".yml": "yaml", ".toml": "toml", ".cu": "cuda", ".cpp": "cpp", ".cc": "cpp", ".h": "cpp", ".md": "markdown", ".cfg": "ini", ".ini": "ini",
    ".rst": "markdown",
}  # fmt: skip


def _language(item: Item) -> str:
    base = item.base
    if base.lower().startswith("dockerfile"):
        return "dockerfile"
    dot = base.rfind(".")
    language = _SOURCES.get(base[dot:].lower(), "") if dot > 0 else ""
    return language or ("shell" if item.head.startswith((b"#!/bin/", b"#!/usr/bin/env bash")) else "")


def _source(item: Item) -> Iterator[Fact]:
    language = _language(item)
    yield Fact("source", item.name, 0, None, "", None, 1, {"language": language})
    if language == "python":
        yield from pair_calls(item)
    if language in ("shell", "dockerfile") and item.size <= MOST:
        yield from _container(item)


_READERS: tuple[tuple[Callable[[Item], float], Callable[[Item], Iterator[Fact]]], ...]


def _is_env(item: Item) -> float:
    head = item.head
    if re.fullmatch(r"env(?:ironment)?(?:[_.\-].*)?\.(?:json|jsonl|txt|log)|environ", item.base):
        return 0.8
    if head.lstrip()[:1] in (b"{", b"[") and b'"WORLD_SIZE"' in head and b'"MASTER_ADDR"' in head:
        return 0.7
    lines = [line for line in head.decode("utf-8", "replace").split("\n")[:30] if line.strip()]
    return 0.6 if len(lines) >= 5 and sum(1 for line in lines if _ENV_LINE.match(line)) * 10 >= len(lines) * 9 else 0.0


def _is_processes(item: Item) -> float:
    return 0.9 if _PROCS_HEAD.match(item.head.decode("utf-8", "replace").split("\n")[0]) else 0.0


def _is_ps(item: Item) -> float:
    return 0.8 if _PS_HEAD.match(item.head.decode("utf-8", "replace").split("\n")[0]) else 0.0


def _is_smi(item: Item) -> float:
    head = item.head
    if b"NVIDIA-SMI" in head or b"Failed to initialize NVML" in head or re.match(rb"GPU \d+: .+\(UUID: GPU-", head):
        return 0.85
    return (
        0.8
        if b"| Processes:" in head or (item.base.startswith("nvidia-smi") or item.base.startswith("nvidia_smi"))
        else 0.0
    )


def _is_ib(item: Item) -> float:
    return 0.85 if re.match(rb"\s*(?:CA '\w+'|Infiniband device ')", item.head) else 0.0


def _is_packages(item: Item) -> float:
    return (
        0.85
        if re.match(
            rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:startup|upgrade|install|remove|status|configure|trigproc)", item.head
        )
        or re.match(rb"\s*Start-Date: ", item.head)
        else 0.0
    )


def _is_source(item: Item) -> float:
    return 0.5 if _language(item) else 0.0


_READERS = (
    (_is_env, _env), (_is_processes, _processes), (_is_ps, _ps), (_is_smi, _smi), (_is_ib, _ib), (_is_packages, _packages), (_is_source, _source),
)  # fmt: skip


def sniff(item: Item) -> float:
    return max(probe(item) for probe, _ in _READERS)


def read(item: Item) -> Iterator[Fact]:
    """`env`, `process`, `device`, `version`, `link`, `package`, `container` and `source` facts."""
    _, reader = max(_READERS, key=lambda row: row[0](item))
    return reader(item)


READER = Reader("surroundings", sniff, read)
