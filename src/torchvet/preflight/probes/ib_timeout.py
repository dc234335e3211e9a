"""InfiniBand timeouts that never end, and retry counts that do not exist."""

from __future__ import annotations

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..variables import integer, removal, settings

PROBE = Probe(
    name="ib-timeout", area="nccl",
    summary=Text("InfiniBand errors end in a finite time", "InfiniBand 错误会在有限时间内报出"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> list[Result] | Result | None:
    known = settings(host)
    timeout, retries = integer(known.get("NCCL_IB_TIMEOUT")), integer(known.get("NCCL_IB_RETRY_CNT"))
    out: list[Result] = []
    if timeout is not None and not 1 <= timeout <= 31:
        out.append(PROBE.fail(
            timeout, "1 to 31",
            Text("{shown}: the timeout is infinite, a broken link hangs the job instead of ending it",
                 "{shown}：超时为无穷大，链路故障时作业会挂起而不是报错", shown=known["NCCL_IB_TIMEOUT"].shown),
            Text("NCCL_IB_TIMEOUT=20, the default (30 s with 7 retries)",
                 "NCCL_IB_TIMEOUT=20（默认值，7 次重试共 30 秒）"),
        ))  # fmt: skip
    if retries is not None and not 0 <= retries <= 7:
        out.append(PROBE.warn(
            retries, "0 to 7",
            Text("{shown}: values are 0 to 7", "{shown}：取值范围为 0 到 7", shown=known["NCCL_IB_RETRY_CNT"].shown),
            removal(known["NCCL_IB_RETRY_CNT"]),
        ))  # fmt: skip
    if out or timeout is None:
        return out or None
    wait = 4.096e-6 * 2**timeout * (7 if retries is None else retries)
    return PROBE.ok(
        timeout,
        "1 to 31",
        Text("an InfiniBand error shows after {s} s", "InfiniBand 错误在 {s} 秒后报出", s=f"{wait:.1f}"),
    )
