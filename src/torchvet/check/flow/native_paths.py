"""One C++ function, path by path: which resources are held where it leaves.

A resource is held on a path from its creation until it is released, handed over, or no longer known. Where two paths
meet it is held only if both hold it: what depends on a condition is unknown, and unknown is silent. A status that is
tested (`if (cudaMalloc(&p, n) != cudaSuccess) return`) means that there is no resource in the branch that leaves.
"""

from __future__ import annotations

import re
from time import perf_counter

from ..source.cpp import Function, Unreadable, declarations
from ..source.cpp_statements import Reader
from . import native_held as questions
from .native_calls import creation, summaries
from .native_containers import container_of, described, released_elements, surely_released
from .native_held import Held, Leak, both_memory, join, leaves, may_own, no_deleter, released_names, succeeds, tested
from .native_words import API, CALLS, CREATE, DESTROY, KEEPERS, USERS, Call, Frame, Words, is_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..source.cpp import Class, Stmt, Token
    from .native_sources import Sources

    State = dict[str, Held]

INLINE = re.compile(r"DISPATCH|SWITCH|^[A-Z][A-Z0-9_]*$")
"""Macros that run the lambda they get at once (ATen/Dispatch.h)."""
OWNERS = frozenset(("unique_ptr", "shared_ptr", "reset"))
MOST_STEPS = 60_000
SECONDS = 1.0


class Paths:
    """What one function does with resources. `leaks` stand where a path leaves with one; `released` and `kept` are the
    variables that are released or handed over anywhere; `refills` are creations into what outlives the function,
    `fields` those into fields of other objects."""

    def __init__(
        self, sources: Sources, function: Function, cls: Class | None, depth: int = 0, body: list[Stmt] | None = None
    ) -> None:
        self.sources = sources
        self.function = function
        self.near = function.unit.path
        self.cls = cls
        self.depth = depth
        self.members = cls.members if cls is not None else {}
        self.locals: dict[str, str] = {}
        self.params = {name: kind for kind, name in function.params if name}
        self.created: list[Held] = []
        self.fields: list[Held] = []
        self.leaks: list[Leak] = []
        self.mismatches: list[tuple[Held, int, str]] = []
        self.overwrites: list[tuple[Held, int, str]] = []
        self.twice: list[tuple[Held, int, str]] = []
        self.released: dict[str, list[tuple[str, int]]] = {}
        self.kept: set[str] = set()
        self.returned: dict[str, Held] = {}
        self.refills: list[tuple[Held, list[list[str]], bool]] = []
        self.called: set[str] = set()
        self.inner: list[Paths] = []
        self.trouble = False
        self._conditions: list[list[str]] = []
        self._passed: list[list[str]] = []  # of `if (...) return;` before: they do not hold here
        self._status: dict[str, str] = {}
        self._sure: list[frozenset[str]] = []
        self._loops: list[tuple[set[str], list[State | None]]] = []
        self._tries = 0
        self._inline: list[list[State | None]] = []
        self._ranges: dict[str, str] = {}  # of `for (auto &e : all)`: {e: all}
        self._steps = 0
        self._until = perf_counter() + SECONDS
        try:
            block = sources.statements(function) if body is None else body
            self._collect(block)
            if function.initials[1] and body is None:
                self._initials()
            state = self._block(block, {}, True)
            if state is not None:
                self._leave("end", function.body[1], state)
        except (Unreadable, RecursionError):
            self.trouble = True
            self.leaks, self.mismatches, self.overwrites, self.twice = [], [], [], []

    # ---------------------------------------------------------------------------------------------- declarations
    def _collect(self, block: list[Stmt]) -> None:
        """Enter all variables that the function declares."""
        for s in block:
            kind = s[0]
            if kind == "expr":
                for name, type_ in declarations(s[1]):
                    known = self.locals.get(name)
                    self.locals[name] = type_ if known is None or "static" not in known else known
            elif kind == "loop":
                head = s[1]
                if len(head) > 2:
                    for name, type_ in declarations(head[2:]):
                        self.locals.setdefault(name, type_)
                self._collect(s[2])
            elif kind == "if":
                if len(s[1]) > 2:
                    for name, type_ in declarations(s[1][2:-1]):
                        self.locals.setdefault(name, type_)
                self._collect(s[2])
                self._collect(s[3])
            elif kind in ("block", "try"):
                self._collect(s[1])
                if kind == "try":
                    for handler in s[2]:
                        self._collect(handler)
            elif kind == "switch":
                self._collect(s[2])
            elif kind == "pp":
                for branch in s[1]:
                    self._collect(branch)

    def _initials(self) -> None:
        """Members that a constructor's initializers create: `p_(raw_alloc(n))`."""
        from ..source.cpp import TOKEN

        begin, end = self.function.initials
        tokens = [(m[0], m.start()) for m in TOKEN.finditer(self.function.unit.code, begin, end)]
        words = Words(tokens)
        for call in words.calls:
            made = self.creates(call)
            if made is not None and made[2] == "ret":
                frame = words.frames[call.at]
                while frame is not None and frame.parent is not None:
                    frame = frame.parent
                if frame is not None and frame.call is not None:
                    held = Held(frame.call.name, frame.call.name, made[0], made[1], tokens[call.at][1], call.name)
                    held.member = True
                    self.created.append(held)

    def is_local(self, name: str) -> bool:
        kind = self.locals.get(name)
        return kind is not None and "static" not in kind and "thread_local" not in kind and "&" not in kind

    # ------------------------------------------------------------------------------------------------ statements
    def _block(self, block: list[Stmt], state: State | None, outer: bool = False) -> State | None:
        own: set[str] = set()
        passed = len(self._passed)
        self._sure.append(surely_released(block))
        for s in block:
            self._steps += 1
            if self._steps > MOST_STEPS or (self._steps % 256 == 0 and perf_counter() > self._until):
                raise Unreadable
            if state is None and s[0] not in ("label", "case"):
                continue
            if s[0] == "expr":
                names = [n for n, _ in declarations(s[1])]
                own.update(names)
                if self._loops:
                    self._loops[-1][0].update(names)
            state = self._one(s, state)
        del self._passed[passed:]
        self._sure.pop()
        if state is not None and not outer:
            for name in [n for n in state if n in own or (n[0] == "!" and n[1:] in own)]:
                held = state.pop(name)
                if not held.member and name[0] != "!":
                    self.leaks.append(Leak(held, "scope", held.offset))
        return state

    def _one(self, s: Stmt, state: State | None) -> State | None:
        kind = s[0]
        if kind == "expr":
            assert state is not None
            return self._expression(s[1], state)
        if kind in ("label", "case"):
            return {} if kind == "label" or state is None else state
        assert state is not None
        if kind == "block":
            return self._block(s[1], state)
        if kind == "if":
            return self._if(s, state)
        if kind == "pp":
            branches = [self._block(branch, dict(state)) for branch in s[1]]
            return join(branches if s[2] else [*branches, state])
        if kind == "loop":
            return self._loop(s, state)
        if kind == "switch":
            after = self._expression(s[1], state)
            if after is None:
                return None
            ends: list[State | None] = []
            self._loops.append((set(), ends))
            last = self._cases(s[2], after)
            self._loops.pop()
            return join([last, after, *ends])
        if kind == "try":
            before = dict(state)
            self._tries += bool(s[2])
            after = self._block(s[1], state)
            self._tries -= bool(s[2])
            entry = join([before, after]) if after is not None else {}
            outs = [after] + [self._block(h, dict(entry or {})) for h in s[2]]
            return join(outs)
        return self._jump(kind, s[1], state)

    def _cases(self, block: list[Stmt], entry: State) -> State | None:
        state: State | None = None
        for s in block:
            if s[0] == "case":
                state = dict(entry) if state is None else join([state, dict(entry)])
            elif state is not None:
                state = self._one(s, state)
        return state

    def _jump(self, kind: str, tokens: list[Token], state: State) -> State | None:
        offset = tokens[0][1]
        after = self._expression(tokens, state, returning=kind in ("return", "throw"))
        if after is None:
            return None
        if kind in ("break", "continue"):
            if self._loops:
                names, ends = self._loops[-1]
                for name in [n for n in after if n in names and not after[n].member]:
                    if not after[name].static:
                        self.leaks.append(Leak(after[name], kind, offset))
                        del after[name]
                ends.append(after)
            return None
        if kind == "goto":
            label = tokens[1][0] if len(tokens) > 1 else ""
            rest = questions.after_label(self.function.text, label)
            gone = {n: h for n, h in after.items() if not re.search(rf"\b{re.escape(n)}\b", rest)}
            self._leave("goto", offset, gone)
            return None
        if kind == "return" and self._inline:
            self._inline[-1].append(after)
            return None
        if kind == "throw" and (self._tries or questions.hopeless(self._conditions, self.cls is not None)):
            return None
        self._leave(kind, offset, after)
        return None

    def _leave(self, kind: str, offset: int, state: State, name: str = "") -> None:
        for key, held in state.items():
            if not held.static and key[0] != "!":
                self.leaks.append(Leak(held, kind, offset, name))

    def _if(self, s: Stmt, state: State) -> State | None:
        head = s[1]
        known = set(state)
        after = self._expression(head, state)
        if after is None:
            return None
        texts = [t[0] for t in head]
        related = {n for n in after if n not in known}
        related |= {self._status[text] for text in texts if text in self._status}
        there = set(related) if succeeds(texts) else set()  # what the branch below holds, and the way past it does not
        for i, text in enumerate(texts):
            if text in after and tested(texts, i):
                related.add(text)
                if texts[i - 1] != "!" and "==" not in texts[i - 1 : i + 2]:
                    there = there | {text}
        self._conditions.append(texts)
        gone = related - there if leaves(s[2]) else set()
        then = self._block(s[2], {k: v for k, v in after.items() if k not in gone})
        gone = related if leaves(s[3]) else there if leaves(s[2]) else set()
        other_in = {k: v for k, v in after.items() if k not in gone}
        if then is not None:
            for name in related:  # `if (p) cudaFree(p)`: no resource on the other side
                if name not in then:
                    other_in.pop(name, None)
        other = self._block(s[3], other_in) if s[3] else other_in
        self._conditions.pop()
        if leaves(s[2]) and not s[3]:
            self._passed.append(texts)
        return join([then, other])

    def _loop(self, s: Stmt, state: State) -> State | None:
        head = s[1]
        after = self._expression(head, state)
        if after is None:
            return None
        ends: list[State | None] = []
        self._ranges.update(questions.by_reference(head))
        self._loops.append((set(), ends))
        last = self._block(s[2], dict(after))
        self._loops.pop()
        released_elements(self.released, head, after, last)
        if s[3]:
            return join([last, *ends])
        for name, held in (last or {}).items():  # the next turn creates anew into what still holds this one
            outer = self.is_local(name) and name not in after and name not in self.kept
            if outer and not held.element and all(held is not old for old, _, _ in self.overwrites):
                self.overwrites.append((held, held.offset, "overwritten"))
        if last is not None:
            for name, held in last.items():  # elements that every turn makes: held after it
                if name not in after and held.element:
                    after[name] = held
        return join([after, last, *ends]) if last is not None or ends else after

    # ----------------------------------------------------------------------------------------------- expressions
    def _expression(self, tokens: list[Token], state: State, returning: bool = False) -> State | None:
        if len(tokens) < 2:
            return state
        words = Words(tokens)
        texts = words.texts
        inner: list[Frame] = []
        for frame in words.lambdas:
            if any(f.begin < frame.begin and frame.end < f.end for f in words.lambdas if f is not frame):
                continue
            inner.append(frame)
        for frame in inner:
            after = self._lambda(words, frame, state)
            if after is None:
                return None
            state = after
        hidden = [(f.begin, f.end) for f in inner]
        if texts[0] == "delete" or ("delete" in texts and not hidden):
            self._delete(words, state)
        events: list[tuple[int, int, Call]] = []
        for call in words.calls:
            if any(b < call.at < e for b, e in hidden):
                continue
            events.append((call.close, call.at, call))
        events.sort(key=lambda x: (x[0], x[1]))
        for _, _, call in events:
            self.called.add(call.last)
        self._uses(words, state, returning, hidden)
        for _, _, call in events:
            made = self.creates(call)
            if made is not None:
                self._create(words, call, made, state)
                continue
            how = self.sources.leaves(call.last) if call.last.isupper() or "_" in call.name else ""
            if how and not call.method and not self._about_status(words, call):
                offset = words.tokens[call.at][1]
                if how == "throw" and self._tries:
                    continue
                leaving = {n: h for n, h in state.items() if n not in texts[call.at : call.close]}
                self._leave(how, offset, leaving, call.last)
        self._new(words, state)
        self._statuses(words, state)
        return state

    def _about_status(self, words: Words, call: Call) -> bool:
        """Whether a check is about the result of the runtime: then nothing works any more, and no path is reported."""
        return any(API.search(t) for t in words.texts[call.open : call.close])

    def _lambda(self, words: Words, frame: Frame, state: State) -> State | None:
        tokens = words.tokens[frame.begin + 1 : frame.end]
        outer = frame.parent
        call = None
        while outer is not None:
            if outer.call is not None:
                call = outer.call
            outer = outer.parent
        block = Reader(tokens).all()
        if call is not None and not call.method and INLINE.search(call.last):
            self._collect(block)
            ends: list[State | None] = []
            self._inline.append(ends)
            last = self._block(block, dict(state))
            self._inline.pop()
            return join([last, *ends]) if last is not None or ends else state
        for name in list(state):
            if any(t[0] == name for t in tokens):
                self.kept.add(name)
                del state[name]
        for name in self.locals:
            if any(t[0] == name for t in tokens):
                self.kept.add(name)
        if self.depth < 4:
            self.inner.append(Paths(self.sources, self.function, None, self.depth + 1, block))
        return state

    def creates(self, call: Call) -> tuple[str, str, str] | None:
        """(family, rule, how) of a call that creates a resource."""
        return creation(self.sources, call, self.near, self.depth)

    def _create(self, words: Words, call: Call, made: tuple[str, str, str], state: State) -> None:
        family, rule, how = made
        found = words.target(call, how)
        if found is None:
            return
        name, path, element = found
        if name in self._ranges and not self.is_local(name):
            name, element = self._ranges[name], True
        held = Held(name, path, family, rule, words.tokens[call.at][1], call.name)
        held.element = element
        if how.startswith("="):
            self.created.append(held)
            if not self._conditions:
                state[name] = held
            return
        if not name:
            if held.rule != "host" and path:
                self.fields.append(held)
            return
        if call.last not in CREATE and call.name not in CREATE and "raw_alloc" not in call.name:
            held.via = call.last
        local = self.is_local(name)
        if not local and name in self.members and name not in self.params and name not in self.locals:
            held.member = True
        elif not local:
            kind = self.locals.get(name, self.function.unit.globals.get(name, ""))
            if name in self.params or not ("static" in kind or name in self.function.unit.globals):
                return
            held.static = True
        elif not may_own(self.locals[name]):
            return
        if name in self.kept and local:
            return
        # a second creation into what still holds the first one
        if name not in self.kept and not local and name not in self.released:
            self.refills.append((held, [list(c) for c in (*self._conditions, *self._passed)], bool(self._loops)))
        old = state.get(name)
        if old is not None and not element and old.offset != held.offset and not self._inline and name not in self.kept:
            self.overwrites.append((old, held.offset, "overwritten"))
        self.created.append(held)
        state.pop("!" + name, None)
        state[name] = held

    def _new(self, words: Words, state: State) -> None:
        texts = words.texts
        for i, text in enumerate(texts):
            if text == "new" and words.frames[i] is None and i and texts[i - 1] == "=":
                found = words.assigned(i)
                if found is None or not found[0] or not self.is_local(found[0]):
                    return
                kind = self.locals[found[0]]
                if "*" not in kind and "auto" not in kind:
                    return
                j = i + 1
                while j < len(texts) and texts[j] not in ("(", "[", "{"):
                    j += 1
                array = j < len(texts) and texts[j] == "["
                held = Held(found[0], found[1], "new[]" if array else "new", "host", words.tokens[i][1], "new")
                self.created.append(held)
                state[found[0]] = held

    def _delete(self, words: Words, state: State) -> None:
        texts = words.texts
        for i, text in enumerate(texts):
            if text != "delete":
                continue
            array = texts[i + 1 : i + 3] == ["[", "]"]
            at = i + 3 if array else i + 1
            if at < len(texts) and is_word(texts[at]):
                name = texts[at + 2] if texts[at] == "this" and at + 2 < len(texts) else texts[at]
                if at + 1 < len(texts) and texts[at + 1] in (".", "->", "[") and texts[at] != "this":
                    continue
                self._release(
                    name, "new[]" if array else "new", words.tokens[i][1], "delete[]" if array else "delete", state
                )

    def _statuses(self, words: Words, state: State) -> None:
        """`err = cudaMalloc(&p, n)`: what `err` says is about p."""
        texts = words.texts
        for j, text in enumerate(texts):
            if text == "=" and words.frames[j] is None and j:
                var = texts[j - 1]
                self._status.pop(var, None)
                for call in words.calls:
                    if call.at > j and self.creates(call) is not None and call.last in CREATE:
                        found = words.target(call, CREATE[call.last][2])
                        if found and found[0]:
                            self._status[var] = found[0]
                return

    def _release(self, name: str, family: str, offset: int, by: str, state: State, whole: bool = False) -> None:
        """`whole`: the variable itself is what is released, not an element or field of it."""
        self.released.setdefault(name, []).append((family, offset))
        held = state.pop(name, None)
        before = state.pop("!" + name, None)
        if whole and (name in self.locals or name in self.params or name in self.members):
            if before is not None and before.offset != offset:
                self.twice.append((before, offset, by))
            else:
                state["!" + name] = Held(name, name, family, "", offset, by)
        if held is not None and held.family != family and both_memory(held.family, family) and not held.via:
            self.mismatches.append((held, offset, by))

    def _uses(self, words: Words, state: State, returning: bool, hidden: list[tuple[int, int]]) -> None:
        """What the statement does with variables: released, handed over, or only read."""
        for call in words.calls:  # also what is not held here, as `released` is about the whole function
            family = DESTROY.get(call.last) or (
                DESTROY.get("::".join(call.name.split("::")[-2:])) if "::" in call.name else None
            )
            if family is None or (call.method and family == "malloc"):
                continue
            args = words.argument(call, 0)
            for name in released_names(args):
                later = any(b < call.at < e for b, e in hidden)  # in a lambda
                whole = "".join(args) in (name, "this->" + name) and not call.method and not later
                self._release(name, family, words.tokens[call.at][1], call.last, state, whole)
            self._release("=" + "".join(args), family, words.tokens[call.at][1], call.last, state)
        seen = set(words.texts)
        interesting = [n for n in (*state, *self.locals) if n in seen] + [
            n for n in self.members if n in seen and n not in self.locals
        ]
        for name in dict.fromkeys(interesting):
            if "!" + name in state and state["!" + name].offset != self._offset_of(words, name):
                del state["!" + name]
            held = state.get(name)
            elements = held.element if held is not None else "[]" in self.locals.get(name, "")
            for i in words.mentions(name):
                if any(b < i < e for b, e in hidden):
                    continue
                role, user, argument, address = words.use(i, elements)
                if role == "kept":
                    if not described(words, self.locals):
                        self._into_member(words, name, held)
                        self._keep(name, state, held)
                elif role == "target":
                    if held is not None and not self._made_here(words, held):
                        state.pop(name, None)
                        if words.texts[-2:] in (["=", "nullptr"], ["=", "NULL"], ["=", "0"]) and self.is_local(name):
                            self.overwrites.append((held, words.tokens[i][1], "lost"))
                elif role == "argument" and user is not None:
                    if DESTROY.get(user.last) or "::".join(user.name.split("::")[-2:]) in DESTROY:
                        continue
                    into = container_of(words, user, self.locals, self.function.text)
                    if into and held is not None and not held.member and not address:
                        self._put_into(into, held, state)
                        continue
                    what = self._given(words, user, argument, address, held)
                    if what == "free":
                        self._release(name, held.family if held else "", words.tokens[user.at][1], user.last, state)
                    elif what == "keep" and not (user.made == "" and any(name in x for x in self._sure)):
                        self._keep(name, state, held)
                elif returning and role == "read" and not address and questions.handed_back(words, i):
                    if held is not None:
                        self.returned[name] = held
                    self._keep(name, state, held)

    def _into_member(self, words: Words, name: str, held: Held | None) -> None:
        """`member = p`: the object holds it from here on, in place of what it held before."""
        texts = words.texts[2:] if words.texts[:2] == ["this", "->"] else words.texts
        if held is None or held.member or held.element or texts[1:] != ["=", name] or texts[0] not in self.members:
            return
        moved = Held(texts[0], texts[0], held.family, held.rule, words.tokens[0][1], held.call)
        moved.member, moved.via = True, held.via
        if texts[0] not in self.kept and texts[0] not in self.released:
            self.refills.append((moved, [list(c) for c in (*self._conditions, *self._passed)], bool(self._loops)))

    def _put_into(self, container: str, held: Held, state: State) -> None:
        """A local container holds it from here on."""
        moved = Held(container, container, held.family, held.rule, held.offset, held.call)
        moved.element, moved.via = True, held.via
        self.created = [moved if h is held else h for h in self.created]
        state.pop(held.name, None)
        state[container] = moved

    def _offset_of(self, words: Words, name: str) -> int:
        """Where the statement releases a variable, -1 where it does not."""
        for call in words.calls:
            if call.last in DESTROY and name in words.argument(call, 0):
                return words.tokens[call.at][1]
        return -1

    def _made_here(self, words: Words, held: Held) -> bool:
        return any(t[1] == held.offset for t in words.tokens)

    def _keep(self, name: str, state: State, held: Held | None) -> None:
        self.kept.add(name)
        if held is not None and not held.member:
            state.pop(name, None)

    def _given(self, words: Words, call: Call, argument: int, address: bool, held: Held | None) -> str:
        """What a call does with what it is given: "free", "keep" or "" (uses it)."""
        name = call.last
        if call.launch is not None or self.creates(call) is not None:
            return ""
        if call.made and call.made.rpartition("::")[2] not in ("return", "else", "do"):
            return self._owner(words, call, held)
        if name in OWNERS:
            return self._owner(words, call, held)
        if name == "from_blob":
            return "" if no_deleter(words, call, self.locals) else "keep"
        uses = name in USERS or call.name.startswith(CALLS) or name.startswith(CALLS)
        if uses and not call.method and name not in KEEPERS:
            return ""
        if self.sources.leaves(name) or (name.isupper() and len(name) > 2):
            return ""  # a check: what it is about is evaluated
        return summaries(self.sources).use(call, self.near, argument, self.depth)

    def _owner(self, words: Words, call: Call, held: Held | None) -> str:
        """An object is made of it. A smart pointer without a deleter of its own calls delete."""
        kind = call.made.rpartition("::")[2] or call.last
        smart = kind == "shared_ptr" or (kind == "unique_ptr" and "," not in call.template)
        if smart and held is not None and held.rule == "memory" and len(call.args) == 1:
            offset = words.tokens[call.at][1]
            self.mismatches.append((held, offset, "delete[]" if "[" in call.template else "delete"))
        elif held is not None and held.rule == "memory" and (by := questions.foreign_deleter(words, call, held.family)):
            self.mismatches.append((held, words.tokens[call.at][1], by))
        return "keep"
