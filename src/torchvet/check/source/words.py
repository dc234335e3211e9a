"""Which files can matter, and which of their functions: subject words, looked up in the bytes.

A word is a subject when a finding is *about* it (`.backward(`, `DataLoader(`, `all_reduce`). Words that only take part
(`no_grad`, `num_workers`) never admit a file: in a library of models they stand in every second one. The form is a chain
of `in`, because one regular expression with all the words takes ten times as long; and the words of distributed training
are looked for only where something distributed is named at all, a twentieth of the files of a library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Pattern

# --------------------------------------------------------------------------------------------------- admission

FRAMEWORKS = (
    b"ightning", b"ccelerat", b"deepspeed", b"horovod", b"mmengine", b"mmcv", b"transformers", b"cupy", b"ignite",
    b"fastai", b"megatron", b"composer", b"fabric",
)  # fmt: skip
"""Names other than `torch` that say: this is about PyTorch training."""

FOREIGN = (b"import paddle", b"import mxnet", b"import oneflow", b"import mindspore", b"import chainer")
"""Frameworks that share words with PyTorch; a file that imports one of them and never says torch is theirs."""

PARTITIONED = (
    b"ataParallel", b"DDP(", b"FSDP(", b"fully_shard", b"all_reduce", b"allreduce", b"barrier(", b"all_gather", b"allgather",
    b"broadcast(", b"broadcast_object_list", b"reduce_scatter", b"all_to_all", b"gather_object", b"gather_for_metrics",
    b"wait_for_everyone", b"init_process_group(", b"new_group(", b"init_device_mesh(", b"DistributedSampler(", b"training_step",
    b"validation_step", b"test_step", b"predict_step", b"monitored_barrier", b"initialize(",
)  # fmt: skip
"""Subjects in a file that names distribution, Lightning or accelerate."""

RANKS = (
    b"get_rank(", b"rank == ", b"rank != ", b"rank > 0", b"rank in ", b"if rank", b"not rank", b"local_rank", b"rank_zero",
    b"global_rank", b"is_rank", b"rank0", b"rank_0", b"rank()", b"by_rank",
)  # fmt: skip

LOOPS = (b"DataLoader(", b"oader:", b"oader):", b"oader)):", b"oader, ")
"""Loops over loaders, and loaders made."""

FORKED = (
    b"h5py", b"lmdb", b"sqlite", b"ZipFile(", b"tarfile", b"= open(", b"memmap(", b".cuda(", b"cuda", b"default_rng(",
    b"RandomState(", b"random.Random(",
)  # fmt: skip
"""What does not survive the fork into a loader's worker when a dataset holds it."""

SURE = (
    b".backward(", b".eval()", b"DataLoader(", b"training_step", b"wait_for_everyone", b"is_main_process", b"init_process_group(",
    b"all_reduce(", b"all_gather", b"DistributedSampler(", b"DistributedDataParallel", b"rank_zero", b"cudaMalloc",
)  # fmt: skip
"""Words that need no framework's name beside them: helper modules often import nothing."""

_compiled: list[Pattern[bytes]] = []


def _patterns() -> list[Pattern[bytes]]:
    if not _compiled:
        from re import compile

        # a function that trains or evaluates
        _compiled.append(compile(rb"def \w*(?:eval|valid|test|train|fit|epoch|step|infer|predict)\w*\("))
        # running statistics: under `if self.training:` something of self is written
        _compiled.append(
            compile(
                rb"if self\.training:\r?\n(?:[^\n]*\n){0,8}?[^\n]*\bself\.\w+"
                rb"(?:[ \t]*[-+*]?=[^=]|\.(?:data\.)?(?:mul_|copy_|lerp_|add_)\()"
            )
        )
        # a cached method, or a cached function that makes tensors
        _compiled.append(
            compile(
                rb"@(?:functools\.)?(?:lru_)?cache\b[^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*def \w+"
                rb"(?:\(self|[^\n]*\n(?:[ \t]+[^\n]*\n|[ \t]*\n){0,12}?[ \t]+[^\n]*\b(?:torch\.(?:tensor|zeros|ones|empty|"
                rb"arange|linspace|randn?|full|eye)|\.to|\.cuda)\()"
            )
        )
    return _compiled


def admit(data: bytes) -> bool:
    """Whether the file with these bytes can hold a subject of some rule. Never decides that it has no meaning for
    others: a file that is not admitted is still parsed when a call resolves into it."""
    if b"torch" in data:
        return _subject(data)
    if not _subject(data):
        return False
    if any(name in data for name in FRAMEWORKS):
        return True
    if any(name in data for name in FOREIGN):
        return False
    return any(word in data for word in SURE) or b"oader" in data and b"rank" not in data or b"barrier(" in data and b"rank" in data


def _subject(data: bytes) -> bool:
    if b"backward(" in data or b".eval()" in data or b"training_step" in data:
        return True
    # the licence text at the top of a file says "distributed on an AS IS basis"
    licence = data.find(b"istributed on an", 0, 3000)
    if data.find(b"istributed", licence + 1) >= 0 or b"ightning" in data or b"ccelerat" in data:
        for word in PARTITIONED:
            if word in data:
                return True
    if b"rank" in data:
        for word in RANKS:
            if word in data:
                return True
    if b"oader" in data:
        for word in LOOPS:
            if word in data:
                return True
    if b"main_process" in data or b"barrier(" in data or b"all_reduce" in data or b"is_master" in data:
        return True
    if b"cpp_extension" in data or b"RawKernel(" in data or b"cudaMalloc" in data:
        return True
    if b"__getitem__" in data and b"ataset" in data:
        for word in FORKED:
            if word in data:
                return True
    if b"_hook(" in data and (b".append(" in data or b"] = " in data) and b"register_" in data:
        return True
    if (b"criterion(" in data or b"loss_fn(" in data) and _patterns()[0].search(data):
        return True
    if b"if self.training:" in data and _patterns()[1].search(data):
        return True
    if b"cache" in data and _patterns()[2].search(data):
        return True
    return b"env.step(" in data
