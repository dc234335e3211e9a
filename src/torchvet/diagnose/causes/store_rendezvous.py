"""The ranks did not find each other: a wrong address, a taken port, an unknown name, ranks that never came."""

from __future__ import annotations

from torchvet.findings import Text

from ..model import Cause, Hypothesis
from ..ranks import failed
from ..waits_texts import COMMUNICATOR
from ._addresses import had_joined, never_started, odd_addresses
from ._store_rendezvous import clients_missing, no_connection, not_resolved, port_taken, wrong_address

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
    # ranks that asked for the id of a communicator had joined: who makes that id did not come
    asked = {r for w in case.waits.told if w.op == COMMUNICATOR for r in w.waiters}
    if case.waits.creation is not None:
        asked |= set(case.waits.creation.names)  # the group of all was there when they asked for another
    facts = [f for f in case.of("rendezvous") if f.values.get("what") != "keys" or f.rank not in asked]
    by: dict[str, list[Fact]] = {}
    for fact in facts:
        by.setdefault(str(fact.values.get("what")), []).append(fact)
    if "port" in by:
        yield port_taken(case, by["port"])
        return
    if odd := odd_addresses(case, by):
        yield wrong_address(case, by, *odd)
        return
    said = [(f.source, f.line) for f in facts]
    own = [
        f for f in case.of("exception")
        if not f.values.get("victim") and not f.values.get("ignored") and "Dist" not in str(f.values.get("type"))
        and "socket" not in str(f.values.get("message")) and "endezvous" not in str(f.values.get("type"))
        and not any(source == f.source and f.line <= line <= f.line + 400 for source, line in said)
    ]  # fmt: skip
    if "clients" in by and not own and not never_started(case):
        yield clients_missing(case, by["clients"])
    elif "barrier" in by and not case.waits.roots and not own:
        yield clients_missing(case, by["barrier"])
    elif "resolve" in by:
        yield not_resolved(case, by["resolve"])
    elif any(k in by for k in ("connect", "refused", "agents", "keys", "mesh")) and not own and not had_joined(case):
        yield no_connection(case, [f for k in ("connect", "refused", "agents", "keys", "mesh") for f in by.get(k, [])])
