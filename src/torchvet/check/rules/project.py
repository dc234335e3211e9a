"""What rules ask: the program, and the flow questions, each made when the first rule asks it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Options
    from ..flow.graphs import Graphs
    from ..flow.ranks import Ranks
    from ..flow.settings import Settings
    from ..flow.settings_use import Unsharded
    from ..flow.steps import Steps
    from ..flow.wrapping import Wrapping
    from ..program.program import Program


class Project:
    """One check's worth of code. `options` are the user's."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program = program
        self.options = options
        self._flows: dict[str, object] = {}
        self._answers: dict[str, list[Any]] = {}

    def answers(self, asks: tuple[str, str, tuple[str, ...]]) -> list[Any]:
        """The answers to a rule's question (see `_api.Rule`): `("graphs.kept", "how", ("append",))`."""
        question, attribute, values = asks
        found = self._answers.get(question)
        if found is None:
            answer: Any = self
            for name in question.split("."):
                answer = getattr(answer, name)
            found = self._answers[question] = list(answer())
        return [x for x in found if getattr(x, attribute) in values] if attribute else found

    def unsharded(self) -> list[Unsharded]:
        """Loaders that train a DDP model and give every rank the whole dataset."""
        return self.settings.use.unsharded(self.wrapping)

    @property
    def graphs(self) -> Graphs:
        if "graphs" not in self._flows:
            from ..flow.graphs import Graphs

            self._flows["graphs"] = Graphs(self.program, self.options)
        return self._flows["graphs"]  # type: ignore[return-value]

    @property
    def ranks(self) -> Ranks:
        if "ranks" not in self._flows:
            from ..flow.ranks import Ranks

            self._flows["ranks"] = Ranks(self.program, self.options)
        return self._flows["ranks"]  # type: ignore[return-value]

    @property
    def settings(self) -> Settings:
        if "settings" not in self._flows:
            from ..flow.settings import Settings

            self._flows["settings"] = Settings(self.program, self.options)
        return self._flows["settings"]  # type: ignore[return-value]

    @property
    def steps(self) -> Steps:
        if "steps" not in self._flows:
            from ..flow.steps import Steps

            self._flows["steps"] = Steps(self.program, self.options)
        return self._flows["steps"]  # type: ignore[return-value]

    @property
    def wrapping(self) -> Wrapping:
        if "wrapping" not in self._flows:
            from ..flow.wrapping import Wrapping

            self._flows["wrapping"] = Wrapping(self.program, self.options)
        return self._flows["wrapping"]  # type: ignore[return-value]
