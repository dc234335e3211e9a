"""`torchvet check --fix` and `--show-fixes`: repair, say what was repaired, report what is left."""

from __future__ import annotations

from torchvet.check.gate import fix
from torchvet.findings import Text

from . import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torchvet.findings import Finding

    from .check import Run
    from .outputs import Outputs


def repairs(run: Run, outputs: Outputs) -> int:
    """Apply or show the fixes of a run; the exit code is that of what is left (shown: of what there is)."""
    unsafe = bool(run.given.get("unsafe-fixes"))
    showing = bool(run.given.get("show-fixes"))
    latest: list[Finding] = []

    def find() -> list[Finding]:
        latest[:] = run.find()
        return latest

    def read(path: str) -> bytes:
        assert run.result is not None
        if path in run.overlay:
            return run.overlay[path]
        return run.source if run.stdin else fix.read_file(run.result.root)(path)

    def write(path: str, data: bytes) -> None:
        assert run.result is not None
        if run.stdin:
            run.source = data
        elif showing:
            run.overlay[path] = data
        else:
            fix.write_file(run.result.root)(path, data)

    def analysed(path: str) -> str:
        assert run.result is not None
        return run.result.read_text(path)

    done = fix.repair(find, read, write, analysed, unsafe=unsafe)
    for path, why in done.failed:
        run.note(Text("{path} was left as it is: {why}", "{path} 未修改：{why}", path=path, why=why))
    if not done.settled:
        run.note(Text("fixes did not settle after {n} passes", "经过 {n} 轮修复仍未稳定", n=fix.PASSES))
    if showing:
        for path in sorted(done.after):
            terminal.say(fix.unified_diff(path, done.before[path], done.after[path]), machine=True)
        run.note(_summary(done, len(latest), would=True))
        if any(path for _, path in outputs.pairs):
            outputs.pairs = [(name, path) for name, path in outputs.pairs if path]
            outputs.write(run, latest)
    elif run.stdin:
        terminal.say_bytes(run.source)
        run.note(_summary(done, len(latest)))
    else:
        if done.count:
            run.note(_summary(done, len(latest)))
        outputs.write(run, latest)
    return run.exit_code(latest)


def _summary(done: fix.Repaired, left: int, would: bool = False) -> Text:
    rules = ", ".join(f"{n} {name}" for name, n in sorted(done.rules.items())) or "-"
    if would:
        return Text("{n} would be fixed in {files} files ({rules})", "可修复 {n} 处，涉及 {files} 个文件（{rules}）",
                    n=done.count, files=len(done.after), rules=rules)  # fmt: skip
    return Text("fixed {n} in {files} files ({rules}), {left} left",
                "已修复 {n} 处，涉及 {files} 个文件（{rules}），剩余 {left} 个",
                n=done.count, files=len(done.after), rules=rules, left=left)  # fmt: skip
