"""Failures as other versions, schedulers and tools word them: the cause and the ranks, or silence."""

from __future__ import annotations

import pytest
from written import Cases, Job

from torchvet.diagnose.engine import diagnose

MAIN = ("/workspace/proj/train.py", 61, "main")
STEP = ("/workspace/proj/step.py", 17, "step")
case = Cases()


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {request}. GPU {gpu} has a total capacity of {cap} of which {free} is free. {others}Including non-PyTorch memory, this process has {proc} memory in use. Of the allocated memory {alloc} is allocated by PyTorch, and {resv} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."


def oom(
    request="512.00 MiB",
    gpu=0,
    cap="79.25 GiB",
    free="101.00 MiB",
    others="",
    proc="79.10 GiB",
    alloc="77.90 GiB",
    resv="640.00 MiB",
):
    return OOM.format(request=request, gpu=gpu, cap=cap, free=free, others=others, proc=proc, alloc=alloc, resv=resv)


@case("gpu-oom", ranks=(1,), sub="fragmentation")
def fragments(job: Job):
    job.steps(900, 940).raised(
        1, oom("2.00 GiB", 1, free="1.12 GiB", proc="78.01 GiB", alloc="55.20 GiB", resv="21.90 GiB"), MAIN, STEP
    ).closed(1)


@case("gpu-oom", ranks=(0,), sub="fragmentation")
def fragments_torch_1_12(job: Job):
    job.steps(0, 12).raised(
        0,
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.78 GiB total capacity; 9.20 GiB already allocated; 201.75 MiB free; 14.02 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
        MAIN,
        prefix=False,
    ).closed(0, old=True)


@case("gpu-oom", ranks=(2,), sub="full")
def batch_too_large(job: Job):
    job.out(2, "batch size 96\n").raised(2, oom(gpu=2), MAIN, STEP).closed(2)


@case("gpu-oom", ranks=(0, 1, 2, 3), sub="full")
def all_ranks_full(job: Job):
    for r in range(4):
        job.raised(r, oom(gpu=r), MAIN, STEP)
    job.ended(dict.fromkeys(range(4), 1), 3)


@case("gpu-oom", ranks=(3,), sub="other-process")
def other_process_torch_2_1(job: Job):
    job.raised(
        3,
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 3 has a total capacty of 39.39 GiB of which 1.10 GiB is free. Process 991 has 21.30 GiB memory in use. Process 12088 has 16.90 GiB memory in use. Of the allocated memory 15.90 GiB is allocated by PyTorch, and 310.20 MiB is reserved by PyTorch but unallocated.",
        MAIN,
    ).closed(3)


@case("gpu-oom", ranks=(1,), sub="leak")
def leak_on_one_rank(job: Job):
    for r in range(4):
        job.out(
            r,
            "".join(
                f"iter {i} | loss 2.1 | max_memory_allocated {20.0 + (i * 0.05 if r == 1 else 0):.2f} GB\n"
                for i in range(0, 1000, 10)
            ),
        )
    job.raised(1, oom(gpu=1), MAIN).closed(1)


KERNEL_HOST = """[Tue Mar  4 11:20:01 2025] python invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
[Tue Mar  4 11:20:01 2025] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice/user-1000.slice,task=python,pid={pid},uid=1000
[Tue Mar  4 11:20:01 2025] Out of memory: Killed process {pid} (python) total-vm:412345678kB, anon-rss:251658240kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:500000kB oom_score_adj:0
"""


@case("host-oom", ranks=(2,), sub="host")
def host_memory(job: Job):
    job.steps(0, 30).closed(2, -9).write("dmesg.txt", KERNEL_HOST.format(pid=4102))


@case("host-oom", ranks=(3,), sub="host")
def worker_killed_by_the_host(job: Job):
    job.steps(0, 30).raised(
        3, "RuntimeError: DataLoader worker (pid 12847) is killed by signal: Killed. ", MAIN
    ).closed(3)
    job.write(
        "kern.log",
        "Mar  4 11:20:01 node-a kernel: [812345.112233] Out of memory: Killed process 12847 (pt_data_worker) total-vm:9123456kB, anon-rss:8123456kB, file-rss:0kB, shmem-rss:4kB, UID:0 pgtables:1kB oom_score_adj:0\n",
    )


@case("host-oom", ranks=(1,), sub="cgroup")
def slurm_memory(job: Job):
    job.steps(0, 8).closed(1, -9)
    job.write(
        "slurm-77120.out",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77120.0. Some of the step tasks have been OOM Killed.\nsrun: error: node-a: task 0: Out Of Memory\n",
    )
    job.write(
        "sacct.txt",
        "JobID        JobName    State      ExitCode  Elapsed    MaxRSS     ReqMem\n------------ ---------- ---------- -------- ---------- ---------- ----------\n77120        train      OUT_OF_ME+    0:125   01:12:10                    256G\n77120.batch  batch      OUT_OF_ME+    0:125   01:12:10  262144000K\n",
    )


@case("host-oom", ranks=(0,))
def bad_alloc(job: Job):
    job.steps(0, 3).err(
        0, "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    ).closed(0, -6)


@case("host-oom", ranks=(2,))
def numpy_memory(job: Job):
    job.steps(0, 3).raised(
        2,
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 96.0 GiB for an array with shape (12884901888,) and data type float64",
        MAIN,
    ).closed(2)


@case("rank-absent", "unknown", ranks=(1,))
def killed_by_nobody_known(job: Job):
    job.steps(0, 50).closed(1, -9)


@case("scheduler-action", sub="preemption")
def preempted(job: Job):
    job.steps(0, 50)
    job.write(
        "slurm-991.out",
        "slurmstepd: error: *** JOB 991 ON node-a CANCELLED AT 2025-03-04T11:20:05 DUE TO PREEMPTION ***\n",
    )
    job.write(
        "sacct.txt",
        "JobID|State|ExitCode|Elapsed|NodeList\n991|PREEMPTED|0:0|03:00:01|node-a\n991.batch|CANCELLED|0:15|03:00:02|node-a\n",
    )


@case("scheduler-action", sub="node failure")
def node_failed(job: Job):
    job.steps(0, 50, [0, 1])
    for r in (0, 1):
        job.watchdog(r, 812)
    job.write(
        "slurm-992.out",
        "srun: error: Node failure on node-c\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\nslurmstepd: error: *** STEP 992.0 ON node-a CANCELLED AT 2025-03-04T11:20:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
    )
    job.write(
        "sacct.txt",
        "JobID           State      ExitCode   Elapsed    Timelimit NodeList\n992             NODE_FAIL       1:0  03:00:24   12:00:00   node-[a-d]\n",
    )


@case("scheduler-action", sub="cancelled")
def cancelled_by_a_user(job: Job):
    job.steps(0, 50)
    job.write("slurm-993.out", "slurmstepd: error: *** JOB 993 ON node-a CANCELLED AT 2025-03-04T11:20:05 ***\n")
    job.write(
        "sacct.txt",
        "JobID           State               ExitCode   Elapsed\n993             CANCELLED by 1001        0:0  03:00:24\n",
    )


@case("scheduler-action", sub="eviction")
def evicted(job: Job):
    job.steps(0, 50)
    job.write(
        "pod.txt",
        "Name:             train-worker-1\nNamespace:        ml\nNode:             gpu-7/10.0.0.7\nStatus:           Failed\nReason:           Evicted\nMessage:          The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 2Gi.\nContainers:\n  trainer:\n    State:          Terminated\n      Reason:       ContainerStatusUnknown\n      Exit Code:    137\n",
    )


@case("scheduler-action", sub="time limit")
def lsf_limit(job: Job):
    job.steps(0, 50).write(
        "job.out", "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.\n"
    )


@case("numeric-failure", "rank-absent", ranks=(2,))
def nan_raised_on_one_rank(job: Job):
    job.steps(0, 311).out(2, "step 312 loss nan\n").raised(2, "ValueError: loss is nan at step 312", MAIN, STEP).closed(
        2
    )
    job.lost(0)


@case("numeric-failure", ranks=(0, 1, 2, 3))
def nan_everywhere_and_exit(job: Job):
    for r in range(4):
        job.out(r, "Epoch: [3]  [ 120/5004]  lr: 0.000100  loss: nan (nan)\nLoss is nan, stopping training\n")
    job.ended(dict.fromkeys(range(4), 1), 1)


@case("numeric-failure", ranks=(1,))
def anomaly_mode(job: Job):
    job.steps(0, 40).raised(
        1, "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", MAIN
    ).closed(1)


@case("native-crash", ranks=(1,), sub="segmentation fault")
def segfault(job: Job):
    job.steps(0, 20).closed(1, -11)
    job.err(
        1,
        'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2e44000000 (most recent call first):\n  File "/workspace/proj/ops/pack.py", line 33 in pack\n  File "/workspace/proj/train.py", line 61 in main\n\nExtension modules: numpy.core._multiarray_umath, torch._C (total: 2)\n',
    )


@case("native-crash", ranks=(3,), sub="segmentation fault")
def segfault_in_the_kernel_log(job: Job):
    job.steps(0, 20).closed(3, -11).write(
        "dmesg.txt",
        "[ 8812.551201] python[4103]: segfault at 10 ip 00007f3a1c0de5b2 sp 00007ffd3e0 error 4 in libfastjpeg.so.2[7f3a1c0d0000+40000]\n[ 8812.551230] Code: 48 8b\n",
    )


@case("native-crash", ranks=(0,), sub="abort")
def heap(job: Job):
    job.steps(0, 20).err(0, "free(): invalid pointer\n").closed(0, -6)


@case("native-crash", ranks=(2,), sub="device assertion")
def index_out_of_bounds(job: Job):
    job.steps(0, 20).err(
        2,
        "../aten/src/ATen/native/cuda/Indexing.cu:1255: indexSelectSmallIndex: block: [0,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        * 6,
    )
    job.raised(
        2,
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        MAIN,
        STEP,
    ).closed(2)


@case("host-stall", ranks=(2,))
def gil_held(job: Job):
    job.steps(0, 20).out(2, "building the vocabulary\n")
    job.err(
        2,
        "[rank2]:[E304 11:12:04.003140127 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 2] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=0\n[rank2]:[E304 11:20:04.003140127 ProcessGroupNCCL.cpp:1343] Could not acquire GIL within 300 ms on exit, possible GIL induced hang\n[rank2]:[F304 11:20:04.013140127 ProcessGroupNCCL.cpp:1300] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n",
    )
    job.closed(2, -6)


@case("host-stall", "rank-absent", ranks=(1,))
def one_rank_stays_away_torch_1_13(job: Job):
    job.steps(0, 20).out(1, "evaluating on 50000 images\n")
    for r in (0, 2, 3):
        job.watchdog(r, 4711, style="1.13")
    job.ended({0: -6, 1: -15, 2: -6, 3: -6}, 0, old=True)


@case("host-stall", "rank-absent", ranks=(0,))
def one_rank_stays_away_torch_1_10(job: Job):
    job.steps(0, 20).out(0, "saving checkpoint to /data/ckpt_20.pt\n")
    for r in (1, 2, 3):
        job.watchdog(r, 1, "BROADCAST", style="1.10")
    job.ended({0: -15, 1: -6, 2: -6, 3: -6}, 2, old=True)


@case("host-stall", "rank-absent", ranks=(3,))
def one_rank_stays_away_torch_2_7(job: Job):
    job.steps(0, 20).out(3, "decoding shard 17\n")
    for r in (0, 1, 2):
        job.watchdog(r, 92)
    job.ended({0: -6, 1: -6, 2: -6, 3: -15}, 2)


@case("configuration", ranks=(0, 1, 2, 3), sub="network interface")
def wrong_nccl_interface(job: Job):
    for r in range(4):
        job.out(r, f"node-a:410{r}:410{r} [{r}] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n")
        job.raised(
            r,
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:317, internal error - please report this issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found",
            MAIN,
        )
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("configuration", ranks=(0, 1, 2, 3), sub="network interface")
def wrong_gloo_interface(job: Job):
    for r in range(4):
        job.raised(
            r,
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: eth9",
            MAIN,
        )
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("configuration", ranks=(3,), sub="device ordinal")
def one_rank_too_many(job: Job):
    job.raised(
        3,
        "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported at some other API call",
        MAIN,
    ).closed(3)


@case("configuration", ranks=(0, 1), sub="one GPU for several ranks")
def same_gpu(job: Job):
    for r in (0, 1):
        job.out(
            r,
            f"node-a:410{r}:410{r} [0] init.cc:899 NCCL WARN Duplicate GPU detected : rank {r} and rank {1 - r} both on CUDA device 81000\n",
        )
        job.raised(
            r,
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.26.2\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 0 and rank 1 both on CUDA device 81000",
            MAIN,
        )
    job.ended({0: 1, 1: 1, 2: -15, 3: -15}, 0)


@case("configuration", ranks=(0, 1, 2, 3), sub="no kernel image")
def built_for_another_gpu(job: Job):
    for r in range(4):
        job.raised(r, "RuntimeError: CUDA error: no kernel image is available for execution on the device", MAIN)
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("configuration", ranks=(1,), sub="ddp-models-differ")
def other_model(job: Job):
    for r in range(4):
        job.raised(
            r,
            "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 160 params, while rank 0 has inconsistent 158 params.",
            MAIN,
        )
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("shm-exhausted", ranks=(2,))
def nccl_shared_memory(job: Job):
    job.out(
        2,
        "node-a:4102:4102 [2] include/shm.h:42 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Qa1b2C (size 9637888)\n",
    )
    job.raised(
        2,
        "RuntimeError: NCCL error in: /opt/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, unhandled system error, NCCL version 2.14.3",
        MAIN,
    ).closed(2)


@case("shm-exhausted", ranks=(0,))
def shared_memory_torch_2_4(job: Job):
    job.steps(0, 5).raised(0, "RuntimeError: Caught RuntimeError in DataLoader worker process 3.\nOriginal Traceback (most recent call last):\n"
                           '  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 309, in _worker_loop\n    data = fetcher.fetch(index)\n'
                           "RuntimeError: unable to write to file </torch_812_1234567_9>: No space left on device (28)", MAIN).closed(0)  # fmt: skip


@case("fd-exhausted", ranks=(1,))
def descriptors_ancdata(job: Job):
    job.steps(0, 5).raised(1, "RuntimeError: received 0 items of ancdata", MAIN).closed(1)


@case("fd-exhausted", ranks=(0,))
def descriptors_emfile(job: Job):
    job.steps(0, 500).raised(
        0, "OSError: [Errno 24] Too many open files: '/data/part-0007.parquet'", MAIN, STEP
    ).closed(0)


@case("fd-exhausted", ranks=(3,))
def descriptors_of_tensors(job: Job):
    job.steps(0, 500).raised(
        3,
        "RuntimeError: unable to open shared memory object </torch_771_3311_1022> in read-write mode: Too many open files (24)",
        MAIN,
        STEP,
    ).closed(3)


@case("rank-absent", "configuration", ranks=(0,))
def quota(job: Job):
    job.steps(0, 5).raised(0, "OSError: [Errno 122] Disk quota exceeded: '/data/ckpt/last.pt'", MAIN).closed(0)


@case("fabric", ranks=(1, 5))
def retries_ran_out(job: Job):
    job.steps(0, 5)
    for r, peer in ((1, 7), (5, 3)):
        job.out(
            r,
            f"node-a:41{r}:99 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.{peer}<41000> with error 12, opcode 0, len 0, vendor err 129 (Send)\n",
        )
        job.err(
            r,
            f"[rank{r}]:[E304 11:20:04.0{r}3140127 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Process group watchdog thread terminated with exception: NCCL error in: /pytorch/NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.21.5\n",
        )
    job.ended({r: -6 if r in (1, 5) else -15 for r in range(8)}, 1)


retries_ran_out.world = 8


@case("device-stuck", ranks=(2,))
def ecc(job: Job):
    job.steps(0, 5).raised(2, "RuntimeError: CUDA error: uncorrectable ECC error encountered", MAIN).closed(2)
    job.write(
        "dmesg.txt",
        "[Tue Mar  4 11:20:01 2025] NVRM: Xid (PCI:0000:53:00): 94, pid=4102, name=python, Ch 00000008\n[Tue Mar  4 11:20:01 2025] NVRM: Xid (PCI:0000:53:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU\n",
    )


@case("store-rendezvous", "configuration", sub="name not resolved", ranks=(1, 2, 3))
def name_unknown(job: Job):
    for r in (1, 2, 3):
        job.err(
            r,
            "[W304 11:20:04.003140127 socket.cpp:697] [c10d] The IPv6 network addresses of (node-zz, 29500) cannot be retrieved (gai error: -2 - Name or service not known).\n"
            * 3,
        )
        job.raised(
            r,
            "torch.distributed.DistNetworkError: The client socket has timed out after 600s while trying to connect to (node-zz, 29500).",
            MAIN,
        )


@case("store-rendezvous", "configuration")
def port_taken_old_words(job: Job):
    job.write(
        "launcher.log",
        'Traceback (most recent call last):\n  File "/opt/conda/bin/torchrun", line 8, in <module>\n    sys.exit(main())\nRuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use). The server socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already in use).\n',
    )


@case("rank-absent", ranks=(1,))
def spawn(job: Job):
    job.write(
        "run.log",
        """step 10 loss 2.1
Traceback (most recent call last):
  File "/workspace/proj/train.py", line 90, in <module>
    mp.spawn(main, nprocs=4)
  File "/opt/conda/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 282, in spawn
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/workspace/proj/train.py", line 61, in main
    table[key]
KeyError: 'cat'
""",
    )


@case("rank-absent", ranks=(2,))
def crash_before_a_restart(job: Job):
    for r in range(4):
        job.out(r, "step 1 loss 2\n")
    again = Job(job.folder, 4, attempt=1)
    job.raised(1, "ValueError: an old failure", MAIN)
    again.steps(0, 9).raised(2, "IndexError: list index out of range", MAIN, STEP).closed(2)
    again.lost(0)


@case()
def healthy_with_noise(job: Job):
    job.steps(0, 200).write("exit.json", '{"launcher": 0}')
    for r in range(4):
        job.err(
            r,
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\nUserWarning: this might be caused by a deadlock, Connection closed by peer may follow\n",
        )
        job.err(r, "WARNING: batch skipped: CUDA out of memory. Tried to allocate 20.00 MiB\n")
        job.out(r, "training finished\n")


@case()
def nothing_but_steps(job: Job):
    job.steps(0, 200)


def merged(job: Job, lines: list[str], name: str = "run.log") -> None:
    """The output of all ranks in one file, as most people keep it."""
    import shutil

    shutil.rmtree(job.folder / "logs")
    job.write(
        name,
        "\n".join(lines) + "\n" + (job.folder / "launcher.log").read_text()
        if (job.folder / "launcher.log").exists()
        else "\n".join(lines) + "\n",
    )
    (job.folder / "launcher.log").unlink(missing_ok=True)


@case("host-stall", "rank-absent", ranks=(2,))
def one_file_torch_2_0(job: Job):
    job.ended({0: -6, 1: -6, 2: -15, 3: -6}, 1, old=True)
    lines = [f"step {s} loss 2.1" for s in range(20)]
    for r in (0, 1, 3):
        lines.append(
            f"[E ProcessGroupNCCL.cpp:828] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=512, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 180231{r} milliseconds before timing out."
        )
    merged(job, lines)


@case("gpu-oom", ranks=(2,))
def one_file_out_of_memory_torch_2_2(job: Job):
    job.closed(2, old=True)
    lines = [f"step {s} loss 2.1" for s in range(20)]
    lines += [
        "Traceback (most recent call last):",
        '  File "/workspace/proj/train.py", line 61, in <module>',
        "    main()",
        "torch.cuda.OutOfMemoryError: " + oom(gpu=2)[len("torch.OutOfMemoryError: ") :],
    ]
    merged(job, lines)


@case("rank-absent", ranks=(1,))
def one_file_exception_torch_2_2(job: Job):
    job.closed(1, old=True)
    lines = [f"step {s} loss 2.1" for s in range(20)]
    lines += [
        "Traceback (most recent call last):",
        '  File "/workspace/proj/train.py", line 61, in <module>',
        "    main()",
        "AssertionError: label 7 out of range",
    ]
    merged(job, lines)


@case("configuration", "rank-absent", "unknown", ranks=(0, 1, 2, 3))
def same_exception_on_all_ranks(job: Job):
    for r in range(4):
        job.raised(r, "AttributeError: 'Namespace' object has no attribute 'lr_min'", MAIN)
    job.ended({0: 1, 1: 1, 2: 1, 3: -15}, 1)


@case("configuration", "rank-absent", "unknown", ranks=(0, 1, 2, 3))
def module_missing(job: Job):
    for r in range(4):
        job.raised(r, "ModuleNotFoundError: No module named 'flash_attn'", MAIN)
    job.ended(dict.fromkeys(range(4), 1), 1)


@case("rank-absent", ranks=(0,))
def caught_oom_is_not_the_cause(job: Job):
    for r in range(4):
        job.out(r, "WARNING: CUDA out of memory. Tried to allocate 20.00 MiB, halving the batch\n")
    job.steps(0, 400).raised(0, "IndexError: index 9 is out of bounds", MAIN, STEP).closed(0)


@case("host-oom", ranks=(0,), sub="cgroup")
def memory_events(job: Job):
    job.steps(0, 30).closed(0, -9).write(
        "memory.events", "low 0\nhigh 0\nmax 8123\noom 3\noom_kill 1\noom_group_kill 0\n"
    )


@case("rank-absent", ranks=(1,))
def ray_workers(job: Job):
    lines = []
    for s in range(5):
        lines += [f"(RayTrainWorker pid=70{r}, ip=10.0.0.{r + 1}) step {s} loss 2.0" for r in range(4)]
    lines += [
        f"(RayTrainWorker pid=70{r}, ip=10.0.0.{r + 1}) [rank{r}]: Traceback (most recent call last):" for r in (1,)
    ]
    lines += [
        '(RayTrainWorker pid=701, ip=10.0.0.2) [rank1]:   File "/workspace/proj/train.py", line 61, in main',
        "(RayTrainWorker pid=701, ip=10.0.0.2) [rank1]:     work()",
        "(RayTrainWorker pid=701, ip=10.0.0.2) [rank1]: ZeroDivisionError: division by zero",
        "(RayTrainWorker pid=702, ip=10.0.0.3) [rank2]:[W304 11:20:04.003140127 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=3, addr=[localhost]:34651, remote=[localhost]:29500): Failed to recv, got 0 bytes.",
    ]
    merged(job, lines)


@case("rank-absent", ranks=(5,))
def srun_labels(job: Job):
    lines = [f"{r:2d}: step {s} loss 2.0" for s in range(5) for r in range(8)]
    lines += [
        " 5: Traceback (most recent call last):",
        ' 5:   File "/workspace/proj/train.py", line 61, in main',
        " 5:     work()",
        " 5: OSError: [Errno 116] Stale file handle: '/data/x'",
        "srun: error: node-a: task 5: Exited with exit code 1",
        "slurmstepd: error: *** STEP 44.0 ON node-a CANCELLED AT 2025-03-04T11:20:05 ***",
        "srun: error: node-a: tasks 0-4,6-7: Terminated",
    ]
    merged(job, lines, "slurm-44.out")


srun_labels.world = 8


@case("device-stuck", ranks=(1,))
def gpu_lost(job: Job):
    job.steps(0, 5).raised(1, "RuntimeError: CUDA error: unspecified launch failure", MAIN).closed(1, -6)
    job.write(
        "kernel.log",
        "[Tue Mar  4 11:20:01 2025] NVRM: Xid (PCI:0000:14:00): 79, pid=4101, name=python, GPU has fallen off the bus.\n",
    )


@case("rank-absent", "unknown", ranks=(3,))
def killed_pod_without_reason(job: Job):
    job.steps(0, 5).closed(3, -9).write("dmesg.txt", "[ 1.000001] Linux version 6.1.0\n[ 2.000001] Command line: x\n")


@case("configuration", ranks=(0,), sub="driver too old")
def old_driver(job: Job):
    job.raised(
        0,
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver.",
        MAIN,
    ).closed(0)


@case()
def healthy_restarted(job: Job):
    job.raised(1, "ValueError: an old failure", MAIN)
    again = Job(job.folder, 4, attempt=1)
    again.steps(0, 9)
    for r in range(4):
        again.out(r, "training finished\n")
    job.write("exit.json", '{"launcher": 0}')


@case("host-stall", "rank-absent", ranks=(2,))
def desync_report(job: Job):
    job.steps(0, 30)
    for r in (0, 1, 3):
        job.watchdog(r, 41208)
    job.err(
        0,
        "[rank0]:[E304 11:20:04.003140127 ProcessGroupNCCL.cpp:690] \n\t - [0] Timeout at collective: ALLREDUCE, #41208\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [2] finished collective #41207, but didn't join collective #41208 (count from 1)\n\t - Snapshot of ranks' latest states:\n\t   #41207 finished ranks:\n\t     [2] finished ALLREDUCE\n\t   #41208 started ranks:\n\t     [0, 1, 3] started ALLREDUCE\n",
    )
    job.ended({0: -6, 1: -6, 2: -15, 3: -6}, 1)


@case("shape-mismatch", "collective-mismatch", ranks=(3,))
def detail_shapes(job: Job):
    def side(r, shape, seq="SequenceNumber=12, "):
        return f"Rank {r} is running collective: CollectiveFingerPrint({seq}OpType=ALLREDUCE, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)))"

    job.steps(0, 11)
    for r in range(4):
        mine, other = (17, 32) if r == 3 else (32, 17)
        job.raised(
            r,
            f"RuntimeError: Detected mismatch between collectives on ranks. {side(r, mine)}, but {side(0 if r == 3 else 3, other)}.Collectives differ in the following aspects: \t Tensor Tensor shapes: {mine}vs {other}",
            MAIN,
            STEP,
        )
    job.ended({0: 1, 1: 1, 2: 1, 3: -15}, 0)


@case("native-crash", "shm-exhausted", ranks=(1,))
def bus_error_without_words(job: Job):
    job.steps(0, 30).closed(1, -7)


@case("shm-exhausted", ranks=(1,))
def bus_error_and_a_full_mount(job: Job):
    job.steps(0, 30).closed(1, -7).write(
        "df.txt",
        "Filesystem      Size  Used Avail Use% Mounted on\noverlay         800G  120G  680G  15% /\nshm              64M   64M     0 100% /dev/shm\n",
    )


@case("host-oom", ranks=(0,), sub="cgroup")
def pod_as_json(job: Job):
    job.steps(0, 30)
    job.out(0, "".join(f"step {s} loss 2.0 rss_gb {20 + s * 0.8:.1f}\n" for s in range(31, 60)))
    job.write(
        "pod.json",
        """{"kind": "Pod", "metadata": {"name": "train-worker-0"}, "spec": {"nodeName": "gpu-3"}, "status": {"phase": "Failed",
 "containerStatuses": [{"name": "trainer", "restartCount": 0, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2025-03-04T09:20:05Z"}}}]}}""",
    )


@case("device-stuck", ranks=(5,))
def nvlink_on_the_second_node(job: Job):
    job.steps(0, 9)
    for r in range(8):
        job.out(
            r,
            f"node-{'ab'[r // 4]}:41{r:02d}:99 [{r % 4}] NCCL INFO ncclCommInitRank comm 0x55d0 rank {r} nranks 8 cudaDev {r % 4} nvmlDev {r % 4} busId {['1b000', '43000', '52000', '9d000'][r % 4]} commId 0x1 - Init COMPLETE\n",
        )
    job.raised(
        5,
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'uncorrectable NVLink error detected during the execution'",
        MAIN,
    )
    job.write(
        "kernel_node-b.log",
        "[Tue Mar  4 11:20:01 2025] NVRM: Xid (PCI:0000:43:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)\n",
    )
    job.write("kernel_node-a.log", "")


nvlink_on_the_second_node.world, nvlink_on_the_second_node.nodes = 8, 2


@case("host-oom", ranks=(6,), sub="host")
def host_memory_on_the_second_node(job: Job):
    job.steps(0, 9)
    for r in (0, 1, 2, 3):
        job.watchdog(r, 99)
    job.ended({4: -15, 5: -15, 6: -9, 7: -15}, 6, name="launcher_node-b.log")
    job.write("dmesg_node-b.txt", KERNEL_HOST.format(pid=4106))


host_memory_on_the_second_node.world, host_memory_on_the_second_node.nodes = 8, 2


@case("rank-absent", "uneven-inputs", ranks=(1,))
def finished_early(job: Job):
    job.steps(0, 90, [1]).out(1, "epoch 0 finished\ntraining finished\n").steps(0, 92, [0, 2, 3])
    for r in (0, 2, 3):
        job.watchdog(r, 92)
    job.ended({0: -6, 2: -6, 3: -6}, 2)


@case("fabric", ranks=(2,))
def socket_broken(job: Job):
    job.steps(0, 5).out(
        2,
        "node-a:4102:99 [2] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.7<43211> failed : Software caused connection abort\nnode-a:4102:99 [2] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error\n",
    )
    job.raised(
        2,
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.21.5",
        MAIN,
    ).closed(2)


@case("configuration", ranks=(1,), sub="library")
def undefined_symbol(job: Job):
    job.raised(
        1,
        "ImportError: /opt/conda/lib/python3.11/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        MAIN,
    ).closed(1)


@case("configuration", ranks=(0, 1, 2, 3), sub="no GPU")
def no_gpu(job: Job):
    for r in range(4):
        job.raised(r, "RuntimeError: No CUDA GPUs are available", MAIN)
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("store-rendezvous", "configuration")
def agents_never_met(job: Job):
    merged(
        job,
        [
            "Traceback (most recent call last):",
            '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 636, in run',
            "    raise RendezvousTimeoutError()",
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        ],
    )


@case("scheduler-action", sub="time limit")
def time_limit_without_sacct(job: Job):
    merged(
        job,
        [f"2025-03-04 11:1{s % 10}:05 step {s} loss 2.0" for s in range(60)]
        + ["slurmstepd: error: *** JOB 77 ON node-a CANCELLED AT 2025-03-04T11:20:05 DUE TO TIME LIMIT ***"],
        "slurm-77.out",
    )


@case("scheduler-action", sub="preemption")
def preempted_step(job: Job):
    job.steps(0, 50)
    merged(
        job,
        [
            "[W304 11:20:04.003140127 TCPStore.cpp:138] x",
            "slurmstepd: error: *** STEP 991.0 ON node-a CANCELLED AT 2025-03-04T11:20:05 DUE TO PREEMPTION ***",
            "W0304 11:20:05.711000 902 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
            "srun: error: node-a: task 0: Terminated",
        ],
        "slurm-991.out",
    )


@case("rank-absent", "configuration", ranks=(0,))
def no_space(job: Job):
    job.steps(0, 30).out(0, "saving checkpoint step30.pt\n").raised(
        0, "OSError: [Errno 28] No space left on device: '/ckpt/step30.pt'", MAIN, STEP
    ).closed(0)


@case("fd-exhausted", ranks=(2,))
def descriptors_in_a_thread(job: Job):
    job.steps(0, 30).err(2, "Exception in thread Thread-5 (_pin_memory_loop):\n").raised(
        2,
        "OSError: [Errno 24] Too many open files",
        ("/opt/conda/lib/python3.11/site-packages/torch/multiprocessing/reductions.py", 355, "rebuild_storage_fd"),
        prefix=False,
    )
    job.raised(2, "RuntimeError: Pin memory thread exited unexpectedly", MAIN).closed(2)


@case("native-crash", ranks=(0,))
def segfault_of_a_worker(job: Job):
    job.steps(0, 30).err(0, "ERROR: Unexpected segmentation fault encountered in worker.\n").raised(
        0, "RuntimeError: DataLoader worker (pid 5512) is killed by signal: Segmentation fault. ", MAIN
    ).closed(0)


@case("rank-absent", ranks=(3,))
def error_in_a_worker(job: Job):
    job.steps(0, 30).raised(3, "KeyError: Caught KeyError in DataLoader worker process 2.\nOriginal Traceback (most recent call last):\n"
                            '  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 309, in _worker_loop\n    data = fetcher.fetch(index)\n'
                            '  File "/workspace/proj/data.py", line 44, in __getitem__\n    return self.rows[i]\nKeyError: 91', MAIN).closed(3)  # fmt: skip


@case("gpu-oom", ranks=(1,))
def out_of_memory_then_a_hang(job: Job):
    """The rank that ran out of memory stays in its handler; the others time out and abort."""
    job.steps(0, 30).raised(1, oom(gpu=1), MAIN, STEP)
    for r in (0, 2, 3):
        job.watchdog(r, 31)
    job.ended({0: -6, 1: 1, 2: -6, 3: -6}, 2)


RAS = """NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  3 ranks have launched up to operation 641
  1 ranks have launched up to operation 640
  Rank 2 -- GPU 2 managed by process 4102 on node 10.137.190.124
"""


@case("host-stall", "rank-absent", ranks=(2,))
def ras_report(job: Job):
    job.steps(0, 30).write("ras.txt", RAS)
    job.ended({0: -15, 1: -15, 2: -15, 3: -15}, 0)


@case("host-oom", ranks=(0,), sub="cgroup")
def one_process_under_slurm(job: Job):
    merged(
        job,
        [f"step {s} loss 2.1" for s in range(50)]
        + [
            "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py --epochs 400",
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        ],
        "error_191.err",
    )


one_process_under_slurm.world = 1


@case()
def healthy_teardown(job: Job):
    job.steps(0, 200)
    for r in range(4):
        job.out(r, "training finished\n")
        if r:
            job.err(
                r,
                f'[rank{r}]:[W304 11:20:04.003140127 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=3, addr=[localhost]:34651, remote=[localhost]:29500): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n[rank{r}]:[W304 11:20:04.013140127 ProcessGroupNCCL.cpp:1648] [PG ID 0 PG GUID 0 Rank {r}] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Failed to recv, got 0 bytes\n',
            )
    job.err(
        0,
        "[rank0]:[W304 11:20:04.003140127 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.\n",
    )


@case()
def healthy_with_skipped_batches(job: Job):
    job.steps(0, 100).write("exit.json", '{"0": 0, "1": 0, "2": 0, "3": 0}')
    job.out(1, "step 101 loss nan\nstep 101: loss is not finite, batch skipped\n").steps(102, 120)


@case("host-stall", "rank-absent", ranks=(2,))
def stuck_until_the_time_limit(job: Job):
    job.steps(0, 100)
    for r in range(4):
        frames = '  File "/data/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2806 in all_reduce\n  File "/workspace/proj/train.py", line 61 in main\n  File "/workspace/proj/train.py", line 90 in <module>\n'
        if r == 2:
            frames = '  File "/workspace/proj/data.py", line 17 in read\n  File "/workspace/proj/train.py", line 50 in main\n  File "/workspace/proj/train.py", line 90 in <module>\n'
        job.write(f"stacks/rank_{r}.txt", "Thread 0x00007f3e5a00eb80 (most recent call first):\n" + frames)
    job.write(
        "sacct.txt", "JobID|State|ExitCode|Elapsed|Timelimit|NodeList\n991|TIMEOUT|0:0|12:00:01|12:00:00|node-a\n"
    )


@case("rank-absent", "host-stall", ranks=(1,))
def py_spy_of_all_ranks(job: Job):
    job.steps(0, 100)
    for r in range(4):
        top = (
            "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n    wrapper (torch/distributed/c10d_logger.py:81)\n"
            if r != 1
            else "    acquire (filelock/_api.py:200)\n    cached (data.py:33)\n"
        )
        job.write(
            f"pyspy_rank{r}.txt",
            f'Process {4100 + r}: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\n\nThread {4100 + r} (idle): "MainThread"\n{top}    main (train.py:61)\n    <module> (train.py:90)\nThread {5100 + r} (idle): "Thread-1"\n    wait (threading.py:324)\n',
        )


@case("host-oom", ranks=(3,), sub="cgroup")
def one_task_for_each_rank(job: Job):
    lines = [f"step {s} loss 2.0" for s in range(30)]
    lines += [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM Killed.",
        "srun: error: nid001277: task 3: Out Of Memory",
        "srun: Terminating StepId=440575.0",
        "slurmstepd: error: *** STEP 440575.0 ON nid001276 CANCELLED AT 2023-12-05T07:16:01 ***",
        "srun: error: nid001276: tasks 0-2: Terminated",
    ]
    merged(job, lines, "slurm-440575.out")


def test_two_faults_are_told_apart(tmp_path):
    job = Job(tmp_path, 4)
    job.steps(0, 30)
    job.raised(
        1, oom("2.00 GiB", 1, free="1.12 GiB", proc="78.01 GiB", alloc="55.20 GiB", resv="21.90 GiB"), MAIN, STEP
    )
    job.raised(3, "OSError: [Errno 24] Too many open files: '/data/part-0007.parquet'", MAIN, STEP)
    job.ended({0: -15, 1: 1, 2: -15, 3: 1}, 1)
    found = diagnose([str(tmp_path)])
    assert {(h.cause, tuple(h.ranks)) for h in found.verdicts} == {("gpu-oom", (1,)), ("fd-exhausted", (3,))}


def test_growth_alone_is_no_hang(tmp_path):
    """Memory that grows on all ranks, and a timeout: the growth stands beside, whatever the cause is."""
    job = Job(tmp_path, 4)
    for r in range(4):
        job.out(r, "".join(f"step {s} loss 2.0 rss_gb {12 + s * 0.2:.1f}\n" for s in range(60)))
    job.out(2, "evaluating\n")
    for r in (0, 1, 3):
        job.watchdog(r, 61)
    job.ended({0: -6, 1: -6, 2: -15, 3: -6}, 0)
    found = diagnose([str(tmp_path)])
    assert [h.cause for h in found.verdicts] == ["host-stall"] and found.verdicts[0].ranks == [2]
    assert [(h.cause, h.sub, h.ranks) for h in found.side_findings] == [("host-oom", "growth", [0, 1, 2, 3])]


def test_advice_is_no_fact(tmp_path):
    """PyTorch's own text lists every cause; none of them was seen."""
    job = Job(tmp_path, 2)
    job.steps(0, 3)
    job.err(
        0,
        "This may indicate a possible application crash on rank 0 or a network set up issue. The most common causes are: CUDA error: an illegal memory access was encountered, "
        "CUDA out of memory. Tried to allocate 1.00 GiB might be caused by fragmentation. Too many open files could be the reason. Please check that no GPU has fallen off the bus.\n",
    )
    found = diagnose([str(tmp_path)])
    assert not found.verdicts and not found.side_findings


@case("host-oom", sub="cgroup")
def pod_as_yaml(job: Job):
    job.steps(0, 30)
    job.write(
        "pod.yaml.txt",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: train-worker-0\nstatus:\n  containerStatuses:\n  - name: trainer\n    state:\n      terminated:\n        containerID: containerd://x\n        exitCode: 137\n        finishedAt: 2025-03-04T11:20:05Z\n        reason: OOMKilled\n",
    )


@case("unknown", "rank-absent")
def pod_killed_without_reason(job: Job):
    job.steps(0, 30)
    job.write(
        "pod.txt",
        "Name:             train-worker-1\nNamespace:        ml\nStatus:           Failed\nContainers:\n  trainer:\n    State:          Terminated\n      Reason:       Error\n      Exit Code:    137\n",
    )


@case("rank-absent", ranks=(2,))
def docker_json_log(job: Job):
    import json

    lines = [f"[rank{r}]: step {s}" for s in range(3) for r in range(4)] + [
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "/workspace/proj/train.py", line 61, in main',
        "[rank2]:     work()",
        "[rank2]: KeyError: 'dog'",
    ]
    merged(
        job,
        [
            json.dumps(
                {"log": line + "\n", "stream": "stderr", "time": "2025-03-04T11:20:05.1Z"}, separators=(",", ":")
            )
            for line in lines
        ],
        "abc-json.log",
    )


@case("uneven-inputs", "rank-absent", ranks=(2,))
def join_says_uneven(job: Job):
    job.steps(0, 91, [0, 1, 3]).steps(0, 88, [2])
    for r in range(4):
        job.raised(
            r, "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.", MAIN
        )
    job.ended(dict.fromkeys(range(4), 1), 0)


@case("device-stuck", ranks=(1,))
def gsp_timeout(job: Job):
    job.steps(0, 30)
    for r in range(4):
        job.watchdog(r, 31)
    job.ended(dict.fromkeys(range(4), -6), 0)
    job.write(
        "dmesg.txt",
        "[Tue Mar  4 11:10:01 2025] NVRM: _kgspLogXid119: ****** GSP Timeout ******\n[Tue Mar  4 11:10:01 2025] NVRM: Xid (PCI:0000:43:00): 119, pid=4101, name=python, Timeout after 45s of waiting for RPC response from GPU1 GSP! Expected function 76 (GSP_RM_CONTROL) sequence 24174.\n",
    )


@case("fabric", ranks=(2, 6))
def link_and_another_time_zone(job: Job):
    job.steps(0, 5)
    for r, peer in ((2, 8), (6, 7)):
        job.out(
            r,
            f"node-{'ab'[r // 4]}:41{r:02d}:99 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.{peer}<41000> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
        )
        job.err(
            r,
            f"[rank{r}]:[E304 11:20:04.0{r}3140127 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Process group watchdog thread terminated with exception: NCCL error in: /pytorch/NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.21.5\n",
        )
    job.write(
        "kernel_node-b.log",
        "Mar  4 03:19:41 node-b kernel: mlx5_core 0000:9a:00.0: Port module event[error]: module 0, Cable error\nMar  4 03:19:41 node-b kernel: mlx5_core 0000:9a:00.0 mlx5_2: Port: 1 Link DOWN\n",
    )


link_and_another_time_zone.world, link_and_another_time_zone.nodes = 8, 2


@case("rank-absent", ranks=(1,))
def worker_gone(job: Job):
    job.steps(0, 30).raised(1, "RuntimeError: DataLoader worker (pid(s) 5512) exited unexpectedly", MAIN).closed(1)


@case("store-rendezvous", "configuration", "fabric")
def full_mesh_failed(job: Job):
    for r in range(4):
        job.raised(
            r,
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
            MAIN,
        )
    job.ended(dict.fromkeys(range(4), 1), 0)


@pytest.mark.parametrize("name", case)
def test_wording(name, tmp_path):
    case.judge(name, tmp_path)
