# ruff: noqa: E501
"""What single lines of logs say: one table of (literal, regular expression, kind of fact).

A row's expression runs only on lines that hold its literal. Named groups become values of the fact: numbers as numbers,
SIZES ("12.5 GiB") as bytes, LISTS ("0, 3") as lists. Sentences of advice ("this might be caused by ...") are cut off
before the search: they tell what could be, not what was. Shapes: PyTorch 1.8 to 2.13 (ProcessGroupNCCL.cpp,
ProcessGroupGloo.cpp, ProcessGroupWrapper.cpp, TraceUtils.h, CUDACachingAllocator.cpp, reducer.cpp, signal_handling.py,
TCPStore.cpp), gloo, NCCL 2.8 to 2.28, Linux kmsg, Slurm 20 to 24.
"""

from __future__ import annotations

import re

from ..model import MEDIUM, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIZES = {"request", "capacity", "free", "process_size", "allocated", "reserved", "allowed", "used", "total"}
LISTS = {"ranks", "joined_ranks", "indices", "pids"}
_UNITS = {"": 1, "b": 1, "bytes": 1, "byte": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([\d.]+)\s*([A-Za-z]*)")

ADVICE = re.compile(
    rb"(?i)\b(?:might|may|could|can) (?:also )?(?:be|have|not be)\b|\bit is possible that\b|\btypically\b|\bpossibly\b|\bplease\b"
    rb"|\bconsider\b|\btry (?:setting|to|increasing|reducing)\b|\busually\b|\bif you (?:already|believe|want|need)\b|\byou can\b"
    rb"|\bdid you\b|\bfor debugging\b|\bcommon causes\b|\bif reserved but\b|\bmake sure\b"
)
_ADVICE_HINTS = (
    b"ight ", b"ay ", b"ould ", b"can ", b"ossib", b"ypically", b"lease", b"onsider", b"ry ", b"sually", b"f you",
    b"ou can", b"id you", b"or debugging", b"ommon causes", b"f reserved", b"ake sure",
)  # fmt: skip
_SENTENCE = re.compile(rb"(?<=[.!?)])\s+(?=[A-Z`])|(?<=\.)\s+(?=[a-z])")


RAW = {"nccl-warn"}
"""Kinds whose lines hold "please" and the like in the middle of what they say."""


class Pattern:
    __slots__ = ("kind", "literal", "quality", "regex", "values")

    def __init__(self, kind: str, literal: bytes, regex: bytes, quality: str = STRONG, **values: Any) -> None:
        self.kind = kind
        self.literal = literal
        self.regex = re.compile(regex)
        self.quality = quality
        self.values = values


P = Pattern
GROUP = re.compile(
    rb"\[PG (?:ID (?P<pgid>\d+) PG GUID (?P<group>\w*)(?:\((?P<description>[^)]*)\))?|(?P<old>\d+)(?: \((?P<odesc>[^)]*)\))?)"
    rb" Rank (?P<group_rank>\d+)\]"
)
"""The process group that a line of ProcessGroupNCCL speaks of: three generations of the prefix."""
_FINGERPRINT = (
    rb"CollectiveFingerPrint\((?:SequenceNumber=(?P<%(s)s_seq>\d+),? ?)?OpType=(?P<%(s)s_op>\w+)"
    rb"(?:, TensorShape=\[(?P<%(s)s_shape>[^\]]*)\], TensorDtypes=(?P<%(s)s_dtypes>\w+))?"
)
_GB = rb"[\d.]+ ?[KMGT]?i?[Bb](?:ytes)?"

PATTERNS: tuple[Pattern, ...] = (
    # ProcessGroupNCCL's watchdog: the rank that prints waited; its numbers are per group
    P("watchdog", b"Watchdog caught collective", rb"(?:\[Rank (?P<r>\d+)\] )?Watchdog caught collective operation timeout: "
      rb"WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)(?:, TensorShape=\[(?P<shape>[^\]]*)\])?(?:, Numel(?:In)?=(?P<numel_in>\d+))?"
      rb"(?:, NumelOut=(?P<numel_out>\d+))?(?:, Timeout\(ms\)=(?P<timeout_ms>\d+))?[^)]*\) ran for (?P<ran_ms>\d+) milliseconds"),
    P("progress", b"watchdog at work", rb"detected by watchdog at work(?: sequence id)?: (?P<seq>\d+),?"
      rb"(?: PG status:)? last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)", by="log"),
    P("progress", b"at NCCL work:", rb"Timeout at NCCL work: (?P<seq>\d+), last enqueued NCCL work: (?P<enqueued>-?\d+),"
      rb" last completed NCCL work: (?P<completed>-?\d+)", by="log"),
    P("progress", b"hit in NCCL work", rb"Exception hit in NCCL work: (?P<seq>\d+)(?:, last enqueued NCCL work:"
      rb" (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+))?", by="log"),
    P("dump-signal", b"eceived a dump signal", rb"Received a dump signal due to a collective timeout from\s+(?:this local rank|rank\s+(?P<peer>-?\d+))"
      rb".*?Last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"),
    P("heartbeat", b"watchdog got stuck", rb"watchdog got stuck for (?P<seconds>\d+) ?(?:seconds|milliseconds)"),
    P("heartbeat", b"eartbeat monitor timed out", rb"Heartbeat monitor timed out"),
    P("gil", b"ould not acquire GIL", rb"Could not acquire GIL within (?P<ms>\d+) ?ms"),
    P("async-error", b"hread terminated with exception", rb"[Ww]atchdog thread terminated with exception: (?P<message>.+)"),
    P("async-error", b"following async exception", rb"raised the following async exception: (?P<message>.+)"),
    # TORCH_NCCL_DESYNC_DEBUG (TraceUtils.h)
    P("absent", b"lagging ranks that", rb"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout\. They never joined any collectives", by="desync"),
    P("behind", b"but didn't finish collective", rb"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)", what="unfinished"),
    P("behind", b"but didn't join collective", rb"\[(?P<ranks>[\d, ]+)\] finished collective #(?P<seq>\d+), but didn't join collective #(?P<next>\d+)", what="not joined"),
    # TORCH_DISTRIBUTED_DEBUG=DETAIL (ProcessGroupWrapper.cpp)
    P("mismatch", b"etected mismatch between collectives", rb"Detected mismatch between collectives on ranks\. Rank (?P<a_rank>\d+) is running (?:inconsistent )?collective: "
      + _FINGERPRINT % {b"s": b"a"} + rb"(?:.*?, but Rank (?P<b_rank>\d+) is running collective: " + _FINGERPRINT % {b"s": b"b"} + rb")?"),
    # monitored_barrier: rank 0 knows who is missing, the others only point at rank 0
    P("absent", b"to pass monitoredBarrier", rb"\[Rank 0\]: Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier in (?P<ms>\d+) ms", by="monitored-barrier"),
    P("lost", b"reached monitoredBarrier", rb"Rank (?P<r>\d+) successfully reached monitoredBarrier, but received errors", how="victim-barrier", backend="gloo"),
    # gloo: who prints this waited for or lost a peer
    P("lost", b"imed out waiting", rb"Timed out waiting (?P<ms>\d+) ?ms for (?P<direction>send|recv) operation to complete", how="timeout", backend="gloo"),
    P("lost", b"onnection closed by peer", rb"Connection closed by peer(?: \[(?P<address>[^\]]+)\]:(?P<port>\d+))?", how="closed", backend="gloo"),
    P("lost", b"ead error [", rb"Read error \[(?P<address>[^\]]+)\]:(?P<port>\d+)", how="reset", backend="gloo"),
    P("lost", b"Application timeout caused", rb"Application timeout caused pair closure", how="timeout", backend="gloo"),
    P("size", b"op.preamble.length", rb"op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs (?P<want>\d+)", backend="gloo"),
    P("lost", b"ncclRemoteError", rb"ncclRemoteError", how="remote", backend="nccl"),
    P("lost", b"rank exited or there was", rb"remote process exited or there was a network error", how="remote", backend="nccl"),
    P("lost", b"ecv, got 0 bytes", rb"(?i)failed to recv, got 0 bytes", how="store", backend="store"),
    P("lost", b"failed on SocketImpl", rb"(?:recvValue(?:WithTimeout)?|sendBytes|recvVector) failed on SocketImpl", how="store", backend="store"),
    P("lost", b"ump\" flag", rb"Failed to check the \"should dump\" flag on TCPStore", how="store", backend="store"),
    P("lost", b"Broken pipe", rb"(?:BrokenPipeError|Broken pipe)", how="socket", backend="store"),
    P("lost", b"onnection reset by peer", rb"^(?!.*(?:https?:|HTTP|urllib|requests\.|botocore|Connection aborted)).*Connection reset by peer", how="reset", backend="socket"),
    # DistributedDataParallel (reducer.cpp, distributed.py, join.py)
    P("ddp", b"Expected to have finished reduction", rb"Expected to have finished reduction in the prior iteration", what="unused"),
    P("ddp", b"to mark a variable ready only once", rb"Expected to mark a variable ready only once", what="twice"),
    P("ddp", b"did not receive grad for rank", rb"Parameter indices which did not receive grad for rank (?P<about>\d+): (?P<indices>[\d ]+)", what="indices"),
    P("ddp", b"Parameters which did not receive", rb"Parameters which did not receive grad for rank (?P<about>\d+): (?P<parameters>[\w., ]+)", what="indices"),
    P("ddp", b"expects same model across", rb"DDP expects same model across all ranks, but Rank (?P<about>\d+) has (?P<mine>\d+) params, while rank (?P<other>\d+) has inconsistent (?P<theirs>\d+)", what="shape"),
    P("ddp", b"in this process with sizes", rb"(?:params|parameter)\[(?P<index>\d+)\] in this process with sizes \[(?P<mine>[\d, ]*)\] appears not to match (?:sizes|strides) of the same param in process (?P<other>\d+)", what="shape"),
    P("ddp", b"at least one rank that exhausted", rb"Detected at least one rank that exhausted inputs", what="uneven"),
    # CUDA memory (CUDACachingAllocator.cpp): new wording, torch 2.1 (with the typing error), old wordings
    P("cuda-oom", b" out of memory", rb"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (?P<request>" + _GB + rb")\. GPU (?P<gpu>\d+) has a total capaci?ty of (?P<capacity>" + _GB
      + rb")(?: of which (?P<free>" + _GB + rb") is free)?\.(?P<others>(?: Process \d+ has " + _GB + rb" memory in use\.)*)(?: Including non-PyTorch memory, this process has (?P<process_size>" + _GB
      + rb") memory in use\.)?(?: (?P<allowed>" + _GB + rb") allowed;)?.*?(?:Of the allocated memory )?(?P<allocated>" + _GB + rb") is allocated by PyTorch(?:, with .*?private pools(?: \([^)]*\))?)?,? and (?P<reserved>" + _GB + rb") is reserved by PyTorch but unallocated"),
    P("cuda-oom", b" out of memory", rb"(?:CUDA|HIP|NPU|MLU|MUSA) out of memory\. Tried to allocate (?P<request>" + _GB + rb") \([GN]PU (?P<gpu>\d+); (?P<capacity>" + _GB + rb") total capacity; (?P<allocated>" + _GB
      + rb") already allocated;(?: " + _GB + rb" current active;)? (?P<free>" + _GB + rb") free; (?:(?P<held>" + _GB + rb") reserved in total by PyTorch|(?P<reserved>" + _GB + rb") cached)"),
    P("cuda-oom", b" out of memory", rb"\b(?:CUDA|HIP|XPU|NPU|MLU|MUSA|MPS backend) out of memory(?: \([^)]*\))?(?:\. Tried to allocate (?P<request>" + _GB + rb"))?", MEDIUM),
    P("cuda-oom", b"rror: out of memory", rb"(?:CUDA|HIP)(?: driver)? error: out of memory", MEDIUM, what="driver"),
    P("cuda-oom", b"xceed allowed memory", rb"Allocation on device (?P<gpu>\d+) would exceed allowed memory", MEDIUM, what="async"),
    P("cuda-oom", b"_ALLOC_FAILED", rb"\b(?:CUDNN_STATUS|CUFFT|CUSOLVER_STATUS|CUSPARSE_STATUS)_ALLOC_FAILED", MEDIUM, what="library"),
    P("cuda-oom", b"Cuda failure", rb"Cuda failure (?:\d+ )?'out of memory'", MEDIUM, what="nccl"),
    P("cuda-oom", b"CUBLAS_STATUS_ALLOC_FAILED", rb"CUBLAS_STATUS_ALLOC_FAILED", MEDIUM, what="cublas"),
    # host memory
    P("host-alloc", b"can't allocate memory", rb"DefaultCPUAllocator: (?:can't|not enough memory).*?you tried to allocate (?P<request>\d+)", what="allocator"),
    P("host-alloc", b"not enough memory: you tried", rb"DefaultCPUAllocator: not enough memory: you tried to allocate (?P<request>\d+)", what="allocator"),
    P("host-alloc", b"MemoryError", rb"^\s*(?:numpy\.\S*)?(?:_Array)?MemoryError\b(?:: Unable to allocate (?P<request>" + _GB + rb"))?", what="python"),
    P("host-alloc", b"bad_alloc", rb"std::bad_alloc", what="bad_alloc"),
    P("host-alloc", b"paging file is too small", rb"\[WinError 1455\]", what="paging file"),
    P("host-alloc", b"annot allocate memory", rb"(?:\[Errno 12\]|OSError.*|fork.*|clone.*|mmap.*)[^\n]*Cannot allocate memory", what="errno 12"),
    # DataLoader (signal_handling.py, dataloader.py) and shared memory
    P("worker", b"is killed by signal", rb"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?P<signal>[A-Za-z ]+)\."),
    P("worker", b"exited unexpectedly", rb"DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]+)\) exited unexpectedly(?: with exit code (?P<code>-?\d+))?"),
    P("worker", b"ataLoader timed out", rb"DataLoader timed out after (?P<timeout>[\d.]+) seconds"),
    P("worker", b"Pin memory thread exited", rb"Pin memory thread exited unexpectedly", MEDIUM, what="pin"),
    P("shm", b"nexpected bus error", rb"ERROR: Unexpected bus error encountered in worker", what="bus"),
    P("crash", b"nexpected segmentation fault", rb"ERROR: Unexpected segmentation fault encountered in worker", what="worker", signal=11),
    P("crash", b"nexpected floating-point", rb"ERROR: Unexpected floating-point exception encountered in worker", what="worker", signal=8),
    P("shm", b"allocate shared memory", rb"unable to allocate shared memory\s*\(shm\) for file <(?P<file>[^>]+)>:? ?(?P<reason>.*)", what="space"),
    P("shm", b"unable to write to file", rb"unable to write to file <(?P<file>/(?:torch|dev/shm)[^>]*)>:? ?(?P<reason>.*)", what="space"),
    P("shm", b"unable to open shared memory", rb"unable to open shared memory object <(?P<file>[^>]+)>[^:]*:? ?(?P<reason>.*)", what="open"),
    P("shm", b"unlink the shared memory", rb"could not unlink the shared memory file (?:<?(?P<file>[^>\s]+)>?)?", what="missing"),
    P("shm", b"unable to mmap", rb"unable to (?:mmap|map) (?P<length>\d+) bytes from file <(?P<file>[^>]*)>:? ?(?P<reason>.*)", what="map"),
    P("shm", b"shared memory segment", rb"Error while (?:creating|attaching to) shared memory segment (?P<file>\S+)(?: \(size (?P<length>\d+)\))?(?:, error: (?P<reason>.*?))?$", what="nccl"),
    P("shm", b"extend /dev/shm", rb"failed to extend (?P<file>/dev/shm/nccl-\S+) to (?P<length>\d+) bytes(?:, error: (?P<reason>.*?))?", what="nccl"),
    P("shm", b"posix_fallocate failed", rb"Call to posix_fallocate failed ?:? ?(?P<reason>.*)", what="nccl"),
    P("fd", b"items of ancdata", rb"received (?P<items>\d+) items of ancdata", what="ancdata"),
    P("fd", b"Too many open files", rb"(?:\[Errno 24\]|EMFILE|ENFILE|:|\(24\)|^)[^\n]*Too many open files", what="open"),
    P("space", b"No space left on device", rb"No space left on device(?: \(28\))?(?:: '(?P<path>[^']+)')?", errno=28),
    P("space", b"quota exceeded", rb"(?i)disk quota exceeded(?:: '(?P<path>[^']+)')?", errno=122),
    P("space", b"ile too large", rb"File too large(?:: '(?P<path>[^']+)')?", errno=27),
    P("space", b"PytorchStreamWriter failed", rb"PytorchStreamWriter failed writing file (?P<record>[^:]+)", MEDIUM, errno=0),
    P("space", b"iostream error", rb"basic_ios::clear: iostream error", MEDIUM, errno=0),
    P("space", b"unexpected pos", rb"\. unexpected pos \d+ vs \d+", MEDIUM, errno=0),
    P("space", b"Read-only file system", rb"\[Errno 30\][^\n]*Read-only file system(?:: '(?P<path>[^']+)')?", errno=30),
    # crashes said by the process itself or its shell
    P("crash", b"Fatal Python error", rb"Fatal Python error: (?P<what>[\w -]+)"),
    P("crash", b"Signal received", rb"\*\*\* (?:Aborted|SIG\w+) .*|!!!!!!! Segfault encountered", MEDIUM, what="signal"),
    P("crash", b"egfault encountered", rb"Segfault encountered", what="Segmentation fault", signal=11),
    P("crash", b"WITH THE EXIT STRING", rb"TERMINATED WITH THE EXIT STRING: (?P<what>Segmentation fault|Bus error|Aborted|Floating point exception|Illegal instruction)", what="signal"),
    P("crash", b"egmentation fault", rb"(?:^|\s)Segmentation fault(?: \(core dumped\))?", MEDIUM, what="Segmentation fault", signal=11),
    P("crash", b"corrupt", rb"(?:double free or corruption|corrupted (?:size vs\. prev_size|double-linked list|unsorted chunks)|free\(\): corrupted|malloc\(\): (?:corrupted|memory corruption|invalid)|munmap_chunk\(\): invalid)", what="heap", signal=6),
    P("crash", b"free(): invalid", rb"free\(\): invalid (?:pointer|size|next size)", what="heap", signal=6),
    P("crash", b"malloc.c", rb"malloc\.c:\d+: \w+: Assertion", what="heap", signal=6),
    P("crash", b"stack smashing", rb"\*\*\* (?:stack smashing|buffer overflow) detected", what="stack", signal=6),
    P("crash", b"llegal instruction", rb"(?:^|\s)Illegal instruction(?: \(core dumped\))?", what="Illegal instruction", signal=4),
    P("crash", b"without an active exception", rb"terminate called without an active exception", WEAK, what="terminate", signal=6),
    P("crash", b"erminate called after throwing", rb"terminate called after throwing an instance of '(?P<what>[^']+)'", WEAK, signal=6),
    # errors of the device as CUDA words them
    P("device-error", b"illegal memory access", rb"(?:CUDA error: |CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorIllegalAddress)?.*an illegal memory access was encountered", what="illegal access"),
    P("device-error", b"evice-side assert", rb"CUDA error: device-side assert triggered", what="assert"),
    P("device-error", b"Assertion `", rb"\[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion `(?P<assertion>[^`]+)` failed", what="assert"),
    P("device-error", b"misaligned address", rb"CUDA error: misaligned address", what="illegal access"),
    P("device-error", b"nspecified launch failure", rb"(?:CUDA error: |CUDA_ERROR_LAUNCH_FAILED).*?unspecified launch failure", what="launch failure"),
    P("device-error", b"llegal instruction was", rb"an illegal instruction was encountered", what="illegal access"),
    P("device-error", b"nvalid program counter", rb"CUDA error: invalid program counter", what="illegal access"),
    P("device-error", b"ardware stack error", rb"CUDA error: hardware stack error", what="illegal access"),
    P("device-error", b"not supported on global", rb"CUDA error: operation not supported on global/shared address space", what="illegal access"),
    P("device-error", b"emory access fault by GPU", rb"Memory access fault by GPU node-\d+", what="illegal access"),
    P("device-error", b"ncorrectable ECC", rb"uncorrectable ECC error encountered", what="ecc"),
    P("device-error", b"ncorrectable NVLink", rb"uncorrectable NVLink error", what="nvlink"),
    P("device-error", b"evice unavailable", rb"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy", what="busy"),
    P("device-error", b"busy or unavailable", rb"CUDA-capable device\(s\) is/are busy or unavailable", what="busy"),
    P("device-error", b"allen off the bus", rb"(?:RuntimeError|CUDA|NVML|Unable to determine the device handle)[^\n]*fallen off the bus", what="lost"),
    P("device-error", b"GPU is lost", rb"GPU is lost", what="lost"),
    P("device-error", b"nable to determine the device handle", rb"Unable to determine the device handle for (?:GPU ?(?P<gpu>\S+)|gpu (?P<bus>\S+)): (?P<error>.*)", what="lost"),
    P("device-error", b"launch timed out", rb"CUDA error: the launch timed out and was terminated", what="launch timeout"),
    P("device-error", b"error: unknown error", rb"CUDA error: unknown error", MEDIUM, what="unknown"),
    P("device-error", b"CUBLAS_STATUS_NOT_INIT", rb"CUBLAS_STATUS_NOT_INITIALIZED", MEDIUM, what="cublas"),
    P("device-error", b"cuDNN error", rb"cuDNN error: (?P<error>CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)\w*)", MEDIUM, what="cudnn failed"),
    P("device-error", b"cuDNN error", rb"cuDNN error: (?P<error>CUDNN_STATUS_\w+)", MEDIUM, what="cudnn"),
    P("device-error", b"CUBLAS_STATUS_EXEC", rb"(?P<error>CUBLAS_STATUS_EXECUTION_FAILED)", MEDIUM, what="cublas failed"),
    P("device-error", b"nvalid argument was", rb"CUDA error: invalid argument", MEDIUM, what="argument"),
    # NCCL's own lines
    P("nccl-warn", b"NCCL WARN", rb"(?P<host>[\w.\-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] (?:[\d\- :.]+ )?(?:(?P<src>[\w./]+:\d+)(?: \([^)]*\))? )?NCCL WARN (?P<message>.*)"),
    P("nccl-error", b"NCCL error in:", rb"NCCL error in: \S+, (?P<message>.*?)(?:, NCCL version (?P<version>[\d.]+))?$"),
    P("nccl-completion", b"ot completion from peer", rb"NET/IB ?: Got completion (?:from peer (?P<peer>\S+) )?with (?:error|status=)?(?P<status>\d+)"),
    P("nccl-init", b"busId", rb"(?P<host>[\w.\-]+):(?P<pid>\d+):\d+ \[(?P<local_device>\d+)\] NCCL INFO (?:ncclCommInitRank\w* )?comm 0x\w+ rank (?P<rank>\d+) n[rR]anks (?P<nranks>\d+) cudaDev (?P<device>\d+)(?: nvmlDev \d+)? busId (?P<bus>\w+)"),
    P("version", b"NCCL version", rb"(?:^|[^,] )NCCL version (?P<nccl>\d+\.\d+(?:\.\d+)?)(?:\+cuda(?P<cuda>[\d.]+))?", MEDIUM),
    # joining the job
    P("rendezvous", b"waiting for clients", rb"Timed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<expected>\d+) clients joined", what="clients"),
    P("rendezvous", b"store based barrier", rb"in store based barrier on rank:? (?P<r>\d+), for key: (?P<keys>\S+) \(world_size=(?P<expected>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)", what="barrier"),
    P("rendezvous", b"client socket has timed out", rb"(?:The )?client socket has timed out after (?P<ms>\d+) ?(?:ms|s) while trying to connect to \((?P<host>[^,]+), (?P<port>\d+)\)", what="connect"),
    P("rendezvous", b"client socket has failed", rb"The client socket has failed to connect to (?:any network address of \()?\[?(?P<host>[^\],)]+)\]?(?:, |:)(?P<port>\d+)\)?(?P<tail>.*)", MEDIUM, what="refused"),
    P("rendezvous", b"server socket has failed", rb"The server socket has failed to (?:listen on|bind to) (?:any local network address|\S+).*?(?:port: (?P<port>\d+)|:(?P<port2>\d+)).*?(?P<error>EADDRINUSE|address already in use|errno: 98|EACCES|EADDRNOTAVAIL)", what="port"),
    P("rendezvous", b"ddress already in use", rb"(?:\[Errno 98\]|EADDRINUSE|errno: 98|:)[^\n]*[Aa]ddress already in use", what="port"),
    P("rendezvous", b"connectFullMesh failed", rb"connectFullMesh failed with (?P<error>.*)", MEDIUM, what="mesh"),
    P("rendezvous", b"connect() timed out", rb"connect\(\) timed out\. Original timeout was (?P<ms>\d+) ms", MEDIUM, what="connect"),
    P("rendezvous", b"wait timeout after", rb"(?i)wait timeout after (?P<ms>\d+) ?ms, keys: (?P<keys>\S+)", what="keys"),
    P("rendezvous", b"ait timeout", rb"\bWait timeout\b(?! after)", WEAK, what="keys"),
    P("rendezvous", b"imeout waiting for key", rb"Timeout waiting for key: (?P<keys>\S+)(?: after (?P<ms>\d+) ms)?", what="keys"),
    P("rendezvous", b"cannot be retrieved", rb"(?:IPv[46] )?network addresses of \((?P<host>[^,]+), (?P<port>\d+)\) cannot be retrieved(?:.*?: (?P<error>.*))?", what="resolve"),
    P("rendezvous", b"ame or service not known", rb"(?:gai error|getaddrinfo|gaierror|resolve)[^\n]*Name or service not known", what="resolve"),
    P("rendezvous", b"RendezvousTimeoutError", rb"RendezvousTimeoutError", what="agents"),
    P("rendezvous", b"RendezvousConnectionError", rb"RendezvousConnectionError", MEDIUM, what="connect"),
    P("rendezvous", b"RendezvousClosedError", rb"RendezvousClosedError", WEAK, what="closed"),
    P("rendezvous", b"RendezvousGracefulExit", rb"RendezvousGracefulExitError", WEAK, what="closed"),
    P("interface", b"no socket interface found", rb"(?:Bootstrap : |NET/Socket : )?[Nn]o socket interface found"),
    P("interface", b"is neither AF_INET", rb"connecting to address .*?with family \d+ is neither AF_INET"),
    P("interface", b"nable to find interface", rb"Unable to find (?:interface|address) for:? ?(?P<interface>\S+)"),
    P("interface", b"nable to find address for", rb"Unable to find address for:? ?(?P<interface>\S+)"),
    P("interface", b"nable to resolve hostname", rb"Unable to resolve hostname to a \(local\) address"),
    P("interface", b"ound no valid interface", rb"(?:[Ff]ound no valid interface|No interface found (?:in the same subnet|with)).*"),
    P("interface", b"o interface found", rb"No interface found (?:in the same subnet as remote address (?P<address>\S+)|.*)"),
    # launchers (torchelastic, torchrun): facts of the timeline
    P("exit", b"failed (exitcode", rb"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)", by="launcher"),
    P("closing", b"losing signal", rb"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)"),
    P("closing", b"nable to shutdown process", rb"Unable to shutdown process (?P<pid>\d+) via (?:\d+|Signals\.)?(?P<signal>SIG\w+|\d+)"),
    P("terminated", b"death signal", rb"Received (?P<signal>\d+|Signals\.\w+) death signal, shutting down workers", by="launcher"),
    P("terminated", b"got signal:", rb"SignalException: Process (?P<pid>\d+) got signal: (?P<signal>\d+)", by="launcher"),
    P("attempt", b"restarting worker group", rb"attempts? left; will restart worker group|restarting worker group", by="launcher"),
    P("attempt", b"will restart worker group", rb"(?P<left>\d+)/(?P<most>\d+) attempts left; will restart worker group", by="launcher"),
    P("launched", b"started rank", rb"started rank (?P<rank>\d+) of (?P<world>\d+), pid (?P<pid>\d+)"),
    P("exit", b"crashed with exit code", rb"Rank (?P<rank>\d{1,6}) crashed with exit code (?P<code>-?\d+)", by="composer"),
    P("exit", b"exited with code", rb"Global rank (?P<rank>\d{1,6}) \(PID (?P<pid>\d+)\) exited with code (?P<code>-?\d+)", by="composer"),
    P("exit", b"terminated with signal", rb"(?i)process (?P<local>\d+) terminated with signal (?P<signal>SIG\w+)", by="spawn"),
    P("exit", b"terminated with exit code", rb"(?i)process (?P<local>\d+) terminated with exit code (?P<code>\d+)", by="spawn"),
    P("exit", b": line ", rb": line \d+:\s+(?P<pid>\d+) (?P<what>Killed|Segmentation fault|Bus error|Aborted|Terminated|Illegal instruction)\b(?=.*(?:python|torchrun|accelerate|deepspeed|mpirun|srun|train|\.py\b|\$))", by="shell"),
    P("exit", b"Process name: [[", rb"^\s*Process name: \[\[\d+,\d+\],(?P<rank>\d{1,6})\]", by="mpi", code=1),
    P("exit-code", b"Exit code: ", rb"^\s*Exit code:\s+(?P<code>\d{1,3})\s*$"),
    P("exit", b"hild process with PID", rb"\[rank: (?P<rank>\d{1,6})\] Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)", by="lightning"),
    P("exit", b"noticed that process rank", rb"noticed that process rank (?P<rank>\d{1,6}) with PID (?P<pid>\d+) on node (?P<node>[\w.\-]+) exited on\s+signal (?P<signal_number>\d+)", by="mpi"),
    P("exit", b"non-zero exit status", rb"--local[-_]rank=(?P<local>\d{1,4})\b.*returned non-zero exit status (?P<code>\d+)", by="launcher"),
    P("last-exit", b"non-zero exit status", rb"Command '\[?'?[^' ]*python[\d.]*'?[, ].*returned non-zero exit status (?P<code>\d+)", by="parent"),
    P("exit", b" died with <Signals", rb"--local[-_]rank=(?P<local>\d{1,4})\b.*died with <Signals\.(?P<signal>SIG\w+)", by="launcher"),
    P("last-exit", b" died with <Signals", rb"Command '\[?'?[^' ]*python[\d.]*'?[, ].*died with <Signals\.(?P<signal>SIG\w+)", by="parent"),
    P("launched", b"world_rank=", rb"\(node_id=\w+, ip=(?P<node>[\w.:]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d{1,6})\b", by="ray"),
    P("launched", b"process group for: env", rb"Setting up process group for: env:// \[rank=(?P<rank>\d{1,6}), world_size=(?P<world>\d{1,6})\]", by="ray"),
    P("launched", b"nproc", rb"\b(?:torchrun|torch\.distributed\.(?:run|launch))\b.*--nproc[-_]per[-_]node[= ](?P<nproc>\d{1,4})\b", by="command"),
    P("exit", b"RUNNING AT ", rb"^=\s+(?:RANK (?P<rank>\d{1,6}) )?PID (?P<pid>\d+) RUNNING AT (?P<node>[\w.\-]+)", by="hydra"),
    P("exit-code", b"KILLED BY SIGNAL: ", rb"^=\s+KILLED BY SIGNAL: (?P<signal_number>\d{1,2})\b"),
    P("exit-code", b"EXIT STATUS: ", rb"^=\s+EXIT STATUS: (?P<code>\d{1,3})\b"),
    P("exit-code", b"EXIT CODE:", rb"^=\s+(?:KILLED BY: )?EXIT CODE: (?P<code>\d{1,5})"),
    P("exit-code", b"WITH THE EXIT STRING", rb"TERMINATED WITH THE EXIT STRING: [\w ]+\(signal (?P<signal_number>\d{1,2})\)"),
    P("last-exit", b"ctor died unexpectedly", rb"ActorDiedError: The actor died unexpectedly", by="ray", code=1),
    P("actor", b"\tpid: ", rb"^\s+pid: (?P<pid>\d+)\s*$"),
    P("actor", b"\tip: ", rb"^\s+ip: (?P<node>[\w.:\-]+)\s*$"),
    P("spawned", b"spawned with command", rb"process (?P<pid>\d+) spawned with command: .*?--local_rank=(?P<local>\d{1,4})\b", by="deepspeed"),
    P("exit", b"exits with return code", rb"--local_rank=(?P<local>\d{1,4})\b.*exits with return code = (?P<code>-?\d+)", by="launcher"),
    P("exit", b"exits with return code", rb"Process (?P<pid>\d+) exits with return code = (?P<code>-?\d+)", by="launcher"),
    # Slurm
    P("oom-kill", b"oom", rb"Detected (?P<count>\d+) oom[-_ ]kill event(?:\(s\)|s)? in (?:StepId=|step )(?P<step>[\w.+]+)", by="slurm", constraint="CONSTRAINT_MEMCG"),
    P("oom-kill", b"xceeded step memory limit", rb"(?:Exceeded step memory limit|Step \S+ exceeded memory limit)(?: \((?P<usage_kb>\d+) > (?P<limit_kb>\d+)\))?", by="slurm", constraint="CONSTRAINT_MEMCG"),
    P("oom-kill", b"where the task", rb"Memory on the node \(IP: (?P<node>[\w.:]+), ID: \w+\) where the (?:task|lease)[^\n]*?(?:pid=(?P<pid>\d+)[^)]*)?\) was running was (?P<used>[\d.]+GB) / (?P<total>[\d.]+GB)", by="ray", constraint="CONSTRAINT_NONE"),
    P("oom-kill", b"memory pressure (OOM)", rb"(?P<count>[1-9]\d*) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)(?:[^\n]*IP: (?P<node>[\w.:]+)\))?", by="ray", constraint="CONSTRAINT_NONE"),
    P("oom-kill", b"node running low on memory", rb"Task was killed due to the node running low on memory", MEDIUM, by="ray", constraint="CONSTRAINT_NONE"),
    P("exit", b"srun: error:", rb"srun: error: (?P<node>[\w.\-]+): tasks? (?P<tasks>[\d\-,]+): (?P<what>Out Of Memory|Killed|Terminated|Exited with exit code (?P<code>\d+)|Segmentation fault|Bus error|Aborted|Floating point exception|Illegal instruction)", by="slurm"),
    P("scheduler", b"CANCELLED AT", rb"\*\*\* (?P<unit>STEP|JOB) (?P<job>[\w.+]+) ON (?P<node>\S+) CANCELLED AT (?P<at>\S+)(?: DUE TO (?P<reason>[A-Za-z ]+?))? ?\*\*\*", by="slurm", state="CANCELLED"),
    P("scheduler", b"ode failure", rb"srun: error: Node failure on (?P<node>\S+)", by="slurm", state="NODE_FAIL", reason="NODE FAILURE"),
    P("scheduler", b"NODE FAILURE", rb"DUE TO NODE FAILURE", by="slurm", state="NODE_FAIL", reason="NODE FAILURE"),
    P("scheduler", b"been revoked", rb"(?:Job allocation (?P<job>\d+) has been revoked|Force Terminated job (?P<job2>\d+))", by="slurm", state="CANCELLED"),
    P("scheduler", b"TERM_", rb"(?P<reason>TERM_(?:RUNLIMIT|MEMLIMIT|SWAP|OWNER|ADMIN|PREEMPT|FORCE_OWNER|FORCE_ADMIN|CPULIMIT|DEADLINE|LOAD|REQUEUE_OWNER|REQUEUE_ADMIN|REMOVE_HUNG_JOB)): ?(?P<detail>.*)", by="lsf", state="EXIT"),
    P("scheduler", b"PBS: job killed", rb"=>> PBS: job killed: (?P<reason>.*)", by="pbs", state="KILLED"),
    P("scheduler", b"xceeded wallclock limit", rb"job exceeded wallclock limit", by="moab", state="TIMEOUT", reason="time limit"),
    P("scheduler", b"its walltime limit", rb"Job exceeded its walltime limit", by="pbs", state="TIMEOUT", reason="time limit"),
    P("scheduler", b"nterrupt", rb"(?i)\bspot (?:instance )?(?:interruption|termination)(?: notice| event)?(?: was)? (?:received|issued|detected)|spot ITN received|instance (?:will be|is being) (?:interrupted|reclaimed|preempted)", by="cloud", state="PREEMPTED", reason="spot interruption"),
    P("scheduler", b"being preempted", rb"(?i)\b(?:instance|node|VM|job) is being preempted", by="cloud", state="PREEMPTED", reason="preemption"),
    P("scheduler", b"luster is preempted", rb"\bThe cluster is preempted\b", by="skypilot", state="PREEMPTED", reason="preemption"),
    P("scheduler", b"qmaster enforced", rb"failed\s+\d+\s*: (?P<detail>qmaster enforced h_rt, h_cpu,? or h_vmem limit)", by="sge", state="KILLED", reason="h_rt, h_cpu or h_vmem limit"),
    P("terminated", b"SIGTERM", rb"(?i)\b(?:received|caught|got) (?:signal )?(?:15 ?\(SIGTERM\)|SIGTERM(?: \(15\))?)[^\n]{0,40}\b(?:sav|check ?point|exit|shut|stop|preempt|requeu)", by="trainer"),
    P("terminated", b"eceived SIGTERM", rb"^(?:\[rank: \d+\] )?Received SIGTERM: (?P<signal>15)", by="trainer"),
    # environment faults that name themselves; 172.17.0.0/16 is docker's own bridge, the same on every node
    P("config", b"onnect to 172.17.", rb"Connect to (?P<address>172\.17\.\d+\.\d+)<\d+> failed", what="bridge-address"),
    P("config", b"Driver/library version mismatch", rb"Driver/library version mismatch", what="driver-library"),
    P("config", b"API mismatch", rb"NVRM: API mismatch: (?:the client|the NVIDIA kernel module)[^\n]*?(?P<version>\d+\.\d+(?:\.\d+)?)?", what="driver-library"),
    P("config", b"forward compatibility was attempted", rb"forward compatibility was attempted on non supported HW", what="driver-library"),
    P("config", b"driver version is insufficient", rb"CUDA driver version is insufficient for CUDA runtime version", what="driver-old"),
    P("config", b"driver on your system is too old", rb"The NVIDIA driver on your system is too old \(found version (?P<version>\d+)\)", what="driver-old"),
    P("config", b"no kernel image is available", rb"no kernel image is available for execution on the device", what="no-kernel-image"),
    P("config", b"not compatible with the current PyTorch", rb"with CUDA capability (?P<capability>\w+) is not compatible with the current PyTorch installation", what="no-kernel-image"),
    P("config", b"nvalid device ordinal", rb"invalid device ordinal", what="device-ordinal"),
    P("config", b"Duplicate GPU detected", rb"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<bus>\w+)", what="duplicate-gpu"),
    P("config", b"No CUDA GPUs are available", rb"No CUDA GPUs are available", what="no-gpu"),
    P("config", b"no CUDA-capable device is detected", rb"no CUDA-capable device is detected", what="no-gpu"),
    P("config", b"could not select device driver", rb"could not select device driver [^\n]*capabilities: \[\[gpu\]\]", what="no-gpu"),
    P("config", b"ound no NVIDIA driver", rb"Found no NVIDIA driver on your system", what="no-driver"),
    P("config", b"not compiled with CUDA enabled", rb"Torch not compiled with CUDA enabled", what="cpu-build"),
    P("config", b"version mismatch", rb"(?:NCCL|nccl)[^\n]*version mismatch", what="nccl-version"),
    P("config", b"Mismatched NCCL version", rb"Mismatched NCCL version detected(?: : rank \d+ version (?P<one>\d+) rank \d+ version (?P<other>\d+))?", what="nccl-version"),
    P("config", b"undefined symbol", rb"(?P<library>[\w./\-]+\.so[\w.]*): undefined symbol: (?P<symbol>\w+)", what="library"),
    P("config", b"annot open shared object file", rb"(?P<library>[\w.\-]+\.so[\w.]*): cannot open shared object file", what="library"),
    P("config", b"GLIBC", rb"version `(?P<symbol>GLIBC(?:XX)?_[\d.]+)' not found", what="library"),
    P("config", b"system has unsupported display driver", rb"system has unsupported display driver / cuda driver combination", what="driver-library"),
    P("config", b"system not yet initialized", rb"CUDA_ERROR_SYSTEM_NOT_READY|system not yet initialized", what="fabric-manager"),
    P("config", b"start new thread", rb"^(?:\w+\.)*(?:RuntimeError|error): can't start new thread", what="process-limit"),
    P("config", b"pthread_create failed", rb"pthread_create failed for thread[^\n]*Resource temporarily unavailable", what="process-limit"),
    P("config", b"Thread creation failed", rb"libgomp: Thread creation failed: Resource temporarily unavailable", what="process-limit"),
    P("config", b"nrecognized arguments", rb"^[\w./\-]+: error: unrecognized arguments: (?P<name>.*)", what="arguments"),
    P("config", b"rguments are required", rb"^[\w./\-]+: error: the following arguments are required: (?P<name>.*)", what="arguments"),
    P("config", b"invalid choice: ", rb"^[\w./\-]+: error: argument (?P<name>\S+): invalid choice", what="arguments"),
    P("config", b"expected, but not set", rb"environment variable (?P<name>\w+) expected, but not set", what="env-missing"),
    P("config", b"efault process group has not been", rb"Default process group has not been initialized", what="no-init"),
    # numbers
    P("done", b"raining", rb"(?i)^\W*(?:[\w\[\]:,. -]*?\W)?training (?:is )?(?:finished|complete[d]?|done)\b", MEDIUM),
)  # fmt: skip

BY_LITERAL: dict[bytes, list[Pattern]] = {}
for _row in PATTERNS:
    BY_LITERAL.setdefault(_row.literal, []).append(_row)


def plain_part(line: bytes) -> bytes:
    """The line without its sentences of advice."""
    if not any(hint in line for hint in _ADVICE_HINTS) or not ADVICE.search(line):
        return line
    return b" ".join(s for s in _SENTENCE.split(line[:8192]) if not ADVICE.search(s))


def size_of(text: str) -> int | None:
    """Bytes of "12.5 GiB", "86.00 MiB", "0 bytes", "64Gi", "8192 kB"; None when it is none."""
    found = _SIZE.match(text.strip().replace(",", ""))
    if not found:
        return None
    try:
        number = float(found.group(1))
    except ValueError:
        return None
    unit = found.group(2).lower()
    factor = _UNITS.get(unit) or _UNITS.get(unit[:1])
    return int(number * factor) if factor else None


def numbers(text: str) -> list[int]:
    """Whole numbers of "0, 3", "[1, 2]", "3 4" and of Slurm's "0-2,5"."""
    out: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text)[:65536]:
        if len(first) > 9 or len(last) > 9:
            continue
        out += range(int(first), min(int(last), int(first) + 65536) + 1) if last else [int(first)]
    return out


def values_of(found: re.Match[bytes]) -> dict[str, Any]:
    """The named groups of a match as values."""
    out: dict[str, Any] = {}
    for name, raw in found.groupdict().items():
        if raw is None:
            continue
        text = raw.decode("utf-8", "replace").strip()
        if name in SIZES or name in ("held",):
            out[name] = size_of(text)
        elif name in LISTS:
            out[name] = numbers(text)
        elif (
            text.lstrip("-").isdigit()
            and len(text) < 20
            and not name.endswith(("bus", "version", "nccl", "shape", "driver"))
        ):
            out[name] = int(text)
        else:
            out[name] = text[:300]
    return out
