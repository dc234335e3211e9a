"""Files to facts: each by the reader that knows it, many at once where there are many, none at the cost of another.

One file is one piece of work: it goes to a process of a pool as a path and comes back as plain rows, so a job of ten
thousand ranks needs memory for its summaries only. Where there is no pool (one core, few files, a system that allows no
processes) the same function runs here.
"""

from __future__ import annotations

import contextlib
import os
import sys

from torchvet.findings import Text

from .evidence.reader import Reader, all_readers, reader_of
from .files import Item, Unreadable, item, items
from .model import Fact, Inventory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Row = tuple[Any, ...]
    Result = tuple[str, str, int, list[Row], list[tuple[str, Any]]]
    """name, kind, size, facts as rows, problems as (name, plain text)."""
    Where = tuple[str, str, int]
    """name, path, size."""
    Chunk = list[tuple[int, Where]]

FEW_FILES, FEW_BYTES = 48, 48 << 20
CHUNK_FILES, CHUNK_BYTES = 32, 24 << 20
MOST_JOBS = 32


def read(
    paths: list[str], progress: Callable[[str], None] | None = None, jobs: int | None = None
) -> tuple[list[Fact], Inventory]:
    """The facts of all files, and what there is. `jobs`: processes, None = one for each usable core."""
    inventory = Inventory()
    results: list[Result | None] = []
    waiting: Chunk = []
    readers = all_readers()
    for entry in items(paths):
        if not isinstance(entry, Item):
            results.append((entry[0], "", -1, [], [(entry[0], entry[1].plain())]))
        elif entry.data is None and not entry.offset:
            waiting.append((len(results), (entry.name, entry.path, entry.size)))
            inventory.paths[entry.name] = entry.path
            results.append(None)
        else:  # inside an archive: its bytes are here, and only until the next one is asked for
            if progress:
                progress(entry.name)
            inventory.paths[entry.name] = entry.path
            results.append(read_item(entry, readers))
    for index, done in _worked(waiting, jobs, progress):
        results[index] = done
    facts: list[Fact] = []
    shared: dict[str, Any] = {}
    for name, kind, size, rows, problems in (r for r in results if r is not None):
        if size >= 0:
            inventory.files.append((name, kind, size, len(rows)))
        inventory.problems += [(n, Text.from_plain(t)) for n, t in problems]
        facts += [_fact(row, shared, inventory) for row in rows]
    return [f for f in facts if f.kind not in ("reduced-file", "reduced-problem")], inventory


def read_item(entry: Item, readers: list[Reader]) -> Result:
    """One file: whatever goes wrong in it becomes a problem of this file."""
    reader = reader_of(entry, readers)
    rows: list[Row] = []
    problem: Text | None = None
    if reader is not None:
        try:
            for fact in reader.read(entry):
                rows.append(_row(fact))
        except Unreadable as e:
            problem = e.text
        except OSError as e:
            why = e.strerror or type(e).__name__
            problem = Text("cannot be read: {reason}", "无法读取：{reason}", reason=why)
        except MemoryError:
            problem = Text("needs more memory than there is", "所需内存超过可用内存")
        except Exception as e:  # a reader's bug must not cost the other files
            why = f"{type(e).__name__}: {e}"[:120]
            problem = Text("torchvet failed here: {what}", "torchvet 在此处出错：{what}", what=why)
    kind = reader.name if reader is not None else "unknown"
    return entry.name, kind, entry.size, rows, [(entry.name, problem.plain())] if problem is not None else []


def _row(fact: Fact) -> Row:
    return (
        fact.kind, fact.source, fact.line, fact.rank, fact.text, fact.time, fact.order, fact.values, fact.quality
    )  # fmt: skip


def _fact(row: Row, shared: dict[str, Any], inventory: Inventory) -> Fact:
    """A fact again. What thousands of dumps say in the same words is kept once."""
    fact = Fact(*row)
    if fact.kind in ("progress", "call"):
        for key, value in fact.values.items():
            if type(value) is str and len(value) < 4096:
                fact.values[key] = sys.intern(value)
        if fact.kind == "call":
            fact.values["frames"] = _once(fact.values.get("frames"), shared)
    elif fact.kind == "recorder":
        fact.values["rows"] = [_once(r, shared) for r in fact.values.get("rows") or ()]
    elif fact.kind == "reduced-file":
        v = fact.values
        inventory.files.append((fact.source, str(v.get("kind")), int(v.get("size") or 0), int(v.get("facts") or 0)))
        if v.get("path") and v.get("kind") == "recorder":
            from .closer import reachable

            outer, _, name = fact.source.partition("!")
            inventory.paths[fact.source] = reachable(str(v["path"]), inventory.paths.get(outer, outer), name)
    elif fact.kind == "reduced-problem":
        inventory.problems.append((fact.source, Text(fact.text, str(fact.values.get("zh") or ""))))
    return fact


def _once(value: Any, shared: dict[str, Any]) -> Any:
    return shared.setdefault(repr(value), value)


def _worked(waiting: Chunk, jobs: int | None, progress: Callable[[str], None] | None) -> Iterator[tuple[int, Result]]:
    """(index, result) of every file, by processes where that is worth it."""
    if jobs is None:
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    many = len(waiting) > FEW_FILES or sum(size for _, (_, _, size) in waiting) > FEW_BYTES
    left = dict(waiting)
    if many and jobs > 1:
        for index, result in _by_pool(list(_chunks(waiting)), min(jobs, MOST_JOBS)):
            left.pop(index, None)
            if progress:
                progress(result[0])
            yield index, result
    readers = all_readers() if left else []
    for index, where in sorted(left.items()):
        if progress:
            progress(where[0])
        yield index, _read_path(where, readers)


def _chunks(waiting: Chunk) -> Iterator[Chunk]:
    chunk: Chunk = []
    held = 0
    for one in waiting:
        chunk.append(one)
        held += one[1][2]
        if len(chunk) >= CHUNK_FILES or held >= CHUNK_BYTES:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _by_pool(chunks: list[Chunk], jobs: int) -> Iterator[tuple[int, Result]]:
    """What other processes read. Where there can be none, the rest is left to the caller.

    One pipe for each process and no threads here: nothing is left to wait for when a process dies.
    """
    from multiprocessing.connection import wait

    todo = list(reversed(chunks))
    workers: dict[Any, tuple[Any, Chunk]] = {}
    all_started: list[tuple[Any, Any]] = []

    def start() -> tuple[Any, Any] | None:
        started = _start([pipe for _, pipe in all_started])
        if started is not None:
            all_started.append(started)
        return started

    try:
        for _ in range(min(jobs, len(chunks))):
            started = start()
            if started is None:
                break
            _give(workers, *started, todo.pop())
        while workers:
            ready: list[Any] = list(wait(list(workers)))
            for pipe in ready:
                process, chunk = workers.pop(pipe)
                try:
                    result = pipe.recv()
                except (EOFError, OSError):  # the process has ended: which of its files was it?
                    process.join(1)
                    yield from _one_by_one(chunk)
                    if todo and (started := start()) is not None:
                        _give(workers, *started, todo.pop())
                    continue
                if todo:
                    _give(workers, process, pipe, todo.pop())
                yield from result
    finally:
        # all of them: one that has nothing to do would hold the pipe that this program's caller reads
        for process, pipe in all_started:
            process.kill()
            process.join(5)
            pipe.close()


def _start(others: list[Any] | None = None) -> tuple[Any, Any] | None:
    """(process, our end of its pipe), or None where there can be no process. `others`: our ends that a forked process
    would keep open, so that nobody saw this program end."""
    try:
        import multiprocessing

        # fork where it is the custom and safe (this process has no threads): a process starts in a millisecond
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        ours, theirs = context.Pipe()
        forked = context.get_start_method() == "fork"
        process = context.Process(target=_work, args=(theirs, [ours, *(others or ())] if forked else []), daemon=True)
        process.start()
        theirs.close()
        return process, ours
    except (OSError, ImportError, NotImplementedError, ValueError, AssertionError):
        return None


def _give(workers: dict[Any, tuple[Any, Chunk]], process: Any, pipe: Any, chunk: Chunk) -> None:
    with contextlib.suppress(OSError):  # it has ended: seen when its answer is read
        pipe.send(chunk)
    workers[pipe] = (process, chunk)


def _one_by_one(chunk: Chunk) -> Iterator[tuple[int, Result]]:
    """Files among which one ends the process that reads it: each by a process of its own."""
    for index, where in chunk:
        started = _start()
        if started is None:
            return
        process, pipe = started
        try:
            pipe.send([(index, where)])
            results = pipe.recv()
        except (EOFError, OSError):
            text = Text("ended the process that read it", "读取它的进程异常终止")
            results = [(index, (where[0], "unknown", where[2], [], [(where[0], text.plain())]))]
        finally:
            process.kill()
            process.join(5)
            pipe.close()
        yield from results


def _work(pipe: Any, foreign: list[Any]) -> None:
    """The life of such a process: chunks in, results out, until the pipe closes."""
    for end in foreign:
        end.close()
    readers = all_readers()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            pipe.send([(index, _read_path(where, readers)) for index, where in pipe.recv()])


def _read_path(where: Where, readers: list[Reader]) -> Result:
    name, path, size = where
    entry = item(path, name)
    if entry is None or not isinstance(entry, Item):
        text = entry[1] if entry is not None else Text("is not a regular file", "不是普通文件")
        return name, "unknown", size, [], [(name, text.plain())]
    return read_item(entry, readers)
