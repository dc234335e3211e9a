"""All probes on one machine."""

from __future__ import annotations

import errno
import os
import re
import threading
import time

from torchvet.findings import Text, UserError

from .nvidia import ask
from .plan import gpus
from .probe import AREAS, FAIL, UNKNOWN, VERDICTS, WARN, Probe, Result, load, probe_names
from .surroundings import surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from .host import Host
    from .plan import Plan

SCHEMA = 1
STACK = 512 * 1024
"""Bytes of address space for the stack of a probe's thread: `ulimit -v` may leave little."""
LAST, PATIENCE = 0.8, 0.2
"""Seconds before the end of the whole time: when commands are killed, and when probes are no longer waited for."""


class NodeReport:
    """What the probes of one machine said. `node` is about the machine; `counts` numbers of verdicts, with
    "not_applicable" probes and "skipped" ones."""

    def __init__(self, node: dict[str, Any], results: list[Result], counts: dict[str, int], seconds: float) -> None:
        self.node = node
        self.results = results
        self.counts = counts
        self.seconds = seconds

    def count(self, verdict: str) -> int:
        return sum(r.verdict == verdict for r in self.results)

    def worst_first(self) -> list[Result]:
        return sorted(self.results, key=lambda r: -VERDICTS.index(r.verdict))

    def blocks(self, fail_on: str = FAIL) -> bool:
        """Is there a result that stops a job? `fail_on`: from this verdict on ("warn", "fail")."""
        return any(r.verdict == FAIL or (fail_on == WARN and r.verdict == WARN) for r in self.results)

    def plain(self, language: str = "en") -> dict[str, Any]:
        """The object of the json output."""
        return {
            "schema": SCHEMA,
            "node": self.node,
            "summary": {
                **{v: self.count(v) for v in reversed(VERDICTS)}, **self.counts, "seconds": round(self.seconds, 3),
            },
            "results": self._rows(language),
        }  # fmt: skip

    def _rows(self, language: str) -> list[dict[str, Any]]:
        """A row for each probe: its worst result, the others under "also"."""
        rows: dict[str, dict[str, Any]] = {}
        for r in self.worst_first():
            row = r.plain(language)
            if r.probe in rows:
                rows[r.probe].setdefault("also", []).append({k: v for k, v in row.items() if k != "probe"})
            else:
                rows[r.probe] = row
        return list(rows.values())

    def pack(self) -> dict[str, Any]:
        """The report as JSON values in both languages, for another node."""
        return {
            "schema": SCHEMA, "node": self.node, "counts": self.counts, "seconds": self.seconds,
            "results": [r.pack() for r in self.results],
        }  # fmt: skip

    @classmethod
    def unpack(cls, row: dict[str, Any]) -> NodeReport:
        return cls(row["node"], [Result.unpack(r) for r in row["results"]], row["counts"], row["seconds"])


def examine(
    host: Host,
    plan: Plan,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    seconds: float = 60,
) -> NodeReport:
    """Run the probes: those named in `only` (names or areas; all when empty) without those of `skip`. Each has its own
    time, all together `seconds`; what gives no answer is unknown. UserError: no such probe or area."""
    start = time.monotonic()
    end = start + seconds
    host.deadline = end - min(LAST, seconds / 4)
    patience = end - min(PATIENCE, seconds / 8)
    probes, skipped, results = _chosen(only, skip)
    turns = [_Turn(p, host, plan) for p in probes]
    usual = threading.stack_size(STACK)
    for turn in turns:
        turn.start(host)
    threading.stack_size(usual)
    for turn in turns:
        left = min(turn.started + turn.probe.seconds + 1, patience) - time.monotonic()
        turn.done.wait(max(0.0, left))
    turns = [turn.again(host, patience) if turn.starved else turn for turn in turns]
    absent = 0
    for turn in turns:
        answer = turn.answer if turn.done.is_set() else turn.late(time.monotonic())
        absent += not answer
        results += answer
    counts = {"probes": len(probes), "not_applicable": absent, "skipped": skipped}
    return NodeReport(_described(host, end), results, counts, time.monotonic() - start)


def _described(host: Host, end: float) -> dict[str, Any]:
    """`describe`, which may wait for an answer that a stuck probe waits for too."""
    out: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: out.append(describe(host)), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads may be started
        return describe(host)
    thread.join(max(PATIENCE / 2, end - time.monotonic()))
    return out[0] if out else {"hostname": os.uname().nodename, "container": "unknown"}


def describe(host: Host) -> dict[str, Any]:
    """The machine in a few words: hostname, kernel, container, launcher, versions."""
    versions = dict(host.versions())
    where = surroundings(host)
    node: dict[str, Any] = {
        "hostname": versions.pop("hostname", ""),
        "container": where.container,
        "container_signs": where.signs,
        "launcher": where.launcher,
        **versions,
    }
    cards = _gpus(host)
    if cards:
        node["gpus"] = cards
    return node


def _gpus(host: Host) -> str:
    """ "8 × NVIDIA H100 80GB HBM3, driver 570.86.15", from the driver's files, or from nvidia-smi where a probe
    has asked it; "" without GPUs."""
    folder = "/proc/driver/nvidia/gpus"
    models: dict[str, int] = {}
    for name in host.list(folder):
        found = re.search(r"^Model:\s*(.+)$", host.read(f"{folder}/{name}/information") or "", re.MULTILINE)
        model = found[1].strip() if found else "GPU"
        models[model] = models.get(model, 0) + 1
    if not models and host.answered("nvidia-smi"):
        smi = ask(host)
        for gpu in smi.gpus:
            models[gpu.name or "GPU"] = models.get(gpu.name or "GPU", 0) + 1
        said = ", ".join(f"{n} × {model}" for model, n in models.items())
        return f"{said}, driver {smi.driver}" if said and smi.driver else said
    seen = gpus(host) if models or "nvidia-smi" not in host.hung else 0
    if seen and sum(models.values()) > seen:  # the container got some of the node's
        models = {next(iter(models)): seen} if len(models) == 1 else {"GPU": seen}
    if not models and seen:
        models = {"GPU": seen}
    driver = re.search(r"Module\S*\s.*?(\d{3,}\.[\d.]+)", host.read("/proc/driver/nvidia/version") or "")
    text = ", ".join(f"{n} × {model}" for model, n in models.items())
    return f"{text}, driver {driver[1]}" if text and driver else text


def _chosen(only: Collection[str], skip: Collection[str]) -> tuple[list[Probe], int, list[Result]]:
    names = probe_names()
    loaded: dict[str, Probe] = {}
    broken: list[Result] = []
    for name in names:
        try:
            loaded[name] = load(name)
        except Exception as error:  # one broken file is not the run's
            broken.append(_crash(name, error))
    for word in (*only, *skip):
        if word not in names and word not in AREAS:
            raise UserError(
                Text("there is no probe or area {word}", "没有名为 {word} 的探针或领域", word=word), _near(word, names)
            )
    chosen = [
        p
        for p in loaded.values()
        if (not only or p.name in only or p.area in only) and p.name not in skip and p.area not in skip
    ]
    return chosen, len(loaded) - len(chosen), broken


def _near(word: str, names: list[str]) -> Text:
    from difflib import get_close_matches

    near = get_close_matches(word.lower().replace("_", "-"), [*names, *AREAS], 1, 0.6)
    if near:
        return Text("did you mean {near}?", "是否想写 {near}？", near=near[0])
    return Text("torchvet preflight --list shows them", "torchvet preflight --list 列出所有探针")


class _Turn:
    """One run of a probe in a thread of its own: one that gets stuck keeps no other one waiting."""

    def __init__(self, probe: Probe, host: Host, plan: Plan) -> None:
        self.probe = probe
        self.plan = plan
        self.started = time.monotonic()
        self.answer: list[Result] = []
        self.starved = False
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(host, plan), name=probe.name, daemon=True)

    def start(self, host: Host) -> None:
        """One that is still stuck from an earlier look (`--watch`) is not started a second time."""
        before = host.stuck.get(self.probe.name)
        if before is not None and before.is_alive():
            self.answer = [self.probe.unknown(Text("still waits since an earlier look", "仍在等待之前的检查"))]
            self.done.set()
            return
        try:
            self.thread.start()
            host.stuck[self.probe.name] = self.thread
        except RuntimeError:  # the limit of threads or of addresses, which a probe shall report
            self._run(host, self.plan)

    def _run(self, host: Host, plan: Plan) -> None:
        try:
            assert self.probe.run is not None, "no function is registered with @PROBE.check"
            found = self.probe.run(host, plan)
            self.answer = [found] if isinstance(found, Result) else list(found or [])
        except Exception as error:
            self.starved = _no_memory(error)
            self.answer = [_crash(self.probe.name, error)]
        finally:
            self.done.set()

    def again(self, host: Host, patience: float) -> _Turn:
        """A second run, alone: in the first the threads of the others held what little memory there is."""
        host.stuck.pop(self.probe.name, None)
        turn = _Turn(self.probe, host, self.plan)
        turn.start(host)
        turn.done.wait(max(0.0, min(turn.started + self.probe.seconds + 1, patience) - time.monotonic()))
        if turn.done.is_set() and turn.starved:
            turn.answer = [self.probe.unknown(Text("too little memory to find it out", "内存不足，无法检查"))]
        return turn

    def late(self, now: float) -> list[Result]:
        return [
            self.probe.unknown(
                Text("no answer in {n} s", "{n} 秒内没有结果", n=f"{now - self.started:.0f}"),
            )
        ]


def _no_memory(error: Exception) -> bool:
    """Memory or address space (`ulimit -v`) that ran out; a shared library that found no room says so only in words."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (
            isinstance(error, ImportError | OSError)
            and bool(re.search("map segment|cannot allocate", str(error), re.I))
        )
    )


def _crash(name: str, error: Exception) -> Result:
    """A fault of the probe, with the place in it."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return Result(
        name, UNKNOWN, None, None,
        Text("the probe failed: {error} ({place})", "探针出错：{error}（{place}）",
             error=f"{type(error).__name__}: {error}", place=place),
    )  # fmt: skip
