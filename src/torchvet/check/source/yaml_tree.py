"""YAML and JSON with comments as trees whose nodes know where they stand.

Built from the events of PyYAML's parser (the C one where it is there), without recursion and with bounds, so that no
file is too deep or too entangled. Templates of Helm and Jinja are read too: an action becomes an unknown part of the
same length, and a line that holds nothing else becomes a comment.
"""

from __future__ import annotations

import re

from .traced import CLOSE, OPEN, Traced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEEP = 100
MOST_NODES = 100_000
MOST_TEXT = 400_000
"""Characters from which on a file is data: the pure parser reads 100 KB in a second."""
MERGES = 40
MOST_MERGED = 2000
"""Bounds of merge keys: mappings one behind the other, entries that come from others."""

MAP, LIST, SCALAR = "map", "list", "scalar"


class NotRead(Exception):
    """The text is not of this language, or PyYAML is not installed (`missing`)."""

    def __init__(self, why: str, line: int = 0, missing: bool = False) -> None:
        super().__init__(why)
        self.line = line
        self.missing = missing


class Node:
    """`kind` MAP (`pairs` of key and value nodes), LIST (`items`) or SCALAR (`text`; `plain`: without quotes). `start`
    and `end` are offsets in the file. An alias is the node itself."""

    __slots__ = ("end", "items", "kind", "merged", "pairs", "plain", "start", "text")

    def __init__(self, kind: str, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.text = ""
        self.plain = False
        self.items: list[Node] = []
        self.pairs: list[tuple[Node, Node]] = []
        self.merged: dict[str, tuple[Node, Node]] | None = None

    def entries(self, depth: int = 0) -> dict[str, tuple[Node, Node]]:
        """{key: (key node, value)} of a mapping, merge keys applied; empty for anything else."""
        if self.merged is None:
            self.merged = {}  # also ends a mapping that merges itself
            found: dict[str, tuple[Node, Node]] = {}
            for key, value in self.pairs:
                if key.kind != SCALAR:
                    continue
                if key.text == "<<" and key.plain and depth < MERGES and len(found) < MOST_MERGED:
                    for other in [value] if value.kind == MAP else value.items[:MERGES]:
                        for name, pair in other.entries(depth + 1).items():
                            found.setdefault(name, pair)
            for key, value in self.pairs:
                if key.kind == SCALAR and not (key.text == "<<" and key.plain):
                    found[key.text] = (key, value)
            self.merged = found
        return self.merged

    def get(self, *path: str) -> Node | None:
        """The value at a path of keys, or None."""
        node: Node | None = self
        for name in path:
            if node is None or node.kind != MAP:
                return None
            pair = node.entries().get(name)
            node = pair[1] if pair else None
        return node

    def key(self, name: str) -> Node | None:
        """The node of a key."""
        pair = self.entries().get(name) if self.kind == MAP else None
        return pair[0] if pair else None

    def string(self, *path: str) -> str:
        """The text of the scalar at a path; "" when there is none."""
        node = self.get(*path)
        return node.text if node is not None and node.kind == SCALAR else ""

    def list(self, *path: str) -> list[Node]:
        """The items at a path."""
        node = self.get(*path)
        return node.items if node is not None and node.kind == LIST else []

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            stack += [v for _, v in reversed(node.pairs)]
            stack += reversed(node.items)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.text or self.pairs or self.items}>"


def documents(text: str) -> tuple[list[Node], NotRead | None]:
    """The documents of a YAML text, and what is wrong behind them (None: nothing)."""
    if len(text) > MOST_TEXT:
        return [], NotRead("too long")
    try:
        import yaml
    except ImportError:
        return [], NotRead("PyYAML is not installed", missing=True)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except NotRead as e:
        return builder.done, e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        why = getattr(e, "problem", None) or getattr(e, "reason", None) or "not YAML"
        return builder.done, NotRead(str(why), mark.line + 1 if mark else 0)
    except (ValueError, RecursionError, MemoryError) as e:  # surrogates; bounds of the parser itself
        return builder.done, NotRead(type(e).__name__)
    return builder.done, None


class _Builder:
    def __init__(self) -> None:
        self.done: list[Node] = []
        self.stack: list[Node] = []
        self.keys: list[Node | None] = []
        self.anchors: dict[str, Node] = {}
        self.count = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            node = Node(SCALAR, event.start_mark.index, event.end_mark.index)
            node.plain = not event.style
            tag = event.tag or ""
            known = not tag or tag.startswith("tag:yaml.org")
            node.text = event.value if known else f"{OPEN}{tag} {event.value}{CLOSE}"
            self.named(event, node)
            self.put(node)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            node = Node(MAP if kind[0] == "M" else LIST, event.start_mark.index, event.end_mark.index)
            self.named(event, node)
            if len(self.stack) >= DEEP:
                raise NotRead("nested too deeply")
            self.put(node)
            self.stack.append(node)
            self.keys.append(None)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            node = self.stack.pop()
            self.keys.pop()
            node.end = event.end_mark.index
        elif kind == "AliasEvent":
            known_node = self.anchors.get(event.anchor)
            if known_node is None:
                raise NotRead(f"no anchor {event.anchor}", event.start_mark.line + 1)
            self.put(known_node)
        elif kind == "DocumentStartEvent":
            self.anchors = {}

    def named(self, event: Any, node: Node) -> None:
        self.count += 1
        if self.count > MOST_NODES:
            raise NotRead("too many entries")
        if event.anchor:
            self.anchors[event.anchor] = node

    def put(self, node: Node) -> None:
        if not self.stack:
            self.done.append(node)
            return
        parent = self.stack[-1]
        if parent.kind == LIST:
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            self.keys[-1] = node
        else:
            parent.pairs.append((key, node))
            self.keys[-1] = None


# ------------------------------------------------------------------------------------------------------------ JSON
_JSON = re.compile(
    r"[ \t\n\r\ufeff]+|//[^\n]*|/\*.*?\*/|(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<word>[-+.\w]+)|(?P<sign>[{}\[\]:,])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def json_document(text: str) -> tuple[list[Node], NotRead | None]:
    """The value of a JSON text, comments and commas at the end allowed; in a list like `documents`."""
    if len(text) > MOST_TEXT:
        return [], NotRead("too long")
    builder = _Builder()
    at = 0
    try:
        while at < len(text):
            m = _JSON.match(text, at)
            if m is None:
                raise NotRead("not JSON", text.count("\n", 0, at) + 1)
            at = m.end()
            sign = m["sign"]
            if m["string"] is not None or m["word"] is not None:
                node = Node(SCALAR, m.start(), at)
                node.plain = m["word"] is not None
                node.text = m["word"] if node.plain else _ESCAPE.sub(_unescaped, m["string"][1:-1])
                builder.count += 1
                builder.put(node)
            elif sign == "{" or sign == "[":
                if len(builder.stack) >= DEEP or builder.count > MOST_NODES:
                    raise NotRead("nested too deeply")
                builder.count += 1
                node = Node(MAP if sign == "{" else LIST, m.start(), at)
                builder.put(node)
                builder.stack.append(node)
                builder.keys.append(None)
            elif sign == "}" or sign == "]":
                if not builder.stack or (builder.stack[-1].kind == MAP) != (sign == "}"):
                    raise NotRead("not JSON", text.count("\n", 0, at) + 1)
                builder.keys.pop()
                builder.stack.pop().end = at
    except NotRead as e:
        return [], e
    if builder.stack or len(builder.done) != 1:
        return [], NotRead("not JSON")
    return builder.done, None


def _unescaped(m: re.Match[str]) -> str:
    return chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2])


# ------------------------------------------------------------------------------------------------------- templates
_ACTION = re.compile(r"(?<!\$)\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ALONE = re.compile(
    r"^[ \t]*((?:(?<!\$)\{\{(?:(?!\}\}).)*\}\}[ \t]*|\{%(?:(?!%\}).)*%\}[ \t]*)+)$", re.DOTALL | re.MULTILINE
)
_CONTROL = re.compile(
    r"(?:\{\{|\{%)[-+]?\s*(?:if|else|elif|end|endif|endfor|range|for|with|define|block|/\*|\$[\w]*\s*:?=|set|macro|import|from|break|continue)"
)
_WORDS = re.compile(r"[^\w.]")


class Template:
    """A text without its template actions: `text` of the same length, `actions` {offset: what stands there} of those
    inside lines, `inserts` offsets of lines that insert text of their own."""

    __slots__ = ("actions", "inserts", "text")

    def __init__(self, text: str) -> None:
        self.actions: dict[int, str] = {}
        self.inserts: list[int] = []
        self.text = _ACTION.sub(self._inline, _ALONE.sub(self._alone, text))

    def _alone(self, m: re.Match[str]) -> str:
        if not _CONTROL.match(m[1]):
            self.inserts.append(m.start())
        return re.sub(r"[^\n]+", lambda line: "#" + "-" * (len(line[0]) - 1), m[0])

    def _inline(self, m: re.Match[str]) -> str:
        if m[0].startswith("{%") or "\n" in m[0]:
            return re.sub(r"[^\n]", " ", m[0])
        inner = m[0].strip("{}").strip("-").strip()
        if _CONTROL.match(m[0]):  # `{{ if }}a{{ else }}b{{ end }}`
            inner = "either"
        self.actions[m.start()] = inner
        return OPEN + _WORDS.sub("_", m[0][1:-1]) + CLOSE


def is_template(text: str) -> bool:
    return ("{{" in text or "{%" in text) and _ACTION.search(text) is not None


# ---------------------------------------------------------------------------------------------------------- scalars
def traced(node: Node, text: str) -> Traced:
    """The text of a scalar with the place of each word: `text` is the whole file."""
    starts, places = [0], [node.start]
    at = node.start
    value = node.text
    for m in re.finditer(r"\S+", value):
        # a word with escapes is not there as it is: looking further than the next lines finds nothing
        found = text.find(m[0], at, min(node.end, at + len(m[0]) + 2000))
        if found < 0:
            continue
        if starts[-1] == m.start():
            places[-1] = found
        else:
            starts.append(m.start())
            places.append(found)
        at = found + len(m[0])
    return Traced(value, starts, places)
