"""Sends and receives of a function, matched in small worlds."""

from __future__ import annotations

from textwrap import dedent

import pytest
from rank_programs import ranks_of

HEAD = "import torch, torch.distributed as dist\n"

LEGAL = {
    "even send first": """
        def ring(x, y):
            r, n = dist.get_rank(), dist.get_world_size()
            if r % 2 == 0:
                dist.send(x, (r + 1) % n)
                dist.recv(y, (r - 1) % n)
            else:
                dist.recv(y, (r - 1) % n)
                dist.send(x, (r + 1) % n)
    """,
    "first half does not block": """
        def ring(x, y):
            r, n = dist.get_rank(), dist.get_world_size()
            work = dist.isend(x, (r + 1) % n)
            dist.recv(y, (r - 1) % n)
            work.wait()
    """,
    "one rank breaks the ring": """
        def ring(x, y):
            r, n = dist.get_rank(), dist.get_world_size()
            if r != n - 1:
                dist.send(x, r + 1)
            if r != 0:
                dist.recv(y, r - 1)
    """,
    "roles that are not known": """
        def step(x, role):
            if role == "sender":
                dist.send(x, 1)
            else:
                dist.send(x, 0)
    """,
    "partner in another function": """
        def give(x):
            if dist.get_rank() == 0:
                dist.send(x, 1)
        def take(x):
            if dist.get_rank() == 1:
                dist.recv(x, 0)
    """,
    "two ranks as in the tutorial": """
        def run(rank, size):
            x = torch.zeros(1)
            if rank == 0:
                dist.send(x, dst=1)
            else:
                dist.recv(x, src=0)
    """,
    "anyone": """
        def run(rank, size):
            x = torch.zeros(1)
            if rank == 0:
                for _ in range(1, size):
                    dist.recv(x)
            else:
                dist.send(x, dst=0)
    """,
}
FAULTY = {
    "ring in a loop": (
        """
        def ring(x, y):
            r, n = dist.get_rank(), dist.get_world_size()
            for _ in range(3):
                dist.send(x, (r + 1) % n)
                dist.recv(y, (r - 1) % n)
        """,
        [("order", 5)],
    ),
    "wrong source": (
        """
        def run(rank):
            x = torch.zeros(1)
            if rank == 0:
                dist.send(x, dst=1)
            elif rank == 1:
                dist.recv(x, src=2)
        """,
        [("alone", 5)],
    ),
    "handle overwritten and never read": (
        """
        def run(rank):
            x = torch.zeros(1)
            work = dist.all_reduce(x, async_op=True)
            return x / 2
        """,
        [("dropped", 4)],
    ),
}


def unmatched(tmp_path, text: str) -> list[tuple[str, int]]:
    return [(u.kind, u.pos >> 44) for u in ranks_of(tmp_path, train=HEAD + dedent(text).strip()).unmatched()]


@pytest.mark.parametrize("name", LEGAL)
def test_legal(tmp_path, name: str) -> None:
    assert unmatched(tmp_path, LEGAL[name]) == []


@pytest.mark.parametrize("name", FAULTY)
def test_faulty(tmp_path, name: str) -> None:
    text, expected = FAULTY[name]
    assert unmatched(tmp_path, text) == expected
