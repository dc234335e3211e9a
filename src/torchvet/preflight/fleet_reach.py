"""Can every node open a connection to every other? NCCL and gloo use ports that the system picks: a firewall that lets
MASTER_PORT through stops them."""

from __future__ import annotations

import socket
import threading

from torchvet.findings import Text

from .fleet_words import hosts_text
from .probe import FAIL, PASS, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PEERS = 16
"""Each node tries so many of the nodes that follow it; more would be a flood on a thousand nodes."""
SECONDS = 4.0


class Door:
    """A listening socket on a port of the system's choice, on the address that leads to rank 0."""

    def __init__(self, master: str, port: int) -> None:
        self.address = _own_address(master, port)
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.bind(("", 0))
        self._socket.listen(64)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                self._socket.accept()[0].close()
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()


def _own_address(master: str, port: int) -> str:
    """The address that this machine uses towards another one; nothing is sent."""
    try:
        rows = socket.getaddrinfo(master, port, type=socket.SOCK_DGRAM)
    except (socket.gaierror, UnicodeError):
        return "127.0.0.1"
    for family, kind, protocol, _, address in rows:
        with socket.socket(family, kind, protocol) as s:
            try:
                s.connect(address)
                return str(s.getsockname()[0])
            except OSError:
                continue
    return "127.0.0.1"


def knock(own: int, peers: list[list[Any]], seconds: float = SECONDS) -> dict[str, str]:
    """Try the nodes that follow rank `own` in a ring; `peers`: [rank, host, address, port]. Rank -> why it failed."""
    ranks = [int(p[0]) for p in peers]
    if own not in ranks:
        return {}
    at = ranks.index(own)
    chosen = [peers[(at + k) % len(peers)] for k in range(1, min(PEERS, len(peers) - 1) + 1)]
    failed: dict[str, str] = {}

    def one(peer: list[Any]) -> None:
        try:
            with socket.create_connection((peer[2], int(peer[3])), timeout=seconds):
                return
        except TimeoutError:
            failed[str(peer[0])] = "timed out"
        except OSError as error:
            failed[str(peer[0])] = error.strerror or str(error)

    threads = [threading.Thread(target=one, args=(p,), daemon=True) for p in chosen]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds + 1)
    return failed


def judge(failures: dict[int, dict[str, str]], peers: list[list[Any]]) -> list[Result]:
    """`failures`: rank of a node -> what `knock` gave there."""
    names = {int(p[0]): str(p[1]) for p in peers}
    bad = [
        (a, int(b), why)
        for a, rows in sorted(failures.items())
        for b, why in sorted(rows.items(), key=lambda x: int(x[0]))
    ]
    if not bad:
        n = len(peers) * min(PEERS, len(peers) - 1)
        return (
            [
                Result(
                    "fleet-reach",
                    PASS,
                    n,
                    None,
                    Text("{n} connections between nodes came about", "节点间 {n} 个连接均成功", n=n),
                )
            ]
            if len(peers) > 1
            else []
        )
    out = []
    fix = Text(
        "open all TCP ports between the nodes (NCCL and gloo let the system pick them), or set "
        "NCCL_SOCKET_IFNAME to their network",
        "放开节点间全部 TCP 端口（NCCL 与 gloo 使用系统分配的端口），或将 NCCL_SOCKET_IFNAME 设为互通的网络",
    )
    for target in sorted({b for _, b, _ in bad}):
        who = [names[a] for a, b, _ in bad if b == target]
        why = next(w for _, b, w in bad if b == target)
        said = Text(
            "{hosts} cannot connect to {target}: {why}",
            "{hosts} 无法连接 {target}：{why}",
            hosts=hosts_text(who),
            target=names[target],
            why=why,
        )
        out.append(Result("fleet-reach", FAIL, who, None, said, fix))
    return out
