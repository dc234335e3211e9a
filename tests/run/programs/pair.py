"""Starts two ranks of a program and ends the other one when one fails: a launcher that takes no time."""

import os
import socket
import subprocess
import sys
import time

with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
ranks = [
    subprocess.Popen(
        [sys.executable, *sys.argv[1:]],
        env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
    )
    for r in (0, 1)
]  # fmt: skip
while all(p.poll() is None for p in ranks):
    time.sleep(0.05)
first = next(p for p in ranks if p.poll() is not None)
other = ranks[1 - ranks.index(first)]
try:
    other.wait(None if first.returncode == 0 else 3)
except subprocess.TimeoutExpired:
    other.kill()
    other.wait()
sys.exit(max(abs(p.returncode) for p in ranks) and 1)
