"""The whole of `torchvet diagnose` on one page: files - facts - case - causes - verdicts."""

from __future__ import annotations

from torchvet.findings import Text

from .evidence.reader import all_readers, reader_of
from .files import Item, Unreadable, items
from .model import Case, Diagnosis, Fact, Hypothesis, Inventory, all_causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def diagnose(paths: list[str], progress: Callable[[str], None] | None = None) -> Diagnosis:
    """Read what is left of a job and say what ended it. UserError: a path does not exist."""
    from .ranks import settle
    from .verdict import judged

    facts, inventory = read(paths, progress)
    case = Case(facts, inventory)
    settle(case)
    found: list[Hypothesis] = []
    for cause in all_causes().values():
        assert cause.judge is not None
        found += cause.judge(case)
    verdicts, side = judged(found, case)
    return Diagnosis(inventory, verdicts, side, case)


def read(paths: list[str], progress: Callable[[str], None] | None = None) -> tuple[list[Fact], Inventory]:
    """The facts of all files, and what there is."""
    inventory = Inventory()
    facts: list[Fact] = []
    readers = all_readers()
    for entry in items(paths):
        if not isinstance(entry, Item):
            inventory.problems.append(entry)
            continue
        if progress:
            progress(entry.name)
        reader = reader_of(entry, readers)
        before = len(facts)
        if reader is not None:
            try:
                for fact in reader.read(entry):
                    facts.append(fact)
            except Unreadable as e:
                inventory.problems.append((entry.name, e.text))
            except OSError as e:
                why = e.strerror or type(e).__name__
                inventory.problems.append(
                    (entry.name, Text("cannot be read: {reason}", "无法读取：{reason}", reason=why))
                )
            except Exception as e:  # a reader's bug must not cost the other files
                why = f"{type(e).__name__}: {e}"[:120]
                inventory.problems.append(
                    (entry.name, Text("torchvet failed here: {what}", "torchvet 在此处出错：{what}", what=why))
                )
        kind = reader.name if reader is not None else "unknown"
        inventory.files.append((entry.name, kind, entry.size, len(facts) - before))
    return facts, inventory
