import os, re, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
import run_trace
from torch.distributed.elastic.multiprocessing.errors import record

S = os.environ["SCEN"]
LIMIT = 8


def shared(rank, tp, step):
    x = torch.ones(64)
    if not (S == "subskip" and rank == 3 and step == 6):
        dist.all_reduce(x, group=tp)
    y = torch.ones(16)
    dist.all_reduce(y)
    return x


def hold():
    re.match(r"(a+)+$", "a" * 40 + "b")


def read_shard(path):
    with open(path) as f:
        return f.read()


def write_checkpoint(path):
    with open(path, "wb") as f:
        torch.save({"w": torch.ones(10)}, f)


def validate(rank):
    out = [torch.zeros(4) for _ in range(dist.get_world_size())]
    dist.all_gather(out, torch.ones(4) * rank)


def ring(rank, world):
    a, b = torch.ones(8), torch.zeros(8)
    ops = [dist.P2POp(dist.isend, a, (rank + 1) % world), dist.P2POp(dist.irecv, b, (rank - 1) % world)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()


@record
def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT))
    rank, world = dist.get_rank(), dist.get_world_size()
    tps = [dist.new_group([i, i + 1], timeout=timedelta(seconds=LIMIT), group_desc="tp") for i in range(0, world - 1, 2)]
    tp = tps[min(rank // 2, len(tps) - 1)] if world % 2 == 0 else None
    run_trace.start(LIMIT)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1)) if S.startswith("join") else None
    n = 10
    if S.startswith("join"):
        n = 10 - 3 * (rank == 1)
        ctx = model.join(throw_on_early_termination=(S == "jointhrow"))
        with ctx:
            for step in range(n):
                model(torch.ones(4, 8)).sum().backward()
                print(f"step {step}", flush=True)
                run_trace.tick(step)
        print("done", flush=True)
        dist.destroy_process_group()
        return
    for step in range(n):
        if S == "gil" and rank == 1 and step == 5:
            hold()
        if S == "fifo" and rank == 2 and step == 5:
            os.path.exists("x") or os.mkfifo(os.environ["TRACE_DIR"] + "/shard.bin")
            read_shard(os.environ["TRACE_DIR"] + "/shard.bin")
        if S == "ckpt" and rank == 0 and step == 5:
            os.mkfifo(os.environ["TRACE_DIR"] + "/ckpt.pt")
            print("saving checkpoint at step 5", flush=True)
            write_checkpoint(os.environ["TRACE_DIR"] + "/ckpt.pt")
        if tp is not None:
            shared(rank, tp, step)
        else:
            dist.all_reduce(torch.ones(8))
        if S == "ringmiss" and step == 5 and rank == 2:
            dist.barrier()
        if S.startswith("ring"):
            ring(rank, world)
        if S == "valid" and rank == 1 and step == 6:
            break
        if S == "slow" and rank == 3:
            time.sleep(0.8)
        if S == "excsub" and rank == 2 and step == 5:
            raise RuntimeError("tokens of batch 5 do not fit the position table")
        print(f"step {step}", flush=True)
        run_trace.tick(step)
    if S == "valid":
        validate(rank)
    dist.barrier()
    dist.destroy_process_group()


main()
