"""Evidence from the job: what a crash would destroy, kept while the job runs.

`torchvet run --out DIR -- COMMAND` needs no change to the script. Where three lines in the script are preferred:

    import torchvet.run
    watch = torchvet.run.start("runs/a")   # once per process; the rank is found when the process group starts
    ...
    watch.step()                           # optional: optimizer steps are counted anyway

This package lives inside users' jobs: it imports the standard library and `torchvet.findings` only, torch when the job
has it, and never lets a failure of its own reach the job.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .rank import Watch

__all__ = ["start"]


def start(out: str = "", **settings: object) -> Watch:
    """Keep evidence of this process in the folder `out` (default: $TORCHVET_RUN_DIR, else "torchvet-run").

    `settings`: the switches of `torchvet run` by name (`recorder=False`, `graphs=False`, `stall=120.0` seconds ...).
    Gives the Watch of this process; a second call gives the same. Never raises for what it cannot do.
    """
    from .rank import attach

    return attach(out, settings)
