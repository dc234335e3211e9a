"""What ranks hold alike although a test or a clock of their own stands between, and what they do not."""

from __future__ import annotations

import textwrap

import pytest
from rank_programs import found

HEAD = "import time\nimport torch\nimport torch.distributed as dist\n"

PAIRS = {
    "gathered numbers in one tensor": """
        def train(model, loader, opt, world):
            model = torch.nn.parallel.DistributedDataParallel(model)
            for x in loader:
                loss, spread = model(x)
                losses = [torch.zeros_like(loss) for _ in range(world)]
                dist.all_gather(losses, loss)
                losses = {make}
                if torch.isnan({asked}).any():
                    continue
                loss.backward()
                opt.step()
        """,
    "a buffer that is reduced by its data": """
        def train(model, loader, opt):
            model = torch.nn.parallel.DistributedDataParallel(model)
            for x in loader:
                loss = model(x).mean()
                shown = loss.detach().clone()
                dist.all_reduce({reduced})
                if shown.isnan().any():
                    continue
                loss.backward()
                opt.step()
        """,
    "an object for the others": """
        def serve(generate):
            while True:
                text, stop = "", False
                if dist.get_rank() == 0:
                    text = input("? ")
                    stop = text == "stop"
                    dist.broadcast_object_list([text, stop])
                else:
                    box = [text, stop]
                    dist.broadcast_object_list(box)
                    {taken} = box
                if stop:
                    return
                generate(text)
        """,
    "a tensor for the others": """
        def share(ok, ids):
            if dist.get_rank() == 0:
                head = torch.tensor([1 if ok else 0, ids.numel()])
                dist.broadcast(head, src=0)
            else:
                head = torch.tensor([0, 0])
                dist.broadcast(head, src=0)
                {taken}, numel = head.tolist()
                ids = torch.empty((numel, 2))
            dist.broadcast(ids, src=0)
            return ok, ids
        def main(collect):
            ok, ids = False, None
            if dist.get_rank() == 0:
                ok, ids = collect()
            ok, ids = share(ok, ids)
            if ok:
                dist.barrier()
        """,
    "a handle of one of several groups": """
        def make(lists):
            mine = None
            {many}:
                group = dist.new_group(ranks=ranks)
                if dist.get_rank() in ranks:
                    mine = group
            return mine
        class Saver:
            group = None
            @classmethod
            def save(cls, lists):
                if dist.get_rank() == 0:
                    print("saving")
                if not cls.group:
                    cls.group = make(lists)
        """,
    "a flag that the first call sets": """
        class Clock:
            ready = False
            last = 0.0
            @classmethod
            def init(cls):
                {first}
                cls.ready = True
            @classmethod
            def sync(cls):
                if not cls.ready:
                    dist.barrier()
                cls.last = time.time()
        def flush():
            if Clock.last < time.time() - 1800:
                Clock.sync()
        def main():
            Clock.init()
            flush()
        """,
    "a buffer where a rank has none": """
        def share(item):
            if item is not None:
                dist.broadcast(item, src=0)
        def run(loader):
            first = dist.get_rank() == 0
            sizes = None
            if first:
                sizes = torch.tensor(next(loader))
            n = torch.tensor([0 if sizes is None else sizes.numel()])
            share(n)
            share({given})
        """,
    "a reading of the clock": """
        class Meter:
            def __init__(self, least):
                self.last_time = -1.0
                self.least = least
            def adjust(self, steps):
                if self.last_time > 0:
                    elapsed = time.time() - self.last_time
                    if {test}:
                        dist.all_reduce(steps)
                self.last_time = time.time()
        """,
}
FORMS = {
    "gathered numbers in one tensor": (
        {"make": "torch.tensor(losses)", "asked": "losses"}, {"make": "torch.tensor(losses)", "asked": "spread"},
    ),
    "gathered numbers stacked": (
        {"make": "torch.stack([x.float() for x in losses])", "asked": "losses"},
        {"make": "torch.stack([spread, losses[0]])", "asked": "losses"},
    ),
    "a buffer that is reduced by its data": ({"reduced": "shown.data"}, {"reduced": "shown.data.clone()"}),
    "an object for the others": ({"taken": "text, stop"}, {"taken": "text, _"}),
    "a tensor for the others": ({"taken": "ok"}, {"taken": "_"}),
    "a handle of one of several groups": ({"many": "for ranks in lists"}, {"many": "with open(lists) as ranks"}),
    "a flag that the first call sets": ({"first": "cls.sync()"}, {"first": "cls.last = time.time()"}),
    "a buffer where a rank has none": (
        {"given": "torch.empty(int(n.item())) if sizes is None else sizes"},
        {"given": "sizes"},
    ),
    "a reading of the clock": ({"test": "self.least > 0"}, {"test": "elapsed < self.least"}),
}  # fmt: skip


def source(name: str, form: int) -> str:
    program = PAIRS["gathered numbers in one tensor" if "stacked" in name else name]
    return HEAD + textwrap.dedent(program).format(**FORMS[name][form])


@pytest.mark.parametrize("name", FORMS)
def test_agreed(tmp_path, name):
    assert found(tmp_path, t=source(name, 0)) == []


@pytest.mark.parametrize("name", FORMS)
def test_not_agreed(tmp_path, name):
    assert found(tmp_path, t=source(name, 1))
