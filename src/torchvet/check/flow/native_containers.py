"""Resources that a local container or a descriptor takes: `std::vector<float *> all; all.push_back(p);`."""

from __future__ import annotations

import re

from .native_words import DESTROY, is_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..source.cpp import Stmt, Token
    from .native_held import Held
    from .native_words import Call, Words

    State = dict[str, Held]

GROWS = frozenset(("push_back", "emplace_back", "push", "emplace"))
HOLDS = re.compile(
    r"\b(?:vector|deque|list|array|stack|queue)\s*<[^;]*(?:\*|(?:cuda|hip)(?:Event|Stream|Graph|GraphExec|Array)_t|Handle_t)"
)
"""Types of containers of raw pointers and handles, which release nothing when they go."""
DESCRIBES = re.compile(
    r"^(?:const)?(?:struct)?(?:cuda|hip|CUDA_|HIP_)\w*(?:Desc|Params|Parms|DESC|PARAMS|DESC_st)(?:\{\})?$"
)
"""Types of structures that tell the runtime about a resource and own nothing."""


def container_of(words: Words, call: Call, locals_: dict[str, str], text: str) -> str:
    """The local container that `all.push_back(p)` puts a resource into, when the function alone has it; "" else."""
    if call.last not in GROWS or not call.method or call.at < 2:
        return ""
    name = words.texts[call.at - 2]
    kind = locals_.get(name, "")
    if not kind or "static" in kind or "&" in kind or not HOLDS.search(kind):
        return ""
    return name if confined(text, name) else ""


def confined(text: str, name: str) -> bool:
    """Is a container only filled, counted and read by the runtime in a function? Whatever else happens to it may
    release what it holds."""
    word = re.escape(name)
    for m in re.finditer(rf"\b{word}\b", text):
        rest = text[m.end() : m.end() + 40].lstrip()
        if re.match(r"\.\s*(?:push_back|emplace_back|push|emplace|size|reserve|empty|capacity)\s*\(", rest):
            continue
        statement = text[max(text.rfind(c, 0, m.start()) for c in ";{}") + 1 : m.start()]
        if re.search(r">\s*$", statement) and (not rest or rest[0] in ";({"):
            continue  # its declaration
        if re.match(r"(?:\[|\.\s*(?:data|back|front|at)\s*\()", rest) and re.search(
            r"(?:<<<[^;]*|\b(?:cuda|hip)(?!Free|Destroy|\w*Destroy|\w*Free)\w+\s*\([^;]*)$", statement
        ):
            continue
        return False
    return True


def surely_released(block: list[Stmt]) -> frozenset[str]:
    """Names that statements of a block itself release, under no condition: whatever else of the block is given them
    does not become their owner."""
    out: set[str] = set()
    for s in block:
        if s[0] != "expr" or len(s[1]) < 4:
            continue
        for i, (text, _) in enumerate(s[1]):
            following = [t for t, _ in s[1][i + 1 : i + 4]]
            if text in DESTROY and len(following) == 3 and following[0] == "(" and following[2] in (")", ","):
                out.add(following[1])
    return frozenset(out)


def described(words: Words, locals_: dict[str, str]) -> bool:
    """`desc.res.array.array = a`: a structure that describes a resource to the runtime does not take it."""
    texts = words.texts
    if len(texts) < 4 or texts[1] not in (".", "["):
        return False
    kind = locals_.get(texts[0], "").replace(" ", "")
    return bool(DESCRIBES.match(kind.rpartition("::")[2]))


def released_elements(
    released: dict[str, list[tuple[str, int]]], head: list[Token], after: State, last: State | None
) -> None:
    """`for (auto &e : all) cudaFree(e)`, `for (auto it = all.begin(); ...) cudaFree(*it)`: this releases `all`."""
    texts = [t[0] for t in head]
    name, rest = "", []
    if ":" in texts and ";" not in texts:
        at = texts.index(":")
        name, rest = texts[at - 1], texts[at + 1 : -1]
    else:
        for i, text in enumerate(texts):
            if text == "=" and i and any(t in ("begin", "cbegin", "rbegin") for t in texts[i:]):
                name, rest = texts[i - 1], texts[i + 1 :]
                break
    if not name:
        return
    for family, offset in list(released.get(name, ())) if name != "second" else ():
        for word in rest:
            if is_word(word) and word not in ("begin", "this"):
                released.setdefault(word, []).append((family, offset))
                after.pop(word, None)
                if last is not None:
                    last.pop(word, None)
                break
    if any(n in released for n in ("second", "first")):
        for word in rest[:1]:
            released.setdefault(word, []).extend(released.get("second", released.get("first", [])))
            after.pop(word, None)
