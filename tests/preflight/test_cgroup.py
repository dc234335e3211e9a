"""Control groups: version 1, version 2, both; containers that see their group as the top; garbage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.preflight.cgroup import cgroups
from torchvet.preflight.host import Host

V2 = "31 23 0:28 {part} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 {part} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"


def machine(folder, mounts: str, own: str, files: dict[str, str]) -> Host:
    for path, text in {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": own, **files}.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Host(str(folder), env={})


def test_the_tightest_ancestor_counts_in_version_2(tmp_path):
    host = machine(tmp_path, V2.format(part="/"), "0::/a/b/c\n", {
        "/sys/fs/cgroup/a/cpu.max": "150000 100000", "/sys/fs/cgroup/a/b/cpu.max": "max 100000",
        "/sys/fs/cgroup/a/b/c/cpu.max": "800000 100000", "/sys/fs/cgroup/a/b/memory.max": "1000",
        "/sys/fs/cgroup/a/b/memory.current": "700", "/sys/fs/cgroup/a/b/memory.stat": "inactive_file 200\n",
        "/sys/fs/cgroup/a/b/c/memory.max": "max", "/sys/fs/cgroup/a/memory.high": "900",
        "/sys/fs/cgroup/a/b/c/pids.max": "50", "/sys/fs/cgroup/a/b/c/pids.current": "7",
    })  # fmt: skip
    groups = cgroups(host)
    assert groups.version == "v2" and groups.cpus() == 1.5
    assert groups.memory() == (900, None) and groups.pids() == (50, 7)


@pytest.mark.parametrize("own", ["0::/", "0::/../../docker/abc", "0::/docker/abc"])
def test_a_container_sees_its_group_as_the_top(tmp_path, own):
    part = "/docker/abc" if own == "0::/docker/abc" else "/"
    files = {"/sys/fs/cgroup/cpu.max": "200000 100000"}
    assert cgroups(machine(tmp_path, V2.format(part=part), own, files)).cpus() == 2


def test_version_1_in_a_container_without_its_own_namespace(tmp_path):
    mounts = "".join(V1.format(part="/docker/abc", name=n) for n in ("cpu", "memory"))
    host = machine(tmp_path, mounts, "5:memory:/docker/abc\n4:cpu:/docker/abc\n", {
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    })  # fmt: skip
    assert cgroups(host).cpus() == 2.5 and cgroups(host).memory() is None


def test_hybrid_reads_each_controller_where_it_is(tmp_path):
    mounts = V1.format(part="/", name="memory") + V2.format(part="/").replace(
        "/sys/fs/cgroup ", "/sys/fs/cgroup/unified "
    )
    host = machine(tmp_path, mounts, "3:memory:/job\n0::/job\n", {
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "5000", "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "10",
        "/sys/fs/cgroup/unified/cgroup.controllers": "cpu pids\n", "/sys/fs/cgroup/unified/job/cpu.max": "300000 100000",
    })  # fmt: skip
    groups = cgroups(host)
    assert groups.version == "hybrid" and groups.memory() == (5000, 10) and groups.cpus() == 3


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=60)
def test_garbage_limits_nothing_and_breaks_nothing(tmp_path_factory, text, own):
    folder = tmp_path_factory.mktemp("machine")
    text, own = text.replace("\x00", ""), own.encode("utf-8", "replace").decode()
    names = ("cpu.max", "memory.max", "memory.current", "memory.stat", "memory.events", "pids.max", "pids.current")
    host = machine(folder, V2.format(part="/"), own, {})
    for name in names:
        path = folder / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))
    groups = cgroups(host)
    for answer in (groups.cpus(), groups.memory(), groups.pids(), groups.oom_kills()):
        assert answer is None or answer


@pytest.mark.parametrize("text", ["max 100000", "-1", "", "0 100000", "100000 0", "x y", "100000"])
def test_odd_quotas(tmp_path, text):
    found = cgroups(machine(tmp_path, V2.format(part="/"), "0::/\n", {"/sys/fs/cgroup/cpu.max": text})).cpus()
    assert found == (1 if text == "100000" else None)
