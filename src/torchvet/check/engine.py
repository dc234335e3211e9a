"""The whole of `torchvet check`, from paths to findings, on one page.

walk - run cache - read, gate and lower (in two processes where it pays) - program - rules - suppressions.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from time import perf_counter

from torchvet.findings import CERTAIN, ERROR, NOTE, WARNING, Finding, Span, Text, fingerprints

from .program.cache import GATED, FactsCache, RunCache, digest
from .source import words
from .source.search import hasten, searchable
from .source.walk import DEPLOYMENT, EXCLUDED, NATIVE, NOTEBOOK, PYTHON, Walk, kind_of, read, unreadable, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from .config import Options
    from .program.program import Program
    from .rules import Listed
    from .rules.project import Project

    Answer = TypeVar("Answer")
    Row = tuple[Any, ...]  # ("gated",) | ("module", block, words, broken cells) | ("problem", line, column, plain Text)

FORK_BYTES = 3_000_000
FORK_RULES = 1_000_000
"""From this much source on, a second process reads and lowers half of the files; from this much admitted source on, one
runs the rules of the family `APART` (they take as long as all others together)."""
APART = "collective"
HASTE_BYTES = 2_000_000
"""From this much source on, words are looked up by the C library: it is loaded in the time that 5 MB take."""

GROWTH = ("TV101", "TV102", "TV103", "TV104")
"""Rules of what grows with the number of steps, or costs memory while it runs: in a test that is a handful."""

DEPTH = 6000
"""Nested Python calls: values are followed through long chains of calls, bounded by budgets; 1000 are too few."""


class Result:
    """What a check found. `findings` are sorted and without the suppressed ones; paths are relative to `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self.suppressed = 0
        self.files = 0
        self.parsed = 0
        self.timing: list[tuple[str, float]] = []
        self.given_up: list[tuple[str, str]] = []
        self.skipped: list[tuple[str, Text]] = []
        self.looked_at: dict[str, int] = {}
        self.internal_errors = False
        self.cached = False
        self.read_text: Callable[[str], str] = lambda path: ""

    def plain(self) -> tuple[Any, ...]:
        return (
            [f.plain() for f in self.findings], self.suppressed, self.files, self.parsed, self.given_up,
            [(p, t.plain()) for p, t in self.skipped], self.looked_at, self.internal_errors,
        )  # fmt: skip

    def restore(self, row: Any) -> Result:
        (
            found,
            self.suppressed,
            self.files,
            self.parsed,
            self.given_up,
            skipped,
            self.looked_at,
            self.internal_errors,
        ) = row
        self.findings = [Finding.from_plain(f) for f in found]
        self.skipped = [(p, Text.from_plain(t)) for p, t in skipped]
        self.cached = True
        return self


def check(
    paths: Iterable[str],
    options: Options,
    *,
    stdin: bytes | None = None,
    stdin_name: str | None = None,
    progress: Callable[[str], None] | None = None,
    overlay: dict[str, bytes] | None = None,
) -> Result:
    """Check files and folders (or `stdin` under the name `stdin_name`). `overlay`: content that stands in for that of
    files, by path relative to the result's root. UserError: no such path."""
    collecting = gc.isenabled()
    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(max(depth, DEPTH))
    gc.disable()  # trees are a million objects without a cycle: collecting them makes parsing three times slower
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler warns about escapes in the user's strings
            return _Check(options, progress, overlay).run(list(paths), stdin, stdin_name or "<stdin>")
    finally:
        sys.setrecursionlimit(depth)
        if collecting:
            gc.enable()


def ask(paths: Iterable[str], options: Options, question: Callable[[Project, list[str]], Answer]) -> Answer:
    """What `question` answers about the code: it gets the project and all Python files that were read, admitted by a
    subject word or not. UserError: no such path."""
    from .rules.project import Project

    depth = sys.getrecursionlimit()
    sys.setrecursionlimit(max(depth, DEPTH))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check = _Check(options, None, None)
            found = check.walked(list(paths))
            program = check.program_of(found, check.rows(found, not options.no_cache))[0]
            return question(Project(program, options), [e[0] for e in found.files if e[4] != NOTEBOOK])
    finally:
        sys.setrecursionlimit(depth)


class _Check:
    def __init__(
        self, options: Options, progress: Callable[[str], None] | None, overlay: dict[str, bytes] | None
    ) -> None:
        self.options = options
        self.progress = progress
        self.overlay: dict[str, bytes] = dict(overlay or {})
        self.notebooks: dict[str, Any] = {}
        self.texts: dict[str, str | None] = {}
        self.contents: dict[str, bytes] = {}
        """What was read of the files that are analysed, until somebody asks for the text."""
        self.ran: list[str] = []
        self.commented: list[str] = []
        self.beyond: set[str] = set()
        self.started = self.last = perf_counter()

    def stage(self, name: str) -> None:
        now = perf_counter()
        self.result.timing.append((name, now - self.last))
        self.last = now
        if self.progress:
            self.progress(name)

    # --------------------------------------------------------------------------------------------------- stages
    def run(self, paths: list[str], stdin: bytes | None, stdin_name: str) -> Result:
        options = self.options
        if stdin is not None:
            self.begin(paths)
            found = Walk()
            root = self.root
            name = os.path.relpath(stdin_name, root).replace(os.sep, "/") if stdin_name != "<stdin>" else stdin_name
            self.overlay[name] = stdin
            kind = kind_of(name.rpartition("/")[2]) or PYTHON
            entries = found.files if kind in (PYTHON, NOTEBOOK) else found.others
            entries.append((name, os.path.join(root, name), len(stdin), 0, kind))
        else:
            found = self.walked(paths)
        root, result = self.root, self.result
        result.files = len(found.files) + len(found.others)
        result.skipped = found.skipped
        self.stage("walk")
        caching = not (options.no_cache or self.overlay or found.problems)
        runs = RunCache(root, options.cache_dir, enabled=caching)
        asked = repr((options.fingerprint(), paths, root))
        files = [(e[0], e[2], e[3]) for e in (*found.files, *found.others)]
        known = runs.lookup(asked, files)
        if known is not None and self.unchanged(known[1]):
            result.restore(known[0])
            self.stage("run cache")
            return result
        rows = self.rows(found, caching)
        self.stage("read and lower")
        findings, beyond = self.judge(found, rows)
        self.finish(findings, rows)
        if caching and not result.internal_errors:
            runs.store(asked, files, (result.plain(), [(p, *self.state(p)) for p in beyond]))
        self.stage("finish")
        return result

    def begin(self, paths: list[str]) -> None:
        self.root = common_root(paths)
        self.result = Result(self.root)
        self.result.read_text = self.read_text

    def walked(self, paths: list[str]) -> Walk:
        """The files to read."""
        self.begin(paths)
        options, root = self.options, self.root
        return walk(
            paths, exclude=anchored(options, "exclude", root) or EXCLUDED,
            extend_exclude=anchored(options, "extend-exclude", root),
            respect_gitignore=options.respect_gitignore, force_exclude=options.force_exclude, root=root,
        )  # fmt: skip

    def state(self, path: str) -> tuple[int, int]:
        """(size, time of change) of a file, (-1, -1) when it is gone."""
        try:
            status = os.stat(os.path.join(self.root, path))
        except OSError:
            return -1, -1
        return status.st_size, status.st_mtime_ns

    def unchanged(self, beyond: list[tuple[str, int, int]]) -> bool:
        """Whether the files outside the walk that an earlier answer depends on are as they were."""
        return all(self.state(path) == (size, mtime) for path, size, mtime in beyond)

    def rows(self, found: Walk, caching: bool) -> dict[str, Row]:
        """Every file's row, from the cache or made now; half of them by a forked child when it pays."""
        cache = FactsCache(self.root, self.options.cache_dir, enabled=caching)
        rows: dict[str, Row] = {}
        todo = []
        for entry in found.files:
            path, _, size, mtime, _ = entry
            known = cache.lookup(path, size, mtime)
            if known is None and cache.known(path, size):
                known = self.by_content(cache, entry)  # a fresh checkout: new times, old content
            if known is None:
                todo.append(entry)
            else:
                rows[path] = GATED_ROW if known is GATED else known
        size = sum(entry[2] for entry in todo)
        if size > HASTE_BYTES:
            hasten()
        if len(todo) > 1 and self.pays(size > FORK_BYTES):
            made = self.in_two_processes(todo, size, caching)
        else:
            made = self.lower_all(todo, caching)
        for path, file_size, mtime, content, row in made:
            rows[path] = row
            if row[0] != "problem":
                cache.store(path, file_size, mtime, content, GATED if row[0] == "gated" else row)
        cache.save()
        return rows

    def pays(self, enough: bool) -> bool:
        """Whether to use a second process, when there is `enough` to do."""
        if self.options.jobs != 1 and (enough or self.options.jobs):
            from .beside import possible

            return possible()
        return False

    def by_content(self, cache: FactsCache, entry: Any) -> Any:
        path, full, size, mtime, _ = entry
        try:
            known = cache.lookup_content(path, read(full))
        except OSError:
            return None
        if known is not None:
            cache.touch(path, size, mtime)
        return known

    def in_two_processes(self, todo: list[Any], size: int, caching: bool) -> list[Any]:
        from .beside import Beside

        half, total = 0, 0
        while half < len(todo) and total < size // 2:
            total += todo[half][2]
            half += 1
        with Beside(lambda: self.lower_all(todo[half:], caching)) as other:
            mine = self.lower_all(todo[:half], caching)
            theirs: list[Any] | None = other.result()
        if theirs is None:  # the child died (memory): do its half here
            theirs = self.lower_all(todo[half:], caching)
        return mine + theirs

    def lower_all(self, todo: list[Any], caching: bool) -> list[Any]:
        """[(path, size, mtime, digest or b"", row)], plain values only."""
        out = []
        for path, full, size, mtime, kind in todo:
            content = b""
            try:
                data = self.overlay[path] if path in self.overlay else read(full)
            except OSError as e:
                row: Row = ("problem", 0, 0, unreadable(e).plain())
            else:
                row = self.lower_file(data, kind)
                if row[0] == "module":
                    self.contents[path] = data
                    if caching:
                        content = digest(data)
            out.append((path, size, mtime, content, row))
        return out

    def lower_file(self, data: bytes, kind: str) -> Row:
        if not words.admit(data):
            return GATED_ROW
        from .program.collect import lower

        text = None
        broken: list[tuple[Any, ...]] = []
        try:
            source: bytes | str = data
            if kind == NOTEBOOK:
                from .source.notebook import load

                notebook = load(data)
                source = text = notebook.text
                for at, error in notebook.broken:
                    from .source.python import syntax_problem

                    line, column, what = syntax_problem(error)
                    broken.append((at, column, what.plain()))
            elif not data.isascii():
                from .source.text import decode

                text = decode(data)  # compile() lets bytes pass in comments that the interpreter refuses in a file
            encoded = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
            word_lines = words.word_lines(encoded)
            block = lower(source, word_lines)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
            from .source.python import syntax_problem
            from .source.text import decode

            if text is None and kind != NOTEBOOK:
                try:
                    text = decode(data)
                except SyntaxError:
                    text = None
            line, column, what = syntax_problem(e, text)
            return ("problem", line, column, what.plain())
        found = {w for _, w in word_lines}
        if b"torchvet:" in encoded or (b"noqa" in encoded and b"TV" in encoded):
            found.add(SUPPRESSIONS)
        return ("module", block, frozenset(found), broken)

    def unreadable(self, found: Walk) -> list[Finding]:
        """Findings for what the walk could not read."""
        return [tool_finding("unreadable-file", "TV004", WARNING, Span(path, 1), text) for path, text in found.problems]

    def program_of(self, found: Walk, rows: dict[str, Row]) -> tuple[Program, set[str], list[Finding]]:
        """The program, the subject words in it, and findings for what could not be read."""
        from .program.program import Program

        findings = self.unreadable(found)
        program = Program(self.root, [entry[0] for entry in found.files if entry[4] != NOTEBOOK], self.text)
        present: set[str] = set()
        for path, row in rows.items():
            if row[0] == "module":
                program.add(path, row[1], row[2])
                present |= row[2]
                for line, column, what in row[3]:
                    problem = Text.from_plain(what)
                    findings.append(tool_finding("syntax-error", "TV003", ERROR, Span(path, line, column), problem))
            elif row[0] == "problem" and "{{" not in path:  # no program but the template of one (cookiecutter)
                text = Text.from_plain(row[3])
                if row[1]:
                    findings.append(tool_finding("syntax-error", "TV003", ERROR, Span(path, row[1], row[2] or 1), text))
                else:
                    findings.append(tool_finding("unreadable-file", "TV004", WARNING, Span(path, 1), text))
        return program, present, findings

    def judge(self, found: Walk, rows: dict[str, Row]) -> tuple[list[Finding], list[str]]:
        """Run the rules over the program. Also gives the files beyond the walk that the answer depends on."""
        if not found.others and all(row == GATED_ROW for row in rows.values()):
            return self.unreadable(found), sorted(self.beyond)
        program, present, findings = self.program_of(found, rows)
        self.admit_others(found, program, findings)
        self.result.parsed = len(program.modules) + len(program.others)
        if program.modules or program.others:
            findings += self.run_rules(program, present, sum(e[2] for e in found.files if e[0] in program.modules))
        for path, what in program.crashes:
            findings.append(internal_error(path, what))
        self.result.given_up = program.given_up
        walked = {entry[0] for entry in (*found.files, *found.others)}
        return findings, sorted((self.beyond | program.loaded_on_demand | program.consulted) - walked)

    def admit_others(self, found: Walk, program: Program, findings: list[Finding]) -> None:
        """Sources of other languages and deployment files that can matter."""
        for path, full, _, _, kind in found.others:
            from .source import other_words

            try:
                data = self.overlay[path] if path in self.overlay else read(full)
            except OSError as e:
                findings.append(tool_finding("unreadable-file", "TV004", WARNING, Span(path, 1), unreadable(e)))
                continue
            if other_words.admit(data, kind, path):
                program.others[path] = kind
                if b"torchvet:" in data:
                    self.commented.append(path)

    def run_rules(self, program: Program, present: set[str], size: int) -> list[Finding]:
        """What the rules find; those about ranks in a second process when the program is large."""
        from .gate.select import selected
        from .rules import listed
        from .rules.project import Project

        self.stage("link")
        rules = listed()
        self.ran = selected(self.options, rules)
        live = []
        for r in [rules[name] for name in self.ran if rules[name].run is not None]:
            if r.family not in self.result.looked_at:
                words = [x.words for x in rules.values() if x.family == r.family and x.run is not None]
                subjects = frozenset().union(*words) if all(words) else present
                kind = OTHERS.get(r.family)
                self.result.looked_at[r.family] = (
                    sum(k == kind for k in program.others.values())
                    if kind
                    else sum(bool(subjects & m.words) for m in program.modules.values())
                )
            if not r.words or r.words & present:
                live.append(r)
        # kept until the process ends: taking a program apart object by object is a tenth of a large check
        self.project = project = Project(program, self.options)
        apart = [r for r in live if r.family == APART]
        rest = [r for r in live if r.family != APART]
        if not (apart and rest and self.pays(size > FORK_RULES)):
            return self.apply(live, project)
        from .beside import Beside

        with Beside(lambda: self.apply_apart(apart, project)) as other:
            found = self.apply(rest, project)
            answer = other.result()
        self.stage("second process")  # what was left to wait for; its own rules follow
        if answer is None:
            return found + self.apply(apart, project)
        rows, timing, crashes, given_up, loaded = answer
        self.result.timing += timing
        program.crashes += [c for c in crashes if c not in program.crashes]
        program.given_up += given_up
        self.beyond |= loaded
        return found + [Finding.from_plain(row) for row in rows]

    def apply_apart(self, rules: list[Listed], project: Project) -> tuple[Any, ...]:
        """`apply` in a child: all that the parent has to know, as plain values."""
        program = project.program
        before = len(self.result.timing)
        found = [f.plain() for f in self.apply(rules, project)]
        loaded = frozenset(program.loaded_on_demand)
        return found, self.result.timing[before:], program.crashes, program.given_up, loaded

    def apply(self, rules: list[Listed], project: Project) -> list[Finding]:
        walked = (set(project.program.modules) - project.program.loaded_on_demand) | set(project.program.others)
        found: list[Finding] = []
        for r in rules:
            try:
                assert r.run is not None
                found += [f for f in r.run(project) if f.span.path in walked]
            except Exception as e:
                if os.environ.get("TORCHVET_DEBUG"):
                    raise
                what = f"{r.name}: {type(e).__name__}: {e}"[:200]
                found.append(internal_error(min(walked), what))
            self.stage(r.name)
        return found

    def finish(self, findings: list[Finding], rows: dict[str, Row]) -> None:
        """Suppressions, identity, places in notebooks, order."""
        from .gate.suppress import apply
        from .source.walk import is_test

        findings = once(findings)
        for f in findings:
            if f.span.path.endswith(".ipynb"):
                self.text(f.span.path)  # for its map of cells
            lowered = f.code[:3] in ("TV1", "TV2", "TV3") if f.severity == WARNING else f.code in GROWTH
            if lowered and is_test(f.span.path):
                f.severity = NOTE
            if not f.source:
                f.source = self.line(f.span.path, f.span.line)
        fingerprints(findings)
        commented = [path for path, row in rows.items() if row[0] == "module" and SUPPRESSIONS in row[2]]
        commented += self.commented
        kept, self.result.suppressed = apply(findings, self.read_text, self.options, files=commented, only=self.ran)
        self.result.internal_errors = any(f.name == "internal-error" for f in kept)
        fingerprints([f for f in kept if not f.identified])
        for f in kept:
            notebook = self.notebooks.get(f.span.path)
            if notebook is not None:
                f.cell, f.raw_line, f.span = placed(f.span, notebook)
                f.fix = None
            for note in f.notes:
                if note.span.path in self.notebooks:
                    cell, _, note.span = placed(note.span, self.notebooks[note.span.path])
                    if cell != f.cell or note.span.path != f.span.path:
                        note.span.path += f":cell {cell}"
        self.result.findings = sorted(kept, key=Finding.sort_key)

    # ------------------------------------------------------------------------------------------------------ texts
    def text(self, path: str) -> str | None:
        """The decoded source of a file, a notebook's cells joined; None when it cannot be read."""
        if path not in self.texts:
            from .source.text import decode

            self.texts[path] = None
            try:
                data = self.contents.pop(path, None)
                if data is None:
                    data = self.overlay[path] if path in self.overlay else read(os.path.join(self.root, path))
                if path.endswith(".ipynb"):
                    from .source.notebook import load

                    self.notebooks[path] = load(data)
                    self.texts[path] = searchable(self.notebooks[path].text)
                else:
                    try:
                        self.texts[path] = searchable(decode(data))
                    except SyntaxError:  # for excerpts only: a file that does not decode is never analysed
                        self.texts[path] = data.decode("utf-8", "replace")
            except (OSError, SyntaxError):
                pass
        return self.texts[path]

    def read_text(self, path: str) -> str:
        return self.text(path) or ""

    def line(self, path: str, number: int) -> str:
        from .source.text import lines_of

        lines = lines_of(self.read_text(path))
        return lines[number - 1] if 0 < number <= len(lines) else ""


SUPPRESSIONS = "torchvet:"
"""Word of a module that holds a suppression comment."""
GATED_ROW = ("gated",)
OTHERS = {"native": NATIVE, "deploy": DEPLOYMENT}
"""Family of rules to the kind of other file that it is about."""


def common_root(paths: list[str]) -> str:
    """The current folder when everything lies in it, else the deepest folder that holds all paths."""
    here = os.getcwd()
    full = [os.path.abspath(p) for p in paths]
    if all(p == here or p.startswith(here.rstrip(os.sep) + os.sep) for p in full):
        return here
    folders = [p if os.path.isdir(p) else os.path.dirname(p) for p in full]
    try:
        return os.path.commonpath(folders)
    except ValueError:  # different drives
        return here


def anchored(options: Options, name: str, root: str) -> tuple[str, ...]:
    """Exclude patterns as they count from `root`: those of a configuration file count from its folder."""
    patterns: tuple[str, ...] = tuple(getattr(options, name.replace("-", "_")))
    if not options.config_dir or name in options.given or os.path.samefile(options.config_dir, root):
        return patterns
    down = os.path.relpath(root, options.config_dir).replace(os.sep, "/") + "/"
    up = os.path.relpath(options.config_dir, root).replace(os.sep, "/") + "/"
    out = []
    for pattern in patterns:
        sign, body = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
        if "/" not in body.rstrip("/"):
            out.append(pattern)
        elif not up.startswith("../"):
            out.append(f"{sign}/{up}{body.lstrip('/')}")
        elif body.lstrip("/").startswith(down):
            out.append(f"{sign}/{body.lstrip('/')[len(down) :]}")
        elif body.startswith("**/"):
            out.append(pattern)
    return tuple(out)


def once(findings: list[Finding]) -> list[Finding]:
    """The same rule at the same place is said once."""
    seen = set()
    out = []
    for f in findings:
        key = (f.name, f.span.path, f.span.line, f.span.column)
        if key not in seen:
            seen.add(key)
            out.append(f)
    return out


def placed(span: Span, notebook: Any) -> tuple[int, int, Span]:
    """A span of the joined source as (cell, line in the .ipynb, span inside the cell)."""
    cell, line, raw = notebook.place(span.line)
    return cell, raw, Span(span.path, line, span.column, line + span.end_line - span.line, span.end_column)


def tool_finding(name: str, code: str, severity: str, span: Span, message: Text) -> Finding:
    return Finding(code, name, severity, CERTAIN, span, message)


def internal_error(path: str, what: str) -> Finding:
    return Finding(
        "TV009", "internal-error", ERROR, CERTAIN, Span(path, 1),
        Text("torchvet failed here: {what}", "torchvet 在此处出错：{what}", what=what),
        Text("this is a bug of torchvet; the other files were checked", "这是 torchvet 的缺陷；其他文件已检查"),
    )  # fmt: skip
