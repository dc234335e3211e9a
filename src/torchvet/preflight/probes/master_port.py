"""MASTER_PORT: free on the node of rank 0, or what answers there."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole
from ..ranks import TORCHRUN, launch
from ..sniff import who_answers

PROBE = Probe(
    name="master-port", area="launch",
    summary=Text("MASTER_PORT is free on the node of rank 0", "rank 0 节点上的 MASTER_PORT 空闲"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    word = host.env.get("MASTER_PORT")
    if word is None:
        return None
    port = whole(word)
    if port is None or not 0 < port < 65536:
        return PROBE.fail(
            word, "1 to 65535", Text("MASTER_PORT={word} is no port", "MASTER_PORT={word} 不是有效端口",
                 word=repr(word)),
            Text("MASTER_PORT=29500, or another free one", "MASTER_PORT=29500 或其他空闲端口"),
        )  # fmt: skip
    place = launch(host.env)
    if place is not None and (place.launcher == TORCHRUN or place.rank != 0):
        return None  # torchrun's agent holds it; on other ranks it says nothing
    if place is None and host.env.get("RANK", host.env.get("NODE_RANK", "0")) != "0":
        return None
    held = host.listening(port)
    if held is None:
        return PROBE.unknown(Text("listening ports cannot be seen here", "此处无法查看监听端口"))
    if not held:
        return PROBE.ok(port, None, Text("port {port} is free", "端口 {port} 空闲", port=port))
    who = who_answers(host, "127.0.0.1", port)
    return PROBE.fail(
        port, None,
        Text("port {port} is held already: {who}", "端口 {port} 已被占用：{who}", port=port, who=who),
        Text("another MASTER_PORT on all nodes; ss -ltnp 'sport = :{port}' shows the process",
             "所有节点改用另一个 MASTER_PORT；ss -ltnp 'sport = :{port}' 可查看占用进程", port=port),
    )  # fmt: skip
