"""Which files can matter, and which of their functions: subject words, looked up in the bytes.

A word is a subject when a finding is *about* it (`.backward(`, `DataLoader(`, `all_reduce`). Words that only take part
(`no_grad`, `num_workers`) never admit a file: in a library of models they stand in every second one. The form is a
chain of `in`, because one regular expression with all the words takes ten times as long; and the words of distributed
training are looked for only where something distributed is named at all, in a twentieth of a library's files.
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

FOREIGN = (b"import paddle", b"import mxnet", b"import oneflow", b"import mindspore", b"import chainer", b"import jax")
"""Frameworks that share words with PyTorch; a file that imports one of them and never says torch is theirs."""

PARTITIONED = (
    b"ataParallel(", b"DDP(", b"FSDP(", b"fully_shard", b"all_reduce", b"allreduce(", b"barrier(", b"all_gather",
    b"allgather(", b"broadcast(", b"broadcast_object_list", b"reduce_scatter", b"all_to_all", b"gather_object",
    b"gather_for_metrics", b"wait_for_everyone", b"init_process_group(", b"new_group(", b"init_device_mesh(",
    b"DistributedSampler(", b"validation_step", b"test_step", b"predict_step", b"is_master", b"global_zero",
    b"process_zero", b"process_index",
)  # fmt: skip
"""Subjects in a file that names something distributed, or Lightning."""

RANKS = (
    b"get_rank(", b"rank == 0", b"rank != 0", b"rank > 0", b"rank==0", b"rank in (", b"rank in [", b"if rank:",
    b"not rank", b"local_rank", b"rank_zero", b"global_rank", b"is_rank", b"rank0", b"rank_0", b"rank()",
)  # fmt: skip

FORKED = (
    b"h5py", b"lmdb", b"sqlite", b"ZipFile(", b"tarfile", b"= open(", b"memmap(", b".cuda(", b'"cuda', b"'cuda",
    b"default_rng(", b"RandomState(", b"random.Random(",
)  # fmt: skip
"""What does not survive the fork into a loader's worker when a dataset holds it."""

SURE = (
    b".backward(", b".eval()", b"DataLoader(", b"training_step", b"wait_for_everyone", b"is_main_process",
    b"init_process_group(", b"all_reduce(", b"all_gather", b"DistributedSampler(", b"DistributedDataParallel",
    b"rank_zero", b"cudaMalloc", b"barrier(",
)  # fmt: skip
"""Words that need no framework's name beside them: helper modules often import nothing."""


def admit(data: bytes) -> bool:
    """Whether the file with these bytes can hold a subject of some rule. This decides nothing about its meaning for
    others: a file that is not admitted is still parsed when a call resolves into it."""
    if b"torch" in data:
        return _subject(data)
    if not _subject(data):
        return False
    if any(name in data for name in FRAMEWORKS):
        return True
    if any(name in data for name in FOREIGN):
        return False
    return any(word in data for word in SURE) or _loops_over_data(data)


def _subject(data: bytes) -> bool:
    # each `in` costs 0.3 ms per MB: 20 of them are the price of the gate
    if b"backward(" in data and _in_code(data, b"backward("):
        return True
    if b".eval()" in data and _in_code(data, b".eval()") and _loops_over_data(data):
        return True
    if b"training_step" in data or b"wait_for_everyone" in data:
        return True
    # the licence text at the top of a file says "distributed on an AS IS basis"
    licence = data.find(b"istributed on an", 0, 3000)
    if data.find(b"istributed", licence + 1) >= 0 or b"ightning" in data:
        for word in PARTITIONED:
            if word in data:
                return True
    if b"rank" in data:
        for word in RANKS:
            if word in data:
                return True
    if b"oader" in data and (b"DataLoader(" in data or _loops_over_loader(data)):
        return True
    if b"main_process" in data or b"barrier(" in data or b"all_reduce" in data:
        return True
    if b"__getitem__" in data and b"ataset" in data:
        for word in FORKED:
            if word in data:
                return True
    if b"register_forward" in data and b"_hook(" in data:
        return True
    if (b"criterion(" in data or b"loss_fn(" in data) and _loops_over_data(data):
        return True
    if b"if self.training:" in data and _keeps_statistics(data):
        return True
    if b"@lru_cache" in data and _caches_tensors(data):
        return True
    return b"load_inline(" in data or b"RawKernel(" in data or b"cudaMalloc" in data or b"env.step(" in data


LOADER_LOOP = (
    rb"\bfor [^\n]{1,200}? in [^\n]*?oader(?:s\[\w+\]|\d|_\w+)?(?:\(\))?[\]:),]|next\((?:iter\()?[\w.]*(?:oader|_iter)"
)

_compiled: list[Pattern[bytes]] = []


def _patterns() -> list[Pattern[bytes]]:
    if not _compiled:
        from re import compile

        _compiled.append(
            compile(
                rb"[\n\"][ \t]*for [^\n]{1,200}? in [^\n]*?"
                rb"(?:oader|ataset|batch|epoch|tqdm|track\(|(?:\b|_)(?:data|iter|dl|queue|stream)\w{0,4}[:),])"
            )
        )
        _compiled.append(compile(LOADER_LOOP))
        _compiled.append(compile(rb"\bself\.\w+(?: *[-+*]?= |\.(?:data\.)?(?:mul_|copy_|lerp_|add_)\()"))
        _compiled.append(compile(rb"def \w+\(self|\btorch\.(?:tensor|zeros|ones|empty|arange|rand|full|eye)|\.cuda\("))
    return _compiled


def _loops_over_data(data: bytes) -> bool:
    """A loop here goes over batches, epochs or a data set, by the name of what it goes over."""
    return _patterns()[0].search(data) is not None


def _loops_over_loader(data: bytes) -> bool:
    return _patterns()[1].search(data) is not None


def _in_code(data: bytes, word: bytes) -> bool:
    """The word stands outside comments and doctests, and (`backward`) is neither defined nor part of save_for_backward."""
    at = data.find(word)
    while at >= 0:
        before = data[data.rfind(b"\n", 0, at) + 1 : at]
        if b"#" not in before and b">>>" not in before and not before.endswith((b"def ", b"save_for_")):
            return True
        at = data.find(word, at + 1)
    return False


def _keeps_statistics(data: bytes) -> bool:
    """Under `if self.training:` something of self is written: running means, codebooks, weights of an average."""
    at = data.find(b"if self.training:")
    while at >= 0:
        if _patterns()[2].search(data, at + 17, at + 400):
            return True
        at = data.find(b"if self.training:", at + 17)
    return False


def _caches_tensors(data: bytes) -> bool:
    """A cached method (the cache holds self), or a cached function that makes tensors."""
    at = data.find(b"@lru_cache")
    while at >= 0:
        if _patterns()[3].search(data, at, at + 500):
            return True
        at = data.find(b"@lru_cache", at + 10)
    return False


# ---------------------------------------------------------------------------------------- words of a function

RANK = "rank"
LOADER = "loader"
RANK_WORDS = frozenset((RANK, "main_process", "process_index", "process_zero", "global_zero", "is_main", "is_master"))
COLLECTIVE_WORDS = frozenset((
    "all_reduce", "all_gather", "all_to_all", "allreduce", "allgather", "barrier", "broadcast", "reduce_scatter", "gather",
    "gather_object", "gather_for_metrics", "wait_for_everyone", "init_process_group", "new_group", "destroy_process_group",
))  # fmt: skip
GRAPH_WORDS = frozenset((
    "backward", "eval", "training_step", "validation_step", "test_step", "predict_step", "criterion", "loss_fn", "loss_func",
    "cross_entropy", "retain_graph", "create_graph", "register_forward", "register_hook", "register_full_backward",
    "lru_cache", "empty_cache", "item", "self.training", "env.step",
))  # fmt: skip
LOADER_WORDS = frozenset((
    "DataLoader", LOADER, "DistributedSampler", "num_workers", "pin_memory", "set_epoch", "__getitem__", "collate_fn",
))  # fmt: skip
WRAP_WORDS = frozenset(("DataParallel", "DDP", "FSDP", "fully_shard", "set_device", "state_dict", "sync_batchnorm"))
NATIVE_WORDS = frozenset(("load_inline", "RawKernel", "cudaMalloc"))

_TOKENS = (
    # (what a file has to hold before the others are looked for, (bytes, word)...); the first alone: it is its own word
    ("backward(", ("backward(", "backward")),
    (".eval()", (".eval()", "eval")),
    ("_step(", ("training_step(", "training_step"), ("validation_step(", "validation_step"), ("test_step(", "test_step"),
     ("predict_step(", "predict_step"), ("env.step(", "env.step")),
    ("oader", ("DataLoader(", "DataLoader"), ("oader:", LOADER), ("oader)", LOADER), ("oader, ", LOADER), ("oader(", LOADER)),
    ("ataParallel(", ("ataParallel(", "DataParallel")),
    ("DP(", ("DDP(", "DDP"), ("FSDP(", "FSDP")),
    ("Sampler(", ("DistributedSampler(", "DistributedSampler")),
    ("fully_shard", ("fully_shard", "fully_shard")),
    ("all_", ("all_reduce", "all_reduce"), ("all_gather", "all_gather"), ("all_to_all", "all_to_all")),
    ("allreduce", ("allreduce", "allreduce")),
    ("allgather", ("allgather", "allgather")),
    ("barrier(", ("barrier(", "barrier")),
    ("roadcast", ("broadcast(", "broadcast"), ("broadcast_", "broadcast")),
    ("reduce_scatter", ("reduce_scatter", "reduce_scatter")),
    ("gather", ("gather_object", "gather_object"), ("gather_for_metrics", "gather_for_metrics"), (".gather(", "gather")),
    ("_group(", ("init_process_group(", "init_process_group"), ("new_group(", "new_group"),
     ("destroy_process_group(", "destroy_process_group")),
    ("process", ("main_process", "main_process"), ("process_index", "process_index"), ("process_zero", "process_zero")),
    ("wait_for_everyone", ("wait_for_everyone", "wait_for_everyone")),
    ("rank", *((word, RANK) for word in (
        "get_rank(", "rank ==", "rank !=", "rank >", "rank==", "rank in ", "if rank", "not rank", "local_rank", "rank_zero",
        "global_rank", "is_rank", "rank0", "rank_0", "rank()"))),
    ("is_", ("is_main", "is_main"), ("is_master", "is_master"), ("is_global_zero", "global_zero")),
    ("_hook(", ("register_forward", "register_forward"), ("register_hook(", "register_hook"),
     ("register_full_backward", "register_full_backward")),
    ("cache", ("lru_cache", "lru_cache"), ("@cache", "lru_cache"), ("functools.cache", "lru_cache"),
     ("empty_cache(", "empty_cache")),
    ("_graph=", ("retain_graph=", "retain_graph"), ("create_graph=", "create_graph")),
    ("criterion(", ("criterion(", "criterion")),
    ("loss", ("loss_fn(", "loss_fn"), ("loss_func(", "loss_func"), ("loss_fct(", "loss_func"), ("losses.append(", "criterion"),
     ("loss +=", "criterion")),
    ("cross_entropy(", ("cross_entropy(", "cross_entropy")),
    ("num_workers", ("num_workers", "num_workers")),
    ("pin_memory", ("pin_memory", "pin_memory")),
    ("set_epoch(", ("set_epoch(", "set_epoch")),
    ("state_dict(", ("state_dict(", "state_dict")),
    (".item()", (".item()", "item")),
    ("__getitem__", ("__getitem__", "__getitem__")),
    ("collate_fn", ("collate_fn", "collate_fn")),
    ("if self.training:", ("if self.training:", "self.training")),
    ("set_device(", ("set_device(", "set_device")),
    ("sync_batchnorm", ("sync_batchnorm", "sync_batchnorm")),
    ("load_inline(", ("load_inline(", "load_inline")),
    ("RawKernel(", ("RawKernel(", "RawKernel")),
    ("cudaMalloc", ("cudaMalloc", "cudaMalloc")),
)  # fmt: skip

_bytes: list[tuple[bytes, list[tuple[bytes, str]]]] = []


def word_lines(data: bytes) -> list[tuple[int, str]]:
    """(line from 1, word) of every subject word in a file, sorted by line; a word once per line.

    The words are names without the punctuation that the search uses: "backward", "all_reduce", "rank" (for every
    comparison of a rank), "loader"; see the `*_WORDS` sets."""
    if not _bytes:
        for first, *tokens in _TOKENS:
            _bytes.append((first.encode(), [(token.encode(), word) for token, word in tokens]))
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[tuple[int, str]] = []
    for first, tokens in _bytes:
        if first in data:
            for token, word in tokens:
                at = data.find(token)
                while at >= 0:
                    found.append((at, word))
                    at = data.find(token, at + 1)
    found.sort()
    out: list[tuple[int, str]] = []
    line, counted = 1, 0
    last: tuple[int, str] | None = None
    for at, word in found:
        line += data.count(b"\n", counted, at)
        counted = at
        row = (line, word)
        if row != last:
            out.append(row)
            last = row
    return out
