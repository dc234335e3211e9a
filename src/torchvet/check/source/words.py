"""Which files can matter, and which of their functions: subject words, looked up in the bytes.

A word is a subject when a finding is *about* it (`.backward(`, `DataLoader(`, `all_reduce`). Words that only take part
(`no_grad`, `num_workers`) never admit a file: in a library of models they stand in every second one. The form is a chain
of `in`, because one regular expression with all the words takes ten times as long; and the words of distributed training
are looked for only where something distributed is named at all, a twentieth of the files of a library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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

        _compiled.append(compile(rb"def \w*(?:eval|valid|test|train|fit|epoch|step|infer|predict)\w*\("))
        _compiled.append(compile(rb"\bself\.\w+(?: *[-+*]?= |\.(?:data\.)?(?:mul_|copy_|lerp_|add_)\()"))
        _compiled.append(compile(rb"def \w+\(self|\b(?:torch\.(?:tensor|zeros|ones|empty|arange|randn?|full|eye)|\.cuda)\("))
    return _compiled


def _trains(data: bytes) -> bool:
    """A function here trains or evaluates, by its name."""
    return _patterns()[0].search(data) is not None


def _keeps_statistics(data: bytes) -> bool:
    """Under `if self.training:` something of self is written: running means, codebooks, weights of an average."""
    at = data.find(b"if self.training:")
    while at >= 0:
        if _patterns()[1].search(data, at + 17, at + 400):
            return True
        at = data.find(b"if self.training:", at + 17)
    return False


def _caches_tensors(data: bytes) -> bool:
    """A cached method (the cache holds self), or a cached function that makes tensors."""
    at = data.find(b"@lru_cache")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        line = data[start:at].strip()
        if line in (b"@", b"@lru_", b"@functools.", b"@functools.lru_") and _patterns()[2].search(data, at, at + 600):
            return True
        at = data.find(b"cache", at + 5)
    return False


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
    return any(word in data for word in SURE) or (b"oader" in data and b"rank" not in data) or (b"barrier(" in data and b"rank" in data)


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
    if (b"criterion(" in data or b"loss_fn(" in data) and _trains(data):
        return True
    if b"if self.training:" in data and _keeps_statistics(data):
        return True
    if b"@lru_cache" in data and _caches_tensors(data):
        return True
    return b"env.step(" in data


# ---------------------------------------------------------------------------------------- words of a function

_ALONE = (
    "backward(", "all_reduce", "barrier(", "all_gather", "reduce_scatter", "all_to_all", "fully_shard", "_step(", "retain_graph",
    "create_graph", "empty_cache", ".item()", "lru_cache", "num_workers", "pin_memory", "set_epoch", "state_dict(", "save(",
    "zero_grad", "env.step(", "cpp_extension", "RawKernel(", "cudaMalloc", ".append(", ".eval()", "__getitem__", "allreduce",
    "allgather", "set_device", "self.log(", "SyncBatchNorm", "sync_batchnorm", "clip_grad", "requires_grad", "collate_fn",
)  # fmt: skip
_FAMILIES = {
    "oader": ("DataLoader(", "oader:", "oader):", "oader)):", "oader, "),
    "roadcast": ("broadcast(", "broadcast_object_list", "broadcast_"),
    "gather_": ("gather_object", "gather_for_metrics", "gather_tensor"),
    "istributed": ("DistributedDataParallel", "DistributedSampler(", "is_distributed", "DistributedOptimizer"),
    "ataParallel": ("DataParallel(", "FullyShardedDataParallel"),
    "DP(": ("DDP(", "FSDP("),
    "_group(": ("init_process_group(", "new_group(", "destroy_process_group("),
    "_hook(": ("register_forward_hook(", "register_hook(", "register_full_backward_hook(", "register_forward_pre_hook("),
    "process": ("main_process", "process_index", "wait_for_everyone", "world_process_zero", "local_process_zero"),
    "rank": (*(w.decode() for w in RANKS), "rank=="),
    "_zero": ("global_zero", "rank_zero", "process_zero"),
    "master": ("is_master", "master_process", "is_main"),
    "loss": ("criterion(", "loss_fn(", "loss_func(", "loss_fct(", "cross_entropy("),
}  # fmt: skip
