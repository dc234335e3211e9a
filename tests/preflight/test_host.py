"""The host: reads, commands that hang, file systems that hang, recording and playing back."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchvet.findings import UserError
from torchvet.preflight import host as host_module
from torchvet.preflight.command import OUTPUT_BYTES, execute
from torchvet.preflight.host import Host, Mount, _mounts
from torchvet.preflight.node import examine
from torchvet.preflight.plan import Plan
from torchvet.preflight.recorded import Recorded, Recorder, to_toml

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


def alive(pid: int) -> bool:
    """Does a process still run, two seconds after it was killed?"""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    return False
        except OSError:
            return False
        time.sleep(0.01)
    return True


# ------------------------------------------------------------------------------------------------------------- commands
def test_a_command_that_hangs_is_killed_with_its_children():
    start = time.monotonic()
    ran = execute(["sh", "-c", "sleep 300 & echo $!; sleep 300"], 0.5, os.environ)
    assert ran.timed_out and not ran.ok
    assert time.monotonic() - start < 3
    assert not alive(int(ran.out))


def test_a_child_that_holds_the_pipe_does_not_hold_up():
    start = time.monotonic()
    ran = execute(["sh", "-c", "sleep 300 & echo $!"], 20, os.environ)
    assert ran.ok and time.monotonic() - start < 5
    assert not alive(int(ran.out)), "what an ended command left behind goes too"


def test_a_command_that_closes_its_output_and_goes_on_is_killed():
    ran = execute(["sh", "-c", "exec >&- 2>&-; sleep 300"], 0.5, os.environ)
    assert ran.timed_out and ran.seconds < 3


def test_a_command_that_ignores_signals_is_killed():
    ran = execute(["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"], 0.5, os.environ)
    assert ran.timed_out and ran.code == -signal.SIGKILL


def test_output_is_bounded():
    ran = execute([sys.executable, "-c", f"print('x' * {3 * OUTPUT_BYTES})"], 20, os.environ)
    assert ran.ok and OUTPUT_BYTES <= len(ran.out) <= OUTPUT_BYTES + 65536


def test_standard_input_is_empty_and_the_language_is_c():
    ran = execute(["sh", "-c", "cat; echo $LC_ALL $LANG"], 5, {**os.environ, "LANG": "zh_CN.UTF-8"})
    assert ran.ok and ran.out == "C C\n"


def test_an_unknown_command_is_none_and_is_not_an_error(tmp_path):
    assert Host().run(["torchvet-no-such-command"]) is None
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    ran = Host(env={"PATH": str(tmp_path)}).run(["broken"])
    assert ran is not None and not ran.ok and not ran.timed_out


def test_a_command_that_hung_is_not_started_again(tmp_path):
    script = tmp_path / "stuck"
    script.write_text(f"#!/bin/sh\necho x >> {tmp_path}/starts\nexec sleep 300\n")
    script.chmod(0o755)
    host = Host(env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    first = host.run(["stuck", "-a"], 1)
    second = host.run(["stuck", "-b"], 1)
    assert first.timed_out and second.timed_out
    assert (tmp_path / "starts").read_text() == "x\n"
    host.fresh()
    assert not host.hung


def test_the_same_command_runs_once(tmp_path):
    script = tmp_path / "count"
    script.write_text(f"#!/bin/sh\necho x >> {tmp_path}/starts\necho done\n")
    script.chmod(0o755)
    host = Host(env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert [host.run(["count"]).out for _ in range(3)] == ["done\n"] * 3
    assert (tmp_path / "starts").read_text() == "x\n"


def test_the_deadline_of_the_run_bounds_every_command():
    host = Host()
    host.deadline = time.monotonic() + 0.3
    start = time.monotonic()
    assert host.run(["sleep", "300"], 100).timed_out
    assert time.monotonic() - start < 2


# ---------------------------------------------------------------------------------------------------------------- files
def test_absent_denied_and_broken_files(tmp_path):
    host = Host(str(tmp_path))
    (tmp_path / "there").write_bytes(b"a\xff\n")
    (tmp_path / "folder").mkdir()
    os.symlink("loop", tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    assert host.read("/there") == "a\ufffd\n" and host.why("/there") == ""
    assert host.read("/absent") is None and host.why("/absent") == "absent"
    assert host.read("/folder") is None and host.why("/folder") == "error"
    assert host.read("/loop") is None and host.why("/loop") == "error"
    assert host.read("/pipe") == ""  # nobody writes: it does not wait
    assert host.list("/absent") == [] and host.link("/absent") is None and host.space("/absent") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_denied(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    assert Host(str(tmp_path)).why("/secret") == "denied"


def test_only_a_part_of_a_large_file_is_read(tmp_path):
    with open(tmp_path / "large", "wb") as f:
        f.truncate(1 << 33)
    assert len(Host(str(tmp_path)).read("/large")) == host_module.READ_BYTES


def test_the_temporary_file_of_a_trial_is_removed(tmp_path):
    host = Host()
    written = host.try_write(str(tmp_path), 1 << 20)
    assert written.error == "" and written.seconds > 0 and not written.timed_out
    assert os.listdir(tmp_path) == []
    assert "No such file" in host.try_write(str(tmp_path / "absent"), 1).error


class Slow(Host):
    """Says that one folder lies on a mount whose server is gone."""

    def mounts(self):
        return [Mount("/", "ext4", "disk", frozenset()), Mount(self.dead, "nfs4", "filer:/x", frozenset())]


def test_a_dead_mount_is_asked_once_and_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(host_module, "_STAT", "import time; time.sleep(300)")
    monkeypatch.setattr(host_module, "ANSWER", 0.5)
    host = Slow()
    host.dead = str(tmp_path)
    start = time.monotonic()
    assert host.space(str(tmp_path)) is None
    assert host.alive(str(tmp_path)) is False
    assert host.read(f"{tmp_path}/x") is None and host.list(str(tmp_path)) == [] and not host.exists(f"{tmp_path}/x")
    assert time.monotonic() - start < 3
    assert host.alive("/") is True


def test_a_link_to_a_server_is_followed_to_it(tmp_path):
    host = Slow()
    host.dead = str(tmp_path / "net")
    os.symlink(tmp_path / "net" / "data", tmp_path / "data")
    os.symlink("data", tmp_path / "again")
    assert host.may_hang(f"{tmp_path}/data/x") and host.may_hang(f"{tmp_path}/again")
    assert not host.may_hang(f"{tmp_path}/other")
    assert host.real(f"{tmp_path}/again/x") == f"{tmp_path}/net/data/x"
    assert host.real(f"{tmp_path}/again/../x") == f"{tmp_path}/net/x"  # above what the link leads to


def test_answers_over_a_server_are_those_of_the_disk(tmp_path):
    (tmp_path / "a").write_text("text")
    host = Slow()
    host.dead = str(tmp_path)
    assert host.read(f"{tmp_path}/a") == "text" and host.list(str(tmp_path)) == ["a"]
    assert host.why(f"{tmp_path}/b") == "absent"
    assert host.exists(f"{tmp_path}/a") and not host.exists(f"{tmp_path}/b")
    assert host.writable(str(tmp_path)) is True and host.writable(f"{tmp_path}/b") is None
    assert host.space(str(tmp_path)).size == Host().space(str(tmp_path)).size


def test_mounts_of_this_machine():
    host = Host()
    assert host.mount_of("/proc/self").kind == "proc"
    assert host.mount_of("/").place == "/"


def test_mountinfo_with_blanks_and_stacked_mounts():
    text = (
        "36 35 98:0 /mnt1 /with\\040blank rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n"
        "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=64k\n"
        "30 25 0:27 / /dev/shm ro - tmpfs second rw,size=8m\n"
        "nonsense\n1 2 3 - x\n"
    )
    rows = _mounts(text)
    assert [m.place for m in rows] == ["/with blank", "/dev/shm", "/dev/shm"]
    assert rows[0].part == "/mnt1" and rows[0].options == {"rw", "noatime", "errors=continue"}


@given(st.text(max_size=300))
def test_any_mountinfo_is_read(text):
    _mounts(text)


# --------------------------------------------------------------------------------------------------------------- limits
def test_limits_and_cpus():
    host = Host()
    soft, hard = host.limit("NOFILE")
    assert soft > 0 and (hard == -1 or hard >= soft)
    assert host.limit("NO_SUCH_LIMIT") is None
    assert host.cpus() == os.sched_getaffinity(0)


def test_names_and_connections():
    import socket

    host = Host()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert host.connect("127.0.0.1", port) == "" and host.listening(port) is True
    assert "refused" in host.connect("127.0.0.1", port)
    assert "127.0.0.1" in host.resolve("localhost") or "::1" in host.resolve("localhost")


def test_torch_of_the_active_environment_is_found(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "python3.12" / "site-packages"
    (package / "torch").mkdir(parents=True)
    (package / "nvidia_nccl_cu12-2.27.5.dist-info").mkdir()
    (package / "torch" / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
    )
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not os.path.exists(os.path.join(p, "torch"))])
    versions = Host(env={"VIRTUAL_ENV": str(tmp_path)}).versions()
    assert versions["torch"] == "2.9.1+cu128" and versions["torch_cuda"] == "12.8" and versions["nccl"] == "2.27.5"
    assert "torch_hip" not in versions
    assert "torch" not in Host(env={"VIRTUAL_ENV": "/nonexistent"}).versions()


def test_versions_do_not_import_torch():
    host = Host()
    versions = host.versions()
    assert versions["python"] == sys.version.split()[0] and versions["kernel"] == os.uname().release
    assert host.clock_synchronised() in (True, False)


# ------------------------------------------------------------------------------------------------------------ recording
def test_a_recorded_machine_gets_the_verdicts_of_the_real_one(tmp_path):
    recorder = Recorder()
    real = examine(recorder, Plan(workers=2, batch_bytes=1 << 20))
    recorder.save(str(tmp_path / "machine"))
    played = examine(Recorded(str(tmp_path / "machine")), Plan(workers=2, batch_bytes=1 << 20))
    assert {r.probe: r.verdict for r in played.results} == {r.probe: r.verdict for r in real.results}
    assert [str(r.message) for r in played.results] == [str(r.message) for r in real.results]


def test_secrets_are_not_recorded(tmp_path, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "MY_SETTING", "TORCH_TOKEN", "HF_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    recorder = Recorder()
    examine(recorder, Plan(), only=["omp-threads"])
    recorder.save(str(tmp_path / "machine"))
    for path in (tmp_path / "machine").rglob("*"):
        assert not path.is_file() or "hunter2" not in path.read_text()
    assert Recorded(str(tmp_path / "machine")).env["NCCL_DEBUG"] == "INFO"


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError):
        Recorder().save(str(tmp_path))


def test_recorded_commands(tmp_path):
    (tmp_path / "host.toml").write_text(
        '[commands."nvidia-smi -L"]\nout = "GPU 0"\n[commands."nvidia-smi --query-gpu=*"]\nhangs = true\n'
        '[commands."slow -x"]\nseconds = 30\n'
    )
    host = Recorded(str(tmp_path))
    assert host.run(["nvidia-smi", "-L"]).out == "GPU 0"
    assert host.run(["nvidia-smi", "topo", "-m"]).code != 0  # the command is there, this answer is not
    assert host.run(["ibstat"]) is None
    assert host.run(["nvidia-smi", "--query-gpu=index,name", "--format=csv"], 8).timed_out
    assert host.run(["slow", "-x"], 8).timed_out


@pytest.mark.parametrize("text", ["[[[", "\x00", "a = ", b"\xff\xfe".decode("latin1")])
def test_a_broken_record_is_a_mistake_of_the_user(tmp_path, text):
    (tmp_path / "host.toml").write_text(text)
    with pytest.raises(UserError):
        Recorded(str(tmp_path))


PLAIN = st.one_of(
    st.booleans(), st.integers(-(2**62), 2**62), st.text(max_size=20), st.lists(st.text(max_size=8), max_size=3),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
TABLES = st.dictionaries(
    st.sampled_from(["env", "limits", "commands"]),
    st.dictionaries(
        st.text(max_size=12), st.one_of(PLAIN, st.dictionaries(st.text(max_size=8), PLAIN, max_size=3)), max_size=4
    ),
    max_size=3,
)


@given(TABLES)
def test_toml_comes_back_as_it_was(tables):
    written = tomllib.loads(to_toml(tables))
    for name, table in tables.items():
        for key, value in table.items():
            key = key.encode("utf-8", "replace").decode()
            if isinstance(value, dict) and not value:
                continue
            assert key in written[name]
            if not isinstance(value, (dict, str, list)):
                assert written[name][key] == value
