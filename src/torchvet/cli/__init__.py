"""The command line: `main` finds the verb and imports that verb's module only. Arguments in, exit code out."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = {
    "check": ("find lines that leak memory or leave ranks waiting", "找出泄漏内存或让某些 rank 永远等待的代码"),
    "preflight": ("will this machine, container and fleet let the job run?", "这台机器、容器和集群能否运行该作业？"),
    "run": ("run a job and keep the evidence that a crash would destroy", "运行任务，并保留崩溃会毁掉的证据"),
    "tune": ("the DataLoader settings that are best here, by measurement", "通过测量得出此处最佳的 DataLoader 设置"),
    "diagnose": ("what ended a job: which rank, which line, which cause", "作业为何失败：哪个 rank、哪一行、什么原因"),
    "explain": ("what a rule finds, why it matters, how to fix it", "规则的含义、危害与修复方法"),
    "rules": ("list all rules", "列出所有规则"),
}
"""Verb -> its line in the help, English and Chinese; each is a module of this package with `run(argv) -> int`."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it (128 + SIGINT)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run torchvet with the given words (default: those of the command line) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("--version", "-V"):
        from torchvet import __version__

        print(f"torchvet {__version__}")
        return 0
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        _complain("torchvet: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe (head, less) went away: no fault
        from .terminal import drop_stdout

        drop_stdout()
        return 0
    except Exception:  # an uncaught exception would end with 1, which means findings
        _complain(_bug_report(words))
        return 2


def console() -> None:
    """The `torchvet` command: `main` in a process of its own, which is short: nothing is collected, and at its end
    the memory is left to the system instead of being taken apart object by object (a tenth of a large check)."""
    import gc
    import os

    gc.disable()
    check = sys.argv[1:2] == ["check"]
    if check:
        from .compiled import install

        install()
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        pass
    if check:
        from .compiled import keep

        keep()
    os._exit(code)


def _dispatch(words: list[str]) -> int:
    from torchvet.findings import UserError, language

    asked = language(_asked_language(words))
    verb = words[0] if words else ""
    try:
        if verb in VERBS:
            code: int = __import__(f"{__name__}.{verb}", fromlist=["run"]).run(words[1:])
            return code
        if verb in ("--help", "-h", "help"):
            from .terminal import say

            say(_help(asked))
            return 0
        if not verb:
            _complain(_help(asked))
            return 2
        raise _no_verb(verb)
    except UserError as error:
        from torchvet.findings import Text

        message, hint = (x.render(asked) if isinstance(x, Text) else str(x) for x in (error.message, error.hint))
        _complain(f"torchvet: {message}" + (f" ({hint})" if hint else "") + "\n")
        return 2


def _bug_report(words: Sequence[str]) -> str:
    from traceback import format_exc

    from torchvet import __version__
    from torchvet.findings import Text, language

    said = Text(
        "this is a bug of torchvet {version}; please report it with the lines above",
        "这是 torchvet {version} 的缺陷；请附上以上内容报告", version=__version__,
    )  # fmt: skip
    return f"{format_exc()}torchvet: {said.render(language(_asked_language(words)))}\n"


def _asked_language(words: Sequence[str]) -> str | None:
    """`--lang zh` or `--lang=zh`, looked up before anything is parsed: mistakes are explained in it too."""
    for i, word in enumerate(words):
        if word == "--lang" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith("--lang="):
            return word[7:]
    return None


def _no_verb(verb: str) -> Exception:
    import os

    from torchvet.findings import Text, UserError

    if verb.startswith("-"):
        return UserError(
            Text("unknown option {option}", "未知的选项 {option}", option=verb),
            Text("options come after the verb: torchvet check {option}", "选项写在命令之后：torchvet check {option}",
                 option=verb),
        )  # fmt: skip
    if os.path.exists(verb):
        hint: object = Text("torchvet check {path}", path=verb)
    else:
        from torchvet.check.config import did_you_mean

        hint = did_you_mean(verb, VERBS) or Text("one of: {verbs}", "可用命令：{verbs}", verbs=", ".join(VERBS))
    return UserError(Text("unknown verb {verb}", "未知的命令 {verb}", verb=verb), hint)


def _help(language: str) -> str:
    zh = language == "zh"
    lines = [
        "torchvet 审查 PyTorch 训练代码" if zh else "torchvet vets PyTorch training",
        "",
        ("用法：" if zh else "Usage: ") + "torchvet VERB ...",
        "",
        *(f"  {verb:<10} {said[zh]}" for verb, said in VERBS.items()),
        "",
        f"  {'-V, --version':<15} {'显示版本' if zh else 'print the version'}",
        f"  {'-h, --help':<15} {'显示帮助；每个命令也有 --help' if zh else 'this page; each verb has its own'}",
    ]
    return "\n".join(lines) + "\n"


def _complain(text: str) -> None:
    from .terminal import complain

    complain(text)
