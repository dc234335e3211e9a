"""The whole run, as a process: its cost, its end under every hang, its exit codes and options."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchvet.preflight import node, probe
from torchvet.preflight.entrypoints import ENTRYPOINTS
from torchvet.preflight.host import Host
from torchvet.preflight.plan import Plan
from torchvet.preflight.probe import Probe

ROOT = Path(__file__).resolve().parents[2]
MACHINES = Path(__file__).parent / "machines"


def start(*words: str, **env: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "torchvet", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **env},
    )  # fmt: skip


def torchvet(*words: str, **env: str) -> tuple[int, str, str]:
    process = start(*words, **env)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def machine(name: str) -> str:
    return str(MACHINES / name)


# ----------------------------------------------------------------------------------------------------------------- cost
def test_a_run_without_gpu_is_cheap():
    torchvet("preflight")  # what is compiled once does not count
    best_wall, best_cpu = 99.0, 99.0
    for _ in range(3):  # the machine may be busy: the cheapest of three is what it costs
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        code, _, err = torchvet("preflight")
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert code in (0, 1) and not err
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best_wall, best_cpu = min(best_wall, wall), min(best_cpu, cpu)
    assert best_wall <= 1.5 and best_cpu <= 0.4, f"{best_wall:.2f} s wall, {best_cpu:.2f} s CPU"


def test_nothing_heavy_is_imported():
    code = (
        "import sys; from torchvet.cli import main; main(['preflight', '--output-format', 'text'])\n"
        "print('\\n', *sorted(sys.modules))"
    )
    r = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=60,
    )
    modules = set(r.stdout.splitlines()[-1].split())
    assert "torchvet.preflight.node" in modules
    assert not modules & {"torch", "numpy", "yaml", "argparse", "asyncio", "multiprocessing"}
    assert not {m for m in modules if m.startswith("torchvet.check")}


# ---------------------------------------------------------------------------------------------------------------- hangs
@pytest.mark.parametrize(
    "body", ["sleep 300", "sleep 300 & sleep 300", "trap '' TERM; while :; do sleep 1; done", "yes"]
)
def test_the_time_limit_is_kept_when_nvidia_smi_hangs(tmp_path, body):
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\n{body}\n")
    fake.chmod(0o755)
    began = time.monotonic()
    code, out, _ = torchvet(
        "preflight", "--timeout", "3", "--output-format", "json", PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    assert time.monotonic() - began < 6
    assert code in (0, 1) and json.loads(out)["schema"] == 1
    for pid in (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []:
        end = time.monotonic() + 2
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{pid}"), "the command outlives the run"


def only(monkeypatch, *probes: Probe) -> None:
    monkeypatch.setattr(node, "probe_names", lambda: [p.name for p in probes])
    monkeypatch.setattr(node, "load", {p.name: p for p in probes}.__getitem__)


def a_probe(name: str, function, seconds: float = 8) -> Probe:
    p = Probe(name=name, area="memory", summary=probe.Text("x", "某"), seconds=seconds)
    p.check(function)
    return p


def test_a_probe_that_hangs_is_unknown_and_the_others_answer(monkeypatch):
    from threading import Event

    hangs = a_probe("hangs", lambda host, plan: Event().wait(300), seconds=0.2)
    fine = a_probe("fine", lambda host, plan: fine.ok(1, 1, probe.Text("fine", "好")))
    only(monkeypatch, hangs, fine)
    began = time.monotonic()
    report = node.examine(Host(), Plan(), seconds=30)
    assert time.monotonic() - began < 5
    assert {r.probe: r.verdict for r in report.results} == {"hangs": "unknown", "fine": "pass"}


def test_the_whole_time_bounds_patient_probes(monkeypatch):
    from threading import Event

    only(monkeypatch, *(a_probe(f"slow-{i}", lambda host, plan: Event().wait(300), seconds=100) for i in range(20)))
    began = time.monotonic()
    report = node.examine(Host(), Plan(), seconds=1)
    assert time.monotonic() - began < 2 and report.count("unknown") == 20


def test_a_probe_that_crashes_is_unknown_with_its_place(monkeypatch):
    crashes = a_probe("crashes", lambda host, plan: 1 / 0)
    only(monkeypatch, crashes)
    report = node.examine(Host(), Plan())
    assert report.count("unknown") == 1
    assert "ZeroDivisionError" in str(report.results[0].message) and "test_run.py:" in str(report.results[0].message)


LIBRARY = "/x/_ctypes.so: failed to map segment from shared object"


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory"), ImportError(LIBRARY)])
def test_a_probe_that_got_no_memory_beside_the_others_is_run_again_alone(monkeypatch, error):
    from threading import enumerate as alive

    beside: list[set[str]] = []

    def starved(host, plan):
        beside.append({t.name for t in alive()})
        if len(beside) == 1:
            time.sleep(0.2)
            raise error
        return needy.ok(1, 1, probe.Text("fine", "好"))

    needy = a_probe("needy", starved)
    other = a_probe("other", lambda host, plan: time.sleep(0.3))
    only(monkeypatch, other, needy)
    assert {r.probe: r.verdict for r in node.examine(Host(), Plan()).results} == {"needy": "pass"}
    assert "other" in beside[0] and "other" not in beside[1]


def test_a_probe_that_never_gets_its_memory_is_unknown(monkeypatch):
    def starved(host, plan):
        raise MemoryError

    only(monkeypatch, a_probe("needy", starved))
    (result,) = node.examine(Host(), Plan()).results
    assert result.verdict == "unknown" and str(result.message) == "too little memory to find it out"


def test_no_answer_means_that_it_does_not_apply(monkeypatch):
    only(monkeypatch, a_probe("none", lambda host, plan: None), a_probe("empty", lambda host, plan: []))
    report = node.examine(Host(), Plan())
    assert report.results == [] and report.counts["not_applicable"] == 2


# ----------------------------------------------------------------------------------------------------------- exit codes
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--host", machine("bare-workstation")), 0),
        (("--host", machine("docker-64mb-plan-unknown"), "--only", "shm-size"), 1),
        (("--host", machine("docker-64mb-plan-unknown"), "--skip", "memory,gpu,nccl,versions"), 0),
        (("--host", machine("docker-64mb-no-gpu"), "--only", "shm-size"), 0),
        (("--host", machine("docker-64mb-no-gpu"), "--only", "shm-size", "--fail-on", "warn"), 1),
        (("--host", "/no/such/folder"), 2),
        (("--batch-bytes", "many"), 2),
        (("--only", "shm-sise"), 2),
        (("--timeout", "0"), 2),
        (("--watch", "0"), 2),
        (("--output", "/no/such/folder/x.json"), 2),
        (("--output", "sarif=x"), 2),
        (("--project", "/no/such/folder"), 2),
        (("--project", ".", "--workers", "3"), 2),
        (("somewhere",), 2),
    ],
)
def test_exit_codes(words, code):
    found, out, err = torchvet("preflight", *words)
    assert found == code, out + err
    if code == 2:
        assert err.startswith("torchvet: ") and err.count("\n") == 1 and not out


def test_formats_and_files(tmp_path):
    words = ["--host", machine("login-node"), "--only", "limits,cpu"]
    out = tmp_path / "node.json"
    code, text, _ = torchvet(
        "preflight",
        *words,
        "--output",
        f"json={out}",
        "--output",
        f"prometheus={tmp_path}/node.prom",
        "--output",
        f"junit={tmp_path}/node.xml",
    )
    assert code == 1 and text.startswith("login-node · no container")
    assert json.loads(out.read_text())["node"]["hostname"] == "login-node"
    assert (tmp_path / "node.prom").read_text().startswith("# HELP torchvet_preflight_verdict")
    assert (tmp_path / "node.xml").read_text().startswith("<?xml")
    code, text, _ = torchvet("preflight", *words, "--output", str(tmp_path / "b.xml"))
    assert code == 1 and text == "" and (tmp_path / "b.xml").read_text().startswith("<?xml")


def test_chinese():
    _, out, _ = torchvet("preflight", "--host", machine("docker-64mb-8-gpus"), "--lang", "zh")
    assert "失败  shm-size" in out and "不要启动此作业" in out


def test_probes_are_listed_and_explained():
    _, out, _ = torchvet("preflight", "--list")
    names = [line.split()[1] for line in out.splitlines()]
    assert sorted(names) == probe.probe_names()
    _, rows, _ = torchvet("preflight", "--list", "--output-format", "json")
    assert len(json.loads(rows)) == len(names)
    code, page, _ = torchvet("explain", "shm-size")
    assert code == 0 and page.startswith("# shm-size")
    assert json.loads(torchvet("explain", "shm-size", "--output-format", "json")[1])["area"] == "memory"
    code, _, err = torchvet("explain", "shm-sizes")
    assert code == 2 and "shm-size" in err


def test_recording_and_judging(tmp_path):
    folder = str(tmp_path / "machine")
    assert torchvet("preflight", "--record", folder)[0] in (0, 1)
    code, out, _ = torchvet("preflight", "--host", folder, "--output-format", "json")
    assert code in (0, 1) and len(json.loads(out)["results"]) > 20


def test_the_plan_comes_from_the_code(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.zeros(100000, 3, 224, 224), torch.zeros(100000))\n"
        "loader = DataLoader(data, batch_size=64, num_workers=4)\n"
        "for x, y in loader:\n    pass\n"
    )
    _, out, _ = torchvet(
        "preflight", "--project", str(tmp_path), "--host", machine("docker-64mb-8-gpus"), "--lang", "en"
    )
    assert "8 ranks × (4 workers × 2 + 2) batches" in " ".join(out.split()) and "train.py:4" in out


# ---------------------------------------------------------------------------------------------------------------- watch
def test_watch_rewrites_its_file_and_ends_with_the_verdict(tmp_path):
    out = tmp_path / "node.prom"
    process = start(
        "preflight",
        "--host",
        machine("login-node"),
        "--only",
        "limits",
        "--watch",
        "1",
        "--output",
        f"prometheus={out}",
    )
    try:
        end = time.monotonic() + 30
        while not out.exists() and time.monotonic() < end:
            time.sleep(0.02)
        first = out.read_text()
        while out.read_text() == first and time.monotonic() < end:
            time.sleep(0.02)
        assert out.read_text() != first, "the file was not written again"
        process.send_signal(signal.SIGTERM)
        text, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 1 and "Traceback" not in err
    assert text.startswith("login-node")


# --------------------------------------------------------------------------------------------------------- entry points
@pytest.mark.parametrize("kind", ["docker", "slurm"])
def test_shell_entry_points_are_shell(kind):
    r = subprocess.run(["sh", "-n"], input=ENTRYPOINTS[kind], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert torchvet("preflight", "--print-entrypoint", kind)[1] == ENTRYPOINTS[kind]


@pytest.mark.parametrize("kind", ["kubernetes", "github"])
def test_yaml_entry_points_are_yaml(kind):
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(ENTRYPOINTS[kind])
    if kind == "kubernetes":
        init, train = read["spec"]["initContainers"][0], read["spec"]["containers"][0]
        assert init["volumeMounts"] == train["volumeMounts"] and init["resources"] == train["resources"]
    else:
        assert "torchvet preflight" in read[0]["run"]


@pytest.mark.parametrize("kind", ENTRYPOINTS)
def test_entry_points_wait_for_no_other_rank(kind):
    """They run in every container before the launcher: other ranks may not be there yet."""
    calls = [x for x in ENTRYPOINTS[kind].splitlines() if "preflight" in x and "timeout" in x and not x.startswith("#")]
    assert calls and all("--this-node" in x for x in calls)


@pytest.mark.parametrize(("verdict", "started"), [(0, True), (1, False)])
def test_the_docker_entry_point_starts_only_what_can_run(tmp_path, verdict, started):
    (tmp_path / "torchvet").write_text(f"#!/bin/sh\nexit {verdict}\n")
    (tmp_path / "torchvet").chmod(0o755)
    (tmp_path / "entry").write_text(ENTRYPOINTS["docker"])
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    r = subprocess.run(["sh", str(tmp_path / "entry"), "echo", "a job"], capture_output=True, text=True, env=env)
    assert r.returncode == verdict and (r.stdout == "a job\n") == started
    skipped = subprocess.run(
        ["sh", str(tmp_path / "entry"), "echo", "a job"],
        capture_output=True,
        text=True,
        env={**env, "TORCHVET_PREFLIGHT": "off"},
    )
    assert skipped.stdout == "a job\n"


def test_a_probe_that_is_stuck_is_not_started_again(monkeypatch):
    from threading import Event

    started = []
    stuck = a_probe("stuck", lambda host, plan: (started.append(1), Event().wait(300))[1], seconds=0.1)
    only(monkeypatch, stuck)
    host = Host()
    for _ in range(3):
        host.fresh()
        assert node.examine(host, Plan(), seconds=2).count("unknown") == 1
    assert started == [1]


def test_reading_the_code_does_not_take_all_the_time(tmp_path, monkeypatch):
    from torchvet.cli import project_plan

    monkeypatch.setattr(project_plan, "_ask", lambda folder: time.sleep(300))
    began = time.monotonic()
    assert project_plan.loaders_of(str(tmp_path), 0.3) is None
    assert time.monotonic() - began < 3
    monkeypatch.setattr(project_plan, "_ask", lambda folder: 1 / 0)
    assert project_plan.loaders_of(str(tmp_path), 30) is None


def test_where_no_thread_can_be_started_the_probes_run_all_the_same(monkeypatch):
    import threading

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    report = node.examine(Host(), Plan(), only=["limits", "memory"])
    assert report.count("pass") > 5 and report.node["hostname"]


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_leaves_no_command_behind(tmp_path, sign):
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 300\n")
    fake.chmod(0o755)
    process = start("preflight", "--timeout", "60", "--only", "gpu-driver", PATH=f"{tmp_path}:{os.environ['PATH']}")
    try:
        end = time.monotonic() + 30
        while not (tmp_path / "pids").exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(sign)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 128 + sign and "Traceback" not in err and not out
    for pid in (tmp_path / "pids").read_text().split():
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{pid}")
