"""Which container this is: signs as engines leave them, alone and mixed."""

from __future__ import annotations

import pytest

from torchvet.findings import Text
from torchvet.preflight.host import Host
from torchvet.preflight.surroundings import pick, surroundings

OVERLAY = "1 0 0:50 / / rw - overlay overlay rw,lowerdir={x}/l,upperdir={x}/u,workdir={x}/w\n"
DISK = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
BOUND = "2 1 8:1 {x} /etc/hosts rw - ext4 /dev/sda1 rw\n"
SHM = "3 1 0:60 / /dev/shm rw,noexec - tmpfs shm rw,size=65536k\n"
DOCKER = "/var/lib/docker/overlay2"
CONTAINERD = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/7"
HASH = "4be1c0ffee42" * 5


def machine(folder, mounts: str, own: str = "0::/\n", files=(), env=None) -> Host:
    for path, text in {"/proc/self/mountinfo": mounts, "/proc/self/cgroup": own, **dict.fromkeys(files, "")}.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return Host(str(folder), env=env or {})


CASES = {
    "docker": (OVERLAY.format(x=DOCKER), "0::/\n", ["/.dockerenv"], {}, "docker"),
    "docker on cgroup v1": (OVERLAY.format(x=DOCKER), f"4:memory:/docker/{HASH}\n", [], {}, "docker"),
    "docker with systemd": (DISK, f"0::/system.slice/docker-{HASH}.scope\n", [], {}, "docker"),
    "docker with the image store of containerd": (
        OVERLAY.format(x=CONTAINERD) + BOUND.format(x="/var/lib/docker/containers/4be1/hosts"), "0::/\n", ["/.dockerenv"], {}, "docker",
    ),
    "podman": (OVERLAY.format(x="/home/ada/.local/share/containers/storage/overlay"), "0::/\n", ["/run/.containerenv"], {"container": "podman"}, "podman"),
    "kubernetes": (OVERLAY.format(x=CONTAINERD), "0::/../..\n", ["/run/secrets/kubernetes.io/serviceaccount/token"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
    "kubernetes over docker": (
        OVERLAY.format(x=DOCKER) + BOUND.format(x="/var/lib/kubelet/pods/1f2e/etc-hosts") + SHM, "0::/\n", ["/.dockerenv"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes",
    ),
    "kubernetes without a service account": (OVERLAY.format(x=CONTAINERD), "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n", [], {}, "kubernetes"),
    "apptainer": (OVERLAY.format(x="/var/lib/apptainer/mnt/session"), "0::/user.slice\n", [], {"APPTAINER_NAME": "x.sif"}, "apptainer"),
    "singularity": (DISK, "0::/user.slice\n", ["/.singularity.d/env"], {"SINGULARITY_NAME": "x.sif"}, "apptainer"),
    "containerd alone": (OVERLAY.format(x=CONTAINERD) + SHM, "0::/\n", [], {}, "container"),
    "a bare machine": (DISK, "0::/user.slice/session-1.scope\n", [], {}, "bare"),
    "an image's file on a bare machine": (DISK, "0::/\n", ["/.dockerenv"], {}, "bare"),
    "a variable that was handed on": (DISK, "0::/\n", [], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "bare"),
    "a file named after a container": (DISK, "0::/\n", ["/run/.containerenv"], {}, "bare"),
    "a machine that boots from an overlay": (OVERLAY.format(x="/run/rootfsbase"), "0::/init.scope\n", [], {}, "bare"),
    "nothing known": ("", "", [], {}, "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kind(tmp_path, name):
    *given, kind = CASES[name]
    found = surroundings(machine(tmp_path, *given))
    assert found.container == kind, found.signs


@pytest.mark.parametrize(
    ("env", "launcher"),
    [
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "a"}, "slurm"),
        ({"SLURM_JOB_ID": "1"}, ""),
        ({"TORCHELASTIC_RUN_ID": "x"}, "torchrun"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpi"),
        ({}, ""),
    ],
)
def test_launcher(tmp_path, env, launcher):
    assert surroundings(machine(tmp_path, DISK, env=env)).launcher == launcher


def test_the_fix_is_for_this_place(tmp_path):
    words = {k: Text(k) for k in ("docker", "kubernetes", "slurm")}
    mounts, own, files, env, _ = CASES["kubernetes"]
    assert str(pick(machine(tmp_path / "k", mounts, own, files, env), Text("bare"), **words)) == "kubernetes"
    mounts, own, files, env, _ = CASES["podman"]
    assert str(pick(machine(tmp_path / "p", mounts, own, files, env), Text("bare"), **words)) == "docker"
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "a"}
    assert str(pick(machine(tmp_path / "s", DISK, env=slurm), Text("bare"), **words)) == "slurm"
    assert str(pick(machine(tmp_path / "b", DISK), Text("bare"), **words)) == "bare"


def test_a_private_shm_has_the_name_that_runc_gives_it(tmp_path):
    assert surroundings(machine(tmp_path / "a", OVERLAY.format(x=DOCKER) + SHM)).private_shm is True
    assert surroundings(machine(tmp_path / "b", DISK + SHM.replace("tmpfs shm", "tmpfs tmpfs"))).private_shm is False
