"""`torchvet check --trace FUNCTION`: which function is meant, and its trace as a page."""

from __future__ import annotations

from torchvet.findings import Text, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from torchvet.check.config import Options
    from torchvet.check.program.model import Function
    from torchvet.check.program.program import Program
    from torchvet.check.rules.project import Project
    from torchvet.report.trace import TracePage

MOST_LISTED = 8
FORMATS = ("full", "json")


def show(name: str, paths: list[str], options: Options, language: str, color: str) -> int:
    """Print the trace of a function; 0. Raises UserError when no function or more than one is meant."""
    from torchvet.check.engine import ask
    from torchvet.report.trace import render, render_json

    from . import terminal

    if options.output_format not in FORMATS:
        raise UserError(
            Text("--trace prints text or json, not {name}", "--trace 只支持文本或 json，不支持 {name}",
                 name=options.output_format)
        )  # fmt: skip
    page = ask(paths, options, lambda project, files: page_of(project, the_function(project.program, files, name)))
    if options.output_format == "json":
        terminal.say(render_json(page, language), machine=True)
    else:
        drawn = terminal.can_draw()
        terminal.say(render(page, language, color=terminal.use_color(color), unicode=drawn, room=terminal.width()))
    return 0


# ------------------------------------------------------------------------------------------------- which function
def the_function(program: Program, files: list[str], asked: str) -> Function:
    """The one function that `module.path:qualname`, `folder/file.py:qualname`, `file.py:line` or a bare name means."""
    module, colon, name = asked.rpartition(":")
    found = [
        f
        for path in holders(program, files, module if colon else "", name)
        for f in functions_of(program, path)
        if fits(f, name)
    ]
    exact = [f for f in found if f.qualname == name]
    found = exact or found
    if name.isdecimal() and found:
        found = [max(found, key=lambda f: f.first_line)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            Text("{name} can mean {n} functions", "{name} 可指 {n} 个函数", name=asked, n=len(found)),
            Text("one of: {names}", "请从中选择：{names}", names=listed([spelled(f) for f in found])),
        )
    raise UserError(Text("there is no function {name}", "没有函数 {name}", name=asked), near(program, files, asked))


def holders(program: Program, files: list[str], module: str, name: str) -> Iterable[str]:
    """The files that can define the function: those of the module, and whose text holds the last part of its name."""
    last = name.rpartition(".")[2]
    for path in files:
        if module and not is_module(path, module):
            continue
        text = program.text(path) or ""
        if last.isdecimal() or last == "<module>" or f"def {last}" in text:
            yield path


def is_module(path: str, module: str) -> bool:
    """Whether a file is meant by `a.b`, `a/b.py` or `b.py`, whatever folders lie above."""
    wanted = module.replace("\\", "/") if module.endswith(".py") else module.replace(".", "/") + ".py"
    package = wanted[:-3] + "/__init__.py"
    return any(path == w or path.endswith("/" + w) for w in (wanted.removeprefix("./"), package))


def functions_of(program: Program, path: str) -> list[Function]:
    """All functions of a file, those inside of functions too, and the module's own code."""
    loaded = program.module(path)
    if loaded is None:
        return []
    out = [program.main(loaded)]
    for f in loaded.all_functions():
        out += program.with_nested(f)
    return out


def fits(f: Function, name: str) -> bool:
    if name.isdecimal():
        return f.first_line <= int(name) <= f.end_line
    return f.qualname == name or f.qualname.endswith("." + name)


def spelled(f: Function) -> str:
    """The name by which a function is asked for."""
    return f"{f.module.path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}:{f.qualname}"


def near(program: Program, files: list[str], asked: str) -> Text | str:
    """A hint: the known name that is most like the one asked for."""
    from torchvet.check.config import nearest

    module, _, name = asked.rpartition(":")
    inside = [p for p in files if not module or is_module(p, module)]
    if module and not inside:
        best = nearest(module.rpartition(".")[2], [p.rpartition("/")[2].removesuffix(".py") for p in files])
        return Text("no file is module {name}; did you mean {near}?", "没有模块 {name} 对应的文件；是否想写 {near}？",
                    name=module, near=best) if best else ""  # fmt: skip
    loaded = [p for p in inside if p in program.modules or module]
    names: dict[str, Any] = {}
    for path in loaded:
        for f in functions_of(program, path):
            names.setdefault(f.name, f)
            names.setdefault(f.qualname, f)
    best = nearest(name, names)
    return Text("did you mean {near}?", "是否想写 {near}？", near=spelled(names[best])) if best else ""


def listed(names: list[str]) -> str:
    shown = sorted(names)[:MOST_LISTED]
    return ", ".join(shown) + (", …" if len(names) > MOST_LISTED else "")


# ------------------------------------------------------------------------------------------------- what is said of it
def page_of(project: Project, function: Function) -> TracePage:
    from torchvet.check.flow.traces_show import Shown, legend, place_name
    from torchvet.check.rules import all_rules
    from torchvet.report.trace import TracePage

    ranks = project.ranks
    shown = Shown(ranks, function)
    page = TracePage(spelled(function), function.module.path, function.line)
    page.heads = [place_name(p) for p in shown.places]
    page.legend = legend(shown.places)
    page.rows = shown.rows
    rules = all_rules()
    for d in shown.reported:
        told = rules[d.fault].told
        if told is not None:
            page.reported.append(told(project, d))
    page.silent = shown.silent
    page.limits = shown.limits
    page.verdict = verdict(project, shown)
    return page


def verdict(project: Project, shown: Any) -> Text:
    """Why nothing is reported."""
    trace = shown.trace
    if not trace.has_ops:
        return Text("no collective is known here or in what it calls", "此处及其调用中没有已知的集合通信")
    if not trace.guarded:
        return Text("nothing here depends on the rank: every rank makes the same calls",
                    "此处没有任何分支取决于 rank：所有 rank 的调用相同")  # fmt: skip
    if not trace.parts_here:
        return Text("what parts the ranks lies in what it calls, which is looked at by itself",
                    "使各 rank 分开的代码在被调用的函数中，单独检查")  # fmt: skip
    return Text("no difference between the ranks: as far as is known they make the same calls in the same order",
                "各 rank 之间没有差异：就所知而言，它们以相同顺序进行相同的调用")  # fmt: skip
