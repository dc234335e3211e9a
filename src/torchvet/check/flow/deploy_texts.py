"""Files in languages of their own that hold shell text or options of containers: Terraform, justfiles, Jenkinsfiles.

Their languages are not read: here-documents, strings and blocks are found by their marks.
"""

from __future__ import annotations

import re

from ..source.justfile import recipes
from ..source.makefile import closing
from ..source.traced import Traced
from .deploy_ci import started_with
from .deploy_containers import settle
from .deploy_launch import launches
from .deploy_model import Container, Job, Shm
from .deploy_scripts import of_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .deploy_model import File

MIB = 1 << 20
_SIZE = re.compile(r"[sS]haredMemorySize\"?\s*[=:]\s*\"?(\d{1,9})\b")
_ENCODED = re.compile(r"\bcontainer_(?:properties|definitions)\s*=\s*jsonencode(?=\()")
_GPU = re.compile(r"\btype\"?\s*[=:]\s*\"GPU\"")
_IMAGE = re.compile(r"\bimage\"?\s*[=:]\s*\"([^\"\n]*)\"")
_COMMAND = re.compile(r"\b(?:entryPoint|command)\"?\s*[=:]\s*\[([^\]]*)\]")
_STRING = re.compile(r"\"([^\"\n]*)\"")
_HERE = re.compile(r"<<[-~]?(\w+)[ \t]*\n(.*?)\n[ \t]*\1\b", re.DOTALL)
_DOCKER = re.compile(r"\bdocker[ \t]*(?=\{)")
_ARGS = re.compile(r"\bargs[ \t:(]+(['\"])(.*?)\1")
_AGENT = re.compile(r"\bimage[ \t:(]+(['\"])(.*?)\1")
_INSIDE = re.compile(r"\.(?:inside|withRun)\([ \t]*(['\"])(.*?)\1")
_SH = re.compile(r"\bsh[ \t]*\(?[ \t]*(?:script[ \t]*:[ \t]*)?('''|\"\"\"|'|\")(.*?)\1", re.DOTALL)


def terraform(file: File) -> list[Job]:
    """Definitions of ECS and Batch in `jsonencode({...})`, and scripts in here-documents (`user_data`)."""
    text = file.text
    job = Job(file, "ecs")
    for m in _SIZE.finditer(text):  # 4000 characters around a size that ask for a GPU are taken for one definition
        if _GPU.search(text[max(0, m.start() - 4000) : m.end() + 4000]):
            c = Container(file, "ecs", "container", file.pos(m.start(), m.end()))
            c.gpus = 0
            size = int(m[1])
            c.shm = Shm("size", c.pos, size * MIB, m[1], bare=size < 512)
            job.containers.append(c)
    for m in _ENCODED.finditer(text):
        c_or_none = encoded(file, m)
        if c_or_none is not None:
            job.containers.append(c_or_none)
    out = [job]
    for m in _HERE.finditer(text):
        if m[2].lstrip().startswith("#!"):
            out += of_script(file, Traced.at(m[2], m.start(2)))
    return out


def encoded(file: File, m: re.Match[str]) -> Container | None:
    """A definition that asks for a GPU and says nothing of shared memory."""
    text = file.text
    end = closing(text, m.end())
    block = text[m.end() : end] if end > 0 else ""
    images = list(_IMAGE.finditer(block))
    resource = text.rfind("\nresource", 0, m.start())
    after = text.find("\nresource", m.start())
    whole = text[max(resource, 0) : after if after > 0 else len(text)]
    if len(images) != 1 or not _GPU.search(block):
        return None
    if any(w in whole for w in ("haredMemorySize", "/dev/shm", "FARGATE", "ipc_mode", "linuxParameters")):
        return None
    c = Container(file, "ecs", "container", file.pos(m.start(), m.end()))
    c.image, c.gpus = images[0][1], 0
    words = [
        Traced.at(s[1], m.end() + part.start(1) + s.start(1))
        for part in _COMMAND.finditer(block)
        for s in _STRING.finditer(part[1])
    ]
    c.launches = launches(words, None)
    settle(c)
    return c


def of_justfile(file: File) -> list[Job]:
    out: list[Job] = []
    for recipe in recipes(file.text)[:500]:
        out += [job for job in of_script(file, recipe, "make") if job.containers or job.launches]
    return out


def of_jenkinsfile(file: File) -> list[Job]:
    """The steps' shell text, and the containers in which an agent or `inside` runs them."""
    text = re.sub(r"(?m)(^|\s)//[^\n]*", lambda m: m[1] + " " * (len(m[0]) - len(m[1])), file.text)
    out: list[Job] = []
    for m in _SH.finditer(text):
        for job in of_script(file, Traced.at(m[2], m.start(2))):
            job.ci = True
            out.append(job)
    steps = [x for job in out for x in job.launches if x.kind != "engine"]
    made = Job(file, "jenkins")
    made.ci = True
    given: list[tuple[Traced, Traced | None]] = []
    for m in _DOCKER.finditer(text):
        end = closing(text, m.end())
        block = text[m.end() : end] if end > 0 else ""
        args, image = _ARGS.search(block), _AGENT.search(block)
        if args is not None:
            given.append(
                (
                    Traced.at(args[2], m.end() + args.start(2)),
                    Traced.at(image[2], m.end() + image.start(2)) if image is not None else None,
                )
            )
    given += [(Traced.at(m[2], m.start(2)), None) for m in _INSIDE.finditer(text)]
    for options, image_name in given:
        c = started_with(file, options, image_name, steps, "jenkins")
        if c.gpus is not None:  # which of the stages trains is not read
            made.containers.append(c)
    return [*out, made]
