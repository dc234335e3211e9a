"""The module that the cases call `proj_data`: data, scores and files that differ from rank to rank."""

import os
import time

import torch

RANK = int(os.environ["RANK"])


def batches(kind="even", n=2):
    """[(4 x 8, 4 x 1)]; with "nan" the second batch of rank 1 holds NaN."""
    n = max(n, 3) if kind == "nan" else n
    made = [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(n)]
    if kind == "nan" and RANK == 1:
        made[1] = (torch.full((4, 8), float("nan")), made[1][1])
    return made


def pending_jobs():
    return ["a", "b"] if RANK == 0 else []


def prompts():
    return ["hello"] if RANK == 0 else []


def n_tokens():
    return 2 + 3 * RANK


def samples():
    """Rank 1 has texts without boxes and without an image."""
    boxes = torch.ones(2, 4) if RANK == 0 else torch.zeros(0, 4)
    image = torch.randn(2, 8) if RANK == 0 else None
    return [{"text": torch.randn(2, 8), "boxes": boxes, "image": image} for _ in range(3)]


def val_score(epoch):
    """A loss that only gets worse."""
    return 1.0 + epoch


def stop_message(step):
    return step == 2


def flaky(step):
    if RANK == 1 and step == 1:
        raise RuntimeError("out of memory on this rank")


def transient(attempt):
    if RANK == 0 and attempt == 0:
        raise OSError("stale file handle")


def file_list():
    return ["a", "b", "c"]


def read_file(name):
    return [torch.randn(2, 8), torch.randn(2, 8)]


def lengths():
    return [64] * (2 + 2 * RANK)


def param_dtypes():
    return ["float32", "float64"] if RANK == 0 else ["float64", "float32"]


def layer_kinds():
    return ["moe", "dense"] if RANK == 0 else ["dense", "dense"]


def visible(path):
    return RANK == 0


def slow(seconds):
    time.sleep(seconds)


def reward_logs(index):
    return {"reward": 1.0} if RANK == 0 else {"format_ok": 1.0}
