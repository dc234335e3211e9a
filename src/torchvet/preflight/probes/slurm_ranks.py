"""Slurm's tasks against the ranks of torchrun."""

from __future__ import annotations

import re

from torchvet.findings import Text

from ..probe import Host, Plan, Probe, Result
from ..quantity import whole
from ..ranks import TORCHRUN, launch

PROBE = Probe(
    name="slurm-ranks", area="launch",
    summary=Text("Slurm tasks and ranks of the launcher fit together", "Slurm 任务数与启动器的 rank 一致"),
)  # fmt: skip


@PROBE.check
def check(host: Host, plan: Plan) -> Result | None:
    env = host.env
    tasks, procid = whole(env.get("SLURM_STEP_NUM_TASKS")), whole(env.get("SLURM_PROCID"))
    if not env.get("SLURM_JOB_ID"):
        return None
    place = launch(env)
    if place is not None and place.launcher == TORCHRUN:
        here = _tasks_on_node(env.get("SLURM_STEP_TASKS_PER_NODE", ""))
        local = place.local_world or 1
        if here is not None and here > 1 and tasks:
            return PROBE.fail(
                here, 1,
                Text("srun started {here} tasks on a node and each of them torchrun with {local} ranks: {n} "
                     "processes on {local} GPUs",
                     "srun 在一个节点启动了 {here} 个任务，每个又用 torchrun 启动 {local} 个 rank：共"
                     " {n} 个进程争用 {local} 个 GPU",
                     here=here, local=local, n=here * local),
                Text("#SBATCH --ntasks-per-node=1 with torchrun, or srun without torchrun",
                     "使用 torchrun 时设 #SBATCH --ntasks-per-node=1，或只用 srun 不用 torchrun"),
            )  # fmt: skip
        if tasks and place.local_world and place.world != tasks * place.local_world:
            return PROBE.warn(
                place.world, tasks * place.local_world,
                Text("torchrun has {world} ranks; {tasks} nodes with {local} each are {n}",
                     "torchrun 共有 {world} 个 rank；{tasks} 个节点各 {local} 个应为 {n} 个",
                     world=place.world, tasks=tasks, local=place.local_world, n=tasks * place.local_world),
                Text("torchrun --nnodes $SLURM_NNODES", "torchrun --nnodes $SLURM_NNODES"),
            )  # fmt: skip
        return PROBE.ok(tasks, None, Text("one torchrun on each node", "每个节点一个 torchrun"))
    rank, world = whole(env.get("RANK")), whole(env.get("WORLD_SIZE"))
    if rank is None or procid is None or tasks is None or tasks < 2:
        return None
    if rank != procid or (world is not None and world != tasks):
        return PROBE.fail(
            f"RANK={rank} WORLD_SIZE={world}", f"SLURM_PROCID={procid} tasks={tasks}",
            Text("RANK={rank} of {world}, and Slurm says task {procid} of {tasks}",
                 "RANK={rank}（共 {world}），而 Slurm 显示任务 {procid}（共 {tasks}）",
                 rank=rank, world=world if world is not None else "?", procid=procid, tasks=tasks),
            Text("set them inside the step: srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS … '",
                 "在作业步内设置：srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS … '"),
        )  # fmt: skip
    return PROBE.ok(
        rank,
        tasks,
        Text(
            "rank {rank} of {tasks} is task {procid}",
            "rank {rank}（共 {tasks}）即任务 {procid}",
            rank=rank,
            tasks=tasks,
            procid=procid,
        ),
    )


def _tasks_on_node(text: str) -> int | None:
    """The most tasks of a node in "8(x2),4"."""
    counts = [int(x) for x in re.findall(r"(?:^|,)\s*(\d{1,5})", text)]
    return max(counts) if counts else None
