"""Readers: one module per kind of file, each turns bytes into facts and never raises for what the bytes hold.

A module holds `READER = Reader(name, sniff, read)`. `sniff(item)` looks at `item.name` and `item.head` (first 4 KiB)
and says how sure it is, 0 to 1; the surest reader gets the file. `read(item)` yields facts and may raise `Unreadable`
after some: what was read counts.

Vocabulary of facts (kind: values). Frames are [[path, line, function]], innermost first. Sizes are in bytes.

    progress        group, description, members, world, first, enqueued, completed, started, version, backend, empty
                    how far a rank is in one process group by its own count (recorder dump or watchdog line)
    recorder        one dump of the flight recorder: see `recorder_facts.py`
    call            group, seq, op, sizes, dtypes, state, p2p, peer, frames, created, root (gather, scatter: the rank
                    acts as the root)
                    one call of a rank that is not finished (or stands where others differ)
    watchdog        group, description, group_rank, seq, op, numel_in, numel_out, shape, ran_ms, timeout_ms
                    a rank that waited too long says so (NCCL); `group` "" where old versions name none
    dump-signal     peer (global rank or None = this rank), enqueued, completed   it dumped because of a peer's timeout
    heartbeat       seconds; gil                                     the monitor found the watchdog stuck / the GIL held
                    (gil with outside: a living process whose recorder did not run, seen by `torchvet run`)
    async-error     message                                          a watchdog ended with an error that is no timeout
    mismatch        a, b: {rank, seq, op, shape, dtypes}             DETAIL: two ranks make different calls
    absent          ranks, by ("monitored-barrier", "desync", "ras"), ms, group, seq      these ranks did not come
    behind          ranks, seq, next | joined                        desync text: joined, did not join the next
    lost            how ("timeout", "closed", "reset", "remote", "store", "victim-barrier", "socket"), backend,
                    ms, direction, port, peer
                    a rank waited in vain for a peer or lost it: the rank that says so is a victim
    size            got, want                                        gloo: a message of another size arrived
    ddp             what ("unused", "twice", "shape", "order", "uneven"), about (rank), indices, parameters
    exit            code, signal, by ("launcher", "block", "agent", "kubernetes", "slurm", "recorded", "shell", "mpi",
                    "hydra", "lightning", "docker", "parent": who started the only process),
                    pid, local, node, first (torchelastic's "root cause": a fact of the timeline, never a cause)
    launcher-exit   code                                             the end of the launcher itself
    launched        world, pid                                       a start script says which rank is which process
    died            pid, node, by ("ray")                            a process is gone, its end was not seen
    closing         pid, signal                                      the launcher ends a process
    terminated      signal                                           the process says that a signal ended it
    attempt         number                                           the launcher restarts the workers
    exception       type, message, frames, victim (true: it tells of another rank's end), chain [[type, message]]
                    (from the first raised to the last), origin (frames of the first), thread, worker, caught (the
                    process told steps behind it), cut ("name", "message": the file ends in it),
                    rooted [[path, line, source]] (calls among the frames that name a root)
    stack           threads [[name, frames]], main (frames of the main thread), pid, state
    output          last (last own line), step, steps, lines, stream, local, node, run, attempt, named (ranks that the
                    file itself names), pids, label, done (true: it says that it has finished),
                    step_line (line of its last step), cut (true: it breaks off within a traceback)
    series          name ("rss", "cuda", "loss"), context, first, last, count, slope (per step), points [[step, value]],
                    rising (share of steps upward), sampled
    nan             step, what, value; skipped (true: the batch was left out)
    cuda-oom        gpu, request, capacity, free, process, allocated, reserved, others [[pid, bytes]]
    host-alloc      request, what                                    an allocation of host memory failed
    oom-kill        constraint, cgroup, pid, process, limit, usage, rss, by ("kernel", "slurm", "kubernetes", "docker",
                    "ray", "earlyoom", "systemd-oomd")
    worker          pid, signal, code, timeout                       a DataLoader worker ended
    shm             what ("bus", "space", "open", "missing", "map", "nccl", "semaphore"), file, feeder
    fd              what ("open", "ancdata")
    space           path, size, used, free, percent; or errno (28, 27, 122), path: a write that failed
    memory          total, free, available, shared                   `free`, /proc/meminfo
    oom-limit       usage, limit; oom-invoked: process; kernel-log: lines, node (a kernel log was there)
    cgroup          oom, oom_kill, max, current                      memory.events and its neighbours
    xid, sxid       number, device, pid, process                     NVRM lines; `rank` by pid or bus id
    link            device, port, state                              InfiniBand or Ethernet link
    pcie, ecc, kernel, hung-task, segfault                           other lines of a kernel log
    nccl-warn       host, pid, device, message, about ("fabric", "shm", "cuda", "peer", "mismatch", "harmless", "")
    nccl-error      message, version; nccl-completion: peer, status  how NCCL failed
    nccl-init       nranks, device, bus, host, pid; nccl-version     where a rank's GPU is
    device-error    what ("illegal access", "assert", "launch failure", "ecc", "nvlink", "lost", ...), error
    crash           signal, what, frames, current (true: of the thread that crashed)    native crash said by the process
    rendezvous      what ("clients", "connect", "port", "keys", "resolve", "refused"), host, port, joined, expected, ms
    config          what (see patterns.py), and what it names; interface: a network interface that is not there
    scheduler       state, reason, job, step, limit, elapsed, nodes, by ("slurm", "kubernetes", "lsf", "pbs", "sge",
                    "condor", "sagemaker", "batch", "cloud", "skypilot")
    process         pid, state, wchan, rss, threads, command
    env             name: value ...                                  the environment of a rank or a job
    version         torch, cuda, driver, kernel_driver, nccl, python
    device          gpu, bus, uuid, used, total, processes [[pid, name, bytes]]
    package         name, old, new, action                           dpkg, apt, pip history
    container       shm_size, ipc, command                           how a container was started
    snapshot, snapshot-site                                          GPU memory by place (`snapshot.py`)
    trace           steps, step_ms, span_ms, data_ms, comm_ms, exposed_ms, busy_ms       torch.profiler (`trace.py`)
    pair-call, root-call      calls of the program's source that name a rank (`pair_calls.py`)
    source          language                                         a program's file: not read as a log
    ...             a reader may add kinds; it documents them in its module

`ranks.settle` gives facts of a file the rank of that file; a reader sets `rank` only where the line itself names it.
"""
