import os, sys, threading, time
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
import run_trace

S = os.environ["SCEN"]
LIMIT = 12


class Items(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if S == "worker" and int(os.environ["RANK"]) == 1 and i == 40:
            time.sleep(1000)
        return torch.ones(8) * i


def evaluate(model):
    time.sleep(60)


def share_config(rank):
    if rank == 0:
        box = [{"lr": 0.1}]
        dist.broadcast_object_list(box, src=0)


def make_group(rank):
    if rank == 0:
        return dist.new_group([0, 1])
    return None


def validate(model, rank):
    if rank == 0:
        model.eval()
        model.train()
        model(torch.ones(4, 8))


def hand_over(rank):
    x = torch.ones(4)
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 2)


def gather_metrics(rank, world, n):
    out = [None] * world
    dist.all_gather_object(out, {"n": n})
    return out


LOCK = threading.Lock()


def log_metrics():
    with LOCK:
        with LOCK:
            print("logged")


def reduce_loss(x, step, rank):
    if S == "swallow" and rank == 1 and step == 5:
        raise ValueError("bad sample")
    dist.all_reduce(x)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT))
    rank, world = dist.get_rank(), dist.get_world_size()
    a = dist.new_group(list(range(world)), timeout=timedelta(seconds=LIMIT), group_desc="metrics")
    run_trace.start(LIMIT)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    if S == "layers" and rank == 1:
        net.append(torch.nn.Linear(1, 1))
    model = DDP(net)
    loader = DataLoader(Items(), batch_size=4, num_workers=1 if S == "worker" else 0)
    step = -1
    for step, batch in enumerate(loader):
        loss = model(batch).sum()
        if S == "nan" and rank == 2 and step == 6:
            print("loss is nan, skipping batch", flush=True)
            continue
        loss.backward()
        x = torch.ones(3)
        try:
            reduce_loss(x, step, rank)
        except ValueError as e:
            print(f"warning: {e}", flush=True)
        if S == "eval" and rank == 1 and step == 5:
            print("evaluating", flush=True)
            evaluate(model)
        if S == "object" and step == 5:
            share_config(rank)
        if S == "newgroup" and step == 5:
            make_group(rank)
        if S == "validate" and step == 5:
            validate(model, rank)
        if S == "wrongpeer" and step == 5:
            hand_over(rank)
        if S == "order" and step == 5:
            if rank == 0:
                dist.all_reduce(torch.ones(2))
                dist.all_reduce(torch.ones(5), group=a)
            else:
                dist.all_reduce(torch.ones(5), group=a)
                dist.all_reduce(torch.ones(2))
        if S == "early" and rank == 1 and step == 7:
            print("early stop: no improvement", flush=True)
            break
        if S == "pdb" and rank == 0 and step == 5:
            sys.stdin.readline() if os.environ.get("TTY") else time.sleep(0)
            os.read(os.pipe()[0], 1)
        if S == "lock" and rank == 2 and step == 5:
            log_metrics()
        if S == "thread" and rank == 1 and step == 5:
            t = threading.Thread(target=lambda: dist.all_reduce(torch.ones(7)))
            t.start()
            t.join()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        run_trace.tick(step)
    if S == "early":
        gather_metrics(rank, world, step)
    gather_metrics(rank, world, step)
    dist.barrier()
    print("finished", flush=True)
    dist.destroy_process_group()


main()
