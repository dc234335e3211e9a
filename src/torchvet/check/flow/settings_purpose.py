"""What a program with a loader is for: a loader may be the process pool of a script that prepares data once."""

from __future__ import annotations

from ..source.patterns import Later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.model import Module
    from ..program.program import Program

LEARNS = (
    "backward(", ".eval()", "optim", ".cuda(", ".to(", "training_step", "nn.Module", "init_process_group", "Trainer",
    "TrainingArguments", ".fit(", "Accelerator(", "Fabric(", "deepspeed", ".train()",
)  # fmt: skip
"""Signs of a model that is trained or asked, or of a device."""
RUNS_THROUGH = Later(r"\bfor [^\n]* in [^\n]*[lL]oader\b")
WRITES = ("Writer(", ".write(", ".to_parquet(", ".save_to_disk(", "np.save(")


def prepares_data(program: Program, module: Module) -> bool:
    """A script (it has a `__main__` part), or the module of a command that runs through its loader and writes, without
    any sign of a model or a device: nothing waits for its workers on several ranks, and nothing else runs beside
    them."""
    text = program.text(module.path) or ""
    if any(word in text for word in LEARNS):
        return False
    return "__main__" in text or (any(w in text for w in WRITES) and RUNS_THROUGH.search(text) is not None)
