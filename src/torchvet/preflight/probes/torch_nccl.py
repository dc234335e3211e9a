"""Settings of torch's NCCL watchdog that make a hang last for ever, or stop the process."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import Setting, removal, settings, table

PROBE = Probe(
    name="torch-nccl", area="nccl",
    summary=Text("torch notices a hanging collective", "torch 能发现挂起的集合通信"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    known = settings(host)
    out = [r for name in table("numbers")["torch"] if name in known and (r := _number(known[name]))]
    handling = _strongest(known, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
    blocking = _strongest(known, "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
    monitoring = known.get("TORCH_NCCL_ENABLE_MONITORING")
    if handling and handling.value.strip() == "0":
        if blocking and _on(blocking):  # wait() raises on its own; the watchdog is not needed
            pass
        else:
            out.append(PROBE.fail(
                "0", "3",
                Text("{shown}: a collective that hangs is never ended, the job waits for ever",
                     "{shown}：挂起的集合通信永远不会被终止，作业将一直等待", shown=handling.shown),
                removal(handling),
            ))  # fmt: skip
    elif handling and blocking and _on(blocking) and not (handling.value == "1" and "TORCHELASTIC_RUN_ID" in known):
        # torchrun itself sets the first to 1 (torch/distributed/elastic/agent/server/local_elastic_agent.py)
        out.append(PROBE.warn(
            blocking.value, None,
            Text("{a} and {b}: both end a collective that hangs, torch lets the first win",
                 "{a} 与 {b}：二者都会终止挂起的集合通信，torch 以前者为准",
                 a=blocking.shown, b=handling.shown),
            removal(blocking),
        ))  # fmt: skip
    if monitoring and not _on(monitoring):
        out.append(PROBE.warn(
            monitoring.value, "1",
            Text("{shown}: a watchdog that gets stuck itself is not noticed", "{shown}：看门狗自身卡住时不会被发现",
                 shown=monitoring.shown),
            removal(monitoring),
        ))  # fmt: skip
    buffer = _strongest(known, "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    dump = known.get("TORCH_NCCL_DUMP_ON_TIMEOUT")
    if dump and _on(dump) and buffer and buffer.value.strip() == "0":
        out.append(PROBE.warn(
            buffer.value, 2000,
            Text("{a} has nothing to write: {b}", "{a} 无内容可写：{b}", a=dump.shown, b=buffer.shown),
            Text("TORCH_FR_BUFFER_SIZE=2000 (older torch: TORCH_NCCL_TRACE_BUFFER_SIZE)",
                 "TORCH_FR_BUFFER_SIZE=2000（旧版 torch 为 TORCH_NCCL_TRACE_BUFFER_SIZE）"),
        ))  # fmt: skip
    return out or PROBE.ok(None, None, Text("the watchdog is on", "看门狗已启用"))


def _strongest(known: dict[str, Setting], *names: str) -> Setting | None:
    return next((known[n] for n in names if n in known), None)


def _on(setting: Setting) -> bool:
    """getCvarBool: "1", "y", "yes", "t", "true" in any case are true (c10d Utils.hpp)."""
    return setting.value.strip().lower() in ("1", "y", "yes", "t", "true")


def _number(setting: Setting) -> Result | None:
    """std::stoi takes leading white space and digits; anything else, also nothing, throws."""
    if re.match(r"\s*[+-]?\d", setting.value):
        return None
    return PROBE.fail(
        setting.value, "a number",
        Text("{name}={value} is no number: torch aborts or hangs in its first process group",
             "{name}={value} 不是数字：torch 创建首个进程组时会中止或挂起",
                  name=setting.name, value=repr(setting.value)),
        removal(setting),
    )  # fmt: skip
