"""Which values and functions can matter at all, by texts, names and one function's own graph.

What a value is made of is followed through calls, callers and attributes, which needs graphs of many functions. Most of
what code keeps has nothing to do with a training, and that can be told beforehand: nothing in the loop steps, nothing
that the value is made of comes from a function that trains or evaluates.
"""

from __future__ import annotations

from ... import knowledge
from ..program.callers import called_names
from .graph_carry import MOST_INPUTS, is_bound
from .graph_evaluation import Evaluations
from .graph_library import WRITTEN
from .graph_values import NOTHING, Graph, Loop, Node, nest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Function
    from ..program.program import Program

RUN_BACK = frozenset(("grad", "update_params"))
RUN_BACK_ENDS = ("backward", "caler")
"""Names called where backward is run, and their ends: also through a scaler of the loss."""


class Relevance(Evaluations):
    """Adds `may_matter` for values and `may_repeat` for functions."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._may_repeat: dict[int, bool] = {}
        self._trainer_names: frozenset[str] | None = None
        self._candidate_ids: frozenset[int] | None = None
        self._may_be_trained: dict[int, frozenset[Node]] = {}
        self._may_step: dict[int, frozenset[Loop]] = {}
        self._may_return: dict[int, bool] = {}

    # ---------------------------------------------------------------------------------------------------- functions
    def candidates(self) -> list[Function]:
        """Functions that train or evaluate, and those that call them."""
        raise NotImplementedError

    def is_giving(self, f: Function) -> bool:
        """Does a candidate train, or may its callers get what it trained or evaluated?"""
        raise NotImplementedError

    def trainer_names(self) -> frozenset[str]:
        """Names of the functions that train, or give what they trained or evaluated to their callers."""
        if self._trainer_names is None:
            found = {f.name for f in self.candidates() if self.is_giving(f)} | self.trainers()[0]
            self._trainer_names = frozenset(found - {"forward", "<module>"})
        return self._trainer_names

    def is_candidate(self, f: Function) -> bool:
        if self._candidate_ids is None:
            self._candidate_ids = frozenset([id(g) for g in self.candidates()])
        return id(f) in self._candidate_ids

    def runs_once(self, f: Function) -> bool:
        """Module code, a constructor, or a test that its framework calls."""
        if f.name in ("__init__", "__post_init__", "<module>"):
            return True
        return f.name.startswith("test_") and f.module.is_test

    def may_repeat(self, graph: Graph) -> bool:
        """May a function be run step after step, by its own statements, its name and the texts around its calls?"""
        known = self._may_repeat.get(id(graph))
        if known is None:
            known = self._may_repeat[id(graph)] = self.may_be_repeated(graph.function)
        return known

    def may_be_repeated(self, f: Function) -> bool:
        """`may_repeat` by text alone."""
        if self.runs_once(f):
            return False
        if f.parent is not None or f.name in knowledge.graph("step_methods"):
            return True
        if (f.owner is not None and f.name in self.hook_names()) or self.runs_back(f):
            return True
        return any("for " in text or "while " in text or self.may_run_back(text) for *_, text in self.texts_calling(f))

    def runs_back(self, f: Function) -> bool:
        """Does a function run backward, by its text?"""
        found = called_names(self.own_text(f))
        return not RUN_BACK.isdisjoint(found) or any(name.endswith(RUN_BACK_ENDS) for name in found)

    def hook_names(self) -> set[str]:
        """The last names of what frameworks call in each step of a training."""
        return {name.rpartition(".")[2] for name in knowledge.graph("training_hooks")}

    # -------------------------------------------------------------------------------------------------------- values
    def may_matter(self, values: list[Node], loops: list[Loop], graph: Graph) -> bool:
        """May values that are kept be freed by a backward, made in evaluation, or kept over steps: what `counts` asks,
        by the names of what is called? Most are not, and where they come from need not be followed."""
        if any(self.may_step(loop, graph) for loop in loops):
            return True
        trained = self.may_be_trained(graph) if not loops else frozenset()
        names = self.trainer_names()
        stack, seen = list(values), set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or node is NOTHING:
                continue
            seen.add(node)
            if len(seen) > MOST_INPUTS or node in trained:
                return True
            if node.kind == "call":
                if node.data.evals or name_called(node) in names:
                    return True
            elif node.kind == "free":
                if self.may_be_held(node):
                    return True
            elif node.kind == "elem" and node.inputs[0].kind == "param" and node.data[0] == ".":
                owner = graph.function.owner
                if owner is not None and any(self.is_candidate(f) for f in self.holders(owner, node.data, WRITTEN)):
                    return True
            stack += self.record(node) if node.kind == "object" else self.sources(node)
        return False

    def may_be_held(self, free: Node) -> bool:
        """May a name of a function around, or of the module, hold what a training or evaluation made?"""
        f = free.graph.function
        return f.parent is not None or (is_bound(free) and self.is_candidate(self.program.main(f.module)))

    def may_step(self, loop: Loop, graph: Graph) -> bool:
        """May backward or a step run in each turn of a loop, by the names of what it calls?"""
        known = self._may_step.get(id(graph))
        if known is None:
            names = self.trainer_names()
            places = [*(b.loop for b in graph.backwards), *(at for _, at in graph.steps)]
            places += [n.loop for n in graph.calls.values() if n.kind == "call" and name_called(n) in names]
            known = self._may_step[id(graph)] = frozenset([lo for at in places for lo in nest_of(at)])
        return loop in known

    def may_be_returned_to_backward(self, graph: Graph) -> bool:
        """May a framework or a caller run backward over what a function returns?"""
        known = self._may_return.get(id(graph))
        if known is None:
            f = graph.function
            known = (f.owner is not None and f.name in self.hook_names()) or (
                bool(graph.returns) and any(self.may_run_back(text) for *_, text in self.texts_calling(f))
            )
            self._may_return[id(graph)] = known
        return known

    def may_be_trained(self, graph: Graph) -> frozenset[Node]:
        """What backward may run over in a function: what its own calls and those of trainers by name are given, what it
        returns to whoever may run it, and what that is made of. Parameters and free names count where no call lies
        between."""
        known = self._may_be_trained.get(id(graph))
        if known is None:
            names = self.trainer_names()
            calls = [n for n in graph.calls.values() if n.kind == "call" and name_called(n) in names]
            given = [*(b.node for b in graph.backwards), *(i for n in calls for i in n.inputs)]
            stack = [(n, True) for n in (*given, *(graph.returns if self.may_be_returned_to_backward(graph) else ()))]
            seen: dict[Node, bool] = {}
            while stack:
                node, direct = stack.pop()
                if node is NOTHING or (node in seen and seen[node] >= direct):
                    continue
                seen[node] = direct
                if node.kind == "object":
                    continue
                direct = direct and node.kind != "call"
                stack += [(n, direct) for n in self.sources(node)]
            found = [n for n, direct in seen.items() if direct or n.kind not in ("param", "free", "func", "object")]
            known = self._may_be_trained[id(graph)] = frozenset(found)
        return known


def name_called(node: Node) -> str:
    """The last name of what a call node calls; "" where that is no name."""
    func = node.data.expr[2]
    return func[-1] if func[0] in ("name", "attr") else ""
