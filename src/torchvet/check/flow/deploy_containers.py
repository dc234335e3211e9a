"""Containers that `docker run` and its like start, and what a container is for."""

from __future__ import annotations

import re

from ... import knowledge
from .deploy_launch import LAUNCHER, OTHER, PYTHON
from .deploy_model import NEITHER, SERVES, TESTS, TRAINS, UNSAID, Container, Env, Shm, amount, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..source.traced import Traced
    from .deploy_launch import Launch
    from .deploy_model import File

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD")
RDMA = "/dev/infiniband"
LOCKING = ("IPC_LOCK", "CAP_IPC_LOCK", "ALL", "SYS_ADMIN")


def of_engine(file: File, launch: Launch, platform: str = "") -> Container:
    """The container of a `docker run`."""
    what = f"{launch.head} run"
    c = Container(file, platform or launch.head, what, file.pos(launch.at, launch.at + len(launch.words[0].text)))
    c.engine = launch.head
    verb = next((w for w in launch.words[1:6] if w.text in ("run", "create")), None)
    if verb is not None:
        if c.pos >> 44 != file.pos(verb.offset(0)) >> 44:
            c.pos = file.word(verb)  # the name of the engine comes from a variable
        end = verb.offset(len(verb.text) - 1) + 1
        if file.text[end - len(verb.text) : end] == verb.text and file.text[end : end + 1] in (" ", "\t"):
            c.insert = (end, " {line}")
    c.opaque = launch.opaque
    c.image = launch.rest[0].text if launch.rest else ""
    c.launches = launch.inner
    visible = ""
    answers = False
    for name, value, word in launch.given:
        text, pos = value.text.strip("\"'"), file.word(word)
        if name == "gpus":
            if text not in ("", "0", "none"):
                c.gpus, c.gpu_pos = gpu_count(text), pos
        elif name == "runtime":
            if text == "nvidia" and c.gpus is None:
                c.gpus, c.gpu_pos = 0, pos
        elif name == "device":
            if text.startswith("nvidia.com/gpu") or text.startswith(DEVICES):
                c.gpus = c.gpus or 0
                c.gpu_pos = c.gpu_pos or pos
            elif text.startswith(RDMA):
                c.rdma = c.rdma or pos
        elif name == "shm-size":
            c.shm = sized(text, pos)
        elif name == "ipc":
            ipc(c, text, pos)
        elif name in ("v", "volume", "mount", "tmpfs"):
            mounted(c, name, text, pos)
        elif name in ("m", "memory"):
            limit = amount(text)
            c.memory = (limit, pos) if limit else None
        elif name == "cpus":
            c.cpus = (number, pos) if (number := decimal(text)) else None
        elif name == "cpu-quota" and c.cpus is None:
            period = launch.value("cpu-period")
            each = decimal(period.text) if period is not None else 100_000.0  # microseconds; docker run reference
            if (quota := decimal(text)) and each:
                c.cpus = (quota / each, pos)
        elif name == "ulimit":
            c.locked = c.locked or (text.startswith("memlock") and ("-1" in text or "unlimited" in text))
        elif name == "cap-add":
            c.locked = c.locked or text.upper() in LOCKING
        elif name == "privileged" and text in ("", "true"):
            c.privileged = c.locked = True
        elif name in ("e", "env"):
            key, sign, rest = text.partition("=")
            if sign:
                c.env.append(Env(key, rest.strip("\"'"), pos))
                visible = rest if key == "NVIDIA_VISIBLE_DEVICES" else visible
        elif name == "rm":
            c.removed = True
        elif name in ("p", "publish"):
            answers = text.rpartition(":")[2].partition("/")[0] not in knowledge.deployment("tool_ports")
    if visible in ("void", "none") and not launch.value("gpus"):
        c.gpus = None
    elif visible and not c.gpus and c.gpus is not None:
        c.gpus = gpu_count(visible)
    settle(c)
    if c.purpose == UNSAID and answers and not c.launches and launch.has("d", "detach"):
        c.purpose = SERVES  # an image in the background, with its own command, that answers on a port
    return c


def decimal(text: str) -> float | None:
    """A number such as `2.5`; None for anything else, and for what is no amount."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < 1e9 else None


def sized(text: str, pos: int) -> Shm:
    """`16g`, or `16` which means bytes."""
    size = amount(text) if known(text) else None
    return Shm("unknown", pos) if size is None else Shm("size", pos, size, text, bare=text.strip().isdecimal())


def ipc(c: Container, text: str, pos: int) -> None:
    if text == "host":
        c.ipc = pos
        c.shm = c.shm or Shm("host", pos)
    elif text not in ("private", "shareable", "", "none"):
        c.shm = c.shm or Shm("own" if text.startswith(("container:", "service:")) else "unknown", pos)


def mounted(c: Container, option: str, text: str, pos: int) -> None:
    """A volume: `source:/target:ro`, `type=tmpfs,dst=/target,tmpfs-size=8g`, `/dev/shm:size=8g`."""
    if not known(text) and ":" not in text and "," not in text and option != "tmpfs":
        c.opaque = c.opaque or option == "mount"
        return
    if option == "mount":
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        target = fields.get("target") or fields.get("dst") or fields.get("destination") or ""
        size = fields.get("tmpfs-size") or ""
        memory = fields.get("type") == "tmpfs"
    elif option == "tmpfs":
        target, _, rest = text.partition(":")
        size, memory = next((x[5:] for x in rest.split(",") if x.startswith("size=")), ""), True
    else:
        parts = text.split(":")
        target = parts[1] if len(parts) > 1 else parts[0]
        size, memory = "", False
    target = target.rstrip("/") or "/"
    c.mounts.append(target)
    if target.startswith(RDMA):
        c.rdma = c.rdma or pos
    if target in ("/dev/shm", "/run/shm", "/dev"):
        limit = amount(size) if size else None
        c.shm = Shm("volume" if memory else "host", pos, limit or 0, size)


def gpu_count(text: str) -> int:
    """The number in `2`, `device=0,1`, `0,1`; 0 for `all` and for what is not known."""
    text = text.strip("\"'\\ ")
    if not known(text):
        return 0
    if text.isdecimal() and len(text) < 4:
        return int(text)
    found = re.search(r"(?:device=|count=)?([\w,\-:]+)\"?$", text)
    if found is None or found[1] in ("all", "gpu"):
        return 0
    if "count=" in text:
        return int(found[1]) if found[1].isdecimal() and len(found[1]) < 4 else 0
    return len([x for x in found[1].split(",") if x]) if "device=" in text or "," in text else 0


def settle(c: Container) -> None:
    """What follows from all settings together."""
    names = knowledge.deployment("rdma_names")
    if not c.rdma and c.platform != "kubernetes":  # there a resource asks for it
        c.rdma = next((e.pos for e in c.env if e.name in names), 0)
    c.purpose = purpose(c.launches, c.image, c.what)


# ------------------------------------------------------------------------------------------------------------ purpose
def purpose(launches: Iterable[Launch], image: str, what: str) -> str:
    """What a container does, by the programs that it starts, else by its image and name."""
    found = {program(x) for launch in launches for x in launch.all() if x.kind in (LAUNCHER, PYTHON, OTHER)}
    for answer in (TRAINS, SERVES, TESTS):
        if answer in found:
            return answer
    by_name = named(image.rpartition("@")[0] or image)
    if UNSAID in found:
        return by_name if by_name in (SERVES, NEITHER) else UNSAID
    if NEITHER in found:
        return NEITHER
    if by_name not in (SERVES, NEITHER):
        by_name = named(what)
    return by_name if by_name in (SERVES, NEITHER, TRAINS) else UNSAID


def program(launch: Launch) -> str:
    """What one program does, by its name and the script that it runs."""
    if launch.kind == LAUNCHER:
        said = named(script_of(launch.rest))
        return said if said in (SERVES, TESTS, NEITHER) else TRAINS
    if launch.kind == PYTHON:
        script = script_of(launch.rest)
        if script.startswith("-c ") or script in ("pip", "venv", "build", "http.server", "ipykernel", ""):
            return TRAINS if script.startswith("-c ") and "train" in script else NEITHER
        return named(script) or UNSAID
    head = launch.head.lower()
    if head in knowledge.deployment("builds"):
        return NEITHER
    words = " ".join([head, *(w.text for w in launch.rest[:2] if not w.text.startswith("-"))]).lower()
    return named(words) or UNSAID


def script_of(rest: list[Traced]) -> str:
    """The script or module of a Python command line, small letters."""
    for i, word in enumerate(rest[:12]):
        if word.text == "-c":
            return "-c " + (rest[i + 1].text[:200] if i + 1 < len(rest) else "")
        if word.text == "-m" and i + 1 < len(rest):
            return rest[i + 1].text.lower()
        if not word.text.startswith("-"):
            return word.text.lower()
    return ""


def named(text: str) -> str:
    """What a name says, "" for nothing. Of two things the first of the list counts; `download_and_train` is open."""
    text = text.lower()
    found = [
        kind
        for kind, table in ((TESTS, "tests"), (TRAINS, "trains"), (NEITHER, "neither"), (SERVES, "serves"))
        if any(word in text for word in knowledge.deployment(table))
    ]
    return UNSAID if found[:2] == [TRAINS, NEITHER] else found[0] if found else ""
