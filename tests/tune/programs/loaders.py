"""Loaders of one kind each, for the tests and the benchmark of `torchvet tune`."""

import os
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, kind, length=100_000):
        self.kind = kind
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.kind == "processor":
            total = 0
            for k in range(12_000):
                total += k * index
            return torch.full((64,), float(total % 7))
        if self.kind == "disk":
            time.sleep(0.004)
        if self.kind == "broken":
            raise ValueError("row 7 is empty\nsecond line")
        if self.kind == "hanging":
            time.sleep(3600)
        return torch.ones((3, 256, 256) if self.kind == "memory" else 4)


def stacked(items):
    return torch.stack(items)


def processor():
    return DataLoader(Rows("processor"), batch_size=8)


def disk():
    return DataLoader(Rows("disk"), batch_size=8)


def memory():
    return DataLoader(Rows("memory"), batch_size=16)


def tiny():
    return DataLoader(Rows("tiny"), batch_size=8)


def broken():
    return DataLoader(Rows("broken"), batch_size=8)


def hanging():
    return DataLoader(Rows("hanging"), batch_size=2)


def custom():
    return DataLoader(Rows("memory"), batch_size=int(os.environ.get("BATCH", "4")), collate_fn=stacked, shuffle=True)


if __name__ == "__main__":
    model = torch.nn.Linear(4, 2)
    loader = DataLoader(Rows("tiny"), batch_size=8, num_workers=1)
    for _ in range(3):
        for x in loader:
            model(x).sum().backward()
            time.sleep(0.002)
