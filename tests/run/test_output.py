"""What the job prints goes where it went before, and is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from jobs import settings

from torchvet.run import output

WORDS = [sys.executable, "-m", "torchvet", "run", "--lang", "en", "--out"]


def kept(folder, name: str) -> bytes:
    return b"".join(p.read_bytes() for p in sorted((folder / "attempt_0").glob(f"{name}_*.log")))


def test_streams_apart(tmp_path):
    program = "import sys; print('out'); print('err', file=sys.stderr)"
    done = subprocess.run(
        [*WORDS, tmp_path / "r", "--", sys.executable, "-c", program], env=settings(), capture_output=True
    )
    assert done.stdout == b"out\n" and done.stderr.endswith(b"err\n")
    assert (kept(tmp_path / "r", "output"), kept(tmp_path / "r", "errors")) == (b"out\n", b"err\n")


def test_streams_that_lead_to_one_place_keep_their_order(tmp_path):
    program = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d ' % i)"
    done = subprocess.run(
        [*WORDS, tmp_path / "r", "--", sys.executable, "-c", program], env=settings(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    expected = b"".join(b"%d " % i for i in range(200))
    assert done.stdout.endswith(expected) and kept(tmp_path / "r", "output") == expected
    assert not list((tmp_path / "r" / "attempt_0").glob("errors_*"))


def test_output_can_be_left_alone(tmp_path):
    words = [*WORDS, tmp_path / "r", "--no-output", "--", sys.executable, "-c", "print(5)"]
    done = subprocess.run(words, env=settings(), capture_output=True)
    assert done.stdout == b"5\n" and not list((tmp_path / "r" / "attempt_0").glob("output_*"))


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_terminal_stays_one(tmp_path):
    import pty

    program = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size(1).columns, end='|')"
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    process = subprocess.Popen(
        [*WORDS, tmp_path / "r", "--", sys.executable, "-c", program],
        env=settings(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while b"|" not in seen:
        seen += os.read(ours, 4096)
    assert process.wait(30) == 0 and b"True 77|" in seen
    os.close(ours)


def test_a_process_left_behind_does_not_hold_the_run(tmp_path):
    """The stream stays open for it, as without `run`; the run ends."""
    program = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid)"
    words = [*WORDS, tmp_path / "r", "--", sys.executable, "-c", program]
    process = subprocess.Popen(words, env=settings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.wait(30) == 0
    assert process.stdout is not None
    left = process.stdout.readline()
    os.kill(int(left), signal.SIGKILL)
    assert process.stdout.read() == b""
    assert kept(tmp_path / "r", "output") == left


def test_a_reader_that_leaves_ends_the_stream_only(tmp_path):
    words = " ".join(
        map(str, [*WORDS, tmp_path / "r", "--", sys.executable, "-c", "'for i in range(200000): print(i)'"])
    )
    done = subprocess.run(f"{words} | head -1", shell=True, env=settings(), capture_output=True, timeout=60)
    assert done.stdout == b"0\n"


def test_copies_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "HEAD_BYTES", 1000)
    monkeypatch.setattr(output, "TAIL_BYTES", 2000)
    copy = output.Kept(str(tmp_path / "x"))
    for i in range(1000):
        copy.add(b"%09d\n" % i)
    copy.close()
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert files["x"].startswith(b"000000000\n") and sum(map(len, files.values())) <= 3100
    assert any(f.endswith(b"000000999\n") for f in files.values())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_nobody_wakes_while_nothing_is_printed(tmp_path):
    """Each time the wrapping process wakes, it takes a core from a rank."""
    program = """
    import os, time
    def wakes():
        wrapper = os.getppid()
        others = [t for t in os.listdir(f"/proc/{wrapper}/task") if int(t) != wrapper]
        words = [open(f"/proc/{wrapper}/task/{t}/status").read().split() for t in others]
        return [int(w[w.index("voluntary_ctxt_switches:") + 1]) for w in words]
    time.sleep(0.5)
    before = wakes()
    time.sleep(2)
    print(sum(wakes()) - sum(before))
    """
    words = [*WORDS, tmp_path / "r", "--", sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, env=settings(), capture_output=True, text=True)
    assert int(done.stdout) < 4
