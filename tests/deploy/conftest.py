"""Programs made of deployment files."""

from __future__ import annotations

import textwrap

import pytest

from torchvet.check.flow.deploy import Deploy
from torchvet.check.program.program import Program
from torchvet.check.source.walk import DEPLOYMENT


@pytest.fixture
def deploy():
    """deploy({name: text}): the reader of these files; what its guard catches is raised."""

    def make(files: dict[str, str]) -> Deploy:
        texts = {name: textwrap.dedent(text) for name, text in files.items()}
        program = Program("/nowhere", [], texts.get)
        program.others = dict.fromkeys(texts, DEPLOYMENT)
        return Deploy(program)

    return make


@pytest.fixture(autouse=True)
def failures_are_raised(monkeypatch):
    monkeypatch.setenv("TORCHVET_DEBUG", "1")
