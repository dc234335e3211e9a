"""torchvet vets PyTorch training: the code, the machine, the job and what is left of it."""

__version__ = "0.1.0"
