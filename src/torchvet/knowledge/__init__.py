"""Ground floor: what PyTorch and its frameworks do, as tables; code outside this package lists no API names.

The tables are the `.toml` files of this folder (one row per line, each with its source); `scripts/build_knowledge.py`
makes them into modules of literals, and each loads when it is first asked for.

Calls between ranks:

    api("torch.distributed.all_reduce")     Row or None; aliases and wildcard rows ("numpy.random.*") applied
    canonical("pytorch_lightning.Trainer")  "lightning.pytorch.Trainer"; an unknown name comes back as it is
    methods("barrier")                      (Row, ...): rows whose last part is this, for objects of unknown class
    names("collective")                     frozenset of the names of a kind (kinds.toml says what the kinds mean)
    environment("RANK")                     Row of an environment variable, or None
    name_patterns("rank_source")            ((compiled pattern, "high"|"medium"), ...) that identifiers may match
    identifier("local_rank")                (kind, confidence) by identifier only, or None: may lower or raise a
                                            confidence, never decide

Graphs and loading:

    graph("remover_methods")                frozenset of the words of a list in graphs.toml
    metric_state("torchmetrics.CatMetric")  "list" (keeps what it is given), "sum" (keeps numbers) or None
    loader("parameters")                    a list of loaders.toml as tuple, a table as dict

Files that ranks share:

    files("writes")                         a table of files.toml as dict
    tensors("ragged")                       a table of tensors.toml as dict
    processes("starts")                     a table of processes.toml as dict
    deployment("engines")                   a list of deployment.toml as tuple, a table as dict
    native("create")                        resources of CUDA: what creates and releases them

A `Row` says `inferred` when nobody has read it in the source: such a row raises no error by itself.
Names are canonical when they are the `name` of a row or what `canonical` gives; every table here uses canonical names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any


class Row:
    """What one call, attribute or variable does between ranks.

    `name`, `kind`, `family`; `blocking`: "yes", "no", "async_arg", "lazy_wait", "lazy", "maybe"; `group_arg`: keyword
    of the process group, "(world)" or None; `group_pos`: its position (from 0, without self), "kw" or None; `result`:
    "uniform", "varying", "dst_only", "rank_local", "group", "context", ... or None; `when`: condition in words or None;
    `inferred`; `since`, `until`, `deprecated`: release or None; `root`: keyword and position of the rank that gives
    or gets ("src 1"), or None. `notes` and `source` load when read.
    """

    __slots__ = (
        "blocking", "deprecated", "family", "group_arg", "group_pos", "inferred", "kind", "name", "result", "root",
        "since", "until", "when",
    )  # fmt: skip

    def __init__(self, name: str, fields: tuple[Any, ...]) -> None:
        self.name: str = name
        self.kind: str
        self.family: str
        self.blocking: str
        self.group_arg: str | None
        self.group_pos: int | str | None
        self.result: str | None
        self.when: str | None
        self.inferred: bool
        self.since: str | None
        self.until: str | None
        self.deprecated: str | None
        self.root: str | None
        (
            self.kind, self.family, self.blocking, self.group_arg, self.group_pos, self.result, self.when,
            self.inferred, self.since, self.until, self.deprecated, self.root,
        ) = fields  # fmt: skip

    @property
    def last(self) -> str:
        """The last part of the name: "all_reduce"."""
        return self.name.rpartition(".")[2]

    @property
    def notes(self) -> str:
        from ._notes import NOTES

        return str(NOTES[self.name][0])

    @property
    def source(self) -> str:
        from ._notes import NOTES

        return str(NOTES[self.name][1])

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


_rows: dict[str, Row | None] = {}
_canonical: dict[str, str] = {}
_by_number: list[str] = []
_by_kind: dict[str, frozenset[str]] = {}
_methods: dict[str, tuple[Row, ...]] = {}
_made: set[str] = set()
_loader: dict[str, Any] = {}


def canonical(dotted: str) -> str:
    """The name under which the tables know a qualified name; itself when no alias applies."""
    known = _canonical.get(dotted)
    if known is not None:
        return known
    from ._apis import ALIASES, ROWS
    from ._names import PREFIXES

    name = dotted
    while name not in ROWS:
        direct = ALIASES.get(name)
        if direct is not None:
            name = direct
            break
        head, tail = name, ""
        while head and head not in PREFIXES and head not in ALIASES:
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        if not head:
            break
        name = (PREFIXES.get(head) or ALIASES[head]) + tail
    _canonical[dotted] = name
    return name


def api(dotted: str) -> Row | None:
    """The row of a qualified name, under any of its aliases; a row `package.*` stands for all below `package`, an alias
    `package.*.method` for the method of every class of the package."""
    if dotted in _rows:
        return _rows[dotted]
    from ._apis import ALIASES, ROWS

    name = canonical(dotted)
    fields = ROWS.get(name)
    if fields is None:
        package, method = name.partition(".")[0], name.rpartition(".")[2]
        whole = ALIASES.get(f"{package}.*.{method}")
        if whole is not None:
            name = whole
            fields = ROWS[whole]
    if fields is None:
        name = name.rpartition(".")[0] + ".*"
        fields = ROWS.get(name)
    row = None
    if fields is not None:
        row = _rows.get(name) or Row(name, fields)
        _rows[name] = row
    _rows[dotted] = row
    return row


def methods(name: str) -> tuple[Row, ...]:
    """The rows whose last part is `name`, for a call on an object of unknown class; empty when there are none."""
    known = _methods.get(name)
    if known is None:
        from ._indexes import LASTS

        known = _methods[name] = tuple([row for dotted in _numbered(LASTS.get(name, ())) if (row := api(dotted))])
    return known


def made_by_call(dotted: str) -> bool:
    """Whether the tables know methods of what a call of it gives: `ray.train.get_context().get_world_rank`."""
    if not _made:
        from ._apis import ALIASES, ROWS

        _made.update(q.partition("()")[0] for q in (*ROWS, *ALIASES) if "()." in q)
    return dotted in _made


def names(kind: str) -> frozenset[str]:
    """The canonical names of all rows of a kind ("collective"; see kinds.toml). Unknown kinds raise KeyError."""
    known = _by_kind.get(kind)
    if known is None:
        from ._indexes import KINDS

        known = _by_kind[kind] = frozenset(_numbered(KINDS[kind]))
    return known


def _numbered(numbers: tuple[int, ...]) -> list[str]:
    """The names of rows by their numbers."""
    if not _by_number:
        from ._apis import ROWS

        _by_number.extend(ROWS)
    return [_by_number[n] for n in numbers]


def environment(variable: str) -> Row | None:
    """The row of an environment variable: `environment("RANK")`."""
    return api("env:" + variable)


def name_patterns(kind: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """(pattern, confidence "high" or "medium") of the identifiers that hint at a kind such as "rank_source".

    Compiling takes milliseconds; `identifier` answers for one name at once.
    """
    import re

    from ._identifiers import PATTERNS

    return tuple((re.compile(pattern), confidence) for k, pattern, confidence in PATTERNS if k == kind)


_words: list[dict[str, tuple[str, str]]] = []


def identifier(name: str) -> tuple[str, str] | None:
    """(kind, confidence) that an identifier hints at. For parameters and attributes without a visible definition."""
    if not _words:
        from ._identifiers import WORDS

        _words.append(WORDS)
    return _words[0].get(name)


class _Lists(dict[str, frozenset[str]]):
    """The lists of graphs.toml that were asked for."""

    def __missing__(self, table: str) -> frozenset[str]:
        from ._graphs import TABLES

        words = self[table] = frozenset(TABLES[table])
        return words


graph = _Lists().__getitem__
"""The words of a list in graphs.toml, by its name. Unknown tables raise KeyError. Asked thousands of times even in a
small check, so it is no function of Python."""


def metric_state(dotted: str) -> str | None:
    """Does a torchmetrics class keep its inputs ("list") or numbers made from them ("sum")? None for other names."""
    if not dotted.startswith("torchmetrics."):
        return None
    last = dotted.rpartition(".")[2]
    return "list" if last in graph("list_state_metrics") else "sum" if last in graph("sum_state_metrics") else None


def loader(table: str) -> Any:
    """A list of loaders.toml as tuple, a table as dict, a value as it is. Unknown tables raise KeyError."""
    if not _loader:
        from ._loaders import TABLES

        _loader.update(TABLES)
    return _loader[table]


def files(table: str) -> dict[str, Any]:
    """A table of files.toml. Unknown tables raise KeyError."""
    from ._files import TABLES

    return TABLES[table]  # type: ignore[return-value]


def tensors(table: str) -> dict[str, Any]:
    """A table of tensors.toml. Unknown tables raise KeyError."""
    from ._tensors import TABLES

    return TABLES[table]  # type: ignore[return-value]


def processes(table: str) -> dict[str, Any]:
    """A table of processes.toml. Unknown tables raise KeyError."""
    from ._processes import TABLES

    return TABLES[table]  # type: ignore[return-value]


def deployment(table: str) -> Any:
    """A list of deployment.toml as tuple, a table as dict, a value as it is. Unknown tables raise KeyError."""
    from ._deployment import TABLES

    return TABLES[table]


def native(table: str) -> Any:
    """A list of native.toml as tuple; "create" {function: (family, rule, how)}, "destroy" {function: family} and
    "releases" {family: function} of its pairs. Unknown tables raise KeyError."""
    from ._native import TABLES

    return TABLES[table]
