"""The ranks did not find each other: a wrong address, a taken port, an unknown name, ranks that never came."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import CONFIRMED, MEDIUM, POSSIBLE, PROBABLE, STRONG, Cause, Hypothesis, Link
from ..ranks import failed, listed
from ._say import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Case, Fact

CAUSE = Cause(
    kind="store-rendezvous",
    name="store-rendezvous",
    summary=Text("the ranks did not find each other", "各 rank 未能会合"),
)


@CAUSE.check
def check(case: Case) -> Iterator[Hypothesis]:
    if failed(case) is False:
        return
    facts = case.of("rendezvous")
    by: dict[str, list[Fact]] = {}
    for fact in facts:
        by.setdefault(str(fact.values.get("what")), []).append(fact)
    if "port" in by:
        yield _port(case, by["port"])
        return
    if odd := _odd_addresses(case, by):
        yield _address(case, by, *odd)
        return
    own = [
        f
        for f in case.of("exception")
        if not f.values.get("victim")
        and not f.values.get("ignored")
        and "Dist" not in str(f.values.get("type"))
        and "socket" not in str(f.values.get("message"))
        and "endezvous" not in str(f.values.get("type"))
    ]
    if "clients" in by and not own and not never_started(case):
        yield _clients(case, by["clients"])
    elif "resolve" in by:
        yield _resolve(case, by["resolve"])
    elif any(k in by for k in ("connect", "refused", "agents", "keys")) and not own and not _joined(case):
        yield _connect(case, [f for k in ("connect", "refused", "agents", "keys") for f in by.get(k, [])])


def never_started(case: Case) -> list[int]:
    """Ranks that the others waited for at the start and of which nothing is left: no log, no environment, no end."""
    expected = max((int(f.values.get("expected") or 0) for f in case.of("rendezvous")), default=0)
    if not expected or expected > 65536 or not any(r.has for r in case.ranks.values()):
        return []
    present = {n for n, r in case.ranks.items() if r.has or r.pid is not None}
    gone = [r for r in range(expected) if r not in present]
    joined = max((int(f.values.get("joined") or 0) for f in case.of("rendezvous")), default=0)
    return gone if gone and len(gone) <= expected - joined else []


def _joined(case: Case) -> bool:
    """The job had started: steps were told, or calls were made."""
    return any(r.step is not None for r in case.ranks.values()) or bool(case.of("watchdog", "call"))


def _port(case: Case, facts: list[Fact]) -> Hypothesis:
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


def _odd_addresses(case: Case, by: dict[str, list[Fact]]) -> tuple[list[int], str, str] | None:
    """(ranks, their address, that of the others): a minority was told, or tried, another address than the rest."""
    said: dict[int, str] = {}
    for fact in case.of("env"):
        if fact.rank is not None and fact.values.get("MASTER_ADDR"):
            said[fact.rank] = f"{fact.values['MASTER_ADDR']}:{fact.values.get('MASTER_PORT', '')}"
    tried = {
        f.rank: f"{f.values['host']}:{f.values.get('port', '')}"
        for f in by.get("connect", []) + by.get("refused", [])
        if f.rank is not None and f.values.get("host")
    }
    for rank, address in tried.items():
        if rank is not None:
            said.setdefault(rank, address)
    counts: dict[str, list[int]] = {}
    for rank, address in said.items():
        counts.setdefault(address, []).append(rank)
    if len(counts) < 2:
        return None
    # rank 0 hosts the store: its address is the right one
    right = next((a for a, ranks in counts.items() if 0 in ranks), max(counts, key=lambda a: len(counts[a])))
    odd = sorted(r for a, ranks in counts.items() if a != right for r in ranks)
    return odd, said[odd[0]], right


def _address(case: Case, by: dict[str, list[Fact]], ranks: list[int], address: str, right: str) -> Hypothesis:
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


def _clients(case: Case, facts: list[Fact]) -> Hypothesis:
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


def _resolve(case: Case, facts: list[Fact]) -> Hypothesis:
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


def _connect(case: Case, facts: list[Fact]) -> Hypothesis:
    ranks = sorted({f.rank for f in facts if f.rank is not None and f.values.get("what") in ("connect", "refused")})
    known = next((f for f in facts if f.values.get("host")), facts[0])
    where = (
        f"{known.values.get('host', '?')}:{known.values.get('port', '?')}" if known.values.get("host") else "the store"
    )
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
