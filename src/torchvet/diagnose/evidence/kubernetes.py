# ruff: noqa: E501
"""What Kubernetes says of a pod: `kubectl describe pod`, `kubectl get pod -o json|yaml`, `kubectl get events`."""

from __future__ import annotations

import json
import re

from ..model import MEDIUM, Fact
from .kernel import KERNEL_BY_LITERAL, kernel_fact
from .lines import words
from .patterns import size_of
from .reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

MOST = 32 << 20
_REASONS = ("OOMKilled", "Evicted", "Preempting", "Preempted", "NodeNotReady", "NodeLost", "DeadlineExceeded", "TaintManagerEviction",
            "NodeShutdown", "Terminated", "FailedScheduling", "Killing", "ContainerStatusUnknown", "Shutdown", "SpotInterruption",
            "PreemptScheduled", "TerminateScheduled", "PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI",
            "OOMKilling",
            "TerminationByKubelet")  # fmt: skip
ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PET_NPROC_PER_NODE")
_EVENT = re.compile(r"^\s*(?:[\w<>]+\s+)?(Normal|Warning)\s+(\w+)\s+(.*)$")


def read(item: Item) -> Iterator[Fact]:
    """`exit`, `oom-kill`, `scheduler` and `container` facts."""
    data = item.whole(MOST)
    text = data.decode("utf-8", "replace")
    if text.lstrip()[:1] == "{":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        pods = value.get("items") if isinstance(value.get("items"), list) else [value]
        for pod in pods[:10_000]:
            if isinstance(pod, dict):
                yield from _pod(item, pod)
        return
    yield from _by_rank(item, _described(item, text.split("\n")))


def _by_rank(item: Item, facts: Iterator[Fact]) -> Iterator[Fact]:
    """The facts of pods, with the rank that the environment of each pod names: it stands behind the states."""
    rows = list(facts)
    ranks: dict[str, int] = {}
    for fact in rows:
        if fact.kind == "env":
            fact.rank = rank_of_pod(fact.values, {})
            if fact.rank is not None:
                ranks[str(fact.values.get("pod", ""))] = fact.rank
    for fact in rows:
        if fact.kind in ("exit", "oom-kill"):
            fact.rank = ranks.get(str(fact.values.get("pod", "")))
        yield fact


def rank_of_pod(env: dict[str, Any], labels: dict[str, Any]) -> int | None:
    """RANK of the environment, where one process runs in a pod; else the index that the operator gave."""
    if str(env.get("PET_NPROC_PER_NODE", "1")) not in ("1", "auto"):
        return None
    value = str(env.get("RANK", ""))
    if value.isdigit() and len(value) < 7:
        return int(value)
    index = str(labels.get("training.kubeflow.org/replica-index", ""))
    if not index.isdigit() or len(index) > 6:
        return None
    return int(index) + (str(labels.get("training.kubeflow.org/replica-type", "")).lower() == "worker")


def _described(item: Item, lines: list[str]) -> Iterator[Fact]:
    pod = node = container = section = ""
    row: dict[str, Any] = {}
    shm: dict[str, Any] = {}
    named = ""  # variable of an `env:` list whose value follows
    order = 0
    for number, line in enumerate(lines[:200_000], 1):
        key, colon, value = line.strip().partition(":")
        value = value.strip()
        order += 1
        if not line.startswith(" "):
            if (event := _EVENT.match(line)) and _known(event.group(2)):
                yield from reason_fact(item, number, line, event.group(2), pod, order)
                continue
            if key in ("Name", "name") and colon and value:
                pod = value
            elif key == "Node" and colon:
                node = value.split("/")[0]
            elif key == "Reason" and _known(value):
                yield from reason_fact(item, number, line, value, pod, order)
            elif key == "Message" and value:
                said = "NodeShutdown" if "node shutdown" in value else next((r for r in _REASONS if r in value), "")
                yield from reason_fact(item, number, line, said, pod, order)
            section = key
            continue
        if colon and not value and line.startswith("  ") and line[2:3] != " ":
            container = key
        if key in ENVIRONMENT or (named and key == "value"):
            yield Fact("env", item.name, number, None, "", None, order, {key if key in ENVIRONMENT else named: value.strip("\"'"), "pod": pod})  # fmt: skip
        named = value if key == "- name" and value in ENVIRONMENT else ""
        if key in ("State", "Last State", "lastState", "state"):
            row = {"state": value}
        elif key in ("Reason", "reason") and row:
            row["reason"] = value.strip('"')
            if "code" in row:  # YAML sorts exitCode before reason
                yield from _container(item, number, pod, container, row, node, order)
                row = {}
        elif key in ("Exit Code", "exitCode") and row and value.lstrip("-").isdigit():
            row["code"] = int(value)
            if key == "Exit Code" or "reason" in row:
                yield from _container(item, number, pod, container, row, node, order)
                row = {}
        elif key in ("memory",) and section in ("Containers", "spec") and size_of(value):
            yield Fact(
                "container",
                item.name,
                number,
                None,
                words(line.encode()),
                None,
                order,
                {"memory_limit": size_of(value), "pod": pod},
            )
        elif key in ("Medium", "medium") and value == "Memory":
            shm = {"medium": "Memory"}
        elif key in ("SizeLimit", "sizeLimit") and shm:
            size = size_of(value)
            yield Fact(
                "container",
                item.name,
                number,
                None,
                words(line.encode()),
                None,
                order,
                {"shm_size": size, "pod": pod, "by": "emptyDir"},
            )
            shm = {}
        elif (event := _EVENT.match(line)) and _known(event.group(2)):
            yield from reason_fact(item, number, line, event.group(2), pod, order)


def _container(
    item: Item, number: int, pod: str, container: str, row: dict[str, Any], node: str, order: int
) -> Iterator[Fact]:
    code = row["code"]
    values = {
        "code": code,
        "by": "kubernetes",
        "pod": pod,
        "container": container,
        "reason": row.get("reason", ""),
        "name": pod,
    }
    if node:
        values["node"] = node
    text = f"{pod} {container}: {row.get('reason', '')} exit code {code}"
    yield Fact("exit", item.name, number, None, words(text.encode()), None, order, values)
    if row.get("reason") == "OOMKilled":
        yield Fact("oom-kill", item.name, number, None, words(text.encode()), None, order,
                   {"by": "kubernetes", "constraint": "CONSTRAINT_MEMCG", "pod": pod, "container": container, "code": code})  # fmt: skip


def _known(reason: str) -> bool:
    return reason in _REASONS or reason.startswith("EvictedDueTo")


def reason_fact(item: Item, number: int, line: str, reason: str, pod: str, order: int) -> Iterator[Fact]:
    """What an event or a state says; of words that tell nothing of an end, nothing. Kueue: EvictedDueToPreempted."""
    if reason == "OOMKilling":  # the node's problem detector hands the kernel's line on
        raw = line.encode()
        for pattern in KERNEL_BY_LITERAL[b"ut of memory: Kill"]:
            if values := kernel_fact(pattern, raw):
                yield Fact("oom-kill", item.name, number, None, words(raw), None, order, values)
        return
    if not _known(reason) or reason in ("OOMKilled", "Killing", "FailedScheduling", "Terminated"):
        return
    yield Fact("scheduler", item.name, number, None, words(line.encode()), None, order,
               {"by": "kubernetes", "state": reason, "reason": reason, "pod": pod}, MEDIUM if reason == "ContainerStatusUnknown" else "strong")  # fmt: skip


def _pod(item: Item, pod: dict[str, Any]) -> Iterator[Fact]:
    if pod.get("kind") == "Event" or "involvedObject" in pod:
        reason = str(pod.get("reason", ""))
        if _known(reason):
            yield from reason_fact(
                item,
                0,
                f"{reason}: {pod.get('message', '')}",
                reason,
                str((pod.get("involvedObject") or {}).get("name", "")),
                1,
            )
        return
    meta, status, spec = (x if isinstance(x := pod.get(k), dict) else {} for k in ("metadata", "status", "spec"))
    name = str(meta.get("name", ""))
    node = str(spec.get("nodeName", ""))
    if _known(str(status.get("reason", ""))):
        yield from reason_fact(
            item, 0, f"{status.get('reason')}: {status.get('message', '')}", str(status["reason"]), name, 1
        )
    env = {
        str(e.get("name")): str(e.get("value", ""))
        for c in spec.get("containers") or [] if isinstance(c, dict)
        for e in c.get("env") or [] if isinstance(e, dict) and e.get("name") in ENVIRONMENT
    }  # fmt: skip
    labels = meta.get("labels")
    rank = rank_of_pod(env, labels if isinstance(labels, dict) else {})
    if env:
        yield Fact("env", item.name, 0, rank, "", None, 1, {**env, "pod": name})
    for entry in status.get("containerStatuses") or []:
        if not isinstance(entry, dict):
            continue
        for key in ("state", "lastState"):
            ended = (entry.get(key) or {}).get("terminated") if isinstance(entry.get(key), dict) else None
            if isinstance(ended, dict) and isinstance(ended.get("exitCode"), int):
                row = {"code": ended["exitCode"], "reason": str(ended.get("reason", ""))}
                for fact in _container(item, 0, name, str(entry.get("name", "")), row, node, 2):
                    fact.rank = rank
                    yield fact
                break


def sniff(item: Item) -> float:
    head = item.head
    if re.match(rb"Name:\s+\S+", head) and (b"Namespace:" in head or b"Containers:" in head):
        return 0.9
    if re.search(rb'"kind":\s*"(?:Pod|List|PodList|Event|EventList)"', head) or (
        re.search(rb"(?m)^kind: (?:Pod|List)\s*$", head) and b"status:" in head
    ):
        return 0.9
    if re.match(rb"LAST SEEN\s+TYPE\s+REASON", head):
        return 0.8
    return 0.0


READER = Reader("kubernetes", sniff, read)
