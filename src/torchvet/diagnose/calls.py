"""Tables: what the calls of recorders, watchdogs and stacks mean. Names as backends write them, without a prefix.

torch 2.13: ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp, torch/distributed/flight_recorder/components/types.py.
"""

from __future__ import annotations

import re

SYNCHRONISING = frozenset({
    "all_reduce", "all_reduce_barrier", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor",
    "all_gather_coalesced", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_coalesced", "all_to_all",
    "barrier",
})  # fmt: skip
"""No member can finish one of these before every member has called it. All others have a root that may finish first."""

NAMES = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce_coalesced", "allgather": "all_gather",
    "_all_gather_base": "all_gather_into_tensor", "_allgather_base": "all_gather_into_tensor",
    "allgather_base": "all_gather_into_tensor", "allgather_coalesced": "all_gather_coalesced",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced", "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_base": "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
    "_reduce_oop": "reduce", "_broadcast_oop": "broadcast", "broadcast_oop": "broadcast", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all", "all_to_all_base": "all_to_all", "all_to_all_single": "all_to_all",
}  # fmt: skip
"""Other spellings: the watchdog prints upper case without underscores, backends add suffixes."""

MERGED = frozenset({"coalesced", "nccl:coalesced"})
"""Several calls as one: its parts have entries of their own (from version 2.7 on)."""

SIZES = {
    "all_reduce": "both", "all_reduce_barrier": "both", "all_reduce_coalesced": "both", "all_gather": "output",
    "all_gather_into_tensor": "both", "reduce_scatter_tensor": "both", "reduce_scatter": "input", "broadcast": "input",
    "reduce": "input", "gather": "input", "scatter": "output",
}  # fmt: skip
"""Which sizes every member must agree on; the sizes of all others may differ between ranks."""

COLLECTIVE_FUNCTIONS = frozenset({
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor", "all_gather_object",
    "all_gather_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list",
    "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "_all_gather_base", "_reduce_scatter_base",
})  # fmt: skip
SEND_FUNCTIONS = frozenset({"send", "isend", "send_object_list"})
RECEIVE_FUNCTIONS = frozenset({"recv", "irecv", "recv_object_list"})
PAIR_FUNCTIONS = frozenset({"batch_isend_irecv"})
JOINING_FUNCTIONS = frozenset({"init_process_group"})
CREATING_FUNCTIONS = frozenset({"new_group", "split_group"})
LEAVING_FUNCTIONS = frozenset({"destroy_process_group"})
"""Functions of `torch/distributed` that a stack shows while a rank is inside a call."""


def canonical(name: str) -> str:
    """`nccl:_all_gather_base` is all_gather_into_tensor; `ALLREDUCE` is all_reduce; an unknown name keeps its words."""
    word = name.rpartition(":")[2].split(" ")[0].strip().lower()
    if word not in NAMES and word not in SIZES:
        word = word.lstrip("_")
    return NAMES.get(word, word)


DOINGS = {
    "checkpoint": r"check[ _]?point|ckpt|shards?\b.*\bwrit|writ\w*\b.*\bshard|state_dict|sav(?:e|ing)\b|upload",
    "data loading": r"data ?(?:set|loader)|tokeni[sz]|index(?:ing)?\b|re-?read|preproc|shuffl|decod(?:e|ing)\b",
    "evaluation": r"evaluat|validat|generat(?:e|ing)\b|metric",
    "compilation": r"compil|autotun|inductor|triton",
}
"""What a rank was doing -> words of its last line, or of the functions in which it stands."""


def doing_of(words: str) -> str:
    """The first of DOINGS that the words name; "" when they name none."""
    for name, pattern in DOINGS.items():
        if re.search(rf"(?i)\b(?:{pattern})", words.replace("_", " ")):
            return name
    return ""
