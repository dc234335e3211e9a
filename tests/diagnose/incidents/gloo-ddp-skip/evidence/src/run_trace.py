"""Tracing module that the gloo incident programs import.

start(timeout_s) begins a daemon thread. When tick() has not been called for
60 % of the process-group timeout, the thread writes, once:
  $TRACE_DIR/fr_live/rank_<r>       flight recorder, pickle, with Python frames
  $TRACE_DIR/fr_live/rank_<r>.json  flight recorder, JSON, no frames
  $TRACE_DIR/stacks/rank_<r>.txt    Python stacks of all threads
On an uncaught exception and at a normal exit the recorder is written again to
$TRACE_DIR/fr_exit/. With TRACE_ON_TERM=1 it is also written when the launcher
sends SIGTERM (by a thread, since the main thread may be blocked in C++); the
process then ends by SIGTERM as usual. Every file is written under a temporary name and renamed.
"""

import atexit
import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import time

_state = {"last": time.monotonic(), "step": -1, "live_done": False, "exit_done": False}
_dir = os.environ.get("TRACE_DIR", "")
_rank = os.environ.get("RANK", "0")


def _write(sub, name, data):
    folder = os.path.join(_dir, sub)
    os.makedirs(folder, exist_ok=True)
    tmp = os.path.join(folder, f".{name}.part")
    with open(tmp, "wb") as f:
        f.write(data)
    os.rename(tmp, os.path.join(folder, name))


def _recorder(sub):
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    _write(sub, f"rank_{_rank}.json", _dump_fr_trace_json())
    _write(sub, f"rank_{_rank}", _dump_fr_trace())


def _stacks():
    folder = os.path.join(_dir, "stacks")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"rank_{_rank}.txt"), "w") as f:
        faulthandler.dump_traceback(file=f, all_threads=True)


def _progress():
    _write("state", f"rank_{_rank}", json.dumps({"pid": os.getpid(), "step": _state["step"]}).encode())


def _loop(limit):
    while True:
        time.sleep(0.2)
        if not _state["live_done"] and time.monotonic() - _state["last"] > limit:
            _state["live_done"] = True
            _stacks()
            _recorder("fr_live")


def _at_exit(*_):
    if not _state["exit_done"]:
        _state["exit_done"] = True
        try:
            _recorder("fr_exit")
        except Exception:
            pass


def _wait_for_term(fd):
    while signal.SIGTERM not in os.read(fd, 1):
        pass
    _at_exit()
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)  # default action again
    os.kill(os.getpid(), signal.SIGTERM)


def start(timeout_s):
    if not _dir:
        return
    if os.environ.get("TRACE_ON_TERM") == "1":
        r, w = os.pipe()
        os.set_blocking(w, False)
        signal.set_wakeup_fd(w)
        signal.signal(signal.SIGTERM, lambda *_: None)
        threading.Thread(target=_wait_for_term, args=(r,), daemon=True, name="trace-term").start()
    _state["last"] = time.monotonic()
    _progress()
    threading.Thread(target=_loop, args=(timeout_s * 0.6,), daemon=True, name="run-trace").start()
    previous = sys.excepthook

    def hook(kind, value, tb):
        _at_exit()
        previous(kind, value, tb)

    sys.excepthook = hook
    atexit.register(_at_exit)


def tick(step):
    _state["last"] = time.monotonic()
    _state["step"] = step
    if _dir:
        _progress()
