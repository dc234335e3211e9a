"""Step marks from trainers, where the optimizer's own steps do not tell (several optimizers, compiled steps).

from torchvet.run.callbacks import lightning, transformers

Trainer(callbacks=[lightning("runs/a")])                  # Lightning 2.x and pytorch_lightning
Trainer(..., callbacks=[transformers("runs/a")])          # Hugging Face transformers
"""

from __future__ import annotations

from . import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lightning(out: str = "", **settings: object) -> Any:
    """A Lightning callback that starts to watch when fitting begins and marks each training batch. ImportError: neither
    `lightning` nor `pytorch_lightning` is installed."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class Torchvet(Callback):  # type: ignore[misc, unused-ignore]
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            self.watch = start(out, **settings)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.watch.step()

    return Torchvet()


def transformers(out: str = "", **settings: object) -> Any:
    """A transformers `TrainerCallback` that starts to watch when training begins and marks each step. ImportError:
    `transformers` is not installed."""
    from transformers import TrainerCallback

    class Torchvet(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch = start(out, **settings)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.step()

    return Torchvet()
