# ruff: noqa: E501
"""What the name of a file says about whose it is: run, attempt, node, local or global rank."""

from __future__ import annotations

import re
from dataclasses import dataclass

# <log-dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json} (torch.distributed.elastic.multiprocessing.api)
_TREE = re.compile(r"(?:^|/)(?:([^/]+)/)?([^/]+)/attempt_(\d+)/(\d+)/[^/]+$")
# older agents: <log-dir>/<run id>_<random>/attempt_<n>/<local rank>/ without a run folder
_TREE_BARE = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/[^/]+$")
_RANK = re.compile(r"(?i)(?:^|[/_.\-])(?:global[_-]?)?rank[_\-.=]?0*(\d{1,6})(?![\dA-Za-z])")
_PROCESS = re.compile(r"(?:^|/)std_log_process_0*(\d{1,6})\.txt$")  # Azure ML
_LOCAL = re.compile(r"(?i)local[_-]?rank[_\-.=]?0*(\d{1,4})")
_ENDINGS = re.compile(r"(?:\.(?:log|txt|out|err|json|jsonl|gz))+$")
_NODE_FILE = re.compile(
    r"(?i)^(?:launcher|torchrun|kernel|kern|dmesg|journal(?:ctl)?|messages|syslog|nvidia[_-]smi|df|free|meminfo|ibstat|"
    r"ibstatus|ps|procs|dpkg|xid|kmsg|preflight|env)[_\-.](.+)$"
)
_NODE_FOLDER = re.compile(
    r"(?i)(?:^|/)((?:node|host|worker|gpu|dgx|hgx|compute|cn|ip|nid|pod)[\w.\-]*\d[\w.\-]*|(?:node|host)[_-]\w[\w.\-]*)/"
)
_PLAIN_FOLDERS = {
    "logs",
    "log",
    "evidence",
    "torchelastic",
    "tmp",
    "out",
    "output",
    "outputs",
    "runs",
    "run",
    "results",
    "elastic",
}


@dataclass(slots=True)
class Place:
    node: str = ""
    run: str = ""
    attempt: int | None = None
    local: int | None = None
    rank: int | None = None
    stream: str = ""  # "stdout", "stderr" or ""
    tree: bool = False  # a file of one process, by the layout of torchrun


def place_of(name: str) -> Place:
    """What the POSIX name of a file within the evidence says. Members of archives count as files in a folder."""
    name = name.replace("!", "/")
    base = name.rpartition("/")[2]
    out = Place()
    lower = base.lower()
    out.stream = "stderr" if "stderr" in lower or lower.endswith(".err") else "stdout" if "stdout" in lower else ""
    found = _TREE.search(name)
    if found and found.group(2) not in _PLAIN_FOLDERS:
        node = found.group(1) or ""
        out.node = "" if node.lower() in _PLAIN_FOLDERS else node
        out.run, out.attempt, out.local, out.tree = found.group(2), int(found.group(3)), int(found.group(4)), True
        return out
    found = _TREE_BARE.search(name)
    if found:
        out.attempt, out.local, out.tree = int(found.group(1)), int(found.group(2)), True
        return out
    if found := _LOCAL.search(name):
        out.local = int(found.group(1))
        name = name[: found.start()] + name[found.end() :]
    if found := _RANK.search(name) or _PROCESS.search(name):
        out.rank = int(found.group(1))
    if found := _NODE_FILE.match(_ENDINGS.sub("", base)):
        tail = found.group(1)
        if not re.fullmatch(
            r"(?i)[\d_\-]+|(?:at|after|before|during|shm|out|tmp|mem|smi|all|full|exit|stall|start|end|log|h|k|a)(?:[_-]\w+)*",
            tail,
        ):
            out.node = tail
    if not out.node and (found := _NODE_FOLDER.search(name)):
        out.node = found.group(1)
    return out
