"""What a command starts: the chain of wrappers, container engines, job steps and launchers down to the program.

`srun apptainer exec image torchrun --nproc_per_node=8 train.py` is a `srun` that holds an `apptainer` that holds a
`torchrun`. Options are read by tables (`knowledge/deployment.toml`): an option that the table does not know takes a
value when the next word is none.
"""

from __future__ import annotations

import re

from ... import knowledge
from ..source.shell_values import Setting, script
from ..source.traced import OPEN, Traced, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..source.shell_values import Values

    Given = tuple[str, Traced, Traced]  # (option, value, word that holds the option)

ENGINE, IMAGE, STEP, MPI, LAUNCHER, PYTHON, OTHER = "engine", "image", "step", "mpi", "launcher", "python", "other"
DEEP = 8
WORKERS = re.compile(
    r"(?!(?:pre)?process)(?!preproc)[\w.\-]*?(?:num|n)[-_.]?(?:data[-_]?)?(?:loader[-_]?)?workers|workers|data[-_]workers|dataloader[-_.]num[-_]workers"
)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*w?")
_PATH = re.compile(r".*/")


class Launch:
    """One link of the chain. `kind` as above, `head` the program's name, `given` its options in order, `rest` the words
    behind them, `inner` what those start."""

    __slots__ = ("env", "given", "head", "inner", "kind", "opaque", "rest", "words")

    def __init__(self, kind: str, head: str, words: list[Traced]) -> None:
        self.kind = kind
        self.head = head
        self.words = words
        self.given: list[Given] = []
        self.rest: list[Traced] = []
        self.inner: list[Launch] = []
        self.env: list[Setting] = []
        self.opaque = False

    def value(self, *names: str) -> Traced | None:
        """The value of the last option with one of these names, `_` taken for `-`."""
        return next((v for n, v, _ in reversed(self.given) if n in names), None)

    def has(self, *names: str) -> Traced | None:
        """The word of an option that is switched on."""
        found = next(((v, w) for n, v, w in reversed(self.given) if n in names), None)
        return found[1] if found is not None and found[0].text not in ("false", "no", "0") else None

    def all(self) -> Iterator[Launch]:
        yield self
        for x in self.inner:
            yield from x.all()

    @property
    def at(self) -> int:
        return self.words[0].offset(0)


def launches(words: list[Traced], values: Values | None, env: Iterable[Setting] = (), depth: int = 0) -> list[Launch]:
    """What the words of a command start; several for `bash -c "a; b"`."""
    settings = list(env)
    while words and depth and words[0].text.startswith("-") and len(words[0].text) > 1:
        words = words[1:]  # arguments for the entry point of an image
    words = unwrapped(words, settings)
    if not words or depth > DEEP:
        return []
    head = _PATH.sub("", words[0].text)
    if head in knowledge.deployment("shells"):
        return shell(words, values, settings, depth)
    if head == "ssh" or head == "pdsh":
        rest = operands(words, 1, "bceiFILlmoOpRSWwx", settings)[1:]
        return text_of(rest, values, settings, depth) if rest else []
    if head in ("eval", "parallel", "xargs", "watch", "script"):
        return text_of(words[1:], values, settings, depth)
    found = (
        engine(words, head, values, depth) or image(words, head, values, depth) or step(words, head, values, depth)
        or launcher(words, head)
    )  # fmt: skip
    if found is None:
        python = _PYTHON.fullmatch(head)
        found = Launch(PYTHON if python else OTHER, head, words)
        found.rest = words[1:]
    found.env = settings
    return [found]


def unwrapped(words: list[Traced], settings: list[Setting]) -> list[Traced]:
    """Words without the programs that only pass on what follows, and without assignments before it."""
    wrappers = knowledge.deployment("wrappers")
    at = 0
    for _ in range(20):
        if at >= len(words):
            return []
        text = words[at].text
        head = _PATH.sub("", text)
        name, sign, _value = text.partition("=")
        if sign and name.isidentifier():
            settings.append(Setting(name, words[at].cut(len(name) + 1, len(text)), words[at].offset(0), False, True))
            at += 1
        elif head in wrappers:
            wrapped = head
            at += 1
            while at < len(words) and (words[at].text.startswith("-") or (at > 0 and words[at - 1].text in VALUED)):
                at += 1
            if wrapped in ("timeout", "flock") and at < len(words):
                at += 1
            elif wrapped in ("nsys", "ncu", "coverage") and at < len(words) and words[at].text in ("profile", "run"):
                at += 1
                while at < len(words) and words[at].text.startswith("-"):
                    at += 1 if "=" in words[at].text or words[at].text.startswith("--") else 2
        else:
            break
    return words[at:]


VALUED = frozenset(("-u", "-n", "-o", "-k", "-s", "-C", "-g", "-c", "-m", "-N", "--cpunodebind", "--membind"))


def operands(words: list[Traced], at: int, valued: str, settings: list[Setting]) -> list[Traced]:
    """What stands behind the short options."""
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if len(words[at].text) == 2 and words[at].text[1] in valued else 1
    return words[at:]


def shell(words: list[Traced], values: Values | None, env: list[Setting], depth: int) -> list[Launch]:
    """`bash -c "text"`, or a script of the project."""
    for i, word in enumerate(words[1:8], 1):
        if re.fullmatch(r"-[a-z]*c", word.text):
            return text_of(words[i + 1 : i + 2], values, env, depth)
        if not word.text.startswith(("-", "+")):
            break
    found = Launch(OTHER, _PATH.sub("", words[0].text), words)
    found.rest = words[1:]
    found.env = env
    return [found]


def text_of(words: list[Traced], values: Values | None, env: list[Setting], depth: int) -> list[Launch]:
    """The launches of words that a shell reads again."""
    from ..source.traced import joined

    parts: list[Traced] = []
    for w in words[:400]:
        parts += [w, Traced.at(" ", w.offset(len(w.text)))]
    return in_script(joined(parts), values, env, depth) if parts else []


def in_script(text: Traced, values: Values | None, env: Iterable[Setting], depth: int) -> list[Launch]:
    read = script(text, copied(values), min(depth + 3, 10))
    out: list[Launch] = []
    exported = [*env, *(s for s in read.settings if s.exported)]
    for command in read.commands[:200]:
        out += launches(command.words, read.values, [*exported, *command.env], depth + 1)
    return out


def copied(values: Values | None) -> Values:
    from ..source.shell_values import Values as New

    out = New()
    if values is not None:
        out.single.update(values.single)
        out.arrays.update(values.arrays)
        out.exported |= values.exported
        out.open = values.open
    return out


# ------------------------------------------------------------------------------------------------------------ options
def options(launch: Launch, words: list[Traced], at: int, flags: Iterable[str], long_single: bool = False) -> int:
    """Read options from `at` on into `launch.given`; the place of the first word that is none."""
    known = frozenset(flags)
    while at < len(words):
        word = words[at]
        text = word.text
        if text == "--":
            return at + 1
        if text.startswith("--") or (long_single and len(text) > 2 and text[0] == "-" and not text[2].isdigit()):
            start = 2 if text.startswith("--") else 1
            name, sign, value = text[start:].partition("=")
            name = name.replace("_", "-")
            if sign:
                launch.given.append((name, word.cut(len(text) - len(value), len(text)), word))
            elif name in knowledge.deployment("mpi_pairs") and long_single:
                launch.given.append((name, words[min(at + 2, len(words) - 1)], word))
                at += 2
            elif name in known or at + 1 >= len(words) or is_option(words[at + 1].text):
                launch.given.append((name, Traced.at("", word.offset(0)), word))
            else:
                at += 1
                launch.given.append((name, words[at], word))
        elif text[:1] == "-" and len(text) > 1:
            i = 1
            while i < len(text):
                c = text[i]
                if c.isdigit():
                    break  # `-K1`: the value of a switch
                if c in known:
                    launch.given.append((c, Traced.at("", word.offset(i)), word))
                    i += 1
                    continue
                rest = word.cut(i + 1, len(text)) if i + 1 < len(text) else None
                if rest is not None and rest.text.startswith("="):
                    rest = rest.cut(1, len(rest.text))
                if rest is None and at + 1 < len(words):
                    at += 1
                    rest = words[at]
                launch.given.append((c, rest or Traced.at("", word.offset(i)), word))
                break
        elif opaque_options(words, at):
            launch.opaque = True
        else:
            return at
        at += 1
    return at


def is_option(text: str) -> bool:
    return text[:1] == "-" and len(text) > 1 and not text[1].isdigit()


def opaque_options(words: list[Traced], at: int) -> bool:
    """Is an unknown word among options more of them, or the first operand? More of them when an option follows;
    else its name decides, and where that says nothing, whether something that is known to be a program follows."""
    name = name_of(words[at].text)
    if not name:
        return False
    if at + 1 < len(words) and is_option(words[at + 1].text):
        return True
    upper = name.upper()
    if any(x in upper for x in ("IMAGE", "IMG", "TAG", "CONTAINER_NAME", "REPO")):
        return False
    if any(
        x in upper for x in ("OPT", "ARG", "FLAG", "PARAM", "EXTRA", "MOUNT", "VOLUME", "GPU", "ENV", "VARS", "@", "*")
    ):
        return at + 1 < len(words)
    return at + 2 < len(words) and name_of(words[at + 1].text) != ""


# ------------------------------------------------------------------------------------------------------------ programs
def engine(words: list[Traced], head: str, values: Values | None, depth: int) -> Launch | None:
    """`docker run`, `podman container create`."""
    if head not in knowledge.deployment("engines") or len(words) < 3:
        return None
    before = Launch(ENGINE, head, words)
    at = options(before, words, 1, ("D", "debug", "tls", "remote"))
    while at < len(words) and words[at].text in ("container",):
        at += 1
    if at >= len(words) or words[at].text not in ("run", "create"):
        return None
    found = Launch(ENGINE, "docker" if head == "nvidia-docker" else head, words)
    at = options(found, words, at + 1, knowledge.deployment("engine_flags"))
    if head == "nvidia-docker":
        found.given.append(("runtime", Traced.at("nvidia", words[0].offset(0)), words[0]))
    found.rest = words[at:]
    entry = found.value("entrypoint")
    command = found.rest[1:]
    if entry is not None and entry.text:
        command = [entry, *command]
    if command:
        found.inner = launches(command, values, (), depth + 1)
    return found


def image(words: list[Traced], head: str, values: Values | None, depth: int) -> Launch | None:
    """`apptainer exec image command`."""
    if head not in knowledge.deployment("images") or len(words) < 3:
        return None
    before = Launch(IMAGE, head, words)
    at = options(before, words, 1, ("d", "debug", "q", "quiet", "s", "silent", "v", "verbose", "nocolor"))
    if at >= len(words) or words[at].text not in ("exec", "run", "shell"):
        return None
    found = Launch(IMAGE, head, words)
    at = options(found, words, at + 1, knowledge.deployment("image_flags"))
    found.rest = words[at:]
    if found.rest[1:]:
        found.inner = launches(found.rest[1:], values, (), depth + 1)
    return found


def step(words: list[Traced], head: str, values: Values | None, depth: int) -> Launch | None:
    """`srun`, `mpirun`."""
    if head == "srun":
        found = Launch(STEP, head, words)
        at = options(found, words, 1, knowledge.deployment("srun_flags"))
    elif head in knowledge.deployment("mpi"):
        found = Launch(MPI, head, words)
        at = options(found, words, 1, knowledge.deployment("mpi_flags"), long_single=True)
    else:
        return None
    found.rest = words[at:]
    if found.rest:
        found.inner = launches(found.rest, values, (), depth + 1)
    return found


def launcher(words: list[Traced], head: str) -> Launch | None:
    """`torchrun`, `python -m torch.distributed.run`, `accelerate launch`: the options up to the script."""
    table = knowledge.deployment("launchers")
    name, at = head, 1
    if _PYTHON.fullmatch(head):
        while at < len(words) and words[at].text.startswith("-") and words[at].text != "-m":
            at += 2 if words[at].text in ("-X", "-W") else 1
        if at + 1 >= len(words) or words[at].text != "-m":
            return None
        name, at = words[at + 1].text, at + 2
    elif name_of(head):
        return None
    if name not in table:
        return None
    verb = knowledge.deployment("launcher_verbs").get(name)
    if verb is not None:
        if at >= len(words) or words[at].text != verb:
            return None
        at += 1
    found = Launch(LAUNCHER, name, words)
    single = name in ("horovodrun", "composer", "deepspeed")
    found.rest = words[options(found, words, at, knowledge.deployment("launcher_flags"), long_single=single) :]
    return found


def workers_of(launch: Launch) -> tuple[int, Traced] | None:
    """The number of loader workers that the command line of a program gives."""
    words = launch.rest if launch.kind in (LAUNCHER, PYTHON, OTHER) else []
    for i, word in enumerate(words):
        name, sign, value = word.text.lstrip("-+").partition("=")
        if not WORKERS.fullmatch(name):
            short = word.text == "-j" and launch.kind != OTHER
            if not short:
                continue
        if not sign:
            if not word.text.startswith("-") or i + 1 >= len(words):
                continue
            value = words[i + 1].text
        if value.isdecimal() and len(value) < 5:
            return int(value), word
    return None


def said(words: Iterable[Traced]) -> str:
    """Words as text, unknown parts by their names."""
    return " ".join(w.text for w in words).replace(OPEN, "$")
