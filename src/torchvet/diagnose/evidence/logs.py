# ruff: noqa: E501
"""Logs of programs and launchers, of one rank or of all ranks merged."""

from __future__ import annotations

import json
import re
from functools import cache

from torchvet.findings import Text

from ..files import Unreadable
from ..model import MEDIUM, WEAK, Fact
from .frames import frame_of, own_frame
from .json_lines import is_record, unwrapped
from .kernel import KERNEL_BY_LITERAL, kernel_fact
from .launcher import Block
from .lines import Literals, blocks, clean, distinct, plain, sampled, words
from .patterns import BY_LITERAL, GROUP, RAW, plain_part, size_of, values_of
from .places import place_of
from .prefixes import Speaker, has_services, has_tasks, margin_before_mark, margin_of, speaker_of
from .reader import Reader
from .series import NAN_HINT, Series, Steps, memory_of, nan_of
from .times import clock_of, time_of
from .tracebacks import Traceback, is_box, starts, thread_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..files import Item

MOST_PER_KIND = 300
"""Facts of one kind from one file: a log repeats itself, the first ones and the counts tell enough."""
EVERY_LINE = 20_000
NEAR_END = 2 << 20
"""Steps and series are read from every line until this line and in the last bytes, between them from one in SPARSE."""
SPARSE = 64
MARKED = 50
"""Among so many first lines one shows whether marks of launchers stand behind something else."""
MATCHED = 4096
"""Bytes of a line that expressions are tried on: the longest messages of PyTorch have some 2,000."""

_MACHINE = re.compile(
    rb"^(?:\[?[IWEF]\d{3,4} |\[[IWEF] |\[[IWEF]\d{3,4} |[\w.\-]+:\d+:\d+ \[\d+\]|frame #\d+|Exception raised from|terminate called|  what\(\):|<omitting"
    rb"|slurmstepd|srun: |(?:WARNING|ERROR|INFO):torch\.distributed|\*{5}|={10}|-{10}|Failures:|Root Cause|  <NO_OTHER|\s*\[\d+\]:$|CUDA kernel errors|For debugging|Compile with"
    rb"|Setting OMP_NUM|NOTE: |\s*$|Fatal Python|Thread 0x|Current thread 0x|  File \"|  (?:time|host|rank|exitcode|error_file|traceback) *:|Extension modules:|(?:Segmentation fault|Killed|Aborted|Terminated|Bus error)\b)"
)
_DONE = re.compile(
    rb"(?i)\b(?:training|train|run|job|fit|epochs?)(?: \d{1,6})? (?:is |has )?(?:finished|complete[d]?|done|ended)\b|`?trainer\.fit`? stopped|^\W*(?:all )?done\b|\b(?:no (?:more )?(?:samples|batches|data)[^\n]{0,40})"
    rb"|\bfinished (?:training|all|successfully)|\bexhausted\b|\bexiting\b|\b(?:early )?stopp(?:ed|ing)\b|, done$|\bleaving\b"
)
_SAYS_RANK = re.compile(
    rb"(?i)\b(?:global[_ ]?)?rank[ =:]{1,3}(\d{1,6})\b(?: ?(?:of|/) ?(\d{1,6})\b)?|\brank (\d{1,6}) of (\d{1,6})\b"
)
_LEFT_OUT = re.compile(
    rb"(?i)\bskip(?:ped|ping|s)\b[^\n]{0,30}\b(?:batch|step|sample|micro[- ]?batch|iteration)"
    rb"|\b(?:batch|step|sample|micro[- ]?batch|iteration)\b[^\n]{0,20}\bskipped\b"
)
# behind a progress bar or a logger's mark: the bar left no line end
_LATE = re.compile(
    rb"(?:\[rank(\d{1,6})\]:?\s?)?(?:Traceback \(most recent call last\):\"?\s*$|\xe2\x95\xad(?:\xe2\x94\x80)+ Traceback \(most)"
)
# MosaicML's launcher prints the streams of each process one after the other
_SECTION = re.compile(rb"-{5,}(Begin|End) global rank (\d{1,6}) STD(?:OUT|ERR)-{5,}")
_SPAWNED = re.compile(rb"-- Process (\d{1,6}) terminated with the following error:")


class Voice:
    """One process as a log tells it."""

    def __init__(self, speaker: Speaker | None) -> None:
        self.speaker = speaker or Speaker()
        self.traceback: Traceback | None = None
        self.thread: tuple[str, bool] | None = None
        self.inside: list[Fact] = []  # facts of lines within the traceback
        self.raised: list[Fact] = []
        self.block = Block()
        self.steps = Steps()
        self.series: dict[tuple[str, str], Series] = {}
        self.nan: dict[str, Any] = {}
        self.nan_line = 0
        self.last = b""
        self.last_line = 0
        self.last_time: float | None = None
        self.done = False
        self.skipped: dict[str, Any] = {}
        self.lines = 0
        self.spawned: int | None = None  # torch.multiprocessing.spawn: whose traceback follows
        self.fatal: Fact | None = None  # "Fatal Python error": its stack follows
        self.fatal_open = False


class LogReading:
    """One pass over one log."""

    def __init__(self, item: Item) -> None:
        self.name = item.name
        self.place = place_of(item.name)
        head = plain(item.head)
        self.tasks = not self.place.tree and has_tasks(head)
        self.services = not self.place.tree and has_services(head)
        self.voices: dict[str, Voice] = {}
        self.named: dict[int, int] = {}
        self.worlds: dict[int, int] = {}
        self.pids: set[int] = set()
        self.counts: dict[str, int] = {}
        self.order = 0
        self.facts: list[Fact] = []
        self.section: int | None = None  # rank whose stream follows
        self.margin: re.Pattern[bytes] | None = None  # what a collector puts before every line
        self.stamp = b""  # what was cut off the line at hand
        self.last_exit: tuple[int, bytes, Voice, dict[str, Any]] | None = None  # of a child, or of an actor
        self.busy: set[int] = set()  # voices inside a traceback, a block or a stack: their next lines belong to it

    def voice(self, speaker: Speaker | None) -> Voice:
        if self.place.tree or self.place.rank is not None or speaker is None:
            key = ""
        else:
            key = speaker.key
        voice = self.voices.get(key)
        if voice is None:
            if len(self.voices) >= 65536:
                return self.voices.setdefault("", Voice(None))
            voice = self.voices[key] = Voice(speaker if key else None)
        return voice

    def fact(
        self, kind: str, number: int, line: bytes, voice: Voice, values: dict[str, Any], **more: Any
    ) -> Fact | None:
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count > MOST_PER_KIND:
            return None
        self.order += 1
        rank = more.pop("rank", None)
        if rank is None:
            rank = voice.speaker.rank if voice.speaker.rank is not None else self.place.rank
        clock = clock_of(line)
        if clock is not None:
            values = {**values, "clock": round(clock, 3)}
        for key in ("local", "pid", "node", "task"):
            said = getattr(voice.speaker, key)
            if said not in (None, "") and key not in values:
                values = {**values, key: said}
        fact = Fact(
            kind,
            self.name,
            number,
            rank,
            words(line),
            more.pop("time", None) or time_of(line) or (time_of(self.stamp) if self.stamp else None),
            self.order,
            values,
            **more,
        )
        self.facts.append(fact)
        return fact

    def line(self, number: int, raw: bytes, active: tuple[bytes, ...], full: bool) -> None:
        if raw[:8] == b'{"log":"':  # Docker's json-file driver
            raw = _of_docker(raw)
        if raw[:2] == b'{"':
            for part in unwrapped(raw):
                self.part(number, part, active, full)
        else:
            self.part(number, raw, active, full)

    def part(self, number: int, raw: bytes, active: tuple[bytes, ...], full: bool) -> None:
        raw = clean(raw)
        if b"\r" in raw:
            parts = [p for p in raw.split(b"\r") if p.strip()]
            for part in parts[-64:]:
                self.one(number, part, active, full)
            return
        self.one(number, raw, active, full)

    def one(self, number: int, raw: bytes, active: tuple[bytes, ...], full: bool) -> None:
        self.stamp = b""
        if self.margin is not None and (found := self.margin.match(raw)):
            self.stamp, raw = found.group(), raw[found.end() :]
            if self.stamp[-1:] == b'"':  # a column of a table
                raw = raw.removesuffix(b'"').replace(b'""', b'"')
        speaker, line, stamp = (
            speaker_of(raw, self.tasks, self.services) if raw[:1] != b"[" or raw[-2:] != b"]:" else (None, raw, b"")
        )
        if (
            self.margin is None
            and number < MARKED
            and (stamp or speaker is None)
            and (margin := margin_before_mark(raw))
        ):
            self.margin = margin
            self.one(number, raw, active, full)
            return
        if line[:5] == b"-----" and (found := _SECTION.match(line)):
            self.section = int(found.group(2)) if found.group(1) == b"Begin" else None
            return
        if speaker is None and self.section is not None:
            speaker = Speaker(f"section {self.section}", self.section)
        if speaker is not None and speaker.rank is not None:
            self.named[speaker.rank] = self.named.get(speaker.rank, 0) + 1
        voice = self.voice(speaker)
        voice.lines += 1
        behind = (
            b"Traceback (most" in line and not voice.block.open and not starts(line)
        )  # torchelastic's block is its own
        if behind and (late := _LATE.search(line)) and late.start():
            cut = len(raw) - len(line)
            if self.margin is None and (margin := margin_of(raw, cut + late.start())) is not None:
                self.margin = margin
                self.one(number, raw, active, full)
                return
            self.told(number, line[: late.start()], stamp, voice, active, full)
            if late.group(1):
                self.one(number, line[late.start() :], active, full)
                return
            line = line[late.start() :]
        self.told(number, line, stamp, voice, active, full)
        if voice.traceback is not None or voice.block.open or voice.fatal is not None:
            self.busy.add(id(voice))
        else:
            self.busy.discard(id(voice))

    def told(self, number: int, line: bytes, stamp: bytes, voice: Voice, active: tuple[bytes, ...], full: bool) -> None:
        if line[:11] == b"-- Process " and (found := _SPAWNED.match(line)):
            self.close(voice)
            voice.spawned = int(found.group(1))
            return
        if voice.traceback is not None:
            outlived = voice.traceback.state == "message" and voice.steps.known(line)
            if not outlived and voice.traceback.feed(line):
                if active:
                    self.match(number, line, voice, active)
                return
            self.close(voice)
        if starts(line):
            thread, quiet = voice.thread or ("", False)
            voice.traceback, voice.thread = Traceback(number, thread, quiet, is_box(line)), None
            voice.traceback.grouped = line.lstrip()[:1] in (b"|", b"+") and not voice.traceback.boxed
            return
        if voice.fatal is not None and self.fatal_line(line, voice):
            return
        if line[:10] == b"Exception " and (thread_said := thread_of(line)):
            voice.thread = thread_said
            return
        if voice.block.open or line[:4] in (b"Fail", b"Root"):
            for kind, at, text, values, when in voice.block.feed(number, line):
                self.fact(kind, at, text.encode(), voice, values, rank=values.pop("rank"), time=when)
            if voice.block.open:
                return
        if active:
            self.match(number, line, voice, active)
        if full:
            self.own(number, line, stamp, voice)

    def fatal_line(self, line: bytes, voice: Voice) -> bool:
        """The stack behind "Fatal Python error" (faulthandler): the frames of the thread that crashed."""
        fatal = voice.fatal
        assert fatal is not None
        if line.startswith(b"Current thread "):
            fatal.values.update(current=True, frames=[])
            voice.fatal_open = True
            return True
        if line.startswith(b"Thread "):
            voice.fatal_open = "frames" not in fatal.values
            return True
        frame = frame_of(line)
        if frame is None:
            if line.strip():
                voice.fatal = None
            return False
        if voice.fatal_open and len(fatal.values.setdefault("frames", [])) < 60:
            fatal.values["frames"].append(frame)
        return True

    def match(self, number: int, line: bytes, voice: Voice, active: tuple[bytes, ...]) -> None:
        hits = [literal for literal in active if literal in line]
        if not hits:
            return
        part = plain_part(line[:MATCHED])
        kinds: set[str] = set()
        for literal in hits:
            for pattern in BY_LITERAL.get(literal, ()):
                if pattern.kind in kinds and pattern.kind not in ("lost",):
                    continue
                found = pattern.regex.search(line[:MATCHED] if pattern.kind in RAW else part)
                if not found:
                    continue
                kinds.add(pattern.kind)
                values = {**pattern.values, **values_of(found)}
                self.matched(pattern.kind, number, line, voice, values, pattern.quality)
            for pattern in KERNEL_BY_LITERAL.get(literal, ()):
                if pattern.kind not in kinds and (made := kernel_fact(pattern, line)):
                    kinds.add(pattern.kind)
                    self.fact(pattern.kind, number, line, voice, made, rank=-1)

    def matched(self, kind: str, number: int, line: bytes, voice: Voice, values: dict[str, Any], quality: str) -> None:
        rank = None
        if kind == "nccl-init":
            # NCCL counts the ranks of one communicator: the world's only when it is the largest (see ranks.settle)
            values["comm_rank"] = values.pop("rank", None)
            self.pids.add(values.get("pid", 0))
        elif kind in ("launched", "exit"):
            rank = values.pop("rank", None)
            if "signal_number" in values:
                values["code"] = -values.pop("signal_number")
        elif kind == "last-exit":
            if not any(f.kind == "exit" and f.line == number for f in self.facts[-3:]):  # a launcher's line says whose
                self.last_exit = (number, line, voice, values)
            return
        elif kind == "actor":  # Ray describes the actor behind the error
            if self.last_exit is not None and self.last_exit[3]["by"] == "ray" and number - self.last_exit[0] < 8:
                self.last_exit[3].update(values)
            return
        elif kind == "exit-code":  # Open MPI and Hydra tell it on a line behind the process
            ended = next((f for f in reversed(self.facts[-3:]) if f.values.get("by") in ("mpi", "hydra")), None)
            if ended is not None and number - ended.line <= (1 if ended.values["by"] == "mpi" else 6):
                signal_number = values.get("signal_number")
                ended.values["code"] = values["code"] if signal_number is None else -signal_number
            return
        elif kind == "mismatch":
            values = {
                side: {"rank": values.get(f"{side}_rank"), "seq": values.get(f"{side}_seq"), "op": values.get(f"{side}_op"),
                       "shape": values.get(f"{side}_shape"), "dtypes": values.get(f"{side}_dtypes")}
                for side in ("a", "b") if values.get(f"{side}_op")
            }  # fmt: skip
        elif kind == "cuda-oom":
            values["others"] = [
                [int(pid), size]
                for pid, size in re.findall(r"Process (\d+) has ([\d.]+ \w+)", str(values.get("others") or ""))
            ]
            values["others"] = [[pid, size] for pid, text in values["others"] if (size := size_of(text)) is not None]
            if allowed := values.get("allowed"):  # torch.cuda.set_per_process_memory_fraction: the device has more
                used = (values.get("allocated") or 0) + (values.get("reserved") or 0)
                values["capacity"], values["free"] = allowed, max(0, allowed - used)
        elif kind == "async-error" and "Watchdog caught collective" in str(values.get("message")):
            return  # the timeout again
        if kind in ("watchdog", "progress", "async-error", "heartbeat", "dump-signal"):
            if found := GROUP.search(line):
                said = values_of(found)
                values.setdefault("group", str(said.get("group", said.get("old", ""))))
                values.setdefault("description", said.get("description") or said.get("odesc") or "")
                values.setdefault("group_rank", said.get("group_rank"))
            values["group"] = str(values.get("group", ""))
            if "r" in values:
                values.setdefault("group_rank", values.pop("r"))
        if kind == "cuda-oom" and quality != "strong" and self._repeats(kind, number, voice):
            return
        if kind == "config" and b"Warning: " in line:
            quality = WEAK
        fact = self.fact(kind, number, line, voice, values, rank=rank, quality=quality)
        if fact is not None and voice.traceback is not None:
            voice.inside.append(fact)
        if kind == "crash" and fact is not None and b"Fatal Python error" in line:
            voice.fatal, voice.fatal_open = fact, False

    def _repeats(self, kind: str, number: int, voice: Voice) -> bool:
        return bool(self.facts) and self.facts[-1].kind == kind and number - self.facts[-1].line <= 2

    def own(self, number: int, line: bytes, stamp: bytes, voice: Voice) -> None:
        """The program's own words: steps, memory, numbers that are none, the last line."""
        if _MACHINE.match(line):
            return
        voice.last, voice.last_line = line, number
        voice.last_time = time_of(stamp) if stamp else None
        step = voice.steps.seen(line, number)
        for name, value in memory_of(line):
            context, at = step or ("line", number)
            key = (name, context)
            series = voice.series.get(key)
            if series is None:
                if len(voice.series) >= 32:
                    continue
                series = voice.series[key] = Series(name, context, number)
            series.add(at, value)
        if NAN_HINT.search(line) and (nan := nan_of(line)):
            what, value_text, skipped = nan
            row = voice.nan
            if not row:
                row.update(
                    what=what,
                    value=value_text,
                    count=0,
                    skipped=False,
                    text=words(line),
                    step=step[1] if step else voice.steps.last(),
                )
                voice.nan_line = number
            row["count"] += 1
            row["last_step"] = step[1] if step else voice.steps.last()
            if skipped and not row["skipped"]:
                row["skipped"], row["skip_line"], row["skip_text"] = True, number, words(line)
        if b"kip" in line and _LEFT_OUT.search(line):
            voice.skipped = voice.skipped or {"text": words(line), "line": number, "count": 0}
            voice.skipped["count"] += 1
        if voice.steps.lines and step is None and _DONE.search(line):
            voice.done = True
        elif step is not None:
            voice.done = False
        if (found := _SAYS_RANK.search(line)) and len(self.named) < 100_000:
            rank = int(found.group(1) or found.group(3))
            world = found.group(2) or found.group(4)
            if world and voice.lines < 200:
                self.worlds[int(world)] = self.worlds.get(int(world), 0) + 1
                if self.place.tree:
                    self.named[rank] = self.named.get(rank, 0) + 1

    def close(self, voice: Voice) -> None:
        """A traceback is over: its fact, and its place for the facts of its lines."""
        traceback = voice.traceback
        if traceback is not None and traceback.boxed and traceback.chain:  # rich breaks long messages into lines
            whole = " ".join(f"{traceback.chain[-1][0]}: {traceback.chain[-1][1]}".split()).encode()
            if b" out of memory" in whole and b"\n" in traceback.chain[-1][1].encode():
                self.match(traceback.line, whole, voice, (b" out of memory",))
        voice.traceback = None
        inside, voice.inside = voice.inside, []
        if traceback is None:
            return
        values = traceback.values()
        if values is None:
            return
        if values["type"] in ("ChildFailedError", "SignalException") or (
            values["type"] == "CalledProcessError" and values["victim"]
        ):
            return  # the launcher's own end; its block or its message says more
        if voice.spawned is not None:
            values["local"], voice.spawned = voice.spawned, None
        line = f"{values['type']}: {values['message']}".encode()
        raised = self.fact("exception", traceback.line, line, voice, values)
        if raised is not None:
            voice.raised.append(raised)
        frames = values["frames"]
        for fact in inside:
            if own_frame(frames):
                fact.values.setdefault("frames", frames[:30])
            if values.get("thread"):
                fact.values.setdefault("thread", values["thread"])
                if values["thread"] == "queue feeder":
                    fact.values["feeder"] = True
            if "worker" in values:
                fact.values.setdefault("in_worker", values["worker"])

    def caught(self, voice: Voice, key: str) -> None:
        """Exceptions that a process printed and outlived: it told steps behind them."""
        if self.place.tree or self.place.rank is not None or key:
            last = max((row[3] for row in voice.steps.contexts.values()), default=0)
            for fact in voice.raised:
                if fact.line < last:
                    fact.values["caught"] = True

    def end(self, cut: bool = False) -> None:
        """`cut`: the last line has no end."""
        if not self.voices:
            self.voice(None)
        if self.last_exit is not None:
            number, line, voice, values = self.last_exit
            steps = [row[3] for v in self.voices.values() for row in v.steps.contexts.values()]
            if max(steps, default=0) < number:  # else the program went on without it
                self.fact("launcher-exit" if values["by"] == "ray" else "exit", number, line, voice, values)
                if "pid" in values:
                    died = {k: v for k, v in values.items() if k != "code"}
                    self.fact("died", number, line, voice, died, rank=-1)
        for key, voice in self.voices.items():
            last_word = voice.traceback if cut else None
            self.close(voice)
            if last_word is not None and voice.raised:
                voice.raised[-1].values["cut"] = "message" if is_whole(voice.raised[-1]) else "name"
            self.caught(voice, key)
            step = voice.steps.last()
            values: dict[str, Any] = {
                "last": words(voice.last), "step": step, "steps": voice.steps.lines, "lines": voice.lines, "stream": self.place.stream,
                "done": voice.done, "label": key,
            }  # fmt: skip
            if last_word is not None:
                values["cut"] = True
            if steps := [row[3] for row in voice.steps.contexts.values()]:
                values["step_line"] = max(steps)
            if voice.skipped:
                values["skipped"] = voice.skipped
            for name in ("local", "node", "run", "attempt"):
                said = getattr(self.place, name)
                if said not in (None, ""):
                    values[name] = said
            if not key:
                values["named"] = {str(r): n for r, n in sorted(self.named.items(), key=lambda kv: -kv[1])[:4096]}
                values["worlds"] = {str(w): n for w, n in self.worlds.items()}
                values["pids"] = sorted(self.pids)[:64]
                values["tree"] = self.place.tree
            self.fact("output", voice.last_line, voice.last, voice, values, time=voice.last_time)
            for series in voice.series.values():
                if (row := series.values()) is not None:
                    self.fact(
                        "series", series.line, f"{series.context} {series.name}".encode(), voice, row, quality=MEDIUM
                    )
            if voice.nan:
                text = voice.nan.pop("text")
                self.fact("nan", voice.nan_line, text.encode(), voice, voice.nan)


def is_whole(fact: Fact) -> bool:
    """Whether the name of an exception at a cut end is all of it."""
    name = str(fact.values.get("type"))
    return bool(fact.values.get("message")) or name.endswith(("Error", "Exception", "Exit", "Interrupt", "Warning"))


@cache
def _literals() -> Literals:
    return Literals({**BY_LITERAL, **KERNEL_BY_LITERAL})


def _of_docker(raw: bytes) -> bytes:
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return str(row.get("log", "")).encode("utf-8", "replace") if isinstance(row, dict) else raw


def read(item: Item) -> Iterator[Fact]:
    """The facts of a log. Unreadable at the end: the middle of a huge file was not parsed."""
    reading = LogReading(item)
    literals = _literals()
    done = 0
    for number, lines in blocks(item):
        whole = b"\n".join(lines)
        done += len(whole) + 1
        few = distinct(whole)
        active = literals.inside(whole, few)
        hints = (
            active
            or reading.busy
            or b"Traceback" in few
            or b"Exception " in few
            or b"\nFailures:" in few
            or b"\n-- Process " in few
        )
        nan = b"nan" in few or b"NaN" in few
        near = item.size - done < NEAR_END
        last = len(lines) - 16
        if not (hints or nan or near) and number >= EVERY_LINE:
            for at in sorted({*range(0, len(lines), SPARSE), *range(max(0, last), len(lines))}):
                reading.line(number + at, lines[at], active, True)
            yield from reading.facts
            reading.facts = []
            continue
        for at, line in enumerate(lines):
            if number + at < EVERY_LINE or near or at % SPARSE == 0 or at >= last:
                reading.line(number + at, line, active, True)
            # what is told once is looked for on every line
            elif hints and (
                reading.busy or any(x in line for x in active) or b"Traceback" in line or line[:1] in b"EF-"
            ):
                reading.line(number + at, line, active, nan and nan_of(line) is not None)
            elif nan and (b"nan" in line or b"NaN" in line) and nan_of(line):
                reading.line(number + at, line, active, True)
        yield from reading.facts
        reading.facts = []
    reading.end(done > item.size)
    yield from reading.facts
    if sampled(item):
        raise Unreadable(
            Text(
                "is larger than 2 GiB: its first 256 MiB and its last 1 GiB were read",
                "大于 2 GiB：只读取了开头 256 MiB 与结尾 1 GiB",
            )
        )


def sniff(item: Item) -> float:
    """Any text may be a log; other readers know their own files better."""
    if not item.size:
        return 0.05 if item.base.endswith((".log", ".out", ".err", ".txt")) else 0.0
    head = item.head
    if b"\0" in head[:1024]:
        return 0.0
    if sum(c < 9 or 13 < c < 27 for c in head[:1024]) > 16:
        return 0.0
    first, _, more = head.partition(b"\n")
    if is_record(first) and is_record(more.partition(b"\n")[0]):
        return 0.3
    if item.base.endswith(".json") or (head[:1] in (b"{", b"[") and b"\n" not in head and item.size > len(head)):
        return 0.0
    return 0.3 if item.base.endswith((".log", ".out", ".err", ".txt")) else 0.2


READER = Reader("log", sniff, read)
