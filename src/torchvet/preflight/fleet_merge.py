"""What the messages of all ranks mean together: a pure function, also of files that were written without a network."""

from __future__ import annotations

from torchvet.findings import Text

from .fleet_drift import drift
from .fleet_words import NAMES, blocks_of, hosts_text
from .node import NodeReport
from .probe import FAIL, PASS, WARN, Result
from .quantity import cpu_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class FleetReport:
    """`ranks` that reported, `missing` ones, `nodes` by name; `results` of the fleet and of all nodes, equal ones
    joined; `agree`: nodes without failures and warnings."""

    def __init__(
        self,
        world: int,
        ranks: list[int],
        missing: list[int],
        nodes: list[str],
        results: list[Result],
        agree: int,
        seconds: float,
    ) -> None:
        self.world = world
        self.ranks = ranks
        self.missing = missing
        self.nodes = nodes
        self.results = results
        self.agree = agree
        self.seconds = seconds

    def as_node(self, language: str = "en") -> NodeReport:
        """The report in the form that every output format knows."""
        n = len(self.nodes)
        name = Text(
            "{n} node{s}, {ranks} of {world} ranks", "{n} 个节点，{world} 个 rank 中 {ranks} 个已报告",
            n=n, s="s" * (n != 1), ranks=len(self.ranks), world=self.world,
        )  # fmt: skip
        node = {
            "hostname": name.render(language),
            "container": "", "launcher": "",
            "fleet": {
                "world": self.world, "ranks": len(self.ranks), "missing": self.missing, "nodes": self.nodes,
                "nodes_without_findings": self.agree,
            },
        }  # fmt: skip
        probes = len({r.probe for r in self.results})
        return NodeReport(node, self.results, {"probes": probes, "not_applicable": 0, "skipped": 0}, self.seconds)

    def blocks(self, fail_on: str = FAIL) -> bool:
        return self.as_node().blocks(fail_on)


def merge(messages: Iterable[dict[str, Any]], world: int | None = None, seconds: float = 0.0) -> FleetReport:
    """Messages of `fleet_facts` (kinds "rank" and "node") and of the stages after them ("reach", "collective")."""
    rows = [m for m in messages if isinstance(m, dict)]
    ranks = [m for m in rows if m.get("kind") == "rank"]
    nodes = sorted((m for m in rows if m.get("kind") == "node"), key=lambda m: m["rank"])
    worlds = [m["world"] for m in ranks]
    size = world or max(worlds, default=len(ranks))
    seen = sorted({m["rank"] for m in ranks})
    present = set(seen)
    missing = [r for r in range(size) if r not in present]
    labels = _labels(nodes)
    results: list[Result] = []
    results += _missing(missing, ranks, size)
    results += _without_report(ranks, nodes)
    results += _numbers(ranks, worlds)
    results += _names(nodes)
    results += drift(ranks, nodes, labels)
    results += _crowded(ranks)
    for m in rows:
        if m.get("kind") in ("reach", "collective"):
            results += [Result.unpack(r) for r in m["results"]]
    own, clean = _joined(nodes, labels)
    return FleetReport(size, seen, missing, [labels[m["rank"]] for m in nodes], results + own, clean, seconds)


def _labels(nodes: list[dict[str, Any]]) -> dict[int, str]:
    """Leader's rank -> name of its node; nodes with one name get their rank beside it."""
    names = [m["host"] for m in nodes]
    return {m["rank"]: m["host"] if names.count(m["host"]) == 1 else f"{m['host']} (rank {m['rank']})" for m in nodes}


def _missing(missing: list[int], ranks: list[dict[str, Any]], world: int) -> list[Result]:
    if not missing:
        return []
    local = max((m.get("local_world") or 0 for m in ranks), default=0)
    whole = []
    if local and world % local == 0:
        whole = [n for n in range(world // local) if all(r in missing for r in range(n * local, (n + 1) * local))]
    where = (
        Text(" (all of node {nodes})", "（节点 {nodes} 的全部 rank）", nodes=blocks_of(whole)) if whole else Text("")
    )
    return [
        Result(
            "fleet-missing", FAIL, missing, world,
            Text("rank {ranks} never reported{where}", "rank {ranks} 未报告{where}",
                 ranks=blocks_of(missing), where=where),
            Text("look at that node: did its task start, and can it reach MASTER_ADDR? --timeout gives late ones "
                 "more time",
                 "检查该节点：任务是否启动，能否访问 MASTER_ADDR？启动较慢时用 --timeout 延长等待"),
        )
    ]  # fmt: skip


def _without_report(ranks: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[Result]:
    """Nodes whose ranks are there and whose examination did not end in time."""
    done = {m["rank"] for m in nodes}
    late = sorted({m["host"] for m in ranks if m.get("local_rank") in (0, None) and m["rank"] not in done})
    if not late:
        return []
    return [
        Result("fleet-late", FAIL, late, None,
               Text("{hosts} did not finish its examination", "{hosts} 未完成检查", hosts=hosts_text(late)),
               Text("run torchvet preflight on it alone", "在该节点上单独运行 torchvet preflight"))
    ]  # fmt: skip


def _numbers(ranks: list[dict[str, Any]], worlds: list[int]) -> list[Result]:
    out = []
    seen: dict[int, list[str]] = {}
    for m in ranks:
        seen.setdefault(m["rank"], []).append(m["host"])
    twice = {r: hosts for r, hosts in seen.items() if len(hosts) > 1}
    if twice:
        rank, hosts = min(twice.items())
        out.append(Result(
            "fleet-ranks", FAIL, sorted(twice), None,
            Text("rank {rank} exists {n} times, on {hosts}", "rank {rank} 出现 {n} 次，位于 {hosts}",
                 rank=rank, n=len(hosts), hosts=", ".join(sorted(set(hosts))[:4])),
            Text("start one launcher for each node, with its own node rank",
                 "每个节点只启动一个启动器，并指定各自的 node rank"),
        ))  # fmt: skip
    if len(set(worlds)) > 1:
        shown = ", ".join(str(w) for w in sorted(set(worlds)))
        out.append(
            Result(
                "fleet-ranks",
                FAIL,
                sorted(set(worlds)),
                None,
                Text(
                    "ranks disagree about the world size: {shown}", "各 rank 的 world size 不一致：{shown}", shown=shown
                ),
                Text(
                    "the same --nnodes and --nproc-per-node on every node",
                    "每个节点使用相同的 --nnodes 与 --nproc-per-node",
                ),
            )
        )
    return out + _shared_gpus(ranks)


def _shared_gpus(ranks: list[dict[str, Any]]) -> list[Result]:
    """Two ranks of one node with one GPU: each sees the same single device."""
    used: dict[tuple[str, str, str], list[int]] = {}
    for m in ranks:
        visible = [w.strip() for w in (m.get("visible") or "").split(",") if w.strip()]
        if len(visible) == 1:
            used.setdefault((m["host"], m["boot_id"], visible[0]), []).append(m["rank"])
    out = []
    for (host, _, device), who in sorted(used.items()):
        if len(who) > 1:
            out.append(Result(
                "fleet-gpus", FAIL, who, 1,
                Text("{host}: ranks {ranks} share GPU {device}", "{host}：rank {ranks} 共用 GPU {device}",
                     host=host, ranks=blocks_of(sorted(who)), device=device),
                Text("CUDA_VISIBLE_DEVICES must differ between the ranks of a node, or name all GPUs",
                     "同一节点各 rank 的 CUDA_VISIBLE_DEVICES 应不同，或列出全部 GPU"),
            ))  # fmt: skip
    return out


def _names(nodes: list[dict[str, Any]]) -> list[Result]:
    boots: dict[str, set[str]] = {}
    for m in nodes:
        boots.setdefault(m["host"], set()).add(m["report"]["node"].get("boot_id", ""))
    same = sorted(h for h, b in boots.items() if len(b) > 1)
    if not same:
        return []
    return [
        Result("fleet-hostnames", WARN, same, None,
               Text("different machines call themselves {names}: NCCL may take them for one",
                    "不同机器使用同一主机名 {names}：NCCL 可能误认为同一台", names=", ".join(same[:NAMES])),
               Text("give each its own hostname, or NCCL_HOSTID", "为每台设置不同的主机名或 NCCL_HOSTID"))
    ]  # fmt: skip


def _crowded(ranks: list[dict[str, Any]]) -> list[Result]:
    """Ranks of one node that are all bound to the same few CPUs."""
    out = []
    by_host: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for m in ranks:
        by_host.setdefault((m["host"], m["boot_id"]), []).append(m)
    for (host, _), rows in sorted(by_host.items()):
        sets = {m["cpus"] for m in rows}
        cpus = cpu_list(next(iter(sets))) if len(sets) == 1 else None
        if cpus and len(rows) >= max(2, 2 * len(cpus)) and len(cpus) < rows[0].get("all_cpus", 0):
            out.append(Result(
                "fleet-cpus", WARN, len(cpus), len(rows),
                Text("{host}: {ranks} ranks are bound to the same {n} CPUs",
                     "{host}：{ranks} 个 rank 绑定在相同的 {n} 个 CPU 上", host=host, ranks=len(rows), n=len(cpus)),
                Text("srun --cpus-per-task, mpirun --bind-to none", "srun --cpus-per-task，mpirun --bind-to none"),
            ))  # fmt: skip
    return out


def _joined(nodes: list[dict[str, Any]], labels: dict[int, str]) -> tuple[list[Result], int]:
    """Results of the nodes' probes, equal ones as one; and how many nodes have neither failures nor warnings."""
    same: dict[tuple[str, str, str], tuple[Result, list[str]]] = {}
    passed: dict[str, list[str]] = {}
    clean = 0
    for m in nodes:
        name = labels[m["rank"]]
        report = NodeReport.unpack(m["report"])
        clean += not any(r.verdict in (FAIL, WARN) for r in report.results)
        for r in report.results:
            key = (r.probe, r.verdict, str(r.message))
            names = same.setdefault(key, (r, []))[1]
            if name not in names:
                names.append(name)
        for probe in m.get("passed", ()):
            passed.setdefault(str(probe), []).append(name)
    out = []
    for r, names in same.values():
        said = Text("{hosts}: {message}", "{hosts}：{message}", hosts=hosts_text(names, len(nodes)), message=r.message)
        out.append(Result(r.probe, r.verdict, r.value, r.limit, said, r.fix))
    faulty = {r.probe for r in out}
    for probe, names in sorted(passed.items()):
        if probe not in faulty:
            out.append(Result(probe, PASS, len(names), len(nodes), hosts_text(names, len(nodes))))
    return out, clean
