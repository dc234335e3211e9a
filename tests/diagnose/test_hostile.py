"""Evidence from strangers: nothing in it is executed, written or believed; each bad file costs one line, little time and
little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from torchvet import diagnose as package

SOURCE = Path(package.__file__).parents[2]
GB = 1 << 30


class Command:
    def __init__(self, words: str) -> None:
        self.words = words

    def __reduce__(self):
        return os.system, (self.words,)


@pytest.fixture
def hostile(tmp_path):
    folder = tmp_path / "job"
    (folder / "fr").mkdir(parents=True)
    mark = tmp_path / "mark"
    for name in ("fr/rank_0", "fr/rank_1.pickle", "snapshot.pickle"):
        value = {"segments": [], "version": "2.10", "entries": [Command(f"touch {mark}")]}
        (folder / name).write_bytes(pickle.dumps(value, 2))
    with open(folder / "fr" / "rank_2", "wb") as f:
        f.truncate(10 * GB)
    with open(folder / "huge.log", "wb") as f:
        f.write(b"step 1 loss 0.5\n")
        f.truncate(10 * GB)
        f.seek(0, 2)
        f.write(b"\nstep 2 loss 0.4\n")
    (folder / "endless.log").write_bytes(b"loss " * 8_000_000)
    (folder / "deep.json").write_bytes(b"[" * 500_000)
    (folder / "rank_3.json").write_bytes(b'{"version": "2.10", "entries": ' + b'[{"a":' * 100_000)
    (folder / "binary.log").write_bytes(bytes(range(256)) * 4000)
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as z, z.open("a.log", "w") as member:
        for _ in range(300):
            member.write(bytes(1 << 20))
    with tarfile.open(folder / "up.tar.gz", "w:gz") as t:
        for name in ("../../../escaped", "/escaped"):
            info = tarfile.TarInfo(name)
            info.size = 3
            t.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        t.addfile(link)
    os.mkfifo(folder / "pipe")
    (folder / "\x1b[31mred\n.log").write_bytes(b"\x1b[31m\x07Traceback (most recent call last):\n\x1b]0;title\x07\n")
    return folder


def test_everything_at_once(hostile, tmp_path):
    before = set(tmp_path.rglob("*"))
    began = time.perf_counter()
    r = subprocess.run(
        [sys.executable, "-m", "torchvet", "diagnose", str(hostile), "-v", "-o", "json=" + str(tmp_path / "r.json"),
         "-o", "html=" + str(tmp_path / "r.html")],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8"},
    )  # fmt: skip
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert r.returncode in (0, 1), r.stderr
    assert r.stderr == ""
    said = json.loads((tmp_path / "r.json").read_text("utf-8"))
    problems = {p["path"]: p["message"] for p in said["inventory"]["problems"]}
    for name in ("fr/rank_0", "fr/rank_1.pickle", "snapshot.pickle", "bomb.zip", "pipe"):
        assert name in problems, name
    kinds = {f["path"]: f["kind"] for f in said["inventory"]["files"]}
    assert kinds["fr/rank_2"] == kinds["huge.log"] == "unknown", "10 GB of zeros"
    assert not any("torchvet failed" in text for text in problems.values()), problems
    assert all("\n" not in text and len(text) < 400 for text in problems.values())
    assert sum(name.startswith("up.tar.gz!") for name in problems) == 2
    created = set(tmp_path.rglob("*")) - before
    assert {p.name for p in created} == {"r.json", "r.html"}, "something was executed or written"
    assert "\x1b" not in r.stdout and "\x07" not in r.stdout and "\x07" not in (tmp_path / "r.html").read_text("utf-8")
    assert seconds < 60, seconds
    assert memory < 1.5 * GB, memory
