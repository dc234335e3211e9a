"""Statements of a function as a value-flow graph: one pass, loops by a merge at their head.

A name that a loop's body assigns becomes a `phi` at the head, so a value that is carried from one iteration into the
next shows as a cycle through that loop's phi; what is reset in each iteration does not.
"""

from __future__ import annotations

from ... import knowledge
from ..program.model import target_names, walk_expr
from .graph_calls import Calls
from .graph_expressions import Env
from .graph_targets import assigned, parts_beside
from .graph_values import INHERIT, MAYBE, NOTHING, OFF, Graph, Loop, Node, is_fresh, path_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..program.model import Block, Expr, Function, Stmt
    from ..program.program import Program
    from .graph_expressions import Shared
    from .graph_values import Guards, Path

DEEPEST = 60
"""Blocks nested deeper than this are not followed."""


def graph_of(program: Program, function: Function, shared: Shared) -> Graph:
    """The value-flow graph of one function (or of a module's own code)."""
    return Builder(program, function, shared).build()


class Builder(Calls):
    """Walks the statements of one function."""

    def build(self) -> Graph:
        f = self.function
        parameters = list(f.params)
        if f.is_method and parameters:
            self.graph.self_name = parameters[0][0]
        for p in parameters:
            node = Node(self.graph, "param", f.pos, (), p[0])
            self.graph.params[p[0]] = node
            self.env.names[p[0]] = node
        self.breaks: list[list[Env]] = []
        self.continues: list[list[Env]] = []
        self.depth = 0
        self.block(self.program.body(f))
        if self.alive:
            self.leave()
        return self.graph

    def leave(self) -> None:
        """What the attributes of self hold at a way out of the function or of a loop's body."""
        written = self.env.fields.get(self.graph.self_name)
        if written:
            for path, node in written.items():
                if len(path) == 2 and path[1][0] == ".":
                    known = self.graph.attributes.setdefault(path[1], [])
                    if node not in known:
                        known.append(node)

    # --------------------------------------------------------------------------------------------------- statements
    def block(self, block: Block) -> None:
        self.depth += 1
        if self.depth < DEEPEST:
            for s in block:
                if not self.alive:
                    break
                STATEMENTS[s[0]](self, s)
        self.depth -= 1

    def do_expr(self, s: Stmt) -> None:
        self.statement = s[2]
        value = self.eval(s[2])
        if value.kind == "context" and s[2][0] == "call":  # torch.set_grad_enabled(False) as a statement
            self.env.mode = INHERIT if value.data == MAYBE else value.data

    def do_assign(self, s: Stmt) -> None:
        targets = s[2]
        if len(targets) == 1 and targets[0][0] in ("tuple", "list") and s[3][0] in ("tuple", "list"):
            left, right = targets[0][2], s[3][2]
            if len(left) == len(right) and not any(x[0] == "star" for x in (*left, *right)):
                values = [self.whole(x) for x in right]
                for t, v, e in zip(left, values, right):
                    self.assign(t, v, e)
                return
        value = self.whole(s[3]) if targets[0][0] not in ("tuple", "list") else self.eval(s[3])
        for t in targets:
            self.assign(t, value, s[3])

    def do_ann(self, s: Stmt) -> None:
        if s[4]:
            self.assign(s[2], self.whole(s[4]), s[4])

    def do_aug(self, s: Stmt) -> None:
        target = s[3]
        path = path_of(target)
        before = self.read(path, target[1]) if path else self.eval(target)
        value = self.whole(s[4])
        literal = s[4][0] in ("list", "tuple") and len(s[4][2]) == 1
        if s[2] == "+" and value is not NOTHING and (before.kind == "box" or literal):
            expr = s[4][2][0] if literal else s[4]
            item = self.element(value, "[0]", s[1]) if literal and value.kind == "tuple" else value
            if literal and value.kind == "box":
                item = next(iter(value.data.entries.values()))
            kept = item if literal else self.op(s[1], "copy", value)
            if kept is not NOTHING:
                store = self.keep("append", s[1], before, path or (), kept, expr)
                if path and before.kind != "box":
                    self.write(path, store.acc)
            return
        added = self.op(s[1], s[2] + "=", value)
        if added is NOTHING or s[2] not in ("+", "-"):
            result = self.op(s[1], s[2], before, added)
        else:
            store = self.keep("add", s[1], before, path or (), added, s[4])
            result = store.acc
        if path:
            self.write(path, result)
        elif target[0] == "sub" and result.kind == "acc":
            self.keep_item(target, result, s[4])

    def keep_item(self, target: Expr, value: Node, expr: Expr | None) -> None:
        """`x[i] = v` where i is no constant, or adds to such an element."""
        base = self.eval(target[2])
        if base is NOTHING:
            return
        store = self.keep("item", target[1], base, path_of(target[2]) or (), value, expr)
        store.key = target[3]

    # ---------------------------------------------------------------------------------------------------- assignment
    def assign(self, target: Expr, value: Node, expr: Expr | None) -> None:
        kind = target[0]
        if kind in ("tuple", "list"):
            self.graph.unpacked.add(value)
            for i, x in enumerate(target[2]):
                if x[0] == "star":
                    self.assign(x[2], self.op(x[1], "copy", value), None)
                else:
                    self.assign(x, self.element(value, f"[{i}]", x[1]), None)
            return
        if kind == "star":
            self.assign(target[2], value, expr)
            return
        path = path_of(target)
        if path is None:
            if kind == "sub" and value is not NOTHING:
                self.keep_item(target, value, expr)
            elif kind in ("sub", "attr"):
                self.eval(target[2])
            return
        value = self.folded(path, target, value, expr)
        if kind == "sub" and value is not NOTHING:
            base = self.read(path[:-1], target[1])
            if base is not NOTHING:
                store = self.keep("item", target[1], base, path[:-1], value, expr)
                store.key = target[3]
        self.write(path, value)

    def folded(self, path: Path, target: Expr, value: Node, expr: Expr | None) -> Node:
        """`x = x + v`, `x = a * v + (1 - a) * x`, `x = torch.cat([x, v])` add to what x was."""
        if value.kind not in ("op", "box") and not (value.kind == "join" and expr and expr[0] == "ifexp"):
            return value
        before = self.read(path, target[1])
        if before is NOTHING:
            return value
        others = parts_beside(value, before)
        if others is None or not others:
            if others is not None and value.data == "slice":
                self.forget(path)
            return value
        how = "cat" if any(n.kind == "box" for n in value.inputs) or value.kind == "box" else "add"
        added = (
            others[0]
            if len(others) == 1
            else Node(self.graph, "op", value.pos, tuple(others), "+", value.mode, self.loop)
        )
        return self.keep(how, target[1], before, path, added, expr).acc

    def write(self, path: Path, value: Node) -> None:
        root = path[0]
        if len(path) == 1:
            self.env.names[root] = value
            self.env.fields.pop(root, None)
            self.graph.bindings.setdefault(root, []).append(value)
        else:
            written = self.env.fields.setdefault(root, {})
            for p in [p for p in written if p[: len(path)] == path]:
                del written[p]
            written[path] = value
        if self.loop and is_fresh(value):
            self.forget(path)

    def forget(self, path: Path) -> None:
        """The place is reset somewhere in the body of each loop around."""
        at = self.loop
        while at is not None:
            at.resets.add(path)
            at = at.parent

    def clear(self, e: Expr, how: str) -> None:
        path = path_of(e)
        if path:
            self.forget(path)
            if len(path) == 2 and path[0] == self.graph.self_name:
                self.graph.attributes.setdefault(path[1] + "=", []).append(NOTHING)

    def do_del(self, s: Stmt) -> None:
        for t in s[2]:
            if t[0] == "sub" and t[3][0] == "slice":
                self.clear(t[2], "del")
                continue
            if t[0] == "sub":
                self.clear(t[2], "del")
            path = path_of(t)
            if path:
                self.write(path, NOTHING)

    def bind_element(self, target: Expr, iterated: Expr, source: Node) -> None:
        """Binds a loop's target to one element of what is iterated; knows enumerate, zip and items."""
        if iterated[0] == "call" and target[0] in ("tuple", "list"):
            name = iterated[2][-1] if iterated[2][0] in ("name", "attr") else ""
            if name == "enumerate" and len(target[2]) == 2 and iterated[3]:
                self.assign(target[2][0], NOTHING, None)
                self.bind_element(target[2][1], iterated[3][0], self.eval_again(iterated[3][0]))
                return
            if name == "zip" and len(target[2]) == len(iterated[3]):
                for t, a in zip(target[2], iterated[3]):
                    self.bind_element(t, a, self.eval_again(a))
                return
            if name == "items" and len(target[2]) == 2 and not iterated[3] and iterated[2][0] == "attr":
                self.assign(target[2][0], NOTHING, None)
                self.assign(target[2][1], self.iterate(source, target[1]), None)
                return
        self.assign(target, self.iterate(source, target[1]), None)

    def eval_again(self, e: Expr) -> Node:
        """The node of an expression that was evaluated just now: calls are not made twice."""
        if e[0] == "call":
            known = self.graph.calls.get(e[1])
            if known is not None:
                return known
        return self.eval(e)

    def iterate(self, source: Node, pos: int) -> Node:
        if source is NOTHING:
            return NOTHING
        if source.kind == "tuple":
            return self.join(pos, *source.inputs)
        return self.node("iter", pos, (source,))

    # ---------------------------------------------------------------------------------------------------- branches
    def do_if(self, s: Stmt) -> None:
        self.eval(s[2])
        start, guards = self.env, self.guards
        ends: list[Env] = []
        tests: list[Guards] = []
        for block, truth in ((s[3], True), (s[4], False)):
            self.env, self.alive, self.guards = start.copy(), True, guards
            self.guards = self.guarded(s[2], truth)
            self.refine(s[2], truth)
            self.block(block)
            if self.alive:
                ends.append(self.env)
                tests.append(self.guards[len(guards) :])
        self.guards = guards
        self.merge(s[1], ends, tests)

    def merge(self, pos: int, ends: list[Env], tests: list[Guards] | None = None) -> None:
        self.alive = bool(ends)
        if not ends:
            return
        self.env = ends[0]
        for other in ends[1:]:
            self.env = self.merged(pos, self.env, other, tests)

    def merged(self, pos: int, a: Env, b: Env, tests: list[Guards] | None = None) -> Env:
        if a is b:
            return a
        out = Env()
        out.mode = a.mode if a.mode == b.mode else MAYBE
        out.names = dict(a.names)
        for name, y in b.names.items():
            before = a.names.get(name)
            if before is not y:
                out.names[name] = self.branches(pos, before, y, tests) if before else y
        for root in {**a.fields, **b.fields}:
            left, right = a.fields.get(root, {}), b.fields.get(root, {})
            paths = {}
            for path in {**left, **right}:
                x, z = left.get(path), right.get(path)
                if x is z and x:
                    paths[path] = x
                    continue
                paths[path] = self.join(pos, x or self.unwritten(path, a, pos), z or self.unwritten(path, b, pos))
            out.fields[root] = paths
        if a.evals is b.evals:
            out.evals = a.evals
        else:
            out.evals = {
                k: tuple(dict.fromkeys((*a.evals.get(k, ()), *b.evals.get(k, ())))) for k in {**a.evals, **b.evals}
            }
        return out

    def branches(self, pos: int, x: Node, y: Node, tests: list[Guards] | None) -> Node:
        """The merge of what two branches leave, with their tests."""
        if tests is None or not any(tests):
            return self.join(pos, x, y)
        return Node(self.graph, "join", pos, (x, y), tuple(tests), self.env.mode, self.loop, self.guards)

    def unwritten(self, path: Path, env: Env, pos: int) -> Node:
        """What an element held on a way on which nothing was written to it."""
        kept, self.env = self.env, env
        base = self.read(path[:-1], pos)
        self.env = kept
        return self.element(base, path[-1], pos)

    def do_try(self, s: Stmt) -> None:
        before = self.env.copy()
        self.block(s[2])
        if self.alive:
            self.block(s[4])
        ends = [self.env] if self.alive else []
        for kind, name, handler, _pos in s[3]:
            if kind:
                self.eval(kind)
            self.env, self.alive = before.copy(), True
            if name:
                self.env.names[name] = NOTHING
            guards, self.guards = self.guards, (*self.guards, ("except", True))
            self.block(handler)
            self.guards = guards
            if self.alive:
                ends.append(self.env)
        self.merge(s[1], ends)
        if s[5]:
            alive, self.alive = self.alive, True
            self.block(s[5])
            self.alive = self.alive and alive

    def do_match(self, s: Stmt) -> None:
        self.eval(s[2])
        start = self.env
        ends = [start.copy()]
        for names, guard, block in s[3]:
            self.env, self.alive = start.copy(), True
            for n in names:
                self.env.names[n] = NOTHING
            if guard:
                self.eval(guard)
            self.block(block)
            if self.alive:
                ends.append(self.env)
        self.merge(s[1], ends)

    def do_with(self, s: Stmt) -> None:
        mode = self.env.mode
        for context, target in s[2]:
            value = self.eval(context)
            self.env.mode = self.entered(value, self.env.mode)
            if target:
                self.assign(
                    target, self.op(context[1], "enter", *value.inputs) if value.kind == "call" else value, None
                )
        inner = self.env.mode
        self.block(s[3])
        if self.env.mode == inner:
            self.env.mode = mode

    def entered(self, value: Node, mode: int) -> int:
        """The gradient mode inside `with value`."""
        if value.kind == "context":
            found: int = value.data if value.data != INHERIT else mode
            return found
        if value.kind == "join" and any(x.kind == "context" for x in value.inputs):
            return MAYBE
        if value.kind in ("call", "object") and value.data is not None:
            return self.helper_mode(value, mode)
        return mode

    def helper_mode(self, value: Node, mode: int) -> int:
        """`with eval_mode(model)`: what mode a context manager of the project yields in."""
        expr = value.data.expr if value.kind == "call" else None
        targets = self.program.targets(expr, self.scope) if expr else []
        for f in targets:
            if f is self.function:
                continue
            names = f.decorator_names()
            if "contextmanager" in names or f.is_generator:
                modes = self.shared.yielding.get(id(f))
                if modes is None:
                    yields = graph_of(self.program, f, self.shared).yields
                    modes = self.shared.yielding[id(f)] = frozenset([m for _, m in yields])
                if OFF in modes:
                    return OFF if modes == {OFF} else MAYBE
        if value.kind == "object" and not isinstance(value.data, str):
            enter = self.program.method(value.data, "__enter__")
            if enter and mentions_switch(self.program, enter):
                return MAYBE
        return mode

    def refine(self, test: Expr, truth: bool) -> None:
        """What a test tells about a value: on the side where `x` is no tensor, it holds no graph."""
        if test[0] == "unary" and test[2] == "not":
            self.refine(test[3], not truth)
            return
        if test[0] == "bool":
            if (test[2] == "and") == truth:
                for x in test[3]:
                    self.refine(x, truth)
            return
        subject: Expr | None = None
        plain = False
        if test[0] == "call" and test[3]:
            name = test[2][-1] if test[2][0] in ("name", "attr") else ""
            if name == "isinstance" and len(test[3]) > 1:
                subject = test[3][0]
                text = {x[-1] for x in walk_expr(test[3][1]) if x[0] in ("name", "attr")}
                if (text & knowledge.graph("tensor_classes") and not truth) or (
                    text <= knowledge.graph("number_classes") and truth
                ):
                    plain = True
            elif name == "hasattr" and len(test[3]) > 1 and test[3][1][0] == "const":
                known = knowledge.graph("remover_methods") | knowledge.graph("keeper_methods") | {"grad_fn", "backward"}
                subject, plain = test[3][0], not truth and test[3][1][2] in known
            elif name == "is_tensor":
                subject, plain = test[3][0], not truth
        elif test[0] == "attr" and test[3] in ("requires_grad", "grad_fn"):
            subject, plain = test[2], not truth
        elif test[0] == "cmp" and len(test[2]) == 1 and test[3][1][0] == "const" and test[3][1][2] is None:
            subject, plain = test[3][0], (test[2][0] in ("is", "==")) == truth
        if subject is not None and plain:
            path = path_of(subject)
            if path:
                loop, self.loop = self.loop, None  # a test resets nothing
                if len(path) == 1:
                    self.env.names[path[0]] = NOTHING
                else:
                    self.env.fields.setdefault(path[0], {})[path] = NOTHING
                self.loop = loop

    # ------------------------------------------------------------------------------------------------------- loops
    def do_for(self, s: Stmt) -> None:
        source = self.eval(s[3])
        self.run_loop(s, "for", s[4], s[5], source)

    def do_while(self, s: Stmt) -> None:
        self.run_loop(s, "while", s[3], s[4], NOTHING)

    def run_loop(self, s: Stmt, kind: str, body: Block, orelse: Block, source: Node) -> None:
        outer = self.loop
        loop = self.graph.loops[s[1]] = Loop(self.graph, s[1], kind, outer, self.guards)
        loop.iterated = source
        names, roots = assigned(body)
        if kind == "for":
            names.update(target_names(s[2]))
        head = self.env
        phis: dict[str, Node] = {}
        for name in names:
            entry = head.names.get(name, NOTHING)
            phis[name] = Node(self.graph, "phi", s[1], (entry,), loop, INHERIT, outer)
            head.names[name] = phis[name]
            self.graph.carried[phis[name]] = name
        for root in roots | names:
            head.fields.pop(root, None)
        exits = head.copy()
        self.loop = loop
        self.breaks.append([])
        self.continues.append([])
        if kind == "for":
            self.bind_element(s[2], s[3], source)
        else:
            self.eval(s[2])
            self.refine(s[2], True)
        self.block(body)
        ends = self.continues.pop()
        if self.alive:
            self.leave()
            ends.append(self.env)
        for name, phi in phis.items():
            back = tuple(dict.fromkeys(e.names[name] for e in ends if name in e.names and e.names[name] is not phi))
            if back:
                phi.inputs = (*phi.inputs, *back)
        for e in ends:
            for root in e.fields:
                if root not in phis:
                    loop.roots[root] = self.name_node(root, s[1]) if root not in head.names else head.names[root]
                    for path, node in e.fields[root].items():
                        loop.left.setdefault(path, []).append(node)
        self.loop = outer
        broken = self.breaks.pop()
        # names that only the body binds are known after it
        for e in ends:
            for name, node in e.names.items():
                if name not in exits.names:
                    exits.names[name] = node
            for root, written in e.fields.items():
                for path, node in written.items():
                    if path not in exits.fields.get(root, {}) and root in roots:
                        other = self.unwritten(path, exits, s[1])
                        exits.fields.setdefault(root, {})[path] = self.join(s[1], node, other)
            for k, v in e.evals.items():
                if k not in exits.evals:
                    exits.evals = {**exits.evals, k: v}
        self.env, self.alive = exits, True
        self.block(orelse)
        self.merge(s[1], [*([self.env] if self.alive else []), *broken])

    def do_break(self, s: Stmt) -> None:
        if self.breaks:
            self.breaks[-1].append(self.env)
        self.leave()
        self.alive = False

    def do_continue(self, s: Stmt) -> None:
        if self.continues:
            self.continues[-1].append(self.env)
        self.leave()
        self.alive = False

    # ------------------------------------------------------------------------------------------------------- others
    def do_return(self, s: Stmt) -> None:
        if s[2]:
            value = self.whole(s[2])
            self.graph.returns.append(value)
        self.leave()
        self.alive = False

    def do_raise(self, s: Stmt) -> None:
        if s[2]:
            self.eval(s[2])
        self.alive = False

    def do_assert(self, s: Stmt) -> None:
        self.eval(s[2])

    def do_pass(self, s: Stmt) -> None:
        pass

    def do_global(self, s: Stmt) -> None:
        for name in s[2]:
            self.env.names.pop(name, None)

    do_nonlocal = do_global

    def do_import(self, s: Stmt) -> None:
        for name, asname in s[2]:
            self.env.names.pop(asname or name.partition(".")[0], None)

    def do_from(self, s: Stmt) -> None:
        for name, asname in s[3]:
            self.env.names.pop(asname or name, None)

    def do_def(self, s: Stmt) -> None:
        if self.function.name == "<module>":
            return
        f = self.program.nested(self.function, s[1], s[2])
        self.graph.nested.append(f)
        self.env.names[f.name] = self.node("func", s[1], (), f)

    def do_class(self, s: Stmt) -> None:
        self.env.names.pop(s[2][0], None)


def mentions_switch(program: Program, f: Function) -> bool:
    """Does a function name anything that switches gradients?"""
    names = {n.rpartition(".")[2] for n in knowledge.graph("no_grad_contexts") | knowledge.graph("grad_mode_setters")}
    return any(e[0] in ("name", "attr") and e[-1] in names for e in program.expressions(f))


STATEMENTS: dict[str, Any] = {name[3:]: getattr(Builder, name) for name in dir(Builder) if name.startswith("do_")}
Builder.kinds = {name[3:]: getattr(Builder, name) for name in dir(Builder) if name.startswith("on_")}
