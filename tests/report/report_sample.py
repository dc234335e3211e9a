"""A small made-up project and findings about it: every feature that a report has to show."""

from __future__ import annotations

import json

from torchvet.findings import (
    CERTAIN,
    ERROR,
    LIKELY,
    NOTE,
    POSSIBLE,
    WARNING,
    Edit,
    Finding,
    Fix,
    Note,
    Span,
    Text,
    fingerprints,
)
from torchvet.report import Report, RuleInfo

CELL_1 = ["import torch\n", "from torch.utils.data import DataLoader\n"]
CELL_3 = ["losses = []\n", 'print("第一轮")\n', "for x in loader:\n", "    losses.append(model(x))"]
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": CELL_1},
            {"cell_type": "markdown", "metadata": {}, "source": ["# Training\n"]},
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": CELL_3},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    },
    ensure_ascii=False,
    indent=1,
)

FILES = {
    "train.py": """\
import torch.distributed as dist
from evaluation import evaluate

rank = dist.get_rank()


def train(model, loader, optimizer):
    total_loss = 0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total_loss += loss
    if rank == 0:
        evaluate(model, loader)
    return total_loss
""",
    "evaluation.py": """\
import torch.distributed as dist


def evaluate(model, loader):
\tfor x, y in loader:
\t\tmodel(x, y)
\tdist.barrier()\t# 等待
""",
    "模型/a b.py": """\
import os
from torch.utils.data import DataLoader

说明 = "训练集：𝒙 与 \\u202e"; loader = DataLoader(dataset, num_workers=os.cpu_count())  # 太多
"""
    + "very_long_name_of_a_loader = DataLoader(TheDatasetWithALongName('root', split='train'), batch_size=64, "
    + "collate_fn=a_function_with_a_long_name, pin_memory=True, num_workers=64, prefetch_factor=8)\n",
    "explore.ipynb": NOTEBOOK,
}

NOTEBOOK_CELLS = {1: "".join(CELL_1), 3: "".join(CELL_3)}


def source(path: str, line: int, cell: int = 0) -> str | None:
    text = NOTEBOOK_CELLS.get(cell) if cell else FILES.get(path)
    lines = text.split("\n") if text is not None else []
    if lines and lines[-1] == "":
        lines.pop()
    return lines[line - 1] if 0 < line <= len(lines) else None


def raw_line(path: str, line: int, cell: int) -> int:
    wanted = json.dumps(NOTEBOOK_CELLS[cell].split("\n")[line - 1], ensure_ascii=False)[:-1]
    return next(i for i, text in enumerate(FILES[path].split("\n"), 1) if wanted in text)


def span_of(path: str, text: str, cell: int = 0) -> Span:
    """The first place of a text in a file (or in a cell)."""
    content = NOTEBOOK_CELLS[cell] if cell else FILES[path]
    for number, line in enumerate(content.split("\n"), 1):
        if text in line:
            at = line.index(text) + 1
            return Span(path, number, at, number, at + len(text))
    raise AssertionError(text)


BARRIER = Finding(
    "TV401",
    "rank-guarded-collective",
    ERROR,
    CERTAIN,
    span_of("evaluation.py", "dist.barrier()"),
    Text("only rank 0 reaches {call}()", "只有 rank 0 会执行 {call}()", call="barrier"),
    help=Text(
        "call evaluate() on every rank, or move the barrier behind the if",
        "在所有 rank 上调用 evaluate()，或把 barrier 移到 if 之后",
    ),
    notes=[
        Note(
            span_of("train.py", "rank == 0"),
            Text(
                "ranks part here; rank is dist.get_rank() (train.py:4)",
                "各 rank 在此分开；rank 来自 dist.get_rank()（train.py:4）",
            ),
            chain=True,
        ),
        Note(span_of("train.py", "evaluate(model, loader)"), Text("calls evaluate", "调用 evaluate"), chain=True),
        Note(
            span_of("evaluation.py", "dist.barrier()"),
            Text("the other ranks never arrive", "其他 rank 永远不会到达"),
            chain=True,
        ),
    ],
    scope="evaluate",
    source="\tdist.barrier()\t# 等待",
    trace=[
        (Text("rank 0", "rank 0"), Text("all_reduce · barrier")),
        (Text("other ranks", "其他 rank"), Text("all_reduce")),
    ],
)

ACCUMULATED = Finding(
    "TV101",
    "accumulated-graph",
    WARNING,
    LIKELY,
    span_of("train.py", "total_loss += loss"),
    Text("{name} keeps the graph nodes of every step", "{name} 保留了每一步的计算图节点", name="total_loss"),
    help=Text("add total_loss += loss.detach()", "改为 total_loss += loss.detach()"),
    notes=[
        Note(
            span_of("train.py", "loss.backward()"),
            Text("frees the activations, the nodes stay (host memory)", "释放了激活值，节点仍在（主机内存）"),
        ),
        Note(
            span_of("train.py", "total_loss += loss"),
            Text("grows by one graph a step until the epoch ends", "每一步增加一张图，直到本轮结束"),
        ),
    ],
    fix=Fix(Text("detach what is added", "累加前先 detach"), [Edit(13, 27, 13, 27, ".detach()")]),
    scope="train",
    source="        total_loss += loss",
)

WORKERS = Finding(
    "TV201",
    "workers-from-cpu-count",
    WARNING,
    LIKELY,
    span_of("模型/a b.py", "os.cpu_count()"),
    Text(
        "num_workers={value} ignores the ranks of this node, 100 % of its CPUs: a\nnew | line, <b>",
        "num_workers={value} 没有考虑本节点的 rank 数，会占用 100 % 的 CPU：换\n行 | 与 <b>",
        value="os.cpu_count()",
    ),
    fix=Fix(
        Text(
            "num_workers=min(8, len(os.sched_getaffinity(0)) // local_world_size), which is the share of one rank",
            "num_workers=min(8, len(os.sched_getaffinity(0)) // local_world_size)，即每个 rank 应得的一份",
        ),
        [Edit(4, 65, 4, 79, "min(8, len(os.sched_getaffinity(0)) // local_world_size)")],
        safe=False,
    ),
    help=Text("the right number depends on the CPU quota of the container", "合适的数目取决于容器的 CPU 配额"),
    source=FILES["模型/a b.py"].split("\n")[3],
)

LONG = Finding(
    "TV202",
    "too-many-workers",
    NOTE,
    POSSIBLE,
    span_of("模型/a b.py", "num_workers=64"),
    Text("num_workers=64 is above the limit of 8 for one rank", "num_workers=64 超过了每个 rank 8 个的上限"),
    notes=[
        Note(
            span_of("模型/a b.py", "prefetch_factor=8"),
            Text(
                "64 workers × 8 batches wait in shared memory, which is far more than one step takes from them",
                "64 个 worker × 8 个批次停留在共享内存中，远远超过一步所需要的数量，而且每个 rank 都会重复一次",
            ),
        ),
        Note(Span("gone.py", 7, 3), Text("the limit is set here", "上限在此设定")),
    ],
    source=FILES["模型/a b.py"].split("\n")[4],
)

IN_NOTEBOOK = Finding(
    "TV102",
    "stored-graph",
    ERROR,
    LIKELY,
    span_of("explore.ipynb", "losses.append(model(x))", 3),
    Text("{name} keeps the activations of every step", "{name} 保留了每一步的激活值", name="losses"),
    help=Text("append model(x).detach()", "改为追加 model(x).detach()"),
    notes=[
        Note(Span("explore.ipynb", 1, 1, 1, 12), Text("lives as long as the notebook", "与笔记本存活一样久")),
        Note(Span("explore.ipynb:cell 1", 2, 30, 2, 40), Text("batches come from here", "批次来自这里")),
    ],
    fix=Fix(Text("losses.append(model(x).detach())"), [Edit(4, 27, 4, 27, '.detach()  # "off"')]),
    source="    losses.append(model(x))",
    cell=3,
    raw_line=raw_line("explore.ipynb", 4, 3),
)

SYNTAX = Finding(
    "TV003",
    "syntax-error",
    ERROR,
    CERTAIN,
    Span("broken.py", 3, 9),
    Text("expected ':'", "此处应为 ':'"),
    source="",
)

PAGE = """# {name}

Finds a fault.

## Bad

```python
total_loss += loss  # error: [{name}]
```
"""


def _rule(code: str, name: str, family: str, severity: str, summary: Text) -> RuleInfo:
    return RuleInfo(code, name, family, severity, LIKELY, summary, lambda: PAGE.format(name=name))


RULES = {
    rule.name: rule
    for rule in (
        _rule(
            "TV101",
            "accumulated-graph",
            "graph",
            WARNING,
            Text("a value with a graph is added up over steps", "累加带计算图的值"),
        ),
        _rule(
            "TV102",
            "stored-graph",
            "graph",
            ERROR,
            Text("a value with a graph outlives its step", "带计算图的值比一步活得更久"),
        ),
        _rule(
            "TV201",
            "workers-from-cpu-count",
            "loader",
            WARNING,
            Text("workers are counted from all CPUs", "按全部 CPU 计算 worker 数"),
        ),
        _rule(
            "TV202",
            "too-many-workers",
            "loader",
            WARNING,
            Text("more workers than one rank can feed", "worker 多于一个 rank 所能承受"),
        ),
        _rule(
            "TV301",
            "wrapped-before-device",
            "wrap",
            ERROR,
            Text("the model is wrapped before it moves", "先包装后移动模型"),
        ),
        _rule(
            "TV401",
            "rank-guarded-collective",
            "collective",
            ERROR,
            Text("some ranks never reach a collective", "部分 rank 到不了集合通信"),
        ),
    )
}

FAMILIES = {
    "graph": {"looked_at": 12, "what": Text("values kept over steps", "个跨步保存的值")},
    "loader": {"looked_at": 3},
    "wrap": {"looked_at": 1},
    "collective": {"looked_at": 0},
}


def findings() -> list[Finding]:
    rows = [BARRIER, ACCUMULATED, WORKERS, LONG, IN_NOTEBOOK, SYNTAX]
    fingerprints(rows)
    return sorted(rows, key=Finding.sort_key)


def report(rows: list[Finding] | None = None, language: str = "en", **changes: object) -> Report:
    settings: dict[str, object] = {
        "language": language,
        "files": 2140,
        "parsed": 37,
        "seconds": 0.2351,
        "root": "/src/repo",
        "base": "/src/repo/sub dir",
        "rules": RULES,
        "source": source,
        "raw_line": raw_line,
        "families": FAMILIES,
        "version": "1.2.3",
        **changes,
    }
    return Report(findings() if rows is None else rows, **settings)  # type: ignore[arg-type]
