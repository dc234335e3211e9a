"""DistributedDataParallel stops, the same exception everywhere, an empty size of the recorder."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, PROBABLE, STRONG, Hypothesis, Link
from ..ranks import listed
from ._say import beside, launcher_claim, lost_peers, named, ranks_of, site_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact


_PARAMS = re.compile(r"[Rr]ank (\d{1,6}) has (?:inconsistent )?(\d{1,9}) params")


def _fewer_agree(facts: list[Fact]) -> list[int]:
    """Ranks with another number of parameters than most: every rank names itself and one that differs from it."""
    counts = {int(r): int(n) for f in facts for r, n in _PARAMS.findall(f.text)}
    by: dict[int, list[int]] = {}
    for rank, number in counts.items():
        by.setdefault(number, []).append(rank)
    most = max(by.values(), key=len, default=[])
    return sorted(r for r in counts if r not in most) if 2 * len(most) > len(counts) else []


def ddp_stops(case: Case) -> Iterator[Hypothesis]:
    """DistributedDataParallel stopped: parameters without a gradient, twice ready, or another model on some rank."""
    unused = [f for f in case.of("ddp") if f.values.get("what") in ("unused", "indices")]
    twice = [f for f in case.of("ddp") if f.values.get("what") == "twice"]
    other = [f for f in case.of("ddp") if f.values.get("what") == "shape"]
    for facts, sub in ((unused, "ddp-unused-parameters"), (twice, "ddp-ready-twice"), (other, "ddp-models-differ")):
        if not facts:
            continue
        ranks = (
            ranks_of(case, facts)
            if sub != "ddp-models-differ"
            else _fewer_agree(facts)
            or sorted({int(f.values["about"]) for f in facts if f.values.get("about") is not None})
            or ranks_of(case, facts)
        )
        everywhere = len(ranks) >= len(case.ranks)
        indices = sorted({i for f in facts for i in f.values.get("indices") or []})
        names = next((str(f.values["parameters"]) for f in facts if f.values.get("parameters")), "")
        which = names or ", ".join(str(i) for i in indices[:12])
        what = Text(" {which}", " {which}", which=which) if which else Text("")
        if sub == "ddp-unused-parameters" and everywhere:
            summary = Text(
                "parameters{what} got no gradient on all ranks: unused by forward() or by the loss",
                "所有 rank 的参数{what} 都没有梯度：forward() 或 loss 未用到",
                what=what,
            )
        elif sub == "ddp-unused-parameters":
            summary = Text(
                "parameters{what} got no gradient only on {who}: a branch that the other ranks do not take",
                "只有 {who} 的参数{what} 没有梯度：走了其他 rank 不走的分支",
                what=what,
                who=named(ranks),
            )
        elif sub == "ddp-ready-twice":
            summary = Text(
                "a parameter was used twice in one backward under DistributedDataParallel on {who}",
                "{who}：DistributedDataParallel 的一次 backward 中某参数被使用两次",
                who=named(ranks),
            )
        else:
            summary = Text(
                "the model of {who} differs from that of the other ranks",
                "{who} 的模型与其他 rank 不同",
                who=named(ranks),
            )
        out = Hypothesis(
            "configuration",
            sub if everywhere else f"{sub} on some ranks",
            summary,
            ranks,
            CONFIRMED if everywhere or len(facts) > 1 else PROBABLE,
            site_in([*beside(case, facts), *facts]),
        )
        out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in facts[:4]]
        out.supports += lost_peers(case, ranks)
        out.contradicts += launcher_claim(case, ranks)
        out.next.append(
            Text("TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters", "TORCH_DISTRIBUTED_DEBUG=DETAIL 会列出参数名")
        )
        out.rule = "" if everywhere else "data-dependent-forward"
        yield out


TOLD_BY_OTHERS = ("cuda-oom", "host-alloc", "shm", "fd", "worker", "device-error", "ddp", "config", "interface",
                   "rendezvous", "mismatch", "nccl-error", "size")  # fmt: skip


def nccl_versions(case: Case) -> Iterator[Hypothesis]:
    """Ranks that loaded different versions of NCCL, and one of them could not read what another one sent."""
    by: dict[str, set[int]] = {}
    for fact in case.of("version"):
        if fact.values.get("nccl") and fact.rank is not None:
            by.setdefault(str(fact.values["nccl"]), set()).add(fact.rank)
    broken = [f for f in case.of("nccl-warn") if "Message truncated" in str(f.values.get("message"))]
    if len(by) < 2 or not broken:
        return
    usual = max(by.values(), key=len)
    ranks = sorted(r for row in by.values() if row is not usual or 2 * len(usual) <= len(case.ranks) for r in row)
    words = ", ".join(f"{version} ({listed(rows)})" for version, rows in sorted(by.items()))
    summary = Text("ranks load different versions of NCCL: {versions}", "各 rank 加载的 NCCL 版本不同：{versions}",
                   versions=words)  # fmt: skip
    out = Hypothesis("configuration", "NCCL versions differ", summary, ranks, PROBABLE)
    said = [f for f in case.of("version") if f.values.get("nccl") and f.rank is not None]
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in [*said[:2], *broken[:2]]]
    out.next.append(Text("the same image on all nodes; LD_LIBRARY_PATH", "所有节点使用相同镜像；检查 LD_LIBRARY_PATH"))
    yield out


def names_it(case: Case, fact: Fact) -> bool:
    """A line of a set-up stands where the exception was raised, or nothing else was. NCCL warns on standard output."""
    if fact.kind != "config" or beside(case, [fact]) or not case.of("exception"):
        return True
    return "NCCL WARN" in fact.text and bool(case.of("nccl-error"))


def went_on(case: Case, fact: Fact) -> bool:
    """The process told steps after the line: it lived without what is missing."""
    return any(f.source == fact.source and f.line > fact.line + 2 and f.values.get("steps") for f in case.of("output"))


def same_everywhere(case: Case) -> Iterator[Hypothesis]:
    """The same exception at the same place on most ranks: the program or its surroundings, not one rank."""
    rows: dict[tuple[str, str, object], list[Fact]] = {}
    told = [(f.source, f.line) for f in case.of(*TOLD_BY_OTHERS)]
    for fact in case.of("exception"):
        v = fact.values
        if any(v.get(k) for k in ("victim", "ignored", "thread", "caught", "cut")) or fact.rank is None:
            continue
        if any(source == fact.source and fact.line <= line <= fact.line + 400 for source, line in told):
            continue
        words = "".join("#" if c.isdigit() else c for c in str(v.get("message", ""))[:80])
        rows.setdefault((str(v.get("type")), words, site_in([fact])), []).append(fact)
    for (kind, _, site), facts in rows.items():
        ranks = sorted({f.rank for f in facts if f.rank is not None})
        if len(ranks) < 2 or 2 * len(ranks) <= len(case.ranks):
            continue
        every = sorted({*ranks, *(r.number for r in case.ranks.values() if r.closed)})
        ranks = every if len(every) == len(case.ranks) else ranks
        message = str(facts[0].values.get("message", "")).split("\n")[0][:120]
        at = (
            Text(" ({path}:{line})", "（{path}:{line}）", path=site[0], line=site[1])
            if isinstance(site, tuple)
            else Text("")
        )
        summary = Text("the same {kind} on {who}: {message}{at}", "{who} 都抛出 {kind}：{message}{at}",
                       kind=kind, who=named(ranks), message=message, at=at)  # fmt: skip
        out = Hypothesis("configuration", "same exception on all ranks", summary, ranks, CONFIRMED, site_in(facts))
        raised = Text("raised here", "在此抛出")
        out.supports = [Link(f, raised, STRONG) for f in facts[:4]]
        yield out


def empty_buffer(case: Case) -> Iterator[Hypothesis]:
    """An empty TORCH_FR_BUFFER_SIZE aborts every rank at its first call (torch 2.13)."""
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    facts = [f for f in case.of("env") if any(f.values.get(n) == "" for n in names)]
    if facts and any(r.code in (-6, 134) for r in case.ranks.values()):
        ranks = ranks_of(case, facts)
        out = Hypothesis(
            "configuration",
            "empty recorder size",
            Text(
                "TORCH_FR_BUFFER_SIZE is set to nothing: every rank aborts at its first collective",
                "TORCH_FR_BUFFER_SIZE 为空：每个 rank 在首次集合通信时中止",
            ),
            ranks,
            PROBABLE,
        )
        out.supports = [
            Link(facts[0], Text("environment", "环境变量"), STRONG),
            Link(None, Text("ranks ended by SIGABRT", "rank 以 SIGABRT 结束"), MEDIUM),
        ]
        out.next.append(Text("unset TORCH_FR_BUFFER_SIZE", "unset TORCH_FR_BUFFER_SIZE"))
        yield out


def one_per_source(facts: list[Fact]) -> list[Fact]:
    seen: set[str] = set()
    return [f for f in facts if not (f.source in seen or seen.add(f.source))]  # type: ignore[func-returns-value]


def driver_versions(case: Case) -> Text | None:
    found: dict[str, str] = {}
    for fact in case.of("version", "config"):
        for name in ("kernel_driver", "driver"):
            if fact.values.get(name):
                found.setdefault(name, str(fact.values[name]))
        if fact.kind == "config" and fact.values.get("what") == "driver-library" and fact.values.get("version"):
            found["driver"] = str(fact.values["version"])
    if len(found) < 2 or found["kernel_driver"] == found["driver"]:
        return None
    return Text(
        ": libraries {driver}, loaded kernel module {kernel}",
        "：用户态库 {driver}，已加载内核模块 {kernel}",
        driver=found["driver"],
        kernel=found["kernel_driver"],
    )


def rank_count(case: Case, gone: list[int]) -> Hypothesis:
    row = next(f for f in case.of("rendezvous") if f.values.get("expected"))
    started = [f for f in case.of("launched", "env") if f.rank is not None and f.rank not in gone]
    out = Hypothesis(
        "configuration",
        "rank count",
        Text(
            "{who} {never}: {joined} of {expected} clients joined",
            "{who} {never}：{expected} 个客户端中有 {joined} 个加入",
            who=named(gone),
            never=Text("never started", "从未启动") if started else Text("did not join", "没有加入"),
            joined=row.values.get("joined"),
            expected=row.values.get("expected"),
        ),
        gone,
        PROBABLE,
    )
    out.supports = [Link(row, Text("{words}", "{words}", words=row.text[:140]), STRONG)]
    if started:
        out.supports.append(
            Link(
                started[-1],
                Text("{n} processes were started", "启动了 {n} 个进程", n=len({f.rank for f in started})),
                STRONG,
            )
        )
        out.confidence = CONFIRMED
    out.next.append(Text("WORLD_SIZE must be the number of processes that start", "WORLD_SIZE 必须等于启动的进程数"))
    return out


def odd_environment(case: Case, name: str, ranks: list[int], facts: list[Fact]) -> Hypothesis:
    """A process that was started with the number of another rank, or with another size of the job."""
    value = facts[0].values.get(name)
    said = Text("{who} {was} started with {name}={value}, the others with another size of the job",
                "{who} 以 {name}={value} 启动，其他 rank 的作业规模不同", who=named(ranks), name=name, value=value,
                was="was" if len(ranks) == 1 else "were")  # fmt: skip
    if name == "RANK":
        said = Text("{who} {was} started with RANK={value}, which another process has",
                    "{who} 以 RANK={value} 启动，而该编号属于另一个进程", who=named(ranks), value=value,
                    was="was" if len(ranks) == 1 else "were")  # fmt: skip
    out = Hypothesis("configuration", f"{name} differs", said, ranks, PROBABLE)
    out.supports = [Link(f, Text("environment of rank {r}", "rank {r} 的环境", r=f.rank), STRONG) for f in facts[:2]]
    for fact in case.of("rendezvous")[:1]:
        out.supports.append(Link(fact, Text("{words}", "{words}", words=fact.text[:140]), STRONG))
        out.confidence = CONFIRMED
    out.next.append(Text("give every process its own RANK and all the same WORLD_SIZE",
                         "为每个进程设置各自的 RANK，并使用相同的 WORLD_SIZE"))  # fmt: skip
    return out
