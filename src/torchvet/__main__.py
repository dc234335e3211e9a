"""`python -m torchvet`."""

from torchvet.cli import console

console()
