"""The same command on every rank of a job: one report on rank 0, one exit code everywhere.

    every rank      store - "rank" message ------------------------------ plan - stages - verdict
    leader of node  store - "rank" message - probes - clock - "node" ---- plan - stages - verdict
    rank 0          store - inbox: rank, clock, node ... until all or the limit - plan - stages - merge - verdict - acks

Messages go through rank 0's inbox (a counter and a key for each message), so that rank 0 waits for one key at a time
and notices at once what comes. It stays until the others have read the verdict: with it the store may end.
"""

from __future__ import annotations

import json
import os
import threading
import time

from torchvet.findings import Text

from . import fleet_collective, fleet_facts, fleet_reach
from .fleet_merge import FleetReport, merge
from .fleet_store import Late, Store, StoreError, Where, where
from .probe import FAIL, UNKNOWN, Result
from .ranks import Launch, launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .host import Host
    from .node import NodeReport

    Examine = Callable[[float], NodeReport]

AFTER = 45.0
"""Seconds beyond the limit that other ranks wait for rank 0's word: it may be waiting for a rank that never comes."""
STAGE = 10.0
ACKS = 6.0
HOLE = 2.0
"""A message that was announced and did not come in so many seconds is left out: its sender died between the two."""


class Outcome:
    """How it went for this rank: exit `code`; `fleet` on rank 0; `node`: what to show on a rank that could not join;
    `line`: one sentence for the others."""

    __slots__ = ("code", "fleet", "line", "node")

    def __init__(self, code: int, line: Text, fleet: FleetReport | None = None, node: NodeReport | None = None) -> None:
        self.code = code
        self.line = line
        self.fleet = fleet
        self.node = node


def wanted(env: dict[str, str] | None = None) -> bool:
    """Is this one of several ranks?"""
    place = launch(dict(os.environ) if env is None else env)
    return place is not None and place.world > 1


def leads(place: Launch) -> bool:
    """Does this rank examine its node?"""
    return place.local_rank in (None, 0)


def gather(examine: Examine, host: Host, seconds: float, *, fail_on: str = FAIL, collective: bool = False) -> Outcome:
    """Take part as the rank of the environment; `examine(seconds)` looks at this node. Every wait has a limit."""
    place = launch(dict(os.environ))
    assert place is not None
    return _Rank(place, examine, host, seconds, fail_on, collective).run()


class _Rank:
    def __init__(
        self, place: Launch, examine: Examine, host: Host, seconds: float, fail_on: str, collective: bool
    ) -> None:
        self.place = place
        self.examine = examine
        self.host = host
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.fail_on = fail_on
        self.collective = collective
        self.name = host.versions().get("hostname", "?")
        self.messages: list[dict[str, Any]] = []
        self.report: NodeReport | None = None

    def run(self) -> Outcome:
        store: Store | None = None
        try:
            at = where(self.place, os.environ)
            self.door = fleet_reach.Door(at.address, at.port)
            store = Store(at)
            store.open(self.end)
            return self._lead(store) if self.place.rank == 0 else self._follow(store)
        except StoreError as error:
            return self._alone(error)
        finally:
            if store is not None:
                store.close()

    def _hello(self) -> dict[str, Any]:
        return fleet_facts.of_rank(self.host, self.place, self.door.address, self.door.port)

    def _look(self) -> NodeReport:
        self.report = self.examine(max(2.0, self.end - time.monotonic() - 3))
        return self.report

    def _more_time(self) -> None:
        """The way to the store (the import of torch, on many ranks at once) shall not use up the time of the others."""
        now = time.monotonic()
        self.end = max(self.end, now + (self.end - self.start) / 2)

    # ------------------------------------------------------------------------------------------------ other ranks
    def _follow(self, store: Store) -> Outcome:
        self._more_time()
        store.send(self._hello())
        if leads(self.place):
            report = self._look()
            store.send(fleet_facts.of_node(self.host, self.place, report, self._clock(store)))
        try:
            plan = json.loads(store.wait("plan", self.end + AFTER - time.monotonic()))
            said = self._stages(plan)
            if said is not None:
                store.send(said)
            limit = STAGE + AFTER + (2 * fleet_collective.SECONDS if plan["collective"] else 0)
            verdict = json.loads(store.wait("verdict", limit))
        except Late:
            raise StoreError(Text("rank 0 gave no verdict in time", "rank 0 未及时给出结论")) from None
        store.add("acks", 1)
        line = Text("rank {rank} on {name}: {n} failures in the fleet, the report is on rank 0",
             "{name} 上的 rank {rank}：集群有 {n} 项失败，报告在 rank 0",
                    rank=self.place.rank, name=self.name, n=verdict["failures"])  # fmt: skip
        if not verdict["failures"]:
            line = Text(
                "rank {rank} on {name}: nothing stops the job",
                "{name} 上的 rank {rank}：没有阻止作业的问题",
                rank=self.place.rank,
                name=self.name,
            )
        return Outcome(int(verdict["code"]), line)

    def _clock(self, store: Store) -> tuple[float, float] | None:
        """(offset against rank 0, error) in seconds: the shortest of three round trips (Cristian 1989)."""
        best: tuple[float, float] | None = None
        for n in range(3):
            before, tick = self.host.now(), time.monotonic()
            store.send({"kind": "clock", "rank": self.place.rank, "n": n})
            try:
                reference = float(store.wait(f"clock/{self.place.rank}/{n}", 5))
            except Late:
                return best
            took = time.monotonic() - tick
            if best is None or took / 2 < best[1]:
                best = (before + took / 2 - reference, took / 2)
        return best

    def _stages(self, plan: dict[str, Any]) -> dict[str, Any] | None:
        said: dict[str, Any] = {"kind": "stage", "rank": self.place.rank}
        if leads(self.place):
            said["failed"] = fleet_reach.knock(self.place.rank, plan["peers"])
        if plan["collective"]:
            said["collective"] = {
                c["backend"]: fleet_collective.run(
                    c["backend"],
                    c["address"],
                    c["port"],
                    self.place.rank,
                    self.place.world,
                    self.place.local_rank or 0,
                    c["mib"],
                )
                for c in plan["collective"]
            }
        return said if len(said) > 2 else None

    # ----------------------------------------------------------------------------------------------------- rank 0
    def _lead(self, store: Store) -> Outcome:
        self._more_time()
        self.messages.append(self._hello())
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        inbox = _Inbox(store, self.host)
        while time.monotonic() < self.end and not (self._complete() and not thread.is_alive()):
            self.messages += inbox.next(0.2)
        thread.join(max(0.0, self.end - time.monotonic()))
        if self.report is not None:
            if store.at.hosts:  # the port is held by this very store; opening it has proved that it was free
                self.report.results = [r for r in self.report.results if r.probe != "master-port"]
            self.messages.append(fleet_facts.of_node(self.host, self.place, self.report, (0.0, 0.0)))
        plan = self._plan(store.at)
        store.set("plan", json.dumps(plan))
        self._run_stages(inbox, plan)
        fleet = merge(self.messages, self.place.world, time.monotonic() - self.start)
        code = int(fleet.blocks(self.fail_on))
        failures = sum(r.verdict == FAIL for r in fleet.results)
        store.set("verdict", json.dumps({"code": code, "failures": failures}))
        self._stay(store, len(fleet.ranks) - 1)
        return Outcome(code, Text(""), fleet)

    def _complete(self) -> bool:
        ranks = {m["rank"] for m in self.messages if m["kind"] == "rank"}
        nodes = {m["rank"] for m in self.messages if m["kind"] == "node"}
        leaders = {m["rank"] for m in self.messages if m["kind"] == "rank" and m["local_rank"] in (None, 0)} - {0}
        return len(ranks) == self.place.world and leaders <= nodes

    def _plan(self, at: Where) -> dict[str, Any]:
        rows = [m for m in self.messages if m["kind"] == "rank"]
        leaders = sorted((m for m in rows if m["local_rank"] in (None, 0)), key=lambda m: m["rank"])
        peers = [[m["rank"], m["host"], m["address"], m["port"]] for m in leaders]
        all_here = len({m["rank"] for m in rows}) == self.place.world
        return {"peers": peers, "collective": self._collectives(at) if self.collective and all_here else []}

    def _collectives(self, at: Where) -> list[dict[str, Any]]:
        import socket

        nodes = [m for m in self.messages if m["kind"] == "node"]
        gpus = bool(nodes) and all((m["gpu_count"] or 0) > 0 for m in nodes)
        out = []
        for backend in ("gloo", *(("nccl",) if gpus else ())):
            with socket.socket() as s:
                s.bind(("", 0))
                port = s.getsockname()[1]
            row = {"backend": backend, "address": self.door.address, "port": port}
            out.append({**row, "mib": fleet_collective.MIB if backend == "nccl" else 4})
        return out

    def _run_stages(self, inbox: _Inbox, plan: dict[str, Any]) -> None:
        own: dict[str, Any] = {}
        thread = threading.Thread(target=lambda: own.update(self._stages(plan) or {}), daemon=True)
        thread.start()
        expected = {int(p[0]) for p in plan["peers"]} - {0}
        limit = STAGE
        if plan["collective"]:
            expected = {m["rank"] for m in self.messages if m["kind"] == "rank"} - {0}
            limit += fleet_collective.SECONDS * len(plan["collective"])
        end = time.monotonic() + limit
        said: dict[int, dict[str, Any]] = {}
        while set(said) < expected and time.monotonic() < end:
            for m in inbox.next(0.2):
                if m["kind"] == "stage":
                    said[m["rank"]] = m
                else:
                    self.messages.append(m)  # a rank that came late
        thread.join(max(0.1, end - time.monotonic()))
        said[0] = own
        failures = {r: m["failed"] for r, m in said.items() if m.get("failed")}
        self._note("reach", fleet_reach.judge(failures, plan["peers"]))
        if self.collective and not plan["collective"]:
            why = Text("all_reduce was not tried: ranks are missing", "未尝试 all_reduce：有 rank 缺失")
            self._note("collective", [Result("fleet-gloo", UNKNOWN, None, None, why)])
        for c in plan["collective"]:
            name = c["backend"]
            answers = {r: m["collective"][name] for r, m in said.items() if name in m.get("collective", {})}
            self._note("collective", fleet_collective.judge(name, answers, self.place.world))

    def _note(self, kind: str, results: list[Result]) -> None:
        self.messages.append({"kind": kind, "rank": 0, "results": [json.loads(json.dumps(r.pack())) for r in results]})

    def _stay(self, store: Store, others: int) -> None:
        """Until the others have read the verdict."""
        end = time.monotonic() + ACKS
        while time.monotonic() < end and store.add("acks", 0) < others:
            time.sleep(0.05)

    # ------------------------------------------------------------------------------------------------------- alone
    def _alone(self, error: StoreError) -> Outcome:
        """The fleet cannot be had: what is known of this node, and why."""
        said = Text(
            "rank {rank} on {name}: {reason}",
            "{name} 上的 rank {rank}：{reason}",
            rank=self.place.rank,
            name=self.name,
            reason=error.reason,
        )
        if not leads(self.place):
            return Outcome(1, said)
        report = self.report or self.examine(max(2.0, min(30.0, self.end - time.monotonic())))
        fix = error.fix or Text("look at rank 0's own report", "查看 rank 0 的报告")
        report.results.insert(0, Result("fleet-store", FAIL, None, None, error.reason, fix))
        return Outcome(1, said, None, report)


class _Inbox:
    """Rank 0's messages in the order in which they were announced. Questions about the clock are answered at once."""

    def __init__(self, store: Store, host: Host) -> None:
        self.store = store
        self.host = host
        self.at = 1
        self.waiting = 0.0
        self.left_out: list[int] = []

    def next(self, seconds: float) -> list[dict[str, Any]]:
        """At most one message and those that were left out before."""
        out = []
        try:
            out += self._read(self.at, seconds)
            self.at += 1
            self.waiting = 0.0
        except Late:
            self.waiting = self.waiting or time.monotonic()
            if time.monotonic() - self.waiting > HOLE and self.store.add("inbox", 0) > self.at:
                self.left_out.append(self.at)
                self.at += 1
                self.waiting = 0.0
        return out

    def _read(self, number: int, seconds: float) -> list[dict[str, Any]]:
        message = json.loads(self.store.wait(f"inbox/{number}", seconds))
        if message.get("kind") == "clock":
            self.store.set(f"clock/{message['rank']}/{message['n']}", repr(self.host.now()))
            return []
        return [message]
