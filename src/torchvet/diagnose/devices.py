"""Table: what the Xid numbers of NVIDIA's driver mean. Only those that tell of the device itself.

NVIDIA, "Xid Errors" (docs.nvidia.com/deploy/xid-errors), and the catalogue of leptonai/gpud. Numbers that mostly
follow a fault of the program or a teardown (13, 31, 43, 45, 69) accuse no device and are not here.
"""

from __future__ import annotations

from torchvet.findings import Text

HARDWARE: dict[int, tuple[Text, Text]] = {
    79: (
        Text("fell off the PCIe bus", "从 PCIe 总线上掉线"),
        Text("drain the node; reset it; check power, cooling and slot; if it returns, replace the GPU",
             "排空节点；重置或断电重启；检查供电、散热与插槽；再次出现则更换 GPU"),
    ),
    48: (
        Text("has an uncorrectable memory error (double-bit ECC)", "发生不可纠正的显存错误（双比特 ECC）"),
        Text("reset the GPU; look at nvidia-smi -q -d ECC,ROW_REMAPPER",
             "重置 GPU；查看 nvidia-smi -q -d ECC,ROW_REMAPPER"),
    ),
    94: (
        Text("has a contained memory error (ECC)", "发生被隔离的显存错误（ECC）"),
        Text("restart the job; reset the GPU when the node is free", "重启作业；节点空闲时重置 GPU"),
    ),
    95: (
        Text("has an uncontained memory error (ECC)", "发生未被隔离的显存错误（ECC）"),
        Text("drain the node and reset the GPU", "排空节点并重置 GPU"),
    ),
    64: (
        Text("could not remap a bad row of its memory", "无法重映射显存中的坏行"),
        Text("reset the GPU; replace it if that fails again", "重置 GPU；若再次失败则更换"),
    ),
    74: (
        Text("has an NVLink error", "发生 NVLink 错误"),
        Text("look at nvidia-smi nvlink -e; reset the GPUs of the node", "查看 nvidia-smi nvlink -e；重置该节点的 GPU"),
    ),
    119: (
        Text("does not answer its driver (GSP timeout)", "不响应驱动（GSP 超时）"),
        Text("reset the GPU; update the driver", "重置 GPU；更新驱动"),
    ),
    120: (
        Text("reports an error of its system processor (GSP)", "其系统处理器（GSP）报错"),
        Text("reset the GPU; update the driver", "重置 GPU；更新驱动"),
    ),
    62: (
        Text("halted its internal micro-controller", "内部微控制器停止"),
        Text("reset the GPU; replace it if it returns", "重置 GPU；再次出现则更换"),
    ),
}  # fmt: skip
HARDWARE.update(dict.fromkeys(range(144, 151), HARDWARE[74]))  # NVLink 5
"""Xid number -> (what happened to the GPU, what to do)."""

FIRST = (79, 48)
"""Numbers that are the fault where one GPU has several: a GPU that is gone answers nothing, and after a double-bit
error (48) the driver says whether it could be contained (94) or not (95)."""
UNCONTAINED = 95
