"""The store of the job's own launcher, as the way between ranks.

torch runs in a child process (the courier): its store prints to stderr, and a call into it can last beyond every limit
that Python could set. The parent waits for as long as it wants, kills the courier and says what it had said.

torchrun: the agent of node 0 hosts the store, all ranks are clients (TORCHELASTIC_USE_AGENT_STORE=True, as in
torch/distributed/rendezvous.py), below a prefix of the run and its restart. Elsewhere rank 0 hosts it on MASTER_PORT.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from contextlib import suppress

from torchvet.findings import Text

from .host import Host
from .quantity import whole
from .ranks import KUBERNETES, OPENMPI, SLURM, Launch, node_names
from .sniff import who_answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


IMPORT = 40.0
"""Seconds for the import of torch, from a network disk and with all ranks of a node at the same time."""

CONNECT_TRIES = 0.5
"""Seconds between two tries to reach the port of rank 0 before its process has started."""

_COURIER = """
import json, sys, datetime, os
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: a wait inside torch does not notice that its reader is gone
if os.getppid() != int(sys.argv[1]):
    sys.exit(0)
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def say(**k):
    out.write(json.dumps(k) + "\\n"); out.flush()
try:
    import torch
    from torch.distributed import PrefixStore, TCPStore
except BaseException as error:
    say(error="no torch: " + str(error)[:300]); sys.exit(0)
store = None
say(ok=torch.__version__)
for line in sys.stdin:
    q = json.loads(line)
    limit = datetime.timedelta(seconds=max(0.05, q.get("seconds", 5)))
    try:
        if q["op"] == "open":
            store = TCPStore(q["address"], q["port"], None, q["host"], timeout=limit, wait_for_workers=False)
            if q["prefix"]:
                store = PrefixStore(q["prefix"], store)
            say(ok=1)
        elif q["op"] == "set":
            store.set(q["key"], q["value"]); say(ok=1)
        elif q["op"] == "add":
            say(ok=store.add(q["key"], q["value"]))
        elif q["op"] == "wait":
            store.wait([q["key"]], limit); say(ok=store.get(q["key"]).decode())
    except BaseException as error:
        say(error=type(error).__name__ + ": " + str(error).split("\\n")[0][:300])
"""


class StoreError(Exception):
    """The store cannot be had, or gave no answer: `reason`, and what to do."""

    def __init__(self, reason: Text, fix: Text | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.fix = fix


class Late(Exception):
    """A key that was waited for did not come."""


class Where:
    """Address and port of the store, whether this process hosts it, and the prefix of its keys."""

    __slots__ = ("address", "hosts", "port", "prefix")

    def __init__(self, address: str, port: int, hosts: bool, prefix: str) -> None:
        self.address = address
        self.port = port
        self.hosts = hosts
        self.prefix = prefix


def where(place: Launch, env: Mapping[str, str]) -> Where:
    """StoreError: nothing says where rank 0 is."""
    port = whole(env.get("MASTER_PORT"))
    address = env.get("MASTER_ADDR", "")
    if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and address and port:
        run = f"torchvet/{env.get('TORCHELASTIC_RUN_ID', '')}/{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return Where(address, port, False, run)
    if not address and place.launcher == SLURM:
        names = node_names(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", ""))
        address = names[0] if names else ""
    if not port:
        port = 20000 + (whole(env.get("SLURM_JOB_ID")) or 9500) % 20000
    if address:
        return Where(address, port, place.rank == 0, "torchvet")
    more = Text(" (mpirun -x MASTER_ADDR=… )") if place.launcher == OPENMPI else Text("")
    if place.launcher == KUBERNETES:
        more = Text(" (the name of pod 0 in its headless service)", "（0 号 Pod 在 headless service 中的名称）")
    raise StoreError(
        Text("nothing says where rank 0 is: MASTER_ADDR is not set", "无法得知 rank 0 的位置：未设置 MASTER_ADDR"),
        Text("MASTER_ADDR=<host of rank 0>{more}, or --out DIR on a shared folder and torchvet preflight merge "
             "DIR/*.json",
             "设置 MASTER_ADDR=<rank 0 所在主机>{more}，或用 --out DIR 写到共享目录后执行 torchvet "
             "preflight merge DIR/*.json",
             more=more),
    )  # fmt: skip


class Store:
    """A connection. Every method raises StoreError when the courier has gone or gives no answer."""

    def __init__(self, at: Where) -> None:
        self.at = at
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COURIER, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"},
        )  # fmt: skip
        self._held = b""

    def open(self, deadline: float) -> None:
        """Reach the store until `deadline` (of time.monotonic)."""
        said = self._answer(max(IMPORT, deadline - time.monotonic()))
        if "error" in said:
            raise StoreError(
                Text("this Python has no torch: {error}", "此 Python 没有 torch：{error}", error=said["error"]),
                Text("install torchvet where the job's torch is", "将 torchvet 安装到作业的 torch 环境"),
            )
        at = self.at
        deadline = max(deadline, time.monotonic() + 3)
        if at.hosts:
            if _held(at.port):
                raise StoreError(
                    Text("rank 0 cannot open port {port}: it is held by {who}",
                         "rank 0 无法打开端口 {port}：已被占用（{who}）",
                         port=at.port, who=who_answers(Host(), "127.0.0.1", at.port)),
                    Text("another MASTER_PORT on all nodes", "所有节点改用另一个 MASTER_PORT"),
                )  # fmt: skip
        else:
            _reach(at, deadline)
        question = {
            "op": "open", "address": at.address, "port": at.port, "host": at.hosts, "prefix": at.prefix,
            "seconds": max(3.0, deadline - time.monotonic()),
        }  # fmt: skip
        try:
            said = self._ask(question)
        except StoreError:  # against something that is no store, torch's own limit does not hold
            said = {"error": "no answer"}
        if "error" in said:
            who = (
                Text("")
                if at.hosts
                else Text("; on the port is {who}", "；该端口上是{who}", who=who_answers(Host(), at.address, at.port))
            )
            raise StoreError(
                Text("no store at {address}:{port}: {error}{who}", "{address}:{port} 上没有可用的 store：{error}{who}",
                     address=at.address, port=at.port, error=said["error"], who=who),
            )  # fmt: skip

    def set(self, key: str, value: str) -> None:
        self._checked({"op": "set", "key": key, "value": value})

    def add(self, key: str, number: int) -> int:
        return int(self._checked({"op": "add", "key": key, "value": number}))

    def wait(self, key: str, seconds: float) -> str:
        """The value of a key. Late: it did not come in time."""
        said = self._ask({"op": "wait", "key": key, "seconds": seconds})
        if "error" in said:
            if "imeout" in said["error"] or "timed out" in said["error"]:
                raise Late(key)
            raise StoreError(_lost(said["error"]))
        return str(said["ok"])

    def send(self, message: dict[str, Any]) -> None:
        """Put a message in rank 0's inbox."""
        number = self.add("inbox", 1)
        self.set(f"inbox/{number}", json.dumps(message))

    def close(self) -> None:
        """End the courier; where it hosts the store, the store ends too."""
        import signal

        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(2)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(OSError):  # what was not flushed has nobody to read it
                    stream.close()

    def _checked(self, question: dict[str, Any]) -> Any:
        said = self._ask(question)
        if "error" in said:
            raise StoreError(_lost(said["error"]))
        return said["ok"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise StoreError(_lost("the courier ended")) from None
        return self._answer(question.get("seconds", 5) + 3)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._held:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise StoreError(_lost("no answer"))
                part = os.read(self._process.stdout.fileno(), 1 << 16)
                if not part:
                    raise StoreError(_lost("the courier ended"))
                self._held += part
        line, _, self._held = self._held.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _lost(why: str) -> Text:
    return Text("the store of rank 0 is gone: {why}", "rank 0 的 store 已不可用：{why}", why=why)


def _held(port: int) -> bool:
    """Does something listen on the port here? Tried the way torch binds: all addresses, SO_REUSEADDR."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", port))
        except OSError:
            return True
    return False


def _reach(at: Where, deadline: float) -> None:
    """Resolve and connect ourselves: torch says the same words for a name without an address, a closed port and a
    firewall. StoreError: with the difference."""
    reason = Text("")
    while True:
        try:
            rows = socket.getaddrinfo(at.address, at.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError):
            rows = []
            reason = Text("{name} has no address on this node", "{name} 在本节点无法解析", name=at.address)
        for family, kind, protocol, _, address in rows:
            with socket.socket(family, kind, protocol) as s:
                s.settimeout(max(0.2, min(5.0, deadline - time.monotonic())))
                try:
                    s.connect(address)
                    return
                except TimeoutError:
                    reason = Text(
                        "{to} does not answer: a firewall, or another network",
                        "{to} 没有应答：防火墙或网络不通",
                        to=_shown(address),
                    )
                except ConnectionRefusedError:
                    reason = Text("nothing listens on {to}: rank 0 has not started, or runs elsewhere",
                                  "{to} 没有监听：rank 0 未启动或不在该主机", to=_shown(address))  # fmt: skip
                except OSError as error:
                    reason = Text("{to}: {why}", to=_shown(address), why=error.strerror or str(error))
        if time.monotonic() + CONNECT_TRIES > deadline:
            raise StoreError(
                reason,
                Text(
                    "see rank 0's own report; check MASTER_ADDR and MASTER_PORT; --this-node leaves the others out",
                    "查看 rank 0 的报告；检查 MASTER_ADDR 与 MASTER_PORT；--this-node 只检查本节点",
                ),
            )
        time.sleep(CONNECT_TRIES)


def _shown(address: tuple[Any, ...]) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in str(address[0]) else f"{address[0]}:{address[1]}"
