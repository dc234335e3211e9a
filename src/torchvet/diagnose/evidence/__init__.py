"""Readers: one module per kind of file, each turns bytes into facts and never raises for what the bytes hold.

A module holds `READER = Reader(name, sniff, read)`. `sniff(item)` looks at `item.name` and `item.head` (first 4 KiB)
and says how sure it is, 0 to 1; the surest reader gets the file. `read(item)` yields facts and may raise `Unreadable`
after some: what was read counts.

Vocabulary of facts (kind: values):

    progress        group, description, members, world, first, enqueued, completed, started, version, backend, empty
                    how far a rank is in one process group by its own count (recorder dump or watchdog line)
    call            group, seq, op, sizes, dtypes, state, p2p, peer, frames [[path, line, function]], created
                    one call of a rank that is not finished (or stands where others differ)
    watchdog        group, seq, op, ran_ms, timeout_ms, enqueued, completed         a rank that waited too long says so
    exit            code, signal, by ("launcher", "agent", "kubernetes", "slurm", "recorded"), pid, local, node
    closing         pid, signal                                                     the launcher ends a process
    exception       type, message, frames, victim (true: it tells of another rank's end)
    stack           threads [[name, [[path, line, function]]]], main (frames of the main thread, innermost first)
    output          last (last line of own output), step, steps (number of step lines), lines
    series          name ("rss", "cuda", "loss" ...), unit, first, last, slope per step, points [[step, value]]
    oom-kill        constraint, cgroup, pid, process, limit, usage
    cuda-oom        gpu, request, capacity, free, process, allocated, reserved, others [[pid, bytes]]
    xid, ib-link, pcie, kernel                                                      lines of a kernel log
    scheduler       state, reason, job, limit                                       what Slurm or Kubernetes did
    space           path, size, used, free                                          df output, ENOSPC lines
    version, env    what runs there
    nan             step, value                                                     a number that is none
    ...             a reader may add kinds; it documents them in its module
"""
