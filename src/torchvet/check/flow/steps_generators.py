"""Discriminator steps whose backward also runs through the generator.

The generator made the samples, the discriminator judged them, backward ran over that, and then only the discriminator's
optimizer steps: the gradients of the generator were computed for nothing.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import dotted, walk_expr
from .steps_values import Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..program.model import Expr, Function, Module
    from .steps import Site, Steps, Unit

    Key = tuple[str, ...]


class Undetached:
    """A sample that reaches the discriminator with the generator's graph. `pos` of the discriminator's call, `made_at`
    of the generator's, `back_at` of the backward; `sample`, `generator` and `discriminator` as written."""

    __slots__ = ("back_at", "discriminator", "function", "generator", "made_at", "module", "pos", "sample")

    def __init__(self, function: Function, pos: int, made_at: int, back_at: int, names: tuple[str, str, str]) -> None:
        self.function = function
        self.module: Module = function.module
        self.pos = pos
        self.made_at = made_at
        self.back_at = back_at
        self.sample, self.generator, self.discriminator = names


class Generators:
    """Asks for discriminator steps through an undetached sample."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.program = steps.program

    def found(self) -> Iterator[Undetached]:
        for f in self.steps.functions():
            text = self.steps.text(f)
            if text.count("backward(") < 2 or text.count(".step(") < 2:
                continue
            sites = [s for s in self.steps.sites(f) if self.steps.is_backward(s.call)]
            if len(sites) < 2:  # a program of this kind has a backward for each of the two
                continue
            for unit in self.steps.units(f):
                yield from self.in_unit(unit, sites)

    def in_unit(self, unit: Unit, backwards: list[Site]) -> Iterator[Undetached]:
        f = unit.function
        here = [s for s in backwards if s.loop is unit.loop]
        trained = self.trained(f)
        if len({modules for _, modules in trained}) < 2:
            return
        origins = Origins(self.program, f)
        for n, back in enumerate(here):
            until = here[n + 1].call[1] if n + 1 < len(here) else None
            updated = [
                modules
                for s, modules in trained
                if s.loop is unit.loop and s.call[1] > back.call[1] and (until is None or s.call[1] < until)
            ]
            if len(updated) != 1:
                continue
            found = self.through_generator(origins, back, updated[0], {m for _, m in trained}, f)
            if found and not self.is_needed_later(origins, found, here[n + 1 :]):
                yield found

    def trained(self, f: Function) -> list[tuple[Site, frozenset[str]]]:
        """[(site, names of the modules)] of each step of an optimizer whose modules are known."""
        out = []
        for s in self.steps.sites(f):
            func = s.call[2]
            if func[0] == "attr" and func[3] == "step":
                stepped = func[2]
                if s.call[3] and s.call[3][0][0] in ("name", "attr"):  # scaler.step(optimizer)
                    stepped = s.call[3][0]
                modules = self.modules_of(stepped, f)
                if modules:
                    out.append((s, modules))
        return out

    def modules_of(self, optimizer: Expr, f: Function) -> frozenset[str]:
        """The names of the modules whose `.parameters()` an optimizer was made with."""
        made: list[Expr] = []
        if optimizer[0] == "name":
            scope = self.program.scope(f)
            while scope is not None:
                bound = scope.bindings().get(optimizer[2]) or ()
                made = [b[1] for b in bound if b[0] == "value"]
                if bound:
                    break
                scope = scope.parent  # type: ignore[assignment]
        elif f.owner is not None and f.params and dotted(optimizer) == f"{f.params[0][0]}.{optimizer[-1]}":
            made = [e for e, _ in self.program.attribute(f.owner, optimizer[3])]
        names = set()
        for e in made:
            for x in calls_with_parameters(e):
                names.add(key_of(x))
        names.discard("")
        return frozenset(names)

    def through_generator(
        self, origins: Origins, back: Site, updated: frozenset[str], all_trained: set[frozenset[str]], f: Function
    ) -> Undetached | None:
        """The judged sample of another trained module, when the loss has a graph through both."""
        loss = ("tuple", back.call[1], (back.call[2][2], *back.call[3]))
        calls = origins.forwards(loss, back.statement[1], cut=True)
        others = {n for names in all_trained if names != updated for n in names} - updated
        for judge in sorted(calls.values(), key=lambda c: c[1]):
            if key_of(judge[2]) not in updated or not judge[3]:
                continue
            at = self.statement_of(judge, f)
            made = origins.forwards(judge[3][0], at, cut=True)
            for call in made.values():
                if key_of(call[2]) in others and judge[3][0][0] in ("name", "call"):
                    sample = judge[3][0][2] if judge[3][0][0] == "name" else key_of(call[2]) + "(...)"
                    return Undetached(f, judge[1], call[1], back.call[1], (sample, key_of(call[2]), key_of(judge[2])))
        return None

    def statement_of(self, call: Expr, f: Function) -> int:
        return next((int(s.statement[1]) for s in self.steps.sites(f) if s.call is call), int(call[1]))

    def is_needed_later(self, origins: Origins, found: Undetached, later: list[Site]) -> bool:
        """Does a later backward run over the same judgement, so that the graph is used after all?"""
        for back in later:
            loss = ("tuple", back.call[1], (back.call[2][2], *back.call[3]))
            if found.pos in origins.forwards(loss, back.statement[1], cut=True):
                return True
        return False


def calls_with_parameters(e: Expr) -> Iterator[Expr]:
    """The modules M of every `M.parameters()` in an expression."""
    for x in walk_expr(e):
        if x[0] == "call" and x[2][0] == "attr" and x[2][3] in knowledge.graph("module_methods"):
            yield x[2][2]


def key_of(e: Expr) -> str:
    """A module as written, `.module` of a wrapper left out."""
    return (dotted(e) or "").removesuffix(".module")
