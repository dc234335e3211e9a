import datetime
import os

import torch
import torch.distributed as dist

import run_trace

timeout_s = float(os.environ.get("PG_TIMEOUT_S", "8"))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
rank, world = dist.get_rank(), dist.get_world_size()
run_trace.start(timeout_s)
torch.manual_seed(rank)

class Shards(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        if rank == 2 and i == 7:
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pipe")) as f:
                return torch.tensor(float(f.read()))
        return torch.rand(16)


if __name__ == "__main__":
    for step, x in enumerate(torch.utils.data.DataLoader(Shards(), batch_size=2)):
        run_trace.tick(step)
        dist.all_reduce(x.sum())
        print(f"step {step}", flush=True)
    dist.destroy_process_group()
