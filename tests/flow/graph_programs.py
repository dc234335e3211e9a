"""Small programs for the tests of the graph analysis."""

from __future__ import annotations

import textwrap

from torchvet.check.flow.graph_values import Node
from torchvet.check.flow.graphs import Graphs
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program


def graphs_of(files: dict[str, str] | str) -> Graphs:
    """The analysis over {file name: source}; a string is `train.py`."""
    if isinstance(files, str):
        files = {"train.py": files}
    files = {name: textwrap.dedent(text) for name, text in files.items()}
    program = Program("/nowhere", sorted(files), files.get)
    program.entries = (
        lambda folder: frozenset(  # the files above are all there is
            name[len(folder) + 1 if folder else 0 :].partition("/")[0]
            for name in files
            if not folder or name.startswith(folder + "/")
        )
    )
    for name, text in files.items():
        program.add(name, lower(text))
    return Graphs(program)


def function(graphs: Graphs, name: str, file: str = "train.py"):
    for f in graphs.program.modules[file].all_functions():
        for g in graphs.program.with_nested(f):
            if g.qualname == name or g.name == name:
                return g
    raise KeyError(name)


def bound(graphs: Graphs, name: str, f: str, file: str = "train.py") -> Node:
    """The last value that a local name of a function is bound to."""
    return graphs.graph(function(graphs, f, file)).bindings[name][-1]


def kept_lines(graphs: Graphs, file: str = "train.py") -> dict[int, str]:
    """{line: "freed" | "alive"} of everything that `kept` reports in a file."""
    return {k.pos >> 44: "alive" if k.alive else "freed" for k in graphs.kept() if k.module.path == file}
