"""MASTER_ADDR: has it an address, and can other nodes reach that one?"""

from __future__ import annotations

import ipaddress

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..ranks import launch

PROBE = Probe(
    name="master-addr", area="launch",
    summary=Text("MASTER_ADDR is an address that every node can reach", "MASTER_ADDR 是每个节点都能访问的地址"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    name = host.env.get("MASTER_ADDR")
    place = launch(host.env)
    several = place.several_nodes if place else None
    if several is None:
        nodes = plan.node_count(host)
        several = nodes > 1 if nodes else None
    if not name:
        return None
    found = host.resolve(name)
    if found is None:
        return PROBE.unknown(
            Text("no answer about {name} from the name service", "名称服务未就 {name} 给出答复", name=name)
        )
    if not found:
        return PROBE.fail(
            name, None, Text("MASTER_ADDR={name} has no address here", "MASTER_ADDR={name} 在此处无法解析", name=name),
            Text("getent hosts {name} must work on every node; give the address instead of the name, or correct "
                 "DNS or /etc/hosts",
                 "每个节点上 getent hosts {name} 都必须成功；可改用 IP 地址，或修正 DNS 与 /etc/hosts", name=name),
        )  # fmt: skip
    loop = [a for a in found if _loopback(a)]
    shown = name if name in found else f"{name} ({', '.join(found[:3])})"
    if several and len(loop) == len(found):
        return PROBE.fail(
            found, None,
            Text("MASTER_ADDR={shown} is this machine itself, and the job has several nodes: the others never join",
                 "MASTER_ADDR={shown} 指向本机，而作业有多个节点：其他节点永远无法加入", shown=shown),
            Text("the address of rank 0's node; when /etc/hosts maps its own name to 127.0.1.1, give the number",
                 "改为 rank 0 所在节点的地址；若 /etc/hosts 把本机名映射到 127.0.1.1，请直接写 IP"),
        )  # fmt: skip
    if several and all(a.startswith("172.17.") for a in found):
        return PROBE.fail(
            found, None,
            Text("MASTER_ADDR={shown} is an address of docker's bridge: other machines cannot reach it",
                 "MASTER_ADDR={shown} 是 docker 网桥地址：其他机器无法访问",
                 shown=shown),
            Text("docker run --network=host …, and the address of the machine",
                 "docker run --network=host …，并使用宿主机地址"),
        )  # fmt: skip
    return PROBE.ok(found, None, Text("{shown}", shown=shown))


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
