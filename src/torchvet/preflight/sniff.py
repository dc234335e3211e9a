"""What answers on a port: asked in a child process, by a banner first and an HTTP request then.

torch says "Ping failed, invalid value returned from server. Expected: N, Got: 1347703880" to whoever meets a web server
there: the number is the bytes "HTTP".
"""

from __future__ import annotations

from torchvet.findings import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .host import Host

_ASK = """
import socket, sys
def hear(s, seconds):
    s.settimeout(seconds)
    try:
        return s.recv(64)
    except OSError:
        return b""
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2) as s:
    got = hear(s, 0.3)
    if not got:
        s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        got = hear(s, 1.5)
print(got.hex())
"""


def who_answers(host: Host, address: str, port: int) -> Text:
    """A few words about the server that holds a port."""
    ran = host.python(_ASK, 5, address, str(port))
    try:
        said = bytes.fromhex(ran.out.strip()) if ran.ok else None
    except ValueError:
        said = None
    if said is None:
        return Text("a server that takes no connection", "不接受连接的服务")
    return named(said)


def named(said: bytes) -> Text:
    """The kind of server by its first bytes."""
    if said.startswith(b"HTTP/"):
        return Text("a web server (HTTP)", "Web 服务器（HTTP）")
    if said.startswith(b"SSH-"):
        return Text("an SSH server", "SSH 服务器")
    if said[:1] in (b"-", b"+") and b"\r\n" in said:
        return Text("a Redis server", "Redis 服务器")
    if said.startswith((b"\x15\x03", b"\x16\x03")):
        return Text("a TLS server", "TLS 服务器")
    if said:
        word = said[:16].decode("ascii", "replace")
        return Text("a server that says {word}", "返回 {word} 的服务", word=repr(word))
    return Text(
        "a server that gives no answer, perhaps the store of an earlier job", "没有应答的服务，可能是先前作业的 store"
    )


def number_text(number: int) -> str:
    """The ASCII that a number of torch's ping message is made of: 1347703880 is "HTTP"; "" for others."""
    raw = (number & 0xFFFFFFFF).to_bytes(4, "little")
    return raw.decode("ascii") if all(32 <= b < 127 for b in raw) else ""
