"""Ends as MPI, Ray, PBS and NVIDIA's driver tell them, and logs of JSON lines: the cause and the ranks."""

from __future__ import annotations

import json

import pytest
from written import Cases, Job

from torchvet.diagnose.engine import diagnose

MAIN = ("/workspace/proj/train.py", 61, "main")
case = Cases()


def hydra(*rows: tuple[int | None, str]) -> str:
    """Blocks of mpiexec, one for each rank that it names."""
    bar = "=" * 83
    out = []
    for number, (rank, end) in enumerate(rows):
        who = f"RANK {rank} " if rank is not None else ""
        out.append(
            f"{bar}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   {who}PID {3100 + number} RUNNING AT node-b\n=   {end}\n{bar}\n"
        )
    return "".join(out)


def merged(first: int, last: int, world: int = 4) -> str:
    return "".join(f"[{r}] step {s} loss {2.5 - s * 1e-3:.4f}\n" for s in range(first, last) for r in range(world))


@case("rank-absent", "unknown", ranks=(2,))
def hydra_names_the_killed_rank(job: Job):
    job.write(
        "mpi.log", merged(0, 12) + hydra((2, "KILLED BY SIGNAL: 9 (Killed)"), (3, "KILLED BY SIGNAL: 15 (Terminated)"))
    )


@case("native-crash", ranks=(1,), sub="segmentation fault")
def hydra_kills_the_others(job: Job):
    rows = (
        (0, "KILLED BY SIGNAL: 9 (Killed)"),
        (1, "KILLED BY SIGNAL: 11 (Segmentation fault)"),
        (2, "KILLED BY SIGNAL: 9 (Killed)"),
    )
    job.write("mpi.log", merged(0, 12) + hydra(*rows))


@case("unknown")
def hydra_lists_everyone_as_killed(job: Job):
    job.write("mpi.log", merged(0, 12) + hydra(*((r, "KILLED BY SIGNAL: 9 (Killed)") for r in range(4))))


@case("native-crash", sub="segmentation fault")
def mpich_names_no_rank(job: Job):
    text = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n"
    job.write("mpi.log", "step 0 loss 2.1\nstep 1 loss 2.0\n\n" + hydra((None, "EXIT CODE: 139")) + text)


mpich_names_no_rank.world = 0
hydra_lists_everyone_as_killed.world = hydra_kills_the_others.world = hydra_names_the_killed_rank.world = 0


@case("unknown", ranks=(3,))
def ray_lost_an_actor(job: Job):
    text = "(TorchTrainer pid=600) Started distributed worker processes: \n" + "".join(
        f"(TorchTrainer pid=600) - (node_id=ab{r}, ip=10.0.0.{r}, pid={700 + r}) world_rank={r}, local_rank=0, node_rank={r}\n"
        for r in range(4)
    )
    text += "".join(
        f"(RayTrainWorker pid={700 + r}, ip=10.0.0.{r}) step {s} loss 2.1\n" for s in range(5) for r in range(4)
    )
    text += (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: RayTrainWorker\n\tactor_id: aa03ff\n\tpid: 703\n\tnamespace: 41bb\n\tip: 10.0.0.3\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
        "unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process "
        "is killed by SIGKILL by OOM killer due to high memory usage.\n"
    )
    job.write("driver.log", text)


ray_lost_an_actor.world = 0


def pbs(status: int, used: str, limit: str = "24:00:00", mem: str = "8812kb") -> str:
    return (
        f"Job Id: 8812.head\n    Job_Name = train\n    resources_used.mem = {mem}\n    resources_used.walltime = {used}\n"
        f"    job_state = F\n    Resource_List.mem = 64gb\n    Resource_List.walltime = {limit}\n    Exit_status = {status}\n"
    )


@case("scheduler-action", sub="time limit")
def pbs_walltime_by_use(job: Job):
    job.steps(0, 30).write("qstat.txt", pbs(271, "24:00:14"))


@case("scheduler-action", sub="time limit")
def pbs_walltime_by_status(job: Job):
    job.steps(0, 30).write("qstat.txt", pbs(-29, "23:59:59"))


@case("host-oom", ranks=(0,))
def pbs_memory_by_status(job: Job):
    job.write("train.o8812", "step 0 loss 2.1\nstep 1 loss 2.0\n").write(
        "qstat.txt", pbs(-27, "01:00:00", mem="67112012kb")
    )


@case("scheduler-action", sub="cancelled")
def pbs_deleted(job: Job):
    job.steps(0, 30).write("qstat.txt", pbs(271, "03:11:00"))


@case()
def pbs_ended_well(job: Job):
    job.steps(0, 30).write("qstat.txt", pbs(0, "03:11:00"))


pbs_memory_by_status.world = 0


def xid(device: str, number: int, rest: str, pid: str = "'<unknown>', name=<unknown>") -> str:
    return f"[Tue Mar  4 11:20:01 2025] NVRM: Xid (PCI:{device}): {number}, pid={pid}, {rest}\n"


@case("device-stuck", ranks=(2,), sub="Xid 48")
def double_bit_error_and_its_containment(job: Job):
    text = xid("0000:53:00", 48, "DBE (double bit error) ECC Error") + xid(
        "0000:53:00", 94, "Contained: SM (0x1)", "4102, name=python"
    )
    job.steps(0, 20).write("kernel.log", text).closed(2, -6)


@case("device-stuck", ranks=(1,), sub="Xid 74")
def the_only_device_and_the_only_rank(job: Job):
    job.steps(0, 20).raised(1, "RuntimeError: CUDA error: unspecified launch failure", MAIN).closed(1)
    job.write("kernel.log", xid("0000:43:00", 74, "NVLink: fatal error detected on link 6"))


@case("rank-absent", ranks=(3,))
def json_lines_with_ranks(job: Job):
    rows = [{"level": "INFO", "rank": r, "msg": f"step {s} loss 2.1"} for s in range(6) for r in range(4)]
    stack = 'Traceback (most recent call last):\n  File "/workspace/proj/train.py", line 61, in main\n    y = labels[i]\nIndexError: index 9 is out of bounds'
    rows.append({"level": "ERROR", "rank": 3, "msg": "training failed", "exc_info": stack})
    job.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


json_lines_with_ranks.world = 0


@case("fabric", ranks=(1,))
def queue_pair_not_set_up(job: Job):
    job.out(
        1,
        "node-b:4101:4200 [1] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out (110)\n",
    )
    job.raised(1, "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled "
               "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5\nncclSystemError: System call (e.g. socket, "
               "malloc) or external library call failed or device error.", MAIN).closed(1)  # fmt: skip


@case("host-stall", ranks=(2,))
def store_barrier_counts_the_ranks(job: Job):
    for r in (0, 1, 3):
        job.raised(r, f"RuntimeError: Timed out initializing process group in store based barrier on rank: {r}, for key: "
                   "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)", MAIN)  # fmt: skip
    job.out(2, "downloading the dataset: 18%\n").ended({0: 1, 1: 1, 2: -15, 3: 1}, 1)


@case("gpu-oom", ranks=(1,))
def caught_on_the_rank_that_stays_away(job: Job):
    job.steps(300, 349).out(1, "batch 350: skipped\n")
    job.err(1, "WARNING: no memory for batch 350: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 1 has a total capacity of 79.25 GiB "
            "of which 4.10 GiB is free. Including non-PyTorch memory, this process has 75.14 GiB memory in use. Of the allocated memory "
            "70.31 GiB is allocated by PyTorch, and 3.80 GiB is reserved by PyTorch but unallocated.\n")  # fmt: skip
    for r in (0, 2, 3):
        job.watchdog(r, 7012)
    job.ended({0: -6, 1: -15, 2: -6, 3: -6}, 0)


@case("host-stall", ranks=(2,))
def a_watchdog_aborts_and_the_dump_of_the_stacks_faults(job: Job):
    job.steps(300, 349)
    for r in (0, 1, 3):
        job.watchdog(r, 7012)
    job.err(1, "Fatal Python error: Aborted\n\nThread 0x00007f3a10ffd640 (most recent call first):\n"
            '  File "/opt/venv/lib/python3.11/threading.py", line 331 in wait\nFatal Python error: Segmentation fault\n\n')  # fmt: skip
    job.ended({0: -6, 1: -11, 2: -15, 3: -6}, 1)


@pytest.mark.parametrize("name", case)
def test_end(name, tmp_path):
    case.judge(name, tmp_path)


def test_one_gpu_is_said_once(tmp_path):
    double_bit_error_and_its_containment(Job(tmp_path, 4))
    (only,) = diagnose([str(tmp_path)]).verdicts
    assert len([link for link in only.supports if link.fact is not None and link.fact.kind == "xid"]) == 2
