"""The command line in this process."""

from __future__ import annotations

import os

import pytest


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def torchvet(capsys, monkeypatch):
    """Run the command line: `torchvet("diagnose", folder)`."""
    from torchvet.cli import main

    for name in list(os.environ):
        if name.startswith(("TORCHVET_", "LC_")) or name in ("CI", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(w) for w in words])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run
