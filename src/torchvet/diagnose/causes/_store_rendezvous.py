"""Ranks that did not find each other: the words of each kind."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Hypothesis, Link
from ..ranks import listed
from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model import Case, Fact


_JOINING = "torch/distributed/rendezvous.py"


def port_taken(case: Case, facts: list[Fact]) -> Hypothesis:
    port = next(
        (f.values.get("port") or f.values.get("port2") for f in facts if f.values.get("port") or f.values.get("port2")),
        None,
    )
    number = Text(" {port}", " {port}", port=port) if port else Text("")
    out = Hypothesis(
        "store-rendezvous",
        "port in use",
        Text(
            "rendezvous port{port} is taken by another program (address already in use)",
            "会合端口{port} 已被其他程序占用（address already in use）",
            port=number,
        ),
        [],
        CONFIRMED,
    )
    out.supports = [Link(f, Text("the store could not listen", "存储无法监听"), STRONG) for f in facts[:2]]
    out.next.append(
        Text(
            "another --master-port, or --rdzv-endpoint=localhost:0 for one node; ss -ltnp shows who listens",
            "换一个 --master-port；单节点可用 --rdzv-endpoint=localhost:0；ss -ltnp 查看占用者",
        )
    )
    return out


def wrong_address(case: Case, by: dict[str, list[Fact]], ranks: list[int], address: str, right: str) -> Hypothesis:
    summary = Text(
        "{who} used the address {address}, the others {right}",
        "{who} 使用地址 {address}，其他 rank 使用 {right}",
        who=named(ranks),
        address=address,
        right=right,
    )
    clients = next(iter(by.get("clients", [])), None)
    if clients is not None:
        summary = Text(
            "{said}; {joined} of {expected} clients joined",
            "{said}；{expected} 个客户端中有 {joined} 个加入",
            said=summary,
            joined=clients.values.get("joined"),
            expected=clients.values.get("expected"),
        )
    out = Hypothesis("store-rendezvous", "wrong address", summary, ranks, CONFIRMED)
    out.supports = [
        Link(f, Text("environment of rank {r}", "rank {r} 的环境", r=f.rank), STRONG)
        for f in case.of("env")
        if f.rank in ranks
    ][:2]
    out.supports += [
        Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG)
        for f in by.get("connect", [])[:1] + by.get("clients", [])[:1]
    ]
    out.next.append(
        Text(
            "give every rank the same MASTER_ADDR and MASTER_PORT", "让所有 rank 使用相同的 MASTER_ADDR 与 MASTER_PORT"
        )
    )
    return out


def clients_missing(case: Case, facts: list[Fact]) -> Hypothesis:
    v = facts[0].values
    tried = sorted(
        {
            f.rank
            for f in case.of("rendezvous")
            if f.rank is not None and f.values.get("what") in ("connect", "refused", "resolve")
        }
    )
    out = Hypothesis(
        "store-rendezvous",
        "clients missing",
        Text(
            "only {joined} of {expected} clients joined the store{who}",
            "{expected} 个客户端中只有 {joined} 个加入{who}",
            joined=v.get("joined"),
            expected=v.get("expected"),
            who=Text("; {ranks} could not connect", "；{ranks} 无法连接", ranks=named(tried)) if tried else "",
        ),
        tried,
        PROBABLE,
    )
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in facts[:2]]
    out.missing.append(Text("logs of the ranks that did not join", "未加入的 rank 的日志"))
    return out


def not_resolved(case: Case, facts: list[Fact]) -> Hypothesis:
    ranks = sorted({f.rank for f in facts if f.rank is not None})
    host = next((str(f.values["host"]) for f in facts if f.values.get("host")), "MASTER_ADDR")
    out = Hypothesis(
        "store-rendezvous",
        "name not resolved",
        Text("{who} cannot resolve {host}", "{who} 无法解析 {host}", who=named(ranks), host=host),
        ranks,
        PROBABLE,
    )
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), STRONG) for f in facts[:2]]
    out.next.append(Text("getent hosts {host} on that node", "在该节点执行 getent hosts {host}", host=host))
    return out


def no_connection(case: Case, facts: list[Fact]) -> Hypothesis:
    ranks = sorted({f.rank for f in facts if f.rank is not None and f.values.get("what") in ("connect", "refused")})
    if not ranks:  # lines of all ranks in one log: who still stands in the rendezvous tried to connect
        standing = {f.rank for f in case.of("stack") if any(_JOINING in str(x[0]) for x in f.values.get("main") or ())}
        ranks = sorted(r for r in standing if r is not None)
    known = next((f for f in facts if f.values.get("host")), facts[0])
    where = Text("the store", "存储")
    if known.values.get("host"):
        where = Text(f"{known.values['host']}:{known.values.get('port', '?')}")
    elif known.values.get("what") == "mesh":
        where = Text("each other (gloo)", "彼此（gloo）")
    all_of_them = bool(ranks) and len(ranks) >= len(case.ranks) - 1
    out = Hypothesis(
        "store-rendezvous",
        "no connection",
        Text(
            "{who} could not reach {where} at the start", "{who} 启动时无法连接 {where}", who=named(ranks), where=where
        ),
        [] if all_of_them else ranks,
        POSSIBLE,
    )
    out.supports = [Link(f, Text("{words}", "{words}", words=f.text[:140]), MEDIUM) for f in facts[:3]]
    if all_of_them:
        out.supports.append(
            Link(
                None,
                Text(
                    "all ranks but the host of the store ({ranks})",
                    "除存储所在 rank 外的所有 rank（{ranks}）",
                    ranks=listed(ranks),
                ),
                MEDIUM,
            )
        )
    out.missing.append(
        Text(
            "log of rank 0, which hosts the store; a test of the port from that node",
            "存储所在 rank 0 的日志；从该节点测试端口",
        )
    )
    return out
