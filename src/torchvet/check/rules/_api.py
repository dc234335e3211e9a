"""All that a rule may import."""

from __future__ import annotations

from ...findings import CERTAIN, ERROR, LIKELY, NOTE, POSSIBLE, WARNING, Edit, Finding, Fix, Note, Span, Text
from ..program.model import line_of, span_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..flow.graph_keeping import Kept
    from ..flow.ranks_divergence import Divergence
    from ..program.model import Function, Module
    from .project import Project

    Answers = Sequence[Any]
    Check = Callable[[Project], Iterable[Finding]]
    Tell = Callable[[Any], tuple[Text, Text]]
    Say = Callable[[Project, Answers], Iterable[Finding]]
    Said = Callable[[Kept, str], tuple[Text, Text, Text]]

__all__ = [
    "CERTAIN", "ERROR", "LIKELY", "NOTE", "POSSIBLE", "WARNING", "Edit", "Finding", "Fix", "Note", "Rule", "Span",
    "Text", "line_of", "note_at", "span_at", "span_of",
]  # fmt: skip


MOST_PLACES = 20
"""Further places of a finding that are shown."""
NEVER_FREED = Text("no backward frees what this value was computed from", "没有反向传播会释放这个值的计算图")
NODES_STAY = Text(
    "backward frees the activations, the nodes stay in host memory", "反向传播释放激活，图节点仍留在主机内存"
)


class Rule:
    """What a rule is: code, name, default severity and confidence, the version it appeared in, the subject words
    without which it has nothing to look at (any of them; none = always), a one-line summary, and whether it can
    fix ("" no, "safe", "unsafe"). `family` is set by the loader from the folder.

    `asks` is what the index (`scripts/build_docs.py`) says of it, so that the rule loads only when it has something to
    say: a question of the project without arguments ("settings.conflicts.exclusive"), and the attribute of its answers
    that has to have one of some values ("" for any answer)."""

    def __init__(
        self,
        *,
        code: str,
        name: str,
        severity: str,
        summary: Text,
        since: str,
        confidence: str = LIKELY,
        words: Sequence[str] = (),
        fixable: str = "",
    ) -> None:
        self.code = code
        self.name = name
        self.severity = severity
        self.confidence = confidence
        self.summary = summary
        self.since = since
        self.words = frozenset(words)
        self.fixable = fixable
        self.family = ""
        self.run: Check | None = None
        self.told: Callable[[Project, Divergence], Finding] | None = None
        """For rules about ranks: the finding of one place where ranks part."""
        self.asks: tuple[str, str, tuple[str, ...]] = ("", "", ())

    def check(self, function: Check) -> Check:
        """Decorator: `function(project)` yields the findings of this rule."""
        self.run = function
        return function

    def asking(self, question: str) -> Callable[[Say], Say]:
        """Decorator: `function(project, answers)` makes findings of the answers to a question of the project. It is
        not called when there are none."""
        self.asks = (question, "", ())

        def register(function: Say) -> Say:
            self.run = lambda project: function(project, project.answers(self.asks))
            return function

        return register

    def faults(self, question: str, also: Text | dict[str, Text] | None = None) -> Callable[[Tell], Tell]:
        """Decorator for rules about native code: `say(fault)` gives message and help of each answer to a question.
        `also` is what is said at its other places: one text, or one for each kind of place."""
        self.asks = (question, "", ())

        def register(say: Tell) -> Tell:
            def run(project: Project) -> Iterable[Finding]:
                for fault in project.answers(self.asks):
                    message, help = say(fault)
                    places = fault.notes[:MOST_PLACES] if also else ()
                    notes = [note_at(project, m, p, also[w] if isinstance(also, dict) else also) for m, p, w in places]
                    yield self.at(
                        project, fault.module, fault.pos, message, severity=fault.severity, help=help, notes=notes
                    )

            self.run = run
            return say

        return register

    def divergence(self, say: Callable[[Divergence], tuple[Text, Text]]) -> Callable[[Divergence], tuple[Text, Text]]:
        """Decorator for rules about ranks: `say(divergence)` gives message and help; a finding is made of every place
        where ranks part by this rule's fault, with the way there and what each side runs."""

        def told(project: Project, d: Divergence) -> Finding:
            message, help = say(d)
            return self.at(
                project,
                d.module,
                d.pos,
                message,
                function=d.place,
                severity=d.severity,
                confidence=d.confidence,
                help=help,
                notes=[note_at(project, m, pos, text, chain=True) for m, pos, text in d.places()],
                trace=d.rows,
            )

        def run(project: Project) -> Iterable[Finding]:
            for d in project.answers(self.asks):
                yield told(project, d)

        self.asks = ("ranks.divergences", "fault", (self.name,))
        self.told = told
        self.run = run
        return say

    def keeping(self, *hows: str) -> Callable[[Said], Said]:
        """Decorator for rules about values kept with their graph: `say(kept, detached)` gives message, help and the
        title of the fix; `detached` is the detached value as text ("" where the value is no tensor). One finding
        for each value that is kept in one of these ways."""
        self.asks = ("graphs.kept", "how", hows)

        def register(say: Said) -> Said:
            def run(project: Project) -> Iterable[Finding]:
                for kept in project.answers(self.asks):
                    yield self.kept(project, kept, say)

            self.run = run
            return say

        return register

    def kept(self, project: Project, kept: Kept, say: Said) -> Finding:
        message, help, title = say(kept, project.graphs.detached_text(kept) if kept.plain else "")
        notes = [note_at(project, *kept.store_at, Text("kept here", "在这里被保留"))] if kept.store_at else []
        if kept.source:
            notes.append(note_at(project, *kept.source, NEVER_FREED if kept.alive else NODES_STAY))
        edits = project.graphs.detaching(kept)
        return self.at(
            project,
            kept.module,
            kept.pos,
            message,
            function=kept.function,
            severity=ERROR if kept.alive else WARNING,
            help=help,
            notes=notes,
            fix=Fix(title, edits) if edits else None,
        )

    def page(self) -> str:
        """The rule's documentation (Markdown)."""
        import os

        path = os.path.join(os.path.dirname(__file__), self.family, self.name.replace("-", "_") + ".md")
        with open(path, encoding="utf-8") as f:
            return f.read()

    def at(
        self,
        project: Project,
        module: Module,
        pos: int,
        message: Text,
        *,
        function: Function | None = None,
        severity: str | None = None,
        confidence: str | None = None,
        help: Text | None = None,
        notes: Sequence[Note] = (),
        fix: Fix | None = None,
        trace: Sequence[tuple[Text, Text]] = (),
    ) -> Finding:
        """A finding of this rule at a position. `function`: the enclosing function (its name feeds the fingerprint)."""
        span = span_at(project, module, pos)
        return Finding(
            self.code,
            self.name,
            severity or self.severity,
            confidence or self.confidence,
            span,
            message,
            help,
            list(notes),
            fix,
            scope="" if function is None or function.name == "<module>" else function.qualname,
            source=project.program.source_line(module, span.line),
            trace=list(trace),
        )


def span_at(project: Project, module: Module, pos: int) -> Span:
    return Span(module.path, *project.program.span(module, pos))


def note_at(project: Project, module: Module, pos: int, message: Text, chain: bool = False) -> Note:
    """A further place of a finding."""
    return Note(span_at(project, module, pos), message, chain)
