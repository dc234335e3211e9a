"""Which files can matter, and which of their functions: subject words, looked up in the bytes.

A word is a subject when a finding is *about* it (`.backward(`, `DataLoader(`, `all_reduce`). Words that only take part
(`no_grad`, `num_workers`) never admit a file: in a library of models they stand in every second one. The form is a
chain of `in`, because one regular expression with all the words takes ten times as long; and the words of distributed
training are looked for only where something distributed is named at all, in a twentieth of a library's files.
"""

from __future__ import annotations

from .search import contains_after, places, searcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

    from .search import Has

# --------------------------------------------------------------------------------------------------- admission

FRAMEWORKS = (
    b"ightning", b"ccelerat", b"deepspeed", b"horovod", b"mmengine", b"mmcv", b"transformers", b"cupy", b"ignite",
    b"fastai", b"megatron", b"composer", b"fabric",
)  # fmt: skip
"""Names other than `torch` that say: this is about PyTorch training."""

FOREIGN = (b"import paddle", b"import mxnet", b"import oneflow", b"import mindspore", b"import chainer", b"import jax")
"""Frameworks that share words with PyTorch; a file that imports one of them and never says torch is theirs."""

PARTITIONED = (
    b"all_reduce", b"all_gather", b"barrier(", b"_group(", b"ataParallel(", b"DP(", b"broadcast(", b"broadcast_obj",
    b"fully_shard", b"DistributedSampler(", b"reduce_scatter", b"all_to_all", b"gather_obj", b"gather_for_metrics",
    b"allreduce(", b"allgather(", b"init_device_mesh(", b"_step(self, batch", b"is_master", b"process_zero",
    b"process_index",
)  # fmt: skip
"""Subjects in a file that names something distributed, or Lightning."""

FORKED = (
    b"h5py", b"lmdb", b"sqlite", b"ZipFile(", b"tarfile", b"= open(", b"memmap(", b".cuda(", b'"cuda', b"'cuda",
    b"default_rng(", b"RandomState(", b"random.Random(",
)  # fmt: skip
"""What does not survive the fork into a loader's worker when a dataset holds it."""

BETWEEN = (b"wait_for_everyone", b"split_between_processes(", b"process_index")
"""Subjects in a file that imports accelerate."""

RUNTIME = (
    b"cudaEventCreate", b"cudaStreamCreate", b"cudaHostAlloc", b"cudaHostRegister", b"cudaGraphInstantiate",
    b"cudaStreamEndCapture", b"cudaIpcOpenMemHandle", b"cublasCreate", b"cudnnCreate", b"ncclCommInitRank",
    b"cuMemAlloc", b"cuMemHostAlloc", b"cuModuleLoad", b"cuStreamCreate", b"cuEventCreate", b"hipMalloc",
    b"hipHostMalloc", b"hipEventCreate", b"hipStreamCreate", b"nvrtcCreateProgram",
)  # fmt: skip
"""Calls that create something which a program in Python has to release itself."""

BINDINGS = (b"ctypes", b"cudart", b"cuda.bindings", b"from cuda", b"from hip")

IMPORTS = 8000
"""Bytes at the top of a file in which imports stand."""

LOOP_GOES_ON = (b":", b")", b",", b"(", b"]", b"[")
"""What follows the name of a loader where a loop goes over it."""

SURE = (
    b".backward(", b".eval()", b"DataLoader(", b"training_step", b"wait_for_everyone", b"is_main_process",
    b"init_process_group(", b"all_reduce(", b"all_gather", b"DistributedSampler(", b"DistributedDataParallel",
    b"rank_zero", b"cudaMalloc", b"barrier(",
)  # fmt: skip
"""Words that need no framework's name beside them: helper modules often import nothing."""


def admit(data: bytes) -> bool:
    """Whether the file with these bytes can hold a subject of some rule. This decides nothing about its meaning for
    others: a file that is not admitted is still parsed when a call resolves into it."""
    has = searcher(data)
    if has(data, b"torch"):
        return _subject(data, True, has)
    if not _subject(data, False, has):
        return False
    if any(has(data, name) for name in FRAMEWORKS):
        return True
    if any(has(data, name) for name in FOREIGN):
        return False
    if any(has(data, word) for word in SURE) or _loops_over_data(data):
        return True
    return _calls_runtime(data[: _end_of_imports(data)], data, has)


def _subject(data: bytes, torch: bool, has: Has) -> bool:
    # each look costs 0.1 to 0.6 ms per MB: the dozen over the whole file is the price of the gate
    if has(data, b"backward(") and _in_code(data, b"backward("):
        return True
    if has(data, b"training_step"):
        return True
    # the licence text at the top of a file says "distributed on an AS IS basis"
    licence = data.find(b"istributed on an", 0, 3000)
    if contains_after(data, b"istributed", licence + 1):
        for word in PARTITIONED:
            if has(data, word):
                return True
    if has(data, b"rank") and (has(data, b"barrier(") or has(data, b"all_reduce") or _asks_rank(data)):
        return True
    if has(data, b"oader") and (has(data, b"DataLoader(") or _loops_over_loader(data)):
        return True
    if has(data, b"main_process"):
        return True
    # words that begin with rarer letters than "re" and "se" are ruled out in half the time
    if has(data, b"r_forward") and has(data, b"register_forward") and has(data, b"_hook("):
        return True
    steps = has(data, b".step(")
    if steps and has(data, b".step(a"):
        return True
    # a loop over data is the dearest of all to look for: only where something else asks for one
    evaluates = has(data, b".eval()")
    loss = has(data, b"criterion(") or has(data, b"loss_fn(")
    loops = (loss or (evaluates and not steps)) and _loops_over_data(data)
    if (steps or loops) and evaluates and _in_code(data, b".eval()"):
        return True
    if loops and loss:
        return True
    if has(data, b".training:") and _keeps_statistics(data):
        return True
    return _subject_of_import(data, torch, has)


def _subject_of_import(data: bytes, torch: bool, has: Has) -> bool:
    """Subjects of special libraries, which are imported at the top of a file."""
    # up to the first class or function: a quarter of the bytes in a library of models
    head = data[: _end_of_imports(data)]
    if has(head, b"ccelerat"):
        for word in BETWEEN:
            if has(data, word):
                return True
    if has(head, b"ightning") and has(data, b"global_zero"):
        return True
    if has(data[:IMPORTS], b"ataset") and has(data, b"__getitem__"):  # often the base of the first class
        for word in FORKED:
            if has(data, word):
                return True
    if (has(head, b"Callback") or has(head, b"ightning")) and (
        has(data, b".should_training_stop =") or has(data, b".should_stop =")
    ):
        return True
    if has(head, b"Trainer") and has(data, b"def compute_loss("):
        return True
    if has(head, b"TrainingArg") and (has(data, b"TrainingArguments(") or has(data, b"dataloader_num_workers")):
        return True
    if torch:
        if has(head, b"optim") and has(data, b"Adagrad("):
            return True
        if has(head, b"lru_cache") and _caches_tensors(data):
            return True
        if has(head, b"cpp_extension") and has(data, b"load_inline"):
            return True
    if has(head, b"cupy") and has(data, b"RawKernel("):
        return True
    bound = has(head, b"ctypes") or has(head, b"cuda")
    if bound and has(data, b"cudaMalloc"):
        return True
    # each of `BINDINGS` holds one of the three
    return bool(bound or has(head, b"from hip")) and _calls_runtime(head, data, has)


def _calls_runtime(head: bytes, data: bytes, has: Has) -> bool:
    """CUDA or HIP is called from Python: through ctypes or its bindings."""
    return any(has(head, word) for word in BINDINGS) and any(has(data, word) for word in RUNTIME)


def _end_of_imports(data: bytes) -> int:
    """Where the first class or function of a file begins, as far as imports are looked for."""
    end = data.find(b"\nclass ", 0, IMPORTS)
    if end < 0:
        end = IMPORTS
    function = data.find(b"\ndef ", 0, end)
    return end if function < 0 else function


LOOPS, RANKS, STATISTICS, TENSORS = range(4)
_SOURCES = (
    # each starts with plain characters, which `re` looks for quickly; the first is not the `for` of a sentence
    rb"for (?<![^\s\"] for )[^\n]{1,200}? in [^\n]{0,200}?"
    rb"(?:oader|ataset|batch|epoch|tqdm|track\(|(?:\b|_)(?:data|iter|dl|queue|stream)\w{0,4}[:),])",
    rb"rank(?:(?<=get_rank)\(|(?<=local_rank)|(?<=global_rank)|(?<=is_rank)|(?<=not rank)\b|(?<=if rank):"
    rb"| ?[!=]= ?| > 0| in [(\[]|_zero|_?0|\(\))",
    rb"self\.\w+(?: *[-+*]?= |\.(?:data\.)?(?:mul_|copy_|lerp_|add_)\()",
    rb"torch\.(?:tensor|zeros|ones|empty|arange|randn?|full|eye)\(",
)
_compiled: dict[int, Pattern[bytes]] = {}


def _pattern(which: int) -> Pattern[bytes]:
    """Compiled when it is first needed: each takes a fifth of a millisecond."""
    if which not in _compiled:
        from .patterns import compiled

        _compiled[which] = compiled(_SOURCES[which])
    return _compiled[which]


def _before(data: bytes, at: int) -> bytes:
    """What stands before `at` in its line, the last 300 bytes of it: a generated file may be one line."""
    start = max(at - 300, 0)
    return data[max(data.rfind(b"\n", start, at) + 1, start) : at]


def _asks_rank(data: bytes) -> bool:
    """A rank is asked for or compared."""
    match = _pattern(RANKS).match
    return any(match(data, at) for at in places(data, b"rank"))


def _loops_over_data(data: bytes) -> bool:
    """A loop here goes over batches, epochs or a data set, by the name of what it goes over."""
    for found in _pattern(LOOPS).finditer(data):
        at = found.start()
        if _before(data, at).strip() in (b"", b'"'):  # a quote: the line of a notebook's cell
            return True
    return False


def _loops_over_loader(data: bytes) -> bool:
    """A line goes over something called a loader, or takes the next of it."""
    for at in places(data, b"oader"):
        if data[at + 5 : at + 6] in LOOP_GOES_ON:
            before = _before(data, at)
            if (b"for " in before and b" in " in before) or b"next(" in before:
                return True
    return False


def _in_code(data: bytes, word: bytes) -> bool:
    """The word stands outside comments and doctests; `backward` is not being defined, nor in save_for_backward."""
    for at in places(data, word):
        before = _before(data, at)
        if b"#" not in before and b">>>" not in before and not before.endswith((b"def ", b"save_for_")):
            return True
    return False


def _keeps_statistics(data: bytes) -> bool:
    """Under `if self.training:` something of self is written: running means, codebooks, weights of an average."""
    search = _pattern(STATISTICS).search
    return any(search(data, at + 17, at + 400) for at in places(data, b"if self.training:"))


def _caches_tensors(data: bytes) -> bool:
    """A cached method (the cache holds self), or a cached function that makes tensors."""
    at = data.find(b"@lru_cache")
    while at >= 0:
        head = data.find(b"def ", at)
        if head < 0:
            return False
        end = data.find(b"def ", head + 4, head + 1500)
        body = data[head : end if end >= 0 else head + 1500]
        if (b"(self" in body[:80] and b"orch." in body) or _pattern(TENSORS).search(body):
            return True
        at = data.find(b"@lru_cache", head)
    return False


# ---------------------------------------------------------------------------------------- words of a function

RANK = "rank"
LOADER = "loader"
RANK_WORDS = frozenset((RANK, "main_process", "process_index", "process_zero", "global_zero", "is_master"))
"""Words of the lines that ask which rank this is ("rank" stands for all comparisons and readings of a rank)."""

_TOKENS = {
    # bytes: word; the word "" is the bytes themselves
    "backward(": "backward", ".eval()": "eval", "criterion(": "criterion", "loss_fn(": "loss_fn", "_graph=": "",
    "lru_cache": "", "empty_cache(": "empty_cache", ".item()": "item", "if self.training:": "self.training",
    ".step(a": "env.step", "ataParallel(": "DataParallel", "fully_shard": "", "all_reduce": "", "all_gather": "",
    "all_to_all": "", "allreduce(": "allreduce", "barrier(": "barrier", "reduce_scatter": "", "wait_for_everyone": "",
    "main_process": "", "process_index": "", "process_zero": "", "global_zero": "", "is_master": "", "num_workers": "",
    "pin_memory": "", "set_epoch(": "set_epoch", "state_dict(": "state_dict", "__getitem__": "", "collate_fn": "",
    "set_device(": "set_device", "load_inline(": "load_inline", "RawKernel(": "RawKernel", "cudaMalloc": "",
}  # fmt: skip
_FAMILIES = {
    # looked for only where the first bytes are found
    "ing_step(": ("training_step(",),
    "st_step(": ("test_step(",),
    "ion_step(": ("validation_step(",),
    "ict_step(": ("predict_step(",),
    "DP(": ("DDP(", "FSDP("),
    "Sampler(": ("DistributedSampler(",),
    "roadcast": ("broadcast(", "broadcast_"),
    "gather": ("gather_object", "gather_for_metrics", ".gather("),
    "_group(": ("init_process_group(", "new_group(", "destroy_process_group("),
    "_hook(": ("register_forward", "register_hook(", "register_full_backward"),
}  # fmt: skip

_bytes: list[tuple[bytes, str]] = []
_families: list[tuple[bytes, list[tuple[bytes, str]]]] = []


def word_lines(data: bytes) -> list[tuple[int, str]]:
    """(line from 1, word) of every subject word in a file, sorted; a word once per line.

    Words are names without the punctuation that the search uses: "backward", "all_reduce", "DDP", "loader" (something
    called a loader is looped over or built), "rank"."""
    if not _bytes:
        _bytes.extend((token.encode(), word or token) for token, word in _TOKENS.items())
        for start, tokens in _FAMILIES.items():
            _families.append((start.encode(), [(token.encode(), token.strip("._(")) for token in tokens]))
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    has = searcher(data)
    found: list[tuple[int, str]] = []
    for token, word in _bytes:
        if has(data, token):
            found.extend([(at, word) for at in places(data, token)])
    for first, family in _families:
        if has(data, first):
            for token, word in family:
                found.extend([(at, word) for at in places(data, token)])
    if has(data, b"rank"):
        match = _pattern(RANKS).match
        found.extend([(at, RANK) for at in places(data, b"rank") if match(data, at)])
    for at in places(data, b"oader"):
        if data[at + 5 : at + 6] in LOOP_GOES_ON:
            found.append((at, "DataLoader" if data[at - 5 : at + 6] == b"DataLoader(" else LOADER))
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
