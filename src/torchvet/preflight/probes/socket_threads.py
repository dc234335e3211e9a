"""More sockets per connection than NCCL allows."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import integer, settings

PROBE = Probe(
    name="socket-threads", area="nccl", summary=Text("sockets and threads per connection", "每连接的套接字与线程数")
)

MOST, MOST_THREADS = 64, 16
"""NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD, and threads alone (NCCL env.rst)."""


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    known = settings(host)
    threads, sockets = integer(known.get("NCCL_SOCKET_NTHREADS")), integer(known.get("NCCL_NSOCKS_PERTHREAD"))
    if threads is None and sockets is None:
        return None
    product = max(1, threads or 1) * max(1, sockets or 1)
    shown = ", ".join(known[n].shown for n in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD") if n in known)
    if product <= MOST and (threads or 1) <= MOST_THREADS:
        return PROBE.ok(product, MOST, Text("{shown}", shown=shown))
    return PROBE.fail(
        product, MOST,
        Text("{shown}: {product} sockets for a connection, NCCL allows {most} and {threads} threads",
             "{shown}：每连接 {product} 个套接字，NCCL 最多允许 {most} 个及 {threads} 个线程",
             shown=shown, product=product, most=MOST, threads=MOST_THREADS),
        Text("NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4 for 100 Gb/s Ethernet",
             "100 Gb/s 以太网可用 NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4"),
    )  # fmt: skip
